/* A small disk of its own over a folder, for one child process: where writing ends for lack of
 * room. */
#ifndef TESTS_SMALL_DISK_H
#define TESTS_SMALL_DISK_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mount.h>

/* 64 KiB over dir, which is then empty, seen by the calling process alone. False where we may
 * not mount one. */
static bool small_disk(const char *dir)
{
    return unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("hearth", dir, "tmpfs", 0, "size=64k,mode=0700") == 0;
}

#endif
