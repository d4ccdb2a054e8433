#include "gguf/gguf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"

/* One of the files of a model. */
struct part {
    struct file_map map; /* not ours when the bytes came from memory */
    bool mapped;
    char *path;
    size_t data_start; /* of tensor data, after the header and its padding */
    size_t n_tensors;
};

struct gguf {
    uint32_t version;
    struct part *parts;
    size_t n_parts;
    struct gguf_kv *kvs; /* of the first part, in file order */
    size_t n_kv;
    const struct gguf_kv **kv_by_key;
    struct gguf_tensor *tensors; /* of all parts, in file order */
    size_t n_tensors;
    const struct gguf_tensor **tensor_by_name;
};

/* A cursor over the header of one part. */
struct reader {
    const uint8_t *data;
    size_t n_bytes, pos;
    const char *path;
};

/* The keys of one part while it is being read. */
struct kv_list {
    struct gguf_kv *items;
    size_t n;
    const struct gguf_kv **by_key;
};

/* The fewest bytes that one key or one tensor takes in a file: a length of 8, one byte of name,
 * a type of 4, then the value or the number of dimensions and the offset. A count that would
 * not fit at this size is refused before anything is allocated for it. */
#define KV_MIN_BYTES (8 + 1 + 4 + 1)
#define TENSOR_MIN_BYTES (8 + 1 + 4 + 4 + 8)
#define NAME_MAX_BYTES 65535

static size_t left(const struct reader *r)
{
    return r->n_bytes - r->pos;
}

static bool want(const struct reader *r, size_t n_bytes, const char *what, struct err *err)
{
    if (n_bytes <= left(r)) return true;
    return err_set(err, ERR_FORMAT,
                   "%s: byte %zu: expected %zu bytes of %s, the file ends after %zu", r->path,
                   r->pos, n_bytes, what, left(r));
}

static bool read_u32(struct reader *r, const char *what, uint32_t *out, struct err *err)
{
    if (!want(r, 4, what, err)) return false;
    *out = bytes_u32(r->data + r->pos);
    r->pos += 4;
    return true;
}

static bool read_u64(struct reader *r, const char *what, uint64_t *out, struct err *err)
{
    if (!want(r, 8, what, err)) return false;
    *out = bytes_u64(r->data + r->pos);
    r->pos += 8;
    return true;
}

static bool read_str(struct reader *r, const char *what, struct gguf_str *out, struct err *err)
{
    uint64_t len;
    if (!read_u64(r, what, &len, err)) return false;
    if (len > left(r))
        return err_set(err, ERR_FORMAT,
                       "%s: byte %zu: %s claims %" PRIu64
                       " bytes, the file has %zu from there on",
                       r->path, r->pos - 8, what, len, left(r));
    *out = (struct gguf_str){(const char *)r->data + r->pos, (size_t)len};
    r->pos += (size_t)len;
    return true;
}

/* The name of a key or tensor: at least one byte and no NUL. */
static bool read_name(struct reader *r, const char *what, struct gguf_str *out, struct err *err)
{
    size_t at = r->pos;
    if (!read_str(r, what, out, err)) return false;
    if (out->len == 0 || out->len > NAME_MAX_BYTES)
        return err_set(err, ERR_FORMAT, "%s: byte %zu: %s has %zu bytes, expected 1 to %d",
                       r->path, at, what, out->len, NAME_MAX_BYTES);
    if (memchr(out->data, 0, out->len))
        return err_set(err, ERR_FORMAT, "%s: byte %zu: %s holds a NUL byte", r->path, at, what);
    return true;
}

/* A name as an argument of a message. */
struct shown {
    char text[200];
};

static const char *show(struct shown *s, struct gguf_str name)
{
    return printable(s->text, sizeof s->text, name.data, name.len);
}

