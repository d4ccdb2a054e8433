/* Machines that keep pages in a folder of the test's own, which disk_set_up makes and
 * disk_tear_down removes; each test empties it first. What goes wrong in here fails the cmocka
 * test that called. */
#ifndef TESTS_DISK_CASE_H
#define TESTS_DISK_CASE_H

#include "../scratch.h"
#include "engine/disk.h"
#include "engine/engine.h"
#include "engine/machine.h"
#include "timeline_case.h"

enum { CONTEXT = 400 }; /* of open_model, and room enough for its ids */

static char home[SCRATCH_PATH];

static inline int disk_set_up(void **state)
{
    (void)state;
    scratch_folder(home, "disk");
    return 0;
}

static inline int disk_tear_down(void **state)
{
    (void)state;
    scratch_remove(home);
    return 0;
}

/* Opens the model at path on the CPU; disk: with the folder, which takes cap_bytes. */
static inline void open_capped(struct machine *m, const char *path, const char *kv_type,
                               bool disk, uint32_t n_ctx, uint64_t cap_bytes)
{
    const struct engine_config config = {.model_path = path,
                                         .device = "cpu",
                                         .kv_type = kv_type,
                                         .n_threads = 1,
                                         .n_ctx = n_ctx,
                                         .cache_dir = disk ? home : NULL,
                                         .cache_disk_bytes = cap_bytes};
    struct err err;
    if (!machine_open(m, &config, NULL, &err)) fail_msg("%s: %s", path, err.msg);
}

static inline void open_long(struct machine *m, const char *path, const char *kv_type,
                             bool disk, uint32_t n_ctx)
{
    open_capped(m, path, kv_type, disk, n_ctx, 64 << 20);
}

static inline void open_model(struct machine *m, const char *path, const char *kv_type,
                              bool disk)
{
    open_long(m, path, kv_type, disk, CONTEXT);
}

#endif
