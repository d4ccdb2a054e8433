/* The choice is by expected tokens over expected time: a draft of k tokens gives 1 + p1 + p1 p2
 * + … tokens for k tokens of drafting and a step of k + 1 rows. */
#include "engine/draft_length.h"

#include <string.h>

/* Trials that an estimate of acceptance remembers: few, so that it follows the text. */
enum { MEMORY = 12 };
/* Before the first trial: as many trials with such an outcome. */
static const double PRIOR = 0.75;
enum { PRIOR_TRIALS = 2 };
/* An estimate that is so many steps old counts half, the depth before it the other half. */
enum { STALE = 32 };
/* New times weigh so much against those before. */
static const double TIME_WEIGHT = 0.15;
/* A row more costs so much of the first until it is measured. */
static const double ROW_PRIOR = 0.25;
/* Drafting begins where it gains this much by estimate: less is noise. */
static const double MIN_GAIN = 1.03;
/* The balance: its share of time, its largest and first value in tokens. */
static const double ALLOWANCE = 0.01, MAX_BALANCE = 24, FIRST_BALANCE = 8;
/* Steps between tries, between plain steps that keep their time known. */
enum { MIN_GAP = 12, MAX_GAP = 1024, PLAIN_GAP = 64 };
/* Length of the first draft of a source whose cost is not known. */
enum { FIRST_LENGTH = 2 };

void draft_length_init(struct draft_length *c, double draft_cost)
{
    *c = (struct draft_length){.reply_tokens = 128};
    for (size_t i = 0; i < N_DRAFT_SOURCES; i++) {
        c->from[i].token_ms = i == DRAFT_MODEL ? -draft_cost : 0;
        c->from[i].gap = MIN_GAP;
    }
}

double draft_length_plain_ms(const struct draft_length *c)
{
    return c->verify_ms[1];
}

/* ---- estimates ---- */

/* Rows that were not measured lie on the line between those that were. */
static double verify_cost(const struct draft_length *c, uint32_t n_rows)
{
    const double *ms = c->verify_ms;
    uint32_t lo = n_rows, hi = n_rows, before;
    if (ms[n_rows] > 0) return ms[n_rows];
    while (ms[lo] <= 0)
        lo--; /* one row is measured */
    while (hi < DRAFT_MAX + 2 && ms[hi] <= 0)
        hi++;
    double slope = ms[1] * ROW_PRIOR;
    if (hi < DRAFT_MAX + 2) {
        slope = (ms[hi] - ms[lo]) / (hi - lo);
    } else if (lo > 1) {
        for (before = lo - 1; ms[before] <= 0;)
            before--;
        slope = (ms[lo] - ms[before]) / (lo - before);
    }
    return ms[lo] + (slope > 0 ? slope : 0) * (n_rows - lo);
}

static double token_cost(const struct draft_length *c, enum draft_source source)
{
    const double ms = c->from[source].token_ms;
    return ms < 0 ? -ms * c->verify_ms[1] : ms;
}

/* The share at a depth, given that of the one before. */
static double share_at(const struct draft_length *c, const struct draft_share *s, double before)
{
    double p = (s->p * s->n + before * PRIOR_TRIALS) / (s->n + PRIOR_TRIALS);
    double age = (double)(c->step - s->when), old = age / (age + STALE);
    return p * (1 - old) + before * old;
}

/* Milliseconds of n tokens that the draft only reads. */
static double read_cost(const struct draft_length *c, const struct draft_offer *o)
{
    return o->behind <= 1 ? 0 : 0.5 * token_cost(c, o->source) * (o->behind - 1);
}

struct best {
    uint32_t n;
    double rate; /* tokens per ms */
};

static struct best best_length(const struct draft_length *c, const struct draft_offer *o,
                               uint32_t most)
{
    const struct draft_from *from = &c->from[o->source];
    const double token = token_cost(c, o->source);
    struct best best = {0};
    const struct draft_share *top = &from->depth[0];
    const double first = (top->p * top->n + PRIOR * PRIOR_TRIALS) / (top->n + PRIOR_TRIALS);
    double share = first, all = 1, tokens = 1;
    for (uint32_t k = 1; k <= most; k++) {
        share = k == 1 ? first : share_at(c, &from->depth[k - 1], share);
        all *= share;
        tokens += all;
        double ms = k * token + verify_cost(c, k + 1), rate = tokens / ms;
        if (rate > best.rate) best = (struct best){k, rate};
    }
    return best;
}

/* ---- choosing ---- */

