/* A request to the engine, with copies of all that the caller lent: it outlives the call.
 *
 * The owner's thread makes it and hands it over; the engine's thread frees it. Knows no model.
 */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "engine/engine.h"
#include "text/spans.h"

enum request_kind { REQUEST_TURN, REQUEST_VERIFY, REQUEST_DRAFT };

struct request {
    enum request_kind kind;
    struct spans prompt;
    struct engine_sampling sampling;
    char **stop;
    struct engine_bias *bias;
    char *said;
    char *draft_path; /* REQUEST_DRAFT; NULL: none */
    bool draft_lookup;
};

/* Copies of the prompt and of the sampling with its stop strings and biases. */
struct request request_turn(const struct spans *prompt, const struct engine_sampling *sampling);
struct request request_verify(void);
/* path may be NULL: no draft model. */
struct request request_draft(const char *path, bool lookup);
/* Leaves it empty; may be empty. */
void request_free(struct request *r);

#endif
