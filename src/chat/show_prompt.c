/* /show prompt: the conversation as the model sees it, span by span. */
#include <string.h>

#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "engine/engine.h"
#include "text/spans.h"

enum { LABEL_WIDTH = 8 };

/* Appends a span: its label, then its text with every line break both named and taken. */
static void put_span(struct buf *out, const char *label, const char *s, size_t n)
{
    buf_printf(out, "%-*s", LABEL_WIDTH, label);
    for (size_t i = 0; i < n;) {
        const char *end = memchr(s + i, '\n', n - i);
        size_t len = end ? (size_t)(end - (s + i)) : n - i;
        buf_append(out, s + i, len);
        i += len;
        if (!end) continue;
        buf_puts(out, "\\n");
        if (++i < n) buf_printf(out, "\n%*s", LABEL_WIDTH, "");
    }
    buf_putc(out, '\n');
}

/* The beginning that the vocabulary asks for and the template has not written. */
static void put_added(struct chat *c, const struct spans *prompt, const struct ids *ids,
                      struct buf *out)
{
    struct spans none = {0};
    struct ids alone = {0};
    struct err ignored;
    struct buf bos = {0};
    bool adds = engine_prompt_ids(c->engine, &none, &alone, &ignored) && alone.n > 0;
    if (adds) engine_spell(c->engine, alone.data, alone.n, &bos);
    const struct span *first = prompt->n > 0 ? &prompt->list[0] : NULL;
    bool written = first && first->kind == SPAN_MARKUP && first->n >= bos.len &&
                   memcmp(spans_bytes_of(prompt, first), buf_str(&bos), bos.len) == 0;
    if (adds && !written && ids->n > 0) put_span(out, "added", bos.data, bos.len);
    ids_free(&alone);
    buf_free(&bos);
}

static void put_prompt(struct chat *c, const struct spans *prompt, const struct ids *ids,
                       struct buf *out)
{
    static const char *const labels[] = {
        [SPAN_MARKUP] = "markup", [SPAN_TEXT] = "text", [SPAN_IDS] = "reply"};
    put_added(c, prompt, ids, out);
    for (size_t i = 0; i < prompt->n; i++) {
        const struct span *span = &prompt->list[i];
        struct buf reply = {0};
        if (span->kind == SPAN_IDS) {
            engine_spell(c->engine, spans_ids_of(prompt, span), span->n, &reply);
            put_span(out, labels[span->kind], buf_str(&reply), reply.len);
        } else {
            put_span(out, labels[span->kind], spans_bytes_of(prompt, span), span->n);
        }
        buf_free(&reply);
    }
}

bool command_show_prompt(struct chat *c)
{
    if (conversation_n(c->conversation) == 0) {
        chat_tell(c, FACE_ERROR, "/show prompt: nothing has been said yet");
        return false;
    }
    struct spans prompt = {0};
    struct ids ids = {0};
    struct buf out = {0};
    struct err err;
    bool ok = turn_whole(c, &prompt, &err) && engine_prompt_ids(c->engine, &prompt, &ids, &err);
    if (ok) {
        put_prompt(c, &prompt, &ids, &out);
        chat_tell(c, FACE_LITERAL, "%s", buf_str(&out));
        chat_tell(c, FACE_INFO,
                  "%zu tokens. markup is the template's and may hold control tokens; text is "
                  "plain text, whatever it spells; reply is the tokens that were sampled.",
                  ids.n);
    } else {
        chat_tell(c, FACE_ERROR, "/show prompt: %s", err.msg);
    }
    spans_free(&prompt);
    ids_free(&ids);
    buf_free(&out);
    return ok;
}
