/* A bracketed paste: what a terminal sends up to the mark that ends it.
 *
 * Bytes come in pieces of any size, the mark may lie across them. Nothing before it is ever a
 * key, whatever it looks like. The owner embeds the struct, {0} but for max, and frees it with
 * paste_free. Pure; one thread at a time. */
#ifndef UI_PASTE_H
#define UI_PASTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct paste {
    size_t max;      /* bytes that are kept */
    struct buf text; /* those so far, as they came */
    bool is_cut;     /* there were more */
    bool is_over;    /* the mark has come */
    size_t n_mark;   /* bytes of it that came last */
};

/* Takes s[0..n), or what of it stands before the end of the mark; returns how many bytes that
 * is.
 */
size_t paste_take(struct paste *p, const char *s, size_t n);
/* Nothing comes any more: the beginning of a mark was text. */
void paste_end(struct paste *p);
void paste_free(struct paste *p);

#endif
