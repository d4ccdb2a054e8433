/* The schemas that messages bring: one that comes again is the same grammar, and no more are
 * kept than are meant to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "chat/schemas.h"

static const struct grammar *find(struct schemas *s, size_t i)
{
    struct err err = {0};
    char text[48];
    snprintf(text, sizeof text, "{\"const\":%zu}", i);
    const struct grammar *g = schemas_find(s, text, &err);
    assert_non_null(g);
    return g;
}

static bool keeps(const struct schemas *s, size_t i)
{
    char text[48];
    snprintf(text, sizeof text, "{\"const\":%zu}", i);
    for (size_t k = 0; k < SCHEMAS_KEPT; k++)
        if (s->kept[k].text && strcmp(s->kept[k].text, text) == 0) return true;
    return false;
}

static void test_again(void **state)
{
    (void)state;
    struct schemas s = {0};
    const struct grammar *first[SCHEMAS_KEPT];
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < SCHEMAS_KEPT; i++) {
            const struct grammar *g = find(&s, i);
            if (round == 0) first[i] = g;
            assert_ptr_equal(g, first[i]);
        }
    find(&s, 0); /* so that 1 is the oldest */
    find(&s, SCHEMAS_KEPT);
    assert_true(keeps(&s, 0) && keeps(&s, 2) && keeps(&s, SCHEMAS_KEPT));
    assert_false(keeps(&s, 1));
    schemas_free(&s);
    assert_false(keeps(&s, 0));
}

/* What is refused makes no room. */
static void test_refused(void **state)
{
    (void)state;
    struct schemas s = {0};
    struct err err = {0};
    for (size_t i = 0; i < SCHEMAS_KEPT; i++)
        find(&s, i);
    assert_null(schemas_find(&s, "{\"not\":{}}", &err));
    assert_true(strstr(err.msg, "'not'") != NULL);
    char *longer = mem_alloc(SCHEMA_MAX_BYTES + 2);
    memset(longer, ' ', SCHEMA_MAX_BYTES + 1);
    longer[0] = '{', longer[SCHEMA_MAX_BYTES] = '}', longer[SCHEMA_MAX_BYTES + 1] = '\0';
    assert_null(schemas_find(&s, longer, &err));
    assert_string_equal(err.msg, "expected at most 1048576 bytes, found 1048577");
    longer[SCHEMA_MAX_BYTES - 1] = '}', longer[SCHEMA_MAX_BYTES] = '\0';
    for (size_t i = 0; i < SCHEMAS_KEPT; i++)
        assert_true(keeps(&s, i));
    const struct grammar *g = schemas_find(&s, longer, &err);
    assert_non_null(g);
    assert_non_null(schemas_find(&s, "json", &err));
    assert_ptr_equal(schemas_find(&s, longer, &err), g);
    free(longer);
    schemas_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("schemas", tests, NULL, NULL);
}
