/* The seam: checks what every backend may take for granted, then calls its table. */
#include "backend/backend.h"

#include <assert.h>

#include "backend/draw.h"
#include "backend/impl.h"

struct backend *backend_beside(struct backend *be)
{
    return be->impl->beside ? be->impl->beside(be) : NULL;
}

void backend_close(struct backend *be)
{
    if (be) be->impl->close(be);
}

bool backend_is_lost(const struct backend *be)
{
    return be->impl->is_lost && be->impl->is_lost(be);
}

void backend_expect(struct backend *be, uint64_t n_bytes)
{
    if (be->impl->expect) be->impl->expect(be, n_bytes);
}

void backend_reset(struct backend *be)
{
    be->impl->reset(be);
}

const char *backend_name(const struct backend *be)
{
    return be->impl->name(be);
}

struct weight *backend_matrix(struct backend *be, enum qtype type, size_t n_mats, size_t n_rows,
                              size_t n_cols, const void *data, const atomic_bool *cancel,
                              struct err *err)
{
    assert(qtype_info(type) && n_mats > 0 && n_rows > 0 && n_cols > 0);
    assert(n_cols % qtype_info(type)->block_len == 0);
    return be->impl->matrix(be, type, n_mats, n_rows, n_cols, data, cancel, err);
}

struct weight *backend_vector(struct backend *be, const float *data, size_t n, struct err *err)
{
    return be->impl->vector(be, data, n, err);
}

size_t backend_matrix_bytes(const struct backend *be, enum qtype type, size_t n_mats,
                            size_t n_rows, size_t n_cols)
{
    return be->impl->matrix_bytes(be, type, n_mats, n_rows, n_cols);
}

size_t weight_file_bytes(const struct weight *w)
{
    return qtype_bytes(w->type, w->n_rows * w->n_cols);
}

size_t exec_bytes(const struct backend *be, const struct program *p, uint32_t max_rows)
{
    return be->impl->exec_bytes(be, p, max_rows);
}

struct exec *exec_new(struct backend *be, const struct program *p, uint32_t max_rows,
                      struct err *err)
{
    assert(max_rows > 0);
    return be->impl->exec_new(be, p, max_rows, err);
}

void exec_free(struct exec *x)
{
    if (x) x->be->impl->exec_free(x);
}

bool exec_run(struct exec *x, const struct step *step, struct err *err)
{
    assert(step->n_rows > 0 && step->n_logits <= step->n_rows);
    assert(!step->state_in || step->state_in != step->state_out);
    assert(!step->keeps_trail || step->n_rows <= TRAIL_ROWS);
    assert(!step->draw || (exec_draws(x) && step->n_logits > 0 && step->n_logits <= DRAW_ROWS));
    return x->be->impl->exec_run(x, step, err);
}

bool exec_draws(const struct exec *x)
{
    return x->be->impl->exec_logits != NULL;
}

bool exec_logits(struct exec *x, uint32_t i, float *logits, struct err *err)
{
    assert(exec_draws(x));
    return x->be->impl->exec_logits(x, i, logits, err);
}

bool exec_takes_blocks(const struct exec *model, const struct exec *draft)
{
    const struct backend_impl *impl = model->be->impl;
    return impl->exec_block && impl->exec_block == draft->be->impl->exec_block &&
           impl->takes_blocks(model, draft);
}

bool exec_block(struct draft_block *b, struct err *err)
{
    const struct step *read = b->read, *check = b->check;
    assert(exec_takes_blocks(b->model, b->draft) && read->draw && check->draw);
    assert(read->n_rows > 0 && read->n_logits == 1);
    assert(check->n_rows > 1 && check->n_rows <= DRAW_ROWS);
    assert(check->n_logits == check->n_rows);
    assert(read->pos + read->n_rows == check->pos + 1);
    assert((!read->draw->count || read->draw->leaves) &&
           (!check->draw->count || check->draw->leaves));
    return b->model->be->impl->exec_block(b, err);
}

bool exec_time(struct exec *x, const struct step *step, double *ms, struct err *err)
{
    assert(step->n_rows > 0 && step->n_logits == 1);
    if (!x->be->impl->exec_time)
        return err_set(err, ERR_DEVICE, "%s has no clock for its ops", backend_name(x->be));
    return x->be->impl->exec_time(x, step, ms, err);
}

bool exec_advance(struct exec *x, const void *state_in, void *state_out, uint32_t n_rows,
                  struct err *err)
{
    assert(state_in != state_out && n_rows > 0 && n_rows <= TRAIL_ROWS);
    if (!x->be->impl->exec_advance)
        return err_set(err, ERR_DEVICE, "%s keeps no trail of recurrent layers",
                       backend_name(x->be));
    return x->be->impl->exec_advance(x, state_in, state_out, n_rows, err);
}

void *backend_page_new(struct backend *be, size_t page_bytes, size_t page_unit)
{
    return be->impl->page_new(be, page_bytes, page_unit);
}

void backend_page_free(struct backend *be, void *page, size_t page_bytes)
{
    if (page) be->impl->page_free(be, page, page_bytes);
}

void backend_page_copy(struct backend *be, void *to, const void *from, size_t page_bytes)
{
    be->impl->page_copy(be, to, from, page_bytes);
}

bool backend_page_host(const struct backend *be, const void *page, struct pieces *bytes)
{
    return be->impl->page_host && be->impl->page_host(be, page, bytes);
}

void backend_page_read(struct backend *be, const void *page, size_t page_bytes, void *host)
{
    be->impl->page_read(be, page, page_bytes, host);
}

void backend_page_write(struct backend *be, void *page, size_t page_bytes, const void *host)
{
    be->impl->page_write(be, page, page_bytes, host);
}

void *backend_state_new(struct backend *be, size_t state_bytes)
{
    assert(state_bytes > 0);
    return be->impl->state_new(be, state_bytes);
}

void backend_state_free(struct backend *be, void *state, size_t state_bytes)
{
    if (state) be->impl->state_free(be, state, state_bytes);
}

void backend_state_read(struct backend *be, const void *state, size_t state_bytes, void *host)
{
    be->impl->state_read(be, state, state_bytes, host);
}

void backend_state_write(struct backend *be, void *state, size_t state_bytes, const void *host)
{
    be->impl->state_write(be, state, state_bytes, host);
}
