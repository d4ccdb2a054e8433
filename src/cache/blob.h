/* A blob: one page or snapshot as bytes of a file, and back.
 *
 *      0  magic "HEARTHKV"
 *      8  u32 version, u32 kind
 *     16  u64 key, low half and high half
 *     32  u32 number of token ids, u32 bytes of an element
 *     40  u64 bytes of the content, u64 bytes of its packed form
 *     56  u64 tokens from the beginning to the end of this
 *     64  u64 XXH3-64 of everything behind, seeded with that of everything before
 *     72  the token ids, i32 each; then the packed form
 *
 * All little-endian. The packed form is a zstd frame of the shuffled content: first the first
 * bytes of all elements, then their second bytes and so on, then what makes no whole element.
 * The high bytes of neighbouring floats are alike, their low bytes are noise; apart, the former
 * shrink well.
 *
 * Pure: no file, no lock. A codec is used by one thread at a time. Bytes given to blob_unpack
 * and blob_head are hostile until checked. */
#ifndef CACHE_BLOB_H
#define CACHE_BLOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "cache/key.h"

enum { BLOB_VERSION = 1, BLOB_HEAD_BYTES = 72, BLOB_MAX_ELEMENT = 64 };
/* Contents and lists of ids longer than this are not blobs. */
#define BLOB_MAX_BYTES ((uint64_t)1 << 30)
enum { BLOB_MAX_IDS = 1 << 20 };

enum blob_kind {
    BLOB_PAGE,     /* the full-attention layers of 64 positions */
    BLOB_WINDOW,   /* the windowed layers of 64 positions */
    BLOB_SNAPSHOT, /* the state after exactly n tokens */
    N_BLOB_KINDS
};

/* What a blob holds. ids are the tokens it was computed from since the key before it: they are
 * compared on load, so that equal keys of unequal tokens are a miss. Borrowed. */
struct blob_id {
    enum blob_kind kind;
    struct key key;
    const int32_t *ids; /* [n_ids] */
    size_t n_ids;
    uint64_t n_tokens; /* from the beginning to the end of this; not compared: the key has it */
};

struct blob_head {
    enum blob_kind kind;
    struct key key;
    uint32_t n_ids, element_bytes;
    uint64_t raw_bytes, packed_bytes, n_tokens;
};

/* What a blob holds: data[0..n_bytes), of elements that the shuffle takes apart, of 1 to
 * BLOB_MAX_ELEMENT bytes. Borrowed. */
struct blob_content {
    const void *data;
    size_t n_bytes;
    unsigned element_bytes;
};

/* Contexts and scratch of packing and unpacking, kept between calls. */
struct blob_codec;

struct blob_codec *blob_codec_new(void);
void blob_codec_free(struct blob_codec *codec); /* NULL is fine */

/* Replaces out by the blob of a content. level: zstd's. Once *stop (may be NULL) is true it
 * soon fails with ERR_CANCELLED. False with ERR_MEMORY; out holds rubbish then. */
bool blob_pack(struct blob_codec *codec, const struct blob_id *id,
               const struct blob_content *content, int level, const atomic_bool *stop,
               struct buf *out, struct err *err);

/* Reads the header alone; checks the magic, the version, the limits, and that n_bytes, the size
 * of the whole file, is what it says. ERR_FORMAT. */
bool blob_head(const void *data, size_t n_bytes, struct blob_head *head, struct err *err);

/* Checks everything and writes the content to raw[0..n_raw). ERR_FORMAT for a damaged blob;
 * ERR_USER for a sound one of another key, kind, size or of other tokens; ERR_MEMORY. raw holds
 * rubbish then. With id NULL, raw NULL and n_raw 0 it only checks that the blob is sound. */
bool blob_unpack(struct blob_codec *codec, const void *data, size_t n_bytes,
                 const struct blob_id *id, void *raw, size_t n_raw, struct err *err);

#endif
