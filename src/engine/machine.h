/* A loaded model on a device with one timeline: what the engine's thread, `hearth bench` and
 * `hearth inspect` all work with.
 *
 * machine_open does everything in order: it maps the file, opens the device, states what will
 * be needed, refuses what does not fit, binds the weights; then the same for the draft model,
 * if there is one. The owner embeds the struct and reads its members; machine_close frees them
 * in the right order. One thread at a time; cancel may be set by any. It knows no tokenizer and
 * no conversation. Its parts are machine_place.h (which device computes what),
 * machine_memory.h (what fits) and machine_pace.h (whether a device is worth having). */
#ifndef ENGINE_MACHINE_H
#define ENGINE_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/engine.h"
#include "engine/speculate.h"
#include "model/model.h"

struct backend;
struct disk;
struct gguf;
struct timeline;

struct machine {
    struct gguf *gguf;
    struct backend *be;
    struct model *model;
    struct timeline *tl;
    struct disk *disk; /* NULL: nothing is kept */
    struct model_sizes sizes;
    uint64_t available;    /* bytes of memory there could be had before loading */
    uint64_t device_bytes; /* of the device's own memory; 0: it shares the system's */
    uint64_t system_bytes; /* of the system's, before loading */
    /* What be does its work on besides the CPU, be itself or the back of two (split.h); NULL:
     * nothing. */
    struct backend *device;
    bool is_split;                     /* the layers before this one are the CPU's: */
    uint32_t split_at, n_layers;       /* 0: just the embedding is; of n_layers in all */
    struct model_sizes split_sizes[2]; /* in front; on the device */
    struct model_context context;      /* before memory was asked */
    uint32_t n_ctx;
    const char *kv_type; /* "f16"; static */
    struct model_params params;
    bool is_cpu;
    bool is_inexact;     /* the device has not the CPU's bits, and is used all the same */
    const char *why_cpu; /* "auto" found nothing better: why; static. NULL: it was not so */
    double load_ms;
    /* Guesses for this one; NULL: none. On the same device if that has room for it beside all
     * of the model, else on the CPU. */
    struct machine *draft;
};

/* What opening tells on the way. Any may be NULL. */
struct machine_watch {
    /* The weights of g, which stays open as long as the machine, are read from now on: what
     * else is wanted of it may be read beside them. Again where another device takes its place.
     */
    void (*reading)(void *user, const struct gguf *g);
    /* One line, before anything is loaded: what it will take. total: bytes of weights. */
    void (*sizes)(void *user, uint64_t total, const char *line);
    void (*progress)(void *user, uint64_t done, uint64_t total);
    void (*warning)(void *user, const char *line);
    void *user;
    const atomic_bool *cancel;
};

static inline void machine_warn(const struct machine_watch *watch, const char *line)
{
    if (watch->warning) watch->warning(watch->user, line);
}

/* On failure *m holds what was opened so far, for machine_close: giving back the memory of
 * large weights takes longer than a cancelled user should wait for an answer. ERR_USER: an
 * unknown device, KV type, instruction set or family; ERR_MEMORY: weights, scratch and KV do
 * not fit (with the numbers). watch may be NULL. */
bool machine_open(struct machine *m, const struct engine_config *config,
                  const struct machine_watch *watch, struct err *err);
/* The CPU takes the place of a device that failed: everything on that is given up (saved first,
 * if it can still be read), and the model and its draft are opened again. On failure nothing is
 * open but the file; it may be tried again. */
bool machine_move_to_cpu(struct machine *m, const struct engine_config *config,
                         const struct machine_watch *watch, struct err *err);
/* Whether there is a timeline: false after a move that failed. */
static inline bool machine_is_up(const struct machine *m)
{
    return m->tl != NULL;
}
/* Opens the draft that config names now, or none, and closes the one before. On failure nothing
 * has changed. Of watch just warning and cancel are used. */
bool machine_change_draft(struct machine *m, const struct engine_config *config,
                          const struct machine_watch *watch, struct err *err);
/* What a speculator over the machine needs; sampler and ends are the caller's to add. */
struct speculator_parts machine_speculation(const struct machine *m,
                                            const struct engine_config *config);
/* Whether it computes from now on: writing to disk keeps out of the way. */
void machine_set_busy(struct machine *m, bool is_busy);
/* Waits until what can be kept is on disk, but not for the model's content to be known once
 * *cancel (may be NULL) is true. False, the first time, if it no longer can be: why. */
bool machine_save(struct machine *m, const atomic_bool *cancel, struct err *err);
/* Saves without a word, whatever it waits for, and frees it. An empty one is fine. */
void machine_close(struct machine *m);

/* The KV type of a name, NULL: f16. *kept is the name, static. ERR_USER: an unknown one. */
bool machine_kv_type(const char *name, enum kv_type *type, const char **kept, struct err *err);

#endif
