/* matmul_levels_test.c - every feature level of this machine gives the scalar level's bits.
 *
 * Over formats, shapes around the tile sizes, unaligned weights and extreme data; for every number
 * of activation rows also against one row at a time.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"
#include "support/weights.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/act8.h"
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/matmul_level.h"
#include "base/cpu.h"

/* What MICA_ISA could say, by architecture. */
static const char *const level_texts[] = {
    "avx512", "avx512-vnni", "avx512-vnni-avxvnni", "avx2", "avx2-avxvnni", "neon", "neon-dotprod"};
#define N_LEVELS ((int)(sizeof level_texts / sizeof *level_texts))

#define DIGEST 0x8fade14388e8f41bu

static const mica__cpu scalar_cpu = {MICA__CPU_SCALAR, 0};

/* The processor capped to level i; false where this machine lacks it. */
static bool capped(int i, mica__cpu *cpu)
{
    *cpu = *mica__cpu_host();
    return mica__cpu_cap(level_texts[i], cpu) == MICA_OK;
}

/* Whether level i has the kernels of a better one: what it lacks is for other products. */
static bool seen_before(int i, bool i8)
{
    mica__cpu cpu, better;
    if (!capped(i, &cpu))
        return false;
    const mica__matmul_level *own = mica__matmul_level_for(&cpu);
    for (int j = 0; j < i; j++) {
        if (!capped(j, &better))
            continue;
        const mica__matmul_level *other = mica__matmul_level_for(&better);
        if (i8 ? other->i8 == own->i8 : other->real == own->real)
            return true;
    }
    return false;
}

static void *filled(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(p);
    memset(p, 0xff, bytes);
    return p;
}

/* Activations that reach the corners: random, all at the largest code, tiny, a group with NaN. */
static void draw_rows(float *x, int64_t m, int64_t k, pattern kind)
{
    draw_activations(x, m * k, 11);
    for (int64_t i = 0; i < m * k; i++) {
        if (kind == PATTERN_LARGEST)
            x[i] = i % 7 ? 3.0f : -3.0f;
        if (kind == PATTERN_TINY)
            x[i] *= 0x1p-110f;
    }
}

static uint8_t *rounded(const mica__cpu *cpu, float *x, int64_t m, int64_t k, int64_t group)
{
    const int64_t bytes = mica__act8_row_bytes(k, group);
    uint8_t *rows = filled((size_t)(m * bytes));
    mica__quantize_rows_attrs attrs = {(int32_t)group};
    mica__operand in = plain_operand(x, MICA_F32, 2, (int64_t[]){m, k});
    mica__operand out = plain_operand(rows, MICA_U8, 2, (int64_t[]){m, bytes});
    mica__call call = {.attrs = &attrs, .cpu = cpu, .n_in = 1, .n_out = 1, .in = &in, .out = &out};
    assert_ok(run_kernel_in_order(&mica__kernel_quantize_rows, &call, -1));
    return rows;
}

static void multiply(const mica__kernel *kernel, const mica__cpu *cpu, const weights *w, void *x,
                     mica_dtype dtype, int64_t m, int64_t columns, float *out)
{
    mica__operand in[4], y = plain_operand(out, MICA_F32, 2, (int64_t[]){m, w->attrs.n});
    in[0] = plain_operand(x, dtype, 2, (int64_t[]){m, columns});
    mica__call call = {.attrs = &w->attrs, .cpu = cpu, .n_out = 1, .in = in, .out = &y};
    call.n_in = 1 + weights_operands(w, in + 1);
    assert_ok(run_kernel_in_order(kernel, &call, 1));
}

static bool same_bits(const float *a, const float *b, int64_t n, int64_t *at)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], 4) && !(isnan(a[i]) && isnan(b[i]))) {
            *at = i;
            return false;
        }
    return true;
}

