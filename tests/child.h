/* Child processes of a test: what one gives up before it meets trouble, room on a disk or the
 * power of root, of which nothing reaches the test itself, and how one ends. */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A disk of 64 KiB over dir, which is then empty, seen by the calling process alone. False
 * where we may not mount one. */
static inline bool child_small_disk(const char *dir)
{
    return unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("hearth", dir, "tmpfs", 0, "size=64k,mode=0700") == 0;
}

/* Root may write anywhere; from here on modes hold for it, too. */
static inline bool child_obeys_modes(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return syscall(SYS_capset, &header, none) == 0;
}

/* body, in a child, says this line on standard error and nothing else there, and ends the
 * program with status 1. */
static inline void assert_child_ends_with(void (*body)(void), const char *line)
{
    char said[200] = "";
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], said, sizeof said - 1) >= 0);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_string_equal(said, line);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

#endif
