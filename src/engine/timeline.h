/* The timeline: one sequence of token ids and everything computed from it.
 *
 * The ids are the truth; KV pages and logits derive from them. A caller says which ids it
 * wants; the longest beginning that is warm, in this sequence or in one held before, is kept
 * and only the rest is computed. Whatever fails or is cancelled leaves the tokens that were
 * finished before, valid as if computed just so: the same ids give the same bits, warm or cold,
 * in chunks of any size.
 *
 * The engine owns it; it borrows the backend and the program. One thread at a time; cancel
 * flags may be set by any. It knows no text and no sampling. */
#ifndef ENGINE_TIMELINE_H
#define ENGINE_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;
struct disk;
struct draw;
struct program;
struct timeline;
struct tree_limits;
struct verify_verdict;

enum { TIMELINE_MAX_ROWS = 512 };  /* of a chunk */
enum { TIMELINE_MAX_VERIFY = 17 }; /* rows of timeline_append_rows: 16 drafts and a token */
/* Snapshots held: two for each of the newest turns, and twice as many for older ones. */
enum { TIMELINE_SNAPSHOTS = 24 };
/* A model that cannot go back to any token, recurrent or with windows, has a snapshot after so
 * many tokens of a long prefill, and again. */
enum { TIMELINE_MARK_ROWS = 512 };

struct timeline_limits {
    uint32_t n_ctx;       /* most tokens of the sequence */
    uint64_t warm_bytes;  /* for what is not the current sequence; 0: it is forgotten */
    uint64_t total_bytes; /* beyond this the rest goes too; 0: no limit */
};

/* What a snapshot of a model keeps: logits, recurrent states, the windowed rows before it. */
struct timeline_need {
    uint64_t n_vocab, state_bytes;
    uint64_t window, window_page_bytes; /* rows; bytes of a page's windowed part */
};
/* What the tree of such a timeline keeps. Where snapshots are just logits they cost little;
 * others may take half of what is for warm pages, but no fewer are kept than the newest turns
 * need. */
struct tree_limits timeline_tree_limits(const struct timeline_need *need,
                                        const struct timeline_limits *limits);

/* NULL with ERR_MEMORY if there is no memory for its scratch. */
struct timeline *timeline_new(struct backend *be, const struct program *program,
                              const struct timeline_limits *limits, struct err *err);
void timeline_free(struct timeline *tl); /* NULL is fine; before its backend */
/* Other limits from now on, as where another timeline came or went; n_ctx is not less than it
 * has tokens. What is too much goes. */
void timeline_set_limits(struct timeline *tl, const struct timeline_limits *limits);
/* From now on what is missing is looked for on disk (borrowed; NULL: it is not). */
void timeline_set_disk(struct timeline *tl, struct disk *disk);

/* How a long prefill is watched: progress before the first chunk and after each (NULL: not),
 * cancel polled within chunks (NULL: never). */
struct timeline_watch {
    void (*progress)(void *user, size_t done, size_t total, size_t n_cached);
    void *user;
    const atomic_bool *cancel;
};

/* What a sync cost in tokens: n_cached + n_prefilled is the length asked for. */
struct timeline_cost {
    size_t n_cached, n_prefilled;
    size_t n_restored; /* of the cached: those that the timeline did not hold just before */
    size_t n_read;     /* of the cached: those that came from the disk */
    double read_ms;    /* what reading them took */
    /* Whether the wanted tokens leave those held before, at which index, and both ids there. To
     * go on or to be cut is not to diverge. */
    bool diverged;
    size_t diverged_at;
    int32_t old_id, new_id;
};

/* Makes the timeline hold exactly ids[0..n), n > 0, and the logits after the last of them. What
 * has a snapshot runs nothing. More than the context holds or an id outside the vocabulary is
 * ERR_USER and changes nothing. watch and cost may be NULL. */
bool timeline_sync(struct timeline *tl, const int32_t *ids, size_t n,
                   const struct timeline_watch *watch, struct timeline_cost *cost,
                   struct err *err);

/* The next sync leaves a snapshot after the first n of its tokens too: where a prompt that may
 * go on in another way does. Only models with states or windows need it. */
void timeline_mark(struct timeline *tl, size_t n);
/* Tokens of the last sync, up to its mark. */
size_t timeline_n_marked(const struct timeline *tl);
/* Whether it can go on only from where there are states, or the windowed rows before. */
bool timeline_needs_marks(const struct timeline *tl);

/* Appends one token and computes the logits after it. The context has room for it. */
bool timeline_append(struct timeline *tl, int32_t id, const atomic_bool *cancel,
                     struct err *err);

/* Appends ids[0..n), n from 1 to TIMELINE_MAX_ROWS, in one step, and computes the logits after
 * the last. */
bool timeline_extend(struct timeline *tl, const int32_t *ids, size_t n,
                     const atomic_bool *cancel, struct err *err);

/* Appends ids[0..n), n at most TIMELINE_MAX_VERIFY, in one step, and computes the logits after
 * each. The context has room for them. What follows is timeline_keep_rows; until then the
 * timeline has no logits of its own. */
