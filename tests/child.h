/* What a child process of a test gives up before it meets trouble: room on a disk, the power of
 * root. Nothing of it reaches the test itself. */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

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

#endif
