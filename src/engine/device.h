/* What --device names: the backend it stands for, and what "auto" may be.
 *
 * "auto" is the best hardware device that has the memory and gives the bits of the CPU:
 * discrete before integrated, software never. Whoever opens a model tries the names of
 * device_auto one after the other, with device_check once its program is known and
 * machine_pace.h once the model is there; the last of them is the CPU. One thread; the backend
 * that comes back is the caller's to close. It knows every backend by name, and no model. */
#ifndef ENGINE_DEVICE_H
#define ENGINE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;
struct program;

struct device_choice {
    const char *device; /* "cpu", "vulkan", "vulkan:N"; NULL: "cpu" */
    const char *cpu;    /* instruction set, as in cpu/cpu.h; NULL: "auto" */
    int n_threads;      /* of the CPU; 0: one per usable core */
    /* Hearth's folder in the user's cache, where drivers' pipelines are kept; NULL: nowhere. */
    const char *cache_dir;
    bool may_differ; /* a device that has not the CPU's bits is opened: device_check tells */
};

/* NULL with ERR_USER (a name that there is not) or ERR_DEVICE (a device that cannot be used: a
 * named one is never replaced by another). *memory: bytes of its own that the device has free
 * for weights, scratch and pages; 0: it shares the system's. */
struct backend *device_open(const struct device_choice *choice, uint64_t *memory,
                            struct err *err);

enum { DEVICE_MOST = 16, DEVICE_NAME_BYTES = 24 };
struct device_names {
    char names[DEVICE_MOST][DEVICE_NAME_BYTES]; /* the last is "cpu" */
    size_t n;
    /* Where there is nothing but the CPU: why, in a few words; static. */
    const char *why;
    bool is_odd; /* there seems to be a graphics processor all the same: worth a warning */
};
void device_auto(struct device_names *out);

/* Whether be gives the bits of the CPU for all ops of p (which need not be bound); the CPU
 * does. ERR_DEVICE names the op. What was bound to be is lost. */
bool device_check(struct backend *be, const struct program *p, const atomic_bool *cancel,
                  struct err *err);

/* GB/s at which the CPU of a choice reads n_bytes at data, which bounds decode; 0: its kernels
 * are slower than memory (the scalar ones), or it cannot be opened. */
double device_cpu_reads(const struct device_choice *cpu, const void *data, size_t n_bytes);

/* For tests: how devices behave that are opened from now on. NULL: as they are. */
struct device_seam {
    bool software_too; /* "auto" tries software devices as well */
    bool wrong_bits;
    uint64_t lost_at; /* the submission after device_check that loses the device; 0: none */
    double cpu_reads; /* GB/s; 0: as measured */
    uint64_t memory;  /* bytes of its own that the device says it has free; 0: what it has */
};
void device_set_seam(const struct device_seam *seam);

#endif
