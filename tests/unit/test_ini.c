/* The INI file: every error with its file and line, and values as they come out. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../scratch.h"
#include "base/buf.h"
#include "config/ini.h"

static void refused(const char *text, const char *want)
{
    struct err err = {0};
    struct ini *ini = ini_parse(text, strlen(text), "t.ini", &err);
    if (ini) print_error("accepted: %s\n", text);
    assert_null(ini);
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(err.msg, want);
}

static struct ini *parsed(const char *text)
{
    struct err err = {0};
    struct ini *ini = ini_parse(text, strlen(text), "t.ini", &err);
    if (!ini) print_error("refused: %s\n", err.msg);
    assert_non_null(ini);
    return ini;
}

/* The only entry of "KEY = VALUE" lines of [hearth]. */
static void value(const char *line, const char *want)
{
    struct buf text = {0};
    buf_printf(&text, "[hearth]\n%s\n", line);
    struct ini *ini = parsed(buf_str(&text));
    size_t n;
    const struct ini_entry *e = ini_entries(ini, &n);
    assert_int_equal(n, 1);
    assert_string_equal(e->value, want);
    assert_int_equal(e->line, 2);
    ini_free(ini);
    buf_free(&text);
}

static void test_sections(void **state)
{
    (void)state;
    struct ini *ini = parsed("\xef\xbb\xbf# before\r\n"
                             "model = a.gguf\r\n"
                             "\r\n"
                             "[profile Code]  ; one\r\n"
                             "temp=0\r\n"
                             "  [ profile   b.2_x- ]\n"
                             "TEMP = 1 # hot\n"
                             "top-k=5");
    size_t n;
    const struct ini_entry *e = ini_entries(ini, &n);
    assert_int_equal(n, 4);
    assert_null(e[0].profile);
    assert_string_equal(e[0].key, "model");
    assert_string_equal(e[0].value, "a.gguf");
    assert_int_equal(e[0].line, 2);
    assert_string_equal(e[1].profile, "code");
    assert_string_equal(e[1].value, "0");
    assert_int_equal(e[1].line, 5);
    assert_string_equal(e[2].profile, "b.2_x-");
    assert_string_equal(e[2].key, "temp");
    assert_string_equal(e[2].value, "1");
    assert_string_equal(e[3].value, "5");
    assert_int_equal(e[3].line, 8);
    assert_int_equal(ini_n_profiles(ini), 2);
    assert_string_equal(ini_profile(ini, 0), "code");
    assert_string_equal(ini_profile(ini, 1), "b.2_x-");
    ini_free(ini);

    ini = parsed("");
    ini_entries(ini, &n);
    assert_int_equal(n, 0);
    ini_free(ini);
    ini = parsed("# nothing\n\n[hearth]\n[profile empty]\n");
    ini_entries(ini, &n);
    assert_int_equal(n, 0);
    assert_int_equal(ini_n_profiles(ini), 1);
    ini_free(ini);
}

static void test_names(void **state)
{
    (void)state;
    static const char good[] = "azAZ09._-";
    assert_true(ini_is_name(good, strlen(good)));
    assert_false(ini_is_name(good, 0));
    for (const char *bad = "`{@[/:, "; *bad; bad++)
        assert_false(ini_is_name(bad, 1));
}

static void test_values(void **state)
{
    (void)state;
    value("model = a b.gguf", "a b.gguf");
    value("model =   a   ", "a");
    value("model=", "");
    value("model = \"\"", "");
    value("model = ''", "");
    value("model = ; nothing", "");
    value("model = a ; b", "a");
    value("model = a\t# b", "a");
    value("model = \"a ; b # c\" ; d", "a ; b # c");
    value("model = '  C# \\n \"x\" '", "  C# \\n \"x\" ");
    value("model = \"say \\\"hi\\\" \\\\ there\"", "say \"hi\" \\ there");
    value("model = \"one\\ntwo\\tthree\"", "one\ntwo\tthree");
    value("model = it's \"so\"", "it's \"so\"");
    value("model = a=b = c", "a=b = c");
    value("model = C:\\dir\\file", "C:\\dir\\file");
    value("model = tab\there", "tab\there");
    value("model = [x]", "[x]");
    value("model = na\xc3\xafve \xe2\x82\xac", "na\xc3\xafve \xe2\x82\xac");
    value("model = %s %n %d", "%s %n %d");
}

