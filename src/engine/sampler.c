#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/numeric_c.h"
#include "base/philox.h"
#include "engine/engine.h"
#include "engine/logits.h"
#include "engine/penalties.h"

/* A token still in the running. */
struct candidate {
    float x;
    int32_t id;
};

struct sampler {
    const struct engine_sampling *how;
    struct penalties penalties;
    size_t n_vocab;
    float *logits;          /* [n_vocab], with bias and penalties */
    struct candidate *heap; /* [n_vocab] */
    float inverse_temp, min_x;
    uint64_t top_p; /* in 2^-24 */
};

/* No noise is larger: -ln(2^-33) and the error of two logarithms. */
static const float MAX_NOISE = 22.9f;
/* Below this e^x has the weight 0: 2^-30 is e^-20.79. */
static const float WEIGHTLESS = -21.0f;
static const float GREEDY_BELOW = 0x1p-20f;
/* Up to here the k best are kept in a heap of k, and most of the others are passed over;
 * beyond, one heap of all is cheaper. */
enum { SMALL_K = 1024 };

struct sampler *sampler_new(size_t n_vocab)
{
    struct sampler *s = mem_zalloc(1, sizeof *s);
    s->n_vocab = n_vocab;
    penalties_init(&s->penalties, n_vocab);
    s->logits = mem_zalloc(n_vocab, sizeof *s->logits);
    s->heap = mem_zalloc(n_vocab, sizeof *s->heap);
    return s;
}

void sampler_free(struct sampler *s)
{
    if (!s) return;
    penalties_free(&s->penalties);
    free(s->logits);
    free(s->heap);
    free(s);
}

static bool check_range(const char *name, float x, float lo, float hi, struct err *err)
{
    if (x >= lo && x <= hi) return true;
    return err_set(err, ERR_USER, "%s is %g, expected %g to %g", name, (double)x, (double)lo,
                   (double)hi);
}

static bool check_sampling(const struct engine_sampling *how, size_t n_vocab, struct err *err)
{
    if (!check_range("temp", how->temp, 0, 1e6f, err) ||
        !check_range("top-p", how->top_p, 0, 1, err) ||
        !check_range("min-p", how->min_p, 0, 1, err) ||
        !check_range("repeat-penalty", how->repeat_penalty, 1e-3f, 1e3f, err) ||
        !check_range("presence-penalty", how->presence_penalty, -1e3f, 1e3f, err) ||
        !check_range("frequency-penalty", how->frequency_penalty, -1e3f, 1e3f, err))
        return false;
    for (size_t i = 0; i < how->n_bias; i++) {
        if (how->bias[i].id < 0 || (size_t)how->bias[i].id >= n_vocab)
            return err_set(err, ERR_USER,
                           "logit-bias names token %d, but the vocabulary has %zu tokens",
                           (int)how->bias[i].id, n_vocab);
        if (!(how->bias[i].bias < INFINITY))
            return err_set(err, ERR_USER, "logit-bias of token %d is %g, expected a number",
                           (int)how->bias[i].id, (double)how->bias[i].bias);
    }
    return true;
}

static bool has_penalties(const struct engine_sampling *how)
{
    return how->repeat_last_n != 0 && (how->repeat_penalty != 1 || how->presence_penalty != 0 ||
                                       how->frequency_penalty != 0);
}

bool sampler_begin(struct sampler *s, const struct engine_sampling *how, const int32_t *ids,
                   size_t n, struct err *err)
{
    if (!check_sampling(how, s->n_vocab, err)) return false;
    s->how = how;
    penalties_count(&s->penalties, has_penalties(how) ? how->repeat_last_n : 0, ids, n);
    s->inverse_temp = how->temp < GREEDY_BELOW ? 0 : 1.0f / how->temp;
    s->min_x = how->min_p > 0x1p-100f ? num_log(how->min_p) : -INFINITY;
    s->top_p = (uint64_t)(how->top_p * 0x1p24f);
    return true;
}

void sampler_accept(struct sampler *s, const int32_t *ids, size_t n)
{
    penalties_add(&s->penalties, ids, n);
}

void sampler_take_back(struct sampler *s, const int32_t *ids, size_t n)
{
    penalties_remove(&s->penalties, ids, n);
}

uint64_t engine_reply_seed(uint64_t session_seed, uint32_t turn, uint32_t attempt)
{
    struct philox_block b = philox(session_seed, turn, attempt, 0, PHILOX_REPLY);
    return (uint64_t)b.word[1] << 32 | b.word[0];
}

