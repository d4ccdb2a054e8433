#include "text/spans.h"

#include <stdlib.h>

#include "base/mem.h"

static void extend(struct spans *s, enum span_kind kind, size_t start, size_t n)
{
    if (s->n && s->list[s->n - 1].kind == kind) {
        s->list[s->n - 1].n += n;
        return;
    }
    MEM_GROW(s->list, s->n, s->cap);
    s->list[s->n++] = (struct span){kind, start, n};
}

static void append_bytes(struct spans *s, enum span_kind kind, const char *text, size_t n)
{
    if (n == 0) return;
    extend(s, kind, s->bytes.len, n);
    buf_append(&s->bytes, text, n);
}

void spans_markup(struct spans *s, const char *text, size_t n)
{
    append_bytes(s, SPAN_MARKUP, text, n);
}

void spans_text(struct spans *s, const char *text, size_t n)
{
    append_bytes(s, SPAN_TEXT, text, n);
}

void spans_ids(struct spans *s, const int32_t *ids, size_t n)
{
    if (n == 0) return;
    extend(s, SPAN_IDS, s->ids.n, n);
    ids_append(&s->ids, ids, n);
}

const char *spans_bytes_of(const struct spans *s, const struct span *span)
{
    return buf_str(&s->bytes) + span->start;
}

const int32_t *spans_ids_of(const struct spans *s, const struct span *span)
{
    return s->ids.data + span->start;
}

void spans_append(struct spans *s, const struct spans *other)
{
    for (size_t i = 0; i < other->n; i++) {
        const struct span *span = &other->list[i];
        if (span->kind == SPAN_IDS)
            spans_ids(s, spans_ids_of(other, span), span->n);
        else
            append_bytes(s, span->kind, spans_bytes_of(other, span), span->n);
    }
}

void spans_clear(struct spans *s)
{
    s->n = 0;
    buf_clear(&s->bytes);
    ids_clear(&s->ids);
}

void spans_free(struct spans *s)
{
    free(s->list);
    buf_free(&s->bytes);
    ids_free(&s->ids);
    *s = (struct spans){0};
}
