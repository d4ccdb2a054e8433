/* The processor's own answers against what Linux lists in /proc/cpuinfo, which leaves out what
 * it does not save. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpuid.h"

/* " flag flag ... flag " of the first processor; a page of text on today's machines. */
static char flags[16384];
static int amd_family;

static int read_flags(void **state)
{
    (void)state;
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return 0;
    char line[sizeof flags - 2];
    bool is_amd = false;
    while (!flags[0] && fgets(line, sizeof line, f)) {
        if (strncmp(line, "vendor_id", 9) == 0) is_amd = strstr(line, "AuthenticAMD");
        if (is_amd) sscanf(line, "cpu family : %d", &amd_family);
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) continue;
        char *list = strchr(line, ':') + 1;
        list[strcspn(list, "\n")] = '\0';
        snprintf(flags, sizeof flags, "%s ", list);
    }
    fclose(f);
    return 0;
}

static bool listed(const char *names)
{
    char copy[128], *rest = copy;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name; (name = strsep(&rest, " "));) {
        char word[40];
        snprintf(word, sizeof word, " %s ", name);
        if (!strstr(flags, word)) return false;
    }
    return true;
}

static void test_agrees_with_the_system(void **state)
{
    (void)state;
#ifdef __x86_64__ /* elsewhere no such flag is listed */
    if (!flags[0]) skip();
#endif
    bool avx2 = listed("avx avx2 f16c");
    bool avx512 = avx2 && listed("avx512f avx512dq avx512bw avx512vl avx512_vnni");
    assert_int_equal(cpuid_sse41(), listed("sse4_1"));
    assert_int_equal(cpuid_dotprod(), listed("asimddp"));
    assert_int_equal(cpuid_avx2(), avx2);
    assert_int_equal(cpuid_avxvnni(), avx2 && listed("avx_vnni"));
    assert_int_equal(cpuid_avx512(), avx512);
    assert_int_equal(cpuid_gfni(), avx512 && listed("gfni"));
    assert_int_equal(cpuid_amd_family(), amd_family);
    /* A sandbox may refuse what the processor has, never the other way round. */
    if (cpuid_amx()) assert_true(avx512 && listed("gfni amx_tile amx_int8"));
}

static void test_a_set_includes_the_one_below(void **state)
{
    (void)state;
    if (cpuid_amx()) assert_true(cpuid_gfni());
    if (cpuid_gfni()) assert_true(cpuid_avx512());
    if (cpuid_avx512()) assert_true(cpuid_avx2());
}

static void test_asking_again_gives_the_same(void **state)
{
    (void)state;
    bool amx = cpuid_amx();
    assert_int_equal(cpuid_amx(), amx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_the_system),
        cmocka_unit_test(test_a_set_includes_the_one_below),
        cmocka_unit_test(test_asking_again_gives_the_same),
    };
    return cmocka_run_group_tests(tests, read_flags, NULL);
}
