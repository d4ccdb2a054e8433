/* What a driver made of the shaders, kept on disk: one file per driver and device,
 * <dir>/<vendor>-<device>-<uuid>.pipelines, 0600, replaced whole.
 *
 * A file is 64 bytes and the driver's data: "HEARTHPL", the version of this form, vendor,
 * device and driver version, the driver's UUID of 16 bytes, the bytes of the data and their
 * XXH3-64, all little-endian. One that is of another driver, cut or damaged counts as missing,
 * so a driver is never given what it did not write. Any thread; it knows no device. */
#ifndef VULKAN_PIPELINE_FILE_H
#define VULKAN_PIPELINE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { PIPELINE_FILE_HEADER = 64, PIPELINE_UUID_BYTES = 16 };
/* Bytes of a file: a driver's data of all models that a user has tried; more is not ours. */
enum { PIPELINE_FILE_MOST = 256 << 20 };

struct pipeline_id {
    uint32_t vendor, device, driver;
    uint8_t uuid[PIPELINE_UUID_BYTES];
};

/* To free(). */
char *pipeline_file_path(const char *dir, const struct pipeline_id *id);
/* Replaces out by the file, header included. False: there is none for id that is sound. */
bool pipeline_file_read(const char *path, const struct pipeline_id *id, struct buf *out);
/* Makes the folders too. */
bool pipeline_file_write(const char *path, const struct pipeline_id *id, const void *data,
                         size_t n_bytes, struct err *err);
/* Whether the file is sound, whatever its device: for `hearth cache check`. */
bool pipeline_file_is_sound(const char *path);

/* Whether these bytes are a sound file for id, NULL: for any device. Pure. */
bool pipeline_file_holds(const void *file, size_t n_bytes, const struct pipeline_id *id);
/* Appends the file of a driver's data. Pure. */
void pipeline_file_make(const struct pipeline_id *id, const void *data, size_t n_bytes,
                        struct buf *out);

typedef void pipeline_file_fn(void *user, const char *path, uint64_t n_bytes);
/* Calls fn for every such file in dir, in no order. A missing dir has none. */
bool pipeline_file_walk(const char *dir, pipeline_file_fn *fn, void *user, struct err *err);

#endif
