/* What a backend implements: the table behind backend.h, and the part of every handle that the
 * seam itself knows. Each backend embeds these as the first member of its own structs, and
 * frees them. The threads are those of backend.h. */
#ifndef BACKEND_IMPL_H
#define BACKEND_IMPL_H

#include "backend/backend.h"

struct backend_impl {
    struct backend *(*beside)(struct backend *be); /* NULL: there is none */
    void (*close)(struct backend *be);
    void (*reset)(struct backend *be);
    void (*expect)(struct backend *be, uint64_t n_bytes); /* NULL: it does not care */
    bool (*is_lost)(const struct backend *be);            /* NULL: it never is */
    const char *(*name)(const struct backend *be);
    struct weight *(*matrix)(struct backend *be, enum qtype type, size_t n_mats, size_t n_rows,
                             size_t n_cols, const void *data, const atomic_bool *cancel,
                             struct err *err);
    struct weight *(*vector)(struct backend *be, const float *data, size_t n, struct err *err);
    size_t (*matrix_bytes)(const struct backend *be, enum qtype type, size_t n_mats,
                           size_t n_rows, size_t n_cols);
    size_t (*exec_bytes)(const struct backend *be, const struct program *p, uint32_t max_rows);
    struct exec *(*exec_new)(struct backend *be, const struct program *p, uint32_t max_rows,
                             struct err *err);
    void (*exec_free)(struct exec *x);
    bool (*exec_run)(struct exec *x, const struct step *step, struct err *err);
    /* NULL: it does not draw. */
    bool (*exec_logits)(struct exec *x, uint32_t i, float *logits, struct err *err);
    /* NULL: it takes no blocks. Both models are of backends with this very function. */
    bool (*takes_blocks)(const struct exec *model, const struct exec *draft);
    bool (*exec_block)(struct draft_block *b, struct err *err);
    /* NULL: it has no clock for its ops. */
    bool (*exec_time)(struct exec *x, const struct step *step, double *ms, struct err *err);
    /* NULL: it keeps no trail. */
    bool (*exec_advance)(struct exec *x, const void *state_in, void *state_out, uint32_t n_rows,
                         struct err *err);
    void *(*page_new)(struct backend *be, size_t page_bytes, size_t page_unit);
    void (*page_free)(struct backend *be, void *page, size_t page_bytes);
    void (*page_copy)(struct backend *be, void *to, const void *from, size_t page_bytes);
    /* NULL: pages are not in the host's memory. */
    bool (*page_host)(const struct backend *be, const void *page, struct pieces *bytes);
    void (*page_read)(struct backend *be, const void *page, size_t page_bytes, void *host);
    void (*page_write)(struct backend *be, void *page, size_t page_bytes, const void *host);
    void *(*state_new)(struct backend *be, size_t state_bytes);
    void (*state_free)(struct backend *be, void *state, size_t state_bytes);
    void (*state_read)(struct backend *be, const void *state, size_t state_bytes, void *host);
    void (*state_write)(struct backend *be, void *state, size_t state_bytes, const void *host);
};

struct backend {
    const struct backend_impl *impl;
};

/* A vector is one F32 matrix of one row. */
struct weight {
    enum qtype type;
    size_t n_mats, n_rows, n_cols;
    /* Of what stands for a matrix that is not bound yet: its bytes in the mapped file. */
    const void *file;
};

struct exec {
    struct backend *be;
};

#endif
