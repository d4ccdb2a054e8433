#include "text/spm.h"

#include "base/cancel.h"
#include "text/merge.h"
#include "text/vocab.h"

static bool lookup(const void *ctx, const char *text, const struct symbol *l,
                   const struct symbol *r, uint32_t *rank, int32_t *id)
{
    const struct vocab *v = ctx;
    *id = vocab_find_plain(v, text + l->start, (size_t)l->len + r->len);
    if (*id < 0) return false;
    *rank = v->order[*id];
    return true;
}

static void emit(const struct vocab *v, const char *text, const struct merger *m,
                 struct ids *out)
{
    for (int32_t i = 0; i >= 0; i = m->sym[i].next) {
        const struct symbol *s = &m->sym[i];
        if (s->id >= 0) {
            ids_push(out, s->id);
            continue;
        }
        for (uint32_t k = 0; k < s->len; k++) {
            int32_t id = v->byte_id[(uint8_t)text[s->start + k]];
            if (id >= 0) ids_push(out, id);
        }
    }
}

void spm_encode(const struct vocab *v, const char *text, size_t len, struct merger *scratch,
                struct ids *out)
{
    /* No merge crosses a border that no token spans, so each stretch between two such borders
     * is a chain of its own: a word or so, instead of the whole text in one heap. */
    for (size_t at = 0; at < len && !cancel_is_set(scratch->cancel);) {
        merger_start(scratch);
        size_t n = vocab_char_len(text + at, len - at), next;
        for (;; at += n, n = next) {
            merger_add(scratch, (uint32_t)at, (uint32_t)n, vocab_find_plain(v, text + at, n));
            if (at + n == len) break;
            next = vocab_char_len(text + at + n, len - at - n);
            if (!vocab_may_join(v, text + at, n, text + at + n, next)) break;
        }
        at += n;
        merger_run(scratch, text, lookup, v);
        emit(v, text, scratch, out);
    }
}
