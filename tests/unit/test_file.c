/* Files that take the place of others, beside what a killed process left. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../scratch.h"
#include "base/buf.h"
#include "base/file.h"

static char dir[SCRATCH_PATH], path[SCRATCH_PATH + 10];

static int set_up(void **state)
{
    (void)state;
    scratch_folder(dir, "file");
    snprintf(path, sizeof path, "%s/page", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

/* What a process of this number leaves that is killed while it writes for the i-th time. */
static void leave(unsigned i)
{
    char name[SCRATCH_PATH + 60];
    snprintf(name, sizeof name, "%s/.page.%ld.%u", dir, (long)getpid(), i);
    FILE *f = fopen(name, "wx");
    assert_true(f && fputs("half", f) >= 0 && fclose(f) == 0);
}

static size_t n_files(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void assert_holds(const char *text)
{
    struct buf data = {0};
    struct err err;
    assert_true(file_read(path, 100, &data, &err));
    assert_string_equal(buf_str(&data), text);
    buf_free(&data);
}

/* Its names are those that this process takes first, so this test is the first. They are not
 * touched: whoever wrote them may live. */
static void test_left_by_a_kill(void **state)
{
    (void)state;
    struct err err;
    enum { N_LEFT = 20 };
    for (unsigned i = 0; i < N_LEFT; i++)
        leave(i);
    if (!file_replace(path, "first", 5, &err)) fail_msg("%s", err.msg);
    assert_holds("first");
    assert_int_equal(n_files(), N_LEFT + 1);
    leave(N_LEFT + 1);
    assert_true(file_replace(path, "second", 6, &err));
    assert_holds("second");
    assert_int_equal(n_files(), N_LEFT + 2);
    scratch_empty(dir);
}

/* However many there are, it ends. */
static void test_too_many(void **state)
{
    (void)state;
    struct err err;
    assert_true(file_replace(path, "before", 6, &err));
    for (unsigned i = 0; i < 1200; i++)
        leave(i);
    assert_false(file_replace(path, "after", 5, &err));
    assert_non_null(strstr(err.msg, strerror(EEXIST)));
    assert_holds("before");
    assert_int_equal(n_files(), 1201);
    scratch_empty(dir);
}

/* A pipe whose ends do not wait, as a parent may have made them, loses nothing. */
static void test_no_wait(void **state)
{
    (void)state;
    enum { N_BYTES = 1 << 20 };
    static char bytes[N_BYTES];
    int ends[2], status;
    struct buf got = {0};
    struct err err;
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    for (size_t i = 0; i < N_BYTES; i++)
        bytes[i] = (char)(i * 31 >> 8);
    pid_t child = fork();
    if (child == 0) _exit(file_write_fd(ends[1], bytes, N_BYTES) ? 0 : 1);
    struct pollfd full = {.fd = ends[1], .events = POLLOUT};
    while (poll(&full, 1, 0) != 0 && waitpid(child, &status, WNOHANG) == 0)
        continue;
    close(ends[1]);
    assert_true(file_read_fd(ends[0], "pipe", N_BYTES, &got, &err));
    assert_int_equal(got.len, N_BYTES);
    assert_memory_equal(got.data, bytes, N_BYTES);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    buf_free(&got);
}

/* What is there of a longer file before is gone, and a string ends where the file does. */
static void test_plain(void **state)
{
    (void)state;
    struct buf got = {0};
    struct err err;
    buf_puts(&got, "something that is longer");
    assert_true(file_replace(path, "short", 5, &err));
    assert_true(file_read_plain(path, 5, &got));
    assert_int_equal(got.len, 5);
    assert_string_equal(buf_str(&got), "short");
    assert_false(file_read_plain(path, 4, &got));
    assert_false(file_read_plain(dir, 4, &got));
    buf_free(&got);
    scratch_empty(dir);
}

/* A machine whose pages are larger gives back whole ones of its own. */
static size_t page_bytes, released_from, released_to;

int getpagesize(void)
{
    return (int)(page_bytes ? page_bytes : getauxval(AT_PAGESZ));
}

static const uint8_t *released_of; /* the mapping */

int madvise(void *p, size_t n, int advice)
{
    (void)advice;
    released_from = (size_t)((const uint8_t *)p - released_of);
    released_to = released_from + n;
    return 0;
}

static void test_release(void **state)
{
    (void)state;
    enum { PAGE = 1 << 14, N_PAGES = 4 };
    static const char bytes[N_PAGES * PAGE];
    struct file_map map;
    struct err err;
    assert_true(file_replace(path, bytes, sizeof bytes, &err));
    assert_true(file_map_open(&map, path, &err));
    released_of = map.data;
    for (page_bytes = PAGE / 4; page_bytes <= PAGE; page_bytes *= 4) {
        file_map_release(&map, map.data + 1, 3 * PAGE);
        assert_int_equal(released_from, page_bytes);
        assert_int_equal(released_to, 3 * PAGE);
    }
    page_bytes = 0;
    file_map_close(&map);
    scratch_empty(dir);
}

static size_t n_descriptors(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* What is mapped is read from the file, as long as the file has it; the rest is where it is. */
static void test_bytes(void **state)
{
    (void)state;
    enum { N = 20000, AT = 4097, LEN = 9001 };
    static char bytes[N], room[LEN];
    for (size_t i = 0; i < N; i++)
        bytes[i] = (char)(i * 31 % 251);
    struct file_map map;
    struct err err;
    const size_t before = n_descriptors();
    assert_true(file_replace(path, bytes, N, &err));
    assert_true(file_map_open(&map, path, &err));
    assert_ptr_equal(file_map_bytes(map.data + AT, LEN, room), room);
    assert_memory_equal(room, bytes + AT, LEN);
    assert_ptr_equal(file_map_bytes(map.data + N - 1, 1, room), room);
    assert_int_equal(room[0], bytes[N - 1]);
    assert_ptr_equal(file_map_bytes(bytes + AT, LEN, room), bytes + AT);
    assert_int_equal(truncate(path, AT + LEN - 1), 0);
    assert_ptr_equal(file_map_bytes(map.data + AT, LEN, room), map.data + AT);
    file_map_close(&map);
    assert_int_equal(n_descriptors(), before);
}

/* Beyond so many mappings bytes are where they are, and no descriptor is kept; one that is
 * closed makes place for the next. */
static void test_many_maps(void **state)
{
    (void)state;
    enum { N_KEPT = 64 };
    struct file_map maps[N_KEPT + 1];
    char room[1];
    struct err err;
    const size_t before = n_descriptors();
    assert_true(file_replace(path, "text", 4, &err));
    for (size_t i = 0; i <= N_KEPT; i++)
        assert_true(file_map_open(&maps[i], path, &err));
    assert_int_equal(n_descriptors(), before + N_KEPT);
    for (size_t i = 0; i <= N_KEPT; i++) {
        const void *bytes = file_map_bytes(maps[i].data + 3, 1, room);
        assert_ptr_equal(bytes, i < N_KEPT ? (const void *)room : maps[i].data + 3);
        assert_int_equal(*(const char *)bytes, 't');
        assert_int_equal(file_map_at(maps[i].data) != NULL, i < N_KEPT);
    }
    file_map_close(&maps[7]);
    file_map_close(&maps[N_KEPT]);
    assert_true(file_map_open(&maps[7], path, &err));
    assert_ptr_equal(file_map_bytes(maps[7].data, 1, room), room);
    for (size_t i = 0; i < N_KEPT; i++)
        file_map_close(&maps[i]);
    assert_int_equal(n_descriptors(), before);
    scratch_empty(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_by_a_kill), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_no_wait),        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_release),        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_many_maps),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
