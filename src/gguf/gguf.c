/* A model of one GGUF file or several: opened, and asked. */
#include "gguf/gguf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "gguf/part.h"

struct gguf {
    struct gguf_part *parts;
    size_t n_parts;
    struct gguf_kvs kvs; /* of the first part */
    struct gguf_tensors tensors;
    const struct gguf_tensor **tensor_by_name;
};

static int tensor_cmp(const void *a, const void *b)
{
    const struct gguf_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static bool index_tensors(struct gguf *g, struct err *err)
{
    g->tensor_by_name = mem_zalloc(g->tensors.n, sizeof *g->tensor_by_name);
    for (size_t i = 0; i < g->tensors.n; i++)
        g->tensor_by_name[i] = &g->tensors.items[i];
    qsort(g->tensor_by_name, g->tensors.n, sizeof *g->tensor_by_name, tensor_cmp);
    for (size_t i = 1; i < g->tensors.n; i++) {
        if (tensor_cmp(&g->tensor_by_name[i - 1], &g->tensor_by_name[i]) != 0) continue;
        char shown[200];
        const char *name = g->tensor_by_name[i]->name;
        return err_set(err, ERR_FORMAT, "%s: tensor '%s' occurs twice", gguf_path(g),
                       printable(shown, sizeof shown, name, strlen(name)));
    }
    return true;
}

static struct gguf_part *add_part(struct gguf *g, const char *path)
{
    g->parts = mem_resize(g->parts, g->n_parts + 1, sizeof *g->parts);
    struct gguf_part *part = &g->parts[g->n_parts++];
    *part = (struct gguf_part){.path = mem_strdup(path)};
    return part;
}

/* Part i of a split model: maps it, reads it, checks that it belongs to the first. */
static bool open_part(struct gguf *g, int64_t i, const struct gguf_split *whole,
                      struct err *err)
{
    const char *first = g->parts[0].path;
    char *path = gguf_part_path(first, i, whole->count);
    if (!path)
        return err_set(err, ERR_FORMAT,
                       "%s: is the first of %" PRId64
                       " files, expected a name that ends in -00001-of-%05" PRId64 ".gguf",
                       first, whole->count, whole->count);
    struct gguf_part *part = add_part(g, path);
    free(path);
    if (!file_map_open(&part->map, part->path, err)) return false;
    part->mapped = true;
    struct gguf_kvs kvs = {0};
    struct gguf_split s = {0};
    bool ok = gguf_part_read(part, &g->tensors, &kvs, &s, err);
    gguf_kvs_free(&kvs);
    if (ok && (s.no != i || s.count != whole->count))
        ok = err_set(err, ERR_FORMAT,
                     "%s: says it is file %" PRId64 " of %" PRId64 ", expected %" PRId64
                     " of %" PRId64,
                     part->path, s.no + 1, s.count, i + 1, whole->count);
    return ok;
}

/* Reads parts[0], which is there, and the others if it says that there are some. */
static bool read_all(struct gguf *g, bool from_memory, struct err *err)
{
    struct gguf_split whole = {0};
    if (!gguf_part_read(&g->parts[0], &g->tensors, &g->kvs, &whole, err)) return false;
    const char *path = gguf_path(g);
    if (whole.count < 1 || whole.count > 99999 || whole.no < 0 || whole.no >= whole.count)
        return err_set(err, ERR_FORMAT,
                       "%s: split.no is %" PRId64 ", split.count is %" PRId64
                       ", expected 0 <= no < count <= 99999",
                       path, whole.no, whole.count);
    if (whole.no != 0)
        return err_set(err, ERR_FORMAT,
                       "%s: is file %" PRId64 " of a model of %" PRId64
                       " files, name the first one",
                       path, whole.no + 1, whole.count);
    if (whole.count > 1 && from_memory)
        return err_set(err, ERR_FORMAT, "%s: a split model cannot be read from memory", path);
    for (int64_t i = 1; i < whole.count; i++)
        if (!open_part(g, i, &whole, err)) return false;
    if (whole.n_tensors >= 0 && (uint64_t)whole.n_tensors != g->tensors.n)
        return err_set(err, ERR_FORMAT,
                       "%s: split.tensors.count is %" PRId64 ", the files hold %zu", path,
                       whole.n_tensors, g->tensors.n);
    return index_tensors(g, err);
}

struct gguf *gguf_open(const char *path, struct err *err)
{
    struct gguf *g = mem_zalloc(1, sizeof *g);
    struct gguf_part *part = add_part(g, path);
    part->mapped = file_map_open(&part->map, path, err);
    if (part->mapped && read_all(g, false, err)) return g;
    gguf_close(g);
    return NULL;
}

struct gguf *gguf_from_memory(const void *data, size_t n_bytes, const char *name,
                              struct err *err)
{
    struct gguf *g = mem_zalloc(1, sizeof *g);
    add_part(g, name)->map = (struct file_map){.data = data, .n_bytes = n_bytes};
    if (read_all(g, true, err)) return g;
    gguf_close(g);
    return NULL;
}

bool gguf_join(struct gguf *g, const char *path, struct err *err)
{
    struct gguf_part *part = add_part(g, path);
    struct gguf_kvs kvs = {0};
    struct gguf_split split = {0};
    part->mapped = file_map_open(&part->map, path, err);
    const bool ok = part->mapped && gguf_part_read(part, &g->tensors, &kvs, &split, err);
    gguf_kvs_free(&kvs);
    if (ok && split.count > 1)
        return err_set(err, ERR_FORMAT, "%s: is one of several files, expected a whole one",
                       path);
    free(g->tensor_by_name);
    g->tensor_by_name = NULL;
    return ok && index_tensors(g, err);
}

void gguf_close(struct gguf *g)
{
    if (!g) return;
    gguf_kvs_free(&g->kvs);
    for (size_t i = 0; i < g->tensors.n; i++)
        free((void *)(uintptr_t)g->tensors.items[i].name);
    free(g->tensors.items);
    free(g->tensor_by_name);
    for (size_t i = 0; i < g->n_parts; i++) {
        if (g->parts[i].mapped) file_map_close(&g->parts[i].map);
        free(g->parts[i].path);
    }
    free(g->parts);
    free(g);
}

const char *gguf_path(const struct gguf *g)
{
    return g->parts[0].path;
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->parts[0].version;
}

size_t gguf_file_bytes(const struct gguf *g)
{
    size_t sum = 0;
    for (size_t i = 0; i < g->n_parts; i++)
        sum += g->parts[i].map.n_bytes;
    return sum;
}

const struct file_map *gguf_file(const struct gguf *g, size_t i, const char **path)
{
    if (i >= g->n_parts) return NULL;
    *path = g->parts[i].path;
    return &g->parts[i].map;
}

size_t gguf_n_kv(const struct gguf *g)
{
    return g->kvs.n;
}

const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i)
{
    assert(i < g->kvs.n);
    return &g->kvs.items[i];
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    return gguf_kvs_find(&g->kvs, key);
}

