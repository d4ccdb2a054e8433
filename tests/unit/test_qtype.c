#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/half.h"
#include "gguf/qblocks.h"
#include "gguf/qtype.h"

static void read_data(const char *name, struct buf *out)
{
    char path[256];
    struct err err;
    snprintf(path, sizeof path, "tests/data/quants/%s", name);
    if (!file_read(path, 1 << 24, out, &err)) fail_msg("%s", err.msg);
}

/* One type of the manifest: every value of every row, as bits. */
static void check_type(const json_t *t)
{
    const char *name = json_string_value(json_object_get(t, "type"));
    size_t n_values = (size_t)json_integer_value(json_object_get(t, "rows")) *
                      (size_t)json_integer_value(json_object_get(t, "row_elements"));
    const struct qtype_info *info = qtype_by_name(name);
    assert_non_null(info);
    assert_int_equal(info->type, json_integer_value(json_object_get(t, "ggml_type_id")));
    assert_int_equal(info->block_len, json_integer_value(json_object_get(t, "block_elements")));
    assert_int_equal(info->block_bytes, json_integer_value(json_object_get(t, "block_bytes")));

    struct buf raw = {0}, values = {0};
    read_data(json_string_value(json_object_get(t, "raw")), &raw);
    read_data(json_string_value(json_object_get(t, "values")), &values);
    assert_int_equal(raw.len, qtype_bytes(info->type, n_values));
    assert_int_equal(values.len, n_values * sizeof(float));

    /* Blocks of a file may lie at an odd address. */
    char *odd = malloc(raw.len + 1);
    memcpy(odd + 1, raw.data, raw.len);
    float *out = malloc(values.len);
    qtype_dequant(info->type, odd + 1, n_values, out);
    for (size_t i = 0; i < n_values; i++)
        if (memcmp(&out[i], values.data + 4 * i, 4) != 0)
            fail_msg("%s: value %zu is %a", name, i, (double)out[i]);
    free(out);
    free(odd);
    buf_free(&raw);
    buf_free(&values);
}

static void test_conformance_blocks(void **state)
{
    (void)state;
    struct buf text = {0};
    read_data("manifest.json", &text);
    json_error_t error;
    json_t *manifest = json_loadb(text.data, text.len, 0, &error);
    if (!manifest) fail_msg("manifest.json: %s", error.text);
    json_t *types = json_object_get(manifest, "types"), *t;
    size_t i, n_seen = 0;
    json_array_foreach(types, i, t)
    {
        check_type(t);
        n_seen++;
    }
    assert_int_equal(n_seen, 27); /* all of ours but F32 */
    json_decref(manifest);
    buf_free(&text);
}

/* Every half against the value that its fields say, scaled by exact powers of two. */
static void test_every_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
        float got = half_f16_to_f32((uint16_t)h);
        if (exponent == 31 && mantissa) {
            assert_true(isnan(got));
            continue;
        }
        double want = exponent == 31  ? (double)INFINITY
                      : exponent == 0 ? ldexp(mantissa, -24)
                                      : ldexp(1024 + mantissa, exponent - 25);
        if (h & 0x8000) want = -want;
        float f = (float)want;
        assert_memory_equal(&got, &f, sizeof f);
    }
}

static void test_bf16_and_e8m0(void **state)
{
    (void)state;
    assert_true(half_bf16_to_f32(0x3f80) == 1.0f);
    assert_true(half_bf16_to_f32(0xc2f7) == -123.5f);
    for (int e = 0; e < 255; e++) {
        float want = (float)ldexp(1, e - 128), got = qblock_e8m0_half((uint8_t)e);
        assert_memory_equal(&got, &want, sizeof want);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_ptr_equal(qtype_by_name("q4_k"), qtype_info(QTYPE_Q4_K));
    assert_null(qtype_by_name("Q4"));
    assert_null(qtype_info(31));
    assert_string_equal(qtype_foreign_name(31), "Q4_0_4_4");
    assert_string_equal(qtype_foreign_name(38), "IQ4_NL_8_8");
    assert_string_equal(qtype_foreign_name(41), "Q1_0");
    assert_string_equal(qtype_foreign_name(42), "Q2_0");
    assert_string_equal(qtype_foreign_name(12), "Q4_K");
    assert_string_equal(qtype_foreign_name(4711), "unknown");
    size_t n = 0;
    for (; qtype_at(n); n++)
        assert_ptr_equal(qtype_by_name(qtype_at(n)->name), qtype_at(n));
    assert_int_equal(n, 28);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conformance_blocks),
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_bf16_and_e8m0),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("qtype", tests, NULL, NULL);
}
