/* A backend: what runs a program. The one seam between models and devices.
 *
 * A backend owns the memory of its weights, pages and scratch and the threads that work on
 * them; nothing it hands out may outlive it. It knows ops (ops.h), not model families, the
 * meaning of tokens, or conversations. One thread at a time may call it (the engine's);
 * `cancel` may be set by any. Every backend gives the bits of the scalar reference
 * (hearth-numerics(7)). */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/err.h"
#include "base/pieces.h"
#include "gguf/qtype.h"

struct backend;
struct draw;
struct weight;
struct exec; /* a program with its scratch, ready to run on one backend */

/* One step: n_rows consecutive positions of one sequence. */
struct step {
    uint32_t n_rows;       /* 1 .. max_rows of the exec */
    uint32_t pos;          /* position of row 0; all within any table of positions */
    const int32_t *tokens; /* [n_rows], each a row of the embedding */
    const float *input;    /* [n_rows][n_input] for OP_INPUT; NULL if the program has none */
    float *output;         /* [n_rows][n_output] of OP_OUTPUT; likewise */
    /* [ceil((pos + n_rows) / PAGE_LEN)] of each part, from backend_page_new. A page without a
     * row that a window of the step reaches may be NULL in PAGE_WINDOW; NULL as a whole: the
     * program has no such part. */
    void *const *pages[PAGE_PARTS];
    uint32_t n_logits; /* logits are wanted for the last n_logits rows; 0: none */
    float *logits; /* [n_logits][n_vocab] in host memory; NULL if n_logits is 0, or with draw */
    /* Instead of logits the token that follows each of these rows (draw.h), n_logits from 1 to
     * DRAW_ROWS; -1: the host is to draw, as what it says of these logits is an error. The
     * logits stay where they are (exec_logits). NULL: no; only for an exec that draws. */
    const struct draw *draw;
    int32_t *drawn;            /* [n_logits], with draw */
    const atomic_bool *cancel; /* polled between work chunks; NULL: never cancelled */
    /* The recurrent states after pos tokens, and where those after pos + n_rows go; two
     * objects. NULL if the program has none. */
    const void *state_in;
    void *state_out;
    /* What exec_advance needs of the rows is kept; n_rows is then at most TRAIL_ROWS. */
    bool keeps_trail;
};

enum { TRAIL_ROWS = 17, DRAW_ROWS = TRAIL_ROWS };

/* Another backend on the same device and threads, for a model that may be closed alone. It is
 * closed before this one, and never works at the same time. NULL if the device has none. */
struct backend *backend_beside(struct backend *be);
void backend_close(struct backend *be); /* NULL is fine */
/* Whether its device has failed for good: nothing can be run any more, and what is read of
 * pages and states is rubbish. */
bool backend_is_lost(const struct backend *be);
/* Gives back all weights; nothing that they were bound for is left, nor pages, states or execs.
 */
void backend_reset(struct backend *be);
/* A hint: so many bytes of weights (as backend_matrix_bytes counts them) are bound next, so
 * memory for them can be had in large pieces that leave little over. */
void backend_expect(struct backend *be, uint64_t n_bytes);
const char *backend_name(const struct backend *be); /* "cpu (avx2, 2 threads)" */

/* Binds the matrix [n_mats][n_rows][n_cols] of type at data (file layout, borrowed). The
 * backend may repack it or keep reading data, which therefore stays mapped until the backend is
 * closed. n_mats is 1 except for experts. NULL on failure; ERR_CANCELLED once *cancel (may be
 * NULL) is true. */
struct weight *backend_matrix(struct backend *be, enum qtype type, size_t n_mats, size_t n_rows,
                              size_t n_cols, const void *data, const atomic_bool *cancel,
                              struct err *err);
/* Binds n floats (norms, biases, sinks), copied. */
struct weight *backend_vector(struct backend *be, const float *data, size_t n, struct err *err);
/* Bytes of memory a matrix takes once bound, on top of the mapped file. */
size_t backend_matrix_bytes(const struct backend *be, enum qtype type, size_t n_mats,
                            size_t n_rows, size_t n_cols);
/* Bytes in the file's layout of one of the n_mats matrices of a weight. */
size_t weight_file_bytes(const struct weight *w);

/* Scratch bytes that an exec of this program takes. */
size_t exec_bytes(const struct backend *be, const struct program *p, uint32_t max_rows);
/* Prepares a program (borrowed; outlives the exec) for steps of up to max_rows. */
struct exec *exec_new(struct backend *be, const struct program *p, uint32_t max_rows,
                      struct err *err);
