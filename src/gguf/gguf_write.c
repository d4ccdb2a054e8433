#include "gguf/gguf_write.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

enum { ALIGNMENT = 32, PROC_NAME_BYTES = 32 };

struct gguf_writer {
    char *path, *temporary;
    bool has_name; /* the file is at temporary; else it is nowhere yet */
    FILE *file;
    struct buf keys, infos;
    size_t n_keys, n_tensors;
    size_t *tensor_bytes;
    size_t cap_tensors;
    size_t data_bytes;    /* announced so far, with padding */
    size_t next, written; /* the tensor that data goes to, and how much it has */
    bool header_done;
    int failed; /* errno of the first write that failed, or 0 */
};

/* The name that /proc has for an open file. */
static const char *proc_name(char out[PROC_NAME_BYTES], int fd)
{
    snprintf(out, PROC_NAME_BYTES, "/proc/self/fd/%d", fd);
    return out;
}

/* A new file without a name on the disk that path is to be on: it goes away with the process
 * that has it open, whatever ends that. -1 where the file system knows no such files or there
 * is no /proc, through which it gets its name. */
static int open_nameless(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? mem_strndup(path, (size_t)(slash + 1 - path)) : mem_strdup(".");
    char name[PROC_NAME_BYTES];
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    free(folder);
    if (fd < 0 || access(proc_name(name, fd), F_OK) == 0) return fd;
    close(fd);
    return -1;
}

/* Gives a file without a name its own: a link replaces nothing. False leaves errno. */
static bool name_it(const struct gguf_writer *w)
{
    char from[PROC_NAME_BYTES];
    proc_name(from, fileno(w->file));
    return linkat(AT_FDCWD, from, AT_FDCWD, w->path, AT_SYMLINK_FOLLOW) == 0;
}

struct gguf_writer *gguf_write_new(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) == 0) {
        err_set(err, ERR_USER, "%s: is there already; give it another name", path);
        return NULL;
    }
    struct gguf_writer *w = mem_zalloc(1, sizeof *w);
    w->path = mem_strdup(path);
    struct buf name = {0};
    buf_printf(&name, "%s.XXXXXX", path);
    w->temporary = buf_take(&name);
    /* The name is tried out first, so that what is wrong with it shows before the work. */
    int fd = mkstemp(w->temporary);
    w->has_name = fd >= 0;
    const int nameless = fd >= 0 ? open_nameless(path) : -1;
    if (nameless >= 0) {
        w->has_name = unlink(w->temporary) != 0;
        close(w->has_name ? nameless : fd);
        if (!w->has_name) fd = nameless;
    }
    if (fd >= 0) {
        mode_t mask = umask(0);
        umask(mask);
        w->file = fchmod(fd, 0666 & ~mask) == 0 ? fdopen(fd, "wb") : NULL;
    }
    if (w->file) return w;
    err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    if (w->has_name) unlink(w->temporary);
    free(w->temporary);
    free(w->path);
    free(w);
    return NULL;
}

void gguf_write_free(struct gguf_writer *w)
{
    if (!w) return;
    if (w->file) {
        fclose(w->file);
        if (w->has_name) unlink(w->temporary);
    }
    buf_free(&w->keys);
    buf_free(&w->infos);
    free(w->tensor_bytes);
    free(w->temporary);
    free(w->path);
    free(w);
}

static void put_u32(struct buf *b, uint32_t v)
{
    buf_append(b, &v, sizeof v);
}

static void put_u64(struct buf *b, uint64_t v)
{
    buf_append(b, &v, sizeof v);
}

static void put_str(struct buf *b, const char *s, size_t n)
{
    put_u64(b, n);
    buf_append(b, s, n);
}

static struct buf *put_key(struct gguf_writer *w, const char *key, enum gguf_type type)
{
    assert(!w->header_done);
    w->n_keys++;
    put_str(&w->keys, key, strlen(key));
    put_u32(&w->keys, type);
    return &w->keys;
}

void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    put_u32(put_key(w, key, GGUF_U32), v);
}

void gguf_write_f32(struct gguf_writer *w, const char *key, float v)
{
    buf_append(put_key(w, key, GGUF_F32), &v, sizeof v);
}

void gguf_write_string(struct gguf_writer *w, const char *key, const char *s)
{
    put_str(put_key(w, key, GGUF_STRING), s, strlen(s));
}

void gguf_write_i32s(struct gguf_writer *w, const char *key, const int32_t *v, size_t n)
{
    struct buf *b = put_key(w, key, GGUF_ARRAY);
    put_u32(b, GGUF_I32);
    put_u64(b, n);
    buf_append(b, v, n * sizeof *v);
}

