/* The choice is by expected tokens over expected time: a draft of k tokens gives
 * 1 + p1 + p1 p2 + … tokens for k tokens of drafting and a step of k + 1 rows. Each p is that
 * of a draft whose predecessors were right. */
#include "engine/draft_length.h"

/* What is known of one depth fades with so many drafts; at first it counts as if so many had
 * gone as it was believed. */
static const double DEPTH_MEMORY = 48, DEPTH_PRIOR = 24;
/* Steps after which half of something is old (age): of what is believed of a source that has
 * not drafted since, and of what was measured, for a try. */
enum { STALE = 200, FORGOTTEN = 192 };
/* The share of a belief that is forgotten with each reply: the next one is another text. */
static const double OF_OTHER_TEXT = 0.25;
/* A try supposes by this share that the next draft is right (draft_belief_suppose). */
static const double SUPPOSED = 0.5;
/* The weight of a new time in a mean, and how many times the mean it counts at most. */
static const double TIME_WEIGHT = 0.15, MAX_CHANGE = 1.4;
/* Fewer measurements than FEW are not to be relied on; more than MANY count as MANY. The line
 * through all numbers of rows counts as LINE_TRIALS measurements of each. */
enum { FEW = 3, MANY = 12, LINE_TRIALS = 4 };
/* A draft that takes more than so many times the usual was interrupted: the balance pays for no
 * more. */
static const double INTERRUPTED = 4;
/* Most tokens of the first draft of a source, whose cost is a guess. */
enum { FIRST_LENGTH = 2 };
/* A try hopes that a step takes so much of what was measured, if that was seldom or long ago.
 */
static const double HOPED_COST = 0.85;
/* How many plain steps the mean with interruptions is over, and how many times that mean one of
 * them counts at most. A mean of CONTENDED times the usual time or more tells that others use
 * the machine. Of what is above that, up to MOST_CONTENDED, CONTENDED_SHARE counts as the cost
 * of a plain step. */
enum { PLAIN_MEMORY = 32, MAX_INTERRUPTION = 10 };
static const double CONTENDED = 1.2, MOST_CONTENDED = 2, CONTENDED_SHARE = 0.5;
/* Costs until they are measured: of each row after the first, in plain steps; of a token that
 * the draft only reads, as a share of one that it draws. */
static const double ROW_PRIOR = 0.25, READ_PRIOR = 0.25;
/* A draft that had at least so many tokens to read tells what reading takes; one with fewer,
 * what drawing takes. */
enum { MANY_READ = 8 };
/* Drafting begins where it gains this much by estimate: less is noise. */
static const double MIN_GAIN = 1.03;
/* The balance: the share of the time that is added to it, its largest and its first value, in
 * plain steps. */
static const double ALLOWANCE = 0.006, MAX_BALANCE = 16, FIRST_BALANCE = 8;
/* The most plain steps that one draft may lose, reading left out; and the shares of the balance
 * that a try may lose, and may read for. */
static const double MOST_LOSS = 8, TRY_SHARE = 0.3, TRY_READ = 0.75;
/* Where drafts pay, each so-many-th step is a try of what may pay more. */
enum { HOPE_GAP = 8 };
/* However long a reply is by now, so many tokens are thought to be left of it. */
enum { MIN_LEFT = 16 };
/* After so many steps a run of so many plain ones keeps their time known. The first COLD steps
 * of a reply, and plain ones after a block, find the caches full of other things. */
enum { PLAIN_GAP = 128, PLAIN_RUN = 4, COLD = 2 };
/* So many plain steps after a block are slower, each by MOST_SLOWED of a plain step at most:
 * the balance pays for it. */
enum { SLOWED = 3 };
static const double MOST_SLOWED = 0.5;

void draft_length_init(struct draft_length *c, double draft_cost)
{
    *c = (struct draft_length){
        .reply_tokens = 128, .row = ROW_PRIOR, .balance = FIRST_BALANCE, .slower = 1};
    c->from[DRAFT_MODEL].token_guess = draft_cost;
    for (size_t i = 0; i < N_DRAFT_SOURCES; i++)
        draft_belief_init(&c->from[i].belief);
}

double draft_length_plain_ms(const struct draft_length *c)
{
    return c->plain.ms * c->slower;
}

/* ---- estimates ---- */

/* How old something is that was last seen at step `when`: 0 just now, 0.5 after `half` steps,
 * towards 1. */
static double age(const struct draft_length *c, uint64_t when, double half)
{
    const double steps = (double)(c->step - when);
    return steps / (steps + half);
}

/* A cost as it was measured, or the best that seldom and old measurements leave room for: of a
 * try. */
enum view { EXPECTED, HOPED };

/* Of a step of n_rows, in plain steps: between what this number of rows took and the line
 * through all numbers, the nearer to the former the more often it was measured. */
static double verify_cost(const struct draft_length *c, uint32_t n_rows, enum view view)
{
    const struct draft_rows *t = &c->verify[n_rows];
    const double line = 1 + c->row * (n_rows - 1);
    const double cost = (t->n * t->steps + LINE_TRIALS * line) / (t->n + LINE_TRIALS);
    if (view == EXPECTED) return cost;
    const double old = t->n < FEW ? 1 : age(c, t->when, FORGOTTEN);
    return cost * (1 - old * (1 - HOPED_COST));
}

/* Of drafting a token, in plain steps. While there are few measurements a try takes the guess
 * if that is less: after a first draft that was interrupted there would never be another. */
static double token_cost(const struct draft_length *c, enum draft_source source, enum view view)
{
    const struct draft_from *from = &c->from[source];
    if (from->token.n == 0) return from->token_guess;
    const double cost = from->token.ms / c->plain.ms;
    const bool hopes = view == HOPED && from->token.n < FEW && cost > from->token_guess;
    return hopes ? from->token_guess : cost;
}