static void test_continued(void **state)
{
    (void)state;
    /* A comment never goes on, nor where it is the first line. */
    struct ini *first = parsed("# in C:\\\ntemp = 1\n");
    size_t n_first;
    ini_entries(first, &n_first);
    assert_int_equal(n_first, 1);
    ini_free(first);
    struct ini *ini = parsed("[hearth]\nsystem = You are \\\n   brief, \\\n\tand kind.\n"
                             "# a comment ends in \\\ntemp = 1\nstop = \"a \\\nb\"\n"
                             "output = x\\\\\n");
    size_t n;
    const struct ini_entry *e = ini_entries(ini, &n);
    assert_int_equal(n, 4);
    assert_string_equal(e[0].value, "You are brief, and kind.");
    assert_int_equal(e[0].line, 2);
    assert_int_equal(e[1].line, 6);
    assert_string_equal(e[2].value, "a b");
    assert_int_equal(e[2].line, 7);
    assert_string_equal(e[3].value, "x\\\\");
    ini_free(ini);
    /* An even number of backslashes joins nothing, behind a line that went on neither. */
    ini = parsed("system = \"a \\\nb\\\\\\\n\\\"c\"\noutput = x \\\ny\\\\\ntemp = 1\n");
    e = ini_entries(ini, &n);
    assert_int_equal(n, 3);
    assert_string_equal(e[0].value, "a b\\\"c");
    assert_string_equal(e[1].value, "x y\\\\");
    ini_free(ini);
    refused("a = b\\", "t.ini:1: the last line ends in a backslash");
    refused("a = \\\n\\\n \\\nb\"\nc = d\nc = e", "t.ini:6: c is set twice, first in line 5");
}

static void test_errors(void **state)
{
    (void)state;
    refused("[hearth]\ntemp 1\n", "t.ini:2: expected KEY = VALUE, found 'temp 1'");
    refused("[hearth]\n= 1\n", "t.ini:2: expected a key before '='");
    refused("[hearth]\nto p = 1\n", "t.ini:2: unknown key to p");
    refused("\n[hearth\n", "t.ini:2: expected ']' at the end of the section's name");
    refused("[hearth] x\n", "t.ini:1: expected nothing after ']'");
    refused("[Model]\n", "t.ini:1: unknown section [Model], expected [hearth] or "
                         "[profile NAME]");
    static const char *const near[] = {"hearts", "hearths", "hearth x", "profilx a",
                                       "profilea"};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        char text[40], want[100];
        snprintf(text, sizeof text, "[%s]\n", near[i]);
        snprintf(want, sizeof want,
                 "t.ini:1: unknown section [%s], expected [hearth] or [profile NAME]", near[i]);
        refused(text, want);
    }
    refused("[]\n", "t.ini:1: unknown section [], expected [hearth] or [profile NAME]");
    refused("[profile]\n",
            "t.ini:1: unknown section [profile], expected [hearth] or [profile NAME]");
    refused("[profile a:b]\n", "t.ini:1: a profile's name has letters, digits, '.', '_' and "
                               "'-', found 'a:b'");
    refused("[profile \x1b]\n", "t.ini:1: a control character: 0x1b");
    refused("[hearth]\n[profile x]\n[HEARTH]\n",
            "t.ini:3: [hearth] is there twice, first in line 1");
    refused("a = 1\n[hearth]\nb = 1\n", "t.ini:2: [hearth] is there twice, first in line 1");
    refused("[profile x]\n\n[profile X]\n",
            "t.ini:3: [profile x] is there twice, first in line 1");
    refused("[hearth]\ntemp = 1\n\nTemp = 2\n", "t.ini:4: temp is set twice, first in line 2");
    refused("[profile x]\nt = 1\nt = 1", "t.ini:3: t is set twice, first in line 2");
    refused("a = \"b\n", "t.ini:1: the quote \" is not closed");
    refused("a = 'b\n", "t.ini:1: the quote ' is not closed");
    refused("a = \"b\\\" \n", "t.ini:1: the quote \" is not closed");
    refused("a = \"b\" c\n", "t.ini:1: expected nothing after the closing quote");
    refused("a = \"\\x\"\n",
            "t.ini:1: unknown escape in double quotes: there are \\\\, \\\", \\n, \\t");
    refused("\n\nsystem = Write C#\n", "t.ini:3: '#' begins a comment; put the value in "
                                       "quotes, or a space before the comment");
    refused("model = a;b\n", "t.ini:1: ';' begins a comment; put the value in quotes, or a "
                             "space before the comment");
    refused("a = 1\nb = \xff\n", "t.ini:2: not valid UTF-8: byte 0xff");
    refused("a = 1\n# \xc3\n", "t.ini:2: not valid UTF-8: byte 0xc3");
    refused("a = \x7f\n", "t.ini:1: a control character: 0x7f");
    refused("a = b\rc\n", "t.ini:1: a control character: 0x0d");

    struct err err;
    assert_null(ini_parse("a = \0b", 6, "t.ini", &err));
    assert_string_equal(err.msg, "t.ini:1: a control character: 0x00");
}

