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
#include <stdint.h>

#include "base/err.h"

struct backend;

/* ---- what devices there are ---- */

struct vulkan_info {
    char name[256];
    const char *kind; /* "discrete", "integrated", "virtual", "software", "other": static */
    bool is_hardware; /* not software */
    uint64_t memory_bytes; /* of its largest heap near the device */
};

/* How many Vulkan devices there are, software ones included; 0 without a driver. */
uint32_t vulkan_count(void);
/* False: there is no index-th device. */
bool vulkan_describe(uint32_t index, struct vulkan_info *out);
/* The first discrete device, else the first integrated or virtual one; false: none. */
bool vulkan_first_hardware(uint32_t *index);

/* ---- one of them as a backend ---- */

struct vulkan_choice {
    uint32_t index;
    bool never_packed_dot;  /* for tests: the shaders for devices without it */
    bool always_packed_dot; /* for tests: also where it is slow */
    bool always_staged;     /* for tests: as if the host saw no device memory */
};

/* Opens the device and runs the elementary functions on it: ERR_DEVICE if there is none, or if
 * a result differs. Weights read from files stay mapped until backend_close. */
struct backend *vulkan_backend_open(const struct vulkan_choice *choice, struct err *err);

/* What was done since opening; tests hold them to what a step may cost. */
struct vulkan_counters {
    uint64_t submits, waits;
    uint64_t allocations; /* of device memory */
    uint64_t pipelines;   /* created */
    uint64_t sets;        /* descriptor sets written */
    uint64_t bytes_back;  /* read from the device */
};
const struct vulkan_counters *vulkan_backend_counters(const struct backend *be);

#endif
