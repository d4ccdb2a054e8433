/* Sessions in trouble: two processes, kills, a full disk, a folder that cannot be written, a
 * disk that fails. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../archive_sample.h"
#include "../child.h"
#include "../soak.h"
#include "base/philox.h"

/* Takes the place of the C library's: counts folders that are brought to the disk, and says of
 * them what fsync_errno says. */
static int n_folders_synced, fsync_errno;
int fsync(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode)) return (int)syscall(SYS_fsync, fd);
    n_folders_synced++;
    errno = fsync_errno;
    return fsync_errno ? -1 : 0;
}

/* Takes the place of the C library's: says of the session what stat_errno says. */
static int stat_errno;
int stat(const char *restrict name, struct stat *restrict out)
{
    if (stat_errno == 0 || strcmp(name, path) != 0) return fstatat(AT_FDCWD, name, out, 0);
    errno = stat_errno;
    return -1;
}

/* What must be on the disk is there under its name: the folder, too, once for each new name. */
static void test_name_on_disk(void **state)
{
    (void)state;
    struct conversation *c = conversation_new();
    struct archive *a = archive_new(path);
    struct err err;
    char other[300];
    snprintf(other, sizeof other, "%s/state/sessions/two.session", home);
    unlink(path);
    n_folders_synced = 0;
    say(c, 10);
    assert_true(archive_sync(a, c, &some_state, false, &err));
    assert_int_equal(n_folders_synced, 0); /* nobody waits for the disk */
    say(c, 10);
    assert_true(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(n_folders_synced, 1);
    say(c, 10);
    assert_true(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(n_folders_synced, 1);
    assert_true(archive_rename(a, other, &err));
    assert_true(archive_sync(a, c, &some_state, true, &err)); /* nothing is new but the name */
    assert_int_equal(n_folders_synced, 2);
    a = archive_anew(a);
    conversation_forget_kept(c);
    assert_true(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(n_folders_synced, 3);

    /* A file system that knows no such thing, and a disk that fails. */
    fsync_errno = EINVAL;
    assert_true(archive_rename(a, path, &err));
    assert_true(archive_sync(a, c, &some_state, true, &err));
    fsync_errno = EIO;
    assert_true(archive_rename(a, other, &err));
    assert_false(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(access(other, F_OK), 0);
    fsync_errno = 0;
    archive_close(a);
    unlink(other);
    conversation_free(c);
}

static int status_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void test_lock(void **state)
{
    (void)state;
    struct conversation *c;
    struct archive *a = said_once(&c);
    struct err err;
    struct buf notes = {0};
    pid_t child = fork();
    if (child == 0) {
        struct conversation *d;
        archive_close(a); /* the lock is the parent's all the same */
        struct archive *b = open_again(&d, &notes);
        if (!archive_is_read_only(b) || conversation_n(d) != 1) _exit(1);
        say(d, 10);
        _exit(archive_sync(b, d, &some_state, true, &err) ? 0 : 2);
    }
    assert_int_equal(status_of(child), 0);
    archive_close(a);
    struct conversation *d;
    a = open_again(&d, &notes);
    assert_false(archive_is_read_only(a));
    assert_int_equal(conversation_n(d), 1);
    archive_close(a);
    conversation_free(c);
    conversation_free(d);
}

/* In a child, on a disk with little room: a session grows until there is none, which is said
 * once, and holds all of what was kept. Returns the exit status. */
static int fill_disk(void)
{
    struct conversation *c = conversation_new(), *d;
    struct archive *a = archive_new(path);
    struct buf notes = {0};
    struct err err;
    size_t n_kept = 0;
    for (say(c, 1000); archive_sync(a, c, &some_state, true, &err); say(c, 1000))
        if (++n_kept > 100) return 2;
    if (n_kept < 10 || err.code != ERR_IO || !strstr(err.msg, strerror(ENOSPC))) return 3;
    say(c, 10);
    if (!archive_sync(a, c, &some_state, true, &err)) return 4;
    archive_close(a);
    a = open_again(&d, &notes);
    if (conversation_n(d) != n_kept || notes.len != 0) return 5;
    for (size_t i = 0; i < n_kept; i++)
        if (!same_message(conversation_at(c, i), conversation_at(d, i))) return 6;
    /* There is room again, of another's: it goes on. */
    char command[512];
    snprintf(command, sizeof command, "rm '%s/filler'", home);
    if (system(command) != 0) return 7;
    say(d, 10);
    if (!archive_sync(a, d, &some_state, true, &err)) return 8;
    archive_close(a);
    conversation_free(d);
    a = open_again(&d, &notes);
    return conversation_n(d) == n_kept + 1 && notes.len == 0 ? 0 : 9;
}

static void test_small_disk(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        if (!child_small_disk(home)) _exit(77);
        char filler[300] = {0};
        snprintf(filler, sizeof filler, "%s/filler", home);
        int fd = open(filler, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (write(fd, filler, sizeof filler) != sizeof filler) _exit(1);
        close(fd);
        _exit(fill_disk());
    }
    int status = status_of(child);
    if (status == 77) skip(); /* not root: the next test has a limit instead */
    assert_int_equal(status, 0);
}

/* A folder that may not be written: said once, the conversation goes on; a session in it opens
 * to be read. */
static void test_read_only(void **state)
{
    (void)state;
    struct conversation *c, *d;
    struct archive *a = said_once(&c);
    struct buf notes = {0};
    struct err err;
    archive_close(a);
    pid_t child = fork();
    if (child == 0) {
        char folder[300], beside[400];
        snprintf(folder, sizeof folder, "%s/state/sessions", home);
        snprintf(beside, sizeof beside, "%s/two.session", folder);
        if (chmod(path, 0400) != 0 || chmod(folder, 0500) != 0 || !child_obeys_modes())
            _exit(1);
        a = archive_new(beside);
        if (archive_sync(a, c, &some_state, true, &err)) _exit(2);
        if (err.code != ERR_IO || !strstr(err.msg, strerror(EACCES))) _exit(3);
        say(c, 10);
        if (!archive_sync(a, c, &some_state, true, &err)) _exit(4);
        archive_close(a);
        a = open_again(&d, &notes);
        if (!archive_is_read_only(a) || conversation_n(d) != 1 || notes.len != 0) _exit(5);
        say(d, 10);
        _exit(archive_sync(a, d, &some_state, true, &err) ? 0 : 6);
    }
    assert_int_equal(status_of(child), 0);
    char command[512];
    snprintf(command, sizeof command, "chmod -R u+w '%s'", home);
    assert_int_equal(system(command), 0);
    a = open_again(&d, &notes);
    assert_int_equal(conversation_n(d), 1);
    archive_close(a);
    conversation_free(c);
    conversation_free(d);
}

/* A disk that is full: said once, and what was there stays. */
static void test_disk_full(void **state)
{
    (void)state;
    struct conversation *c, *d;
    struct archive *a = said_once(&c);
    struct buf notes = {0};
    struct err err;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {1500, 1500};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
        say(c, 4000);
        if (archive_sync(a, c, &some_state, true, &err)) _exit(2);
        if (!strstr(err.msg, strerror(EFBIG))) _exit(3);
        say(c, 10);
        if (!archive_sync(a, c, &some_state, true, &err)) _exit(4);
        /* A file that nothing went into is not left behind. */
        char other[300];
        snprintf(other, sizeof other, "%s/state/sessions/two.session", home);
        conversation_forget_kept(c);
        if (archive_sync(archive_new(other), c, &some_state, true, &err)) _exit(5);
        _exit(access(other, F_OK) == 0 ? 6 : 0);
    }
    assert_int_equal(status_of(child), 0);
    archive_close(a);
    a = open_again(&d, &notes);
    assert_int_equal(conversation_n(d), 1);
    assert_int_equal(notes.len, 0);
    archive_close(a);
    conversation_free(c);
    conversation_free(d);
}

/* Killed at any moment: what archive_sync had said is kept, is. */
static void test_kill(void **state)
{
    (void)state;
    uint32_t n = 300 * soak();
    unlink(path);
    size_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        int ends[2];
        struct conversation *c = NULL;
        struct buf notes = {0};
        assert_int_equal(pipe(ends), 0);
        chance_begin(1000 + i);
        pid_t child = fork();
        if (child == 0) {
            struct err err;
            struct archive *a;
            if (access(path, F_OK) == 0) {
                a = open_again(&c, &notes);
            } else {
                c = conversation_new();
                a = archive_new(path);
            }
            for (;;) {
                say(c, 1 + below(3000));
                if (!archive_sync(a, c, &some_state, false, &err)) _exit(1);
                if (write(ends[1], "x", 1) != 1) _exit(1);
            }
        }
        close(ends[1]);
        usleep(philox(9, i, 0, 0, PHILOX_BENCH).word[0] % 3000);
        kill(child, SIGKILL);
        assert_int_equal(status_of(child), 255);
        size_t said = 0;
        char chunk[4096];
        for (ssize_t got; (got = read(ends[0], chunk, sizeof chunk)) > 0;)
            said += (size_t)got;
        close(ends[0]);
        if (access(path, F_OK) != 0) continue;
        struct archive *a = open_again(&c, &notes);
        size_t now = conversation_n(c);
        assert_true(now >= before + said);
        assert_true(now <= before + said + 1);
        before = now;
        archive_close(a);
        conversation_free(c);
        buf_free(&notes);
        if (before > 300) {
            unlink(path);
            before = 0;
        }
    }
}

/* A session that the disk does not show is not said to be removed. */
static void test_not_seen(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ESTALE, EACCES, ENOENT, ENOTDIR};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct conversation *c = conversation_new();
        struct archive *a = archive_new(path);
        struct err err;
        unlink(path);
        say(c, 10);
        assert_true(archive_sync(a, c, &some_state, true, &err));
        say(c, 10);
        stat_errno = errors[i];
        assert_false(archive_sync(a, c, &some_state, true, &err));
        stat_errno = 0;
        assert_int_equal(err.code, ERR_IO);
        const bool is_gone = errors[i] == ENOENT || errors[i] == ENOTDIR;
        assert_non_null(strstr(err.msg, is_gone ? "somebody has removed or replaced the file"
                                                : strerror(errors[i])));
        archive_close(a);
        conversation_free(c);
    }
}

