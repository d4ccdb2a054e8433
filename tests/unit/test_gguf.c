#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../gguf_builder.h"
#include "../scratch.h"
#include "base/file.h"

static struct gguf *open_bytes(const struct buf *b, struct err *err)
{
    return gguf_from_memory(b->data, b->len, "test.gguf", err);
}

/* The bytes are refused with a message that holds what; b is freed. */
static void refused(struct buf *b, const char *what)
{
    struct err err = {0};
    struct gguf *g = open_bytes(b, &err);
    if (g) fail_msg("opened, expected '%s'", what);
    if (!strstr(err.msg, what)) fail_msg("'%s' does not say '%s'", err.msg, what);
    assert_int_equal(err.code, ERR_FORMAT);
    assert_non_null(strstr(err.msg, "test.gguf"));
    buf_free(b);
}

/* Three scalar keys, an array of strings and one of integers, two tensors. */
static void good_file(struct buf *b, uint32_t version)
{
    gb_header(b, version, 2, 6);
    gb_kv_str(b, "general.architecture", "llama");
    gb_kv_u32(b, "llama.block_count", 7);
    gb_kv(b, "x.float", GGUF_F32);
    buf_append(b, &(float){0.5f}, 4);
    gb_kv(b, "x.flag", GGUF_BOOL);
    buf_putc(b, 1);
    gb_kv_array(b, "tokens", GGUF_STRING, 3);
    gb_str(b, "alpha");
    gb_str(b, "");
    gb_str(b, "gamma");
    gb_kv_array(b, "types", GGUF_I16, 3);
    buf_append(b, (int16_t[]){-1, 2, -300}, 6);
    gb_tensor(b, "w", 4, 2, QTYPE_F32, 0);
    gb_tensor(b, "q", 32, 3, QTYPE_Q4_0, 32);
    gb_pad(b, 32);
    for (int i = 0; i < 8; i++)
        buf_append(b, &(float){(float)i}, 4);
    gb_zeros(b, 54);
}

static void check_values(const struct gguf *g)
{
    uint64_t u = 0;
    double f = 0;
    bool flag = false;
    struct gguf_str s;
    assert_true(gguf_u64(g, "llama.block_count", &u));
    assert_int_equal(u, 7);
    assert_true(gguf_f64(g, "llama.block_count", &f) && f == 7);
    assert_true(gguf_f64(g, "x.float", &f) && f == 0.5);
    assert_true(gguf_bool(g, "x.flag", &flag) && flag);
    assert_true(gguf_string(g, "general.architecture", &s));
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "llama", 5);
    u = 99;
    assert_false(gguf_u64(g, "x.float", &u) || gguf_u64(g, "absent", &u));
    assert_false(gguf_u64(g, "x.flag", &u) || gguf_u64(g, "types", &u));
    assert_int_equal(u, 99);
    assert_false(gguf_string(g, "tokens", &s) || gguf_bool(g, "x.float", &flag));
}

static void check_arrays(const struct gguf *g)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokens"), *types = gguf_find(g, "types");
    assert_true(tokens && tokens->is_array && tokens->type == GGUF_STRING && tokens->n == 3);
    struct gguf_str s = gguf_item_str(tokens, 2);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "gamma", 5);
    assert_int_equal(gguf_item_str(tokens, 1).len, 0);
    assert_true(types && types->is_array && types->n == 3);
    assert_int_equal(gguf_item_int(types, 0), -1);
    assert_int_equal(gguf_item_int(types, 2), -300);
    assert_true(gguf_item_float(types, 1) == 2.0);
}

static void test_good(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct buf b = {0};
        struct err err;
        good_file(&b, version);
        struct gguf *g = open_bytes(&b, &err);
        if (!g) fail_msg("%s", err.msg);
        assert_int_equal(gguf_version(g), version);
        assert_int_equal(gguf_n_kv(g), 6);
        assert_ptr_equal(gguf_kv_at(g, 0), gguf_find(g, "general.architecture"));
        assert_ptr_equal(gguf_kv_at(g, 5), gguf_find(g, "types"));
        assert_int_equal(gguf_file_bytes(g), b.len);
        check_values(g);
        check_arrays(g);
        assert_int_equal(gguf_n_tensors(g), 2);
        const struct gguf_tensor *w = gguf_tensor_find(g, "w"), *q = gguf_tensor_find(g, "q");
        assert_null(gguf_tensor_find(g, "v"));
        assert_true(w && w->type == QTYPE_F32 && w->n_bytes == 32 && w->ne[0] == 4);
        assert_true(w->ne[1] == 2 && w->ne[2] == 1 && w->ne[3] == 1 && w->n_dims == 2);
        assert_true(q && q->n_bytes == 54 && q->data == w->data + 32);
        float last;
        memcpy(&last, w->data + 28, 4);
        assert_true(last == 7);
        gguf_close(g);
        buf_free(&b);
    }
}

