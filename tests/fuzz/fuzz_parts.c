/* Models of several files. Any name: the other files stand in the same folder under names of
 * the same form, and none of them passes for a whole model. Any files: a first one and up to
 * three more are refused in words, or opened and walkable to the last value.
 *
 * Input: a name up to the first NUL, a byte for the number of files, then two bytes for the
 * length of each and the files. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "chat/discover.h"
#include "gguf/gguf.h"
#include "gguf/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST = 4, END_BYTES = sizeof "-00001-of-00002.gguf" - 1 };
static volatile uint64_t sink;

static void must(bool ok)
{
    if (!ok) abort();
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void check_name(const char *first, int64_t i, int64_t count)
{
    const size_t n = strlen(first);
    char *path = gguf_part_path(first, i, count);
    if (!path) return;
    /* What tells them apart is a number of five digits. */
    must(strlen(path) == n && n >= END_BYTES);
    for (size_t k = 0; k < n; k++)
        must(path[k] == first[k] || (k >= n - END_BYTES + 1 && k < n - END_BYTES + 6));
    must(atoll(path + n - END_BYTES + 1) == i + 1);
    must((strcmp(path, first) == 0) == (i == 0));
    if (i > 0) must(!discover_is_model_name(base_name(path)));
    /* The way back: of what is no first file nothing is found. */
    char *again = gguf_part_path(path, i, count);
    must((again != NULL) == (i == 0));
    free(again);
    free(path);
}

static void walk(const struct gguf *g)
{
    const struct file_map *map;
    const char *path;
    size_t sum = 0, total = 0;
    for (size_t i = 0; (map = gguf_file(g, i, &path)); i++)
        total += map->n_bytes;
    must(total == gguf_file_bytes(g));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        must(gguf_tensor_find(g, t->name) == t);
        for (size_t k = 0; k < t->n_bytes; k++)
            sum += t->data[k];
        gguf_tensor_release(g, t);
        if (t->n_bytes > 0) sum += t->data[t->n_bytes - 1];
    }
    sink = sink + sum;
}

/* Where the files lie, gone at the end. */
static char dir[] = "/tmp/hearth-parts-XXXXXX";

static void remove_dir(void)
{
    rmdir(dir);
}

static void make_dir(void)
{
    static bool is_made;
    if (is_made) return;
    is_made = true;
    must(mkdtemp(dir) && atexit(remove_dir) == 0);
}

static void write_file(const char *path, const uint8_t *data, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && file_write_fd(fd, data, n) && close(fd) == 0);
}

static void check_opened(const char *path)
{
    struct err err = {0};
    struct gguf *g = gguf_open(path, &err);
    if (g)
        walk(g);
    else
        must(err.code != ERR_NONE && err.msg[0] && !strpbrk(err.msg, "\n\x1b"));
    gguf_close(g);
}

static void check_files(const uint8_t *data, size_t n_bytes)
{
    static char paths[MOST][sizeof dir + 32];
    make_dir();
    const int count = n_bytes > 0 ? 1 + data[0] % MOST : 0;
    size_t at = 1;
    int n_files = 0;
    for (; n_files < count && n_bytes - at >= 2; n_files++) {
        size_t n = (size_t)data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        if (n > n_bytes - at) n = n_bytes - at;
        char *path = paths[n_files];
        snprintf(path, sizeof paths[0], "%s/m-%05d-of-%05d.gguf", dir, n_files + 1, count);
        write_file(path, data + at, n);
        at += n;
    }
    if (n_files > 0) check_opened(paths[0]);
    for (int i = 0; i < n_files; i++)
        unlink(paths[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const uint8_t *end = n_bytes > 0 ? memchr(data, 0, n_bytes) : NULL;
    const size_t n_name = end ? (size_t)(end - data) : n_bytes;
    char *name = mem_strndup((const char *)data, n_name);
    static const int64_t numbers[] = {0, 1, 2, 9, 4095, 99998};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (numbers[i] <= numbers[k]) check_name(name, numbers[i], numbers[k] + 1);
    free(name);
    if (end) check_files(end + 1, n_bytes - n_name - 1);
    return 0;
}
