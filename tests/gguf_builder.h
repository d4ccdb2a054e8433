/* Writes small GGUF files, right and wrong ones, for tests: header, keys, tensors in that
 * order, by hand. The numbers are what the caller says, not what is there, so that lies can be
 * told. */
#ifndef TESTS_GGUF_BUILDER_H
#define TESTS_GGUF_BUILDER_H

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "gguf/gguf.h"

static inline void gb_u32(struct buf *b, uint32_t v)
{
    buf_append(b, &v, 4);
}

static inline void gb_u64(struct buf *b, uint64_t v)
{
    buf_append(b, &v, 8);
}

static inline void gb_str(struct buf *b, const char *s)
{
    gb_u64(b, strlen(s));
    buf_puts(b, s);
}

static inline void gb_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    buf_puts(b, "GGUF");
    gb_u32(b, version);
    gb_u64(b, n_tensors);
    gb_u64(b, n_kv);
}

static inline void gb_kv(struct buf *b, const char *key, enum gguf_type type)
{
    gb_str(b, key);
    gb_u32(b, (uint32_t)type);
}

static inline void gb_kv_u32(struct buf *b, const char *key, uint32_t v)
{
    gb_kv(b, key, GGUF_U32);
    gb_u32(b, v);
}

static inline void gb_kv_str(struct buf *b, const char *key, const char *v)
{
    gb_kv(b, key, GGUF_STRING);
    gb_str(b, v);
}

static inline void gb_kv_array(struct buf *b, const char *key, enum gguf_type type, uint64_t n)
{
    gb_kv(b, key, GGUF_ARRAY);
    gb_u32(b, (uint32_t)type);
    gb_u64(b, n);
}

/* A tensor of two dimensions. */
static inline void gb_tensor(struct buf *b, const char *name, uint64_t ne0, uint64_t ne1,
                             uint32_t type, uint64_t offset)
{
    gb_str(b, name);
    gb_u32(b, 2);
    gb_u64(b, ne0);
    gb_u64(b, ne1);
    gb_u32(b, type);
    gb_u64(b, offset);
}

/* Zeros up to a multiple of alignment. */
static inline void gb_pad(struct buf *b, size_t alignment)
{
    while (b->len % alignment)
        buf_putc(b, 0);
}

static inline void gb_zeros(struct buf *b, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        buf_putc(b, 0);
}

#endif
