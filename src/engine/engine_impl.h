/* What the two sides of the engine share: its fields, by the thread they belong to.
 *
 * engine.c is the engine's thread: loading, turns and what else is asked of it. engine_owner.c
 * is the side of whoever opened it. Requests go over under the lock, events come back by the
 * mailbox. Nobody else includes it. */
#ifndef ENGINE_ENGINE_IMPL_H
#define ENGINE_ENGINE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "engine/engine.h"
#include "engine/known.h"
#include "engine/machine.h"
#include "engine/request.h"
#include "text/tokenizer.h"

struct generator;
struct mailbox;
struct bound;
struct sampler;
struct speculator;

enum kept {
    KEPT_MODEL,
    KEPT_ADAPTER,
    KEPT_DEVICE,
    KEPT_CPU,
    KEPT_KV_TYPE,
    KEPT_CACHE,
    KEPT_DRAFT,
    N_KEPT
};

struct engine {
    pthread_t thread;
    struct mailbox *box;
    atomic_bool cancel;
    atomic_bool is_ready;
    atomic_bool resumes; /* as the configuration has it, or engine_resumes since */
    /* A request is posted, or none will be: what is done in idle time ends. */
    atomic_bool is_wanted;

    /* The owner's side of the one request there may be. */
    pthread_mutex_t lock;
    pthread_cond_t posted;
    bool has_request, closing;
    struct request request;

    /* The engine's thread only. */
    struct engine_config config;
    char *kept[N_KEPT]; /* copies of the configuration's strings */
    struct machine machine;
    struct tokenizer_thread *tok_thread; /* while the weights are read */
    struct tokenizer *tok;
    struct sampler *sampler;
    struct bound *bound; /* the sampler asks it */
    struct speculator *spec;
    struct generator *generator;
    struct request turn;    /* the one that runs */
    struct encoded prompt;  /* that of the newest turn */
    struct buf diverged[2]; /* what the reply borrows: the token before and now */
    struct buf difference;
    struct engine_verified verified;
    uint32_t n_read; /* tokens from disk since the last reply, prompts without one included */
    double read_ms;
    double last_progress_ms;
    bool is_open;
    bool is_behind;    /* the disk may lack something of the sequence */
    bool said_reading; /* the model once more; a turn that was given up may have */
    bool said_unkept;  /* that pages are no longer kept; a draft's lie on the same disk */
    bool said_full;    /* that the draft's context is */

    /* Written before is_ready; after that by the owner's thread alone. */
    struct known known;
    struct encoded asked; /* the prompt whose ids the owner asked for last */
    char device[2][320];  /* at first, and after the CPU took over */

    /* What known becomes when the CPU takes over or the draft changes: written before
     * has_changed is set, and taken by the owner's thread. */
    struct engine_info changed;
    atomic_bool has_changed;
};

/* Said before why pages are no longer kept. */
#define ENGINE_UNKEPT "what is computed from now on is not kept on disk"

/* The engine's thread: loads, then answers requests until closing. */
void *engine_main(void *engine);

#endif
