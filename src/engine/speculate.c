/* A block: the newest token and the guesses behind it, computed by the target in one step; on a
 * device that has the draft model too, in one submission with its guesses. */
#include "engine/speculate.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/draw.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/mem.h"
#include "engine/draft_length.h"
#include "engine/lookup.h"
#include "engine/sampler.h"
#include "engine/timeline.h"
#include "engine/timeline_block.h"

static_assert(DRAFT_MAX + 1 == TIMELINE_MAX_VERIFY, "a block is a token and its drafts");

struct speculator {
    struct speculator_parts parts;
    struct lookup *lookup;
    struct draft_length length;
    struct speculate_counts counts;
    struct draw draft_asks;
    float *padded;   /* [n_vocab] the draft's logits where the vocabularies differ in size */
    bool draft_lost; /* the draft cannot follow this reply */
    size_t n_prompt;

    /* The block under way: rows of the target that are not settled. */
    bool is_open;
    bool is_block;                    /* its guesses are made with it */
    bool has_rows;                    /* they are rows of timeline_append_rows */
    int32_t ids[TIMELINE_MAX_VERIFY]; /* -1: a guess that is wrong, whatever it was */
    size_t n_rows, at;                /* at: the row that was asked for last */
    size_t before;                    /* tokens of the target before the block */
    struct draft_outcome outcome;

    size_t drafts_hold; /* so many first tokens of the draft's timeline are the reply's */
    /* Whether what it holds behind them are guesses; if not, it was said on another branch. */
    bool draft_guessed;
    size_t drafts_warm; /* so many first tokens of the prompt it has read, then or now */
    /* The draft's timeline is to be able to come back to so many tokens: another attempt, and
     * the next prompt, go on from where this prompt ended, or was marked. 0: it can come back
     * anywhere, or has been here. */
    size_t draft_mark;
};

struct speculator *speculator_new(const struct speculator_parts *parts)
{
    struct speculator *s = mem_zalloc(1, sizeof *s);
    s->parts = *parts;
    if (parts->lookup) s->lookup = lookup_new();
    if (parts->draft && parts->n_draft_vocab < parts->n_vocab)
        s->padded = mem_zalloc(parts->n_vocab, sizeof *s->padded);
    draft_length_init(&s->length, parts->draft_cost);
    return s;
}

void speculator_free(struct speculator *s)
{
    if (!s) return;
    lookup_free(s->lookup);
    free(s->padded);
    free(s);
}

struct speculate_counts speculate_counts(const struct speculator *s)
{
    struct speculate_counts counts = s->counts;
    counts.plain_ms = draft_length_plain_ms(&s->length);
    return counts;
}

struct speculate_counts speculate_take_counts(struct speculator *s)
{
    const struct speculate_counts counts = speculate_counts(s);
    s->counts = (struct speculate_counts){0};
    return counts;
}

/* The token after all of `all`: the one that the device drew, or else a draw from the logits.
 */
static bool draw(struct speculator *s, const struct ids *all, int32_t drawn,
                 const float *logits, int32_t *id, struct err *err)
{
    *id = drawn;
    if (drawn >= 0) return true;
    if (!logits) return err_set(err, ERR_DEVICE, "the device has lost its logits");
    return sampler_draw(s->parts.sampler, logits, (uint32_t)all->n, id, err);
}

/* ---- the draft model ---- */

/* A request to the draft is for ids that both models have. */
static void shared_ids(struct speculator *s, const struct draw *draw)
{
    s->draft_asks = *draw;
    if (s->parts.n_draft_vocab < s->parts.n_vocab)
        s->draft_asks.n_vocab = s->parts.n_draft_vocab;
}

/* The draft's next step draws, if a device may. */
static void ask_draft(struct speculator *s)
{
    if (sampler_is_bound(s->parts.sampler)) return;
    shared_ids(s, sampler_request(s->parts.sampler, NULL, 0, 0));
    timeline_draw(s->parts.draft, &s->draft_asks);
}

/* The draft's timeline gives up what it guessed wrong, but nothing of another branch. */
static void forget_guesses(struct speculator *s)
{
    struct timeline *draft = s->parts.draft;
    if (s->draft_guessed && timeline_n(draft) > s->drafts_hold)
        timeline_truncate(draft, s->drafts_hold);
    s->draft_guessed = false;
}

/* Tokens of `all` that it has not read. */
static uint32_t unread(const struct speculator *s, const struct ids *all)
{
    const size_t n = s->drafts_hold > s->drafts_warm ? s->drafts_hold : s->drafts_warm;
    return (uint32_t)(all->n - n);
}

