/* The choice is by expected tokens over expected time: a draft of k tokens gives
 * 1 + p1 + p1 p2 + … tokens for k tokens of drafting and a step of k + 1 rows. Each p is that
 * of a draft whose predecessors were right. */
#include "engine/draft_length.h"

/* Drafts at one depth that count, and as many that were right as was believed. */
static const double DEPTH_MEMORY = 48, DEPTH_PRIOR = 24;
/* After so many steps without a draft half of what is believed is forgotten; half of what is
 * left to hope for is hoped for. */
enum { STALE = 200, FORGOTTEN = 192 };
/* Another reply is another text: so much is forgotten. */
static const double OF_OTHER_TEXT = 0.25;
/* Hope takes it half as if the next draft had been right. */
static const double SUPPOSED = 0.5;
/* New times weigh so much against those before. */
static const double TIME_WEIGHT = 0.15, MAX_CHANGE = 1.4;
enum { FEW = 3, MANY = 12, LINE_TRIALS = 4 };
/* A draft that takes so many times the usual was interrupted, and does not count for more. */
static const double INTERRUPTED = 4;
/* Most tokens of the first draft, of which not even the cost is known. */
enum { FIRST_LENGTH = 2 };
/* What was measured seldom may take this much less. */
static const double HOPED_COST = 0.85;
/* A mean over so many plain steps that is so far above the usual time tells of contention; so
 * much of it counts; and one interruption counts at most as so many steps. */
enum { PLAIN_MEMORY = 32, MAX_INTERRUPTION = 10 };
static const double CONTENDED = 1.2, MOST_CONTENDED = 2, CONTENDED_SHARE = 0.5;
/* A row more costs so much of the first until it is measured; a token that the draft only
 * reads, of one that it draws. */
static const double ROW_PRIOR = 0.25, READ_PRIOR = 0.25;
/* So many tokens at least tell what reading takes. */
enum { MANY_READ = 8 };
/* Drafting begins where it gains this much by estimate: less is noise. */
static const double MIN_GAIN = 1.03;
/* The balance: its share of time, its largest and first value in tokens. */
static const double ALLOWANCE = 0.006, MAX_BALANCE = 16, FIRST_BALANCE = 8;
/* Most that one draft may lose, besides what is read for it. Of the balance, what a try may
 * lose, and what it may read for. */
static const double MOST_LOSS = 8, TRY_SHARE = 0.3, TRY_READ = 0.75;
/* Where drafts pay, one of so many steps tries what may pay more. */
enum { HOPE_GAP = 8 };
/* However long the reply is by now, so many tokens of it may be left. */
enum { MIN_LEFT = 16 };
/* Steps between runs of plain steps that keep their time known, and of such a run; of a reply
 * and of a run the first are cold. */
enum { PLAIN_GAP = 128, PLAIN_RUN = 4, COLD = 2 };
/* Behind a block so many plain steps are slower, by no more than this: the block bears it. */
enum { SLOWED = 3 };
static const double MOST_SLOWED = 0.5;

void draft_length_init(struct draft_length *c, double draft_cost)
{
    *c = (struct draft_length){.reply_tokens = 128, .row = ROW_PRIOR, .balance = FIRST_BALANCE};
    c->from[DRAFT_MODEL].token_guess = draft_cost;
    for (size_t i = 0; i < N_DRAFT_SOURCES; i++)
        draft_belief_init(&c->from[i].belief);
}

double draft_length_plain_ms(const struct draft_length *c)
{
    return c->plain.ms;
}

/* ---- estimates ---- */

static double age(const struct draft_length *c, uint64_t when, double half)
{
    const double steps = (double)(c->step - when);
    return steps / (steps + half);
}

/* How sure one is: what was measured, or the best that it leaves room for. */
enum view { EXPECTED, HOPED };

/* In plain steps. What was measured of a number of rows counts for itself the more, the more
 * often. */
