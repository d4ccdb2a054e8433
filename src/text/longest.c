#include "text/longest.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "text/vocab.h"

/* Tokens between two looks at the cancel flag. */
enum { CANCEL_STEP = 4096 };

struct entry {
    const struct piece *text;
    int32_t id;
};

static int by_bytes(const void *a, const void *b)
{
    const struct piece *x = ((const struct entry *)a)->text;
    const struct piece *y = ((const struct entry *)b)->text;
    const int order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);
    if (order != 0) return order;
    return (x->len > y->len) - (x->len < y->len);
}

void longest_open(struct longest *l, const struct vocab *v)
{
    struct entry *list = mem_zalloc(v->n, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (v->text[i].len > 0 && vocab_is_plain(v, (int32_t)i))
            list[n++] = (struct entry){&v->text[i], (int32_t)i};
    qsort(list, n, sizeof *list, by_bytes);
    *l = (struct longest){.ids = mem_zalloc(n, sizeof *l->ids)};
    for (size_t i = 0; i < n; i++) {
        l->ids[i] = list[i].id;
        l->begin[(uint8_t)list[i].text->data[0] + 1]++;
    }
    for (size_t b = 0; b < 256; b++)
        l->begin[b + 1] += l->begin[b];
    free(list);
}

void longest_close(struct longest *l)
{
    free(l->ids);
    *l = (struct longest){0};
}

/* The first of ids[lo..hi), which are alike up to `at` and longer, whose byte there is b or
 * above. */
static size_t first_from(const struct longest *l, const struct vocab *v, size_t lo, size_t hi,
                         size_t at, unsigned b)
{
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if ((uint8_t)v->text[l->ids[mid]].data[at] < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest token that text[0..len) begins with; -1 if there is none. len is at least 1. */
static int32_t match(const struct longest *l, const struct vocab *v, const char *text,
                     size_t len)
{
    const uint8_t first = (uint8_t)text[0];
    size_t lo = l->begin[first], hi = l->begin[first + 1];
    int32_t found = -1;
    for (size_t n = 1; lo < hi; n++) {
        /* What is no longer than this lies before what is, and is one token at most. */
        if (v->text[l->ids[lo]].len == n) found = l->ids[lo++];
        if (n == len) break;
        const unsigned b = (uint8_t)text[n];
        lo = first_from(l, v, lo, hi, n, b);
        hi = first_from(l, v, lo, hi, n, b + 1);
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
