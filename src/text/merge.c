#include "text/merge.h"

#include <stdlib.h>

#include "base/mem.h"

/* A pair is valid as long as both symbols have the lengths they had when it was found. */
struct merge_pair {
    uint64_t key; /* rank, then index of the left symbol: the smallest comes first */
    int32_t id;
    uint32_t l_len, r_len;
};

void merger_start(struct merger *m)
{
    m->n = 0;
    m->n_heap = 0;
}

void merger_add(struct merger *m, uint32_t start, uint32_t len, int32_t id)
{
    MEM_GROW(m->sym, m->n, m->cap);
    if (m->n) m->sym[m->n - 1].next = (int32_t)m->n;
    m->sym[m->n] = (struct symbol){start, len, id, (int32_t)m->n - 1, -1};
    m->n++;
}

static void heap_push(struct merger *m, struct merge_pair p)
{
    MEM_GROW(m->heap, m->n_heap, m->cap_heap);
    size_t i = m->n_heap++;
    for (; i > 0 && m->heap[(i - 1) / 2].key > p.key; i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = p;
}

static struct merge_pair heap_pop(struct merger *m)
{
    struct merge_pair top = m->heap[0], last = m->heap[--m->n_heap];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < m->n_heap) {
        if (child + 1 < m->n_heap && m->heap[child + 1].key < m->heap[child].key) child++;
        if (m->heap[child].key >= last.key) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return top;
}

static void consider(struct merger *m, int32_t left, const char *text, merge_lookup *lookup,
                     const void *ctx)
{
    if (left < 0 || m->sym[left].next < 0) return;
    const struct symbol *l = &m->sym[left], *r = &m->sym[l->next];
    uint32_t rank;
    int32_t id;
    if (!lookup(ctx, text, l, r, &rank, &id)) return;
    heap_push(m,
              (struct merge_pair){(uint64_t)rank << 32 | (uint32_t)left, id, l->len, r->len});
}

void merger_run(struct merger *m, const char *text, merge_lookup *lookup, const void *ctx)
{
    for (size_t i = 0; i + 1 < m->n; i++)
        consider(m, (int32_t)i, text, lookup, ctx);
    while (m->n_heap) {
        struct merge_pair p = heap_pop(m);
        int32_t left = (int32_t)(uint32_t)p.key;
        struct symbol *l = &m->sym[left];
        if (l->len != p.l_len || l->next < 0) continue;
        struct symbol *r = &m->sym[l->next];
        if (r->len != p.r_len) continue;
        l->len += r->len;
        l->id = p.id;
        l->next = r->next;
        r->len = 0;
        if (l->next >= 0) m->sym[l->next].prev = left;
        consider(m, l->prev, text, lookup, ctx);
        consider(m, left, text, lookup, ctx);
    }
}

void merger_free(struct merger *m)
{
    free(m->sym);
    free(m->heap);
    *m = (struct merger){0};
}
