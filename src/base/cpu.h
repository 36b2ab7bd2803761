/* cpu.h - which instructions this processor has, and a cap on them for tests.
 *
 * Kernels exist per level; flags stand beside the level, each with its own kernel or a fallback
 * that gives the same bits. A level is reported only when the operating system keeps its registers.
 * Detection happens once; kernels are then chosen from a mica__cpu, never from cpuid.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_CPU_H
#define MICA_BASE_CPU_H

#include "base/cgroup.h"
#include "base/fail.h"

/* Ordered within an architecture: x86 has SCALAR < AVX2 < AVX512, arm64 has SCALAR < NEON. */
typedef enum mica__cpu_level {
    MICA__CPU_SCALAR,
    MICA__CPU_AVX2,   /* with FMA, F16C, BMI2 */
    MICA__CPU_AVX512, /* F, BW, VL, DQ, and all of AVX2 */
    MICA__CPU_NEON,
    MICA__N_CPU_LEVELS
} mica__cpu_level;

/* Enumerator, bit, name in MICA_ISA, levels that have it (bits 1 << level). */
#define MICA__CPU_FLAGS(X)                                                                         \
    X(MICA__CPU_AVX_VNNI, 0, "avxvnni", 1 << MICA__CPU_AVX2 | 1 << MICA__CPU_AVX512)               \
    X(MICA__CPU_AVX512_VNNI, 1, "vnni", 1 << MICA__CPU_AVX512)                                     \
    X(MICA__CPU_AVX512_BF16, 2, "bf16", 1 << MICA__CPU_AVX512)                                     \
    X(MICA__CPU_AVX512_FP16, 3, "fp16", 1 << MICA__CPU_AVX512)                                     \
    X(MICA__CPU_AMX_INT8, 4, "amxint8", 1 << MICA__CPU_AVX512)                                     \
    X(MICA__CPU_AMX_BF16, 5, "amxbf16", 1 << MICA__CPU_AVX512)                                     \
    X(MICA__CPU_ARM_DOTPROD, 6, "dotprod", 1 << MICA__CPU_NEON)                                    \
    X(MICA__CPU_ARM_I8MM, 7, "i8mm", 1 << MICA__CPU_NEON)                                          \
    X(MICA__CPU_ARM_BF16, 8, "bf16", 1 << MICA__CPU_NEON)                                          \
    X(MICA__CPU_ARM_FP16, 9, "fp16", 1 << MICA__CPU_NEON)

typedef enum mica__cpu_flag {
#define X(name, bit, text, levels) name = 1 << (bit),
    MICA__CPU_FLAGS(X)
#undef X
} mica__cpu_flag;

typedef struct mica__cpu {
    mica__cpu_level level;
    uint32_t flags; /* mica__cpu_flag, or-ed */
} mica__cpu;

/* What this machine has; detected at the first call. AMX flags say that the processor has it and
 * the system saves its tiles; a process must besides ask for permission: mica__cpu_request_amx. */
const mica__cpu *mica__cpu_host(void);

/* Asks the system once per process for permission to use AMX tiles: MICA_OK when granted (now or
 * before), MICA_E_UNSUPPORTED with the reason when not. Nothing may execute a tile instruction
 * before. */
mica_status mica__cpu_request_amx(void);

/* Lowers *cpu by the text of MICA_ISA: a level, then "-flag" for each flag to take away.
 *   "scalar"  "avx2"  "avx512"  "neon"  "avx2-avxvnni"  "avx512-vnni-amx"
 * A level loses the flags of higher levels; "amx" stands for amxint8 and amxbf16. NULL and ""
 * change nothing. MICA_E_ARGUMENT for anything unknown, listing what is valid; MICA_E_UNSUPPORTED
 * for a level above what *cpu has (it would not test what it says). *cpu is unchanged on failure.
 */
mica_status mica__cpu_cap(const char *isa, mica__cpu *cpu);

/* "avx512"; "?" outside the list. */
const char *mica__cpu_level_name(mica__cpu_level level);

/* Writes "avx512+vnni+amxint8" and returns out. */
#define MICA__CPU_TEXT_BYTES 128
const char *mica__cpu_describe(const mica__cpu *cpu, char out[MICA__CPU_TEXT_BYTES]);

/* Detection from given answers, on any machine (tests). cpuid fills out with eax, ebx, ecx, edx. */
typedef struct mica__cpuid {
    void (*cpuid)(void *user, uint32_t leaf, uint32_t subleaf, uint32_t out[4]);
    uint64_t (*xgetbv)(void *user); /* register 0; called only when OSXSAVE says it exists */
    void *user;
} mica__cpuid;
mica__cpu mica__cpu_detect_x86(const mica__cpuid *source);
mica__cpu mica__cpu_detect_arm64(uint64_t hwcap, uint64_t hwcap2);

#endif
