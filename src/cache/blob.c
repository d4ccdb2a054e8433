/* A header, ids and a zstd frame of shuffled bytes; nothing is believed before its sum is
 * right. */
#include "cache/blob.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/bytes.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "cache/planes.h"

static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'K', 'V'};

enum { SUM_AT = 64 };

/* Bytes of planes that are in memory at a time, and are packed between two looks at the flag.
 */
enum { PIECE_BYTES = 128 << 10 };

/* The most that a frame may want to look back, as RFC 8878 recommends it; ours do .5 MiB. */
enum { MAX_WINDOW_LOG = 23 };

struct blob_codec {
    ZSTD_CCtx *pack;
    ZSTD_DCtx *unpack;
    uint8_t *piece;
};

struct blob_codec *blob_codec_new(void)
{
    struct blob_codec *codec = mem_zalloc(1, sizeof *codec);
    return codec;
}

void blob_codec_free(struct blob_codec *codec)
{
    if (!codec) return;
    ZSTD_freeCCtx(codec->pack);
    ZSTD_freeDCtx(codec->unpack);
    free(codec->piece);
    free(codec);
}

/* What is kept is a convenience: no memory for it is an error, not the end. */
static bool is_ready(struct blob_codec *codec, bool packs, struct err *err)
{
    if (!codec->piece) codec->piece = malloc(PIECE_BYTES);
    if (packs && !codec->pack) codec->pack = ZSTD_createCCtx();
    if (!packs && !codec->unpack) {
        codec->unpack = ZSTD_createDCtx();
        if (codec->unpack)
            ZSTD_DCtx_setParameter(codec->unpack, ZSTD_d_windowLogMax, MAX_WINDOW_LOG);
    }
    return (codec->piece && (packs ? codec->pack != NULL : codec->unpack != NULL)) ||
           err_set(err, ERR_MEMORY, "no memory to %s a page", packs ? "pack" : "unpack");
}

static bool reserve(struct buf *b, size_t n, struct err *err)
{
    return buf_try_resize(b, n) ||
           err_set(err, ERR_MEMORY, "no memory for %zu bytes of a page", n);
}

static uint64_t sum_of(const uint8_t *data, size_t n)
{
    uint64_t front = XXH3_64bits(data, SUM_AT);
    return XXH3_64bits_withSeed(data + BLOB_HEAD_BYTES, n - BLOB_HEAD_BYTES, front);
}

/* Makes one frame of the planes of a content, which says its size, at the beginning of *to,
 * which has room for anything; to->pos is its bytes then. ERR_CANCELLED, ERR_MEMORY. */
