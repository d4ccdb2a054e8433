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
/* No memory for a page is an error of the call; the codec goes on. */
static void test_unpackable(void **state)
{
    (void)state;
    enum { N = 64 << 20, ROOM = 16 << 20 };
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    struct buf out = {0};
    struct err err;
    struct rlimit before, tight;
    uint8_t *raw = mem_zalloc(N, 1);
    const struct blob_content content = {raw, N, 2};
    sample_make(&s, 9);
    tight = limit_of(ROOM, &before);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    const bool packed = blob_pack(codec, &s.id, &content, 1, NULL, &out, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_false(packed);
    assert_int_equal(err.code, ERR_MEMORY);
    assert_true(blob_pack(codec, &s.id, &content, 1, NULL, &out, &err));
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    struct blob_codec *fresh = blob_codec_new();
    const bool unpacked = blob_unpack(fresh, out.data, out.len, NULL, NULL, 0, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_false(unpacked);
    assert_int_equal(err.code, ERR_MEMORY);
    assert_true(blob_unpack(codec, out.data, out.len, &s.id, raw, N, &err));
    blob_codec_free(fresh);
    blob_codec_free(codec);
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
        cmocka_unit_test(test_blob),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_forged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
