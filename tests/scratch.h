/* Files and folders that a test makes for itself: new ones in the folder that TMPDIR names,
 * which tests/run.sh sets to one of its own, else in /tmp. Whoever makes one removes it. What
 * goes wrong in here ends the program. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { SCRATCH_PATH = 160 };

static inline void scratch_check(bool ok, const char *path)
{
    if (ok) return;
    perror(path);
    abort();
}

static inline void scratch_name(char path[SCRATCH_PATH], const char *name)
{
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp) tmp = "/tmp";
    const int n = snprintf(path, SCRATCH_PATH, "%s/hearth-%s-XXXXXX", tmp, name);
    errno = ENAMETOOLONG;
    scratch_check(n < SCRATCH_PATH, tmp);
}

/* An empty folder, mode 0700; name is part of its own. */
static inline void scratch_folder(char path[SCRATCH_PATH], const char *name)
{
    scratch_name(path, name);
    scratch_check(mkdtemp(path) != NULL, path);
}

/* A file with that text, mode 0600. */
static inline void scratch_file(char path[SCRATCH_PATH], const char *name, const char *text)
{
    scratch_name(path, name);
    const int fd = mkstemp(path);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    scratch_check(f && fputs(text, f) >= 0 && fclose(f) == 0, path);
}

static inline int scratch_unlink(const char *path, const struct stat *st, int kind,
                                 struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

/* With all that is in it; nothing, where there is none. */
static inline void scratch_remove(const char *path)
{
    scratch_check(nftw(path, scratch_unlink, 8, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT,
                  path);
}

/* What is in a folder. */
static inline void scratch_empty(const char *folder)
{
    scratch_remove(folder);
    scratch_check(mkdir(folder, 0700) == 0, folder);
}

#endif
