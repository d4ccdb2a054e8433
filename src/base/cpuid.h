/* What this processor can run, asked of it with cpuid and of the system with xgetbv: an
 * instruction set counts only where the system also saves its registers (XCR0).
 *
 * Each function answers for the instruction set that the Makefile compiles for under that name.
 * Any thread may call them; cpuid may trap in a virtual machine, so callers ask once, at
 * opening, but where it is said. Of another architecture's sets every answer is no. This file
 * knows no kernel. */
#ifndef BASE_CPUID_H
#define BASE_CPUID_H

#include <stdbool.h>

/* SSE4.1. */
bool cpuid_sse41(void);

/* Dot products of bytes of ARMv8.2 (ASIMDDP), of 64 bits. */
bool cpuid_dotprod(void);

/* AVX2, F16C and FMA. */
bool cpuid_avx2(void);

/* AVX-VNNI, with all that cpuid_avx2 asks for. */
bool cpuid_avxvnni(void);

/* AVX-512 F, BW, VL, DQ and VNNI, with all that cpuid_avx2 asks for. */
bool cpuid_avx512(void);

/* GFNI on vectors of 512 bits, with all that cpuid_avx512 asks for. */
bool cpuid_gfni(void);

/* AMX tiles and int8 products, with all that cpuid_gfni asks for. Linux lends the tile
 * registers to a process that asks (arch_prctl), and only then: this asks, for the whole
 * process and for good, and is false where the system refuses. */
bool cpuid_amx(void);

/* The family of a processor of AMD, 0 of others; asked once, so callers may ask at any time. */
unsigned cpuid_amd_family(void);
enum { FAMILY_ZEN5 = 26 };

#endif