/* Whether it goes on from where it is to all of `all` within one step. */
static bool draft_is_near(const struct speculator *s, const struct ids *all)
{
    return s->drafts_hold > 0 && timeline_n(s->parts.draft) == s->drafts_hold &&
           s->drafts_hold >= s->draft_mark && all->n - s->drafts_hold <= TIMELINE_MAX_VERIFY;
}

/* Makes the draft's timeline hold the first n of `all`, and its logits. */
static bool sync_draft(struct speculator *s, const struct ids *all, size_t n,
                       const atomic_bool *cancel, struct err *err)
{
    struct timeline *draft = s->parts.draft;
    const struct timeline_watch watch = {.cancel = cancel};
    timeline_mark(draft, s->draft_mark);
    if (!timeline_sync(draft, all->data, n, &watch, NULL, err)) return false;
    if (n == s->draft_mark) timeline_snapshot(draft);
    s->draft_mark = 0;
    return true;
}

/* Makes the draft's timeline hold all of `all`, and its logits. */
static bool catch_up(struct speculator *s, const struct ids *all, const atomic_bool *cancel,
                     struct err *err)
{
    struct timeline *draft = s->parts.draft;
    forget_guesses(s);
    bool ok;
    if (draft_is_near(s, all)) {
        ask_draft(s);
        ok = timeline_extend(draft, all->data + s->drafts_hold, all->n - s->drafts_hold, cancel,
                             err);
    } else {
        ok = sync_draft(s, all, all->n, cancel, err);
    }
    if (ok) s->drafts_hold = all->n;
    return ok;
}

static const float *draft_logits(struct speculator *s)
{
    const float *logits = timeline_logits(s->parts.draft);
    if (!s->padded || !logits) return logits;
    const size_t n = s->parts.n_draft_vocab;
    memcpy(s->padded, logits, n * sizeof *logits);
    for (size_t i = n; i < s->parts.n_vocab; i++)
        s->padded[i] = -INFINITY;
    return s->padded;
}

static bool is_end(const struct speculator *s, int32_t id)
{
    for (size_t i = 0; i < s->parts.n_ends; i++)
        if (s->parts.ends[i] == id) return true;
    return false;
}

/* Up to n tokens as the draft model draws them, into out; returns how many. */
static size_t draft_tokens(struct speculator *s, struct ids *all, size_t n, int32_t *out,
                           const atomic_bool *cancel)
{
    struct err err;
    const size_t n_all = all->n;
    s->outcome.n_read += unread(s, all);
    if (!catch_up(s, all, cancel, &err)) {
        /* A token that it does not know, a shorter context: the reply goes on without it. */
        s->draft_lost = err.code != ERR_CANCELLED;
        s->drafts_hold = 0;
        return 0;
    }
    timeline_hold(s->parts.draft); /* guesses that are refused are taken back */
    s->draft_guessed = true;
    size_t k = 0;
    while (k < n) {
        int32_t id = timeline_drawn(s->parts.draft, 0);
        if (!draw(s, all, id, id < 0 ? draft_logits(s) : NULL, &id, &err) || is_end(s, id))
            break;
        out[k++] = id;
        ids_push(all, id);
        sampler_accept(s->parts.sampler, all->data, all->n);
        if (k == n) break;
        ask_draft(s);
        if (!timeline_append(s->parts.draft, id, cancel, &err)) break;
    }
    for (; all->n > n_all; all->n--)
        sampler_take_back(s->parts.sampler, all->data, all->n);
    return k;
}

/* ---- blocks ---- */

/* Keeps the rows that were asked for and learns from the block. The token that came after the
 * last of them, if one did, judges the guess there. */
static void settle(struct speculator *s, const struct ids *all)
{
    if (!s->is_open) return;
    s->is_open = false;
    const size_t n_drafted = s->n_rows - 1;
    /* Tokens behind the last row that was asked for: none if the reply ended there. */
    bool has_next = all->n > s->before + s->at + 1;
    size_t n_accepted = s->at;
    if (has_next && s->at < n_drafted && all->data[s->before + s->at + 1] == s->ids[s->at + 1])
        n_accepted++;
    s->outcome.n_accepted = (uint32_t)n_accepted;
    s->outcome.n_judged =
        (uint32_t)(n_accepted < n_drafted && n_accepted == s->at ? n_accepted + 1 : n_accepted);
    s->counts.n_accepted += s->outcome.n_accepted;
    if (s->has_rows) timeline_keep_rows(s->parts.target, s->at + 1);
    /* The draft has read its guesses but the last. */
    size_t n_right = s->before + 1 + n_accepted;
    if (s->drafts_hold > 0 && s->outcome.source == DRAFT_MODEL && n_drafted > 0) {
        size_t n = timeline_n(s->parts.draft);
        s->drafts_hold = n < n_right ? n : n_right;
    }
    draft_length_learn(&s->length, &s->outcome);
}

