/* Large memory: zeroed, aligned, given back; sizes that nothing can have are refused. */
#include <errno.h>
#include <pthread.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../child.h"
#include "base/mem.h"
#include "ui/screen.h"
#include "ui/tty.h"

static void test_pages(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 4097, 2 << 20, (2 << 20) + 1, (5 << 20) - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = mem_try_pages(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (sizes[i] >= 2 << 20 ? 2 << 20 : 64), 0);
        for (size_t k = 0; k < sizes[i]; k += 511)
            assert_int_equal(p[k], 0);
        if (sizes[i]) memset(p, 0xff, sizes[i]);
        mem_free_pages(p, sizes[i]);
    }
    mem_free_pages(NULL, 1);
}

/* A machine whose pages are larger: memory begins where one does, and what does not cannot be
 * given back. */
static size_t page_bytes, n_kept;

int getpagesize(void)
{
    return (int)(page_bytes ? page_bytes : getauxval(AT_PAGESZ));
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    const long p = syscall(SYS_mmap, at, n + page_bytes, protection, flags, fd, offset);
    if (p == -1) return MAP_FAILED;
    return (void *)(page_bytes ? mem_round_up((size_t)p, page_bytes) : (size_t)p);
}

int munmap(void *p, size_t n)
{
    if (page_bytes && (uintptr_t)p % page_bytes != 0) {
        n_kept++;
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_munmap, p, n);
}

static void test_larger_pages(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4097, 2 << 20, (2 << 20) + 1, (5 << 20) - 8192};
    for (page_bytes = 1 << 14; page_bytes <= 1 << 16; page_bytes *= 4) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            void *p = mem_try_pages(sizes[i]);
            assert_non_null(p);
            mem_free_pages(p, sizes[i]);
        }
    }
    page_bytes = 0;
    assert_int_equal(n_kept, 0);
}

/* What is added for alignment must not wrap round. */
static void test_too_large(void **state)
{
    (void)state;
    for (size_t less = 0; less <= (size_t)4 << 20; less += 1 << 18) {
        assert_null(mem_try_pages(SIZE_MAX - less));
        assert_null(mem_try_pages((SIZE_MAX >> 1) - less));
    }
    size_t n = 7;
    assert_false(mem_mul(SIZE_MAX / 2 + 1, 2, &n));
    assert_int_equal(n, 7);
    assert_true(mem_mul(SIZE_MAX / 2, 2, &n));
    assert_true(n == SIZE_MAX - 1);
}

static void want_too_much(void)
{
    free(mem_zalloc(SIZE_MAX / 2, 4));
}

/* The line that ends the program says how much was wanted, not how large an element is. */
static void test_says_how_much(void **state)
{
    (void)state;
    assert_child_ends_with(want_too_much,
                           "hearth: out of memory (18446744073709551615 bytes wanted)\n");
}

/* On a screen of its own nobody would read it, for that goes away with the program. */
static void test_says_it_on_the_shells_screen(void **state)
{
    (void)state;
    char said[200] = "";
    size_t n = 0;
    int terminal, status;
    const pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    assert_true(child >= 0);
    if (child == 0) {
        tty_open(STDIN_FILENO);
        tty_say_goodbye("the way back", 12);
        want_too_much();
        _exit(0);
    }
    for (ssize_t got; (got = read(terminal, said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    close(terminal);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_true(strncmp(said, "the way back", 12) == 0);
    assert_non_null(strstr(said, "hearth: out of memory ("));
}

static void *want_on_a_thread(void *unused)
{
    (void)unused;
    want_too_much();
    return NULL;
}

static void linger(void)
{
    usleep(200000);
}

/* Frames that the main thread draws, for as long as there is a process. */
static void draw_on(void)
{
    struct err err;
    pthread_t thread;
    setenv("TERM", "xterm", 1);
    tty_open(STDIN_FILENO);
    atexit(linger);
    if (!screen_open(false, &err)) _exit(2);
    for (unsigned i = 0;; i++) {
        char frame[20];
        snprintf(frame, sizeof frame, "frame %u", i);
        screen_clear();
        screen_puts(0, 0, 20, INK_TEXT, frame);
        screen_show(true);
        if (i == 20 && pthread_create(&thread, NULL, want_on_a_thread, NULL) != 0) _exit(3);
    }
}

/* Nor does another thread draw over it, or take the shell's screen away again. */
static void test_is_the_last_line(void **state)
{
    (void)state;
    char said[1 << 16];
    size_t n = 0;
    int terminal, status;
    const struct winsize size = {.ws_row = 5, .ws_col = 40};
    const pid_t child = forkpty(&terminal, NULL, NULL, &size);
    assert_true(child >= 0);
    if (child == 0) draw_on();
    /* The last of it is what counts. */
    for (ssize_t got; (got = read(terminal, said + n, sizeof said - 1 - n)) > 0;) {
        n += (size_t)got;
        if (n <= sizeof said / 2) continue;
        memmove(said, said + n - sizeof said / 4, sizeof said / 4);
        n = sizeof said / 4;
    }
    said[n] = '\0';
    close(terminal);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    const char *line = strstr(said, "hearth: out of memory (");
    assert_non_null(line);
    assert_string_equal(line, "hearth: out of memory (18446744073709551615 bytes wanted)\r\n");
}

/* How many of the pages from p on are there. */
static size_t n_present(void *p, size_t n_pages, size_t page)
{
    unsigned char present[512];
    size_t n = 0;
    assert_true(n_pages <= sizeof present);
    assert_int_equal(mincore(p, n_pages * page, present), 0);
    for (size_t i = 0; i < n_pages; i++)
        n += present[i] & 1;
    return n;
}

/* All of a large array is there before it is touched, and what was written stays. */
static void test_touch(void **state)
{
    (void)state;
    const size_t page = mem_page_bytes(), n_pages = ((size_t)1 << 20) / page;
    const size_t n = n_pages * page;
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    madvise(p, n, MADV_NOHUGEPAGE);
    assert_int_equal(n_present(p, n_pages, page), 0);
    p[n / 2] = 7;
    mem_touch(p, page);
    assert_int_equal(n_present(p, n_pages, page), 1); /* few are not worth it */
    mem_touch(p + 1, n - 2);
    assert_int_equal(p[n / 2], 7);
    bool can = false; /* Linux knows how since 5.14 */
#ifdef MADV_POPULATE_WRITE
    can = madvise(p, page, MADV_POPULATE_WRITE) == 0;
#endif
    assert_int_equal(n_present(p, n_pages, page), can ? n_pages : 1);
    munmap(p, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages),
                                       cmocka_unit_test(test_touch),
                                       cmocka_unit_test(test_larger_pages),
                                       cmocka_unit_test(test_too_large),
                                       cmocka_unit_test(test_says_how_much),
                                       cmocka_unit_test(test_says_it_on_the_shells_screen),
                                       cmocka_unit_test(test_is_the_last_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
