/* Messages of errors: one line, nothing in it moves a cursor, cut with a sign that it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void test_printable(void **state)
{
    (void)state;
    struct err err;
    assert_false(err_set(&err, ERR_IO, "%s: line %d", "a\x1b[2J\nb\xff \xc3\xa9", 3));
    assert_int_equal(err.code, ERR_IO);
    assert_string_equal(err.msg, "a\\x1b[2J\\nb\\xff \xc3\xa9: line 3");
    assert_false(err_prefix(&err, "%s", "file\r\xe2\x80\xae"));
    assert_int_equal(err.code, ERR_IO);
    assert_string_equal(err.msg, "file\\r\\u{202e}: a\\x1b[2J\\nb\\xff \xc3\xa9: line 3");
}

static void test_long(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    struct err err;
    err_set(&err, ERR_USER, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_string_equal(err.msg + sizeof err.msg - 5, "x...");
    err_prefix(&err, "name");
    assert_memory_equal(err.msg, "name: xxx", 9);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_string_equal(err.msg + sizeof err.msg - 5, "x...");
    memset(text, '\x01', sizeof text - 1); /* each takes four characters */
    err_set(&err, ERR_USER, "%s", text);
    assert_true(strlen(err.msg) < sizeof err.msg);
    assert_string_equal(err.msg + strlen(err.msg) - 7, "\\x01...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
