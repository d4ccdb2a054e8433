/* Blobs of pages over any bytes: size and checksum are made right first, so that what lies
 * behind them is reached, and what unpacks packs to something that unpacks to the same. What
 * does not begin as a blob does is a content: it comes back as it was, in one piece with its
 * tokens, and a blob of it with a byte changed never comes back as something else under the old
 * checksum. */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "cache/blob.h"
#include "target.h"

enum { SUM_AT = 64, MOST = 1 << 24 };

static void again(struct blob_codec *codec, const struct blob_id *id, const uint8_t *raw,
                  size_t n_raw, unsigned element_bytes)
{
    struct buf out = {0};
    struct err err;
    uint8_t *twice = mem_alloc(n_raw);
    bool ok = blob_pack(codec, id, &(struct blob_content){raw, n_raw, element_bytes}, 1, NULL,
                        &out, &err) &&
              blob_unpack(codec, out.data, out.len, id, twice, n_raw, &err);
    if (!ok || memcmp(raw, twice, n_raw) != 0) abort();
    free(twice);
    buf_free(&out);
}

static void repair(uint8_t *blob, size_t n_bytes)
{
    uint32_t n_ids;
    memcpy(&n_ids, blob + 32, sizeof n_ids);
    const uint64_t ids_bytes = (uint64_t)n_ids * 4, rest = n_bytes - BLOB_HEAD_BYTES;
    const uint64_t packed = rest - ids_bytes;
    if (ids_bytes <= rest) memcpy(blob + 48, &packed, sizeof packed);
    const uint64_t sum = XXH3_64bits_withSeed(blob + BLOB_HEAD_BYTES, n_bytes - BLOB_HEAD_BYTES,
                                              XXH3_64bits(blob, SUM_AT));
    memcpy(blob + SUM_AT, &sum, sizeof sum);
}

static void try_blob(const uint8_t *data, size_t n_bytes)
{
    struct blob_head head;
    struct err err;
    if (n_bytes < BLOB_HEAD_BYTES) return;
    uint8_t *copy = mem_alloc(n_bytes);
    memcpy(copy, data, n_bytes);
    repair(copy, n_bytes);
    if (!blob_head(copy, n_bytes, &head, &err) || head.raw_bytes > MOST) {
        free(copy);
        return;
    }
    uint8_t *raw = mem_alloc((size_t)head.raw_bytes);
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
}

/* data[0..4): the kind, the bytes of an element, the number of ids, the byte to change. */
static void try_content(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 5) return;
    struct err err;
    struct buf blob = {0};
    const uint8_t *content = data + 5;
    const size_t n = n_bytes - 5, n_ids = data[2] < n / 4 ? data[2] : n / 4;
    int32_t *ids = mem_zalloc(n_ids + 1, sizeof *ids);
    if (n_ids) memcpy(ids, content, n_ids * sizeof *ids);
    struct blob_id id = {data[0] % N_BLOB_KINDS, {data[3], n}, ids, n_ids, data[1]};
    struct blob_codec *codec = blob_codec_new();
    uint8_t *raw = mem_alloc(n + 1);
    again(codec, &id, content, n, 1 + data[1] % BLOB_MAX_ELEMENT);
    const struct blob_content packed = {content, n, 1 + data[1] % BLOB_MAX_ELEMENT};
    if (!blob_pack(codec, &id, &packed, 1, NULL, &blob, &err)) abort();
    /* A changed byte is refused; behind a checksum that fits, it cannot write beyond raw. */
    const size_t at = (data[3] | (size_t)data[4] << 8) % blob.len;
    blob.data[at] ^= (char)(1 + data[4] % 255);
    if (blob_unpack(codec, blob.data, blob.len, &id, raw, n, &err)) abort();
    repair((uint8_t *)blob.data, blob.len);
    blob_unpack(codec, blob.data, blob.len, &id, raw, n, &err);
    /* Other tokens are a miss. */
    blob.data[at] ^= (char)(1 + data[4] % 255);
    repair((uint8_t *)blob.data, blob.len);
    ids[n_ids ? data[4] % n_ids : 0] ^= 1;
    if (blob_unpack(codec, blob.data, blob.len, &id, raw, n, &err) != (n_ids == 0)) abort();
    blob_codec_free(codec);
    buf_free(&blob);
    free(ids);
    free(raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes > 0 && data[0] == 'H')
        try_blob(data, n_bytes);
    else
        try_content(data, n_bytes);
    return 0;
}
