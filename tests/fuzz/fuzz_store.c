/* Blobs of pages over any bytes: the checksum is made right first, so that what lies behind it
 * is reached, and what unpacks packs to something that unpacks to the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "cache/blob.h"

enum { SUM_AT = 64, MOST = 1 << 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void again(struct blob_codec *codec, const struct blob_id *id, const uint8_t *raw,
                  size_t n_raw, unsigned element_bytes)
{
    struct buf out = {0};
    struct err err;
    uint8_t *twice = mem_alloc(n_raw);
    bool ok = blob_pack(codec, id, raw, n_raw, element_bytes, 1, &out, &err) &&
              blob_unpack(codec, out.data, out.len, id, twice, n_raw, &err);
    if (!ok || memcmp(raw, twice, n_raw) != 0) abort();
    free(twice);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct blob_head head;
    struct err err;
    if (!blob_head(data, n_bytes, &head, &err) || head.raw_bytes > MOST) return 0;
    uint8_t *copy = mem_alloc(n_bytes), *raw = mem_alloc((size_t)head.raw_bytes);
    memcpy(copy, data, n_bytes);
    uint64_t sum = XXH3_64bits_withSeed(copy + BLOB_HEAD_BYTES, n_bytes - BLOB_HEAD_BYTES,
                                        XXH3_64bits(copy, SUM_AT));
    memcpy(copy + SUM_AT, &sum, sizeof sum);
    int32_t *ids = mem_zalloc(head.n_ids + 1, sizeof *ids);
    memcpy(ids, copy + BLOB_HEAD_BYTES, head.n_ids * sizeof *ids);
    const struct blob_id id = {head.kind, head.key, ids, head.n_ids, head.n_tokens};
    struct blob_codec *codec = blob_codec_new();
    bool sound = blob_unpack(codec, copy, n_bytes, NULL, NULL, 0, &err);
    bool ok = blob_unpack(codec, copy, n_bytes, &id, raw, (size_t)head.raw_bytes, &err);
    if (ok != sound) abort();
    if (ok) again(codec, &id, raw, (size_t)head.raw_bytes, head.element_bytes);
    blob_codec_free(codec);
    free(ids);
    free(copy);
    free(raw);
    return 0;
}
