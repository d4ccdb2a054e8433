/* Reading one GGUF file: its header, keys and tensors out of hostile bytes.
 *
 * A model has one file or several (gguf.c); each is read alone, checked against its own size,
 * and its tensors placed behind those there are. What is read borrows from the bytes, but the
 * names of tensors and the lists. Private to this folder; one thread, at open. */
#ifndef GGUF_PART_H
#define GGUF_PART_H

#include "base/file.h"
#include "gguf/gguf.h"

/* One of the files of a model. */
struct gguf_part {
    struct file_map map; /* not ours when the bytes came from memory */
    bool mapped;
    char *path;
    size_t data_start; /* of tensor data, after the header and its padding */
    uint32_t version;  /* of the format */
    size_t n_tensors;
};

/* All tensors of a model so far, in the order of its files. */
struct gguf_tensors {
    struct gguf_tensor *items; /* their names are owned */
    size_t n;
};

/* The keys of one file. */
struct gguf_kvs {
    struct gguf_kv *items; /* in the order of the file */
    size_t n;
    const struct gguf_kv **by_key;
};

/* What a file says about the model it belongs to. */
struct gguf_split {
    int64_t no, count, n_tensors; /* n_tensors of the whole model, -1 if not said */
};

/* Reads part, whose map is set: its keys to kvs ({0}), its tensors behind those there are, its
 * place in the model to split. ERR_FORMAT names the file, the place, what was expected and what
 * was found; what was read until then is left for the caller to free. */
bool gguf_part_read(struct gguf_part *part, struct gguf_tensors *tensors, struct gguf_kvs *kvs,
                    struct gguf_split *split, struct err *err);

/* The path of file i (from 0) of count, 1 to 99999, beside the first one: NULL if that one's
 * name does not end in -00001-of-NNNNN.gguf. free() it. Pure. */
char *gguf_part_path(const char *first, int64_t i, int64_t count);

/* The key of that name; NULL if there is none. */
const struct gguf_kv *gguf_kvs_find(const struct gguf_kvs *kvs, const char *key);
void gguf_kvs_free(struct gguf_kvs *kvs);

#endif