static const struct gguf_kv *scalar(const struct gguf *g, const char *key)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    return kv && !kv->is_array ? kv : NULL;
}

bool gguf_u64(const struct gguf *g, const char *key, uint64_t *out)
{
    const struct gguf_kv *kv = scalar(g, key);
    if (!kv || !gguf_is_int(kv->type)) return false;
    if (kv->type == GGUF_U64) {
        *out = bytes_u64(kv->data);
        return true;
    }
    int64_t v = gguf_item_int(kv, 0);
    if (v < 0) return false;
    *out = (uint64_t)v;
    return true;
}

bool gguf_f64(const struct gguf *g, const char *key, double *out)
{
    const struct gguf_kv *kv = scalar(g, key);
    if (!kv) return false;
    if (!gguf_is_int(kv->type) && kv->type != GGUF_F32 && kv->type != GGUF_F64) return false;
    *out = gguf_item_float(kv, 0);
    return true;
}

bool gguf_bool(const struct gguf *g, const char *key, bool *out)
{
    const struct gguf_kv *kv = scalar(g, key);
    if (!kv || kv->type != GGUF_BOOL) return false;
    *out = kv->data[0] != 0;
    return true;
}

bool gguf_string(const struct gguf *g, const char *key, struct gguf_str *out)
{
    const struct gguf_kv *kv = scalar(g, key);
    if (!kv || kv->type != GGUF_STRING) return false;
    *out = gguf_item_str(kv, 0);
    return true;
}

bool gguf_says(const struct gguf *g, const char *key, const char *text)
{
    struct gguf_str s;
    return gguf_string(g, key, &s) && s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

size_t gguf_n_tensors(const struct gguf *g)
{
    return g->tensors.n;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    assert(i < g->tensors.n);
    return &g->tensors.items[i];
}

void gguf_tensor_release(const struct gguf *g, const struct gguf_tensor *t)
{
    for (size_t i = 0; i < g->n_parts; i++) {
        const struct file_map *map = &g->parts[i].map;
        const uint8_t *data = t->data;
        if (data >= map->data && data < map->data + map->n_bytes)
            file_map_release(map, data, t->n_bytes);
    }
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    struct gguf_tensor probe = {.name = name};
    const struct gguf_tensor *key = &probe;
    const struct gguf_tensor **hit =
        bsearch(&key, g->tensor_by_name, g->tensors.n, sizeof key, tensor_cmp);
    return hit ? *hit : NULL;
}
