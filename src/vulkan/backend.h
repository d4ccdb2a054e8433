/* The Vulkan backend: every op of ops.h on a device with compute shaders.
 *
 * A program is planned once per exec: its ops become dispatches with their pipelines and
 * descriptor sets, recorded into command buffers once for each of a few row counts and
 * submitted again for every step; positions, tokens and page places lie in a small buffer that
 * the host writes. It gives the bits of the scalar reference. It knows ops and weights, no
 * model family, no conversation, and not the CPU backend. Threading is that of backend.h.
 *
 * A step that fails because the device was lost leaves an error of ERR_DEVICE; nothing more can
 * be run then, but closing is safe. */
#ifndef VULKAN_BACKEND_H
#define VULKAN_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;

/* ---- what devices there are ---- */

enum vulkan_kind {
    VULKAN_DISCRETE,
    VULKAN_INTEGRATED,
    VULKAN_VIRTUAL,
    VULKAN_OTHER,
    VULKAN_SOFTWARE, /* not hardware */
};

const char *vulkan_kind_name(enum vulkan_kind kind); /* "discrete": static */

struct vulkan_info {
    char name[256]; /* printable */
    enum vulkan_kind kind;
    uint64_t memory_bytes; /* of its largest heap near the device */
};

/* Describes up to cap devices, software ones included, in the order of their numbers; returns
 * how many there are, 0 without a driver. The first time it loads the drivers: tens of
 * milliseconds. */
size_t vulkan_list(struct vulkan_info *out, size_t cap);
uint32_t vulkan_count(void);
/* The numbers of the hardware devices among all[0..n), best first: discrete, integrated,
 * virtual, other; out has room for n. Returns how many. Pure. */
size_t vulkan_order(const struct vulkan_info *all, size_t n, uint32_t *out);
/* Whether the system shows anything that a hardware device comes with: if not, loading the
 * drivers is not worth its time. */
bool vulkan_may_be_hardware(void);

/* ---- one of them as a backend ---- */

struct vulkan_choice {
    uint32_t index;
    const char *cache_dir;  /* where pipelines are kept; NULL: nowhere */
    bool never_packed_dot;  /* for tests: the shaders for devices without it */
    bool always_packed_dot; /* for tests: also where it is slow */
    bool always_staged;     /* for tests: as if the host saw no device memory */
    bool always_wide;       /* for tests: the shaders for hardware, also on a software device */
    bool least;             /* for tests: as if it had little more than all devices have */
    bool wrong_bits;        /* for tests: its logits are off by a bit */
    size_t piece_tiles; /* for tests: binds 32 · as many rows of a matrix at most; 0: all */
    /* A device whose elementary functions differ is opened all the same. */
    bool may_differ;
};

/* Opens the device and runs the elementary functions on it: ERR_DEVICE if there is none, or if
 * a result differs. Weights read from files stay mapped until backend_close. */
struct backend *vulkan_backend_open(const struct vulkan_choice *choice, struct err *err);

/* Whether its elementary functions differ from the CPU's, with may_differ; err says which. */
bool vulkan_backend_differs(const struct backend *be, struct err *err);

/* Keeps on disk what pipelines were made so far; closing does it too. */
void vulkan_backend_keep(struct backend *be);

/* Bytes that a device with memory of its own has free; 0: it shares the system's. */
uint64_t vulkan_backend_memory(const struct backend *be);

/* How fast it copies its own memory, bytes read and bytes written, in GB/s: a second at most.
 */
bool vulkan_backend_copy_speed(struct backend *be, double *gb_s, struct err *err);

/* What was done on the device since opening, by this backend and those beside it; tests hold
 * them to what a step may cost. */
struct vulkan_counters {
    uint64_t submits, waits;
    uint64_t allocations; /* of device memory */
    uint64_t allocated_bytes;
    uint64_t pipelines;  /* created */
    uint64_t sets;       /* descriptor sets written */
    uint64_t bytes_back; /* read from the device */
    uint64_t
        more_pieces; /* of matrices that it does not bind whole, beyond the first of each */
};
const struct vulkan_counters *vulkan_backend_counters(const struct backend *be);
/* For tests: the device is lost at the n-th submission of a step from now on; 0: it is not. */
void vulkan_backend_lose_at(struct backend *be, uint64_t n);

#endif
