/* A prompt in pieces: what a rendered conversation is before it becomes token ids.
 *
 * MARKUP is written by the template: special tokens are recognised in it. TEXT comes from a
 * user or a file: it is plain text whatever it spells. IDS are the tokens a model sampled
 * earlier: they are copied, and tokenisation never looks across their borders. The turn owns a
 * struct spans ({0} is an empty one) and frees it with spans_free; all bytes and ids are copied
 * in. Not shared between threads. Knows nothing of vocabularies. */
#ifndef TEXT_SPANS_H
#define TEXT_SPANS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ids.h"

enum span_kind { SPAN_MARKUP, SPAN_TEXT, SPAN_IDS };

struct span {
    enum span_kind kind;
    size_t start, n; /* where it lies in spans.bytes, or in spans.ids for SPAN_IDS */
};

struct spans {
    struct span *list;
    size_t n, cap;
    struct buf bytes;
    struct ids ids;
};

/* Each appends a copy of n bytes (or ids); nothing for n == 0. Neighbours of one kind join. */
void spans_markup(struct spans *s, const char *text, size_t n);
void spans_text(struct spans *s, const char *text, size_t n);
void spans_ids(struct spans *s, const int32_t *ids, size_t n);

/* The bytes of a MARKUP or TEXT span, the ids of an IDS span: until the next append. */
const char *spans_bytes_of(const struct spans *s, const struct span *span);
const int32_t *spans_ids_of(const struct spans *s, const struct span *span);

/* Appends all of another. */
void spans_append(struct spans *s, const struct spans *other);

/* Empties it but keeps the memory. */
void spans_clear(struct spans *s);
void spans_free(struct spans *s);

#endif
