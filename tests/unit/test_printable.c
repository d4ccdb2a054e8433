#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/printable.h"

/* Of text, which lies alone, so that reading on is seen where addresses are checked. */
static void check(const char *text, size_t n, size_t cap, const char *want)
{
    char out[256], *in = malloc(n);
    assert_true(in || n == 0);
    if (n > 0) memcpy(in, text, n);
    memset(out, '#', sizeof out);
    assert_string_equal(printable(out, cap, in, n), want);
    free(in);
    assert_true(strlen(out) < cap);
    assert_int_equal(out[cap], '#');
}

static void test_escapes(void **state)
{
    (void)state;
    check("blk.0.attn_q.weight", 19, 64, "blk.0.attn_q.weight");
    check("", 0, 8, "");
    check("a\nb\tc\rd", 7, 64, "a\\nb\\tc\\rd");
    check("\x1b[31mred", 8, 64, "\\x1b[31mred");
    check("nul\0!", 5, 64, "nul\\x00!");
    check("\x7f", 1, 64, "\\x7f");
    check("\xc2\x9b", 2, 64, "\\u{9b}");       /* C1: CSI */
    check("\xe2\x80\xae", 3, 64, "\\u{202e}"); /* right-to-left override */
    check("\xe2\x80\x8b", 3, 64, "\\u{200b}"); /* zero-width space */
    check("caf\xc3\xa9 \xe2\x82\xac", 9, 64, "caf\xc3\xa9 \xe2\x82\xac");
    check("\xff\xfe", 2, 64, "\\xff\\xfe");
    check("\xc3", 1, 64, "\\xc3");
}

static void test_joiners(void **state)
{
    (void)state;
    /* Persian for "I go", and a family of emoji. */
    check("\u0645\u06cc\u200c\u0631", 9, 64, "\u0645\u06cc\u200c\u0631");
    check("\U0001f469\u200d\U0001f467", 11, 64, "\U0001f469\u200d\U0001f467");
    check("a\u200cb", 5, 64, "a\\u{200c}b");
    check("\u200d\u06cc", 5, 64, "\\u{200d}\u06cc");
    check("\u06cc\u200c", 5, 64, "\u06cc\\u{200c}");
    check("\u06cc\u200c\u200c\u0631", 10, 64, "\u06cc\\u{200c}\\u{200c}\u0631");
    check("\U0001f469\u200c\U0001f467", 11, 64, "\U0001f469\\u{200c}\U0001f467");
    check("\u06cc\u200c\u0631\u0631\u0631", 11, 10, "\u06cc...");
    /* What stands behind the text is none of it. */
    check("\U0001f469\u200d\U0001f467", 7, 64, "\U0001f469\\u{200d}");
}

static void test_cut(void **state)
{
    (void)state;
    check("1234567", 7, 8, "1234567");
    check("12345678", 8, 8, "1234...");
    check("123\x1bxyzw", 8, 11, "123\\x1b...");
    check("123\x1bxyzw", 8, 10, "123...");
    check("12\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 11, 9, "12\xe2\x82\xac...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_joiners),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests_name("printable", tests, NULL, NULL);
}
