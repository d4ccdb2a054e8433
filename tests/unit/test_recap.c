/* What is shown again of a text: its last lines, few of them, and not the middle of a word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ui/recap.h"

static void is(const char *text, size_t n_lines, size_t n_bytes, const char *want)
{
    assert_string_equal(text + recap_tail(text, strlen(text), n_lines, n_bytes), want);
}

static void lines(void **unused)
{
    (void)unused;
    is("", 2, 100, "");
    is("one", 1, 100, "one");
    is("one\ntwo\nthree", 3, 100, "one\ntwo\nthree");
    is("one\ntwo\nthree", 2, 100, "two\nthree");
    is("one\ntwo\nthree", 1, 100, "three");
    /* A line break at the end begins no line. */
    is("one\ntwo\n", 1, 100, "two\n");
    is("one\n\ntwo\n", 2, 100, "\ntwo\n");
}

static void bytes(void **unused)
{
    (void)unused;
    is("one two three", 9, 13, "one two three");
    is("one two three", 9, 12, "two three");
    is("one two three", 9, 9, "two three");
    is("one two three", 9, 8, "three");
    is("onetwothree", 9, 5, "three");
    is("one\ntwo three four", 9, 16, "two three four");
    is("one two three four\nx", 9, 17, "two three four\nx");
    is("one two\nthree four", 9, 14, "three four");
    /* In whole characters. */
    is("\xc3\xa9\xc3\xa9\xc3\xa9", 9, 3, "\xc3\xa9");
    is("\xc3\xa9\xc3\xa9\xc3\xa9", 9, 4, "\xc3\xa9\xc3\xa9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
