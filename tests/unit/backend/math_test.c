/* math_test.c - functions of one float: ulp bounds over all floats, and the same bits at all
 * levels.
 *
 * The reference is the C library's double functions, which are far below 2^-30 off. Every 2^32 / n
 * floats are tried, with all patterns of specials.
 * Test timeout: 900
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>

#include "backend/common/math_f32.h"
#include "backend/cpu/level.h"
#include "support/kernel_call.h"

static double silu(double x)
{
    return x == -INFINITY ? -0.0 : x / (1 + exp(-x));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu(double x)
{
    return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * M_SQRT1_2);
}

static double gelu_tanh(double x)
{
    return x == -INFINITY ? -0.0 : x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double rsqrt_of(double x)
{
    return 1 / sqrt(x);
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double square(double x)
{
    return x * x;
}

static float negative(float x)
{
    return -x;
}

static double negative_of(double x)
{
    return -x;
}

static float reciprocal_f32(float x)
{
    return 1.0f / x;
}

static float square_f32(float x)
{
    return x * x;
}

typedef struct function {
    mica__op op;
    float (*f32)(float);
    double (*exact)(double);
    double ulps;
} function;

static const function functions[] = {
    {MICA__OP_EXP, mica__exp_f32, exp, 0.88},
    {MICA__OP_LOG, mica__log_f32, log, 0.51},
    {MICA__OP_SIN, mica__sin_f32, sin, 0.51},
    {MICA__OP_COS, mica__cos_f32, cos, 0.51},
    {MICA__OP_TANH, mica__tanh_f32, tanh, 0.51},
    {MICA__OP_SIGMOID, mica__sigmoid_f32, sigmoid, 0.51},
    {MICA__OP_ERF, mica__erf_f32, erf, 0.51},
    {MICA__OP_SILU, mica__silu_f32, silu, 0.51},
    {MICA__OP_GELU, mica__gelu_f32, gelu, 0.51},
    {MICA__OP_GELU_TANH, mica__gelu_tanh_f32, gelu_tanh, 0.51},
    {MICA__OP_RSQRT, mica__rsqrt_f32, rsqrt_of, 1.5},
    {MICA__OP_SQRT, sqrtf, sqrt, 0.5},
    {MICA__OP_RECIPROCAL, reciprocal_f32, reciprocal, 0.5},
    {MICA__OP_SQUARE, square_f32, square, 0.5},
    {MICA__OP_ABS, fabsf, fabs, 0},
    {MICA__OP_NEGATIVE, negative, negative_of, 0},
};

enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* Distance in units of the last place of the exact value's float. */
static double ulps_off(float got, double want)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    const float rounded = (float)want;
    if (isinf(rounded) || isinf(got))
        return rounded == got                                                         ? 0
               : isinf(got) && fabs(want) > 0x1.fffffep127 && (got > 0) == (want > 0) ? 0.5
               : isinf(rounded) && !isinf(want) && fabsf(got) == 0x1.fffffep127f      ? 0.5
                                                                                      : INFINITY;
    int exponent = -125;
    if (fabs(want) >= 0x1p-126)
        frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

/* All exponents and signs with fractions around the ends, then a walk with an odd step. */
static int64_t sample(float *to, int64_t walk)
{
    int64_t n = 0;
    static const uint32_t fractions[] = {0, 1, 2, 0x3fffff, 0x400000, 0x400001, 0x7ffffe, 0x7fffff};
    for (uint32_t head = 0; head < 512; head++)
        for (int i = 0; i < 8; i++)
            to[n++] = mica__f32_from_bits(head << 23 | fractions[i]);
    for (int64_t i = 0; i < walk; i++)
        to[n++] = mica__f32_from_bits((uint32_t)((uint64_t)i * 0x100000000u / (uint64_t)walk) +
                                      (uint32_t)(i * 7919 % 1021));
    return n;
}

enum { WALK = 1 << 15, SAMPLES = WALK + 4096 };
static float inputs[SAMPLES], results[SAMPLES], scalar[SAMPLES];

static void functions_stay_within_their_ulps(void **state)
{
    (void)state;
    const int64_t n = sample(inputs, WALK);
    for (int i = 0; i < N_FUNCTIONS; i++)
        for (int64_t k = 0; k < n; k++) {
            const float got = functions[i].f32(inputs[k]);
            const double off = ulps_off(got, functions[i].exact((double)inputs[k]));
            if (!(off <= functions[i].ulps))
                fail_msg("%s(%a) = %a is %.3f ulp off", mica__op_facts_of(functions[i].op)->name,
                         (double)inputs[k], (double)got, off);
        }
}

static void every_level_gives_the_bits_of_the_scalar_functions(void **state)
{
    (void)state;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    const int64_t n = sample(inputs, WALK);
    for (int i = 0; i < N_FUNCTIONS; i++) {
        for (int64_t k = 0; k < n; k++)
            scalar[k] = functions[i].f32(inputs[k]);
        for (int level = 0; level < n_levels; level++) {
            const mica__tile_level *tile = mica__tile_level_at(levels[level]->level);
            assert_true(tile->unary(functions[i].op, results, inputs, n));
            assert_same_floats(results, scalar, n, mica__op_facts_of(functions[i].op)->name);
        }
    }
}

