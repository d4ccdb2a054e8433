#include "text/detokenize.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer.h"

static const char replacement[] = "\xef\xbf\xbd";

void detokenizer_init(struct detokenizer *d, const struct tokenizer *tok, bool show_control)
{
    *d = (struct detokenizer){.tok = tok, .show_control = show_control};
}

void detokenizer_add(struct detokenizer *d, int32_t id, struct buf *out)
{
    if (!d->show_control && tokenizer_is_control(d->tok, id)) return;
    struct piece p = tokenizer_piece(d->tok, id);
    detokenizer_bytes(d, p.data, p.len, out);
}

static void put_invalid(struct detokenizer *d, struct buf *out)
{
    d->invalid = true;
    buf_puts(out, replacement);
}

/* Writes the whole characters of s[0..n); what an unfinished one at the end has is held. */
static void pass(struct detokenizer *d, const char *s, size_t n, struct buf *out)
{
    size_t tail = utf8_partial_tail(s, n), at = 0;
    memcpy(d->held, s + n - tail, tail);
    d->n_held = tail;
    n -= tail;
    if (utf8_valid(s, n)) {
        buf_append(out, s, n);
        return;
    }
    while (at < n) {
        uint32_t cp;
        int len = utf8_decode(s + at, n - at, &cp);
        if (len > 0) {
            buf_append(out, s + at, (size_t)len);
            at += (size_t)len;
        } else {
            put_invalid(d, out);
            at += utf8_bad_len(s + at, n - at);
        }
    }
}

void detokenizer_bytes(struct detokenizer *d, const char *bytes, size_t n, struct buf *out)
{
    /* While something is held, go on byte by byte: at most three until it is whole or broken.
     */
    while (d->n_held && n) {
        char joined[sizeof d->held + 1];
        size_t len = d->n_held;
        memcpy(joined, d->held, len);
        joined[len++] = *bytes++;
        n--;
        pass(d, joined, len, out);
    }
    if (n) pass(d, bytes, n, out);
}

void detokenizer_flush(struct detokenizer *d, struct buf *out)
{
    if (d->n_held) put_invalid(d, out);
    d->n_held = 0;
}

bool detokenize(const struct tokenizer *tok, const int32_t *ids, size_t n, struct buf *out)
{
    struct detokenizer d;
    detokenizer_init(&d, tok, true);
    for (size_t i = 0; i < n; i++)
        detokenizer_add(&d, ids[i], out);
    detokenizer_flush(&d, out);
    return !d.invalid;
}
