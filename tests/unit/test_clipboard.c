#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ui/clipboard.h"

/* The test vectors of RFC 4648. */
static void test_sequence(void **unused)
{
    (void)unused;
    static const char *const cases[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xff\xfe\xfd", "//79"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = {0}, want = {0};
        clipboard_sequence(cases[i][0], strlen(cases[i][0]), &out);
        buf_printf(&want, "\033]52;c;%s\033\\", cases[i][1]);
        assert_string_equal(buf_str(&out), buf_str(&want));
        buf_free(&out);
        buf_free(&want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sequence)};
    return cmocka_run_group_tests_name("clipboard", tests, NULL, NULL);
}
