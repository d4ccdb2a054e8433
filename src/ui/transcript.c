#include "ui/transcript.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/sanitise.h"
#include "chat/view.h"
#include "ui/scrollback.h"

struct transcript {
    struct scrollback *rows;
    struct message **shown; /* message i of the path, held */
    size_t n_shown, cap_shown;
    size_t since; /* blocks from here on belong to the line that is being handled */
    size_t reply; /* the message that the running turn writes */
};

struct transcript *transcript_new(void)
{
    struct transcript *t = mem_zalloc(1, sizeof *t);
    t->rows = scrollback_new();
    scrollback_fold(t->rows, true);
    return t;
}

static void forget_from(struct transcript *t, size_t n)
{
    while (t->n_shown > n)
        message_release(t->shown[--t->n_shown]);
}

void transcript_free(struct transcript *t)
{
    if (!t) return;
    forget_from(t, 0);
    free(t->shown);
    scrollback_free(t->rows);
    free(t);
}

struct scrollback *transcript_scrollback(struct transcript *t)
{
    return t->rows;
}

void transcript_begin(struct transcript *t, const char *command)
{
    t->since = scrollback_n_blocks(t->rows);
    if (command)
        scrollback_put(t->rows, BLOCK_COMMAND, SCROLLBACK_NO_MESSAGE, command, strlen(command));
}

void transcript_say(struct transcript *t, enum face_level level, const char *text)
{
    static const enum block_kind kinds[] = {
        [FACE_INFO] = BLOCK_NOTE,
        [FACE_LITERAL] = BLOCK_LITERAL,
        [FACE_WARNING] = BLOCK_WARNING,
        [FACE_ERROR] = BLOCK_ERROR,
    };
    scrollback_put(t->rows, kinds[level], SCROLLBACK_NO_MESSAGE, text, strlen(text));
}

/* ---- messages ---- */

static void put_filtered(struct transcript *t, enum block_kind kind, size_t i, const char *s,
                         size_t n)
{
    struct buf clean = {0};
    sanitise_all(s, n, &clean);
    if (clean.len > 0) scrollback_put(t->rows, kind, i, clean.data, clean.len);
    buf_free(&clean);
}

static void put_message(struct transcript *t, size_t i, const struct message *m, bool reasoning)
{
    if (m->role == ROLE_USER) {
        put_filtered(t, BLOCK_USER, i, m->text, m->len);
        return;
    }
    if (reasoning && m->reasoning_len > 0)
        put_filtered(t, BLOCK_REASONING, i, m->text + m->reasoning_at, m->reasoning_len);
    scrollback_end_reasoning(t->rows);
    put_filtered(t, BLOCK_REPLY, i, m->answer, m->answer_len);
}

static void hold(struct transcript *t, const struct message *m)
{
    MEM_GROW(t->shown, t->n_shown, t->cap_shown);
    t->shown[t->n_shown++] = message_retain(m);
}

struct note {
    enum block_kind kind;
    char *text;
    size_t len;
};

/* Takes the notes of the line that is being handled out of what will be cut. */
static struct note *take_notes(struct transcript *t, size_t *n)
{
    size_t end = scrollback_n_blocks(t->rows);
    struct note *notes = mem_zalloc(end - t->since + 1, sizeof *notes);
    *n = 0;
    for (size_t i = t->since; i < end; i++) {
        struct scrollback_block b = scrollback_block(t->rows, i);
        if (b.message != SCROLLBACK_NO_MESSAGE || b.kind == BLOCK_FIGURES) continue;
        notes[(*n)++] = (struct note){b.kind, mem_strndup(b.text, b.len), b.len};
    }
    return notes;
}

static void put_notes(struct transcript *t, struct note *notes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        scrollback_put(t->rows, notes[i].kind, SCROLLBACK_NO_MESSAGE, notes[i].text,
                       notes[i].len);
        free(notes[i].text);
    }
    free(notes);
}

/* The first block of message i or of one after it. */
static size_t block_of(const struct transcript *t, size_t message)
{
    size_t n = scrollback_n_blocks(t->rows);
    for (size_t i = 0; i < n; i++) {
        struct scrollback_block b = scrollback_block(t->rows, i);
        if (b.message != SCROLLBACK_NO_MESSAGE && b.message >= message) return i;
    }
    return n;
}

void transcript_sync(struct transcript *t, const struct chat *c, bool reasoning)
{
    size_t n_path, same = 0, n_notes;
    const struct message *const *path = chat_path_now(c, &n_path);
    while (same < n_path && same < t->n_shown && path[same] == t->shown[same])
        same++;
    size_t cut = block_of(t, same);
    if (same == n_path && cut == scrollback_n_blocks(t->rows)) return;
    struct note *notes = take_notes(t, &n_notes);
    if (cut > t->since) cut = t->since;
    scrollback_cut(t->rows, cut);
    forget_from(t, same);
    for (size_t i = same; i < n_path; i++) {
        put_message(t, i, path[i], reasoning);
        hold(t, path[i]);
    }
    t->since = scrollback_n_blocks(t->rows);
    put_notes(t, notes, n_notes);
}

/* ---- a turn ---- */

/* The reply that goes on stays in one piece: its figures and the command go. What else was
 * noted behind it stays, and the rest of the reply comes after it. */
static void join_reply(struct transcript *t)
{
    size_t n = scrollback_n_blocks(t->rows), at = n;
    while (at > 0) {
        struct scrollback_block b = scrollback_block(t->rows, at - 1);
        if (b.kind != BLOCK_FIGURES && (b.kind != BLOCK_COMMAND || at - 1 < t->since)) break;
        at--;
    }
    if (at == 0 || at == n || scrollback_block(t->rows, at - 1).message != t->reply) return;
    scrollback_cut(t->rows, at);
    t->since = at;
}

void transcript_turn(struct transcript *t, const struct chat *c, bool reasoning)
{
    size_t n;
    transcript_sync(t, c, reasoning);
    const struct message *const *path = chat_path_now(c, &n);
    bool goes_on = n > 0 && path[n - 1]->role == ROLE_REPLY;
    t->reply = goes_on ? n - 1 : n;
    if (goes_on) join_reply(t);
}

void transcript_text(struct transcript *t, enum face_part part, const char *s, size_t n)
{
    enum block_kind kind = part == FACE_REASONING ? BLOCK_REASONING : BLOCK_REPLY;
    size_t n_blocks = scrollback_n_blocks(t->rows);
    struct scrollback_block last = {.message = SCROLLBACK_NO_MESSAGE};
    if (n_blocks > 0) last = scrollback_block(t->rows, n_blocks - 1);
    if (last.message != t->reply || last.kind != kind) {
        if (part == FACE_REPLY) scrollback_end_reasoning(t->rows);
        scrollback_add(t->rows, kind, t->reply);
    }
    scrollback_append(t->rows, s, n);
}

void transcript_end(struct transcript *t, const struct chat *c, bool reasoning,
                    const char *figures)
{
    size_t n;
    const struct message *const *path = chat_path_now(c, &n);
    scrollback_end_reasoning(t->rows);
    /* The reply that was shown as it came is this message now. */
    if (n == t->reply + 1 && path[t->reply]->role == ROLE_REPLY && t->n_shown >= t->reply) {
        forget_from(t, t->reply);
        hold(t, path[t->reply]);
    }
    transcript_sync(t, c, reasoning);
    if (*figures)
        scrollback_put(t->rows, BLOCK_FIGURES, n > 0 ? n - 1 : SCROLLBACK_NO_MESSAGE, figures,
                       strlen(figures));
}
