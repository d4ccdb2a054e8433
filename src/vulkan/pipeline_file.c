#include "vulkan/pipeline_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/bytes.h"
#include "base/file.h"
#include "config/paths.h"

enum {
    VERSION = 1,
    AT_VERSION = 8,
    AT_VENDOR = 12,
    AT_DEVICE = 16,
    AT_DRIVER = 20,
    AT_UUID = 24
};
enum { AT_BYTES = 40, AT_HASH = 48 };
static const char magic[] = "HEARTHPL", suffix[] = ".pipelines";

char *pipeline_file_path(const char *dir, const struct pipeline_id *id)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%08x-%08x-", dir, id->vendor, id->device);
    for (int i = 0; i < PIPELINE_UUID_BYTES; i++)
        buf_printf(&path, "%02x", id->uuid[i]);
    buf_puts(&path, suffix);
    return buf_take(&path);
}

bool pipeline_file_holds(const void *file, size_t n_bytes, const struct pipeline_id *id)
{
    const char *p = file;
    if (n_bytes < PIPELINE_FILE_HEADER || memcmp(p, magic, 8) != 0) return false;
    const size_t n = n_bytes - PIPELINE_FILE_HEADER;
    const bool is_sound = bytes_u32(p + AT_VERSION) == VERSION &&
                          bytes_u64(p + AT_BYTES) == n &&
                          bytes_u64(p + AT_HASH) == XXH3_64bits(p + PIPELINE_FILE_HEADER, n);
    if (!is_sound || !id) return is_sound;
    return bytes_u32(p + AT_VENDOR) == id->vendor && bytes_u32(p + AT_DEVICE) == id->device &&
           bytes_u32(p + AT_DRIVER) == id->driver &&
           memcmp(p + AT_UUID, id->uuid, sizeof id->uuid) == 0;
}

bool pipeline_file_read(const char *path, const struct pipeline_id *id, struct buf *out)
{
    return file_read_plain(path, PIPELINE_FILE_MOST, out) &&
           pipeline_file_holds(buf_str(out), out->len, id);
}

bool pipeline_file_is_sound(const char *path)
{
    struct buf file = {0};
    bool ok = file_read_plain(path, PIPELINE_FILE_MOST, &file) &&
              pipeline_file_holds(buf_str(&file), file.len, NULL);
    buf_free(&file);
    return ok;
}

static void put(char *at, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        at[i] = (char)(value >> 8 * i);
}

void pipeline_file_make(const struct pipeline_id *id, const void *data, size_t n_bytes,
                        struct buf *out)
{
    char header[PIPELINE_FILE_HEADER] = {0};
    memcpy(header, magic, 8);
    put(header + AT_VERSION, VERSION, 4);
    put(header + AT_VENDOR, id->vendor, 4);
    put(header + AT_DEVICE, id->device, 4);
    put(header + AT_DRIVER, id->driver, 4);
    memcpy(header + AT_UUID, id->uuid, sizeof id->uuid);
    put(header + AT_BYTES, n_bytes, 8);
    put(header + AT_HASH, XXH3_64bits(data, n_bytes), 8);
    buf_append(out, header, sizeof header);
    buf_append(out, data, n_bytes);
}

bool pipeline_file_write(const char *path, const struct pipeline_id *id, const void *data,
                         size_t n_bytes, struct err *err)
{
    struct buf file = {0};
    pipeline_file_make(id, data, n_bytes, &file);
    bool ok = paths_make_parents(path, err) && file_replace(path, file.data, file.len, err);
    buf_free(&file);
    return ok;
}

bool pipeline_file_walk(const char *dir, pipeline_file_fn *fn, void *user, struct err *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return file_is_missing(errno) || err_set(err, ERR_IO, "%s: %s", dir, strerror(errno));
    struct buf path = {0};
    const struct dirent *entry;
    while ((entry = readdir(d))) {
        const size_t n = strlen(entry->d_name), n_suffix = sizeof suffix - 1;
        struct stat st;
        if (n <= n_suffix || entry->d_name[0] == '.' ||
            strcmp(entry->d_name + n - n_suffix, suffix) != 0)
            continue;
        buf_clear(&path);
        buf_printf(&path, "%s/%s", dir, entry->d_name);
        if (lstat(buf_str(&path), &st) == 0 && S_ISREG(st.st_mode))
            fn(user, buf_str(&path), (uint64_t)st.st_size);
    }
    closedir(d);
    buf_free(&path);
    return true;
}