static bool check_bools(const struct reader *r, const struct gguf_kv *kv, struct err *err)
{
    struct shown key;
    for (size_t i = 0; i < kv->n; i++)
        if (kv->data[i] > 1)
            return err_set(err, ERR_FORMAT, "%s: key '%s': a bool is %u, expected 0 or 1",
                           r->path, show(&key, kv->key), kv->data[i]);
    return true;
}

/* Walks the kv->n strings at the cursor and notes where each begins. */
static bool read_strings(struct reader *r, struct gguf_kv *kv, struct err *err)
{
    struct shown key;
    if (kv->n > left(r) / 8)
        return err_set(err, ERR_FORMAT,
                       "%s: key '%s': claims %zu strings, the file has %zu bytes from there on",
                       r->path, show(&key, kv->key), kv->n, left(r));
    size_t *at = mem_zalloc(kv->n, sizeof *at);
    size_t start = r->pos;
    kv->data = r->data + start;
    kv->at = at;
    for (size_t i = 0; i < kv->n; i++) {
        struct gguf_str s;
        at[i] = r->pos - start;
        if (!read_str(r, "a string", &s, err))
            return err_prefix(err, "key '%s', item %zu", show(&key, kv->key), i);
    }
    return true;
}

/* The value at the cursor, of kv->type and kv->n. */
static bool read_items(struct reader *r, struct gguf_kv *kv, struct err *err)
{
    if (kv->type == GGUF_STRING) return read_strings(r, kv, err);
    struct shown key;
    size_t size = gguf_type_bytes(kv->type);
    if (kv->n > left(r) / size)
        return err_set(err, ERR_FORMAT,
                       "%s: key '%s': claims %zu values of %zu bytes, the file has %zu bytes "
                       "from there on",
                       r->path, show(&key, kv->key), kv->n, size, left(r));
    kv->data = r->data + r->pos;
    r->pos += kv->n * size;
    return kv->type == GGUF_BOOL ? check_bools(r, kv, err) : true;
}

static bool read_kv(struct reader *r, struct gguf_kv *kv, struct err *err)
{
    struct shown key;
    uint32_t type;
    if (!read_name(r, "a key", &kv->key, err)) return false;
    if (!read_u32(r, "a value type", &type, err)) return false;
    kv->n = 1;
    kv->is_array = type == GGUF_ARRAY;
    if (kv->is_array) {
        uint64_t n;
        if (!read_u32(r, "an item type", &type, err)) return false;
        if (!read_u64(r, "an array length", &n, err)) return false;
        if (type == GGUF_ARRAY)
            return err_set(err, ERR_FORMAT, "%s: key '%s': arrays of arrays are not supported",
                           r->path, show(&key, kv->key));
        kv->n = (size_t)n;
    }
    if (type >= GGUF_N_TYPES)
        return err_set(err, ERR_FORMAT,
                       "%s: key '%s': value type %" PRIu32 ", expected 0 to %d", r->path,
                       show(&key, kv->key), type, GGUF_N_TYPES - 1);
    kv->type = (enum gguf_type)type;
    return read_items(r, kv, err);
}

