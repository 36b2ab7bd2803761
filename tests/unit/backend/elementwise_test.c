/* elementwise_test.c - unary, binary and fused elementwise kernels over layouts and dtypes.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "backend/common/math_f32.h"
#include "backend/cpu/fused_run.h"
#include "support/kernel_call.h"

static random_source source = {99};

static mica_status run2(mica__op op, const mica__cpu *cpu, mica__operand a, mica__operand b,
                        mica__operand out)
{
    mica__operand in[] = {a, b};
    const mica__call call = {.cpu = cpu, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    return run_kernel(op, &call);
}

static mica_status run1(mica__op op, const mica__cpu *cpu, mica__operand a, mica__operand out)
{
    const mica__call call = {.cpu = cpu, .n_in = 1, .n_out = 1, .in = &a, .out = &out};
    return run_kernel(op, &call);
}

static int64_t at(const mica__operand *x, const int64_t *index, int ndim)
{
    int64_t offset = 0;
    for (int i = 0; i < x->ndim; i++)
        if (x->shape[i] != 1)
            offset += index[ndim - x->ndim + i] * x->strides[i];
    return offset;
}

/* Every strided and broadcast layout of a [2, 3, 37] result, checked element by element. */
static void any_strides_and_broadcasts_give_the_sums_of_their_elements(void **state)
{
    (void)state;
    static float a[4096], b[4096], out[4096];
    for (int i = 0; i < 4096; i++) {
        a[i] = random_float(&source, -9, 9);
        b[i] = random_float(&source, -9, 9);
    }
    const mica__operand plain = OPERAND(a, MICA_F32, 2, 3, 37);
    mica__operand layouts[8];
    for (int i = 0; i < 8; i++)
        layouts[i] = plain;
    layouts[1].strides[0] = 37; /* axes 0 and 1 exchanged */
    layouts[1].strides[1] = 74;
    layouts[2].strides[2] = 6; /* last axis strided */
    layouts[2].strides[1] = 2;
    layouts[2].strides[0] = 1;
    layouts[3].strides[2] = 0;             /* broadcast along the last axis */
    layouts[4] = OPERAND(a, MICA_F32, 37); /* fewer axes */
    layouts[5] = OPERAND(a, MICA_F32, 3, 1);
    layouts[6] = OPERAND(a, MICA_F32, 1, 1, 1);
    layouts[7].data = (uint8_t *)(a + 2000); /* backwards */
    layouts[7].strides[2] = -2;
    layouts[7].strides[0] = -500;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++)
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++)
                for (int strided_out = 0; strided_out < 2; strided_out++) {
                    mica__operand x = layouts[i], y = layouts[j];
                    y.data = (uint8_t *)b + (y.data - (uint8_t *)a);
                    mica__operand to = OPERAND(out, MICA_F32, 2, 3, 37);
                    if (strided_out) {
                        to.strides[0] = 1024; /* an extent below its bound */
                        to.strides[1] = 80;
                        to.strides[2] = 2;
                    }
                    memset(out, 0xff, sizeof out);
                    assert_ok(run2(MICA__OP_SUBTRACT, levels[level], x, y, to));
                    for (int64_t k = 0; k < 2 * 3 * 37; k++) {
                        const int64_t index[] = {k / 111, k / 37 % 3, k % 37};
                        const float want = ((float *)x.data)[at(&x, index, 3)] -
                                           ((float *)y.data)[at(&y, index, 3)];
                        assert_same_floats(&out[at(&to, index, 3)], &want, 1, "layout");
                    }
                }
}

