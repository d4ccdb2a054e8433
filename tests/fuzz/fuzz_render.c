/* What a person says is never markup, whatever the template does with it: up to the first NUL
 * the template, then up to each NUL a message in turn, in which every character is one that the
 * template does not have. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/conversation.h"
#include "chat/render.h"
#include "target.h"
#include "text/spans.h"

/* U+E000, private: only who says it can have it. */
static const char mark[] = "\xee\x80\x80";

/* A message of marks and of the blanks of s, which templates trim and split at. */
static void add(struct conversation *c, const char *s, size_t n)
{
    struct buf text = {0};
    for (size_t i = 0; i < n && i < 200; i++)
        if (s[i] == ' ' || s[i] == '\n')
            buf_putc(&text, s[i]);
        else
            buf_puts(&text, mark);
    const bool is_reply = conversation_n(c) % 2 == 1;
    struct message *m =
        message_new(is_reply ? ROLE_REPLY : ROLE_USER, buf_str(&text), text.len);
    if (is_reply) { /* as one that broke off: without ids */
        m->id_at = mem_zalloc(1, sizeof *m->id_at);
        m->answer = mem_strndup(buf_str(&text), text.len);
        m->answer_len = text.len;
    }
    conversation_add(c, m);
    buf_free(&text);
}

static void check(const struct spans *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->list[i].kind == SPAN_MARKUP &&
            memchr(spans_bytes_of(s, &s->list[i]), mark[0], s->list[i].n))
            abort();
}

/* Characters can also be made of numbers and escapes. */
static bool can_make_any(const char *s, size_t n)
{
    return memchr(s, mark[0], n) || memchr(s, '\\', n) || memchr(s, '%', n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const char *s = (const char *)data, *end = s + n_bytes;
    const char *stop = n_bytes ? memchr(s, 0, n_bytes) : NULL;
    const size_t n = stop ? (size_t)(stop - s) : n_bytes;
    struct err err;
    const struct render_config config = {
        .source = s, .len = n, .name = "fuzz", .bos_text = "<s>", .eos_text = "</s>"};
    struct renderer *r = renderer_new(&config, &err);
    if (!r) return 0;
    struct conversation *c = conversation_new();
    if (stop && n_bytes % 3 == 0) conversation_set_system(c, mark);
    for (const char *at = stop; at && conversation_n(c) < 6;) {
        at++;
        stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        add(c, at, (size_t)((stop ? stop : end) - at));
        at = stop;
    }
    if (conversation_n(c) % 2 == 0) add(c, "a question", 10);
    struct spans out = {0};
    bool folded;
    if (render_prompt(r, c, RENDER_THINK_DEFAULT, &out, &folded, &err) && !can_make_any(s, n))
        check(&out);
    spans_free(&out);
    conversation_free(c);
    renderer_free(r);
    return 0;
}
