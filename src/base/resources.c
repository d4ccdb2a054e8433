#include "base/resources.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

enum { MAX_FILE = 1 << 20 };

/* The text of root/dir/name; false if there is none. */
static bool read_text(const char *root, const char *dir, const char *name, struct buf *out)
{
    char path[4096];
    struct err ignored;
    int n = snprintf(path, sizeof path, "%s%s/%s", root ? root : "", dir, name);
    buf_clear(out);
    return n > 0 && (size_t)n < sizeof path && file_read(path, MAX_FILE, out, &ignored);
}

/* The number after key, which begins a line or the text; false if it is not there or "max". */
static bool number_after(const char *text, const char *key, uint64_t *out)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, n) == 0) return sscanf(line + n, "%" SCNu64, out) == 1;
    }
    return false;
}

static bool read_number(const char *root, const char *dir, const char *name, uint64_t *out)
{
    struct buf text = {0};
    bool ok = read_text(root, dir, name, &text) && number_after(buf_str(&text), "", out);
    buf_free(&text);
    return ok;
}

/* ---- control groups ---- */

/* Looks at one group's folder and lowers *least. */
typedef void look_fn(const char *root, const char *dir, uint64_t *least);

/* From the group at path up to the top of its hierarchy: every one of them limits. */
static void walk(const char *root, const char *mount, const char *path, look_fn *look,
                 uint64_t *least)
{
    char dir[4096];
    size_t top = strlen(mount);
    int n = snprintf(dir, sizeof dir, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
    if (n < 0 || (size_t)n >= sizeof dir) return;
    for (;;) {
        look(root, dir, least);
        char *slash = strrchr(dir + top, '/');
        if (!slash) return;
        *slash = '\0';
    }
}

/* Whether a comma-separated list holds a word. */
static bool lists(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (; list; list = strchr(list, ',')) {
        if (*list == ',') list++;
        if (strncmp(list, word, n) == 0 && (list[n] == ',' || list[n] == '\0')) return true;
    }
    return false;
}

/* All groups of this process that a controller may limit: lines "0::/path" of version 2 and
 * "4:memory:/path" of version 1. */
static uint64_t least_of_groups(const char *root, const char *controller, look_fn *v2,
                                look_fn *v1)
{
    uint64_t least = UINT64_MAX;
    struct buf text = {0};
    char *save = NULL, mount[64];
    snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controller);
    read_text(root, "/proc/self", "cgroup", &text);
    buf_puts(&text, ""); /* an empty file has no bytes at all */
    for (char *line = strtok_r(text.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        if (names[1] == '\0')
            walk(root, "/sys/fs/cgroup", path, v2, &least);
        else if (lists(names + 1, controller))
            walk(root, mount, path, v1, &least);
    }
    buf_free(&text);
    return least;
}

static void lower(uint64_t *least, uint64_t value)
{
    if (value < *least) *least = value;
}

/* ---- cores ---- */

static void lower_cores(uint64_t *least, uint64_t quota, uint64_t period)
{
    if (period > 0) lower(least, quota / period + (quota % period > 0));
}

static void cores_v2(const char *root, const char *dir, uint64_t *least)
{
    struct buf text = {0};
    uint64_t quota, period;
    if (read_text(root, dir, "cpu.max", &text) &&
        sscanf(buf_str(&text), "%" SCNu64 " %" SCNu64, &quota, &period) == 2)
        lower_cores(least, quota, period);
    buf_free(&text);
}

static void cores_v1(const char *root, const char *dir, uint64_t *least)
{
    uint64_t quota, period;
    /* "-1", no quota, reads as a very large number. */
    if (read_number(root, dir, "cpu.cfs_quota_us", &quota) && quota < INT64_MAX &&
        read_number(root, dir, "cpu.cfs_period_us", &period))
        lower_cores(least, quota, period);
}

int resources_cores(const char *root)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                         : sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t share = least_of_groups(root, "cpu", cores_v2, cores_v1);
    if (n < 1) n = 1;
    return (uint64_t)n < share ? (int)n : share < 1 ? 1 : (int)share;
}

/* ---- memory ---- */

/* limit - used, plus what of the used is cached file the system would give up at once. */
static void lower_memory(const char *root, const char *dir, uint64_t limit, uint64_t used,
                         const char *key, uint64_t *least)
{
    struct buf text = {0};
    uint64_t file = 0;
    if (read_text(root, dir, "memory.stat", &text)) number_after(buf_str(&text), key, &file);
    buf_free(&text);
    used -= file < used ? file : used;
    lower(least, used < limit ? limit - used : 0);
}

static void memory_v2(const char *root, const char *dir, uint64_t *least)
{
    uint64_t limit, used;
    if (read_number(root, dir, "memory.max", &limit) &&
        read_number(root, dir, "memory.current", &used))
        lower_memory(root, dir, limit, used, "inactive_file ", least);
}

static void memory_v1(const char *root, const char *dir, uint64_t *least)
{
    uint64_t limit, used;
    if (read_number(root, dir, "memory.limit_in_bytes", &limit) &&
        read_number(root, dir, "memory.usage_in_bytes", &used))
        lower_memory(root, dir, limit, used, "total_inactive_file ", least);
}

/* ulimit -v and -d: what is left of them. */
static void lower_by_limits(const char *root, uint64_t *least)
{
    struct buf text = {0};
    uint64_t pages[6] = {0}, page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    if (read_text(root, "/proc/self", "statm", &text))
        sscanf(buf_str(&text),
               "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, pages,
               pages + 1, pages + 2, pages + 3, pages + 4, pages + 5);
    const struct {
        int what;
        uint64_t used;
    } limits[] = {{RLIMIT_AS, pages[0] * page_bytes}, {RLIMIT_DATA, pages[5] * page_bytes}};
    for (int i = 0; i < 2; i++) {
        struct rlimit r;
        if (getrlimit(limits[i].what, &r) != 0) continue;
        if (r.rlim_cur == RLIM_INFINITY) continue;
        lower(least, limits[i].used < r.rlim_cur ? r.rlim_cur - limits[i].used : 0);
    }
    buf_free(&text);
}

uint64_t resources_memory(const char *root)
{
    uint64_t least = least_of_groups(root, "memory", memory_v2, memory_v1), kib;
    struct buf text = {0};
    if (read_text(root, "/proc", "meminfo", &text) &&
        number_after(buf_str(&text), "MemAvailable:", &kib))
        lower(&least, kib > UINT64_MAX >> 10 ? UINT64_MAX : kib << 10);
    buf_free(&text);
    lower_by_limits(root, &least);
    return least;
}
