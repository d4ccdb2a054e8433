/* Writing a GGUF file, version 3: keys, then tensors' names and shapes, then their data in
 * order.
 *
 * The file is written without a name and gets its own when it is complete, so that nobody ever
 * opens half of one and a process that is ended leaves none behind. Where the file system has
 * no files without a name it is a temporary one beside the path until then. The writer belongs
 * to one thread. It checks its caller with asserts and the disk with err; a failed write shows
 * at the latest in gguf_write_finish.
 */
#ifndef GGUF_GGUF_WRITE_H
#define GGUF_GGUF_WRITE_H

#include "gguf/gguf.h"

struct gguf_writer;

/* Creates the file that is to be at path. NULL on failure; ERR_USER: something is there
 * already.
 */
struct gguf_writer *gguf_write_new(const char *path, struct err *err);
/* Frees it; a file that was not finished is removed. NULL is fine. */
void gguf_write_free(struct gguf_writer *w);

/* Keys, in the order they are to have. */
void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_write_f32(struct gguf_writer *w, const char *key, float v);
void gguf_write_string(struct gguf_writer *w, const char *key, const char *s);
void gguf_write_i32s(struct gguf_writer *w, const char *key, const int32_t *v, size_t n);
/* A key of another file as it is; a shorter array is filled up to n_items (0: as it is),
 * strings with "[PAD<i>]" and numbers with pad. */
void gguf_write_copy(struct gguf_writer *w, const struct gguf_kv *kv, size_t n_items, int pad);

/* Announces a tensor; ne[0] is a multiple of the type's block length. */
void gguf_write_tensor(struct gguf_writer *w, const char *name, enum qtype type,
                       uint32_t n_dims, const size_t *ne);
/* The next n_bytes of data of the tensors in their order; padding comes by itself. */
void gguf_write_data(struct gguf_writer *w, const void *data, size_t n_bytes);

/* After all data: puts the file in its place. */
bool gguf_write_finish(struct gguf_writer *w, struct err *err);

#endif
