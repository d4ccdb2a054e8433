/* Text through the tokenizer and back, and any bytes as a vocabulary. The first byte chooses:
 * one of the vocabularies of tests/data/vocab for the text that follows, or the rest is a GGUF
 * file whose last bytes are the text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "target.h"
#include "text/detokenize.h"
#include "text/reasoning.h"
#include "text/spans.h"
#include "text/tokenizer.h"

enum { FILE_ITSELF = 3, N_WAYS = 5, TAIL = 300 };

static const struct tokenizer *vocab(unsigned i)
{
    static const char *const names[] = {"bpe", "spm", "gemma4", NULL, "plamo2"};
    static struct tokenizer *open[N_WAYS];
    if (!open[i]) {
        struct err err;
        char path[100];
        snprintf(path, sizeof path, "tests/data/vocab/%s.gguf", names[i]);
        struct gguf *g = gguf_open(path, &err);
        open[i] = g ? tokenizer_open(g, NULL, &err) : NULL;
        if (!open[i]) {
            fprintf(stderr, "%s\n", err.msg);
            abort();
        }
        gguf_close(g);
    }
    return open[i];
}

/* exact: bytes come back as they were. (A foreign file may spell its own tokens in its own way;
 * the other vocabularies of ours read U+2581 as a space.) */
static void decode(const struct tokenizer *tok, const struct ids *ids, const char *text,
                   size_t len, bool exact)
{
    struct buf raw = {0}, shown = {0};
    struct detokenizer d;
    detokenizer_init(&d, tok, true);
    for (size_t i = 0; i < ids->n; i++) {
        struct piece p = tokenizer_piece(tok, ids->data[i]);
        buf_append(&raw, p.data, p.len);
        size_t at = shown.len;
        detokenizer_add(&d, ids->data[i], &shown);
        must(utf8_valid(buf_str(&shown) + at, shown.len - at));
    }
    detokenizer_flush(&d, &shown);
    if (exact) must(raw.len == len && memcmp(buf_str(&raw), text, len) == 0);
    if (exact && utf8_valid(text, len))
        must(shown.len == len && memcmp(buf_str(&shown), text, len) == 0);
    buf_free(&raw);
    buf_free(&shown);
}

struct heard {
    const struct reasoning *r;
    struct buf whole; /* with control tokens */
    size_t end;       /* of the last piece */
};

static void hear(void *ctx, enum reply_part part, const char *text, size_t len)
{
    (void)part;
    struct heard *h = ctx;
    size_t at = reasoning_piece_at(h->r);
    must(len > 0 && utf8_valid(text, len));
    must(at >= h->end && at + len <= h->whole.len);
    h->end = at + len;
}

/* Ids as a reply: the pieces lie in it one after the other. */
static void split(const struct tokenizer *tok, const struct ids *ids)
{
    struct heard h = {0};
    struct reasoning *r = reasoning_new(tok, hear, &h);
    struct detokenizer d;
    h.r = r;
    detokenizer_init(&d, tok, true);
    reasoning_prompt(r, ids->data, ids->n / 2);
    for (size_t i = 0; i < ids->n; i++) {
        detokenizer_add(&d, ids->data[i], &h.whole);
        reasoning_add(r, ids->data[i]);
    }
    detokenizer_flush(&d, &h.whole);
    reasoning_flush(r);
    reasoning_free(r);
    buf_free(&h.whole);
}

/* Cut anywhere into template and user text, plain text has the ids of the whole. */
static void cut(const struct tokenizer *tok, const char *text, size_t len,
                const struct ids *whole)
{
    struct err err;
    struct spans s = {0};
    struct ids ids = {0};
    size_t at = len ? (uint8_t)text[0] % (len + 1) : 0;
    spans_text(&s, text, at);
    spans_ids(&s, whole->data, 0);
    spans_text(&s, text + at, len - at);
    must(tokenizer_encode_spans(tok, &s, NULL, &ids, &err));
    size_t bos = ids.n > whole->n;
    must(ids.n == whole->n + bos && (!bos || ids.data[0] == tokenizer_bos(tok)));
    if (whole->n)
        must(memcmp(ids.data + bos, whole->data, whole->n * sizeof *whole->data) == 0);
    spans_clear(&s);
    ids_clear(&ids);
    spans_markup(&s, text, at);
    spans_text(&s, text + at, len - at);
    must(tokenizer_encode_spans(tok, &s, NULL, &ids, &err));
    spans_free(&s);
    ids_free(&ids);
}

static void round_trip(const struct tokenizer *tok, const char *text, size_t len, bool exact)
{
    struct err err;
    struct ids plain = {0}, special = {0};
    must(tokenizer_encode(tok, text, len, ENCODE_PLAIN, &plain, &err));
    for (size_t i = 0; i < plain.n; i++)
        must(!tokenizer_is_control(tok, plain.data[i]));
    decode(tok, &plain, text, len, exact);
    cut(tok, text, len, &plain);
    must(tokenizer_encode(tok, text, len, ENCODE_CONTROL | ENCODE_ENDS, &special, &err));
    split(tok, &special);
    ids_free(&plain);
    ids_free(&special);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 2) return 0;
    unsigned which = data[0] % N_WAYS;
    const char *rest = (const char *)data + 1;
    size_t n = n_bytes - 1;
    if (which != FILE_ITSELF) {
        round_trip(vocab(which), rest, n, which == 0 || which > FILE_ITSELF);
        return 0;
    }
    struct err err = {0};
    struct gguf *g = gguf_from_memory(rest, n, "fuzz", &err);
    struct tokenizer *tok = g ? tokenizer_open(g, NULL, &err) : NULL;
    if (tok) {
        size_t tail = n < TAIL ? n : TAIL;
        round_trip(tok, rest + n - tail, tail, false);
    } else {
        must_be_refusal(&err);
    }
    tokenizer_close(tok);
    gguf_close(g);
    return 0;
}
