/* hearth(1) lists the commands of the chat's table, in its order, with their other names and
 * what follows them, and the keys of the full screen with what they do. (What the program
 * prints of itself is compared by tests/shell/man.sh.) */
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
#include "ui/actions.h"

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

/* The page from the heading of a section on, which ends before the next one. */
static char *section_of(struct buf *page, const char *heading)
{
    struct err err;
    if (!file_read("man/hearth.1", 1 << 20, page, &err)) fail_msg("%s", err.msg);
    char *section = strstr(page->data, heading);
    assert_non_null(section);
    char *end = strstr(section + 1, "\n.SH ");
    assert_non_null(end);
    *end = '\0';
    return section;
}

/* The next paragraph with a tag, and the first line of its text. */
static bool next_item(char **rest, struct buf *tag, struct buf *text)
{
    char *line;
    buf_clear(tag);
    buf_clear(text);
    while ((line = strsep(rest, "\n")))
        if (strcmp(line, ".TP") == 0) break;
    if (!line || !(line = strsep(rest, "\n"))) return false;
    read_line(line, tag);
    if ((line = strsep(rest, "\n"))) read_line(line, text);
    return true;
}

static void test_commands(void **state)
{
    (void)state;
    struct buf page = {0}, page_tag = {0}, text = {0}, tag = {0};
    char *rest = section_of(&page, ".SH COMMANDS\n");
    size_t n = 0;
    while (next_item(&rest, &page_tag, &text)) {
        const struct command *row = command_at(n++);
        if (!row) fail_msg("hearth(1) lists '%s', the table ends before", buf_str(&page_tag));
        buf_clear(&tag);
        tag_of(row, &tag);
        assert_string_equal(buf_str(&page_tag), buf_str(&tag));
    }
    if (command_at(n)) fail_msg("hearth(1) does not list /%s", command_at(n)->name);
    assert_true(n > 10);
    buf_free(&page);
    buf_free(&page_tag);
    buf_free(&text);
    buf_free(&tag);
}

/* "F6, C-x /" as "F6, Ctrl-X /" */
static void put_keys(const char *keys, struct buf *out)
{
    for (; *keys; keys++)
        if (strncmp(keys, "C-", 2) == 0)
            buf_printf(out, "Ctrl-%c", keys[2] - 'a' + 'A'), keys += 2;
        else
            buf_putc(out, *keys);
}

/* The items of the page are the actions that have such keys, in their order, with what each
 * does; beside the line with its name for the inputrc. */
static void check_keys(char **rest, bool beside_line)
{
    struct buf page_tag = {0}, page_text = {0}, tag = {0}, text = {0};
    for (int i = 1; i < N_ACTIONS; i++) {
        const struct action_row *row = action_row((enum action)i);
        const char *keys = beside_line ? row->line : row->view;
        if (!*keys) continue;
        if (!next_item(rest, &page_tag, &page_text)) fail_msg("hearth(1) lacks %s", keys);
        buf_clear(&tag);
        buf_clear(&text);
        put_keys(keys, &tag);
        buf_printf(&text, "%c%s", row->help[0] - 'a' + 'A', row->help + 1);
        if (beside_line) buf_printf(&text, " (%s)", row->name);
        buf_putc(&text, '.');
        assert_string_equal(buf_str(&page_tag), buf_str(&tag));
        assert_string_equal(buf_str(&page_text), buf_str(&text));
    }
    buf_free(&page_tag);
    buf_free(&page_text);
    buf_free(&tag);
    buf_free(&text);
}

static void test_keys(void **state)
{
    (void)state;
    struct buf page = {0}, tag = {0}, text = {0};
    char *rest = section_of(&page, ".SH THE FULL SCREEN\n");
    check_keys(&rest, true);
    check_keys(&rest, false);
    if (next_item(&rest, &tag, &text)) fail_msg("no key: %s", buf_str(&tag));
    buf_free(&page);
    buf_free(&tag);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_commands),
                                       cmocka_unit_test(test_keys)};
    return cmocka_run_group_tests_name("manual", tests, NULL, NULL);
}
