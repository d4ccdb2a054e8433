/* What control groups of both versions, the system and ulimit leave to a process, from folders
 * that look like /proc and /sys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../scratch.h"
#include "base/resources.h"

static char root[SCRATCH_PATH];

static void put(const char *path, const char *text)
{
    char full[400];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *p = strchr(full + strlen(root) + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        mkdir(full, 0700);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int make_root(void **state)
{
    (void)state;
    scratch_folder(root, "resources");
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    scratch_remove(root);
    return 0;
}

static void test_nothing_said(void **state)
{
    (void)state;
    assert_true(resources_memory(root) == UINT64_MAX);
    assert_true(resources_cores(root) >= 1);
    assert_true(resources_cores(NULL) >= 1);
    assert_true(resources_memory(NULL) > 1 << 20);
}

static void test_system(void **state)
{
    (void)state;
    put("proc/meminfo", "MemTotal:  8000 kB\nMemFree: 10 kB\nMemAvailable:   5000 kB\n");
    assert_int_equal(resources_memory(root), 5000 << 10);
}

static void test_version_2(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable: 4000000 kB\n");
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/b/memory.current", "1000\n");
    assert_int_equal(resources_memory(root), 4000000ull << 10);
    /* The group above limits too; cached file that is not in use counts as free. */
    put("sys/fs/cgroup/a/memory.max", "1000000\n");
    put("sys/fs/cgroup/a/memory.current", "400000\n");
    assert_int_equal(resources_memory(root), 600000);
    put("sys/fs/cgroup/a/memory.stat", "anon 5\nactive_file 7\ninactive_file 100000\n");
    assert_int_equal(resources_memory(root), 700000);
    put("sys/fs/cgroup/a/memory.current", "2000000\n");
    assert_int_equal(resources_memory(root), 0);

    int n = resources_cores(root);
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(resources_cores(root), n);
    put("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    assert_int_equal(resources_cores(root), 1);
    put("sys/fs/cgroup/a/cpu.max", "100000000 100000\n");
    assert_int_equal(resources_cores(root), n);
}

static void test_version_1(void **state)
{
    (void)state;
    put("proc/self/cgroup", "4:memory:/x\n2:cpu,cpuacct:/x\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n");
    assert_int_equal(resources_memory(root), 4000000ull << 10);
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "5000000\n");
    put("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "3000000\n");
    put("sys/fs/cgroup/memory/x/memory.stat", "inactive_file 5\ntotal_inactive_file 200\n");
    assert_int_equal(resources_memory(root), 2000200);

    int n = resources_cores(root);
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(resources_cores(root), n);
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "30000\n");
    assert_int_equal(resources_cores(root), 1);
}

/* A process in no group that is to be seen, as in a container. */
static void test_hidden_group(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/host/only/path\n");
    put("sys/fs/cgroup/memory.max", "300000\n");
    put("sys/fs/cgroup/memory.current", "100000\n");
    assert_int_equal(resources_memory(root), 200000);
    put("proc/self/cgroup", "nonsense\n0:\n");
    assert_int_equal(resources_memory(root), 4000000ull << 10);
    put("proc/self/cgroup", "");
    assert_int_equal(resources_memory(root), 4000000ull << 10);
}

/* Figures beyond all sizes limit nothing. */
static void test_large(void **state)
{
    (void)state;
    int n = resources_cores(root);
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/cpu.max", "18446744073709551615 100000\n");
    assert_int_equal(resources_cores(root), n);
    put("proc/meminfo", "MemAvailable: 18446744073709551615 kB\n");
    put("sys/fs/cgroup/memory.max", "max\n");
    assert_true(resources_memory(root) == UINT64_MAX);
}

static void test_ulimit(void **state)
{
    (void)state;
    put("proc/self/statm", "100 50 20 1 0 30 0\n");
    struct rlimit old, less;
    assert_int_equal(getrlimit(RLIMIT_DATA, &old), 0);
    less = old;
    less.rlim_cur = 1ull << 30;
    assert_int_equal(setrlimit(RLIMIT_DATA, &less), 0);
    uint64_t left = resources_memory(root);
    assert_int_equal(setrlimit(RLIMIT_DATA, &old), 0);
    assert_true(left < 1ull << 30 && left > (1ull << 30) - (4 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_said), cmocka_unit_test(test_system),
        cmocka_unit_test(test_version_2),    cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_hidden_group), cmocka_unit_test(test_large),
        cmocka_unit_test(test_ulimit),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
