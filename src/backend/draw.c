/* The scalar twin of the draws on devices: heaps instead of histograms, the same order. */
#include "backend/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/logits.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "base/philox.h"

/* A token still in the running. */
struct candidate {
    float x;
    int32_t id;
};

struct draw_scratch {
    float *logits;          /* [n_vocab], with bias and penalties */
    struct candidate *heap; /* [n_vocab] */
};

/* Up to here the k best are kept in a heap of k, and most of the others are passed over;
 * beyond, one heap of all is cheaper. */
enum { SMALL_K = 1024 };

struct draw_scratch *draw_scratch_new(size_t n_vocab)
{
    struct draw_scratch *s = mem_zalloc(1, sizeof *s);
    s->logits = mem_zalloc(n_vocab, sizeof *s->logits);
    s->heap = mem_zalloc(n_vocab, sizeof *s->heap);
    return s;
}

void draw_scratch_free(struct draw_scratch *s)
{
    if (!s) return;
    free(s->logits);
    free(s->heap);
    free(s);
}

float draw_noise(uint64_t seed, uint32_t pos, int32_t id)
{
    uint32_t r = philox(seed, (uint32_t)id, pos, 0, PHILOX_NOISE).word[0];
    /* v is the middle of one of 2^23 equal parts of (0,1), exact in f32: never 0, never 1. In
     * the last part, where the noise is largest, the other 9 bits place v, and 1 - v stands for
     * -ln v: they agree to f32 there. */
    uint32_t part = r >> 9;
    float minus_ln_v;
    if (part < (1u << 23) - 1)
        minus_ln_v = -num_log((float)(2 * part + 1) * 0x1p-24f);
    else
        minus_ln_v = (float)(2 * (511 - (r & 511)) + 1) * 0x1p-33f;
    return -num_log(minus_ln_v);
}

/* Whether a comes before b. */
static inline bool before(struct candidate a, struct candidate b)
{
    return a.x > b.x || (a.x == b.x && a.id < b.id);
}

/* Restores the heap below slot i; its top is the last one of all if `last_on_top`, otherwise
 * the first. */
static void sift(struct candidate *heap, size_t n, size_t i, bool last_on_top)
{
    struct candidate moving = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && before(heap[child + 1], heap[child]) != last_on_top) child++;
        if (before(heap[child], moving) == last_on_top) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static void heapify(struct candidate *heap, size_t n, bool last_on_top)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(heap, n, i, last_on_top);
}

/* Moves the first `want` to the end of the heap's array, in reverse; returns where they begin.
 */
static size_t pop_first(struct candidate *heap, size_t n, size_t want)
{
    heapify(heap, n, false);
    size_t left = n;
    while (want-- > 0) {
        struct candidate top = heap[0];
        heap[0] = heap[--left];
        sift(heap, left, 0, false);
        heap[left] = top;
    }
    return left;
}

static uint64_t weight(float x)
{
    return x < DRAW_WEIGHTLESS ? 0 : (uint64_t)(num_exp(x) * 0x1p30f);
}

/* Moves the shortest beginning of set[n] that has top_p of its weight to the front, in no
 * order; returns its length. */
static size_t keep_top_p(struct candidate *set, size_t n, uint64_t top_p)
{
    uint64_t sum = 0;
    size_t n_weighty = 0;
    for (size_t i = 0; i < n; i++) {
        sum += weight(set[i].x);
        /* What has no weight comes after all that has some: it is never reached. */
        if (set[i].x >= DRAW_WEIGHTLESS) set[n_weighty++] = set[i];
    }
    uint64_t low = (1u << 24) - 1;
    uint64_t need = (sum >> 24) * top_p + (((sum & low) * top_p + low) >> 24);
    heapify(set, n_weighty, false);
    size_t left = n_weighty;
    uint64_t got = 0;
    do {
        struct candidate top = set[0];
        got += weight(top.x);
        set[0] = set[--left];
        sift(set, left, 0, false);
        set[left] = top;
    } while (left > 0 && got < need);
    memmove(set, set + left, (n_weighty - left) * sizeof *set);
    return n_weighty - left;
}

/* The largest x + noise of set[n]. */
static int32_t largest(const struct draw *d, const struct candidate *set, size_t n,
                       uint32_t pos)
{
    float best = -INFINITY;
    int32_t best_id = -1;
    for (size_t i = 0; i < n; i++) {
        float x = set[i].x;
        if (x < d->min_x || x + DRAW_MAX_NOISE < best) continue;
        float y = x + draw_noise(d->seed, pos, set[i].id);
        if (y > best || (y == best && set[i].id < best_id)) best = y, best_id = set[i].id;
    }
    return best_id;
}