/* Whether reading what the draft has missed comes back within the rest of the reply. */
static bool is_worth_reading(const struct draft_length *c, const struct draft_offer *o,
                             double rate, uint32_t n_done)
{
    double left = c->reply_tokens - n_done;
    if (left < 32) left = 32;
    double saves = left * (c->verify_ms[1] - 1 / rate);
    return 2 * read_cost(c, o) < saves;
}

struct draft_choice draft_length_choose(struct draft_length *c,
                                        const struct draft_offer *offers, size_t n_offers,
                                        uint32_t n_done)
{
    struct draft_choice choice = {0};
    const double plain = c->verify_ms[1];
    if (plain <= 0 || c->step >= c->next_plain) return choice;
    double best = MIN_GAIN / plain;
    bool is_try = false;
    for (size_t i = 0; i < n_offers; i++) {
        const struct draft_offer *o = &offers[i];
        struct draft_from *from = &c->from[o->source];
        const uint32_t first = o->source == DRAFT_MODEL ? FIRST_LENGTH : DRAFT_MAX;
        uint32_t most = o->most < DRAFT_MAX ? o->most : DRAFT_MAX;
        if (!from->has_token_ms && most > first) most = first;
        if (most == 0) continue;
        struct best b = best_length(c, o, most);
        if (b.rate > best && c->balance_ms > 0 && is_worth_reading(c, o, b.rate, n_done)) {
            best = b.rate;
            choice = (struct draft_choice){b.n, i};
            is_try = false;
        } else if (choice.n == 0 && c->step >= from->next_try) {
            double loss =
                read_cost(c, o) + token_cost(c, o->source) + verify_cost(c, 2) - plain;
            if (loss > c->balance_ms) continue;
            choice = (struct draft_choice){1, i};
            is_try = true;
        }
    }
    if (is_try) {
        struct draft_from *from = &c->from[offers[choice.offer].source];
        from->next_try = c->step + from->gap;
        from->gap = 2 * from->gap < MAX_GAP ? 2 * from->gap : MAX_GAP;
    }
    return choice;
}

/* ---- learning ---- */

static void learn_time(double *mean, double ms)
{
    /* A step that was interrupted says nothing of the next. */
    if (*mean > 0 && ms > 3 * *mean) ms = 3 * *mean;
    *mean = *mean > 0 ? *mean + TIME_WEIGHT * (ms - *mean) : ms;
}

/* A longer context, a core that is gone: what slows one number of rows slows all. */
static void learn_verify(struct draft_length *c, uint32_t n_rows, double ms)
{
    double before = c->verify_ms[n_rows];
    learn_time(&c->verify_ms[n_rows], ms);
    if (before <= 0) return;
    double drift = c->verify_ms[n_rows] / before;
    for (uint32_t i = 1; i < DRAFT_MAX + 2; i++)
        if (i != n_rows) c->verify_ms[i] *= 1 + (drift - 1) / 2;
}

static void learn_share(struct draft_length *c, struct draft_share *s, bool accepted)
{
    if (s->n > MEMORY / 4 && c->step - s->when > STALE) s->n = MEMORY / 4;
    if (s->n < MEMORY) s->n++;
    s->p += ((accepted ? 1 : 0) - s->p) / s->n;
    s->when = c->step;
}

void draft_length_learn(struct draft_length *c, const struct draft_outcome *o)
{
    c->step++;
    const double ms = o->draft_ms + o->verify_ms;
    learn_verify(c, o->n_drafted + 1, o->verify_ms);
    const double plain = c->verify_ms[1];
    c->balance_ms += ALLOWANCE * ms;
    if (o->n_drafted == 0) {
        if (c->step == 1) c->balance_ms = FIRST_BALANCE * plain;
        c->balance_ms -= o->draft_ms; /* of a draft that had nothing to say */
        c->next_plain = c->step + PLAIN_GAP;
        return;
    }
    c->balance_ms += (1 + o->n_accepted) * plain - ms;
    if (c->balance_ms > MAX_BALANCE * plain) c->balance_ms = MAX_BALANCE * plain;
    struct draft_from *from = &c->from[o->source];
    double n_tokens = o->n_drafted + (o->n_read > 1 ? 0.5 * (o->n_read - 1) : 0);
    if (!from->has_token_ms) from->token_ms = 0;
    learn_time(&from->token_ms, o->draft_ms / n_tokens);
    from->has_token_ms = true;
    for (uint32_t i = 0; i < o->n_judged; i++)
        learn_share(c, &from->depth[i], i < o->n_accepted);
    if (o->n_accepted > 0) {
        from->gap = MIN_GAP;
        if (from->next_try > c->step + 2) from->next_try = c->step + 2;
    }
}

void draft_length_reply(struct draft_length *c, uint32_t n)
{
    c->reply_tokens += (n - c->reply_tokens) / 4;
}
