/* Counts of a window that moves on by one token, and a list of those above 0. */
#include "engine/penalties.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void penalties_init(struct penalties *p, size_t n_vocab)
{
    static _Atomic uint64_t n_made;
    *p = (struct penalties){.n_vocab = n_vocab, .n_changes = ++n_made << 40};
    p->count = mem_zalloc(n_vocab, sizeof *p->count);
    p->slot = mem_zalloc(n_vocab, sizeof *p->slot);
}

void penalties_free(struct penalties *p)
{
    free(p->count);
    free(p->slot);
    free(p->distinct);
    *p = (struct penalties){0};
}

static void note(struct penalties *p, int32_t id)
{
    p->recent[p->n_changes++ % DRAW_RECENT] = id;
}

static void enter(struct penalties *p, int32_t id)
{
    assert(id >= 0 && (size_t)id < p->n_vocab);
    note(p, id);
    if (p->count[id]++ > 0) return;
    MEM_GROW(p->distinct, p->n_distinct, p->cap);
    p->slot[id] = (uint32_t)p->n_distinct;
    p->distinct[p->n_distinct++] = id;
}

static void leave(struct penalties *p, int32_t id)
{
    assert(id >= 0 && (size_t)id < p->n_vocab && p->count[id] > 0);
    note(p, id);
    if (--p->count[id] > 0) return;
    int32_t last = p->distinct[--p->n_distinct];
    p->distinct[p->slot[id]] = last;
    p->slot[last] = p->slot[id];
}

void penalties_count(struct penalties *p, int len, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < p->n_distinct; i++)
        p->count[p->distinct[i]] = 0;
    p->n_distinct = 0;
    p->len = len < 0 ? SIZE_MAX : (size_t)len;
    for (size_t i = n > p->len ? n - p->len : 0; i < n; i++)
        enter(p, ids[i]);
    p->n_changes += DRAW_RECENT + 1; /* nobody keeps up with this */
}

void penalties_add(struct penalties *p, const int32_t *ids, size_t n)
{
    if (p->len == 0) return;
    enter(p, ids[n - 1]);
    if (n > p->len) leave(p, ids[n - 1 - p->len]);
}

void penalties_remove(struct penalties *p, const int32_t *ids, size_t n)
{
    if (p->len == 0) return;
    leave(p, ids[n - 1]);
    if (n > p->len) enter(p, ids[n - 1 - p->len]);
}

/* The count of an id once ids[n..n+m) have been appended. */
static uint32_t count_then(const struct penalties *p, const int32_t *ids, size_t n, size_t m,
                           int32_t id)
{
    uint32_t count = p->count[id];
    for (size_t i = n; i < n + m; i++) {
        count += ids[i] == id;
        count -= i >= p->len && ids[i - p->len] == id;
    }
    return count;
}

void penalties_ahead(const struct penalties *p, const int32_t *ids, size_t n, size_t n_ahead,
                     struct draw_count *out, uint32_t *n_upto)
{
    uint32_t k = 0;
    n_upto[0] = 0;
    for (size_t i = 0; i < n_ahead; i++) {
        const size_t at = n + i;
        out[k++] = (struct draw_count){ids[at], count_then(p, ids, n, i + 1, ids[at])};
        if (at >= p->len) {
            const int32_t left = ids[at - p->len];
            out[k++] = (struct draw_count){left, count_then(p, ids, n, i + 1, left)};
        }
        n_upto[i + 1] = k;
    }
}

void penalties_leaving(const struct penalties *p, const int32_t *ids, size_t n, size_t n_ahead,
                       int32_t *out)
{
    for (size_t i = 0; i < n_ahead; i++) {
        out[i] = -1;
        if (n + i < p->len) continue;
        const size_t left = n + i - p->len;
        out[i] = left < n ? ids[left] : -2 - (int32_t)(left - n);
    }
}
