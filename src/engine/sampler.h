/* The sampler: what a reply asks of its draws (backend/draw.h), and how often its tokens
 * occurred.
 *
 * It checks the options, keeps the counts of the penalties as tokens come, and makes of both
 * the request that a device or the host answers with an id. temp 0 (anything below 2^-20) is
 * greedy.
 *
 * Pure: no I/O, knows no model. The engine owns one per model; one thread at a time. Nothing is
 * allocated per token. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bound;
struct draw;
struct engine_sampling;
struct sampler;

struct sampler *sampler_new(size_t n_vocab);
void sampler_free(struct sampler *s); /* NULL is fine */

/* Bans ids[0..n), which outlive s, from all replies that begin from now on. */
void sampler_suppress(struct sampler *s, const int32_t *ids, size_t n);

/* What binds the replies that begin from now on (NULL: nothing), and lives as long: it follows
 * the tokens that are accepted and taken back, and of the others none is drawn. */
void sampler_bind(struct sampler *s, struct bound *bound);
/* Whether a vocabulary of n_vocab tokens has the one that a bias names. ERR_USER: not. Pure. */
bool sampler_has_biased(size_t n_vocab, int32_t id, struct err *err);
/* Whether draws are made here and on no device: something binds the reply. */
bool sampler_is_bound(const struct sampler *s);

/* Begins a reply after ids[0..n). A value outside its range or a biased id outside the
 * vocabulary is ERR_USER. */
bool sampler_begin(struct sampler *s, const struct engine_sampling *how, const int32_t *ids,
                   size_t n, struct err *err);
/* ids[n-1] has been appended to the tokens. */
void sampler_accept(struct sampler *s, const int32_t *ids, size_t n);
/* Undoes the last sampler_accept, which ids[n-1] was given to. */
void sampler_take_back(struct sampler *s, const int32_t *ids, size_t n);
enum { SAMPLER_MAX_AHEAD = 16 };
/* The request for draws after the tokens accepted so far, until the next call. Of ids[0..n) the
 * last n_ahead (at most SAMPLER_MAX_AHEAD) have not been accepted: the request is for the row
 * before each and the one after the last. n_ahead 0: for one row, and ids may be NULL. */
const struct draw *sampler_request(struct sampler *s, const int32_t *ids, size_t n,
                                   size_t n_ahead);
/* The request for a block (backend.h) of n_ahead drafts after ids[0..n), the tokens accepted so
 * far, until the next call. */
const struct draw *sampler_request_block(struct sampler *s, const int32_t *ids, size_t n,
                                         size_t n_ahead);
/* Draws on the host from logits[n_vocab]; the errors are those of draw_host. */
bool sampler_draw(struct sampler *s, const float *logits, uint32_t pos, int32_t *id,
                  struct err *err);

/* The token with the largest logit, the lowest id of several; NaN never wins. -1 if there is
 * none above -infinity. */
int32_t sampler_argmax(const float *logits, size_t n);

#endif
