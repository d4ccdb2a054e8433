/* The table of commands is whole and consistent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "chat/commands.h"
#include "config/options.h"

static void test_rows(void **unused)
{
    (void)unused;
    const struct command *row;
    size_t n = 0;
    for (size_t i = 0; (row = command_at(i)) != NULL; i++, n++) {
        const char *names[3] = {row->name, row->aliases[0], row->aliases[1]};
        for (size_t k = 0; k < 3 && names[k]; k++) {
            assert_true(strspn(names[k], "abcdefghijklmnopqrstuvwxyz?") == strlen(names[k]));
            assert_ptr_equal(command_find(names[k], strlen(names[k])), row);
        }
        assert_true(row->run && row->args && row->more && *row->help);
        /* In 80 columns a row of /help is one line, also in the full screen's dialog. */
        assert_true(strlen(row->help) <= 48);
        assert_true(row->help[strlen(row->help) - 1] != '.');
        assert_true(!*row->more || row->more[strlen(row->more) - 1] == '.');
        assert_int_equal(row->kind == WORDS_LIST || row->kind == WORDS_LIST_OR_FILE,
                         row->words != NULL);
        assert_true(row->kind == WORDS_NONE || *row->args);
    }
    assert_true(n > 10);
}

static void test_exact(void **unused)
{
    (void)unused;
    assert_non_null(command_find("undo", 4));
    assert_null(command_find("undo", 3));
    assert_null(command_find("undox", 5));
    assert_null(command_find("Undo", 4));
    assert_null(command_find("", 0));
    assert_ptr_equal(command_find("exit", 4), command_find("quit", 4));
    assert_ptr_equal(command_find("new", 3), command_find("clear", 5));
    assert_ptr_equal(command_find("regen", 5), command_find("retry", 5));
}

/* /think takes the words of --think. */
static void test_words(void **unused)
{
    (void)unused;
    assert_string_equal(command_find("think", 5)->words, option_row(OPT_THINK)->words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