static uint32_t most_drafts(const struct speculator *s, const struct ids *all, size_t most)
{
    /* The block's rows fit the context, and so does the token drawn after the last. */
    const uint32_t n_ctx = timeline_n_ctx(s->parts.target);
    size_t room = all->n + 1 < n_ctx ? n_ctx - all->n - 1 : 0;
    if (most < room) room = most;
    return (uint32_t)(room < DRAFT_MAX ? room : DRAFT_MAX);
}

/* Whether the draft's tokens and the target's step are one submission now. Of a long text that
 * the draft has not read only the newest token is left for it. */
static bool takes_block(struct speculator *s, const struct ids *all, const atomic_bool *cancel)
{
    struct err ignored; /* step by step it fails again */
    struct timeline *draft = s->parts.draft;
    if (sampler_is_bound(s->parts.sampler)) return false;
    if (!timeline_takes_blocks(s->parts.target, draft)) return false;
    for (size_t i = s->drafts_hold; i < all->n; i++)
        if ((size_t)all->data[i] >= s->parts.n_draft_vocab) return false;
    forget_guesses(s);
    if (!draft_is_near(s, all)) {
        if (!sync_draft(s, all, all->n - 1, cancel, &ignored)) return false;
        const uint32_t n_new = unread(s, all);
        s->outcome.n_read = n_new > 0 ? n_new - 1 : 0; /* the newest is the block's to read */
        s->drafts_hold = all->n - 1;
    }
    return timeline_takes_block_now(s->parts.target, draft, all->n - s->drafts_hold);
}

/* Guesses for what follows `all` into s->ids, behind the newest token; or, of a block, just how
 * many. */
static size_t guess(struct speculator *s, struct ids *all, uint32_t most,
                    const atomic_bool *cancel)
{
    struct draft_offer offers[2];
    size_t n_offers = 0;
    const int32_t *found = NULL;
    const uint32_t n_ctx = s->parts.draft ? timeline_n_ctx(s->parts.draft) : 0;
    if (s->lookup && most > 0) {
        struct lookup_match match = lookup_find(s->lookup, all->data, all->n);
        found = match.next;
        uint32_t n = match.n < most ? (uint32_t)match.n : most;
        if (n > 0)
            offers[n_offers++] =
                (struct draft_offer){match.is_long ? DRAFT_LOOKUP : DRAFT_LOOKUP_WEAK, n, 0};
    }
    if (s->parts.draft && !s->draft_lost && all->n < n_ctx) {
        uint32_t n = n_ctx - (uint32_t)all->n;
        offers[n_offers++] =
            (struct draft_offer){DRAFT_MODEL, n < most ? n : most, unread(s, all)};
    }
    struct draft_choice choice;
    if (s->parts.fixed > 0)
        choice = (struct draft_choice){n_offers ? s->parts.fixed : 0, 0};
    else
        choice =
            draft_length_choose(&s->length, offers, n_offers, (uint32_t)(all->n - s->n_prompt));
    if (choice.n == 0) return 0;
    const struct draft_offer *o = &offers[choice.offer];
    size_t n = choice.n < o->most ? choice.n : o->most;
    if (n == 0) return 0;
    s->outcome.source = o->source;
    if (o->source == DRAFT_MODEL) {
        s->is_block = takes_block(s, all, cancel);
        return s->is_block ? n : draft_tokens(s, all, n, s->ids + 1, cancel);
    }
    memcpy(s->ids + 1, found, n * sizeof *found);
    return n;
}

/* The newest token and n guesses behind it, in one step that draws after each. */
static bool append(struct speculator *s, struct ids *all, size_t n, const atomic_bool *cancel,
                   struct err *err)
{
    struct timeline *target = s->parts.target;
    s->has_rows = n > 0;
    s->n_rows = n + 1;
    s->outcome.n_drafted = (uint32_t)n;
    for (size_t i = 1; i <= n; i++)
        ids_push(all, s->ids[i]);
    if (!sampler_is_bound(s->parts.sampler))
        timeline_draw(target, sampler_request(s->parts.sampler, all->data, all->n, n));
    all->n -= n;
    return n == 0 ? timeline_append(target, s->ids[0], cancel, err)
                  : timeline_append_rows(target, s->ids, n + 1, cancel, err);
}

/* The same, and the n guesses too, in one submission. An end of a turn that was guessed rightly
 * is no row, nor what follows it; they took their time all the same. */