/* Of a step without drafts, in plain steps: 1, but for a machine that others use. There a long
 * step, as blocks take, is interrupted nearly always, and its time tells so. A short one is
 * interrupted seldom, and learn_time takes that for chance: so a share of its interruptions is
 * added here. */
static double plain_cost(const struct draft_length *c)
{
    double all = c->busy.ms / c->plain.ms;
    if (all > MOST_CONTENDED) all = MOST_CONTENDED;
    return all > CONTENDED ? 1 + CONTENDED_SHARE * (all - CONTENDED) : 1;
}

/* What is believed of a source by now: the longer it has not drafted, the more is forgotten. */
static struct draft_belief belief_of(const struct draft_length *c,
                                     const struct draft_from *from)
{
    struct draft_belief belief = from->belief;
    draft_belief_forget(&belief, age(c, from->judged, STALE));
    return belief;
}

/* The chance that a draft at one depth is right; any: what is believed, whatever the depth. */
static double chance_at(const struct draft_depth *d, double any)
{
    const double p = any * (d->right + DEPTH_PRIOR) / (d->believed + DEPTH_PRIOR);
    return p < 1 ? p : 1;
}

/* Of reading n tokens before it drafts, in plain steps, but for the last: reading that one is
 * part of the first token's cost. */
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

/* The best length for one offer, of those that the balance can pay for should nothing of the
 * draft be right; n 0: none. */
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

/* Whether the rest of the reply gains at least twice what it costs to read what the draft has
 * missed. */
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

/* The slope of the line through the costs by number of rows, which is 1 at one row; each number
 * counts by how often it was measured. */
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

/* Kept in plain steps: a longer context, or a core that others took, slows all steps alike. */
static void learn_verify(struct draft_length *c, uint32_t n_rows, double ms)
{
    struct draft_rows *t = &c->verify[n_rows];
    struct draft_time time = {t->steps, t->n};
    double steps = ms / c->plain.ms;
    /* Rows one by one would take no more: it was interrupted. */
    if (steps > n_rows) steps = n_rows;
    if (c->step - t->when > FORGOTTEN && t->n > 1) time.n = 1;
    learn_time(&time, steps);
    *t = (struct draft_rows){time.ms, time.n, c->step};
    fit_line(c);
}

/* What drafting takes. The first draft of a source does not count: its model is not in the
 * caches, or not even in memory. */
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

/* Whether the time of a step is that of its kind, and not of one that found cold caches. For
 * want of any other a cold block counts, too. */
static bool is_usual(const struct draft_length *c, const struct draft_outcome *o)
{
    if (o->n_drafted == 0) return c->n_plain >= COLD;
    return c->n_steps >= COLD || c->verify[o->n_drafted + 1].n == 0;
}

/* What a plain step after a block takes more than a usual one, in plain steps. */
static double slowed_by(const struct draft_length *c, double steps)
{
    const bool is_behind = c->n_plain <= SLOWED && c->n_steps > c->n_plain;
    const double more = is_behind ? steps - 1 : 0;
    return more > MOST_SLOWED ? MOST_SLOWED : more < -MOST_SLOWED ? -MOST_SLOWED : more;
}

/* What drafting takes that drew so many tokens, in plain steps. */
static double draft_cost(const struct draft_length *c, const struct draft_outcome *o,
                         uint32_t n_drawn)
{
    return n_drawn * token_cost(c, o->source, EXPECTED) +
           read_cost(c, o->source, o->n_read, EXPECTED);
}

/* Plain steps are measured seldom once drafts pay, perhaps when the machine had less to do: the
 * drafts and blocks of a reply tell how it was then. Of those that find cold caches only one
 * that was interrupted does. */
static void compare(struct draft_length *c, const struct draft_outcome *o, bool usual)
{
    const struct draft_time *token = &c->from[o->source].token;
    double verify = c->usual[o->n_drafted + 1];
    c->n_blocks++;
    if (verify == 0 && c->row != ROW_PRIOR) verify = verify_cost(c, o->n_drafted + 1, EXPECTED);
    if (verify == 0 || token->n < FEW) return;
    const double took = o->verify_ms + o->draft_ms;
    const double expected = (verify + draft_cost(c, o, o->n_drafted)) * c->plain.ms;
    if (!usual && took < INTERRUPTED * expected) return;
    c->took_ms += took;
    c->usual_ms += expected;
}

/* Adds to the balance what a step gained against plain decoding, or lost. Times far above the
 * usual were interrupted, and count as cut. */
static void pay(struct draft_length *c, const struct draft_outcome *o)
{
    /* A draft may have had nothing to say, but it read for it. */
    const uint32_t n_drawn = o->n_drafted == 0 && o->n_read > 0 ? 1 : o->n_drafted;
    const double usual = o->n_drafted ? c->verify[o->n_drafted + 1].steps : 1;
    const double usual_draft = draft_cost(c, o, n_drawn);
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
    if (!is_plain) compare(c, o, usual);
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
    c->slower = c->usual_ms > 0 ? c->took_ms / c->usual_ms : c->n_blocks == 0;
    c->took_ms = c->usual_ms = 0;
    c->n_blocks = 0;
    for (uint32_t i = 2; i < DRAFT_MAX + 2; i++)
        c->usual[i] = c->row == ROW_PRIOR ? 0 : verify_cost(c, i, EXPECTED);
    for (size_t i = 0; i < N_DRAFT_SOURCES; i++)
        draft_belief_forget(&c->from[i].belief, OF_OTHER_TEXT);
}