void gguf_write_copy(struct gguf_writer *w, const struct gguf_kv *kv, size_t n_items, int pad)
{
    char *key = mem_strndup(kv->key.data, kv->key.len);
    struct buf *b = put_key(w, key, kv->is_array ? GGUF_ARRAY : kv->type);
    free(key);
    size_t n = kv->is_array && n_items > kv->n ? n_items : kv->n;
    if (kv->is_array) {
        put_u32(b, kv->type);
        put_u64(b, n);
    }
    if (kv->type == GGUF_STRING) {
        for (size_t i = 0; i < kv->n; i++) {
            struct gguf_str s = gguf_item_str(kv, i);
            put_str(b, s.data, s.len);
        }
        for (size_t i = kv->n; i < n; i++) {
            char text[32];
            put_str(b, text, (size_t)snprintf(text, sizeof text, "[PAD%zu]", i));
        }
        return;
    }
    size_t size = gguf_type_bytes(kv->type);
    buf_append(b, kv->data, kv->n * size);
    assert(n == kv->n || size == 4);
    for (size_t i = kv->n; i < n; i++) {
        float f = (float)pad;
        if (kv->type == GGUF_F32)
            buf_append(b, &f, sizeof f);
        else
            put_u32(b, (uint32_t)pad);
    }
}

void gguf_write_tensor(struct gguf_writer *w, const char *name, enum qtype type,
                       uint32_t n_dims, const size_t *ne)
{
    assert(!w->header_done && ne[0] % qtype_info(type)->block_len == 0);
    size_t n_values = 1;
    put_str(&w->infos, name, strlen(name));
    put_u32(&w->infos, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) {
        put_u64(&w->infos, ne[i]);
        bool fits = mem_mul(n_values, ne[i], &n_values);
        assert(fits);
        (void)fits;
    }
    put_u32(&w->infos, type);
    put_u64(&w->infos, w->data_bytes);
    MEM_GROW(w->tensor_bytes, w->n_tensors, w->cap_tensors);
    size_t n_bytes = qtype_bytes(type, n_values);
    w->tensor_bytes[w->n_tensors++] = n_bytes;
    w->data_bytes += mem_round_up(n_bytes, ALIGNMENT);
}

static void put(struct gguf_writer *w, const void *data, size_t n_bytes)
{
    if (w->failed || n_bytes == 0) return;
    if (fwrite(data, 1, n_bytes, w->file) != n_bytes) w->failed = errno ? errno : EIO;
}

/* Zeros up to the alignment after n_bytes. */
static void put_padding(struct gguf_writer *w, size_t n_bytes)
{
    static const char zeros[ALIGNMENT];
    put(w, zeros, (ALIGNMENT - n_bytes % ALIGNMENT) % ALIGNMENT);
}

static void put_header(struct gguf_writer *w)
{
    struct buf head = {0};
    buf_puts(&head, "GGUF");
    put_u32(&head, 3);
    put_u64(&head, w->n_tensors);
    put_u64(&head, w->n_keys);
    put(w, head.data, head.len);
    put(w, buf_str(&w->keys), w->keys.len);
    put(w, buf_str(&w->infos), w->infos.len);
    put_padding(w, head.len + w->keys.len + w->infos.len);
    buf_free(&head);
    w->header_done = true;
}

void gguf_write_data(struct gguf_writer *w, const void *data, size_t n_bytes)
{
    if (!w->header_done) put_header(w);
    assert(w->next < w->n_tensors && n_bytes <= w->tensor_bytes[w->next] - w->written);
    put(w, data, n_bytes);
    w->written += n_bytes;
    if (w->written < w->tensor_bytes[w->next]) return;
    put_padding(w, w->written);
    w->next++;
    w->written = 0;
}

bool gguf_write_finish(struct gguf_writer *w, struct err *err)
{
    if (!w->header_done) put_header(w);
    assert(w->next == w->n_tensors);
    if (!w->failed && fflush(w->file) != 0) w->failed = errno;
    if (!w->failed && fsync(fileno(w->file)) != 0 && errno != EINVAL) w->failed = errno;
    if (!w->failed && !w->has_name && !name_it(w)) w->failed = errno;
    if (fclose(w->file) != 0 && !w->failed) w->failed = errno;
    w->file = NULL;
    if (!w->failed && w->has_name && rename(w->temporary, w->path) != 0) w->failed = errno;
    if (!w->failed) return true;
    err_set(err, ERR_IO, "%s: %s", w->path, strerror(w->failed));
    if (w->has_name) unlink(w->temporary);
    return false;
}
