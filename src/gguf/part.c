/* One GGUF file, from its first byte to its last tensor. */
#include "gguf/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/printable.h"

/* A cursor over the header of one part. */
struct reader {
    const uint8_t *data;
    size_t n_bytes, pos;
    const char *path;
};

/* The fewest bytes that one key or one tensor takes in a file: a length of 8, one byte of name,
 * a type of 4, then the value or the number of dimensions and the offset. A count that would
 * not fit at this size is refused before anything is allocated for it. */
#define KV_MIN_BYTES (8 + 1 + 4 + 1)
#define TENSOR_MIN_BYTES (8 + 1 + 4 + 4 + 8)
#define NAME_MAX_BYTES 65535
enum { TOUCH_MOST_BYTES = 4 << 20 }; /* the offsets of half a million strings */

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
    /* A count that is wrong is found out at the first string that is none: it must not have
     * taken much memory by then. */
    const size_t n_bytes = kv->n * sizeof *at;
    mem_touch(at, n_bytes < TOUCH_MOST_BYTES ? n_bytes : TOUCH_MOST_BYTES);
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

void gguf_kvs_free(struct gguf_kvs *list)
{
    for (size_t i = 0; i < list->n; i++)
        free((void *)(uintptr_t)list->items[i].at);
    free(list->items);
    free(list->by_key);
    *list = (struct gguf_kvs){0};
}

static bool read_kvs(struct reader *r, uint64_t n_claimed, struct gguf_kvs *list,
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

const struct gguf_kv *gguf_kvs_find(const struct gguf_kvs *kvs, const char *key)
{
    struct gguf_str name = {key, strlen(key)};
    size_t lo = 0, hi = kvs->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = str_cmp(kvs->by_key[mid]->key, name);
        if (c == 0) return kvs->by_key[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* An integer key of a part, or the default if it is absent; another type is refused. */
static bool int_key(const struct reader *r, const struct gguf_kvs *list, const char *key,
                    int64_t otherwise, int64_t *out, struct err *err)
{
    *out = otherwise;
    const struct gguf_kv *kv = gguf_kvs_find(list, key);
    if (!kv) return true;
    if (kv->is_array || !gguf_is_int(kv->type))
        return err_set(err, ERR_FORMAT, "%s: key '%s' is not an integer", r->path, key);
    *out = gguf_item_int(kv, 0);
    return true;
}

static bool read_alignment(const struct reader *r, const struct gguf_kvs *list, size_t *out,
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
static bool place_tensor(const struct reader *r, const struct gguf_part *part, size_t alignment,
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

static bool read_tensors(struct reader *r, struct gguf_tensors *all, struct gguf_part *part,
                         uint64_t n_claimed, size_t alignment, struct err *err)
{
    if (n_claimed > left(r) / TENSOR_MIN_BYTES)
        return err_set(err, ERR_FORMAT,
                       "%s: claims %" PRIu64 " tensors, the file has %zu bytes from there on",
                       r->path, n_claimed, left(r));
    size_t n = (size_t)n_claimed, first = all->n;
    uint64_t *offsets = mem_zalloc(n, sizeof *offsets);
    all->items = mem_resize(all->items, first + n, sizeof *all->items);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        struct gguf_tensor *t = &all->items[all->n++];
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
        ok = place_tensor(r, part, alignment, &all->items[first + i], offsets[i], err);
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

static bool read_split(const struct reader *r, const struct gguf_kvs *list,
                       struct gguf_split *s, struct err *err)
{
    if (!int_key(r, list, "split.no", 0, &s->no, err) ||
        !int_key(r, list, "split.count", 1, &s->count, err) ||
        !int_key(r, list, "split.tensors.count", -1, &s->n_tensors, err))
        return false;
    /* llama-gguf-split calls a model that it has put together again one of 0 files. */
    if (s->count == 0) s->count = 1;
    return true;
}

bool gguf_part_read(struct gguf_part *part, struct gguf_tensors *tensors, struct gguf_kvs *kvs,
                    struct gguf_split *split, struct err *err)
{
    struct reader r = {part->map.data, part->map.n_bytes, 0, part->path};
    uint64_t n_tensors, n_kv;
    size_t alignment = 0;
    return read_header(&r, &part->version, &n_tensors, &n_kv, err) &&
           read_kvs(&r, n_kv, kvs, err) && read_alignment(&r, kvs, &alignment, err) &&
           read_split(&r, kvs, split, err) &&
           read_tensors(&r, tensors, part, n_tensors, alignment, err);
}

char *gguf_part_path(const char *first, int64_t i, int64_t count)
{
    const size_t n_end = sizeof "-00001-of-00003.gguf" - 1;
    size_t len = strlen(first);
    char want_end[64], end[64];
    snprintf(want_end, sizeof want_end, "-00001-of-%05" PRId64 ".gguf", count);
    if (len < n_end || strcmp(first + len - n_end, want_end) != 0) return NULL;
    snprintf(end, sizeof end, "-%05" PRId64 "-of-%05" PRId64 ".gguf", i + 1, count);
    struct buf path = {0};
    buf_append(&path, first, len - n_end);
    buf_puts(&path, end);
    return buf_take(&path);
}
