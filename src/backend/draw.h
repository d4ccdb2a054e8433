/* A draw: the logits of one position in, one token id out.
 *
 * The order is: logit bias, penalties, temperature, top-k, top-p, min-p, draw. Let x be the
 * logits after bias and penalties, less their maximum, times 1/temp (so x <= 0). All cuts are
 * made in the order (x descending, id ascending):
 *   top-k  keeps the first k;
 *   top-p  gives each token kept so far the integer weight floor(2^30 e^x) and keeps the
 *          shortest beginning whose sum is at least top_p of the whole;
 *   min-p  keeps x >= ln(min_p).
 * The draw is the largest x + g among the kept, where g = -ln(-ln v) is the noise of a token
 * and v comes from Philox(reply seed, position, id): noise is keyed, not streamed, so a draw
 * depends on nothing that was drawn before, and every device draws alike. Ties go to the lower
 * id. Without a temperature the draw is the largest logit.
 *
 * A device that draws (backend.h) is asked with the same struct draw that draw_host takes, and
 * gives the same id. Whoever fills it in owns what it points to, and keeps it until the device
 * has answered. Pure: no I/O, knows no model; one thread at a time per scratch. */
#ifndef BACKEND_DRAW_H
#define BACKEND_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct draw_scratch;

/* No noise is larger: -ln(2^-33) and the error of two logarithms. */
#define DRAW_MAX_NOISE 22.9f
/* Below this e^x has the weight 0: 2^-30 is e^-20.79. */
#define DRAW_WEIGHTLESS (-21.0f)
enum { DRAW_WHOLE = 1 << 24 }; /* top_p of everything: it cuts nothing */
enum { DRAW_RECENT = 256 };    /* changes of counts that are remembered */

struct draw_bias {
    int32_t id;
    float bias;
};

/* How often a token occurs. */
struct draw_count {
    int32_t id;
    uint32_t n;
};

/* The numbers are 0, infinite or at least 2^-50 in size, so that nothing becomes denormal. */
struct draw {
    size_t n_vocab;               /* ids below it are drawn from */
    uint64_t seed;                /* of the reply */
    float inverse_temp;           /* 0: greedy */
    uint32_t top_k;               /* 0: off */
    uint32_t top_p;               /* in 2^-24, at most DRAW_WHOLE */
    float min_x;                  /* ln(min_p); -infinity: off */
    const struct draw_bias *bias; /* [n_bias], each id once; the same for all of a reply */
    size_t n_bias;
    /* A bit for each id that may be drawn ([n_vocab] bits, words of 32); NULL: all. The others
     * are banned before anything else. Devices know nothing of it: they are not asked. */
    const uint32_t *allowed;

    /* Penalties: a logit x of a token that occurs n > 0 times becomes x * inverse_repeat if it
     * is above 0, else x * repeat (unless that is 1); then n * frequency is taken away, then
     * presence. */
    float repeat, inverse_repeat, frequency, presence;
    const uint32_t *count;   /* [n_vocab] occurrences; NULL: there are no penalties */
    const int32_t *distinct; /* [n_distinct] ids that occur, in no order */
    size_t n_distinct;

    /* For devices, which keep the counts and are told of changes. Change v (from 0) was of the
     * count of recent[v % DRAW_RECENT], and n_changes were made. Who is further behind than
     * DRAW_RECENT takes all counts, and the bias: another reply begins with a leap. */
    uint64_t n_changes;
    const int32_t *recent;
    /* Of several rows the later ones have these counts beside: row i the first n_ahead[i], of
     * several of one id the last. NULL: they have none. draw_host knows one row only. */
    const struct draw_count *ahead;
    const uint32_t *n_ahead;
    /* In a block of drafts (backend.h) only the device knows those ahead of a row: each counts
     * once more, and for the i-th of them (below DRAW_ROWS - 1) leaves[i] counts once less: an
     * id; -1: nothing; below, the draft -2 - leaves[i]. NULL: not in a block. */
    const int32_t *leaves;
};

struct draw_scratch *draw_scratch_new(size_t n_vocab);
void draw_scratch_free(struct draw_scratch *s); /* NULL is fine */

/* Draws the token for position pos (the number of tokens before it) from logits[n_vocab]. NaN
 * or +infinity among them is ERR_FORMAT (a broken model); -infinity is a ban, and if all are
 * banned, that is ERR_USER. */
bool draw_host(struct draw_scratch *s, const struct draw *d, const float *logits, uint32_t pos,
               int32_t *id, struct err *err);

/* The noise g of a token: from -2.9 to 22.9. */
float draw_noise(uint64_t seed, uint32_t pos, int32_t id);

#endif