/* Cut at every length: refused each time, as the last tensor ends at the last byte. */
static void test_every_truncation(void **state)
{
    (void)state;
    struct buf b = {0};
    good_file(&b, 3);
    for (size_t n = 0; n < b.len; n++) {
        struct err err = {0};
        char *cut = malloc(n ? n : 1); /* exact, so that a sanitizer sees a read beyond it */
        memcpy(cut, b.data, n);
        assert_null(gguf_from_memory(cut, n, "test.gguf", &err));
        assert_int_equal(err.code, ERR_FORMAT);
        free(cut);
    }
    buf_free(&b);
}

static void test_header_lies(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_puts(&b, "GGML and more");
    refused(&b, "begins with 'GGML'");
    buf_puts(&b, "\x1b[2J and more");
    refused(&b, "begins with '\\x1b[2J'");
    gb_header(&b, 1, 0, 0);
    refused(&b, "version 1, expected 2 or 3");
    gb_header(&b, 3 << 24, 0, 0);
    refused(&b, "big-endian");
    gb_header(&b, 3, (uint64_t)1 << 60, 0);
    refused(&b, "claims 1152921504606846976 tensors");
    gb_header(&b, 3, 0, (uint64_t)1 << 60);
    refused(&b, "claims 1152921504606846976 keys");
    gb_header(&b, 3, 0, 2);
    gb_kv_u32(&b, "a", 1);
    gb_kv_u32(&b, "a", 2);
    refused(&b, "key 'a' occurs twice");
}

static void one_key(struct buf *b)
{
    gb_header(b, 3, 0, 1);
}

static void test_key_lies(void **state)
{
    (void)state;
    struct buf b = {0};
    one_key(&b);
    gb_u64(&b, UINT64_MAX);
    gb_zeros(&b, 100);
    refused(&b, "claims 18446744073709551615 bytes");
    one_key(&b);
    gb_kv_u32(&b, "", 1);
    gb_zeros(&b, 10);
    refused(&b, "a key has 0 bytes");
    one_key(&b);
    gb_u64(&b, 3);
    buf_append(&b, "a\0b", 3);
    gb_zeros(&b, 10);
    refused(&b, "a key holds a NUL byte");
    one_key(&b);
    gb_kv(&b, "a\x1b", (enum gguf_type)13);
    gb_zeros(&b, 8);
    refused(&b, "key 'a\\x1b': value type 13");
    one_key(&b);
    gb_kv_array(&b, "a", GGUF_ARRAY, 1);
    gb_zeros(&b, 20);
    refused(&b, "arrays of arrays");
    one_key(&b);
    gb_kv_array(&b, "a", GGUF_STRING, (uint64_t)1 << 61);
    gb_zeros(&b, 20);
    refused(&b, "claims 2305843009213693952 strings");
    one_key(&b);
    gb_kv_array(&b, "a", GGUF_F64, (uint64_t)1 << 61); /* times 8 bytes wraps to 0 */
    gb_zeros(&b, 20);
    refused(&b, "claims 2305843009213693952 values of 8 bytes");
    one_key(&b);
    gb_kv(&b, "a", GGUF_BOOL);
    buf_putc(&b, 2);
    refused(&b, "a bool is 2");
    one_key(&b);
    gb_kv_u32(&b, "general.alignment", 48);
    refused(&b, "general.alignment is 48");
    one_key(&b);
    gb_kv_u32(&b, "general.alignment", 0);
    refused(&b, "general.alignment is 0");
    one_key(&b);
    gb_kv_str(&b, "general.alignment", "32");
    refused(&b, "'general.alignment' is not an integer");
}

