/* Copies of what a request borrows. */
#include "engine/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/grammar.h"

static void copy_sampling(struct request *r, const struct engine_sampling *from)
{
    r->sampling = *from;
    r->stop = mem_zalloc(from->n_stop + 1, sizeof *r->stop);
    for (size_t i = 0; i < from->n_stop; i++)
        r->stop[i] = mem_strdup(from->stop[i]);
    r->bias = mem_zalloc(from->n_bias + 1, sizeof *r->bias);
    if (from->n_bias) memcpy(r->bias, from->bias, from->n_bias * sizeof *r->bias);
    r->sampling.stop = (const char *const *)r->stop;
    r->sampling.bias = r->bias;
    if (!from->grammar) return;
    r->sampling.grammar = grammar_retain(from->grammar);
    r->said = mem_strndup(from->n_said ? from->said : "", from->n_said);
    r->sampling.said = r->said;
}

struct request request_turn(const struct spans *prompt, const struct engine_sampling *sampling)
{
    struct request r = {.kind = REQUEST_TURN};
    spans_append(&r.prompt, prompt);
    copy_sampling(&r, sampling);
    return r;
}

struct request request_verify(void)
{
    return (struct request){.kind = REQUEST_VERIFY};
}

struct request request_draft(const char *path, bool lookup)
{
    return (struct request){.kind = REQUEST_DRAFT,
                            .draft_path = path ? mem_strdup(path) : NULL,
                            .draft_lookup = lookup};
}

void request_free(struct request *r)
{
    spans_free(&r->prompt);
    for (size_t i = 0; i < r->sampling.n_stop; i++)
        free(r->stop[i]);
    free(r->stop);
    free(r->bias);
    free(r->said);
    grammar_release(r->sampling.grammar);
    free(r->draft_path);
    *r = (struct request){0};
}