static double verify_cost(const struct draft_length *c, uint32_t n_rows, enum view view)
{
    const struct draft_rows *t = &c->verify[n_rows];
    const double line = 1 + c->row * (n_rows - 1);
    const double cost = (t->n * t->steps + LINE_TRIALS * line) / (t->n + LINE_TRIALS);
    if (view == EXPECTED) return cost;
    const double old = t->n < FEW ? 1 : age(c, t->when, FORGOTTEN);
    return cost * (1 - old * (1 - HOPED_COST));
}

/* In plain steps. A first time that was interrupted must not be the last. */
static double token_cost(const struct draft_length *c, enum draft_source source, enum view view)
{
    const struct draft_from *from = &c->from[source];
    if (from->token.n == 0) return from->token_guess;
    const double cost = from->token.ms / c->plain.ms;
    const bool hopes = view == HOPED && from->token.n < FEW && cost > from->token_guess;
    return hopes ? from->token_guess : cost;
}

/* A step without drafts, in the usual ones. On a machine that others use a short step is
 * interrupted seldom, and what interrupts it is taken for chance, but a long one nearly always:
 * then the short one counts with its share of the interruptions. */
static double plain_cost(const struct draft_length *c)
{
    double all = c->busy.ms / c->plain.ms;
    if (all > MOST_CONTENDED) all = MOST_CONTENDED;
    return all > CONTENDED ? 1 + CONTENDED_SHARE * (all - CONTENDED) : 1;
}

/* What is believed by now. */
static struct draft_belief belief_of(const struct draft_length *c,
                                     const struct draft_from *from)
{
    struct draft_belief belief = from->belief;
    draft_belief_forget(&belief, age(c, from->judged, STALE));
    return belief;
}

/* The chance of a draft at one depth, of which that of any is believed. */
static double chance_at(const struct draft_depth *d, double any)
{
    const double p = any * (d->right + DEPTH_PRIOR) / (d->believed + DEPTH_PRIOR);
    return p < 1 ? p : 1;
}

/* What the draft only reads, in plain steps. */
static double read_cost(const struct draft_length *c, enum draft_source source, uint32_t n,
                        enum view view)
{
    const struct draft_time *read = &c->from[source].read;
    const double guess = READ_PRIOR * token_cost(c, source, view);
    double each = read->n > 0 ? read->ms / c->plain.ms : guess;
    if (view == HOPED && read->n < FEW && each > guess) each = guess;
    return n <= 1 ? 0 : each * (n - 1);
}

struct best {
    uint32_t n;
    double rate; /* tokens per plain step */
};

/* The best length of those that lose at most so much if nothing is right. */
static struct best best_length(const struct draft_length *c, const struct draft_offer *o,
                               enum view view)
{
    const struct draft_from *from = &c->from[o->source];
    const double token = token_cost(c, o->source, view), plain = plain_cost(c);
    const double reading = read_cost(c, o->source, o->behind, view);
    double most_loss = view == HOPED ? TRY_SHARE * c->balance : c->balance - reading;
    if (most_loss > MOST_LOSS) most_loss = MOST_LOSS;
    uint32_t most = o->most < DRAFT_MAX ? o->most : DRAFT_MAX;
    if (!from->is_awake && token > 0 && most > FIRST_LENGTH) most = FIRST_LENGTH;
    struct best best = {0};
    if (view == HOPED && reading > TRY_READ * c->balance) return best;
    struct draft_belief belief = belief_of(c, from);
    if (view == HOPED) draft_belief_suppose(&belief, SUPPOSED);
    const double hope = view == HOPED ? age(c, from->judged, FORGOTTEN) : 0;
    double all = 1, tokens = 1, any[DRAFT_MAX];
    draft_belief_run(&belief, most, any);
    for (uint32_t k = 1; k <= most; k++) {
        const double p = chance_at(&from->depth[k - 1], any[k - 1]);
        all *= p + (1 - p) * hope;
        tokens += all;
        if (k * token + verify_cost(c, k + 1, EXPECTED) - plain > most_loss) break;
        const double rate = tokens / (k * token + verify_cost(c, k + 1, view));
        if (rate > best.rate) best = (struct best){k, rate};
    }
    return best;
}

