/* The folder of sessions: names that can be one, the list, the row of each. */
#include "chat/sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../child.h"
#include "../scratch.h"
#include "chat/archive.h"
#include "chat/conversation.h"

static char home[SCRATCH_PATH];

static int set_up(void **state)
{
    (void)state;
    scratch_folder(home, "sessions");
    setenv("XDG_STATE_HOME", home, 1);
    setenv("TZ", "UTC", 1);
    tzset();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(home);
    return 0;
}

static void set_time(const char *path, int64_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* A session of that name with one message, changed then. */
static void make(const char *name, const char *text, int64_t changed_s)
{
    static const struct archive_state some = {.model = "guide\x1b", .clock_ms = 1};
    struct err err;
    char *path = sessions_path(name, &err);
    struct conversation *c = conversation_new();
    struct archive *a = archive_new(path);
    conversation_add(c, message_new(ROLE_USER, text, strlen(text)));
    if (!archive_sync(a, c, &some, true, &err)) fail_msg("%s", err.msg);
    archive_close(a);
    conversation_free(c);
    set_time(path, changed_s);
    free(path);
}

static void check_row(const struct session_file *file, bool with_file, const char *want)
{
    struct buf row = {0};
    session_put_row(file, with_file, &row);
    assert_string_equal(buf_str(&row), want);
    buf_free(&row);
}

static void test_rows(void **state)
{
    (void)state;
    struct session_list list;
    struct err err;
    char want[200];
    assert_true(sessions_list(&list, &err));
    assert_int_equal(list.n, 0);
    make("old", "hello", 0);
    make("new", "and\n\x1b[31mnow?", 1795183659);
    assert_true(sessions_list(&list, &err));
    assert_int_equal(list.n, 2);
    assert_string_equal(list.items[0].name, "new");
    assert_string_equal(list.items[1].name, "old");
    check_row(&list.items[1], false, "1970-01-01 00:00    1 message   hello");
    struct buf row = {0};
    session_put_row(&list.items[0], false, &row);
    assert_null(strpbrk(buf_str(&row), "\n\x1b"));
    assert_non_null(strstr(row.data, "2026-11-20 14:07    1 message   and"));
    buf_clear(&row);
    session_put_row(&list.items[1], true, &row);
    assert_null(strchr(row.data, '\x1b'));
    snprintf(want, sizeof want, "1970-01-01 00:00  %4d bytes    1 message   guide",
             (int)list.items[1].n_bytes);
    if (strncmp(row.data, want, strlen(want)) != 0) fail_msg("%s", row.data);
    assert_string_equal(row.data + row.len - 7, ": hello");
    buf_free(&row);
    session_list_free(&list);
}

static void test_unreadable(void **state)
{
    (void)state;
    struct session_list list;
    struct err err;
    char *path = sessions_path("broken", &err);
    FILE *f = fopen(path, "w");
    fputs("no session", f);
    fclose(f);
    set_time(path, INT32_MAX);
    assert_true(sessions_list(&list, &err));
    check_row(&list.items[0], false,
              "2038-01-19 03:14  cannot be read: hearth sessions check says why");
    check_row(&list.items[0], true,
              "2038-01-19 03:14    10 bytes  cannot be read: hearth sessions check says why");
    session_list_free(&list);
    assert_int_equal(remove(path), 0);
    free(path);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    " ",    " \t ",  ".",   ".x",
                                      "a/b", "a\nb", "a\x7f", "\xff"};
    struct err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(sessions_path(bad[i], &err));
        assert_int_equal(err.code, ERR_USER);
    }
    assert_null(sessions_path("tab\tname", &err));
    assert_string_equal(err.msg,
                        "'tab\\tname' cannot be the name of a session: expected at most "
                        "100 bytes of UTF-8 without a slash or a control character, "
                        "not only blanks, and no point at the beginning");
    char *path = sessions_path("two words", &err), *name = sessions_name(path);
    assert_string_equal(name, "two words");
    free(path);
    free(name);
    char *first = sessions_new_name(1), *second = sessions_new_name(2);
    assert_true(strlen(second) > strlen(first));
    free(first);
    free(second);
}

/* A file system whose locks are those of NFS, for files that are open for writing, or that has
 * none. */
static enum { HAS_LOCKS, OF_NFS, HAS_NONE } locks;

int flock(int fd, int operation)
{
    const bool may_write = (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    if (locks == HAS_LOCKS || (locks == OF_NFS && may_write))
        return (int)syscall(SYS_flock, fd, operation);
    errno = locks == OF_NFS ? EBADF : ENOLCK;
    return -1;
}

/* What another hearth has is told from what cannot be locked. */
static void test_locks(void **state)
{
    (void)state;
    struct err err;
    struct buf notes = {0};
    char *path = sessions_path("locked", &err);
    make("locked", "Hi.", 1000);
    for (locks = HAS_LOCKS; locks <= OF_NFS; locks++) {
        struct conversation *c = conversation_new();
        struct archive *a = archive_open(path, c, &notes, &err);
        assert_true(a && !archive_is_read_only(a));
        assert_false(session_remove(path, &err));
        assert_non_null(strstr(err.msg, "another hearth has this session open"));
        archive_close(a);
        conversation_free(c);
    }
    locks = HAS_NONE;
    struct conversation *c = conversation_new();
    assert_null(archive_open(path, c, &notes, &err));
    assert_non_null(strstr(err.msg, "locked.session: cannot be locked: No locks available"));
    assert_false(session_remove(path, &err));
    assert_non_null(strstr(err.msg, "locked.session: cannot be locked: No locks available"));
    conversation_free(c);

    locks = OF_NFS;
    if (!session_remove(path, &err)) fail_msg("%s", err.msg);
    make("locked", "Hi.", 1000);
    assert_int_equal(chmod(path, 0400), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (!child_obeys_modes()) _exit(1);
        struct archive *a = archive_open(path, conversation_new(), &notes, &err);
        if (!a || !archive_is_read_only(a) || archive_is_taken(a)) _exit(2);
        archive_close(a);
        _exit(session_remove(path, &err) ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(access(path, F_OK), -1);
    locks = HAS_LOCKS;
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_locks),
    };
    return cmocka_run_group_tests_name("sessions", tests, set_up, tear_down);
}
