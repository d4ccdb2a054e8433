#include "text/sorted.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/vocab.h"

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

void sorted_open(struct sorted *s, const struct vocab *v,
                 bool (*takes)(const struct vocab *v, int32_t id))
{
    struct entry *list = mem_zalloc(v->n, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (v->text[i].len > 0 && takes(v, (int32_t)i))
            list[n++] = (struct entry){&v->text[i], (int32_t)i};
    qsort(list, n, sizeof *list, by_bytes);
    *s = (struct sorted){.ids = mem_zalloc(n + 1, sizeof *s->ids)};
    for (size_t i = 0; i < n; i++) {
        s->ids[i] = list[i].id;
        s->begin[(uint8_t)list[i].text->data[0] + 1]++;
    }
    for (size_t b = 0; b < 256; b++)
        s->begin[b + 1] += s->begin[b];
    free(list);
}

void sorted_close(struct sorted *s)
{
    free(s->ids);
    *s = (struct sorted){0};
}

struct sorted_range sorted_begin(const struct sorted *s, uint8_t byte)
{
    return (struct sorted_range){s->begin[byte], s->begin[byte + 1]};
}

/* The first of the range whose byte at `at` is `byte` or above. */
static uint32_t first_from(const struct sorted *s, const struct vocab *v, struct sorted_range r,
                           size_t at, unsigned byte)
{
    while (r.lo < r.hi) {
        const uint32_t mid = r.lo + (r.hi - r.lo) / 2;
        if ((uint8_t)v->text[s->ids[mid]].data[at] < byte)
            r.lo = mid + 1;
        else
            r.hi = mid;
    }
    return r.lo;
}

struct sorted_range sorted_narrow(const struct sorted *s, const struct vocab *v,
                                  struct sorted_range r, size_t at, uint8_t byte)
{
    r.lo = first_from(s, v, r, at, byte);
    r.hi = first_from(s, v, r, at, byte + 1u);
    return r;
}
