/* Sizes, counts and times as a person reads them. */
#include "base/readable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/buf.h"

static void test_sizes(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t n;
        const char *want;
    } rows[] = {
        {0, "0 bytes"},
        {1, "1 byte"},
        {1023, "1023 bytes"},
        {1024, "1 KiB"},
        {9 << 10, "9 KiB"},
        {10230, "9.99 KiB"},
        {10235, "10 KiB"},
        {102348, "99.9 KiB"},
        {102349, "100 KiB"},
        {1000 << 10, "1000 KiB"},
        {(1023 << 10) + 511, "1023 KiB"},
        {(1023 << 10) + 512, "1 MiB"},
        {(uint64_t)1536 << 20, "1.5 GiB"},
        {(uint64_t)139 << 30, "139 GiB"},
        {UINT64_MAX, "16 EiB"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[READABLE_BYTES];
        assert_string_equal(readable_size(out, rows[i].n), rows[i].want);
    }
}

static void test_counts(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t n;
        const char *number, *count, *column;
    } rows[] = {
        {0, "0", "0 files", "  0 files"},
        {1, "1", "1 file", "  1 file "},
        {2, "2", "2 files", "  2 files"},
        {999, "999", "999 files", "999 files"},
        {1000, "1,000", "1,000 files", "1,000 files"},
        {1234567, "1,234,567", "1,234,567 files", "1,234,567 files"},
        {UINT64_MAX, "18,446,744,073,709,551,615", "18,446,744,073,709,551,615 files",
         "18,446,744,073,709,551,615 files"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[READABLE_BYTES];
        assert_string_equal(readable_number(out, rows[i].n), rows[i].number);
        assert_string_equal(readable_count(out, rows[i].n, "file"), rows[i].count);
        assert_string_equal(readable_count_column(out, rows[i].n, "file"), rows[i].column);
    }
}

static void test_columns(void **unused)
{
    (void)unused;
    struct buf out = {0};
    readable_column(&out, "abc", 5), buf_putc(&out, '|');
    readable_column(&out, "\u00fcn\u00ef", 5), buf_putc(&out, '|');
    readable_column(&out, "\u4f1a\u8bdd", 5), buf_putc(&out, '|');
    readable_column(&out, "abcdef", 5), buf_putc(&out, '|');
    assert_string_equal(out.data, "abc  |\u00fcn\u00ef  |\u4f1a\u8bdd |abcdef|");
    buf_free(&out);
}

static void test_times(void **unused)
{
    (void)unused;
    char out[READABLE_BYTES];
    setenv("TZ", "UTC", 1);
    tzset();
    assert_string_equal(readable_time(out, 0), "1970-01-01 00:00");
    assert_string_equal(readable_time(out, 1795183659), "2026-11-20 14:07");
    assert_string_equal(readable_time(out, INT64_MAX), "9223372036854775807");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests_name("readable", tests, NULL, NULL);
}
