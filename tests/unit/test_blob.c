/* Blobs: round trips, their layout, one that says what it does not hold, one too large. */
#include "../store_sample.h"

#include <unistd.h>

#include <zstd.h>

static void test_blob(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 67, 68, 69, 1000, 4096};
    static const unsigned elements[] = {1, 2, 4, 18, 34, 64};
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    sample_make(&s, 7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizeof elements / sizeof *elements; k++) {
            struct buf out = {0};
            struct blob_head head;
            struct err err;
            uint8_t *raw = mem_alloc(sizes[i]);
            const struct blob_content content = {s.raw, sizes[i], elements[k]};
            assert_true(blob_pack(codec, &s.id, &content, 1, NULL, &out, &err));
            assert_true(blob_head(out.data, out.len, &head, &err));
            assert_int_equal(head.raw_bytes, sizes[i]);
            assert_int_equal(head.n_ids, N_IDS);
            assert_int_equal(head.n_tokens, 64);
            assert_true(blob_unpack(codec, out.data, out.len, &s.id, raw, sizes[i], &err));
            assert_memory_equal(raw, s.raw, sizes[i]);
            assert_true(blob_unpack(codec, out.data, out.len, NULL, NULL, 0, &err));
            assert_false(blob_unpack(codec, out.data, out.len, &s.id, raw, sizes[i] - 1, &err));
            assert_int_equal(err.code, ERR_USER);
            const atomic_bool stop = true;
            assert_false(blob_pack(codec, &s.id, &content, 1, &stop, &out, &err));
            assert_int_equal(err.code, ERR_CANCELLED);
            free(raw);
            buf_free(&out);
        }
    }
    blob_codec_free(codec);
}

#ifndef HEARTH_SANITIZED /* shadow memory knows no limit */
/* Takes all memory that pieces of 4 KiB can be had of; *rest is what freed it. */
static void exhaust(struct rlimit *before, void **rest)
{
    const struct rlimit tight = limit_of(0, before);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    for (void **p; (p = malloc(4096)); *rest = p)
        *p = *rest;
}

static void relieve(const struct rlimit *before, void **rest)
{
    assert_int_equal(setrlimit(RLIMIT_AS, before), 0);
    while (*rest) {
        void *next = *(void **)*rest;
        free(*rest);
        *rest = next;
    }
}

/* No memory for a page is an error of the call; the codec goes on. */
static void test_unpackable(void **state)
{
    (void)state;
    enum { N = 64 << 20 };
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    struct buf out = {0}, small = {0};
    struct err err = {0};
    struct rlimit before;
    void *rest = NULL;
    uint8_t *raw = mem_zalloc(N, 1);
    const struct blob_content content = {raw, N, 2};
    sample_make(&s, 9);
    exhaust(&before, &rest);
    const bool packed = blob_pack(codec, &s.id, &content, 1, NULL, &out, &err);
    relieve(&before, &rest);
    assert_false(packed);
    assert_int_equal(err.code, ERR_MEMORY);
    assert_true(blob_pack(codec, &s.id, &content, 1, NULL, &out, &err));
    /* The first time there is nothing, then all but for what a large frame looks back to. */
    for (int i = 0; i < 2; i++) {
        exhaust(&before, &rest);
        const bool unpacked = blob_unpack(codec, out.data, out.len, NULL, NULL, 0, &err);
        relieve(&before, &rest);
        assert_false(unpacked);
        assert_int_equal(err.code, ERR_MEMORY);
        const struct blob_content little = {raw, 100, 2};
        assert_true(blob_pack(codec, &s.id, &little, 1, NULL, &small, &err));
        assert_true(blob_unpack(codec, small.data, small.len, NULL, NULL, 0, &err));
    }
    assert_true(blob_unpack(codec, out.data, out.len, &s.id, raw, N, &err));
    blob_codec_free(codec);
    buf_free(&small);
    buf_free(&out);
    free(raw);
}
#endif

/* The layout is the one of blob.h, whatever the compiler makes of it: the first bytes of all
 * elements, then their second bytes and so on, then what makes no whole element. */
static void test_layout(void **state)
{
    (void)state;
    static const unsigned elements[] = {1, 2, 4, 34};
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    sample_make(&s, 8);
    for (size_t n = 1; n < 200; n++) {
        for (size_t e = 0; e < sizeof elements / sizeof *elements; e++) {
            struct buf out = {0};
            struct err err;
            uint8_t want[200], got[200];
            size_t size = elements[e], m = n / size;
            for (size_t i = 0; i < n; i++)
                want[i < m * size ? i % size * m + i / size : i] = s.raw[i];
            const struct blob_content content = {s.raw, n, elements[e]};
            assert_true(blob_pack(codec, &s.id, &content, 1, NULL, &out, &err));
            size_t front = BLOB_HEAD_BYTES + sizeof s.ids;
            size_t n_got = ZSTD_decompress(got, sizeof got, out.data + front, out.len - front);
            assert_int_equal(n_got, n);
            assert_memory_equal(got, want, n);
            buf_free(&out);
        }
    }
    blob_codec_free(codec);
}

/* The same of contents of many pieces, planes of which end within one: there and back. */
static void test_pieces(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    static const size_t less[] = {0, 1, 2, 3, 12345, (1 << 19) + 7, (7 << 17) - 1, 7 << 17};
    static const unsigned elements[] = {1, 2, 3, 4, 34};
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    uint8_t *raw = mem_alloc(N), *want = mem_alloc(N), *got = mem_alloc(N);
    sample_make(&s, 10);
    for (size_t i = 0; i < N; i++)
        raw[i] = (uint8_t)word(10, (uint32_t)i);
    for (size_t k = 0; k < sizeof less / sizeof *less; k++) {
        for (size_t e = 0; e < sizeof elements / sizeof *elements; e++) {
            struct buf out = {0};
            struct err err;
            const size_t n = N - less[k], size = elements[e], m = n / size;
            for (size_t i = 0; i < n; i++)
                want[i < m * size ? i % size * m + i / size : i] = raw[i];
            const struct blob_content content = {raw, n, elements[e]};
            assert_true(blob_pack(codec, &s.id, &content, 1, NULL, &out, &err));
            const size_t front = BLOB_HEAD_BYTES + sizeof s.ids;
            assert_int_equal(ZSTD_decompress(got, N, out.data + front, out.len - front), n);
            assert_memory_equal(got, want, n);
            memset(got, 0, N);
            assert_true(blob_unpack(codec, out.data, out.len, &s.id, got, n, &err));
            assert_memory_equal(got, raw, n);
            buf_free(&out);
        }
    }
    free(got);
    free(want);
    free(raw);
    blob_codec_free(codec);
}

/* A blob whose checksum is right though its content is not what it says. */
static void test_forged(void **state)
{
    (void)state;
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    sample_make(&s, 1);
    struct buf out = {0};
    struct err err;
    uint8_t raw[N_RAW];
    const struct blob_content content = {s.raw, N_RAW, 2};
    s.id.kind = (enum blob_kind)17;
    assert_true(blob_pack(codec, &s.id, &content, 1, NULL, &out, &err));
    assert_false(blob_unpack(codec, out.data, out.len, &s.id, raw, N_RAW, &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_string_equal(err.msg, "unknown kind 17");
    buf_free(&out);
    blob_codec_free(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef HEARTH_SANITIZED
        cmocka_unit_test(test_unpackable),
#endif
        cmocka_unit_test(test_blob),       cmocka_unit_test(test_layout),
        cmocka_unit_test(test_pieces),     cmocka_unit_test(test_forged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
