/* hearth cache: what was computed and is kept on disk. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/kept.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"
#include "cache/store_files.h"
#include "config/paths.h"
#include "vulkan/pipeline_file.h"

static char *dir_of(const char *name, struct err *err)
{
    char *dir = paths_in(PATHS_CACHE, name);
    if (!dir) err_set(err, ERR_IO, "neither XDG_CACHE_HOME nor HOME names a folder");
    return dir;
}

static char *pages_dir(struct err *err)
{
    return dir_of("pages", err);
}

/* Calls fn for the files of all graphics processors' pipelines. */
static bool walk_pipelines(pipeline_file_fn *fn, void *user, struct err *err)
{
    char *dir = dir_of("pipelines", err);
    bool ok = dir && pipeline_file_walk(dir, fn, user, err);
    free(dir);
    return ok;
}

/* ---- list ---- */

struct row {
    char *model;
    size_t n[N_BLOB_KINDS];
    uint64_t n_bytes;
    time_t used;
};

struct rows {
    struct row *items;
    size_t n, cap;
};

static void count(void *user, const struct store_file *file)
{
    struct rows *rows = user;
    size_t i = 0;
    while (i < rows->n && strcmp(rows->items[i].model, file->model) != 0)
        i++;
    if (i == rows->n) {
        MEM_GROW(rows->items, rows->n, rows->cap);
        rows->items[rows->n++] = (struct row){.model = mem_strdup(file->model)};
    }
    struct row *row = &rows->items[i];
    row->n[file->kind]++;
    row->n_bytes += file->n_bytes;
    if (file->used.tv_sec > row->used) row->used = file->used.tv_sec;
}

static int by_model(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return strcmp(x->model, y->model);
}

static void put_row(const struct row *row, struct buf *out)
{
    char name[128], size[READABLE_BYTES], when[READABLE_BYTES];
    buf_printf(out, "%-32s %6zu pages %4zu snapshots  %s  used %s\n",
               printable(name, sizeof name, row->model, strlen(row->model)),
               row->n[BLOB_PAGE] + row->n[BLOB_WINDOW], row->n[BLOB_SNAPSHOT],
               readable_size(size, row->n_bytes), readable_time(when, row->used));
}

static void count_pipelines(void *user, const char *path, uint64_t n_bytes)
{
    struct store_total *total = user;
    (void)path;
    total->n++;
    total->n_bytes += n_bytes;
}

int cache_run_list(int argc, char **argv)
{
    (void)argc, (void)argv;
    struct rows rows = {0};
    struct buf out = {0};
    struct err err;
    char *dir = pages_dir(&err);
    struct store_total pipelines = {0};
    bool ok = dir && store_files_walk(dir, count, &rows, &err) &&
              walk_pipelines(count_pipelines, &pipelines, &err);
    free(dir);
    if (ok && rows.n == 0 && pipelines.n == 0) fputs("hearth: nothing is kept\n", stderr);
    if (rows.n > 0) qsort(rows.items, rows.n, sizeof *rows.items, by_model);
    for (size_t i = 0; i < rows.n; i++) {
        put_row(&rows.items[i], &out);
        free(rows.items[i].model);
    }
    free(rows.items);
    if (pipelines.n > 0) {
        char size[READABLE_BYTES];
        buf_printf(&out, "%-32s %6zu file%s %s\n", "(pipelines of devices)", pipelines.n,
                   pipelines.n == 1 ? "" : "s", readable_size(size, pipelines.n_bytes));
    }
    if (ok) return print_text(&out);
    buf_free(&out);
    return runtime_error(&err);
}

/* ---- clear ---- */

static void remove_pipelines(void *user, const char *path, uint64_t n_bytes)
{
    if (unlink(path) == 0) count_pipelines(user, path, n_bytes);
}

int cache_run_clear(int argc, char **argv)
{
    (void)argc, (void)argv;
    struct store_total removed = {0};
    struct buf out = {0};
    struct err err;
    char *dir = pages_dir(&err);
    const struct store_patience patience = {.waits = true};
    bool ok = dir && store_files_shrink(dir, 0, &patience, NULL, &removed, &err) &&
              walk_pipelines(remove_pipelines, &removed, &err);
    free(dir);
    if (!ok) return runtime_error(&err);
    char files[READABLE_BYTES], size[READABLE_BYTES];
    buf_printf(&out, "removed %s, %s\n", readable_count(files, removed.n, "file"),
               readable_size(size, removed.n_bytes));
    return print_text(&out);
}

/* ---- check ---- */

struct check {
    struct blob_codec *codec;
    struct buf data, out;
    size_t n_sound, n_bad;
    int status;
};

static void check_file(void *user, const struct store_file *file)
{
    struct check *k = user;
    struct err err;
    char shown[512];
    printable(shown, sizeof shown, file->path, strlen(file->path));
    buf_clear(&k->data);
    const bool fits = file->n_bytes <= BLOB_MAX_BYTES || err_set(&err, ERR_FORMAT, "too long");
    const bool is_read = fits && file_read_regular(file->path, BLOB_MAX_BYTES, &k->data, &err);
    if (fits && !is_read && access(file->path, F_OK) != 0) return; /* it has gone */
    if (is_read && blob_unpack(k->codec, k->data.data, k->data.len, NULL, NULL, 0, &err)) {
        k->n_sound++;
    } else if (err.code == ERR_FORMAT) {
        k->n_bad++;
        buf_printf(&k->out, "%s: %s; %s\n", shown, err.msg,
                   unlink(file->path) == 0 ? "removed" : strerror(errno));
    } else {
        /* It may be sound: the disk, its mode or too little memory keeps it from us. */
        if (is_read) err_write_prefix(&err, "%s", shown);
        k->status = runtime_error(&err);
    }
}

static void check_pipelines(void *user, const char *path, uint64_t n_bytes)
{
    struct check *k = user;
    char shown[512];
    (void)n_bytes;
    if (pipeline_file_is_sound(path)) {
        k->n_sound++;
        return;
    }
    k->n_bad++;
    buf_printf(&k->out, "%s: not as it was written; %s\n",
               printable(shown, sizeof shown, path, strlen(path)),
               unlink(path) == 0 ? "removed" : strerror(errno));
}

int cache_run_check(int argc, char **argv)
{
    (void)argc, (void)argv;
    struct check k = {0};
    struct err err;
    char *dir = pages_dir(&err);
    k.codec = blob_codec_new();
    bool ok = dir && store_files_walk(dir, check_file, &k, &err) &&
              walk_pipelines(check_pipelines, &k, &err);
    blob_codec_free(k.codec);
    buf_free(&k.data);
    free(dir);
    buf_printf(&k.out, "%zu sound, %zu damaged\n", k.n_sound, k.n_bad);
    if (ok) {
        const int status = print_text(&k.out);
        return status ? status : k.status;
    }
    buf_free(&k.out);
    return runtime_error(&err);
}