static bool broken(const float *logits, size_t n, struct err *err)
{
    size_t i = 0;
    while (i < n && logits[i] < INFINITY)
        i++;
    return err_set(err, ERR_FORMAT,
                   "the model's logit of token %zu is %s: the weights are broken", i,
                   isnan(logits[i]) ? "not a number" : "infinite");
}

static void penalise(const struct draw *d, float *logits)
{
    for (size_t i = 0; i < d->n_distinct; i++) {
        int32_t id = d->distinct[i];
        float x = logits[id];
        if (d->repeat != 1.0f) x = x > 0 ? x * d->inverse_repeat : x * d->repeat;
        x -= (float)d->count[id] * d->frequency;
        x -= d->presence;
        logits[id] = x;
    }
}

/* Bans what is not allowed. */
static void keep_allowed(const struct draw *d, float *logits)
{
    for (size_t i = 0; i < d->n_vocab; i++)
        if (!(d->allowed[i / 32] >> i % 32 & 1)) logits[i] = -INFINITY;
}

/* The logits with bias and penalties, and their maximum: the model's own if nothing changes
 * them. NULL on failure. */
static const float *prepare(struct draw_scratch *s, const struct draw *d, const float *logits,
                            float *max, struct err *err)
{
    if (!logits_max(logits, d->n_vocab, max)) {
        broken(logits, d->n_vocab, err);
        return NULL;
    }
    if (d->n_bias > 0 || d->n_distinct > 0 || d->allowed) {
        memcpy(s->logits, logits, d->n_vocab * sizeof *logits);
        for (size_t i = 0; i < d->n_bias; i++)
            s->logits[d->bias[i].id] += d->bias[i].bias;
        penalise(d, s->logits);
        if (d->allowed) keep_allowed(d, s->logits);
        logits = s->logits;
        if (!logits_max(logits, d->n_vocab, max)) {
            err_set(err, ERR_FORMAT,
                    "a logit is infinite after bias and penalties: the weights are broken");
            return NULL;
        }
    }
    if (*max > -INFINITY) return logits;
    err_set(err, ERR_USER,
            d->allowed ? "no token goes on as the schema asks for"
                       : "logit-bias bans every token");
    return NULL;
}

static float scaled(const struct draw *d, float logit, float max)
{
    return (logit - max) * d->inverse_temp;
}

/* All tokens that are not banned, in heap; returns how many. */
static size_t take_all(const struct draw *d, const float *logits, float max,
                       struct candidate *heap)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_vocab; i++) {
        float x = scaled(d, logits[i], max);
        if (x > -INFINITY) heap[n++] = (struct candidate){x, (int32_t)i};
    }
    return n;
}

/* The k first of them, or all if there are fewer, in no order. What is no larger than the last
 * of k lower ids never comes before it. */
static size_t take_first(const struct draw *d, const float *logits, float max, size_t k,
                         struct candidate *heap)
{
    size_t i = 0, n = 0;
    for (; i < d->n_vocab && n < k; i++) {
        float x = scaled(d, logits[i], max);
        if (x > -INFINITY) heap[n++] = (struct candidate){x, (int32_t)i};
    }
    if (n < k) return n;
    heapify(heap, k, true);
    for (; i < d->n_vocab; i++) {
        i = logits_next(logits, i, d->n_vocab, logits[heap[0].id]);
        if (i == d->n_vocab) break;
        const struct candidate c = {scaled(d, logits[i], max), (int32_t)i};
        if (!before(c, heap[0])) continue;
        heap[0] = c;
        sift(heap, k, 0, true);
    }
    return n;
}

bool draw_host(struct draw_scratch *s, const struct draw *d, const float *logits, uint32_t pos,
               int32_t *id, struct err *err)
{
    float max = 0;
    logits = prepare(s, d, logits, &max, err);
    if (!logits) return false;
    if (d->inverse_temp == 0) {
        *id = (int32_t)logits_next(logits, 0, d->n_vocab, max);
        return true;
    }
    struct candidate *set = s->heap;
    const size_t k = d->top_k > 0 ? d->top_k : SIZE_MAX;
    size_t n;
    if (k <= SMALL_K) {
        n = take_first(d, logits, max, k, set);
    } else {
        n = take_all(d, logits, max, set);
        if (k < n) {
            set += pop_first(set, n, k);
            n = k;
        }
    }
    if (d->top_p < DRAW_WHOLE) n = keep_top_p(set, n, d->top_p);
    *id = largest(d, set, n, pos);
    return true;
}