void exec_free(struct exec *x); /* NULL is fine */
/* Runs all ops for the step. On cancel (ERR_CANCELLED) or failure it returns false, no page row
 * before step.pos has changed, nor has state_in, and state_out holds rubbish. */
bool exec_run(struct exec *x, const struct step *step, struct err *err);

/* Whether it takes steps with a draw. */
bool exec_draws(const struct exec *x);
/* The n_vocab logits of the i-th of the rows that the last step drew from, to host memory. No
 * other step may have run since, nor failed. */
bool exec_logits(struct exec *x, uint32_t i, float *logits, struct err *err);

/* A block of drafts, where one device has both models. The draft model reads tokens up to the
 * newest and draws the first draft; every draft but the last is read in turn, and the next
 * drawn; then the model reads the newest token and all drafts, and draws after each. No host is
 * asked in between: the ids, and the counts of those penalties that they change, stay there. */
struct draft_block {
    struct exec *draft, *model;
    /* Of the draft: n_logits 1, with draw; its pages reach to the last row that is read. Its
     * state_out has the states after its own rows. */
    const struct step *read;
    /* A third object, for the draft's states after all drafts but the last; with just one draft
     * nothing goes there. NULL: it has none. */
    void *state_end;
    /* Of the model: the newest token and n_logits - 1 = n_rows - 1 drafts, at least 1, with
     * draw. Of its tokens only the first is there. drawn[0..n_right] are set; the last of them
     * may be -1, for the host to draw. Both draws have leaves, or no counts. Its states are
     * those after all rows, wrong drafts or not; exec_advance makes others of its trail. */
    const struct step *check;
    /* Set: so many first drafts are what the model drew; drawn has these and the next. No more
     * is known of the block. */
    uint32_t n_right;
    double draft_share; /* of the device's time */
};
/* Whether both lie on one device that takes blocks now. There are none on the CPU, of a split
 * model or one with rows from elsewhere (OP_INPUT), or on a device without a clock; nor while a
 * block might keep the device busy for so long that its driver resets it, which is known once
 * each model has run a step. */
bool exec_takes_blocks(const struct exec *model, const struct exec *draft);
/* Leaves what the steps would have left, exec_logits of the model included. Fails like
 * exec_run, for both; it is cancelled only before it begins. */
bool exec_block(struct draft_block *b, struct err *err);

/* Runs a step of n_logits 1 as exec_run does, then once more, and adds to ms[0..n_ops) what
 * each op took by the device's clock; every op waits for the one before. ERR_DEVICE: there is
 * no such clock. For measuring. */
bool exec_time(struct exec *x, const struct step *step, double *ms, struct err *err);

/* The recurrent states after the first n_rows rows of the last step, which kept its trail and
 * whose state_in was this: the bits that a step of n_rows would have left, without reading a
 * weight. state_out is another object. For drafts of which the first few are accepted. A
 * backend may do it later, when the states are needed, by the next step at the latest.
 * ERR_DEVICE: the backend keeps no trail. */
bool exec_advance(struct exec *x, const void *state_in, void *state_out, uint32_t n_rows,
                  struct err *err);

/* A part of a page, of page_bytes and page_unit (of the program), uninitialised; NULL if there
 * is no memory. A page that is asked for right after another is likely to lie beside it. */
void *backend_page_new(struct backend *be, size_t page_bytes, size_t page_unit);
void backend_page_free(struct backend *be, void *page, size_t page_bytes); /* NULL is fine */
/* Copies a whole page into another of the same size. */
void backend_page_copy(struct backend *be, void *to, const void *from, size_t page_bytes);
/* A page's bytes where they lie, as backend_page_read gives them: any thread may read them
 * until they are written or the page is freed. False: they are not in the host's memory, or
 * not in such pieces. */
bool backend_page_host(const struct backend *be, const void *page, struct pieces *bytes);
/* A page's bytes to host memory and back. */
void backend_page_read(struct backend *be, const void *page, size_t page_bytes, void *host);
void backend_page_write(struct backend *be, void *page, size_t page_bytes, const void *host);

/* Recurrent states of state_bytes (of the program, not 0): those before the first token; NULL
 * if there is no memory. */
void *backend_state_new(struct backend *be, size_t state_bytes);
void backend_state_free(struct backend *be, void *state, size_t state_bytes); /* as above */
/* The states' bytes to host memory and back. */
void backend_state_read(struct backend *be, const void *state, size_t state_bytes, void *host);
void backend_state_write(struct backend *be, void *state, size_t state_bytes, const void *host);

#endif