float sampler_noise(uint64_t reply_seed, uint32_t pos, int32_t id)
{
    uint32_t r = philox(reply_seed, (uint32_t)id, pos, 0, PHILOX_NOISE).word[0];
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

int32_t sampler_argmax(const float *logits, size_t n)
{
    float best = -INFINITY;
    int32_t id = -1;
    for (size_t i = 0; i < n; i++)
        if (logits[i] > best) best = logits[i], id = (int32_t)i;
    return id;
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
    return x < WEIGHTLESS ? 0 : (uint64_t)(num_exp(x) * 0x1p30f);
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
        if (set[i].x >= WEIGHTLESS) set[n_weighty++] = set[i];
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
static int32_t draw(const struct sampler *s, const struct candidate *set, size_t n,
                    uint32_t pos)
{
    float best = -INFINITY;
    int32_t best_id = -1;
    for (size_t i = 0; i < n; i++) {
        float x = set[i].x;
        if (x < s->min_x || x + MAX_NOISE < best) continue;
        float y = x + sampler_noise(s->how->reply_seed, pos, set[i].id);
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

/* The logits with bias and penalties, and their maximum: the model's own if nothing changes
 * them. NULL on failure. */
static const float *prepare(struct sampler *s, const float *logits, float *max, struct err *err)
{
    const struct engine_sampling *how = s->how;
    if (!logits_max(logits, s->n_vocab, max)) {
        broken(logits, s->n_vocab, err);
        return NULL;
    }
    if (how->n_bias > 0 || s->penalties.n_distinct > 0) {
        memcpy(s->logits, logits, s->n_vocab * sizeof *logits);
        for (size_t i = 0; i < how->n_bias; i++)
            s->logits[how->bias[i].id] += how->bias[i].bias;
        penalties_apply(&s->penalties, how, s->logits);
        logits = s->logits;
        if (!logits_max(logits, s->n_vocab, max)) {
            err_set(err, ERR_FORMAT,
                    "a logit is infinite after bias and penalties: the weights are broken");
            return NULL;
        }
    }
    if (*max > -INFINITY) return logits;
    err_set(err, ERR_USER, "logit-bias bans every token");
    return NULL;
}

static float scaled(const struct sampler *s, float logit, float max)
{
    return (logit - max) * s->inverse_temp;
}

/* All tokens that are not banned, in s->heap; returns how many. */
static size_t take_all(struct sampler *s, const float *logits, float max)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_vocab; i++) {
        float x = scaled(s, logits[i], max);
        if (x > -INFINITY) s->heap[n++] = (struct candidate){x, (int32_t)i};
    }
    return n;
}

/* The k first of them, or all if there are fewer, in no order. What is no larger than the last
 * of k lower ids never comes before it. */
static size_t take_first(struct sampler *s, const float *logits, float max, size_t k)
{
    struct candidate *heap = s->heap;
    size_t i = 0, n = 0;
    for (; i < s->n_vocab && n < k; i++) {
        float x = scaled(s, logits[i], max);
        if (x > -INFINITY) heap[n++] = (struct candidate){x, (int32_t)i};
    }
    if (n < k) return n;
    heapify(heap, k, true);
    for (; i < s->n_vocab; i++) {
        i = logits_next(logits, i, s->n_vocab, logits[heap[0].id]);
        if (i == s->n_vocab) break;
        const struct candidate c = {scaled(s, logits[i], max), (int32_t)i};
        if (!before(c, heap[0])) continue;
        heap[0] = c;
        sift(heap, k, 0, true);
    }
    return n;
}

bool sampler_draw(struct sampler *s, const float *logits, uint32_t pos, int32_t *id,
                  struct err *err)
{
    float max = 0;
    logits = prepare(s, logits, &max, err);
    if (!logits) return false;
    if (s->inverse_temp == 0) {
        *id = (int32_t)logits_next(logits, 0, s->n_vocab, max);
        return true;
    }
    struct candidate *set = s->heap;
    const size_t k = s->how->top_k > 0 ? (size_t)s->how->top_k : SIZE_MAX;
    size_t n;
    if (k <= SMALL_K) {
        n = take_first(s, logits, max, k);
    } else {
        n = take_all(s, logits, max);
        if (k < n) {
            set += pop_first(set, n, k);
            n = k;
        }
    }
    if (s->how->top_p < 1) n = keep_top_p(set, n, s->top_p);
    *id = draw(s, set, n, pos);
    return true;
}
