#include "base/cpuid.h"

#ifdef __aarch64__

#include <sys/auxv.h>

#include <asm/hwcap.h>

bool cpuid_dotprod(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}

#else

bool cpuid_dotprod(void)
{
    return false;
}

#endif

#ifdef __x86_64__

#include <cpuid.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bits as in the Intel manual, volume 2, CPUID, and volume 1, chapter 13 (XCR0). */
enum {
    FMA = 1u << 12, /* leaf 1, ecx */
    SSE41 = 1u << 19,
    OSXSAVE = 1u << 27,
    AVX = 1u << 28,
    F16C = 1u << 29,

    AVX2 = 1u << 5, /* leaf 7, ebx */
    AVX512F = 1u << 16,
    AVX512DQ = 1u << 17,
    AVX512BW = 1u << 30,

    GFNI = 1u << 8, /* leaf 7, ecx */
    AVX512VNNI = 1u << 11,

    AVXVNNI = 1u << 4, /* leaf 7, subleaf 1, eax */

    AMX_TILE = 1u << 24, /* leaf 7, edx */
    AMX_INT8 = 1u << 25,

    STATE_AVX = 1u << 1 | 1u << 2,
    STATE_AVX512 = STATE_AVX | 1u << 5 | 1u << 6 | 1u << 7,
    STATE_AMX = STATE_AVX512 | 1u << 17 | 1u << 18,
};
/* An enumerator is an int, and this one has its top bit. */
#define AVX512VL (1u << 31)

/* From <asm/prctl.h> of Linux 5.16, which Debian 12's own headers have and older ones lack. */
enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 };

struct leaf {
    unsigned eax, ebx, ecx, edx;
};

static struct leaf subleaf(unsigned n, unsigned sub)
{
    struct leaf l = {0};
    __get_cpuid_count(n, sub, &l.eax, &l.ebx, &l.ecx, &l.edx);
    return l;
}

static struct leaf leaf(unsigned n)
{
    return subleaf(n, 0);
}

static bool all(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

/* Whether the system saves these registers. xgetbv faults without OSXSAVE. */
static bool saves(unsigned states)
{
    if (!all(leaf(1).ecx, OSXSAVE)) return false;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return all(low, states);
}

/* The system is not asked: SSE4.1 has the registers of all x86-64, which every one saves. */
bool cpuid_sse41(void)
{
    return all(leaf(1).ecx, SSE41);
}

bool cpuid_avx2(void)
{
    return all(leaf(1).ecx, AVX | F16C | FMA) && all(leaf(7).ebx, AVX2) && saves(STATE_AVX);
}

/* Leaf 7 says in eax how many subleaves it has; beyond them cpuid may say anything. */
bool cpuid_avxvnni(void)
{
    return cpuid_avx2() && leaf(7).eax >= 1 && all(subleaf(7, 1).eax, AVXVNNI);
}

bool cpuid_avx512(void)
{
    struct leaf l = leaf(7);
    return cpuid_avx2() && all(l.ebx, AVX512F | AVX512DQ | AVX512BW | AVX512VL) &&
           all(l.ecx, AVX512VNNI) && saves(STATE_AVX512);
}

bool cpuid_gfni(void)
{
    return cpuid_avx512() && all(leaf(7).ecx, GFNI);
}

bool cpuid_amx(void)
{
    return cpuid_gfni() && all(leaf(7).edx, AMX_TILE | AMX_INT8) && saves(STATE_AMX) &&
           syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

static unsigned amd_family;

/* Leaf 1 as in AMD's manual, volume 3, appendix E. */
static void ask_family(void)
{
    const struct leaf l = leaf(0);
    const unsigned name[] = {l.ebx, l.edx, l.ecx};
    if (memcmp(name, "AuthenticAMD", sizeof name) != 0) return;
    const unsigned eax = leaf(1).eax, family = eax >> 8 & 15;
    amd_family = family < 15 ? family : family + (eax >> 20 & 255);
}

unsigned cpuid_amd_family(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_family);
    return amd_family;
}

#else

bool cpuid_sse41(void)
{
    return false;
}

bool cpuid_avx2(void)
{
    return false;
}

bool cpuid_avxvnni(void)
{
    return false;
}

bool cpuid_avx512(void)
{
    return false;
}

bool cpuid_gfni(void)
{
    return false;
}

bool cpuid_amx(void)
{
    return false;
}

unsigned cpuid_amd_family(void)
{
    return 0;
}

#endif