/* A file with one tensor of 2 x F32 rows and 64 bytes of data. */
static void tensor_file(struct buf *b, uint64_t ne0, uint64_t ne1, uint32_t type, uint64_t off)
{
    gb_header(b, 3, 1, 0);
    gb_tensor(b, "t", ne0, ne1, type, off);
    gb_pad(b, 32);
    gb_zeros(b, 64);
}

static void test_tensor_lies(void **state)
{
    (void)state;
    static const struct {
        uint64_t ne0, ne1;
        uint32_t type;
        uint64_t offset;
        const char *what;
    } lies[] = {
        {8, 2, 31, 0, "tensor 't' has type 31 (Q4_0_4_4)"},
        {8, 2, 4711, 0, "tensor 't' has type 4711 (unknown)"},
        {8, 0, QTYPE_F32, 0, "dimension 1 is 0"},
        {(uint64_t)1 << 62, 4, QTYPE_F32, 0, "cannot be"},
        {(uint64_t)1 << 62, 1, QTYPE_F32, 0, "cannot be"},
        {(uint64_t)1 << 40, 1, QTYPE_F32, 0, "4398046511104 bytes at offset 0"},
        {33, 1, QTYPE_Q4_0, 0, "rows of 33 values, expected a multiple of 32 for Q4_0"},
        {128, 1, QTYPE_Q4_K, 0, "expected a multiple of 256 for Q4_K"},
        {4, 1, QTYPE_F32, 16, "offset 16 is not a multiple of 32"},
        {16, 1, QTYPE_F32, 32,
         "64 bytes at offset 32, the file has 64 bytes of tensor data: it is cut off"},
        {4, 1, QTYPE_F32, 96, "16 bytes at offset 96, the file has 64"},
        {4, 1, QTYPE_F32, UINT64_MAX - 31, "16 bytes at offset 18446744073709551584"},
    };
    struct buf b = {0};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        tensor_file(&b, lies[i].ne0, lies[i].ne1, lies[i].type, lies[i].offset);
        refused(&b, lies[i].what);
    }
    gb_header(&b, 3, 2, 0);
    gb_tensor(&b, "t", 4, 1, QTYPE_F32, 0);
    gb_tensor(&b, "t", 4, 1, QTYPE_F32, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 64);
    refused(&b, "tensor 't' occurs twice");
    gb_header(&b, 3, 1, 0);
    gb_str(&b, "t");
    gb_u32(&b, 5);
    gb_zeros(&b, 64);
    refused(&b, "5 dimensions");
}

static void test_alignment_is_followed(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err err;
    gb_header(&b, 3, 1, 1);
    gb_kv_u32(&b, "general.alignment", 256);
    gb_tensor(&b, "t", 4, 1, QTYPE_F32, 256);
    gb_pad(&b, 256);
    size_t start = b.len;
    gb_zeros(&b, 256 + 16);
    struct gguf *g = open_bytes(&b, &err);
    if (!g) fail_msg("%s", err.msg);
    assert_ptr_equal(gguf_tensor_at(g, 0)->data, b.data + start + 256);
    gguf_close(g);
    buf_free(&b);
}

/* Part `no` of `count` with one tensor, written beside the others. */
static void write_part(const char *dir, int no, int count, int says_no, const char *tensor,
                       int n_tensors_claimed)
{
    struct buf b = {0};
    char path[512];
    gb_header(&b, 3, 1, 3);
    gb_kv_u32(&b, "split.no", (uint32_t)says_no);
    gb_kv_u32(&b, "split.count", (uint32_t)count);
    gb_kv_u32(&b, "split.tensors.count", (uint32_t)n_tensors_claimed);
    gb_tensor(&b, tensor, 4, 1, QTYPE_F32, 0);
    gb_pad(&b, 32);
    for (int i = 0; i < 4; i++)
        buf_append(&b, &(float){(float)no}, 4);
    snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", dir, no + 1, count);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(b.data, 1, b.len, f);
    fclose(f);
    buf_free(&b);
}

