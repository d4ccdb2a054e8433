#include "text/unigram.h"

#include <math.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "text/vocab.h"

/* Costs are ten-thousandths of scores below 0. */
#define COST_UNKNOWN ((int64_t)10000000) /* of a character without a token */
#define COST_INVALID 20000000.0          /* from here on a token is none */
/* Above the cost of any way, and far enough below the largest number to be added to. */
#define COST_NO_WAY (INT64_MAX / 2)
/* Places between two looks at the cancel flag. */
enum { CANCEL_STEP = 4096 };

static double cost_of(const struct vocab *v, int32_t id)
{
    return -round((double)v->score[id] * 1e4);
}

static bool is_candidate(const struct vocab *v, int32_t id)
{
    const double cost = cost_of(v, id);
    return vocab_is_plain(v, id) && v->type[id] != TOKEN_UNUSED && cost < COST_INVALID &&
           cost >= -(double)INT32_MAX;
}

void unigram_open(struct unigram *u, const struct vocab *v)
{
    sorted_open(&u->sorted, v, is_candidate);
}

void unigram_close(struct unigram *u)
{
    sorted_close(&u->sorted);
}

void chart_free(struct chart *c)
{
    free(c->places);
    *c = (struct chart){0};
}

/* Whether to stop: looked at every CANCEL_STEP places. */
static bool is_cancelled(const struct chart *c, size_t at)
{
    return at % CANCEL_STEP == 0 && cancel_is_set(c->cancel);
}

static void add_character(struct chart *c, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        MEM_GROW(c->places, c->n, c->cap);
        c->places[c->n++] = (struct place){COST_NO_WAY, i == 0 ? (uint32_t)len : 0, -1};
    }
}

/* The places of text from `at` on up to a border that no token spans: a word or so, instead of
 * the whole text at once. Returns where it lies, at most len. */
static size_t add_stretch(struct chart *c, const struct vocab *v, const char *text, size_t at,
                          size_t len)
{
    c->n = 0;
    for (size_t n_chars = 1;; n_chars++) {
        const size_t n = vocab_char_len(text + at, len - at);
        add_character(c, n);
        if (at + n == len || is_cancelled(c, n_chars)) return at + n;
        const size_t next = vocab_char_len(text + at + n, len - at - n);
        if (!vocab_may_join(v, text + at, n, text + at + n, next)) return at + n;
        at += n;
    }
}

/* The best of what text may begin with; places[0..n] are its own and those behind, of which all
 * but the first are settled. */
static void settle(const struct unigram *u, const struct vocab *v, const char *text, size_t n,
                   struct place *places)
{
    struct place *best = &places[0];
    best->cost = COST_UNKNOWN + places[best->len].cost;
    const struct sorted *tokens = &u->sorted;
    struct sorted_range left = sorted_begin(tokens, (uint8_t)text[0]);
    for (size_t len = 1; left.lo < left.hi; len++) {
        const int32_t id = tokens->ids[left.lo];
        if (v->text[id].len == len) {
            const int64_t cost = (int64_t)cost_of(v, id) + places[len].cost;
            if (cost <= best->cost) *best = (struct place){cost, (uint32_t)len, id};
            left.lo++;
        }
        if (len == n) break;
        left = sorted_narrow(tokens, v, left, len, (uint8_t)text[len]);
    }
}

void unigram_encode(const struct unigram *u, const struct vocab *v, const char *text,
                    size_t len, struct chart *c, struct ids *out)
{
    for (size_t at = 0, end; at < len && !cancel_is_set(c->cancel); at = end) {
        end = add_stretch(c, v, text, at, len);
        const size_t n = c->n;
        MEM_GROW(c->places, c->n, c->cap);
        c->places[n] = (struct place){0, 0, -1};
        for (size_t i = n; i-- > 0;) {
            if (is_cancelled(c, i)) return;
            if (c->places[i].len > 0) settle(u, v, text + at + i, n - i, &c->places[i]);
        }
        for (size_t i = 0; i < n; i += c->places[i].len) {
            const struct place *p = &c->places[i];
            if (p->id >= 0)
                ids_push(out, p->id);
            else
                vocab_spell(v, text + at + i, p->len, out);
        }
    }
}
