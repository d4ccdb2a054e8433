/* The XDG folders, their modes, the remembered model, the bundled guide. */
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
#include "config/paths.h"

static char home[SCRATCH_PATH];

static int set_up(void **state)
{
    (void)state;
    umask(022);
    scratch_folder(home, "paths");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(home);
    return 0;
}

static void clear(void)
{
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home, 1);
}

static void folder_is(enum paths_folder folder, const char *name, const char *want)
{
    char *path = paths_in(folder, name);
    assert_non_null(path);
    assert_string_equal(path, want);
    free(path);
}

static void typed_is(const char *typed, const char *want)
{
    char *path = paths_typed(typed);
    assert_string_equal(path, want);
    free(path);
}

static void test_typed(void **state)
{
    (void)state;
    setenv("HOME", "/h", 1);
    typed_is("~", "/h");
    typed_is("~/a b", "/h/a b");
    typed_is("$HOME/x", "/h/x");
    typed_is("${HOME}/x", "/h/x");
    typed_is("$HOMER/x", "$HOMER/x");
    typed_is("~me/x", "~me/x");
    typed_is("a/~/x", "a/~/x");
    typed_is("", "");
    unsetenv("HOME");
    typed_is("~/x", "~/x");
    setenv("HOME", "", 1);
    typed_is("~/x", "~/x");
    clear();
}

static void found_is(const char *typed, const char *want)
{
    char *path = paths_found(typed);
    assert_string_equal(path, want);
    free(path);
}

/* A file that is dropped on a terminal comes as a shell would need it. */
static void test_found(void **state)
{
    (void)state;
    clear();
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(home), 0);
    setenv("HOME", home, 1);
    static const char *const files[] = {"my file", "it's", "a\"b\\c", "'kept'"};
    for (size_t i = 0; i < 4; i++)
        fclose(fopen(files[i], "w"));
    found_is("my file", "my file");
    found_is("'my file'", "my file");
    found_is("\"my file\"", "my file");
    found_is("my\\ file", "my file");
    found_is("'it'\\''s'", "it's");
    found_is("\"it's\"", "it's");
    found_is("'a\"b\\c'", "a\"b\\c");
    found_is("\"a\\\"b\\c\"", "a\"b\\c");
    found_is("'kept'", "'kept'");
    found_is("'none'", "'none'");
    found_is("'my file", "'my file");
    found_is("'my file' it\\'s", "'my file' it\\'s");
    found_is("''", "''");
    found_is("\\", "\\");
    char *path = paths_found("~/my\\ file");
    assert_true(access(path, F_OK) == 0);
    free(path);
    for (size_t i = 0; i < 4; i++)
        unlink(files[i]);
    assert_int_equal(chdir(before), 0);
    clear();
}

static void to_make_is(const char *typed, const char *want)
{
    char *path = paths_to_make(typed);
    assert_string_equal(path, want);
    free(path);
}

/* A file that is not there yet has the name that a shell would give it. */
static void test_to_make(void **state)
{
    (void)state;
    clear();
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(home), 0);
    setenv("HOME", "/h", 1);
    fclose(fopen("'kept'", "w"));
    to_make_is("chat.md", "chat.md");
    to_make_is("my chat.md", "my chat.md");
    to_make_is("'my chat.md'", "my chat.md");
    to_make_is("\"my chat.md\"", "my chat.md");
    to_make_is("my\\ chat.md", "my chat.md");
    to_make_is("~/my\\ chat.md", "/h/my chat.md");
    to_make_is("'it'\\''s'", "it's");
    to_make_is("it's", "it's");
    to_make_is("it\\s", "it\\s");
    to_make_is("'a' and 'b'", "'a' and 'b'");
    to_make_is("my\\ chat to you", "my\\ chat to you");
    to_make_is("'kept'", "'kept'");
    to_make_is("'", "'");
    to_make_is("''", "''");
    unlink("'kept'");
    assert_int_equal(chdir(before), 0);
    clear();
}

static void test_folders(void **state)
{
    (void)state;
    clear();
    setenv("HOME", "/h", 1);
    folder_is(PATHS_CONFIG, "hearth.ini", "/h/.config/hearth/hearth.ini");
    folder_is(PATHS_STATE, "history", "/h/.local/state/hearth/history");
    folder_is(PATHS_CACHE, NULL, "/h/.cache/hearth");
    setenv("XDG_CONFIG_HOME", "/c", 1);
    folder_is(PATHS_CONFIG, NULL, "/c/hearth");
    setenv("XDG_CONFIG_HOME", "relative", 1);
    folder_is(PATHS_CONFIG, NULL, "/h/.config/hearth");
    setenv("XDG_CONFIG_HOME", "", 1);
    folder_is(PATHS_CONFIG, NULL, "/h/.config/hearth");
    unsetenv("HOME");
    assert_null(paths_in(PATHS_STATE, "x"));
    setenv("XDG_STATE_HOME", "/s", 1);
    folder_is(PATHS_STATE, "x", "/s/hearth/x");
}