static float by_hand(mica__op op, float a, float b)
{
    switch (op) {
    case MICA__OP_ADD:
        return a + b;
    case MICA__OP_SUBTRACT:
        return a - b;
    case MICA__OP_MULTIPLY:
        return a * b;
    case MICA__OP_DIVIDE:
        return a / b;
    case MICA__OP_MAXIMUM: /* IEEE 754-2019 maximum */
        return isnan(a) || isnan(b) ? NAN : a > b || (a == b && !signbit(a)) ? a : b;
    case MICA__OP_MINIMUM:
        return isnan(a) || isnan(b) ? NAN : a < b || (a == b && signbit(a)) ? a : b;
    case MICA__OP_SWIGLU:
        return (float)(d_silu((double)a) * (double)b);
    default:
        return (float)(d_gelu_tanh((double)a) * (double)b);
    }
}

static void every_level_gives_the_bits_of_binary_operations(void **state)
{
    (void)state;
    static const mica__op ops[] = {MICA__OP_ADD,    MICA__OP_SUBTRACT, MICA__OP_MULTIPLY,
                                   MICA__OP_DIVIDE, MICA__OP_MAXIMUM,  MICA__OP_MINIMUM,
                                   MICA__OP_SWIGLU, MICA__OP_GEGLU};
    static const float specials[] = {0.0f,         -0.0f,           1.0f, -1.0f,
                                     INFINITY,     -INFINITY,       NAN,  0x1p-149f,
                                     -0x1.8p-130f, 0x1.fffffep127f, 3.0f};
    enum { N = sizeof specials / sizeof *specials, PAIRS = N * N + 40000 };
    static float a[PAIRS], b[PAIRS], want[PAIRS], got[PAIRS];
    random_source random = {7};
    for (int i = 0; i < PAIRS; i++) {
        a[i] = i < N * N ? specials[i / N] : mica__f32_from_bits(random_u32(&random));
        b[i] = i < N * N ? specials[i % N] : mica__f32_from_bits(random_u32(&random));
        if (i % 2 && i >= N * N) {
            a[i] = random_float(&random, -20, 20);
            b[i] = random_float(&random, -20, 20);
        }
    }
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < PAIRS; i++)
            want[i] = by_hand(ops[k], a[i], b[i]);
        for (int level = 0; level < n_levels; level++) {
            const mica__tile_level *tile = mica__tile_level_at(levels[level]->level);
            assert_true(tile->binary(ops[k], got, a, b, PAIRS));
            assert_same_floats(got, want, PAIRS, mica__op_facts_of(ops[k])->name);
        }
    }
}

static void halves_load_store_and_round_alike(void **state)
{
    (void)state;
    static uint16_t halves[65536], stored[65536 + 1];
    static float wide[65536], rounded[65536];
    for (int i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    const int64_t n = sample(inputs, WALK);
    for (int level = 0; level < n_levels; level++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const mica__tile_level *tile = mica__tile_level_at(levels[level]->level);
            const mica_dtype dtype = bf16 ? MICA_BF16 : MICA_F16;
            tile->load(wide, halves, dtype, 65536);
            for (int i = 0; i < 65536; i++) {
                const float want =
                    bf16 ? mica__bf16_to_f32((uint16_t)i) : mica__f16_to_f32((uint16_t)i);
                assert_same_floats(&wide[i], &want, 1, "load");
            }
            memcpy(rounded, inputs, (size_t)n * sizeof *rounded);
            tile->round(rounded, dtype, n);
            tile->store((uint8_t *)stored + 1, inputs, dtype, n); /* any address */
            memmove(stored, (uint8_t *)stored + 1, (size_t)n * 2);
            for (int64_t i = 0; i < n; i++) {
                const float want = bf16 ? mica__bf16_to_f32(mica__f32_to_bf16(inputs[i]))
                                        : mica__f16_to_f32(mica__f32_to_f16(inputs[i]));
                const float back =
                    bf16 ? mica__bf16_to_f32(stored[i]) : mica__f16_to_f32(stored[i]);
                assert_same_floats(&rounded[i], &want, 1, "round");
                assert_same_floats(&back, &want, 1, "store");
            }
        }
}

static void runs_of_any_length_touch_nothing_else(void **state)
{
    (void)state;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++) {
        const mica__tile_level *tile = mica__tile_level_at(levels[level]->level);
        for (int n = 0; n <= 35; n++) {
            float x[64], y[64];
            uint16_t h[64];
            for (int i = 0; i < 64; i++) {
                x[i] = (float)i;
                y[i] = -7;
                h[i] = 0x4321;
            }
            assert_true(tile->unary(MICA__OP_NEGATIVE, y, x, n));
            tile->store(h, x, MICA_BF16, n);
            for (int i = 0; i < 64; i++) {
                assert_true(y[i] == (i < n ? -x[i] : -7));
                assert_int_equal(h[i], i < n ? mica__f32_to_bf16(x[i]) : 0x4321);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_stay_within_their_ulps),
        cmocka_unit_test(every_level_gives_the_bits_of_the_scalar_functions),
        cmocka_unit_test(every_level_gives_the_bits_of_binary_operations),
        cmocka_unit_test(halves_load_store_and_round_alike),
        cmocka_unit_test(runs_of_any_length_touch_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