static void results_of_halves_are_rounded_once(void **state)
{
    (void)state;
    enum { N = 5000 };
    static uint16_t a[N], b[N], out[N];
    static const mica__op ops[] = {MICA__OP_ADD, MICA__OP_MULTIPLY, MICA__OP_DIVIDE,
                                   MICA__OP_MAXIMUM};
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int i = 0; i < N; i++) {
        a[i] = (uint16_t)random_u32(&source);
        b[i] = (uint16_t)random_u32(&source);
    }
    for (int level = 0; level < n_levels; level++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            for (int k = 0; k < 4; k++) {
                const mica_dtype dtype = bf16 ? MICA_BF16 : MICA_F16;
                assert_ok(run2(ops[k], levels[level], OPERAND(a, dtype, N), OPERAND(b, dtype, N),
                               OPERAND(out, dtype, N)));
                for (int i = 0; i < N; i++) {
                    const float x = bf16 ? mica__bf16_to_f32(a[i]) : mica__f16_to_f32(a[i]);
                    const float y = bf16 ? mica__bf16_to_f32(b[i]) : mica__f16_to_f32(b[i]);
                    const float f = k == 0   ? x + y
                                    : k == 1 ? x * y
                                    : k == 2 ? x / y
                                             : mica__max_f32(x, y);
                    const float want = bf16 ? mica__bf16_to_f32(mica__f32_to_bf16(f))
                                            : mica__f16_to_f32(mica__f32_to_f16(f));
                    const float got = bf16 ? mica__bf16_to_f32(out[i]) : mica__f16_to_f32(out[i]);
                    assert_same_floats(&got, &want, 1, "half");
                }
            }
}

static void a_result_may_lie_over_an_input(void **state)
{
    (void)state;
    enum { N = 40000 };
    static float a[N], b[N], want[N];
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int i = 0; i < N; i++) {
        want[i] = random_normal(&source);
        b[i] = random_normal(&source);
    }
    for (int level = 0; level < n_levels; level++) {
        memcpy(a, want, sizeof a);
        assert_ok(run2(MICA__OP_SUBTRACT, levels[level], OPERAND(b, MICA_F32, N),
                       OPERAND(a, MICA_F32, N), OPERAND(a, MICA_F32, N)));
        for (int i = 0; i < N; i++)
            assert_true(a[i] == b[i] - want[i]);
        memcpy(a, want, sizeof a);
        assert_ok(
            run1(MICA__OP_SQUARE, levels[level], OPERAND(a, MICA_F32, N), OPERAND(a, MICA_F32, N)));
        for (int i = 0; i < N; i++)
            assert_true(a[i] == want[i] * want[i]);
    }
}

static void empty_arrays_are_no_work(void **state)
{
    (void)state;
    float none = 1;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    kernel_levels(levels);
    assert_ok(
        run1(MICA__OP_EXP, levels[0], OPERAND(&none, MICA_F32, 0), OPERAND(&none, MICA_F32, 0)));
    assert_ok(run2(MICA__OP_ADD, levels[0], OPERAND(&none, MICA_F32, 3, 0),
                   OPERAND(&none, MICA_F32, 1), OPERAND(&none, MICA_F32, 3, 0)));
    mica__operand scalar = {.data = (uint8_t *)&none, .dtype = MICA_F32};
    assert_ok(run1(MICA__OP_NEGATIVE, levels[0], scalar, scalar));
    assert_true(none == -1);
}

/* silu(a) * b + c with a in f16, b in bf16, c f32 and steps of different dtypes, in one chain and
 * one by one. */