static void test_temporary(void **state)
{
    (void)state;
    char before[SCRATCH_PATH];
    snprintf(before, sizeof before, "%s", paths_temporary());
    setenv("TMPDIR", "/t/u", 1);
    assert_string_equal(paths_temporary(), "/t/u");
    setenv("TMPDIR", "", 1);
    assert_string_equal(paths_temporary(), "/tmp");
    unsetenv("TMPDIR");
    assert_string_equal(paths_temporary(), "/tmp");
    setenv("TMPDIR", before, 1);
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void test_remembered(void **state)
{
    (void)state;
    bool is_there;
    clear();
    assert_null(paths_remembered_model(&is_there));

    char model[SCRATCH_PATH + 10], state_path[SCRATCH_PATH + 40], shown[SCRATCH_PATH + 40];
    snprintf(model, sizeof model, "%s/m.gguf", home);
    fclose(fopen(model, "w"));
    struct err err = {0};
    if (!paths_remember_model(model, &err)) fail_msg("%s", err.msg);
    char *back = paths_remembered_model(&is_there);
    assert_non_null(back);
    assert_string_equal(back, model);
    assert_true(is_there);
    free(back);
    snprintf(state_path, sizeof state_path, "%s/.local/state/hearth/last-model", home);
    assert_int_equal(mode_of(state_path), 0600);
    snprintf(shown, sizeof shown, "%s/.local/state/hearth", home);
    assert_int_equal(mode_of(shown), 0700);
    snprintf(shown, sizeof shown, "%s/.local", home);
    assert_int_equal(mode_of(shown), 0700);

    assert_true(paths_remember_model(model, &err)); /* again, over the old one */
    unlink(model);
    back = paths_remembered_model(&is_there);
    assert_string_equal(back, model);
    assert_false(is_there);
    free(back);
    assert_false(paths_remember_model(model, &err));
    assert_string_equal(err.msg + strlen(model), ": No such file or directory");

    /* A name of a list is one, and no path. */
    assert_true(paths_remember_listed("mario:latest", &err));
    back = paths_remembered_model(&is_there);
    assert_string_equal(back, "mario:latest");
    free(back);
    assert_false(paths_remember_listed("a\nb", &err));
    assert_string_equal(err.msg, "a\\nb: a name with a line break is not remembered");

    /* What is not one line is not taken. */
    static const char *const bad[] = {"", "\n", "/etc/passwd\n/etc/group\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FILE *f = fopen(state_path, "w");
        fputs(bad[i], f);
        fclose(f);
        assert_null(paths_remembered_model(&is_there));
    }

    /* Nor is a FIFO waited for that nobody writes to. */
    unlink(state_path);
    assert_int_equal(mkfifo(state_path, 0600), 0);
    alarm(60);
    assert_null(paths_remembered_model(&is_there));
    alarm(0);
    unlink(state_path);
}

/* As the cache of a hub has it: the files of a split model beside each other, under names that
 * only the links have. */
static void test_remembered_link(void **state)
{
    (void)state;
    char blob[200], folder[200], via[200], model[256], typed[256], real[4096];
    struct err err = {0};
    bool is_there;
    clear();
    snprintf(blob, sizeof blob, "%s/0123abcd", home);
    snprintf(folder, sizeof folder, "%s/snapshot", home);
    snprintf(via, sizeof via, "%s/main", home);
    snprintf(model, sizeof model, "%s/m-00001-of-00002.gguf", folder);
    snprintf(typed, sizeof typed, "%s/../main/m-00001-of-00002.gguf", folder);
    fclose(fopen(blob, "w"));
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(symlink(folder, via), 0);
    assert_int_equal(symlink("../0123abcd", model), 0);
    assert_non_null(realpath(model, real));
    assert_string_equal(real, blob);
    if (!paths_remember_model(typed, &err)) fail_msg("%s", err.msg);
    char *back = paths_remembered_model(&is_there);
    assert_string_equal(back, model);
    assert_true(is_there);
    free(back);
}

static void test_make_parents(void **state)
{
    (void)state;
    char path[SCRATCH_PATH + 10], folder[SCRATCH_PATH + 10];
    snprintf(path, sizeof path, "%s/a/b/file", home);
    snprintf(folder, sizeof folder, "%s/a/b", home);
    struct err err = {0};
    assert_true(paths_make_parents(path, &err));
    assert_true(paths_make_parents(path, &err));
    assert_int_equal(mode_of(folder), 0700);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/f", home);
    fclose(fopen(path, "w"));
    snprintf(path, sizeof path, "%s/f/g/h", home);
    assert_false(paths_make_parents(path, &err));
    assert_non_null(strstr(err.msg, "/f/g: cannot make the folder: Not a directory"));
}

static void test_guide(void **state)
{
    (void)state;
    char *path = paths_guide("guide-q8_0.gguf");
    assert_non_null(path);
    assert_non_null(strstr(path, "examples/guide/guide-q8_0.gguf"));
    free(path);
    assert_null(paths_guide("no-such-guide.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typed),        cmocka_unit_test(test_found),
        cmocka_unit_test(test_to_make),      cmocka_unit_test(test_folders),
        cmocka_unit_test(test_remembered),   cmocka_unit_test(test_remembered_link),
        cmocka_unit_test(test_make_parents), cmocka_unit_test(test_guide),
        cmocka_unit_test(test_temporary),
    };
    return cmocka_run_group_tests_name("paths", tests, set_up, tear_down);
}
