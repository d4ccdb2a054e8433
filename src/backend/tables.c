/* Tokens and positions against the tables. */
#include "backend/tables.h"

#include "backend/backend.h"
#include "backend/impl.h"

static bool has_tokens(const struct weight *table, const int32_t *tokens, uint32_t n,
                       struct err *err)
{
    for (uint32_t r = 0; r < n; r++)
        if (tokens[r] < 0 || (size_t)tokens[r] >= table->n_rows)
            return err_set(err, ERR_USER, "token id %d: the vocabulary has 0 to %zu", tokens[r],
                           table->n_rows - 1);
    return true;
}

static bool has_positions(const struct weight *table, const struct step *step, struct err *err)
{
    const size_t end = (size_t)step->pos + step->n_rows;
    return end <= table->n_rows ||
           err_set(err, ERR_USER, "position %zu: the model has 0 to %zu", end - 1,
                   table->n_rows - 1);
}

bool tables_have(const struct program *p, const struct step *step, uint32_t n_tokens,
                 struct err *err)
{
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct op_embed *e = &p->ops[i].embed;
        if (p->ops[i].kind != OP_EMBED) continue;
        if (!(e->by_pos ? has_positions(e->table, step, err)
                        : has_tokens(e->table, step->tokens, n_tokens, err)))
            return false;
    }
    return true;
}