static void open_split(const char *dir, const char *name, const char *want_error)
{
    char path[512];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    struct gguf *g = gguf_open(path, &err);
    if (want_error) {
        if (g) fail_msg("opened, expected '%s'", want_error);
        if (!strstr(err.msg, want_error)) fail_msg("'%s': no '%s'", err.msg, want_error);
        return;
    }
    if (!g) fail_msg("%s", err.msg);
    assert_int_equal(gguf_n_tensors(g), 3);
    const char *part;
    size_t n_bytes = 0;
    for (size_t i = 0; i < 3; i++)
        n_bytes += gguf_file(g, i, &part)->n_bytes;
    assert_int_equal(gguf_file_bytes(g), n_bytes);
    assert_null(gguf_file(g, 3, &part));
    for (size_t i = 0; i < 3;
         i++) /* of the file it lies in; it is read again when it is asked for */
        gguf_tensor_release(g, gguf_tensor_at(g, i));
    for (int i = 0; i < 3; i++) {
        float v;
        memcpy(&v, gguf_tensor_find(g, (const char *[]){"a", "b", "c"}[i])->data, 4);
        assert_true(v == (float)i);
    }
    gguf_close(g);
}

static void test_split(void **state)
{
    (void)state;
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 40], other[SCRATCH_PATH + 40];
    scratch_folder(dir, "gguf");
    write_part(dir, 0, 3, 0, "a", 3);
    write_part(dir, 1, 3, 1, "b", 3);
    open_split(dir, "m-00001-of-00003.gguf", "m-00003-of-00003.gguf: No such file");
    write_part(dir, 2, 3, 2, "c", 3);
    open_split(dir, "m-00001-of-00003.gguf", NULL);
    open_split(dir, "m-00002-of-00003.gguf", "is file 2 of a model of 3 files, name the first");
    write_part(dir, 2, 3, 2, "a", 3);
    open_split(dir, "m-00001-of-00003.gguf", "tensor 'a' occurs twice");
    write_part(dir, 2, 3, 1, "c", 3);
    open_split(dir, "m-00001-of-00003.gguf", "says it is file 2 of 3, expected 3 of 3");
    write_part(dir, 2, 3, 2, "c", 3);
    write_part(dir, 0, 3, 0, "a", 4);
    open_split(dir, "m-00001-of-00003.gguf", "split.tensors.count is 4, the files hold 3");
    write_part(dir, 0, 3, 0, "a", 0);
    open_split(dir, "m-00001-of-00003.gguf", "split.tensors.count is 0, the files hold 3");
    snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", dir);
    snprintf(other, sizeof other, "%s/other.gguf", dir);
    assert_int_equal(rename(path, other), 0);
    open_split(dir, "other.gguf", "ends in -00001-of-00003.gguf");
    scratch_remove(dir);
}

/* A model of several files that were put together again says that it is of 0. */
static void test_merged(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err err = {0};
    gb_header(&b, 3, 1, 3);
    gb_kv_u32(&b, "split.no", 0);
    gb_kv_u32(&b, "split.count", 0);
    gb_kv_u32(&b, "split.tensors.count", 1);
    gb_tensor(&b, "a", 4, 1, QTYPE_F32, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 16);
    struct gguf *g = open_bytes(&b, &err);
    if (!g) fail_msg("%s", err.msg);
    assert_int_equal(gguf_n_tensors(g), 1);
    gguf_close(g);
    buf_free(&b);
}

/* Numbers of files that cannot be, and files where there are none. */
static void test_split_lies(void **state)
{
    (void)state;
    static const struct {
        uint32_t no, count;
        const char *what;
    } cases[] = {{0, 2, "a split model cannot be read from memory"},
                 {0, 99999, "a split model cannot be read from memory"},
                 {1, 2, "is file 2 of a model of 2 files, name the first one"},
                 {2, 2, "split.no is 2, split.count is 2, expected 0 <= no < count <= 99999"},
                 {0, 100000, "split.count is 100000, expected"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {0};
        gb_header(&b, 3, 0, 2);
        gb_kv_u32(&b, "split.no", cases[i].no);
        gb_kv_u32(&b, "split.count", cases[i].count);
        refused(&b, cases[i].what);
    }
}

static void test_not_files(void **state)
{
    (void)state;
    struct err err;
    assert_null(gguf_open("/nonexistent/x.gguf", &err));
    assert_int_equal(err.code, ERR_IO);
    assert_null(gguf_open("tests", &err));
    assert_non_null(strstr(err.msg, "directory"));
    gguf_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_header_lies), cmocka_unit_test(test_key_lies),
        cmocka_unit_test(test_tensor_lies), cmocka_unit_test(test_alignment_is_followed),
        cmocka_unit_test(test_split),       cmocka_unit_test(test_merged),
        cmocka_unit_test(test_split_lies),  cmocka_unit_test(test_not_files),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
