#include "text/longest.h"

#include "base/cancel.h"
#include "text/vocab.h"

/* Tokens between two looks at the cancel flag. */
enum { CANCEL_STEP = 4096 };

void longest_open(struct longest *l, const struct vocab *v)
{
    sorted_open(&l->sorted, v, vocab_is_plain);
}

void longest_close(struct longest *l)
{
    sorted_close(&l->sorted);
}

/* The longest token that text[0..len) begins with; -1 if there is none. len is at least 1. */
static int32_t match(const struct longest *l, const struct vocab *v, const char *text,
                     size_t len)
{
    const struct sorted *tokens = &l->sorted;
    struct sorted_range left = sorted_begin(tokens, (uint8_t)text[0]);
    int32_t found = -1;
    for (size_t n = 1; left.lo < left.hi; n++) {
        const int32_t id = tokens->ids[left.lo];
        if (v->text[id].len == n) found = id, left.lo++;
        if (n == len) break;
        left = sorted_narrow(tokens, v, left, n, (uint8_t)text[n]);
    }
    return found;
}

void longest_encode(const struct longest *l, const struct vocab *v, const char *text,
                    size_t len, const atomic_bool *cancel, struct ids *out)
{
    for (size_t at = 0, n = 0; at < len; n++) {
        if (n % CANCEL_STEP == 0 && cancel_is_set(cancel)) return;
        const int32_t id = match(l, v, text + at, len - at);
        if (id >= 0)
            ids_push(out, id);
        else
            vocab_spell(v, text + at, 1, out);
        at += id >= 0 ? v->text[id].len : 1;
    }
}