/* A line at the limit comes out whole, whatever it holds; one byte more is refused. */
static void test_long_lines(void **state)
{
    (void)state;
    static const char *const fills[] = {"x", "'", "\"", "\\", "y\t", "=", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        char line[INI_MAX_LINE_BYTES + 1] = "k=z";
        while (strlen(line) + strlen(fills[i]) < INI_MAX_LINE_BYTES)
            strcat(line, fills[i]);
        while (strlen(line) < INI_MAX_LINE_BYTES)
            strcat(line, "x");
        struct ini *ini = parsed(line);
        size_t n;
        assert_string_equal(ini_entries(ini, &n)->value, line + 2);
        ini_free(ini);
    }
    char line[INI_MAX_LINE_BYTES + 2];
    memset(line, 'x', sizeof line);
    memcpy(line, "key = ", 6);
    line[INI_MAX_LINE_BYTES + 1] = '\0';
    refused(line, "t.ini:1: a line of more than 1000 bytes (a long system message can stand "
                  "in a file: system = @FILE)");
}

static void test_files(void **state)
{
    (void)state;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 10];
    scratch_folder(folder, "ini");
    snprintf(path, sizeof path, "%s/x.ini", folder);
    struct err err;
    bool missing = false;
    assert_null(ini_read(path, "x.ini", true, &missing, &err));
    assert_true(missing);
    assert_string_equal(err.msg, "x.ini: No such file or directory");
    assert_null(ini_read(folder, "folder", true, &missing, &err));
    assert_false(missing);
    assert_string_equal(err.msg, "folder: is a directory, expected an INI file");

    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("temp = 0.5\n", f);
    fclose(f);
    struct ini *ini = ini_read(path, "x.ini", true, &missing, &err);
    assert_non_null(ini);
    ini_free(ini);
    if (geteuid() != 0) {
        chmod(path, 0);
        assert_null(ini_read(path, "x.ini", true, &missing, &err));
        assert_false(missing);
        assert_string_equal(err.msg, "x.ini: Permission denied");
    }
    scratch_remove(folder);
}

/* Any case is one of ASCII: in a Turkish locale i is no small I. */
static void test_turkish(void **state)
{
    (void)state;
    char folder[SCRATCH_PATH], command[2 * SCRATCH_PATH];
    scratch_folder(folder, "ini");
    snprintf(command, sizeof command,
             "localedef -i tr_TR -f UTF-8 %s/tr_TR.UTF-8 >/dev/null 2>&1", folder);
    setenv("LOCPATH", folder, 1);
    if (system(command) != 0 || !setlocale(LC_CTYPE, "tr_TR.UTF-8")) {
        scratch_remove(folder);
        skip();
    }
    struct ini *ini = parsed("[HEARTH]\nMIN-P = 0.5\n[PROFILE x]\n");
    assert_non_null(ini_profile(ini, 0));
    ini_free(ini);
    setlocale(LC_CTYPE, "C");
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections), cmocka_unit_test(test_names),
        cmocka_unit_test(test_values),   cmocka_unit_test(test_continued),
        cmocka_unit_test(test_errors),   cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_files),    cmocka_unit_test(test_turkish),
    };
    return cmocka_run_group_tests_name("ini", tests, NULL, NULL);
}
