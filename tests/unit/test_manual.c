/* hearth(1) lists the commands of the chat's table, in its order, with their other names and
 * what follows them. (What the program prints of itself is compared by tests/shell/man.sh.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "chat/commands.h"

/* A line of the page as it is read: without its macro, fonts and quotes, "\-" as "-". */
static void read_line(const char *line, struct buf *out)
{
    if (*line == '.') line += strcspn(line, " ") + 1;
    for (; *line; line++) {
        if (line[0] == '\\' && line[1] == 'f')
            line += 2;
        else if (line[0] == '\\')
            continue;
        else if (*line != '"')
            buf_putc(out, *line);
    }
}

/* "/retry, /regen [seed]" */
static void tag_of(const struct command *row, struct buf *out)
{
    buf_printf(out, "/%s", row->name);
    for (size_t i = 0; i < sizeof row->aliases / sizeof *row->aliases; i++)
        if (row->aliases[i]) buf_printf(out, ", /%s", row->aliases[i]);
    if (*row->args) buf_printf(out, " %s", row->args);
}

static void test_commands(void **state)
{
    (void)state;
    struct buf page = {0};
    struct err err;
    if (!file_read("man/hearth.1", 1 << 20, &page, &err)) fail_msg("%s", err.msg);
    char *section = strstr(page.data, ".SH COMMANDS\n");
    assert_non_null(section);
    char *end = strstr(section + 1, "\n.SH ");
    assert_non_null(end);
    *end = '\0';

    size_t n = 0;
    char *rest = section;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strcmp(line, ".TP") != 0 || !(line = strsep(&rest, "\n"))) continue;
        struct buf page_tag = {0}, tag = {0};
        const struct command *row = command_at(n++);
        read_line(line, &page_tag);
        if (!row) fail_msg("hearth(1) lists '%s', the table ends before", buf_str(&page_tag));
        tag_of(row, &tag);
        assert_string_equal(buf_str(&page_tag), buf_str(&tag));
        buf_free(&page_tag);
        buf_free(&tag);
    }
    if (command_at(n)) fail_msg("hearth(1) does not list /%s", command_at(n)->name);
    assert_true(n > 10);
    buf_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_commands)};
    return cmocka_run_group_tests_name("manual", tests, NULL, NULL);
}