/* One matrix, the largest number of activation rows, then fewer: all the same bits as scalar. */
static void compare_levels(const mica__kernel *kernel, const weights *w, pattern kind)
{
    static const int64_t counts[] = {1, 2, 3, 5, 6, 16, 17, 33};
    const int64_t n = w->attrs.n, k = w->attrs.k, most = 33;
    const bool i8 = kernel == &mica__kernel_qmatmul_i8;
    const int64_t group = mica__act8_group(w->attrs.format, w->attrs.group);
    float *x = filled((size_t)(most * k) * 4), *want = filled((size_t)(most * n) * 4);
    float *got = filled((size_t)(most * n) * 4);
    draw_rows(x, most, k, kind);
    if (kind == PATTERN_RANDOM)
        x[2 * k + 5] = NAN; /* row 2 */
    uint8_t *rows = i8 ? rounded(&scalar_cpu, x, most, k, group) : NULL;
    void *acts = i8 ? (void *)rows : (void *)x;
    const mica_dtype dtype = i8 ? MICA_U8 : MICA_F32;
    const int64_t columns = i8 ? mica__act8_row_bytes(k, group) : k;
    multiply(kernel, &scalar_cpu, w, acts, dtype, most, columns, want);
    for (int level = 0; level < N_LEVELS; level++) {
        mica__cpu cpu;
        if (!capped(level, &cpu) || seen_before(level, i8))
            continue;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            int64_t at;
            memset(got, 0xff, (size_t)(most * n) * 4);
            multiply(kernel, &cpu, w, acts, dtype, counts[c], columns, got);
            if (!same_bits(got, want, counts[c] * n, &at))
                fail_msg("%s, %s, %lld rows, data %d: row %lld output %lld: %.9g instead of %.9g",
                         weights_name(w), level_texts[level], (long long)counts[c], (int)kind,
                         (long long)(at / n), (long long)(at % n), got[at], want[at]);
        }
    }
    free(x);
    free(want);
    free(got);
    free(rows);
}

static void compare_formats(const mica__kernel *kernel)
{
    static const int64_t ns[] = {1, 15, 16, 17, 33, 64, 80, 130};
    int32_t format;
    int bits, group;
    mica_dtype scales;
    for (int i = 0; weights_format(i, &format, &bits, &group, &scales); i++) {
        if (kernel == &mica__kernel_qmatmul_i8 && !mica__act8_has_product(format))
            continue;
        const mica__block_info *facts = mica__block_info_of((mica__block_format)format);
        const int64_t step = facts->values ? facts->values : group;
        const int64_t ks[] = {step, 256, 512, 1024 + 256, 2048 + step};
        for (int j = 0; j < 8; j++) {
            const pattern kind = (pattern)(j % N_PATTERNS);
            weights w = weights_make(format, bits, group, scales, ns[j], ks[(i + j) % 5], kind,
                                     (i + j) % 3, (uint64_t)(100 * i + j));
            compare_levels(kernel, &w, kind);
            weights_free(&w);
        }
    }
}

static void rounded_products_are_equal_at_every_level(void **state)
{
    (void)state;
    compare_formats(&mica__kernel_qmatmul_i8);
}

static void f32_products_are_equal_at_every_level(void **state)
{
    (void)state;
    compare_formats(&mica__kernel_qmatmul);
}

static void activations_round_equally_at_every_level(void **state)
{
    (void)state;
    static const int64_t groups[] = {32, 64, 128, 256};
    for (int g = 0; g < 4; g++)
        for (pattern kind = 0; kind < N_PATTERNS; kind++) {
            const int64_t m = 5, k = groups[g] * 7, bytes = mica__act8_row_bytes(k, groups[g]);
            float *x = filled((size_t)(m * k) * 4);
            draw_rows(x, m, k, kind);
            x[3] = INFINITY;
            x[k + 1] = NAN;
            for (int64_t i = 2 * k; i < 2 * k + groups[g]; i++)
                x[i] = i % 2 ? -0.0f : 0.0f;
            for (int64_t i = 3 * k; i < 3 * k + groups[g]; i++) /* many ties */
                x[i] = (float)((i * 13) % 255 - 127) * 0.5f;
            x[3 * k] = 127;
            x[4 * k] = 3.4028235e38f;
            uint8_t *want = rounded(&scalar_cpu, x, m, k, groups[g]);
            for (int level = 0; level < N_LEVELS; level++) {
                mica__cpu cpu;
                if (!capped(level, &cpu))
                    continue;
                uint8_t *got = rounded(&cpu, x, m, k, groups[g]);
                /* A NaN may have any payload. */
                for (int64_t r = 0; r < m; r++)
                    for (int64_t i = 0; i < k / groups[g]; i++) {
                        float *a = mica__act8_scales(want + r * bytes, k) + i;
                        float *b = mica__act8_scales(got + r * bytes, k) + i;
                        if (isnan(*a) && isnan(*b))
                            *a = *b = NAN;
                    }
                if (memcmp(got, want, (size_t)(m * bytes)))
                    fail_msg("groups of %lld, %s, data %d differ", (long long)groups[g],
                             level_texts[level], (int)kind);
                free(got);
            }
            free(want);
            free(x);
        }
}

