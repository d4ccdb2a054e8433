#include "ui/recap.h"

#include <string.h>

#include "chat/sanitise.h"
#include "chat/view.h"
#include "ui/output.h"

/* What a screen has room for, above it the greeting. */
enum { REPLY_LINES = 12, REPLY_BYTES = 1500, MESSAGE_LINES = 4, MESSAGE_BYTES = 400 };

static bool begins_character(const char *s)
{
    return (*s & 0xc0) != 0x80;
}

size_t recap_tail(const char *s, size_t n, size_t n_lines, size_t n_bytes)
{
    size_t at = n, lines = 0, word = n;
    while (at > 0 && n - (at - 1) <= n_bytes) {
        if (s[at - 1] == '\n' && at < n && ++lines == n_lines) return at;
        at--;
        if (at > 0 && s[at - 1] == ' ') word = at;
    }
    if (at == 0) return 0;
    const char *line = memchr(s + at, '\n', n - at);
    /* Rather the half of a long line than the short one behind it. */
    if (line && (size_t)(line - (s + at)) < (n - at) / 2) return (size_t)(line + 1 - s);
    if (word < n) return word;
    while (at < n && !begins_character(s + at))
        at++;
    return at;
}

static void put_left_out(struct buf *out, const struct term *t)
{
    buf_printf(out, "%s...%s\n", term_on(t, STYLE_DIM), term_off(t));
}

static void put_typed(struct buf *out, const struct term *t, const char *s, size_t n,
                      bool accessible)
{
    if (accessible)
        buf_puts(out, "You: ");
    else
        buf_printf(out, "%s>%s ", term_on(t, STYLE_PROMPT), term_off(t));
    sanitise_all(s, n, out);
    buf_putc(out, '\n');
}

void recap_typed(const struct term *t, const char *s, size_t n, bool accessible)
{
    struct buf out = {0};
    put_typed(&out, t, s, n, accessible);
    output_write(t->fd, out.data, out.len);
    buf_free(&out);
}

static void show_reply(const struct term *t, const struct message *m, bool accessible)
{
    struct output to = {.fd = t->fd};
    struct buf clean = {0}, left_out = {0};
    sanitise_all(m->answer, m->answer_len, &clean);
    const size_t at = recap_tail(buf_str(&clean), clean.len, REPLY_LINES, REPLY_BYTES);
    if (accessible) output_write(t->fd, "Assistant:\n", 11);
    if (at > 0) put_left_out(&left_out, t);
    output_write(t->fd, buf_str(&left_out), left_out.len);
    output_begin(&to, t->colour, term_flow_width(t));
    /* Inside a code block its looks go on. */
    if (at > 0) output_resume(&to, clean.data, at);
    output_text(&to, buf_str(&clean) + at, clean.len - at);
    output_end(&to);
    flow_free(&to.flow);
    buf_free(&to.scratch);
    buf_free(&clean);
    buf_free(&left_out);
}

void recap_show(const struct term *t, const struct chat *c, bool accessible)
{
    size_t n;
    const struct message *const *path = chat_path_now(c, &n);
    if (n == 0) return;
    const struct message *reply = path[n - 1]->role == ROLE_REPLY ? path[n - 1] : NULL;
    const struct message *asked = n > (reply != NULL) ? path[n - 1 - (reply != NULL)] : NULL;
    if (asked && asked->role == ROLE_USER) {
        struct buf shown = {0};
        const size_t at = recap_tail(asked->text, asked->len, MESSAGE_LINES, MESSAGE_BYTES);
        if (at > 0) put_left_out(&shown, t);
        output_write(t->fd, buf_str(&shown), shown.len);
        recap_typed(t, asked->text + at, asked->len - at, accessible);
        buf_free(&shown);
    }
    /* A reply that ended in its reasoning has nothing to show. */
    if (reply && reply->answer_len > 0) show_reply(t, reply, accessible);
    output_write(t->fd, "\n", 1);
}
