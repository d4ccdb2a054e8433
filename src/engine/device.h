/* What --device names: the backend it stands for.
 *
 * One thread; the backend that comes back is the caller's to close. It knows every backend by
 * name, and no model. */
#ifndef ENGINE_DEVICE_H
#define ENGINE_DEVICE_H

#include <stdint.h>

#include "base/err.h"

struct backend;

struct device_choice {
    const char *device; /* "auto", "cpu", "vulkan", "vulkan:N"; NULL: "auto" */
    const char *cpu;    /* instruction set, as in cpu/cpu.h; NULL: "auto" */
    int n_threads;      /* of the CPU; 0: one per usable core */
};

/* NULL with ERR_USER (a name that there is not) or ERR_DEVICE (a device that cannot be used: a
 * named one is never replaced by another). *memory: bytes that the device has for weights,
 * scratch and pages, what others use of it included; 0: it shares the system's. */
struct backend *device_open(const struct device_choice *choice, uint64_t *memory,
                            struct err *err);

#endif
