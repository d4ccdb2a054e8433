/* Checked options and kept counts become a request for a draw. */
#include "engine/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "backend/draw.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "base/philox.h"
#include "engine/bound.h"
#include "engine/engine.h"
#include "engine/penalties.h"

struct sampler {
    struct draw draw;
    struct penalties penalties;
    size_t n_vocab;
    const int32_t *suppressed;
    size_t n_suppressed;
    struct bound *bound; /* NULL: nothing ever binds a reply */
    struct draw_bias *bias;
    size_t cap_bias;
    struct draw_scratch *scratch;
    struct draw_count ahead[2 * SAMPLER_MAX_AHEAD];
    uint32_t n_ahead[SAMPLER_MAX_AHEAD + 1];
    int32_t leaves[SAMPLER_MAX_AHEAD];
};

static const float GREEDY_BELOW = 0x1p-20f;

struct sampler *sampler_new(size_t n_vocab)
{
    struct sampler *s = mem_zalloc(1, sizeof *s);
    s->n_vocab = n_vocab;
    penalties_init(&s->penalties, n_vocab);
    s->scratch = draw_scratch_new(n_vocab);
    return s;
}

void sampler_free(struct sampler *s)
{
    if (!s) return;
    penalties_free(&s->penalties);
    draw_scratch_free(s->scratch);
    free(s->bias);
    free(s);
}

void sampler_suppress(struct sampler *s, const int32_t *ids, size_t n)
{
    s->suppressed = ids;
    s->n_suppressed = n;
}

void sampler_bind(struct sampler *s, struct bound *bound)
{
    s->bound = bound;
}

bool sampler_is_bound(const struct sampler *s)
{
    return s->bound && bound_is_bound(s->bound);
}

static bool check_range(const char *name, float x, float lo, float hi, struct err *err)
{
    if (x >= lo && x <= hi) return true;
    return err_set(err, ERR_USER, "%s is %g, expected %g to %g", name, (double)x, (double)lo,
                   (double)hi);
}

bool sampler_has_biased(size_t n_vocab, int32_t id, struct err *err)
{
    if (id >= 0 && (size_t)id < n_vocab) return true;
    return err_set(err, ERR_USER,
                   "logit-bias names token %d, but the vocabulary has %zu tokens", (int)id,
                   n_vocab);
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
        if (!sampler_has_biased(n_vocab, how->bias[i].id, err)) return false;
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

/* slot[id]: the place of id in the list, from 1; 0: it has none. Several numbers for one id are
 * added up. */
static void add_bias(struct sampler *s, size_t *slot, int32_t id, float bias)
{
    if (slot[id] == 0) {
        s->bias[s->draw.n_bias++] = (struct draw_bias){id, 0};
        slot[id] = s->draw.n_bias;
    }
    s->bias[slot[id] - 1].bias += bias;
}

static bool set_bias(struct sampler *s, const struct engine_sampling *how, struct err *err)
{
    struct draw *d = &s->draw;
    const size_t n = how->n_bias + s->n_suppressed;
    if (n == 0) return true;
    if (n > s->cap_bias) {
        s->cap_bias = n;
        s->bias = mem_resize(s->bias, s->cap_bias, sizeof *s->bias);
    }
    size_t *slot = mem_zalloc(s->n_vocab, sizeof *slot);
    for (size_t i = 0; i < how->n_bias; i++)
        add_bias(s, slot, how->bias[i].id, how->bias[i].bias);
    for (size_t i = 0; i < s->n_suppressed; i++)
        add_bias(s, slot, s->suppressed[i], -INFINITY);
    free(slot);
    d->bias = s->bias;
    for (size_t i = 0; i < d->n_bias; i++) {
        struct draw_bias *b = &s->bias[i];
        if (!(b->bias < INFINITY))
            return err_set(err, ERR_USER, "logit-bias of token %d is too large in all",
                           (int)b->id);
        b->bias = num_keep(b->bias);
    }
    return true;
}

bool sampler_begin(struct sampler *s, const struct engine_sampling *how, const int32_t *ids,
                   size_t n, struct err *err)
{
    if (!check_sampling(how, s->n_vocab, err)) return false;
    penalties_count(&s->penalties, has_penalties(how) ? how->repeat_last_n : 0, ids, n);
    s->draw = (struct draw){
        .n_vocab = s->n_vocab,
        .seed = how->reply_seed,
        .inverse_temp = how->temp < GREEDY_BELOW ? 0 : 1.0f / how->temp,
        .top_k = how->top_k > 0 ? (uint32_t)how->top_k : 0,
        .top_p = (uint32_t)(how->top_p * (float)DRAW_WHOLE),
        .min_x = how->min_p > 0x1p-100f ? num_log(how->min_p) : -INFINITY,
        .repeat = how->repeat_penalty,
        /* The host's division is exact IEEE, so the factor is the same on every machine. */
        .inverse_repeat = 1.0f / how->repeat_penalty,
        .frequency = num_keep(how->frequency_penalty),
        .presence = num_keep(how->presence_penalty),
    };
    return set_bias(s, how, err);
}

const struct draw *sampler_request(struct sampler *s, const int32_t *ids, size_t n,
                                   size_t n_ahead)
{
    const struct penalties *p = &s->penalties;
    struct draw *d = &s->draw;
    assert(n_ahead <= SAMPLER_MAX_AHEAD && n_ahead <= n);
    d->count = p->len > 0 ? p->count : NULL;
    d->distinct = p->distinct;
    d->n_distinct = p->n_distinct;
    d->n_changes = p->n_changes;
    d->recent = p->recent;
    d->ahead = NULL;
    d->n_ahead = NULL;
    d->leaves = NULL;
    d->allowed = s->bound ? bound_allowed(s->bound) : NULL;
    if (n_ahead > 0 && p->len > 0) {
        penalties_ahead(p, ids, n - n_ahead, n_ahead, s->ahead, s->n_ahead);
        d->ahead = s->ahead;
        d->n_ahead = s->n_ahead;
    }
    return d;
}

const struct draw *sampler_request_block(struct sampler *s, const int32_t *ids, size_t n,
                                         size_t n_ahead)
{
    sampler_request(s, NULL, 0, 0);
    assert(n_ahead <= SAMPLER_MAX_AHEAD);
    if (s->penalties.len == 0) return &s->draw;
    penalties_leaving(&s->penalties, ids, n, n_ahead, s->leaves);
    s->draw.leaves = s->leaves;
    return &s->draw;
}

bool sampler_draw(struct sampler *s, const float *logits, uint32_t pos, int32_t *id,
                  struct err *err)
{
    return draw_host(s->scratch, sampler_request(s, NULL, 0, 0), logits, pos, id, err);
}

void sampler_accept(struct sampler *s, const int32_t *ids, size_t n)
{
    penalties_add(&s->penalties, ids, n);
    if (s->bound) bound_accept(s->bound, ids[n - 1]);
}

void sampler_take_back(struct sampler *s, const int32_t *ids, size_t n)
{
    penalties_remove(&s->penalties, ids, n);
    if (s->bound) bound_take_back(s->bound);
}

uint64_t engine_reply_seed(uint64_t session_seed, uint32_t turn, uint32_t attempt)
{
    struct philox_block b = philox(session_seed, turn, attempt, 0, PHILOX_REPLY);
    return (uint64_t)b.word[1] << 32 | b.word[0];
}

int32_t sampler_argmax(const float *logits, size_t n)
{
    float best = -INFINITY;
    int32_t id = -1;
    for (size_t i = 0; i < n; i++)
        if (logits[i] > best) best = logits[i], id = (int32_t)i;
    return id;
}
