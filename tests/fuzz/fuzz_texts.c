/* Small texts that say something of the machine or of last time: /proc, control groups, the
 * file of the last model. Every limit only lowers what a process may use, and each counts by
 * itself: all together leave what the least of them does. Up to each NUL one file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../scratch.h"
#include "base/resources.h"
#include "config/paths.h"
#include "target.h"

enum { FULL_PATH = SCRATCH_PATH + 60 };

static char root[SCRATCH_PATH];

static void full_path(char out[FULL_PATH], const char *path)
{
    snprintf(out, FULL_PATH, "%s/%s", root, path);
}

static void put(const char *path, const char *text, size_t n)
{
    char full[FULL_PATH];
    full_path(full, path);
    FILE *f = fopen(full, "w");
    must(f && fwrite(text, 1, n, f) == n);
    must(fclose(f) == 0);
}

static void drop(const char *path)
{
    char full[FULL_PATH];
    full_path(full, path);
    unlink(full);
}

static const char *const folders[] = {"proc",
                                      "proc/self",
                                      "sys",
                                      "sys/fs",
                                      "sys/fs/cgroup",
                                      "sys/fs/cgroup/a",
                                      "sys/fs/cgroup/memory",
                                      "sys/fs/cgroup/memory/a",
                                      "sys/fs/cgroup/cpu",
                                      "hearth"};
#define N_FOLDERS (sizeof folders / sizeof *folders)

static const char meminfo[] = "proc/meminfo", cgroup[] = "proc/self/cgroup",
                  last_model[] = "hearth/last-model";

/* In the order in which they stand in the input, behind meminfo and the groups. */
static const char *const limits[] = {"sys/fs/cgroup/memory.max",
                                     "sys/fs/cgroup/memory.current",
                                     "sys/fs/cgroup/memory.stat",
                                     "sys/fs/cgroup/cpu.max",
                                     "sys/fs/cgroup/a/memory.max",
                                     "sys/fs/cgroup/a/memory.current",
                                     "sys/fs/cgroup/a/cpu.max",
                                     "sys/fs/cgroup/memory/memory.limit_in_bytes",
                                     "sys/fs/cgroup/memory/memory.usage_in_bytes",
                                     "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                                     "sys/fs/cgroup/memory/a/memory.usage_in_bytes",
                                     "sys/fs/cgroup/memory/a/memory.stat",
                                     "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                     "sys/fs/cgroup/cpu/cpu.cfs_period_us"};
#define N_LIMITS (sizeof limits / sizeof *limits)

static void remove_root(void)
{
    scratch_remove(root);
}

static void make_root(void)
{
    char full[FULL_PATH];
    /* In memory, where there is such a place. */
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    scratch_folder(root, "fuzz");
    for (size_t i = 0; i < N_FOLDERS; i++) {
        full_path(full, folders[i]);
        must(mkdir(full, 0700) == 0);
    }
    must(setenv("XDG_STATE_HOME", root, 1) == 0 && atexit(remove_root) == 0);
}

static void lower(uint64_t *least, uint64_t value)
{
    if (value < *least) *least = value;
}

/* What the first line of that key says. */
static uint64_t said_free(const char *text)
{
    static const char key[] = "MemAvailable:";
    for (const char *s = text; s; s = strchr(s, '\n')) {
        s += *s == '\n';
        if (strncmp(s, key, sizeof key - 1) != 0) continue;
        unsigned long long kib;
        if (sscanf(s + sizeof key - 1, "%llu", &kib) != 1) break;
        return kib > UINT64_MAX >> 10 ? UINT64_MAX : kib << 10;
    }
    return UINT64_MAX;
}

/* With the groups of the text line by line, what any of them leaves. */
static void check_groups(const char *groups, uint64_t free_bytes, uint64_t memory, int cores)
{
    uint64_t least = free_bytes;
    int fewest = INT32_MAX;
    size_t n_lines = 0;
    for (const char *line = groups; *line && n_lines < 6; n_lines++) {
        const size_t n = strcspn(line, "\n");
        put(cgroup, line, n);
        lower(&least, resources_memory(root));
        const int n_cores = resources_cores(root);
        if (n_cores < fewest) fewest = n_cores;
        line += n + (line[n] != '\0');
        if (!*line) {
            must(memory == least);
            must(cores == fewest);
        }
    }
}

static void check_limits(const char *text, const char *groups)
{
    drop(cgroup);
    drop(meminfo);
    const int all_cores = resources_cores(root);
    must(all_cores >= 1 && resources_memory(root) == UINT64_MAX);
    put(meminfo, text, strlen(text));
    const uint64_t free_bytes = resources_memory(root);
    must(free_bytes == said_free(text));
    put(cgroup, groups, strlen(groups));
    const uint64_t memory = resources_memory(root);
    const int cores = resources_cores(root);
    must(memory <= free_bytes && cores >= 1 && cores <= all_cores);
    check_groups(groups, free_bytes, memory, cores);
}

/* One line, an absolute path or a name, or nothing. */
static void check_last_model(const char *text, size_t n)
{
    bool is_there;
    put(last_model, text, n);
    char *path = paths_remembered_model(&is_there);
    must(path || !is_there);
    if (path) {
        must(*path && !strchr(path, '\n') && (path[0] == '/' || !is_there));
        const size_t len = strlen(path);
        must(is_there || (len <= n && memcmp(path, text, len) == 0));
    }
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes > 4096) return 0;
    if (!root[0]) make_root();
    char *copy = malloc(n_bytes + 1), *texts[2 + N_LIMITS];
    must(copy != NULL);
    if (n_bytes) memcpy(copy, data, n_bytes);
    copy[n_bytes] = '\0';
    for (size_t i = 0, at = 0; i < 2 + N_LIMITS; i++) {
        texts[i] = copy + at;
        if (at < n_bytes) at += strlen(texts[i]) + 1;
        if (at > n_bytes) at = n_bytes;
        if (i >= 2) put(limits[i - 2], texts[i], strlen(texts[i]));
    }
    check_limits(texts[0], texts[1]);
    check_last_model(copy, n_bytes);
    free(copy);
    return 0;
}
