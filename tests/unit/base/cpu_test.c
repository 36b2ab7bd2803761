/* cpu_test.c - feature detection from given register values, and MICA_ISA.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/cpu.h"

/* --- detection -------------------------------------------------------------------------------- */

typedef struct machine {
    uint32_t max_leaf;
    uint32_t l1[4], l7[4], l71[4];
    uint64_t xcr0;
} machine;

static void fake_cpuid(void *user, uint32_t leaf, uint32_t subleaf, uint32_t out[4])
{
    const machine *m = user;
    memset(out, 0, 16);
    if (leaf == 0)
        out[0] = m->max_leaf;
    if (leaf == 1)
        memcpy(out, m->l1, 16);
    if (leaf == 7)
        memcpy(out, subleaf == 0 ? m->l7 : m->l71, 16);
}

static uint64_t fake_xgetbv(void *user)
{
    return ((machine *)user)->xcr0;
}

static mica__cpu detect(machine m)
{
    return mica__cpu_detect_x86(&(mica__cpuid){fake_cpuid, fake_xgetbv, &m});
}

/* Register values as published for these processors (leaf 1 ecx; leaf 7 ebx, ecx, edx; leaf 7.1
 * eax), only the bits that matter here. */
#define L1_AVX   (1u << 28 | 1u << 27 | 1u << 12 | 1u << 29) /* AVX OSXSAVE FMA F16C */
#define L7_AVX2  (1u << 5 | 1u << 8)                         /* AVX2 BMI2 */
#define L7_512   (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) /* F DQ BW VL */
#define XCR0_AVX 0x7u
#define XCR0_512 0xe7u
#define XCR0_AMX 0x602e7u

static const machine haswell = {0xd, {0, 0, L1_AVX, 0}, {0, L7_AVX2, 0, 0}, {0}, XCR0_AVX};
static const machine alder_lake = {
    0x20, {0, 0, L1_AVX, 0}, {1, L7_AVX2, 0, 0}, {1u << 4, 0, 0, 0}, XCR0_AVX};
static const machine skylake_x = {
    0x16, {0, 0, L1_AVX, 0}, {0, L7_AVX2 | L7_512, 0, 0}, {0}, XCR0_512};
static const machine zen4 = {
    0x10, {0, 0, L1_AVX, 0}, {1, L7_AVX2 | L7_512, 1u << 11, 0}, {1u << 5, 0, 0, 0}, XCR0_512};
static const machine sapphire_rapids = {
    0x20,
    {0, 0, L1_AVX, 0},
    {2, L7_AVX2 | L7_512, 1u << 11, 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25},
    {1u << 4 | 1u << 5, 0, 0, 0},
    XCR0_AMX};

static void known_processors_get_their_level_and_flags(void **state)
{
    (void)state;
    char text[MICA__CPU_TEXT_BYTES];
    mica__cpu cpu = detect((machine){.max_leaf = 2});
    assert_string_equal(mica__cpu_describe(&cpu, text), "scalar");
    cpu = detect(haswell);
    assert_string_equal(mica__cpu_describe(&cpu, text), "avx2");
    cpu = detect(alder_lake);
    assert_string_equal(mica__cpu_describe(&cpu, text), "avx2+avxvnni");
    cpu = detect(skylake_x);
    assert_string_equal(mica__cpu_describe(&cpu, text), "avx512");
    cpu = detect(zen4);
    assert_string_equal(mica__cpu_describe(&cpu, text), "avx512+vnni+bf16");
    cpu = detect(sapphire_rapids);
    assert_string_equal(mica__cpu_describe(&cpu, text),
                        "avx512+avxvnni+vnni+bf16+fp16+amxint8+amxbf16");
}

static void registers_that_the_system_does_not_save_do_not_count(void **state)
{
    (void)state;
    char text[MICA__CPU_TEXT_BYTES];
    machine m = sapphire_rapids;
    m.xcr0 = XCR0_512;
    mica__cpu cpu = detect(m);
    assert_string_equal(mica__cpu_describe(&cpu, text), "avx512+avxvnni+vnni+bf16+fp16");
    m.xcr0 = XCR0_AVX;
    cpu = detect(m);
    assert_string_equal(mica__cpu_describe(&cpu, text), "avx2+avxvnni");
    m.xcr0 = 3;
    cpu = detect(m);
    assert_string_equal(mica__cpu_describe(&cpu, text), "scalar");
    m = sapphire_rapids;
    m.l1[2] &= ~(1u << 27); /* no OSXSAVE: xgetbv does not exist */
    cpu = detect(m);
    assert_string_equal(mica__cpu_describe(&cpu, text), "scalar");
}

static void every_part_of_a_level_is_required(void **state)
{
    (void)state;
    for (int bit = 0; bit < 32; bit++) {
        machine m = skylake_x;
        m.l1[2] &= ~(1u << bit);
        assert_int_equal(detect(m).level, L1_AVX >> bit & 1 ? MICA__CPU_SCALAR : MICA__CPU_AVX512);
        m = skylake_x;
        m.l7[1] &= ~(1u << bit);
        assert_int_equal(detect(m).level, L7_AVX2 >> bit & 1  ? MICA__CPU_SCALAR
                                          : L7_512 >> bit & 1 ? MICA__CPU_AVX2
                                                              : MICA__CPU_AVX512);
    }
}