static void embedded_rows_are_equal_at_every_level(void **state)
{
    (void)state;
    int32_t format;
    int bits, group;
    mica_dtype scales;
    for (int i = 0; weights_format(i, &format, &bits, &group, &scales); i++)
        for (pattern kind = 0; kind < N_PATTERNS; kind++) {
            const int64_t k = kind == PATTERN_TINY ? 256 : 1280;
            weights w = weights_make(format, bits, group, scales, 5, k, kind, (int)kind, 31);
            int32_t ids[3] = {4, 0, 2};
            mica__operand in[4];
            in[0] = plain_operand(ids, MICA_I32, 1, (int64_t[]){3});
            mica__call call = {.attrs = &w.attrs, .n_out = 1, .in = in};
            call.n_in = 1 + weights_operands(&w, in + 1);
            float *want = filled((size_t)(3 * k) * 4), *got = filled((size_t)(3 * k) * 4);
            mica__operand out = plain_operand(want, MICA_F32, 2, (int64_t[]){3, k});
            call.out = &out;
            call.cpu = &scalar_cpu;
            assert_ok(run_kernel_in_order(&mica__kernel_embed, &call, 1));
            for (int level = 0; level < N_LEVELS; level++) {
                mica__cpu cpu;
                int64_t at;
                if (!capped(level, &cpu))
                    continue;
                out.data = (uint8_t *)got;
                call.cpu = &cpu;
                assert_ok(run_kernel_in_order(&mica__kernel_embed, &call, 1));
                if (!same_bits(got, want, 3 * k, &at))
                    fail_msg("%s, %s: value %lld: %.9g instead of %.9g", weights_name(&w),
                             level_texts[level], (long long)at, got[at], want[at]);
            }
            free(want);
            free(got);
            weights_free(&w);
        }
}

/* FNV-1a over 32-bit words, NaN as one word. */
static uint64_t digest(uint64_t hash, const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        hash = (hash ^ (isnan(values[i]) ? 0x7fc00000u : word)) * 0x100000001b3u;
    }
    return hash;
}

/* Results do not depend on the machine: the constant was written on x86-64 and holds on arm64. */
static void products_have_the_same_digest_on_every_machine(void **state)
{
    (void)state;
    int32_t format;
    int bits, group;
    mica_dtype scales;
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; weights_format(i, &format, &bits, &group, &scales); i++) {
        const int64_t m = 3, n = 33, k = 1280;
        const int64_t act_group = mica__act8_group(format, group);
        weights w = weights_make(format, bits, group, scales, n, k, PATTERN_RANDOM, 0, 9);
        float *x = filled((size_t)(m * k) * 4), *y = filled((size_t)(m * n) * 4);
        draw_rows(x, m, k, PATTERN_RANDOM);
        multiply(&mica__kernel_qmatmul, NULL, &w, x, MICA_F32, m, k, y);
        hash = digest(hash, y, m * n);
        if (mica__act8_has_product(format)) {
            uint8_t *rows = rounded(NULL, x, m, k, act_group);
            multiply(&mica__kernel_qmatmul_i8, NULL, &w, rows, MICA_U8, m,
                     mica__act8_row_bytes(k, act_group), y);
            hash = digest(hash, y, m * n);
            free(rows);
        }
        free(x);
        free(y);
        weights_free(&w);
    }
    if (hash != DIGEST)
        fail_msg("digest %#018llx", (unsigned long long)hash);
}

/* The tests above go over the levels that are here; this says which are, by name. */
static void level_is_compared(void **state)
{
    mica__cpu cpu;
    if (!capped(*(const int *)*state, &cpu))
        skip();
}

int main(void)
{
    struct CMUnitTest tests[5 + N_LEVELS] = {
        cmocka_unit_test(rounded_products_are_equal_at_every_level),
        cmocka_unit_test(f32_products_are_equal_at_every_level),
        cmocka_unit_test(activations_round_equally_at_every_level),
        cmocka_unit_test(embedded_rows_are_equal_at_every_level),
        cmocka_unit_test(products_have_the_same_digest_on_every_machine),
    };
    static char names[N_LEVELS][64];
    static int numbers[N_LEVELS];
    for (int i = 0; i < N_LEVELS; i++) {
        snprintf(names[i], sizeof names[i], "level_is_compared %s", level_texts[i]);
        numbers[i] = i;
        tests[5 + i] = (struct CMUnitTest){
            .name = names[i], .test_func = level_is_compared, .initial_state = &numbers[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