/* One that somebody cut short or wrote into is not written on: what is said goes into a whole
 * file anew, as after a full disk. */
static void test_changed(void **state)
{
    (void)state;
    static const int changes[] = {-1, 0, 7}; /* to nothing, to a part, to more */
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct conversation *c = conversation_new(), *again;
        struct archive *a = archive_new(path);
        struct buf notes = {0};
        struct stat st;
        struct err err;
        unlink(path);
        say(c, 10);
        assert_true(archive_sync(a, c, &some_state, false, &err));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, changes[i] < 0    ? 0
                                        : changes[i] == 0 ? st.st_size / 2
                                                          : st.st_size + changes[i]),
                         0);
        say(c, 10);
        assert_false(archive_sync(a, c, &some_state, false, &err));
        assert_int_equal(err.code, ERR_IO);
        assert_non_null(strstr(err.msg, "somebody has changed the file: it has "));
        a = archive_anew(a);
        conversation_forget_kept(c);
        assert_true(archive_sync(a, c, &some_state, false, &err));
        archive_close(a);
        a = open_again(&again, &notes);
        assert_int_equal(notes.len, 0);
        assert_int_equal(conversation_n(again), conversation_n(c));
        archive_close(a);
        conversation_free(again);
        conversation_free(c);
        buf_free(&notes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name_on_disk), cmocka_unit_test(test_lock),
        cmocka_unit_test(test_small_disk),   cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_disk_full),    cmocka_unit_test(test_kill),
        cmocka_unit_test(test_not_seen),     cmocka_unit_test(test_changed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
