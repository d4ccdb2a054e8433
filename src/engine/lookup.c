/* Chains of the positions behind equal pairs and triples of tokens, the newest first. */
#include "engine/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "base/mem.h"

/* Tokens of a run that is looked for: a triple, else a pair. */
enum { LONGEST = 3, SHORTEST = 2, N_GRAMS = LONGEST - SHORTEST + 1 };
/* Places of a chain that are compared, tokens that are compared at each. */
enum { MAX_PLACES = 32, MAX_RUN = 64 };
/* A copy is followed for so many tokens behind a change, and looked for so near by. */
enum { MAX_GONE = 32, NEAR = 12 };
enum { MIN_SLOTS = 1024 };

/* One chain per slot: places that share a hash. 0 is the end: no run ends before position 1. */
struct chains {
    uint32_t *newest; /* [n_slots] */
    uint32_t *older;  /* [cap]: by place, the next older of its slot */
};

struct lookup {
    struct ids ids; /* as indexed: a place p is behind the runs that end with ids[p - 1] */
    struct chains chains[N_GRAMS];
    size_t n_slots, cap;
    size_t n_placed; /* places up to this one are in the chains */
    /* What was found last: a text that is copied with changes goes on beside it. */
    size_t found, found_at; /* the place, and the tokens there were then; 0: none */
};

struct lookup *lookup_new(void)
{
    return mem_zalloc(1, sizeof(struct lookup));
}

void lookup_free(struct lookup *l)
{
    if (!l) return;
    for (size_t i = 0; i < N_GRAMS; i++) {
        free(l->chains[i].newest);
        free(l->chains[i].older);
    }
    ids_free(&l->ids);
    free(l);
}

/* The slot of the run of `len` tokens before place p. */
static size_t slot_of(const struct lookup *l, size_t p, size_t len)
{
    uint64_t h = len;
    for (size_t i = p - len; i < p; i++)
        h = (h ^ (uint32_t)l->ids.data[i]) * 0x9e3779b97f4a7c15u;
    return (h >> 32) & (l->n_slots - 1);
}

static void place(struct lookup *l, size_t p)
{
    for (size_t i = 0; i < N_GRAMS; i++) {
        const size_t len = SHORTEST + i;
        if (p < len) continue;
        uint32_t *newest = &l->chains[i].newest[slot_of(l, p, len)];
        l->chains[i].older[p] = *newest;
        *newest = (uint32_t)p;
    }
}

/* The newest place of all is taken out again. */
static void unplace(struct lookup *l, size_t p)
{
    for (size_t i = 0; i < N_GRAMS; i++) {
        const size_t len = SHORTEST + i;
        if (p >= len) l->chains[i].newest[slot_of(l, p, len)] = l->chains[i].older[p];
    }
}

/* Room for places up to n, with slots enough that chains stay short. */
static void make_room(struct lookup *l, size_t n)
{
    if (n < l->cap) return;
    size_t cap = l->cap ? l->cap : MIN_SLOTS;
    while (cap <= n)
        cap *= 2;
    for (size_t i = 0; i < N_GRAMS; i++) {
        struct chains *c = &l->chains[i];
        c->older = mem_resize(c->older, cap, sizeof *c->older);
        free(c->newest);
        c->newest = mem_zalloc(cap, sizeof *c->newest);
    }
    l->cap = l->n_slots = cap;
    l->n_placed = 0; /* they come in again with those that are new */
}

/* The index is about ids[0..n) and holds all places but the last, from which is looked. */
static void follow(struct lookup *l, const int32_t *ids, size_t n)
{
    size_t most = l->ids.n < n ? l->ids.n : n, same = most;
    /* A sequence that only grew, as usual, costs one comparison. */
    if (most > 0 && memcmp(l->ids.data, ids, most * sizeof *ids) != 0)
        for (same = 0; l->ids.data[same] == ids[same];)
            same++;
    while (l->n_placed > same || l->n_placed + 1 > n)
        unplace(l, l->n_placed--);
    make_room(l, n + 1);
    l->ids.n = same;
    ids_append(&l->ids, ids + same, n - same);
    while (l->n_placed + 1 < n)
        place(l, ++l->n_placed);
}

/* How many tokens before place p are those before n. */
static size_t run_before(const struct lookup *l, size_t p, size_t n)
{
    size_t most = p < MAX_RUN ? p : MAX_RUN, i = 0;
    while (i < most && l->ids.data[p - 1 - i] == l->ids.data[n - 1 - i])
        i++;
    return i;
}

static size_t distance(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

/* The place with the longest run of those in a chain of runs of len tokens; of several the one
 * nearest to `beside`, or the newest if that is 0. */
static size_t best_of_chain(const struct lookup *l, size_t n, size_t len, size_t beside,
                            size_t *run)
{
    const struct chains *c = &l->chains[len - SHORTEST];
    size_t best = 0;
    *run = 0;
    size_t p = c->newest[slot_of(l, n, len)];
    for (int k = 0; p > 0 && k < MAX_PLACES; k++, p = c->older[p]) {
        const size_t r = run_before(l, p, n);
        const bool nearer = best && beside && distance(p, beside) < distance(best, beside);
        if (r >= len && (r > *run || (r == *run && nearer))) best = p, *run = r;
    }
    return best;
}

/* The place that a copy would be at which went on since the last find; 0: there is none. */
static size_t place_beside(const struct lookup *l, size_t n)
{
    const size_t gone = n - l->found_at;
    if (l->found == 0 || n < l->found_at || gone > MAX_GONE) return 0;
    return l->found + gone;
}

/* Behind a change in a copied text: the nearest place with the same last token, else the place
 * itself, as if one token had been replaced. */
static size_t behind_change(const struct lookup *l, size_t n, size_t beside)
{
    if (beside == 0) return 0;
    for (size_t d = 0; d <= NEAR; d++) {
        const size_t after = beside + d, before = beside > d ? beside - d : 0;
        if (after < n && l->ids.data[after - 1] == l->ids.data[n - 1]) return after;
        if (before > 0 && l->ids.data[before - 1] == l->ids.data[n - 1]) return before;
    }
    return beside;
}

struct lookup_match lookup_find(struct lookup *l, const int32_t *ids, size_t n)
{
    if (n < LONGEST) return (struct lookup_match){0};
    follow(l, ids, n);
    const size_t beside = place_beside(l, n);
    size_t run, best = best_of_chain(l, n, LONGEST, beside, &run);
    if (best == 0) best = best_of_chain(l, n, SHORTEST, beside, &run);
    const bool is_long = best > 0 && run >= LOOKUP_LONG;
    if (is_long) {
        l->found = best;
        l->found_at = n;
    }
    if (best == 0) best = behind_change(l, n, beside);
    if (best == 0) return (struct lookup_match){0};
    return (struct lookup_match){ids + best, n - best, is_long};
}