static bool append_block(struct speculator *s, const struct ids *all, size_t n,
                         const atomic_bool *cancel, double *share, struct err *err)
{
    struct timeline *target = s->parts.target;
    const struct draw *draw = sampler_request_block(s->parts.sampler, all->data, all->n, n);
    shared_ids(s, draw);
    struct timeline_block b = {.ids = all->data + s->drafts_hold,
                               .n = all->n - s->drafts_hold,
                               .n_drafts = n,
                               .draft_draw = &s->draft_asks,
                               .draw = draw};
    if (!timeline_block(target, s->parts.draft, &b, cancel, err)) return false;
    s->outcome.n_read += (uint32_t)b.n;
    s->drafts_hold = all->n;
    s->draft_guessed = true;
    s->has_rows = true;
    s->n_rows = 1;
    for (size_t i = 0; i < n; i++) {
        const int32_t id = i < b.n_right ? timeline_drawn(target, i) : -1;
        if (is_end(s, id)) break;
        s->ids[s->n_rows++] = id;
    }
    s->outcome.n_drafted = (uint32_t)n;
    *share = b.draft_share;
    return true;
}

static bool begin_block(struct speculator *s, struct ids *all, size_t most,
                        const atomic_bool *cancel, struct err *err)
{
    const bool timed = s->parts.draft || s->lookup;
    double start = timed ? clock_ms() : 0;
    s->outcome = (struct draft_outcome){0};
    s->before = all->n - 1;
    s->ids[0] = all->data[all->n - 1];
    s->is_block = false;
    size_t n = timed ? guess(s, all, most_drafts(s, all, most), cancel) : 0;
    double drafted = timed ? clock_ms() : 0, share = 0;
    bool ok = s->is_block && append_block(s, all, n, cancel, &share, err);
    if (s->is_block && !ok && err->code != ERR_CANCELLED) {
        /* Step by step a failure of the draft ends no reply, and less memory may do. */
        s->is_block = false;
        start = clock_ms();
        n = draft_tokens(s, all, n, s->ids + 1, cancel);
        drafted = clock_ms();
    }
    if (!s->is_block) ok = append(s, all, n, cancel, err);
    if (!ok && n > 0 && err->code == ERR_MEMORY) { /* a page less may do */
        n = 0;
        ok = append(s, all, n, cancel, err);
    }
    if (!ok) return false;
    const double appended = timed ? clock_ms() - drafted : 0;
    s->is_open = true;
    s->at = 0;
    s->outcome.draft_ms = drafted - start + share * appended;
    s->outcome.verify_ms = (1 - share) * appended;
    s->counts.n_drafted += (uint32_t)s->n_rows - 1;
    s->counts.n_steps++;
    return true;
}

void speculate_begin(struct speculator *s)
{
    s->counts = (struct speculate_counts){0};
    s->is_open = s->draft_lost = s->draft_guessed = false;
    s->n_prompt = timeline_n(s->parts.target);
    s->drafts_hold = s->drafts_warm = s->draft_mark = 0;
    if (s->parts.draft) {
        const struct timeline *t = s->parts.target;
        struct timeline *d = s->parts.draft;
        if (timeline_needs_marks(d)) s->draft_mark = timeline_n_marked(t);
        s->drafts_warm = timeline_plan(d, timeline_ids(t), timeline_n(t)).n_cached;
        const size_t most = timeline_n(d) < timeline_n(t) ? timeline_n(d) : timeline_n(t);
        while (s->drafts_hold < most &&
               timeline_ids(d)[s->drafts_hold] == timeline_ids(t)[s->drafts_hold])
            s->drafts_hold++;
    }
}

/* The token after the row of the block that was asked for last. */
static bool draw_at(struct speculator *s, const struct ids *all, int32_t *id, struct err *err)
{
    struct timeline *target = s->parts.target;
    const int32_t drawn = timeline_drawn(target, s->at);
    const float *logits = NULL;
    if (drawn < 0)
        logits = s->n_rows == 1 ? timeline_logits(target) : timeline_row(target, s->at);
    return draw(s, all, drawn, logits, id, err);
}

bool speculate_draw(struct speculator *s, struct ids *all, size_t most,
                    const atomic_bool *cancel, int32_t *id, struct err *err)
{
    if (!s->is_open && all->n == timeline_n(s->parts.target))
        return draw(s, all, -1, timeline_logits(s->parts.target), id, err);
    if (s->is_open) {
        const size_t row = all->n - s->before - 1;
        assert(row == s->at + 1);
        if (row < s->n_rows && all->data[all->n - 1] == s->ids[row]) {
            s->at = row;
            return draw_at(s, all, id, err);
        }
    }
    settle(s, all);
    return begin_block(s, all, most, cancel, err) && draw_at(s, all, id, err);
}

void speculate_end(struct speculator *s, const struct ids *all)
{
    settle(s, all);
    if (s->drafts_hold > 0) forget_guesses(s);
    draft_length_reply(&s->length, (uint32_t)(all->n - s->n_prompt));
}