/* ---- choosing ---- */

/* Whether reading what the draft has missed comes back within the rest of the reply. */
static bool is_worth_reading(const struct draft_length *c, const struct draft_offer *o,
                             double rate, uint32_t n_done, enum view view)
{
    double left = c->reply_tokens - n_done;
    if (left < MIN_LEFT) left = MIN_LEFT;
    return 2 * read_cost(c, o->source, o->behind, view) <= left * (plain_cost(c) - 1 / rate);
}

/* The best offer that gains by more than noise; n = 0: none does. */
static struct draft_choice best_offer(const struct draft_length *c,
                                      const struct draft_offer *offers, size_t n_offers,
                                      uint32_t n_done, enum view view)
{
    struct draft_choice choice = {0};
    double best = MIN_GAIN / plain_cost(c);
    for (size_t i = 0; i < n_offers; i++) {
        const struct best b = best_length(c, &offers[i], view);
        if (b.rate <= best || !is_worth_reading(c, &offers[i], b.rate, n_done, view)) continue;
        best = b.rate;
        choice = (struct draft_choice){b.n, i};
    }
    return choice;
}

struct draft_choice draft_length_choose(struct draft_length *c,
                                        const struct draft_offer *offers, size_t n_offers,
                                        uint32_t n_done)
{
    if (c->plain.n < FEW) return (struct draft_choice){0};
    if (c->step >= c->next_plain && c->step < c->next_plain + PLAIN_RUN)
        return (struct draft_choice){0};
    const struct draft_choice best = best_offer(c, offers, n_offers, n_done, EXPECTED);
    if (best.n > 0 && c->step % HOPE_GAP != 0) return best;
    const struct draft_choice hoped = best_offer(c, offers, n_offers, n_done, HOPED);
    return hoped.n > best.n ? hoped : best;
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

static void learn_plain(struct draft_length *c, double ms)
{
    learn_time(&c->plain, ms);
    struct draft_time *t = &c->busy;
    if (t->n < PLAIN_MEMORY) t->n++;
    if (t->n > 1 && ms > MAX_INTERRUPTION * t->ms) ms = MAX_INTERRUPTION * t->ms;
    t->ms += (ms - t->ms) / t->n;
}

/* The line begins with the plain step; each number counts by how often it was measured. */
static void fit_line(struct draft_length *c)
{
    double xx = 0, xy = 0;
    for (uint32_t i = 2; i < DRAFT_MAX + 2; i++) {
        const struct draft_rows *t = &c->verify[i];
        const double dx = i - 1;
        xx += t->n * dx * dx, xy += t->n * dx * (t->steps - 1);
    }
    c->row = xy > 0 ? xy / xx : 0;
}

/* In plain steps: a longer context, a core that is gone slow them all. */
static void learn_verify(struct draft_length *c, uint32_t n_rows, double ms)
{
    struct draft_rows *t = &c->verify[n_rows];
    struct draft_time time = {t->steps, t->n};
    double steps = ms / c->plain.ms;
    /* Each row for itself would take no more: it was interrupted. */
    if (steps > n_rows) steps = n_rows;
    if (c->step - t->when > FORGOTTEN && t->n > 1) time.n = 1;
    learn_time(&time, steps);
    *t = (struct draft_rows){time.ms, time.n, c->step};
    fit_line(c);
}

/* What a draft takes; but the first of all finds nothing in memory. */
static void learn_drawing(struct draft_length *c, const struct draft_outcome *o)
{
    struct draft_from *from = &c->from[o->source];
    const double read = o->n_read > 1 ? o->n_read - 1 : 0;
    const double drawing = o->n_drafted * token_cost(c, o->source, EXPECTED) * c->plain.ms;
    const bool is_first = !from->is_awake;
    from->is_awake = true;
    if (is_first) return;
    if (read < MANY_READ)
        learn_time(&from->token, o->draft_ms / (o->n_drafted + READ_PRIOR * read));
    else if (o->draft_ms > drawing)
        learn_time(&from->read, (o->draft_ms - drawing) / read);
}

static void learn_right(struct draft_length *c, const struct draft_outcome *o)
{
    struct draft_from *from = &c->from[o->source];
    if (o->n_judged == 0) return;
    from->belief = belief_of(c, from);
    from->judged = c->step;
    for (uint32_t i = 0; i < o->n_judged; i++) {
        struct draft_depth *d = &from->depth[i];
        const bool right = i < o->n_accepted;
        const double kept = 1 - 1 / DEPTH_MEMORY;
        d->right = kept * d->right + (right ? 1 : 0);
        d->believed = kept * d->believed + draft_belief_next(&from->belief);
        draft_belief_learn(&from->belief, right);
    }
}

/* Whether a step took what one among its like takes. */
static bool is_usual(const struct draft_length *c, const struct draft_outcome *o)
{
    if (o->n_drafted == 0) return c->n_plain >= COLD;
    return c->n_steps >= COLD || c->verify[o->n_drafted + 1].n == 0;
}

/* What a plain step behind a block takes more than one among its like. */
static double slowed_by(const struct draft_length *c, double steps)
{
    const bool is_behind = c->n_plain <= SLOWED && c->n_steps > c->n_plain;
    const double more = is_behind ? steps - 1 : 0;
    return more > MOST_SLOWED ? MOST_SLOWED : more < -MOST_SLOWED ? -MOST_SLOWED : more;
}

/* What a step lost against plain decoding, or gained; but what interrupted it does not count.
 */
static void pay(struct draft_length *c, const struct draft_outcome *o)
{
    /* A draft may have had nothing to say, but it read for it. */
    const uint32_t n_drawn = o->n_drafted == 0 && o->n_read > 0 ? 1 : o->n_drafted;
    const double usual = o->n_drafted ? c->verify[o->n_drafted + 1].steps : 1;
    const double usual_draft = n_drawn * token_cost(c, o->source, EXPECTED) +
                               read_cost(c, o->source, o->n_read, EXPECTED);
    double verify = o->verify_ms / c->plain.ms, draft = o->draft_ms / c->plain.ms;
    if (verify > MAX_CHANGE * usual) verify = MAX_CHANGE * usual;
    const double most =
        (c->from[o->source].token.n > 0 ? INTERRUPTED : MAX_CHANGE) * usual_draft;
    if (draft > most) draft = most;
    c->balance += ALLOWANCE * (draft + verify) - draft;
    if (o->n_drafted > 0)
        c->balance += (1 + o->n_accepted) * plain_cost(c) - verify;
    else
        c->balance -= slowed_by(c, verify);
    if (c->balance > MAX_BALANCE) c->balance = MAX_BALANCE;
}

void draft_length_learn(struct draft_length *c, const struct draft_outcome *o)
{
    const bool is_plain = o->n_drafted == 0, usual = is_usual(c, o);
    c->step++;
    if (usual && is_plain) learn_plain(c, o->verify_ms);
    c->n_steps++;
    c->n_plain = is_plain ? c->n_plain + 1 : 0;
    if (usual && c->n_plain >= PLAIN_RUN) c->next_plain = c->step + PLAIN_GAP;
    if (c->plain.n == 0) return;
    if (usual && !is_plain) learn_verify(c, o->n_drafted + 1, o->verify_ms);
    if (!is_plain) {
        learn_drawing(c, o);
        learn_right(c, o);
    }
    pay(c, o);
}

void draft_length_reply(struct draft_length *c, uint32_t n)
{
    c->reply_tokens += (n - c->reply_tokens) / 4;
    c->n_steps = c->n_plain = 0;
    for (size_t i = 0; i < N_DRAFT_SOURCES; i++)
        draft_belief_forget(&c->from[i].belief, OF_OTHER_TEXT);
}