static void a_chain_gives_the_bits_of_its_operations(void **state)
{
    (void)state;
    enum { ROWS = 5, N = 1031, SIZE = ROWS * N };
    static uint16_t a[SIZE], b[N], h1[SIZE], h2[SIZE], h3[SIZE];
    static float c[ROWS], separate[SIZE], chained[SIZE], extra[SIZE];
    for (int i = 0; i < SIZE; i++)
        a[i] = mica__f32_to_f16(random_normal(&source));
    for (int i = 0; i < N; i++)
        b[i] = mica__f32_to_bf16(random_normal(&source));
    for (int i = 0; i < ROWS; i++)
        c[i] = random_normal(&source);
    mica__operand in[] = {OPERAND(a, MICA_F16, ROWS, N), OPERAND(b, MICA_BF16, N),
                          OPERAND(c, MICA_F32, ROWS, 1)};
    const mica__fused_attrs chain = {
        .n_inputs = 3,
        .n_outputs = 2,
        .n_instrs = 5,
        .n_slots = 5,
        .outputs = {0, 4},
        .instrs =
            {
                {.op = MICA__OP_SILU, .dtype = MICA_F16, .out = 3, .in = {0}},
                {.op = MICA__OP_ASTYPE, .dtype = MICA_BF16, .out = 3, .in = {3}},
                {.op = MICA__OP_MULTIPLY, .dtype = MICA_BF16, .out = 4, .in = {3, 1}},
                {.op = MICA__OP_ADD, .dtype = MICA_F32, .out = 0, .in = {4, 2}},
                {.op = MICA__OP_EXP, .dtype = MICA_F32, .out = 4, .in = {4}},
            },
    };
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++) {
        const mica__cpu *cpu = levels[level];
        assert_ok(run1(MICA__OP_SILU, cpu, in[0], OPERAND(h1, MICA_F16, ROWS, N)));
        const mica__astype_attrs to_bf16 = {MICA_BF16};
        mica__operand from = OPERAND(h1, MICA_F16, ROWS, N), to = OPERAND(h2, MICA_BF16, ROWS, N);
        const mica__call cast = {
            .attrs = &to_bf16, .cpu = cpu, .n_in = 1, .n_out = 1, .in = &from, .out = &to};
        assert_ok(run_kernel(MICA__OP_ASTYPE, &cast));
        assert_ok(run2(MICA__OP_MULTIPLY, cpu, to, in[1], OPERAND(h3, MICA_BF16, ROWS, N)));
        assert_ok(run2(MICA__OP_ADD, cpu, OPERAND(h3, MICA_BF16, ROWS, N), in[2],
                       OPERAND(separate, MICA_F32, ROWS, N)));
        mica__operand out[] = {OPERAND(chained, MICA_F32, ROWS, N),
                               OPERAND(extra, MICA_F32, ROWS, N)};
        assert_true(mica__fused_accepts(&chain, in, out));
        void *scratch = malloc(mica__fused_scratch_bytes(&chain));
        memset(chained, 0xff, sizeof chained);
        for (int64_t start = 0; start < SIZE; start += 1700)
            assert_ok(mica__fused_run(cpu, &chain, in, out, start,
                                      SIZE - start < 1700 ? SIZE - start : 1700, scratch));
        free(scratch);
        assert_same_floats(chained, separate, SIZE, "chain");
        assert_ok(run1(MICA__OP_EXP, cpu, OPERAND(h3, MICA_BF16, ROWS, N),
                       OPERAND(separate, MICA_F32, ROWS, N)));
        assert_same_floats(extra, separate, SIZE, "second output");
    }
}

static void chains_that_are_not_well_formed_are_refused(void **state)
{
    (void)state;
    float x = 0;
    mica__operand in = OPERAND(&x, MICA_F32, 1), out = in;
    const mica__fused_attrs good = {
        .n_inputs = 1,
        .n_outputs = 1,
        .n_instrs = 1,
        .n_slots = 2,
        .outputs = {1},
        .instrs = {{.op = MICA__OP_EXP, .dtype = MICA_F32, .out = 1, .in = {0}}}};
    assert_true(mica__fused_accepts(&good, &in, &out));
    mica__fused_attrs bad = good;
    bad.instrs[0].in[0] = 2;
    assert_false(mica__fused_accepts(&bad, &in, &out));
    bad = good;
    bad.instrs[0].op = MICA__OP_MATMUL;
    assert_false(mica__fused_accepts(&bad, &in, &out));
    bad = good;
    bad.instrs[0].dtype = MICA_I32;
    assert_false(mica__fused_accepts(&bad, &in, &out));
    bad = good;
    bad.n_slots = 200;
    assert_false(mica__fused_accepts(&bad, &in, &out));
    bad = good;
    bad.outputs[0] = 0; /* no instruction writes it */
    assert_false(mica__fused_accepts(&bad, &in, &out));
    in.dtype = MICA_I32;
    assert_false(mica__fused_accepts(&good, &in, &out));
}

