/* The store in trouble: several processes, kills, a full disk, a folder that cannot be written,
 * a file that cannot be read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../child.h"
#include "../soak.h"
#include "../store_sample.h"

/* Processes that write, read and make room at the same time. */
static void test_processes(void **state)
{
    (void)state;
    clear();
    enum { N = 3, CAP = 60000 };
    pid_t child[N];
    for (uint32_t c = 0; c < N; c++) {
        child[c] = fork();
        assert_true(child[c] >= 0);
        if (child[c] != 0) continue;
        struct store *s = store_new(dir, "model", CAP);
        struct err err;
        for (uint32_t i = 0; i < 200; i++) {
            put(s, word(c, i) % 20);
            holds(s, word(c + 10, i) % 20); /* a miss, or the right bytes */
        }
        store_flush(s);
        bool bad = store_trouble(s, &err);
        if (bad) fprintf(stderr, "# %s\n", err.msg);
        store_free(s);
        _exit(bad ? 1 : 0);
    }
    for (uint32_t c = 0; c < N; c++) {
        int status;
        assert_int_equal(waitpid(child[c], &status, 0), child[c]);
        assert_int_equal(status, 0);
    }
    all_sound();
    /* The last that wrote may have left the removing to one that had looked already. */
    struct store *s = store_new(dir, "model", CAP);
    put(s, 100);
    store_free(s);
    assert_true(measure().n_bytes <= CAP);
}

/* Writes for ever, by the store's own thread or (eager) as who waits for it; tells of the first
 * that is written. */
static void write_until_killed(uint32_t first, bool eager, int told)
{
    struct store *s = store_new(dir, "model", 200000);
    for (uint32_t i = 0;; i++) {
        put(s, (first + i) % 1000);
        if (eager || i == 0 || !store_has_room(s, N_RAW)) store_flush(s);
        if (i == 0 && write(told, "x", 1) != 1) _exit(1);
    }
}

/* Whatever the moment of the kill, what lies under its name is whole. */
static void test_kill(void **state)
{
    (void)state;
    clear();
    uint32_t n = 300 * soak();
    size_t most = 0;
    for (uint32_t k = 0; k < n; k++) {
        int ends[2];
        char c;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) write_until_killed(k * 7, k % 2, ends[1]);
        close(ends[1]);
        /* One of four dies before it may have written anything. */
        if (k % 4 != 3) assert_int_equal(read(ends[0], &c, 1), 1);
        usleep(word(5, k) % 4000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(ends[0]);
        if (k % 20 == 0) all_sound();
        if (measure().n > most) most = measure().n;
    }
    all_sound();
    assert_true(most > 5);
}

/* In a child: a store that meets trouble says so once, goes on reading, and leaves no half
 * file. Returns the exit status. */
static int meet_trouble(uint32_t n, int code)
{
    struct store *s = store_new(dir, "model", 1 << 30);
    struct err err;
    for (uint32_t i = 100; i < 100 + n; i++) {
        put(s, i);
        store_flush(s);
    }
    if (!store_trouble(s, &err)) return 2;
    fprintf(stderr, "# %s\n", err.msg);
    if (err.code != ERR_IO || !strstr(err.msg, strerror(code))) return 3;
    atomic_uint n_readers = 0;
    put(s, 200);
    lend(s, 201, (const uint8_t *)&err, sizeof err, &n_readers);
    store_flush(s);
    if (atomic_load(&n_readers) != 0) return 8;
    if (store_trouble(s, &err)) return 4;
    if (holds(s, 200)) return 5;
    if (!holds(s, 0)) return 6;
    store_free(s);
    char *path = path_of(0);
    *strrchr(path, '/') = '\0';
    DIR *d = opendir(path);
    struct dirent *entry;
    while ((entry = readdir(d)))
        if (entry->d_name[0] == '.' && entry->d_name[1] && entry->d_name[1] != '.') return 7;
    closedir(d);
    free(path);
    all_sound();
    return 0;
}

static void put_first(void)
{
    struct store *s = store_new(dir, "model", 1 << 30);
    put(s, 0);
    store_free(s);
}

/* A file that cannot be opened now is a miss, and stays. */
static void test_unreadable(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    put(s, 5);
    store_flush(s);
    assert_true(holds(s, 5));
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool hit = holds(s, 5);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(hit);
    assert_true(holds(s, 5));
    store_free(s);
}

/* Another process removes pages, and does not get on with it: nobody waits for that. */
static int lock_held(void)
{
    enum { CAP = 60000, N = 20 };
    struct store *s = store_new(dir, "model", CAP);
    char path[sizeof dir + 10];
    snprintf(path, sizeof path, "%s/.lock", dir);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) return 13;
    alarm(60);
    for (uint32_t i = 0; i < N; i++) {
        put(s, i);
        store_flush(s);
    }
    if (store_is_broken(s) || measure().n != N || measure().n_bytes <= CAP) return 14;
    close(fd);
    put(s, N);
    store_flush(s);
    if (measure().n_bytes > CAP || !holds(s, N)) return 15;
    store_free(s);
    return 0;
}

static int size_limit(void)
{
    put_first();
    const struct rlimit limit = {3000, 3000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 11;
    return meet_trouble(1, EFBIG);
}

static int disk_full(void)
{
    /* A small disk of its own where we may mount one, else a limit on the size of a file. */
    if (mkdir(home, 0700) != 0 && errno != EEXIST) return 10;
    if (child_small_disk(home)) {
        put_first();
        return meet_trouble(40, ENOSPC);
    }
    return size_limit();
}

static int read_only(void)
{
    put_first();
    char *path = path_of(0);
    *strrchr(path, '/') = '\0';
    if (chmod(path, 0500) != 0 || !child_obeys_modes()) return 12;
    free(path);
    return meet_trouble(3, EACCES);
}

static void in_child(int (*fn)(void))
{
    clear();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(fn());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_lock_held(void **state)
{
    (void)state;
    in_child(lock_held);
}

static void test_disk_full(void **state)
{
    (void)state;
    in_child(disk_full);
    in_child(size_limit);
}

static void test_read_only(void **state)
{
    (void)state;
    in_child(read_only);
    char command[512];
    snprintf(command, sizeof command, "chmod -R u+w '%s'", home);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),  cmocka_unit_test(test_kill),
        cmocka_unit_test(test_disk_full),  cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_unreadable), cmocka_unit_test(test_lock_held),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