static void arm_hwcaps_become_flags(void **state)
{
    (void)state;
    char text[MICA__CPU_TEXT_BYTES];
    mica__cpu cpu = mica__cpu_detect_arm64(0x3, 0); /* FP and ASIMD: the baseline */
    assert_string_equal(mica__cpu_describe(&cpu, text), "neon");
    cpu = mica__cpu_detect_arm64(0x3 | 1 << 9 | 1 << 10 | 1 << 20, 1 << 13 | 1 << 14);
    assert_string_equal(mica__cpu_describe(&cpu, text), "neon+dotprod+i8mm+bf16+fp16");
    cpu = mica__cpu_detect_arm64(0x3 | 1 << 9, 0); /* half floats in scalar registers only */
    assert_string_equal(mica__cpu_describe(&cpu, text), "neon");
    cpu = mica__cpu_detect_arm64(0x1 | 1 << 20, 1 << 13); /* no ASIMD: no flag counts */
    assert_string_equal(mica__cpu_describe(&cpu, text), "scalar");
}

static void the_host_has_a_level_that_it_can_run(void **state)
{
    (void)state;
    char text[MICA__CPU_TEXT_BYTES];
    print_message("host: %s\n", mica__cpu_describe(mica__cpu_host(), text));
    const mica__cpu_level level = mica__cpu_host()->level;
#if defined(__x86_64__)
    assert_int_equal(level >= MICA__CPU_AVX2, __builtin_cpu_supports("avx2") &&
                                                  __builtin_cpu_supports("fma") &&
                                                  __builtin_cpu_supports("bmi2"));
    assert_int_equal(level == MICA__CPU_AVX512,
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"));
#elif defined(__aarch64__)
    assert_int_equal(level, MICA__CPU_NEON);
#endif
    const bool amx = mica__cpu_host()->flags & (MICA__CPU_AMX_INT8 | MICA__CPU_AMX_BF16);
    const mica_status first = mica__cpu_request_amx();
    assert_true(first == MICA_OK ? amx : first == MICA_E_UNSUPPORTED);
    assert_int_equal(mica__cpu_request_amx(), first);
}

/* --- MICA_ISA --------------------------------------------------------------------------------- */

static void check_cap(mica__cpu cpu, const char *isa, const char *expected)
{
    char text[MICA__CPU_TEXT_BYTES];
    assert_ok(mica__cpu_cap(isa, &cpu));
    assert_string_equal(mica__cpu_describe(&cpu, text), expected);
}

static void a_cap_lowers_the_level_and_takes_flags_away(void **state)
{
    (void)state;
    const mica__cpu full = detect(sapphire_rapids);
    check_cap(full, NULL, "avx512+avxvnni+vnni+bf16+fp16+amxint8+amxbf16");
    check_cap(full, "", "avx512+avxvnni+vnni+bf16+fp16+amxint8+amxbf16");
    check_cap(full, "avx512", "avx512+avxvnni+vnni+bf16+fp16+amxint8+amxbf16");
    check_cap(full, "avx512-vnni", "avx512+avxvnni+bf16+fp16+amxint8+amxbf16");
    check_cap(full, "avx512-amx-fp16", "avx512+avxvnni+vnni+bf16");
    check_cap(full, "avx512-amxint8", "avx512+avxvnni+vnni+bf16+fp16+amxbf16");
    check_cap(full, "avx2", "avx2+avxvnni");
    check_cap(full, "avx2-avxvnni", "avx2");
    check_cap(full, "scalar", "scalar");
    check_cap(detect(skylake_x), "avx512-vnni", "avx512"); /* taking away what is not there */
    const mica__cpu arm = mica__cpu_detect_arm64(0x3 | 1 << 20, 1 << 13);
    check_cap(arm, "neon", "neon+dotprod+i8mm");
    check_cap(arm, "neon-i8mm", "neon+dotprod");
    check_cap(arm, "scalar", "scalar");
}

static void a_cap_that_says_nothing_sensible_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *isa;
        mica_status status;
        const char *message;
    } cases[] = {
        {"sse2", MICA_E_ARGUMENT, "scalar, avx2, avx512 or neon"},
        {"AVX2", MICA_E_ARGUMENT, "scalar, avx2, avx512 or neon"},
        {"-vnni", MICA_E_ARGUMENT, "scalar, avx2, avx512 or neon"},
        {"avx2 ", MICA_E_ARGUMENT, "scalar, avx2, avx512 or neon"},
        {"avx2-", MICA_E_ARGUMENT, "it has: avxvnni"},
        {"avx2-vnni", MICA_E_ARGUMENT, "it has: avxvnni"},
        {"avx2-avxvnni-", MICA_E_ARGUMENT, "no flag \"\""},
        {"scalar-vnni", MICA_E_ARGUMENT, "it has: none"},
        {"avx512-sse", MICA_E_ARGUMENT, "avxvnni, vnni, bf16, fp16, amxint8, amxbf16, amx"},
        {"neon", MICA_E_UNSUPPORTED, "no neon, its level is avx512"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica__cpu cpu = detect(zen4);
        const mica__cpu before = cpu;
        assert_status(mica__cpu_cap(cases[i].isa, &cpu), cases[i].status);
        assert_non_null(strstr(mica_last_error(), cases[i].message));
        assert_true(cpu.level == before.level && cpu.flags == before.flags);
    }
    mica__cpu small = detect(haswell);
    assert_status(mica__cpu_cap("avx512", &small), MICA_E_UNSUPPORTED);
    char longer[5000];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_status(mica__cpu_cap(longer, &small), MICA_E_ARGUMENT);
    memcpy(longer, "avx2-", 5);
    assert_status(mica__cpu_cap(longer, &small), MICA_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_processors_get_their_level_and_flags),
        cmocka_unit_test(registers_that_the_system_does_not_save_do_not_count),
        cmocka_unit_test(every_part_of_a_level_is_required),
        cmocka_unit_test(arm_hwcaps_become_flags),
        cmocka_unit_test(the_host_has_a_level_that_it_can_run),
        cmocka_unit_test(a_cap_lowers_the_level_and_takes_flags_away),
        cmocka_unit_test(a_cap_that_says_nothing_sensible_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
