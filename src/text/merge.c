#include "text/merge.h"

#include <stdlib.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "text/vocab.h"

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

/* Whether to stop: looked at after every MERGER_STEP symbols of the chain. */
static bool is_cancelled(const struct merger *m)
{
    return m->n % MERGER_STEP == 0 && cancel_is_set(m->cancel);
}

void merger_add_bytes(struct merger *m, const int32_t byte_id[256], const char *text, size_t at,
                      size_t n)
{
    for (size_t end = at + n; at < end && !is_cancelled(m); at++)
        merger_add(m, (uint32_t)at, 1, byte_id[(uint8_t)text[at]]);
}

size_t merger_add_stretch(struct merger *m, const struct vocab *v, const char *text, size_t at,
                          size_t len)
{
    size_t n = vocab_char_len(text + at, len - at);
    for (;;) {
        merger_add(m, (uint32_t)at, (uint32_t)n, vocab_find_plain(v, text + at, n));
        if (at + n == len || is_cancelled(m)) return len;
        size_t next = vocab_char_len(text + at + n, len - at - n);
        if (!vocab_may_join(v, text + at, n, text + at + n, next)) return at + n;
        at += n;
        n = next;
    }
}

/* A key of the heap is the rank of a pair, then the index of its left symbol: the smallest
 * comes first. Four children to a node: a long word's heap is larger than the caches, and a
 * level less is a miss less. */
enum { N_CHILDREN = 4 };
static void heap_push(struct merger *m, uint64_t key)
{
    MEM_GROW(m->heap, m->n_heap, m->cap_heap);
    size_t i = m->n_heap++;
    for (size_t up; i > 0 && m->heap[up = (i - 1) / N_CHILDREN] > key; i = up)
        m->heap[i] = m->heap[up];
    m->heap[i] = key;
}

static uint64_t heap_pop(struct merger *m)
{
    uint64_t top = m->heap[0], last = m->heap[--m->n_heap];
    size_t i = 0, child;
    while ((child = N_CHILDREN * i + 1) < m->n_heap) {
        size_t end = child + N_CHILDREN < m->n_heap ? child + N_CHILDREN : m->n_heap;
        for (size_t k = child + 1; k < end; k++)
            if (m->heap[k] < m->heap[child]) child = k;
        if (m->heap[child] >= last) break;
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
    if (lookup(ctx, text, l, r, &rank, &id))
        heap_push(m, (uint64_t)rank << 32 | (uint32_t)left);
}

void merger_run(struct merger *m, const char *text, merge_lookup *lookup, const void *ctx)
{
    for (size_t i = 0; i + 1 < m->n; i++) {
        if (i % MERGER_STEP == 0 && cancel_is_set(m->cancel)) return;
        consider(m, (int32_t)i, text, lookup, ctx);
    }
    for (size_t n = 1; m->n_heap; n++) {
        if (n % MERGER_STEP == 0 && cancel_is_set(m->cancel)) return;
        uint64_t key = heap_pop(m);
        int32_t left = (int32_t)(uint32_t)key, id;
        uint32_t rank;
        struct symbol *l = &m->sym[left];
        /* What stands there now may be another pair than the one that was found, or none. Its
         * rank tells: a pair of the same rank is as good. */
        if (l->len == 0 || l->next < 0) continue;
        struct symbol *r = &m->sym[l->next];
        if (!lookup(ctx, text, l, r, &rank, &id) || rank != key >> 32) continue;
        l->len += r->len;
        l->id = id;
        l->next = r->next;
        r->len = 0;
        if (l->next >= 0) m->sym[l->next].prev = left;
        consider(m, l->prev, text, lookup, ctx);
        consider(m, left, text, lookup, ctx);
    }
}

void merger_emit(const struct merger *m, const struct vocab *v, const char *text,
                 struct ids *out)
{
    size_t n = 1;
    for (int32_t i = m->n ? 0 : -1; i >= 0; i = m->sym[i].next, n++) {
        if (n % MERGER_STEP == 0 && cancel_is_set(m->cancel)) return;
        const struct symbol *s = &m->sym[i];
        if (s->id >= 0)
            ids_push(out, s->id);
        else
            vocab_spell(v, text + s->start, s->len, out);
    }
}

void merger_free(struct merger *m)
{
    free(m->sym);
    free(m->heap);
    *m = (struct merger){0};
}
