/* The sampler: logits of one position in, one token id out.
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
 * id. temp 0 (anything below 2^-20) is greedy: the largest logit.
 *
 * Pure: no I/O, knows no model. The engine owns one per model; one thread at a time. Nothing is
 * allocated per token. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct engine_sampling;
struct sampler;

struct sampler *sampler_new(size_t n_vocab);
void sampler_free(struct sampler *s); /* NULL is fine */

/* Begins a reply after ids[0..n). `how` is borrowed until the next begin. A value outside its
 * range or a biased id outside the vocabulary is ERR_USER. */
bool sampler_begin(struct sampler *s, const struct engine_sampling *how, const int32_t *ids,
                   size_t n, struct err *err);
/* ids[n-1] has been appended to the tokens. */
void sampler_accept(struct sampler *s, const int32_t *ids, size_t n);
/* Undoes the last sampler_accept, which ids[n-1] was given to. */
void sampler_take_back(struct sampler *s, const int32_t *ids, size_t n);
/* Draws the token for position pos (the number of tokens before it) from logits[n_vocab]. NaN
 * or +infinity among them is ERR_FORMAT (a broken model); -infinity is a ban, and if all are
 * banned, that is ERR_USER. */
bool sampler_draw(struct sampler *s, const float *logits, uint32_t pos, int32_t *id,
                  struct err *err);

/* The noise g of a token: from -2.9 to 22.9. */
float sampler_noise(uint64_t reply_seed, uint32_t pos, int32_t id);

/* The token with the largest logit, the lowest id of several; NaN never wins. -1 if there is
 * none above -infinity. */
int32_t sampler_argmax(const float *logits, size_t n);

#endif
