/* cpu.c - which instructions this processor has, and a cap on them for tests.
 *
 * Bits are those of Intel's instruction set reference (cpuid leaves 1 and 7, xgetbv 0) and of the
 * Linux arm64 ELF hwcaps. The detectors are pure functions of these bits, so every machine tests
 * all of them.
 * SPDX-License-Identifier: MIT
 */
#include "base/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct flag_row {
    uint32_t flags;
    const char *text;
    int levels;
} flag_row;

static const flag_row flag_rows[] = {
#define X(name, bit, text, levels) {name, text, levels},
    MICA__CPU_FLAGS(X)
#undef X
};

/* Names for MICA_ISA only. */
static const flag_row alias_rows[] = {
    {MICA__CPU_AMX_INT8 | MICA__CPU_AMX_BF16, "amx", 1 << MICA__CPU_AVX512},
};

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))

static const char *const level_names[MICA__N_CPU_LEVELS] = {"scalar", "avx2", "avx512", "neon"};

/* --- detection -------------------------------------------------------------------------------- */

static bool has(uint32_t reg, int bit)
{
    return reg >> bit & 1;
}

mica__cpu mica__cpu_detect_x86(const mica__cpuid *source)
{
    enum { EAX, EBX, ECX, EDX };
    mica__cpu cpu = {MICA__CPU_SCALAR, 0};
    uint32_t l0[4], l1[4], l7[4], l71[4] = {0};
    source->cpuid(source->user, 0, 0, l0);
    if (l0[EAX] < 7)
        return cpu;
    source->cpuid(source->user, 1, 0, l1);
    source->cpuid(source->user, 7, 0, l7);
    if (l7[EAX] >= 1)
        source->cpuid(source->user, 7, 1, l71);
    const uint64_t saved = has(l1[ECX], 27) ? source->xgetbv(source->user) : 0;
    const bool ymm = (saved & 0x06) == 0x06;
    const bool zmm = (saved & 0xe6) == 0xe6;
    const bool tiles = (saved & 0x60000) == 0x60000;
    if (!ymm || !has(l1[ECX], 28) || !has(l1[ECX], 12) || !has(l1[ECX], 29) || !has(l7[EBX], 5) ||
        !has(l7[EBX], 8))
        return cpu;
    cpu.level = MICA__CPU_AVX2;
    if (has(l71[EAX], 4))
        cpu.flags |= MICA__CPU_AVX_VNNI;
    if (!zmm || !has(l7[EBX], 16) || !has(l7[EBX], 17) || !has(l7[EBX], 30) || !has(l7[EBX], 31))
        return cpu;
    cpu.level = MICA__CPU_AVX512;
    if (has(l7[ECX], 11))
        cpu.flags |= MICA__CPU_AVX512_VNNI;
    if (has(l71[EAX], 5))
        cpu.flags |= MICA__CPU_AVX512_BF16;
    if (has(l7[EDX], 23))
        cpu.flags |= MICA__CPU_AVX512_FP16;
    if (tiles && has(l7[EDX], 24) && has(l7[EDX], 25))
        cpu.flags |= MICA__CPU_AMX_INT8;
    if (tiles && has(l7[EDX], 24) && has(l7[EDX], 22))
        cpu.flags |= MICA__CPU_AMX_BF16;
    return cpu;
}

mica__cpu mica__cpu_detect_arm64(uint64_t hwcap, uint64_t hwcap2)
{
    mica__cpu cpu = {MICA__CPU_SCALAR, 0};
    if (!(hwcap & 1) || !(hwcap >> 1 & 1)) /* FP, ASIMD */
        return cpu;
    cpu.level = MICA__CPU_NEON;
    if (hwcap >> 20 & 1) /* ASIMDDP */
        cpu.flags |= MICA__CPU_ARM_DOTPROD;
    if ((hwcap >> 9 & 1) && (hwcap >> 10 & 1)) /* FPHP, ASIMDHP */
        cpu.flags |= MICA__CPU_ARM_FP16;
    if (hwcap2 >> 13 & 1)
        cpu.flags |= MICA__CPU_ARM_I8MM;
    if (hwcap2 >> 14 & 1)
        cpu.flags |= MICA__CPU_ARM_BF16;
    return cpu;
}

static mica__cpu host;
static pthread_once_t host_once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
static void real_cpuid(void *user, uint32_t leaf, uint32_t subleaf, uint32_t out[4])
{
    (void)user;
    __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]);
}

