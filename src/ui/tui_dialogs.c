/* What the dialogs of the full-screen view list. */
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/readable.h"
#include "chat/commands.h"
#include "chat/sessions.h"
#include "chat/view.h"
#include "ui/screen.h"
#include "ui/tui_impl.h"
#include "ui/wrap.h"

static void open_dialog(struct tui *t)
{
    if (t->mode != MODE_DIALOG) t->below = t->mode;
    t->mode = MODE_DIALOG;
}

static void add(struct tui *t, const struct buf *text, const char *line)
{
    dialog_add(&t->dialog, buf_str(text), line);
}

/* Blanks up to a column from the beginning of out. */
static void pad(struct buf *out, int column)
{
    for (int x = wrap_width(buf_str(out), out->len, 0); x < column; x++)
        buf_putc(out, ' ');
}

/* ---- help ---- */

/* What a key does stands beside it, in as many rows as that takes; below it on a narrow screen.
 */
static void add_key(struct tui *t, const char *keys, const char *help)
{
    enum { BESIDE = 26, BELOW = 2, LEAST = 30 };
    const int columns = screen_columns() - DIALOG_FRAME;
    const bool is_narrow = columns < BESIDE + LEAST;
    const int margin = is_narrow ? BELOW : BESIDE;
    struct buf row = {0};
    buf_puts(&row, keys);
    if (is_narrow) {
        add(t, &row, NULL);
        buf_clear(&row);
    }
    size_t n = strlen(help);
    for (struct wrap_row part = {0}; n > 0; help += part.next, n -= part.next) {
        part = wrap_row(help, n, columns > margin + 1 ? columns - margin : 1);
        pad(&row, margin);
        buf_append(&row, help, part.len);
        add(t, &row, NULL);
        buf_clear(&row);
        if (part.next == 0) break;
    }
    buf_free(&row);
}

static void add_heading(struct tui *t, const char *heading)
{
    if (t->dialog.n > 0) dialog_add(&t->dialog, "", NULL);
    dialog_add(&t->dialog, heading, NULL);
}

static void add_commands(struct tui *t)
{
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        struct buf name = {0};
        buf_printf(&name, "/%s %s", command->name, command->args);
        add_key(t, buf_str(&name), command->help);
        buf_free(&name);
    }
}

void tui_help(struct tui *t)
{
    dialog_begin(&t->dialog, "help", false);
    add_heading(t, "Beside the line");
    for (int i = 1; i < N_ACTIONS; i++) {
        const struct action_row *row = action_row((enum action)i);
        if (*row->line) add_key(t, row->line, row->help);
    }
    add_key(t, "Alt-Enter, C-j", "break the line; Return sends it");
    add_key(t, "C-x C-e", "edit the line in $VISUAL or $EDITOR");
    add_key(t, "C-c", "stop the reply; otherwise give up the line");
    add_key(t, "C-d", "leave, on an empty line");
    add_heading(t, "In the transcript and in dialogs");
    for (int i = 1; i < N_ACTIONS; i++) {
        const struct action_row *row = action_row((enum action)i);
        if (*row->view) add_key(t, row->view, row->help);
    }
    add_heading(t, "Commands");
    add_commands(t);
    t->dialog.columns = screen_columns();
    open_dialog(t);
}

void tui_fit_dialog(struct tui *t)
{
    const size_t n = t->dialog.n, top = t->dialog.top;
    if (t->dialog.columns == 0 || t->dialog.columns == screen_columns()) return;
    tui_help(t);
    t->dialog.top = top * t->dialog.n / n;
}

/* What stands before the columns of a row: a mark and a name, filtered. */
static void label(struct buf *out, bool is_here, const char *name)
{
    char shown[64];
    printable(shown, sizeof shown, name, strlen(name));
    buf_printf(out, "%c %s", is_here ? '*' : ' ', shown);
}

/* Raises *column to where the label of that name ends. */
static void make_room(int *column, const char *name)
{
    struct buf text = {0};
    label(&text, false, name);
    int width = wrap_width(buf_str(&text), text.len, 0);
    if (width > *column) *column = width;
    buf_free(&text);
}

/* ---- branches ---- */

static void name_of(const struct branch *b, struct buf *out)
{
    buf_clear(out);
    buf_printf(out, "%u %s", b->number, b->name ? b->name : "-");
}

static int branch_column(const struct conversation *c)
{
    struct buf name = {0};
    int column = 16;
    for (size_t i = 0; i < conversation_n_branches(c); i++) {
        name_of(conversation_branch(c, i), &name);
        make_room(&column, name.data);
    }
    buf_free(&name);
    return column;
}

void tui_branches(struct tui *t)
{
    const struct conversation *c = chat_conversation(t->chat);
    const struct branch *current = conversation_current(c);
    const int column = branch_column(c);
    dialog_begin(&t->dialog, "branches", true);
    for (size_t i = 0; i < conversation_n_branches(c); i++) {
        const struct branch *b = conversation_branch(c, i);
        const struct message *last = branch_last_user(b);
        struct buf row = {0}, line = {0}, name = {0};
        char words[64], messages[READABLE_BYTES];
        name_of(b, &name);
        label(&row, b == current, name.data);
        pad(&row, column);
        buf_printf(&row, " %s  %s", readable_count_column(messages, branch_n(b), "message"),
                   last ? printable(words, sizeof words, last->text, last->len) : "");
        buf_printf(&line, "/switch %u", b->number);
        if (b == current) t->dialog.selected = i;
        add(t, &row, line.data);
        buf_free(&row);
        buf_free(&line);
        buf_free(&name);
    }
    open_dialog(t);
}

/* ---- sessions ---- */

static void add_session(struct tui *t, const struct session_file *file, const char *here,
                        int column)
{
    struct buf row = {0}, line = {0};
    char name[64];
    printable(name, sizeof name, file->name, strlen(file->name));
    bool is_here = strcmp(name, here) == 0;
    label(&row, is_here, file->name);
    pad(&row, column);
    buf_puts(&row, "  ");
    session_put_row(file, false, &row);
    buf_printf(&line, "/load %s", file->name);
    if (is_here) t->dialog.selected = t->dialog.n;
    add(t, &row, line.data);
    buf_free(&row);
    buf_free(&line);
}

static void add_more(struct tui *t, size_t n)
{
    struct buf row = {0};
    buf_printf(&row, "and %zu more: hearth sessions lists all", n);
    add(t, &row, NULL);
    buf_free(&row);
}

void tui_sessions(struct tui *t)
{
    enum { MOST = 100 };
    struct session_list list;
    struct err err;
    struct chat_status status = chat_status(t->chat);
    dialog_begin(&t->dialog, "sessions", true);
    if (status.saved == CHAT_PRIVATE)
        dialog_add(&t->dialog, "--private: no session is read or saved", NULL);
    else if (!sessions_list(&list, &err))
        dialog_add(&t->dialog, err.msg, NULL);
    else {
        int column = 20;
        for (size_t i = 0; i < list.n && i < MOST; i++)
            make_room(&column, list.items[i].name);
        for (size_t i = 0; i < list.n && i < MOST; i++)
            add_session(t, &list.items[i], status.session, column);
        if (list.n > MOST) add_more(t, list.n - MOST);
        if (list.n == 0) dialog_add(&t->dialog, "no session has been saved yet", NULL);
        session_list_free(&list);
    }
    open_dialog(t);
}
