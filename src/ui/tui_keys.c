/* What keys do outside the line: moving, searching, choosing. */
#include <string.h>

#include "base/ascii.h"
#include "chat/chat.h"
#include "ui/edit_keys.h"
#include "ui/exit_status.h"
#include "ui/input_box.h"
#include "ui/keys.h"
#include "ui/signals.h"
#include "ui/tui_impl.h"

void tui_leave_mode(struct tui *t)
{
    /* A dialog over the line leaves the view where it is. */
    const enum tui_mode mode = t->mode == MODE_DIALOG ? t->below : t->mode;
    if (mode != MODE_LINE) t->view.follows = true;
    if (mode == MODE_SEARCH) scrollback_end_find(t->rows, true);
    buf_clear(&t->search.words);
    t->mode = MODE_LINE;
}

static void find(struct tui *t, bool backwards)
{
    struct scrollback_place from = t->search.was_found ? t->search.found : t->search.from;
    if (t->search.words.len == 0) return;
    t->search.was_found =
        scrollback_find(t->rows, buf_str(&t->search.words), backwards, from, &t->search.found);
    if (t->search.was_found)
        tui_show_place(t, t->search.found);
    else
        t->notice = "not found";
}

static void begin_search(struct tui *t)
{
    buf_clear(&t->search.words);
    scrollback_end_find(t->rows, false);
    t->search.was_found = false;
    t->search.from = tui_view_end(t);
    t->search.view = t->view;
    t->search.mode = t->mode;
    t->mode = MODE_SEARCH;
}

static void give_up_search(struct tui *t)
{
    buf_clear(&t->search.words);
    scrollback_end_find(t->rows, true);
    t->view.follows = t->search.view.follows;
    t->view.top = t->search.view.top;
    t->mode = t->search.mode;
}

static void choose(struct tui *t)
{
    struct buf line = {0};
    if (!dialog_choice(&t->dialog)) {
        t->mode = t->below;
        return;
    }
    if (chat_state(t->chat) != CHAT_IDLE) {
        t->was_refused = true;
        return;
    }
    buf_puts(&line, dialog_choice(&t->dialog));
    tui_leave_mode(t);
    t->view.follows = true;
    tui_submit(t, &line, false);
    buf_free(&line);
}

void tui_act(struct tui *t, enum action action)
{
    const long page = t->view.n_rows > 2 ? (long)t->view.n_rows - 1 : 1;
    if (action == ACTION_NONE) return;
    t->frame.is_due = true;
    const bool opens = action <= ACTION_SESSIONS; /* what takes the place of a dialog */
    if (t->mode == MODE_DIALOG && !opens && action != ACTION_REDRAW && action != ACTION_LEAVE) {
        dialog_act(&t->dialog, action);
        return;
    }
    switch (action) {
    case ACTION_HELP: tui_help(t); break;
    case ACTION_TRANSCRIPT:
        if (t->mode == MODE_TRANSCRIPT)
            tui_leave_mode(t);
        else
            t->mode = MODE_TRANSCRIPT;
        break;
    case ACTION_BRANCHES: tui_branches(t); break;
    case ACTION_SESSIONS: tui_sessions(t); break;
    case ACTION_REASONING: scrollback_fold(t->rows, !scrollback_folds(t->rows)); break;
    case ACTION_SEARCH: begin_search(t); break;
    case ACTION_OLDER: find(t, true); break;
    case ACTION_NEWER: find(t, false); break;
    case ACTION_PAGE_UP: tui_scroll(t, -page); break;
    case ACTION_PAGE_DOWN: tui_scroll(t, page); break;
    case ACTION_LINE_UP: tui_scroll(t, -1); break;
    case ACTION_LINE_DOWN: tui_scroll(t, 1); break;
    case ACTION_TOP: tui_scroll(t, -(long)scrollback_n_rows(t->rows)); break;
    case ACTION_BOTTOM: t->view.follows = true; break;
    case ACTION_REDRAW: t->frame.is_whole = true; break;
    case ACTION_LEAVE:
        if (t->mode == MODE_DIALOG)
            t->mode = t->below;
        else
            tui_leave_mode(t);
        break;
    case ACTION_NONE:
    case N_ACTIONS: break;
    }
}

/* The words are others now. */
static void find_anew(struct tui *t)
{
    scrollback_end_find(t->rows, true);
    t->search.was_found = false;
    find(t, true);
}

/* What is copied off a screen has line breaks where it had blanks. */
static void paste_words(struct tui *t)
{
    enum { MOST = 1024 };
    struct buf text = {0};
    edit_keys_read_paste(&text);
    const size_t n = ascii_without_ends(buf_str(&text), text.len);
    for (size_t i = 0; i < n; i++)
        if (text.data[i] == '\n' || text.data[i] == '\t') text.data[i] = ' ';
    if (n <= MOST) {
        buf_append(&t->search.words, buf_str(&text), n);
        find_anew(t);
    } else {
        t->notice = "too long to search for";
    }
    buf_free(&text);
}

static void search_key(struct tui *t, const char *key)
{
    if (strcmp(key, "Enter") == 0 && t->search.words.len > 0) {
        t->mode = MODE_TRANSCRIPT;
        if (!t->search.was_found) find(t, true);
        return;
    }
    if (strcmp(key, "Enter") == 0 || strcmp(key, "Esc") == 0) {
        give_up_search(t);
        return;
    }
    if (strcmp(key, "Backspace") == 0) {
        while (t->search.words.len > 0 &&
               (t->search.words.data[--t->search.words.len] & 0xc0) == 0x80)
            ;
        if (t->search.words.data) t->search.words.data[t->search.words.len] = '\0';
    } else if (strcmp(key, "C-u") == 0) {
        buf_clear(&t->search.words);
    } else if (strcmp(key, "Space") == 0) {
        buf_putc(&t->search.words, ' ');
    } else if (key[0] && (!key[1] || (key[0] & 0x80))) {
        buf_puts(&t->search.words, key);
    } else {
        const enum action action = action_of_key(key);
        if (action == ACTION_REDRAW || action == ACTION_HELP) tui_act(t, action);
        return;
    }
    find_anew(t);
}

void tui_key(struct tui *t)
{
    char key[KEY_NAME_MAX];
    if (!keys_read(key)) {
        t->status = signals_leaving() ? signals_leaving() : EXIT_DONE;
        return;
    }
    if (strcmp(key, "Paste") == 0 && t->mode == MODE_SEARCH) {
        paste_words(t);
    } else if (strcmp(key, "Paste") == 0) {
        tui_leave_mode(t);
        input_paste();
    } else if (t->mode == MODE_SEARCH) {
        search_key(t, key);
    } else if (t->mode == MODE_DIALOG && strcmp(key, "Enter") == 0) {
        choose(t);
    } else {
        tui_act(t, action_of_key(key));
    }
}
