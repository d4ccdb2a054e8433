/* The choice is by expected tokens over expected time: a draft of k tokens gives
 * 1 + p1 + p1 p2 + … tokens for k tokens of drafting and a step of k + 1 rows. */
#include "engine/draft_length.h"

#include <math.h>

/* Trials that an estimate of acceptance remembers: few, so that it follows the text. */
enum { MEMORY = 12 };
/* Before the first trial: as many trials with such an outcome. */
static const double PRIOR = 0.75;
enum { PRIOR_TRIALS = 2 };
/* An estimate that is so many steps old counts half, the depth before it the other half. */
enum { STALE = 32 };
/* New times weigh so much against those before. */
static const double TIME_WEIGHT = 0.15, MAX_CHANGE = 1.4, FIRST_CHANGE = 1.5;
enum { FEW = 3, MANY = 12, LINE_TRIALS = 4 };
/* A mean over so many plain steps that is so far above the usual time tells of contention; so
 * much of it counts; and one interruption counts at most as so many steps. */
enum { PLAIN_MEMORY = 32, MAX_INTERRUPTION = 10 };
static const double CONTENDED = 1.2, MOST_CONTENDED = 2, CONTENDED_SHARE = 0.5;
/* A row more costs so much of the first until it is measured. */
static const double ROW_PRIOR = 0.25;
/* Drafting begins where it gains this much by estimate: less is noise. */
static const double MIN_GAIN = 1.03;
/* The balance: its share of time, its largest and first value in tokens. */
static const double ALLOWANCE = 0.01, MAX_BALANCE = 16, FIRST_BALANCE = 8;
/* A try may lose no more than one part in so many of the balance, and read for no more. */
enum { TRY_SHARE = 8, READ_SHARE = 2 };
/* Steps between tries, between plain steps that keep their time known. */
enum { MIN_GAP = 12, MAX_GAP = 256, PLAIN_GAP = 32, EXPLORE_GAP = 8 };
/* Length of the first draft of a source whose cost is not known. */
enum { FIRST_LENGTH = 2 };

void draft_length_init(struct draft_length *c, double draft_cost)
{
    *c = (struct draft_length){.reply_tokens = 128};
    for (size_t i = 0; i < N_DRAFT_SOURCES; i++) {
        c->from[i].token_guess = i == DRAFT_MODEL ? draft_cost : 0;
        c->from[i].gap = MIN_GAP;
    }
}

double draft_length_plain_ms(const struct draft_length *c)
{
    return c->verify[1].ms;
}

/* ---- estimates ---- */

/* The line through all measured steps, each counted by how often it was measured. */
static void fit_line(struct draft_length *c)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (uint32_t i = 1; i < DRAFT_MAX + 2; i++) {
        const struct draft_time *t = &c->verify[i];
        const double w = t->n, dx = i - 1;
        n += w, x += w * dx, y += w * t->ms, xx += w * dx * dx, xy += w * dx * t->ms;
    }
    const double spread = n * xx - x * x;
    c->row_ms = spread > 0 ? (n * xy - x * y) / spread : c->verify[1].ms * ROW_PRIOR;
    if (c->row_ms < 0) c->row_ms = 0;
    c->base_ms = (y - c->row_ms * x) / n;
}

/* What was measured of a number of rows counts for itself the more, the more often. */
static double verify_cost(const struct draft_length *c, uint32_t n_rows)
{
    const struct draft_time *t = &c->verify[n_rows];
    const double line = c->base_ms + c->row_ms * (n_rows - 1);
    return (t->n * t->ms + LINE_TRIALS * line) / (t->n + LINE_TRIALS);
}

static double token_cost(const struct draft_length *c, enum draft_source source)
{
    const struct draft_from *from = &c->from[source];
    return from->token.n > 0 ? from->token.ms : from->token_guess * c->verify[1].ms;
}

/* A step without drafts. On a machine that others use a short step is interrupted seldom, and
 * what interrupts it is taken for chance, but a long one nearly always: then the short one
 * counts with its share of the interruptions. */
static double plain_cost(const struct draft_length *c)
{
    const double usual = c->verify[1].ms;
    double all = c->plain.ms / usual;
    if (all > MOST_CONTENDED) all = MOST_CONTENDED;
    return all > CONTENDED ? usual * (1 + CONTENDED_SHARE * (all - CONTENDED)) : usual;
}

static void learn_plain(struct draft_length *c, double ms)
{
    struct draft_time *t = &c->plain;
    if (t->n < PLAIN_MEMORY) t->n++;
    if (t->n > 1 && ms > MAX_INTERRUPTION * t->ms) ms = MAX_INTERRUPTION * t->ms;
    t->ms += (ms - t->ms) / t->n;
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
    double saves = left * (plain_cost(c) - 1 / rate);
    return 2 * read_cost(c, o) < saves;
}