static uint64_t real_xgetbv(void *user)
{
    (void)user;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
#endif

static void detect_host(void)
{
#if defined(__x86_64__)
    host = mica__cpu_detect_x86(&(mica__cpuid){real_cpuid, real_xgetbv, NULL});
#elif defined(__aarch64__)
    host = mica__cpu_detect_arm64(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
    host = (mica__cpu){MICA__CPU_SCALAR, 0};
#endif
}

const mica__cpu *mica__cpu_host(void)
{
    pthread_once(&host_once, detect_host);
    return &host;
}

mica_status mica__cpu_request_amx(void)
{
    if (!(mica__cpu_host()->flags & (MICA__CPU_AMX_INT8 | MICA__CPU_AMX_BF16)))
        MICA_FAIL(MICA_E_UNSUPPORTED, "this processor has no AMX tiles");
#if defined(__x86_64__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
    static atomic_bool granted;
    if (atomic_load(&granted))
        return MICA_OK;
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) != 0)
        MICA_FAIL(MICA_E_UNSUPPORTED, "the system does not let this process use AMX tiles: %s",
                  strerrordesc_np(errno));
    atomic_store(&granted, true);
#endif
    return MICA_OK;
}

/* --- the cap ---------------------------------------------------------------------------------- */

const char *mica__cpu_level_name(mica__cpu_level level)
{
    return (unsigned)level < MICA__N_CPU_LEVELS ? level_names[level] : "?";
}

static const flag_row *find_flag(const char *text, size_t n, mica__cpu_level level)
{
    for (size_t i = 0; i < N_ROWS(flag_rows); i++)
        if (flag_rows[i].levels >> level & 1 && strlen(flag_rows[i].text) == n &&
            !memcmp(flag_rows[i].text, text, n))
            return &flag_rows[i];
    for (size_t i = 0; i < N_ROWS(alias_rows); i++)
        if (alias_rows[i].levels >> level & 1 && strlen(alias_rows[i].text) == n &&
            !memcmp(alias_rows[i].text, text, n))
            return &alias_rows[i];
    return NULL;
}

static mica_status refuse_flag(const char *isa, const char *flag, size_t n, mica__cpu_level level)
{
    char valid[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < N_ROWS(flag_rows) + N_ROWS(alias_rows); i++) {
        const flag_row *row =
            i < N_ROWS(flag_rows) ? &flag_rows[i] : &alias_rows[i - N_ROWS(flag_rows)];
        if (row->levels >> level & 1 && at < sizeof valid)
            at +=
                (size_t)snprintf(valid + at, sizeof valid - at, "%s%s", at ? ", " : "", row->text);
    }
    return mica__fail(MICA_E_ARGUMENT,
                      "MICA_ISA=%.80s: %s has no flag \"%.*s\" to take away; it has: %s", isa,
                      level_names[level], (int)(n < 40 ? n : 40), flag, at ? valid : "none");
}

static uint32_t flags_of_level(mica__cpu_level level)
{
    uint32_t flags = 0;
    for (size_t i = 0; i < N_ROWS(flag_rows); i++)
        if (flag_rows[i].levels >> level & 1)
            flags |= flag_rows[i].flags;
    return flags;
}

/* NEON and the x86 levels exclude one another; SCALAR is below all. */
static bool level_within(mica__cpu_level level, mica__cpu_level have)
{
    if (level == MICA__CPU_SCALAR || level == have)
        return true;
    return have == MICA__CPU_AVX512 && level == MICA__CPU_AVX2;
}

mica_status mica__cpu_cap(const char *isa, mica__cpu *cpu)
{
    if (!isa || !*isa)
        return MICA_OK;
    const size_t n = strcspn(isa, "-");
    int level = 0;
    while (level < MICA__N_CPU_LEVELS &&
           (strlen(level_names[level]) != n || memcmp(level_names[level], isa, n)))
        level++;
    if (level == MICA__N_CPU_LEVELS)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "MICA_ISA=%.80s is not known: give scalar, avx2, avx512 or neon, followed by "
                  "-flag for each feature to take away (avx512-vnni)",
                  isa);
    if (!level_within((mica__cpu_level)level, cpu->level))
        MICA_FAIL(MICA_E_UNSUPPORTED, "MICA_ISA=%.80s: this machine has no %s, its level is %s",
                  isa, level_names[level], mica__cpu_level_name(cpu->level));
    uint32_t flags = cpu->flags & flags_of_level((mica__cpu_level)level);
    for (const char *at = isa + n; *at;) {
        const char *flag = at + 1; /* behind the dash */
        const size_t length = strcspn(flag, "-");
        const flag_row *row = find_flag(flag, length, (mica__cpu_level)level);
        if (!row)
            return refuse_flag(isa, flag, length, (mica__cpu_level)level);
        flags &= ~row->flags;
        at = flag + length;
    }
    *cpu = (mica__cpu){(mica__cpu_level)level, flags};
    return MICA_OK;
}

const char *mica__cpu_describe(const mica__cpu *cpu, char out[MICA__CPU_TEXT_BYTES])
{
    size_t at = (size_t)snprintf(out, MICA__CPU_TEXT_BYTES, "%s", mica__cpu_level_name(cpu->level));
    for (size_t i = 0; i < N_ROWS(flag_rows); i++)
        if (cpu->flags & flag_rows[i].flags && at < MICA__CPU_TEXT_BYTES)
            at += (size_t)snprintf(out + at, MICA__CPU_TEXT_BYTES - at, "+%s", flag_rows[i].text);
    return out;
}