static bool pack_frame(struct blob_codec *codec, const struct blob_content *content,
                       ZSTD_outBuffer *to, int level, const atomic_bool *stop, struct err *err)
{
    ZSTD_CCtx *c = codec->pack;
    const struct planes planes = {content->n_bytes, content->element_bytes};
    const size_t n = content->n_bytes;
    ZSTD_CCtx_reset(c, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setPledgedSrcSize(c, n);
    for (size_t at = 0, left = 1; left > 0;) {
        if (cancel_is_set(stop)) return err_set(err, ERR_CANCELLED, "cancelled");
        ZSTD_inBuffer from = {codec->piece, n - at < PIECE_BYTES ? n - at : PIECE_BYTES, 0};
        planes_get(&planes, content->data, at, from.size, codec->piece);
        at += from.size;
        const ZSTD_EndDirective then = at == n ? ZSTD_e_end : ZSTD_e_continue;
        do {
            left = ZSTD_compressStream2(c, to, &from, then);
            /* There is room for anything: only its own memory can be missing. */
            if (ZSTD_isError(left))
                return err_set(err, ERR_MEMORY, "a page cannot be packed: %s",
                               ZSTD_getErrorName(left));
        } while (from.pos < from.size);
        if (at < n) left = 1;
    }
    return true;
}

bool blob_pack(struct blob_codec *codec, const struct blob_id *id,
               const struct blob_content *content, int level, const atomic_bool *stop,
               struct buf *out, struct err *err)
{
    const size_t n_bytes = content->n_bytes;
    const unsigned element_bytes = content->element_bytes;
    assert(element_bytes >= 1 && element_bytes <= BLOB_MAX_ELEMENT);
    assert(n_bytes <= BLOB_MAX_BYTES && id->n_ids <= BLOB_MAX_IDS);
    if (!is_ready(codec, true, err)) return false;
    size_t ids_bytes = id->n_ids * sizeof *id->ids, front = BLOB_HEAD_BYTES + ids_bytes;
    size_t bound = ZSTD_compressBound(n_bytes);
    if (!reserve(out, front + bound, err)) return false;
    ZSTD_outBuffer frame = {out->data + front, bound, 0};
    if (!pack_frame(codec, content, &frame, level, stop, err)) return false;

    char *p = out->data;
    memcpy(p, magic, sizeof magic);
    bytes_put_u32(p + 8, BLOB_VERSION);
    bytes_put_u32(p + 12, (uint32_t)id->kind);
    bytes_put_u64(p + 16, id->key.lo);
    bytes_put_u64(p + 24, id->key.hi);
    bytes_put_u32(p + 32, (uint32_t)id->n_ids);
    bytes_put_u32(p + 36, element_bytes);
    bytes_put_u64(p + 40, n_bytes);
    bytes_put_u64(p + 48, frame.pos);
    bytes_put_u64(p + 56, id->n_tokens);
    if (ids_bytes) memcpy(p + BLOB_HEAD_BYTES, id->ids, ids_bytes);
    out->len = front + frame.pos;
    bytes_put_u64(p + SUM_AT, sum_of((const uint8_t *)p, out->len));
    return true;
}

bool blob_head(const void *data, size_t n_bytes, struct blob_head *head, struct err *err)
{
    const uint8_t *p = data;
    if (n_bytes < BLOB_HEAD_BYTES)
        return err_set(err, ERR_FORMAT, "it has %zu bytes, less than a header", n_bytes);
    if (memcmp(p, magic, sizeof magic) != 0)
        return err_set(err, ERR_FORMAT, "it does not begin with HEARTHKV");
    uint32_t version = bytes_u32(p + 8), kind = bytes_u32(p + 12);
    if (version != BLOB_VERSION)
        return err_set(err, ERR_FORMAT, "it has version %u, expected %d", version,
                       BLOB_VERSION);
    if (kind >= N_BLOB_KINDS) return err_set(err, ERR_FORMAT, "unknown kind %u", kind);
    *head = (struct blob_head){.kind = (enum blob_kind)kind,
                               .key = {bytes_u64(p + 16), bytes_u64(p + 24)},
                               .n_ids = bytes_u32(p + 32),
                               .element_bytes = bytes_u32(p + 36),
                               .raw_bytes = bytes_u64(p + 40),
                               .packed_bytes = bytes_u64(p + 48),
                               .n_tokens = bytes_u64(p + 56)};
    if (head->n_ids > BLOB_MAX_IDS || head->raw_bytes > BLOB_MAX_BYTES ||
        head->element_bytes < 1 || head->element_bytes > BLOB_MAX_ELEMENT)
        return err_set(err, ERR_FORMAT, "its sizes are out of range");
    uint64_t rest = n_bytes - BLOB_HEAD_BYTES, ids_bytes = (uint64_t)head->n_ids * 4;
    if (rest < ids_bytes || rest - ids_bytes != head->packed_bytes)
        return err_set(err, ERR_FORMAT, "it has %zu bytes, its header says otherwise", n_bytes);
    return true;
}

static bool is_wanted(const struct blob_head *head, const uint8_t *ids,
                      const struct blob_id *id, size_t n_raw, struct err *err)
{
    if (head->kind != id->kind || head->key.lo != id->key.lo || head->key.hi != id->key.hi)
        return err_set(err, ERR_USER, "it is of another kind or key");
    if (head->raw_bytes != n_raw)
        return err_set(err, ERR_USER, "it holds %llu bytes, expected %zu",
                       (unsigned long long)head->raw_bytes, n_raw);
    if (head->n_ids != id->n_ids ||
        (id->n_ids > 0 && memcmp(ids, id->ids, id->n_ids * sizeof *id->ids) != 0))
        return err_set(err, ERR_USER, "it is of other tokens");
    return true;
}

/* Unpacks a frame of n_packed bytes, which has to fill raw exactly, as it comes: piece by piece
 * to where its bytes belong. raw may be NULL. ERR_FORMAT, ERR_MEMORY. */
static bool unpack_frame(struct blob_codec *codec, const uint8_t *frame, size_t n_packed,
                         const struct planes *planes, uint8_t *raw, struct err *err)
{
    ZSTD_inBuffer from = {frame, n_packed, 0};
    size_t at = 0;
    ZSTD_DCtx_reset(codec->unpack, ZSTD_reset_session_only);
    for (size_t left = 1; left > 0;) {
        ZSTD_outBuffer to = {codec->piece, PIECE_BYTES, 0};
        left = ZSTD_decompressStream(codec->unpack, &to, &from);
        if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation)
            return err_set(err, ERR_MEMORY, "no memory to unpack a page");
        const bool goes_on = !ZSTD_isError(left) && (to.pos > 0 || from.pos < from.size);
        if ((left > 0 && !goes_on) || to.pos > planes->n_bytes - at) break;
        if (raw) planes_put(planes, raw, at, to.pos, codec->piece);
        at += to.pos;
        if (left == 0 && at == planes->n_bytes && from.pos == from.size) return true;
    }
    return err_set(err, ERR_FORMAT, "its frame does not unpack");
}

bool blob_unpack(struct blob_codec *codec, const void *data, size_t n_bytes,
                 const struct blob_id *id, void *raw, size_t n_raw, struct err *err)
{
    const uint8_t *p = data;
    struct blob_head head;
    if (!blob_head(data, n_bytes, &head, err)) return false;
    if (bytes_u64(p + SUM_AT) != sum_of(p, n_bytes))
        return err_set(err, ERR_FORMAT, "its checksum is wrong");
    if (id && !is_wanted(&head, p + BLOB_HEAD_BYTES, id, n_raw, err)) return false;
    /* What the checksum covers was written so, but perhaps not by us: the frame must say the
     * size itself before memory is taken for it, and fill it exactly. */
    const uint8_t *frame = p + BLOB_HEAD_BYTES + (size_t)head.n_ids * 4;
    const size_t packed = (size_t)head.packed_bytes;
    if (ZSTD_getFrameContentSize(frame, packed) != head.raw_bytes)
        return err_set(err, ERR_FORMAT, "its frame is of another size");
    if (!is_ready(codec, false, err)) return false;
    const struct planes planes = {(size_t)head.raw_bytes, head.element_bytes};
    return unpack_frame(codec, frame, packed, &planes, raw, err);
}