static int str_cmp(struct gguf_str a, struct gguf_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int kv_cmp(const void *a, const void *b)
{
    const struct gguf_kv *const *x = a, *const *y = b;
    return str_cmp((*x)->key, (*y)->key);
}

static int tensor_cmp(const void *a, const void *b)
{
    const struct gguf_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void kv_list_free(struct kv_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free((void *)(uintptr_t)list->items[i].at);
    free(list->items);
    free(list->by_key);
    *list = (struct kv_list){0};
}

static bool read_kvs(struct reader *r, uint64_t n_claimed, struct kv_list *list,
                     struct err *err)
{
    if (n_claimed > left(r) / KV_MIN_BYTES)
        return err_set(err, ERR_FORMAT,
                       "%s: claims %" PRIu64 " keys, the file has %zu bytes from there on",
                       r->path, n_claimed, left(r));
    size_t n = (size_t)n_claimed;
    list->items = mem_zalloc(n, sizeof *list->items);
    list->by_key = mem_zalloc(n, sizeof *list->by_key);
    list->n = n;
    for (size_t i = 0; i < n; i++) {
        if (!read_kv(r, &list->items[i], err)) return false;
        list->by_key[i] = &list->items[i];
    }
    qsort(list->by_key, n, sizeof *list->by_key, kv_cmp);
    struct shown key;
    for (size_t i = 1; i < n; i++)
        if (kv_cmp(&list->by_key[i - 1], &list->by_key[i]) == 0)
            return err_set(err, ERR_FORMAT, "%s: key '%s' occurs twice", r->path,
                           show(&key, list->by_key[i]->key));
    return true;
}

static const struct gguf_kv *find(const struct gguf_kv *const *by_key, size_t n,
                                  const char *key)
{
    struct gguf_str name = {key, strlen(key)};
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = str_cmp(by_key[mid]->key, name);
        if (c == 0) return by_key[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* An integer key of a part, or the default if it is absent; another type is refused. */
static bool int_key(const struct reader *r, const struct kv_list *list, const char *key,
                    int64_t otherwise, int64_t *out, struct err *err)
{
    *out = otherwise;
    const struct gguf_kv *kv = find(list->by_key, list->n, key);
    if (!kv) return true;
    if (kv->is_array || !gguf_is_int(kv->type))
        return err_set(err, ERR_FORMAT, "%s: key '%s' is not an integer", r->path, key);
    *out = gguf_item_int(kv, 0);
    return true;
}

static bool read_alignment(const struct reader *r, const struct kv_list *list, size_t *out,
                           struct err *err)
{
    int64_t a = 0;
    *out = 0;
    if (!int_key(r, list, "general.alignment", 32, &a, err)) return false;
    if (a < 8 || a > 1 << 20 || (a & (a - 1)) != 0)
        return err_set(err, ERR_FORMAT,
                       "%s: general.alignment is %" PRId64
                       ", expected a power of two from 8 to 1048576",
                       r->path, a);
    *out = (size_t)a;
    return true;
}

/* Number of values and bytes of a tensor from its dimensions and type. */
static bool tensor_size(const struct reader *r, struct gguf_tensor *t, const char *name,
                        struct err *err)
{
    size_t n_values = 1;
    for (uint32_t i = 0; i < 4; i++) {
        if (t->ne[i] == 0)
            return err_set(err, ERR_FORMAT, "%s: tensor '%s': dimension %" PRIu32 " is 0",
                           r->path, name, i);
        if (!mem_mul(n_values, t->ne[i], &n_values))
            return err_set(err, ERR_FORMAT,
                           "%s: tensor '%s': %zu x %zu x %zu x %zu values cannot be", r->path,
                           name, t->ne[0], t->ne[1], t->ne[2], t->ne[3]);
    }
    const struct qtype_info *info = qtype_info((uint32_t)t->type);
    if (t->ne[0] % info->block_len != 0)
        return err_set(err, ERR_FORMAT,
                       "%s: tensor '%s': rows of %zu values, expected a multiple of %" PRIu32
                       " for %s",
                       r->path, name, t->ne[0], info->block_len, info->name);
    if (!mem_mul(n_values / info->block_len, info->block_bytes, &t->n_bytes))
        return err_set(err, ERR_FORMAT, "%s: tensor '%s': %zu values of %s cannot be", r->path,
                       name, n_values, info->name);
    return true;
}

/* One tensor's row in the header; *offset is relative to the part's data. */
static bool read_tensor(struct reader *r, struct gguf_tensor *t, uint64_t *offset,
                        struct err *err)
{
    struct gguf_str name;
    struct shown shown;
    uint32_t type;
    if (!read_name(r, "a tensor's name", &name, err)) return false;
    t->name = mem_strndup(name.data, name.len);
    if (!read_u32(r, "a number of dimensions", &t->n_dims, err)) return false;
    if (t->n_dims > 4)
        return err_set(err, ERR_FORMAT,
                       "%s: tensor '%s': %" PRIu32 " dimensions, expected at most 4", r->path,
                       show(&shown, name), t->n_dims);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t ne = 1;
        if (i < t->n_dims && !read_u64(r, "a dimension", &ne, err)) return false;
        t->ne[i] = (size_t)ne;
    }
    if (!read_u32(r, "a tensor type", &type, err)) return false;
    if (!qtype_info(type))
        return err_set(err, ERR_FORMAT,
                       "%s: tensor '%s' has type %" PRIu32 " (%s), which hearth does not read",
                       r->path, show(&shown, name), type, qtype_foreign_name(type));
    t->type = (enum qtype)type;
    if (!read_u64(r, "a tensor offset", offset, err)) return false;
    return tensor_size(r, t, show(&shown, name), err);
}

/* Turns the offset of a tensor into its bytes. */
static bool place_tensor(const struct reader *r, const struct part *part, size_t alignment,
                         struct gguf_tensor *t, uint64_t offset, struct err *err)
{
    struct shown name;
    struct gguf_str s = {t->name, strlen(t->name)};
    size_t room = part->map.n_bytes - part->data_start;
    if (offset % alignment != 0)
        return err_set(err, ERR_FORMAT,
                       "%s: tensor '%s': offset %" PRIu64 " is not a multiple of %zu", r->path,
                       show(&name, s), offset, alignment);
    if (offset > room || t->n_bytes > room - (size_t)offset)
        return err_set(err, ERR_FORMAT,
                       "%s: tensor '%s': %zu bytes at offset %" PRIu64
                       ", the file has %zu bytes of tensor data: it is cut off or damaged",
                       r->path, show(&name, s), t->n_bytes, offset, room);
    t->data = part->map.data + part->data_start + (size_t)offset;
    return true;
}

static bool read_tensors(struct reader *r, struct gguf *g, struct part *part,
                         uint64_t n_claimed, size_t alignment, struct err *err)
{
    if (n_claimed > left(r) / TENSOR_MIN_BYTES)
        return err_set(err, ERR_FORMAT,
                       "%s: claims %" PRIu64 " tensors, the file has %zu bytes from there on",
                       r->path, n_claimed, left(r));
    size_t n = (size_t)n_claimed, first = g->n_tensors;
    uint64_t *offsets = mem_zalloc(n, sizeof *offsets);
    g->tensors = mem_resize(g->tensors, first + n, sizeof *g->tensors);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        struct gguf_tensor *t = &g->tensors[g->n_tensors++];
        *t = (struct gguf_tensor){0};
        ok = read_tensor(r, t, &offsets[i], err);
    }
    if (ok) {
        /* A file may hold no tensors, and then end before the padding does. */
        size_t pad = (alignment - r->pos % alignment) % alignment;
        part->data_start = pad <= left(r) ? r->pos + pad : r->n_bytes;
        part->n_tensors = n;
    }
    for (size_t i = 0; ok && i < n; i++)
        ok = place_tensor(r, part, alignment, &g->tensors[first + i], offsets[i], err);
    free(offsets);
    return ok;
}

static bool read_header(struct reader *r, uint32_t *version, uint64_t *n_tensors,
                        uint64_t *n_kv, struct err *err)
{
    if (r->n_bytes < 4 || memcmp(r->data, "GGUF", 4) != 0) {
        struct shown magic;
        struct gguf_str s = {(const char *)r->data, r->n_bytes < 4 ? r->n_bytes : 4};
        return err_set(err, ERR_FORMAT, "%s: not a GGUF file: begins with '%s', not 'GGUF'",
                       r->path, show(&magic, s));
    }
    r->pos = 4;
    if (!read_u32(r, "the version", version, err)) return false;
    if (*version != 2 && *version != 3)
        return err_set(err, ERR_FORMAT, "%s: GGUF version %" PRIu32 "%s, expected 2 or 3",
                       r->path, *version,
                       *version != 0 && *version % 65536 == 0 ? " (a big-endian file)" : "");
    return read_u64(r, "the number of tensors", n_tensors, err) &&
           read_u64(r, "the number of keys", n_kv, err);
}

/* What a part says about the model it belongs to. */
struct split {
    int64_t no, count, n_tensors; /* n_tensors of the whole model, -1 if not said */
};

static bool read_split(const struct reader *r, const struct kv_list *list, struct split *s,
                       struct err *err)
{
    return int_key(r, list, "split.no", 0, &s->no, err) &&
           int_key(r, list, "split.count", 1, &s->count, err) &&
           int_key(r, list, "split.tensors.count", -1, &s->n_tensors, err);
}

/* Reads one part: its keys to kvs, its tensors behind those of g. */
static bool read_part(struct gguf *g, struct part *part, struct kv_list *kvs, struct split *s,
                      struct err *err)
{
    struct reader r = {part->map.data, part->map.n_bytes, 0, part->path};
    uint32_t version;
    uint64_t n_tensors, n_kv;
    size_t alignment = 0;
    if (!read_header(&r, &version, &n_tensors, &n_kv, err)) return false;
    if (!read_kvs(&r, n_kv, kvs, err)) return false;
    if (!read_alignment(&r, kvs, &alignment, err) || !read_split(&r, kvs, s, err)) return false;
    if (g->version == 0) g->version = version;
    return read_tensors(&r, g, part, n_tensors, alignment, err);
}

static bool index_tensors(struct gguf *g, struct err *err)
{
    g->tensor_by_name = mem_zalloc(g->n_tensors, sizeof *g->tensor_by_name);
    for (size_t i = 0; i < g->n_tensors; i++)
        g->tensor_by_name[i] = &g->tensors[i];
    qsort(g->tensor_by_name, g->n_tensors, sizeof *g->tensor_by_name, tensor_cmp);
    for (size_t i = 1; i < g->n_tensors; i++) {
        if (tensor_cmp(&g->tensor_by_name[i - 1], &g->tensor_by_name[i]) != 0) continue;
        struct shown name;
        const char *s = g->tensor_by_name[i]->name;
        return err_set(err, ERR_FORMAT, "%s: tensor '%s' occurs twice", gguf_path(g),
                       show(&name, (struct gguf_str){s, strlen(s)}));
    }
    return true;
}

static struct part *add_part(struct gguf *g, const char *path)
{
    g->parts = mem_resize(g->parts, g->n_parts + 1, sizeof *g->parts);
    struct part *part = &g->parts[g->n_parts++];
    *part = (struct part){.path = mem_strdup(path)};
    return part;
}

#define SPLIT_SUFFIX_LEN 20 /* "-00001-of-00003.gguf" */

/* The path of part i (from 0) of count beside the first one, or NULL if the first one's name
 * does not follow the pattern. free() it. */
static char *split_path(const char *first, int64_t i, int64_t count)
{
    size_t len = strlen(first);
    char want_suffix[64], suffix[64];
    snprintf(want_suffix, sizeof want_suffix, "-00001-of-%05" PRId64 ".gguf", count);
    if (len < SPLIT_SUFFIX_LEN || strcmp(first + len - SPLIT_SUFFIX_LEN, want_suffix) != 0)
        return NULL;
    snprintf(suffix, sizeof suffix, "-%05" PRId64 "-of-%05" PRId64 ".gguf", i + 1, count);
    char *path = mem_alloc(len + sizeof suffix);
    memcpy(path, first, len - SPLIT_SUFFIX_LEN);
    strcpy(path + len - SPLIT_SUFFIX_LEN, suffix);
    return path;
}

/* Part i of a split model: maps it, reads it, checks that it belongs to the first. */
static bool open_part(struct gguf *g, int64_t i, const struct split *whole, struct err *err)
{
    const char *first = g->parts[0].path;
    char *path = split_path(first, i, whole->count);
    if (!path)
        return err_set(err, ERR_FORMAT,
                       "%s: is the first of %" PRId64
                       " files, expected a name that ends in -00001-of-%05" PRId64 ".gguf",
                       first, whole->count, whole->count);
    struct part *part = add_part(g, path);
    free(path);
    if (!file_map_open(&part->map, part->path, err)) return false;
    part->mapped = true;
    struct kv_list kvs = {0};
    struct split s = {0};
    bool ok = read_part(g, part, &kvs, &s, err);
    kv_list_free(&kvs);
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
    struct kv_list kvs = {0};
    struct split whole = {0};
    bool ok = read_part(g, &g->parts[0], &kvs, &whole, err);
    g->kvs = kvs.items, g->n_kv = kvs.n, g->kv_by_key = kvs.by_key;
    if (!ok) return false;
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
    if (whole.n_tensors >= 0 && (uint64_t)whole.n_tensors != g->n_tensors)
        return err_set(err, ERR_FORMAT,
                       "%s: split.tensors.count is %" PRId64 ", the files hold %zu", path,
                       whole.n_tensors, g->n_tensors);
    return index_tensors(g, err);
}

struct gguf *gguf_open(const char *path, struct err *err)
{
    struct gguf *g = mem_zalloc(1, sizeof *g);
    struct part *part = add_part(g, path);
    part->mapped = file_map_open(&part->map, path, err);
    if (part->mapped && read_all(g, false, err)) return g;
    gguf_close(g);
    return NULL;
}

struct gguf *gguf_from_memory(const void *data, size_t n_bytes, const char *name,
                              struct err *err)
{
    struct gguf *g = mem_zalloc(1, sizeof *g);
    add_part(g, name)->map = (struct file_map){data, n_bytes};
    if (read_all(g, true, err)) return g;
    gguf_close(g);
    return NULL;
}

void gguf_close(struct gguf *g)
{
    if (!g) return;
    kv_list_free(&(struct kv_list){g->kvs, g->n_kv, g->kv_by_key});
    for (size_t i = 0; i < g->n_tensors; i++)
        free((void *)(uintptr_t)g->tensors[i].name);
    free(g->tensors);
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
    return g->version;
}

size_t gguf_file_bytes(const struct gguf *g)
{
    size_t sum = 0;
    for (size_t i = 0; i < g->n_parts; i++)
        sum += g->parts[i].map.n_bytes;
    return sum;
}

bool gguf_file(const struct gguf *g, size_t i, const char **path, const uint8_t **data,
               size_t *n_bytes)
{
    if (i >= g->n_parts) return false;
    *path = g->parts[i].path;
    *data = g->parts[i].map.data;
    *n_bytes = g->parts[i].map.n_bytes;
    return true;
}

size_t gguf_n_kv(const struct gguf *g)
{
    return g->n_kv;
}

const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i)
{
    assert(i < g->n_kv);
    return &g->kvs[i];
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    return find(g->kv_by_key, g->n_kv, key);
}

size_t gguf_n_tensors(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    assert(i < g->n_tensors);
    return &g->tensors[i];
}

void gguf_tensor_release(const struct gguf *g, const struct gguf_tensor *t)
{
    for (size_t i = 0; i < g->n_parts; i++) {
        const struct file_map *map = &g->parts[i].map;
        const uint8_t *data = t->data;
        if (g->parts[i].mapped && data >= map->data && data < map->data + map->n_bytes)
            file_map_release(map, data, t->n_bytes);
    }
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    struct gguf_tensor probe = {.name = name};
    const struct gguf_tensor *key = &probe;
    const struct gguf_tensor **hit =
        bsearch(&key, g->tensor_by_name, g->n_tensors, sizeof key, tensor_cmp);
    return hit ? *hit : NULL;
}