bool timeline_append_rows(struct timeline *tl, const int32_t *ids, size_t n,
                          const atomic_bool *cancel, struct err *err);
/* The n_vocab logits after the i-th of them, until the next call; NULL if the device that has
 * them failed. */
const float *timeline_row(struct timeline *tl, size_t i);
/* If the device draws, the next timeline_append, timeline_extend or timeline_append_rows draws
 * as asked, from its last row or, the last of them, from all its rows: then timeline_drawn has
 * the tokens, and logits are fetched when they are read. Borrowed until that one returns. */
void timeline_draw(struct timeline *tl, const struct draw *draw);
/* The token that was drawn after the i-th of the rows appended last; -1: none, draw from the
 * logits. */
int32_t timeline_drawn(const struct timeline *tl, size_t i);
/* Keeps the first n of the rows appended last, n > 0, as if they had been appended one by one;
 * the others, drafts that were refused, are forgotten. */
void timeline_keep_rows(struct timeline *tl, size_t n);

/* Keeps the logits after the last token, if there are any, and the recurrent states, so that
 * coming back to just these tokens costs nothing: at the end of a prompt and of a reply. */
void timeline_snapshot(struct timeline *tl);
/* The same of a line that is being typed. Where snapshots are too many, these go first. */
void timeline_snapshot_passing(struct timeline *tl);

/* Gets memory for what comes next, while nobody waits: until *stop (may be NULL) is true. */
void timeline_prepare(struct timeline *tl, const atomic_bool *stop);

/* Gives the disk what it has not of the sequence: whole pages, and the snapshot of all tokens
 * if the logits are held; of a recurrent model also that of where the last prompt ended, or
 * was marked. False: not all fits its queue, the model's content is not known yet, or *stop
 * (may be NULL) became true; the rest is for the next time, by this or timeline_save_whole,
 * even if the sequence is longer by then. */
bool timeline_save(struct timeline *tl, const atomic_bool *stop);
/* Gives it the whole pages, and of snapshots just those that an earlier timeline_save has left.
 */
bool timeline_save_whole(struct timeline *tl, const atomic_bool *stop);
/* As timeline_save, until nothing is left, waiting for the queue and for the model's content to
 * be known: before the end. Nothing is saved if *cancel (may be NULL) becomes true before it
 * is known. */
void timeline_save_all(struct timeline *tl, const atomic_bool *cancel);

/* Drops all tokens but the first n (at most those there are); what was computed for the others
 * is forgotten, as for tokens that were drafted and refused. To leave tokens for others and
 * perhaps come back, just sync. */
void timeline_truncate(struct timeline *tl, size_t n);
/* Until the next hold coming back to the tokens of now, or to a few more, costs reading those
 * few again at most. Only a recurrent model needs it: its states stay where they are, and are
 * not copied. */
void timeline_hold(struct timeline *tl);
/* Forgets everything. */
void timeline_forget(struct timeline *tl);

/* Receives logits[n_rows][n_vocab] of rows first.. ; false ends the run. */
typedef bool timeline_rows_fn(void *user, size_t first, size_t n_rows, const float *logits);

/* Computes ids[0..n) from nothing in chunks of chunk rows (0: as suits) and hands over the
 * logits of every row: for inspection and tests. When rows returns false it stops there, which
 * is no failure. */
bool timeline_all_rows(struct timeline *tl, const int32_t *ids, size_t n, uint32_t chunk,
                       timeline_rows_fn *rows, void *user, struct err *err);

/* Computes the tokens again from nothing and compares every bit with what is held (verify.h).
 */
bool timeline_verify(struct timeline *tl, const struct timeline_watch *watch,
                     struct verify_verdict *out, struct err *err);

size_t timeline_n(const struct timeline *tl);           /* tokens it holds */
const int32_t *timeline_ids(const struct timeline *tl); /* until the next change */
uint32_t timeline_n_ctx(const struct timeline *tl);
/* The n_vocab logits after the last token, until the next change; NULL if none are held, or the
 * device that has them failed. */
const float *timeline_logits(struct timeline *tl);

/* What it would cost to sync ids[0..n), n > 0, now; nothing changes. */
struct timeline_cost timeline_plan(struct timeline *tl, const int32_t *ids, size_t n);

/* What is held, in pages of PAGE_LEN tokens and in bytes. */
struct timeline_usage {
    size_t n_pages, n_current_pages, n_snapshots;
    uint64_t bytes, current_bytes; /* of all, of the current sequence; snapshots included */
    uint64_t n_steps;              /* of the model, ever: chunks, tokens, blocks of drafts */
    uint64_t n_state_returns;      /* times that recurrent states took tokens back, ever */
    uint64_t state_return_bytes;   /* of states that this wrote; none is copied */
};
struct timeline_usage timeline_usage(const struct timeline *tl);

/* The i-th page, for tests that look into it. */
void *timeline_page(const struct timeline *tl, size_t i);
/* For tests: fills every row that holds nothing with NaN, and every new page from now on. */
void timeline_poison(struct timeline *tl);
/* For tests that must find it: from now on recurrent states are reset where they should be
 * restored. */
void timeline_break_states(struct timeline *tl);

#endif