static void integers_wrap_and_compare_by_sign(void **state)
{
    (void)state;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    kernel_levels(levels);
    int8_t a[] = {127, -128, 100, -1}, b[] = {1, -1, 100, -128}, out[4];
    const mica__operand x = OPERAND(a, MICA_I8, 4), y = OPERAND(b, MICA_I8, 4),
                        to = OPERAND(out, MICA_I8, 4);
    assert_ok(run2(MICA__OP_ADD, levels[0], x, y, to));
    assert_memory_equal(out, ((int8_t[]){-128, 127, -56, 127}), 4);
    assert_ok(run2(MICA__OP_MULTIPLY, levels[0], x, y, to));
    assert_memory_equal(out, ((int8_t[]){127, -128, 16, -128}), 4);
    assert_ok(run2(MICA__OP_MAXIMUM, levels[0], x, y, to));
    assert_memory_equal(out, ((int8_t[]){127, -1, 100, -1}), 4);
    assert_ok(run1(MICA__OP_ABS, levels[0], x, to));
    assert_memory_equal(out, ((int8_t[]){127, -128, 100, 1}), 4);
    uint64_t u[] = {UINT64_MAX, 1}, v[] = {2, 5}, w[2];
    assert_ok(run2(MICA__OP_MINIMUM, levels[0], OPERAND(u, MICA_U64, 2), OPERAND(v, MICA_U64, 2),
                   OPERAND(w, MICA_U64, 2)));
    assert_true(w[0] == 2 && w[1] == 1);
    assert_ok(run2(MICA__OP_SUBTRACT, levels[0], OPERAND(u, MICA_U64, 2), OPERAND(v, MICA_U64, 2),
                   OPERAND(w, MICA_U64, 2)));
    assert_true(w[0] == UINT64_MAX - 2 && w[1] == UINT64_MAX - 3);
    uint8_t p[] = {0, 0, 1, 1}, q[] = {0, 1, 0, 1}, r[4];
    assert_ok(run2(MICA__OP_ADD, levels[0], OPERAND(p, MICA_BOOL, 4), OPERAND(q, MICA_BOOL, 4),
                   OPERAND(r, MICA_BOOL, 4)));
    assert_memory_equal(r, ((uint8_t[]){0, 1, 1, 1}), 4);
    assert_ok(run2(MICA__OP_MULTIPLY, levels[0], OPERAND(p, MICA_BOOL, 4), OPERAND(q, MICA_BOOL, 4),
                   OPERAND(r, MICA_BOOL, 4)));
    assert_memory_equal(r, ((uint8_t[]){0, 0, 0, 1}), 4);
}

static void doubles_and_complex_numbers_are_worked_on_in_double(void **state)
{
    (void)state;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    kernel_levels(levels);
    double x[] = {1e300, -2.5}, y[] = {3, 4}, z[2];
    assert_ok(run2(MICA__OP_DIVIDE, levels[0], OPERAND(x, MICA_F64, 2), OPERAND(y, MICA_F64, 2),
                   OPERAND(z, MICA_F64, 2)));
    assert_true(z[0] == 1e300 / 3 && z[1] == -2.5 / 4);
    float a[] = {1, 2, 3, -4}, b[] = {5, 6, 0.5f, 0}, c[4], d[2];
    assert_ok(run2(MICA__OP_MULTIPLY, levels[0], OPERAND(a, MICA_C64, 2), OPERAND(b, MICA_C64, 2),
                   OPERAND(c, MICA_C64, 2)));
    assert_memory_equal(c, ((float[]){-7, 16, 1.5f, -2}), 16);
    assert_ok(run1(MICA__OP_ABS, levels[0], OPERAND(a, MICA_C64, 2), OPERAND(d, MICA_F32, 2)));
    assert_true(d[0] == (float)sqrt(5) && d[1] == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_strides_and_broadcasts_give_the_sums_of_their_elements),
        cmocka_unit_test(results_of_halves_are_rounded_once),
        cmocka_unit_test(a_result_may_lie_over_an_input),
        cmocka_unit_test(empty_arrays_are_no_work),
        cmocka_unit_test(a_chain_gives_the_bits_of_its_operations),
        cmocka_unit_test(chains_that_are_not_well_formed_are_refused),
        cmocka_unit_test(integers_wrap_and_compare_by_sign),
        cmocka_unit_test(doubles_and_complex_numbers_are_worked_on_in_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