/* Now and then a length that is twice as long, as far as its cost is not known: an estimate
 * that is too high would otherwise never be put right. */
static uint32_t explore(const struct draft_length *c, uint32_t n, uint32_t most)
{
    const uint32_t longer = 2 * n < most ? 2 * n : most;
    if (c->step % EXPLORE_GAP != 0 || c->verify[longer + 1].n >= FEW) return n;
    const double loss = 2 * (verify_cost(c, longer + 1) - verify_cost(c, n + 1));
    return TRY_SHARE * loss < c->balance_ms ? longer : n;
}

struct draft_choice draft_length_choose(struct draft_length *c,
                                        const struct draft_offer *offers, size_t n_offers,
                                        uint32_t n_done)
{
    struct draft_choice choice = {0};
    const double plain = plain_cost(c);
    if (c->verify[1].n < FEW || c->step >= c->next_plain) return choice;
    double best = MIN_GAIN / plain;
    bool is_try = false;
    for (size_t i = 0; i < n_offers; i++) {
        const struct draft_offer *o = &offers[i];
        struct draft_from *from = &c->from[o->source];
        const uint32_t first = o->source == DRAFT_MODEL ? FIRST_LENGTH : DRAFT_MAX;
        uint32_t most = o->most < DRAFT_MAX ? o->most : DRAFT_MAX;
        if (from->token.n == 0 && most > first) most = first;
        if (most == 0) continue;
        struct best b = best_length(c, o, most);
        if (b.rate > best && c->balance_ms > 0 && is_worth_reading(c, o, b.rate, n_done)) {
            best = b.rate;
            choice = (struct draft_choice){explore(c, b.n, most), i};
            is_try = false;
        } else if (choice.n == 0 && c->step >= from->next_try) {
            const double reading = read_cost(c, o);
            const double loss = token_cost(c, o->source) + verify_cost(c, 2) - plain;
            if (TRY_SHARE * loss > c->balance_ms || READ_SHARE * reading > c->balance_ms)
                continue;
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

/* A step that was interrupted says nothing of the next: of the first few the shortest counts,
 * later ones move the mean by a little each. */
static void learn_time(struct draft_time *t, double ms)
{
    if (t->n < MANY) t->n++;
    if (t->n <= FEW) {
        t->ms = t->n == 1 || ms < t->ms ? ms : t->ms;
        return;
    }
    if (ms > MAX_CHANGE * t->ms) ms = MAX_CHANGE * t->ms;
    if (ms < t->ms / MAX_CHANGE) ms = t->ms / MAX_CHANGE;
    t->ms += TIME_WEIGHT * (ms - t->ms);
}

/* A longer context, a core that is gone: what slows one number of rows slows all. */
static void learn_verify(struct draft_length *c, uint32_t n_rows, double ms)
{
    struct draft_time *t = &c->verify[n_rows];
    const double before = t->ms, line = c->base_ms + c->row_ms * (n_rows - 1);
    /* A first time far off the line is an interruption, and would bend it. */
    if (t->n == 0 && line > 0 && ms > FIRST_CHANGE * line) ms = FIRST_CHANGE * line;
    learn_time(t, ms);
    const double drift = t->n > FEW ? sqrt(t->ms / before) : 1;
    for (uint32_t i = 1; i < DRAFT_MAX + 2; i++)
        if (i != n_rows) c->verify[i].ms *= drift;
    fit_line(c);
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
    learn_verify(c, o->n_drafted + 1, o->verify_ms);
    const double usual = MAX_CHANGE * c->verify[o->n_drafted + 1].ms;
    const double ms = o->draft_ms + (o->verify_ms < usual ? o->verify_ms : usual);
    if (o->n_drafted == 0) learn_plain(c, o->verify_ms);
    const double plain = plain_cost(c);
    c->balance_ms += ALLOWANCE * ms;
    if (o->n_drafted == 0) {
        if (c->step == FEW) c->balance_ms = FIRST_BALANCE * plain;
        c->balance_ms -= o->draft_ms; /* of a draft that had nothing to say */
        c->next_plain = c->step + PLAIN_GAP;
        return;
    }
    c->balance_ms += (1 + o->n_accepted) * plain - ms;
    if (c->balance_ms > MAX_BALANCE * plain) c->balance_ms = MAX_BALANCE * plain;
    struct draft_from *from = &c->from[o->source];
    double n_tokens = o->n_drafted + (o->n_read > 1 ? 0.5 * (o->n_read - 1) : 0);
    learn_time(&from->token, o->draft_ms / n_tokens);
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
    c->next_plain = c->step; /* the next begins with a plain step: what drafts are against */
}
