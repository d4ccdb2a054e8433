/* Ranges of code points, and the bytes that they are written with. */
#include "text/chars.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

enum { SURROGATES = 0xd800, BEHIND_SURROGATES = 0xe000 };

void chars_free(struct chars *c)
{
    free(c->ranges);
    *c = (struct chars){0};
}

static void put(struct chars *c, uint32_t lo, uint32_t hi)
{
    if (lo > hi) return;
    MEM_GROW(c->ranges, c->n, c->cap);
    c->ranges[c->n++] = (struct chars_range){lo, hi};
}

void chars_add(struct chars *c, uint32_t lo, uint32_t hi)
{
    assert(lo <= hi && hi <= CHARS_MAX);
    put(c, lo, hi < SURROGATES ? hi : SURROGATES - 1);
    put(c, lo < BEHIND_SURROGATES ? BEHIND_SURROGATES : lo, hi);
}

void chars_add_set(struct chars *c, const struct chars *other)
{
    for (size_t i = 0; i < other->n; i++)
        put(c, other->ranges[i].lo, other->ranges[i].hi);
}

static int by_lo(const void *a, const void *b)
{
    const struct chars_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void chars_tidy(struct chars *c)
{
    size_t n = 0;
    if (c->n > 0) qsort(c->ranges, c->n, sizeof *c->ranges, by_lo);
    for (size_t i = 0; i < c->n; i++) {
        const struct chars_range r = c->ranges[i];
        if (n == 0 || r.lo > c->ranges[n - 1].hi + 1)
            c->ranges[n++] = r;
        else if (r.hi > c->ranges[n - 1].hi)
            c->ranges[n - 1].hi = r.hi;
    }
    c->n = n;
}

void chars_complement(struct chars *c)
{
    struct chars rest = {0};
    uint32_t from = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->ranges[i].lo > from) chars_add(&rest, from, c->ranges[i].lo - 1);
        from = c->ranges[i].hi + 1;
    }
    if (from <= CHARS_MAX) chars_add(&rest, from, CHARS_MAX);
    chars_free(c);
    *c = rest;
}

/* The first range that ends at cp or behind it; c->n: none does. */
static size_t find(const struct chars *c, uint32_t cp)
{
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (c->ranges[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool chars_has(const struct chars *c, uint32_t cp)
{
    const size_t i = find(c, cp);
    return i < c->n && c->ranges[i].lo <= cp;
}

/* ---- bytes ---- */

enum { NOWHERE = UINT32_MAX };

struct bytes {
    struct grammar *g;
    const struct chars *set;
    uint32_t least;         /* of the characters of this length */
    grammar_place tails[4]; /* any k bytes that go on, before next; NOWHERE: not made yet */
};

static grammar_place tail(struct bytes *b, unsigned k)
{
    if (b->tails[k] == NOWHERE) b->tails[k] = grammar_byte(b->g, 0x80, 0xbf, tail(b, k - 1));
    return b->tails[k];
}

static grammar_place children(struct bytes *b, uint32_t first, unsigned n, uint8_t byte,
                              unsigned k);

/* What follows the bytes that k more make one of the characters from `first` on of: all of
 * them, as is mostly so, none, or what the next byte says. */
static grammar_place behind(struct bytes *b, uint32_t first, unsigned k)
{
    const uint32_t last = first + (UINT32_C(1) << 6 * k) - 1;
    const size_t i = find(b->set, first > b->least ? first : b->least);
    if (i == b->set->n || b->set->ranges[i].lo > last || last < b->least) return NOWHERE;
    if (first >= b->least && b->set->ranges[i].lo <= first && b->set->ranges[i].hi >= last)
        return tail(b, k);
    assert(k > 0);
    return children(b, first, 64, 0x80, k - 1);
}

/* n bytes from `byte` on, each of which k more follow; those that go on alike are one place. */
static grammar_place children(struct bytes *b, uint32_t first, unsigned n, uint8_t byte,
                              unsigned k)
{
    grammar_place at = NOWHERE, run = NOWHERE;
    unsigned begin = 0;
    for (unsigned i = 0; i <= n; i++) {
        const grammar_place to = i < n ? behind(b, first + (i << 6 * k), k) : NOWHERE;
        if (to == run && i < n) continue;
        if (run != NOWHERE) {
            const grammar_place one =
                grammar_byte(b->g, (uint8_t)(byte + begin), (uint8_t)(byte + i - 1), run);
            at = at == NOWHERE ? one : grammar_either(b->g, at, one);
        }
        run = to;
        begin = i;
    }
    return at;
}

grammar_place chars_place(struct grammar *g, const struct chars *c, grammar_place next)
{
    /* The first bytes by the length of the character, and what the first of them begins with;
     * shorter characters are never written longer. */
    static const struct {
        uint32_t first, least;
        uint8_t n, byte, k;
    } lengths[] = {
        {0, 0, 0x80, 0, 0},
        {0x80, 0x80, 0x1e, 0xc2, 1},
        {0, 0x800, 0x10, 0xe0, 2},
        {0, 0x10000, 5, 0xf0, 3},
    };
    struct bytes b = {g, c, 0, {next, NOWHERE, NOWHERE, NOWHERE}};
    grammar_place at = NOWHERE;
    assert(c->n > 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        b.least = lengths[i].least;
        const grammar_place one =
            children(&b, lengths[i].first, lengths[i].n, lengths[i].byte, lengths[i].k);
        if (one == NOWHERE) continue;
        at = at == NOWHERE ? one : grammar_either(g, at, one);
    }
    return at;
}
