#include "engine/penalties.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"

void penalties_init(struct penalties *p, size_t n_vocab)
{
    *p = (struct penalties){.n_vocab = n_vocab};
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

static void enter(struct penalties *p, int32_t id)
{
    assert(id >= 0 && (size_t)id < p->n_vocab);
    if (p->count[id]++ > 0) return;
    MEM_GROW(p->distinct, p->n_distinct, p->cap);
    p->slot[id] = (uint32_t)p->n_distinct;
    p->distinct[p->n_distinct++] = id;
}

static void leave(struct penalties *p, int32_t id)
{
    assert(id >= 0 && (size_t)id < p->n_vocab && p->count[id] > 0);
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

void penalties_apply(const struct penalties *p, const struct engine_sampling *how,
                     float *logits)
{
    /* The host's division is exact IEEE, so the factor is the same on every machine. */
    float repeat = how->repeat_penalty, inverse = 1.0f / how->repeat_penalty;
    for (size_t i = 0; i < p->n_distinct; i++) {
        int32_t id = p->distinct[i];
        float x = logits[id];
        if (repeat != 1.0f) x = x > 0 ? x * inverse : x * repeat;
        x -= (float)p->count[id] * how->frequency_penalty;
        x -= how->presence_penalty;
        logits[id] = x;
    }
}
