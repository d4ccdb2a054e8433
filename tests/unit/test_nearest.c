/* The word that was probably meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/nearest.h"

static void test_nearest(void **state)
{
    (void)state;
    assert_int_equal(nearest_distance("", ""), 0);
    assert_int_equal(nearest_distance("abc", ""), 3);
    assert_int_equal(nearest_distance("kitten", "sitting"), 3);
    assert_int_equal(nearest_distance("tmep", "temp"), 1);
    assert_int_equal(nearest_distance("Temp", "tEMP"), 0);
    char longer[100];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(nearest_distance(longer, "a"), 100);
    struct nearest n;
    nearest_begin(&n, "sys");
    nearest_offer(&n, "seed");
    nearest_offer(&n, "system");
    assert_string_equal(n.best, "system");
    nearest_begin(&n, "q");
    nearest_offer(&n, "quit");
    assert_null(n.best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
