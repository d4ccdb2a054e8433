/* A header, ids and a zstd frame of shuffled bytes; nothing is believed before its sum is
 * right. */
#include "cache/blob.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <xxhash.h>
#include <zstd.h>

#include "base/bytes.h"
#include "base/cancel.h"
#include "base/mem.h"

static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'K', 'V'};

enum { SUM_AT = 64 };

struct blob_codec {
    ZSTD_CCtx *pack;
    ZSTD_DCtx *unpack;
    struct buf shuffled;
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
    buf_free(&codec->shuffled);
    free(codec);
}

/* Pages are large: no memory for one is an error, not the end. */
static bool reserve(struct buf *b, size_t n, struct err *err)
{
    return buf_try_resize(b, n) ||
           err_set(err, ERR_MEMORY, "no memory for %zu bytes of a page", n);
}

/* Byte b of element i goes to b * n_elements + i. Elements of two bytes are the common ones; a
 * resumed conversation waits for their way back. Whole vectors of them; returns how many. */
#ifdef __SSE2__
static size_t part_pairs(const uint8_t *in, size_t m, uint8_t *low, uint8_t *high)
{
    const __m128i mask = _mm_set1_epi16(0xff);
    size_t i = 0;
    for (; i + 16 <= m; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(in + 2 * i));
        __m128i b = _mm_loadu_si128((const __m128i *)(in + 2 * i + 16));
        _mm_storeu_si128((__m128i *)(low + i),
                         _mm_packus_epi16(_mm_and_si128(a, mask), _mm_and_si128(b, mask)));
        _mm_storeu_si128((__m128i *)(high + i),
                         _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)));
    }
    return i;
}

static size_t join_pairs(const uint8_t *low, const uint8_t *high, size_t m, uint8_t *out)
{
    size_t i = 0;
    for (; i + 16 <= m; i += 16) {
        __m128i l = _mm_loadu_si128((const __m128i *)(low + i));
        __m128i h = _mm_loadu_si128((const __m128i *)(high + i));
        _mm_storeu_si128((__m128i *)(out + 2 * i), _mm_unpacklo_epi8(l, h));
        _mm_storeu_si128((__m128i *)(out + 2 * i + 16), _mm_unpackhi_epi8(l, h));
    }
    return i;
}
#else
static size_t part_pairs(const uint8_t *in, size_t m, uint8_t *low, uint8_t *high)
{
    (void)in, (void)m, (void)low, (void)high;
    return 0;
}

static size_t join_pairs(const uint8_t *low, const uint8_t *high, size_t m, uint8_t *out)
{
    (void)low, (void)high, (void)m, (void)out;
    return 0;
}
#endif

static void shuffle(const uint8_t *restrict in, size_t n, size_t element, uint8_t *restrict out)
{
    size_t m = n / element, done = element == 2 ? part_pairs(in, m, out, out + m) : 0;
    for (size_t b = 0; b < element; b++)
        for (size_t i = done; i < m; i++)
            out[b * m + i] = in[i * element + b];
    memcpy(out + m * element, in + m * element, n - m * element);
}

static void unshuffle(const uint8_t *restrict in, size_t n, size_t element,
                      uint8_t *restrict out)
{
    size_t m = n / element, done = element == 2 ? join_pairs(in, in + m, m, out) : 0;
    for (size_t b = 0; b < element; b++)
        for (size_t i = done; i < m; i++)
            out[i * element + b] = in[b * m + i];
    memcpy(out + m * element, in + m * element, n - m * element);
}

static uint64_t sum_of(const uint8_t *data, size_t n)
{
    uint64_t front = XXH3_64bits(data, SUM_AT);
    return XXH3_64bits_withSeed(data + BLOB_HEAD_BYTES, n - BLOB_HEAD_BYTES, front);
}

/* Bytes that are packed between two looks at the flag. */
enum { PIECE_BYTES = 256 << 10 };

/* Makes one frame of all of `from`, which says its size, at the beginning of *to, which has
 * room for anything; to->pos is its bytes then. ERR_CANCELLED, ERR_MEMORY. */
static bool pack_frame(ZSTD_CCtx *c, ZSTD_inBuffer from, ZSTD_outBuffer *to, int level,
                       const atomic_bool *stop, struct err *err)
{
    const size_t n = from.size;
    ZSTD_CCtx_reset(c, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setPledgedSrcSize(c, n);
    for (size_t left = 1; left > 0 || from.pos < n;) {
        if (cancel_is_set(stop)) return err_set(err, ERR_CANCELLED, "cancelled");
        from.size = n - from.pos < PIECE_BYTES ? n : from.pos + PIECE_BYTES;
        left =
            ZSTD_compressStream2(c, to, &from, from.size == n ? ZSTD_e_end : ZSTD_e_continue);
        /* The output is large enough for anything: only its own memory can be missing. */
        if (ZSTD_isError(left))
            return err_set(err, ERR_MEMORY, "a page cannot be packed: %s",
                           ZSTD_getErrorName(left));
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
    if (!codec->pack) codec->pack = mem_need(ZSTD_createCCtx());
    const void *planes = content->data; /* of single bytes there is one */
    if (element_bytes > 1) {
        if (!reserve(&codec->shuffled, n_bytes, err)) return false;
        shuffle(planes, n_bytes, element_bytes, (uint8_t *)codec->shuffled.data);
        planes = codec->shuffled.data;
    }
    size_t ids_bytes = id->n_ids * sizeof *id->ids, front = BLOB_HEAD_BYTES + ids_bytes;
    size_t bound = ZSTD_compressBound(n_bytes);
    if (!reserve(out, front + bound, err)) return false;
    ZSTD_outBuffer frame = {out->data + front, bound, 0};
    if (!pack_frame(codec->pack, (ZSTD_inBuffer){planes, n_bytes, 0}, &frame, level, stop, err))
        return false;

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
    size_t packed = (size_t)head.packed_bytes, size = (size_t)head.raw_bytes;
    if (ZSTD_getFrameContentSize(frame, packed) != head.raw_bytes)
        return err_set(err, ERR_FORMAT, "its frame is of another size");
    if (!codec->unpack) codec->unpack = mem_need(ZSTD_createDCtx());
    void *planes = raw;
    if (!raw || head.element_bytes > 1) {
        if (!reserve(&codec->shuffled, size, err)) return false;
        planes = codec->shuffled.data;
    }
    size_t got = ZSTD_decompressDCtx(codec->unpack, planes, size, frame, packed);
    if (ZSTD_isError(got) || got != size)
        return err_set(err, ERR_FORMAT, "its frame does not unpack");
    if (raw && planes != raw) unshuffle(planes, size, head.element_bytes, raw);
    return true;
}
