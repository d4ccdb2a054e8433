/* A bounds-checked reader of GGUF files, versions 2 and 3, split files included.
 *
 * Opening checks every count, length, offset, type and alignment against the size of the file;
 * afterwards every accessor is total and cannot fail on the file's account. The struct owns the
 * mapping; names, strings and tensor data borrow from it and live until gguf_close. Immutable
 * after open, so any thread may read. It knows nothing of models or tokenizers. */
#ifndef GGUF_GGUF_H
#define GGUF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf/qtype.h"

struct file_map;

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES
};

/* Bytes of the file, not NUL-terminated; any bytes may occur. */
struct gguf_str {
    const char *data;
    size_t len;
};

/* One key and its value: a scalar has n == 1, an array any n. */
struct gguf_kv {
    struct gguf_str key;
    enum gguf_type type; /* of the scalar or of the array's items; never GGUF_ARRAY */
    bool is_array;
    size_t n;
    const uint8_t *data; /* little-endian items, or for strings: where they start */
    const size_t *at;    /* GGUF_STRING only: offset of each item's length field from data */
};

struct gguf_tensor {
    const char *name; /* NUL-terminated; a name with a NUL inside is refused at open */
    enum qtype type;
    uint32_t n_dims; /* 0..4 */
    size_t ne[4];    /* ne[0] runs fastest; unused ones are 1; none is 0 */
    size_t n_bytes;  /* whole tensor, checked to lie inside the file */
    const uint8_t *data;
};

struct gguf;

/* Opens the file at path; for the first of a split model (-00001-of-000NN.gguf) also all the
 * others beside it. Errors name the file, the place, what was expected and what was found. */
struct gguf *gguf_open(const char *path, struct err *err);
/* Joins another file to an open one: its tensors are found behind those there are, and it is
 * one of the model's files; its keys are not. False: g can only be closed. ERR_FORMAT also for
 * a name that both have. What gguf_tensor_at and gguf_tensor_find gave before is no longer
 * valid. */
bool gguf_join(struct gguf *g, const char *path, struct err *err);
/* The same over bytes in memory that the caller keeps (tests, fuzzing); name is for messages.
 */
struct gguf *gguf_from_memory(const void *data, size_t n_bytes, const char *name,
                              struct err *err);
void gguf_close(struct gguf *g); /* NULL is fine */

const char *gguf_path(const struct gguf *g);
/* Whose header says 2 or 3: the first file's. */
uint32_t gguf_version(const struct gguf *g);
/* Bytes of all mapped files together. */
size_t gguf_file_bytes(const struct gguf *g);
/* File i as it is mapped, and its path (both borrowed); NULL past the last. */
const struct file_map *gguf_file(const struct gguf *g, size_t i, const char **path);

/* Keys in the order of the file, i below gguf_n_kv; a split model's are those of its first
 * file. */
size_t gguf_n_kv(const struct gguf *g);
const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i);
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key); /* NULL if absent */

/* Scalars by key: true if it is there with a fitting type, else false and *out untouched. An
 * integer of any width fits u64 if not negative; an integer or float fits f64. */
bool gguf_u64(const struct gguf *g, const char *key, uint64_t *out);
bool gguf_f64(const struct gguf *g, const char *key, double *out);
bool gguf_bool(const struct gguf *g, const char *key, bool *out);
bool gguf_string(const struct gguf *g, const char *key, struct gguf_str *out);
/* Whether the key is there and a string of these bytes. */
bool gguf_says(const struct gguf *g, const char *key, const char *text);

/* Item i (< n) of a value, scalar or array, converted; the kind must fit, else 0 (or ""). O(1).
 * An u64 beyond INT64_MAX reads as INT64_MAX. */
int64_t gguf_item_int(const struct gguf_kv *kv, size_t i);  /* integers and bools */
double gguf_item_float(const struct gguf_kv *kv, size_t i); /* integers and floats */
struct gguf_str gguf_item_str(const struct gguf_kv *kv, size_t i);
bool gguf_is_int(enum gguf_type type); /* one of the integer types, not bool */
/* "u32", "string", ...; static. */
const char *gguf_type_name(enum gguf_type type);
/* Bytes of one value of a type; 0 for strings and arrays, which have no fixed size. */
size_t gguf_type_bytes(enum gguf_type type);

/* Tensors in the order of the files, i below gguf_n_tensors. */
size_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
/* The tensor of that name; NULL if there is none. */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name);
/* The tensor's data has been copied: its memory may go, until it is touched again. */
void gguf_tensor_release(const struct gguf *g, const struct gguf_tensor *t);

#endif
