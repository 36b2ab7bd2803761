/* pass_decompose_test.c - operations that the device has no kernel for: said in simpler ones they
 * give the kernel's values, and what cannot be said so is refused by name.
 *
 * A device without some kernels is the runtime with a shorter list of them. The expected values are
 * those of the kernels, which other tests compare with references from outside.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include <math.h>

#include "base/alloc.h"
#include "core/backend.h"
#include "core/program.h"
#include "ops/fast.h"
#include "ops/matrix.h"
#include "support/weights.h"

enum { ROWS = 6, HEADS = 3, FEATURES = 20, MAX_VALUES = 4096 };

/* --- devices ---------------------------------------------------------------------------------- */

static const mica__kernel *device[512];

/* A runtime whose device has the kernels that `has` accepts. */
static mica_ctx *open_device(int threads, bool (*has)(mica__op op, mica__op without),
                             mica__op without)
{
    const mica_options options = {.threads = threads};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("mica_open: %s", mica_last_error());
    assert_true(mica__cpu_n_kernels <= (int)(sizeof device / sizeof *device));
    int n = 0;
    for (int i = 0; i < mica__cpu_n_kernels; i++)
        if (has(mica__cpu_kernels[i]->op, without))
            device[n++] = mica__cpu_kernels[i];
    mc->runtime->kernels = device;
    mc->runtime->n_kernels = n;
    return mc;
}

static bool has_all(mica__op op, mica__op without)
{
    (void)op, (void)without;
    return true;
}

static bool has_others(mica__op op, mica__op without)
{
    return op != without;
}

/* Only what cannot be said otherwise. */
static bool has_primitives(mica__op op, mica__op without)
{
    (void)without;
    return !mica__rules_of(op)->decompose;
}

/* The same but for one of them, which no group may run either. */
static bool has_other_primitives(mica__op op, mica__op without)
{
    return op != without && op != MICA__OP_FUSED && has_primitives(op, without);
}

/* --- cases ------------------------------------------------------------------------------------ */

static mica_array *numbers(mica_ctx *mc, mica_shape shape, mica_dtype dtype, uint64_t seed)
{
    static double data[MAX_VALUES];
    int64_t n = 1;
    for (int i = 0; i < shape.ndim; i++)
        n *= shape.dims[i];
    for (int64_t i = 0; i < n; i++)
        data[i] = 6 * draw_signed(&seed);
    return mica_astype(mica_from_data(mc, data, shape, MICA_F64), dtype);
}

static mica_array *matrix(mica_ctx *mc, mica_dtype dtype, uint64_t seed)
{
    return numbers(mc, MICA_SHAPE(ROWS, FEATURES), dtype, seed);
}

static mica_array *square_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_square(matrix(mc, dtype, 1));
}

static mica_array *reciprocal_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_reciprocal(matrix(mc, dtype, 2));
}

static mica_array *rsqrt_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_rsqrt(mica_abs(matrix(mc, dtype, 3)));
}

static mica_array *sigmoid_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_sigmoid(matrix(mc, dtype, 4));
}

static mica_array *silu_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_silu(matrix(mc, dtype, 5));
}

static mica_array *gelu_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_gelu(matrix(mc, dtype, 6));
}

static mica_array *gelu_tanh_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_gelu_tanh(matrix(mc, dtype, 7));
}

static mica_array *swiglu_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_swiglu(matrix(mc, dtype, 8), matrix(mc, dtype, 9));
}

static mica_array *geglu_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_geglu(matrix(mc, dtype, 10), numbers(mc, MICA_SHAPE(1, FEATURES), dtype, 11));
}

static mica_array *mean_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_mean(numbers(mc, MICA_SHAPE(ROWS, HEADS, FEATURES), dtype, 12), 5, true);
}

static mica_array *softmax_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_add(mica_softmax(matrix(mc, dtype, 13), 1), mica_softmax(matrix(mc, dtype, 13), 0));
}

static mica_array *full_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica_full(mc, MICA_SHAPE(ROWS, FEATURES), 2.5, dtype);
}

static mica_array *rms_norm_case(mica_ctx *mc, mica_dtype dtype)
{
    return mica__rms_norm(matrix(mc, dtype, 14), numbers(mc, MICA_SHAPE(FEATURES), dtype, 15),
                          1e-5f, 1);
}

static mica_array *rope_table_of(mica_ctx *mc, mica_array *positions)
{
    const float freqs[] = {1, 0.3f, 0.09f, 0.027f, 0.0081f, 0.00243f, 0.000729f, 0.0002187f};
    return mica__rope_table(positions, mica_from_data(mc, freqs, MICA_SHAPE(8), MICA_F32), 1.5f);
}

static mica_array *rope_table_case(mica_ctx *mc, mica_dtype dtype)
{
    (void)dtype;
    return rope_table_of(mc, mica_arange(mc, 0, 7 * ROWS, 7, MICA_I32));
}

/* Sixteen features of twenty are rotated. */
static mica_array *rope_case(mica_ctx *mc, mica_dtype dtype)
{
    mica_array *x = numbers(mc, MICA_SHAPE(ROWS, HEADS, FEATURES), MICA_F32, 16);
    return mica__rope(x, rope_table_case(mc, dtype), false);
}

static mica_array *interleaved_rope_case(mica_ctx *mc, mica_dtype dtype)
{
    mica_array *x = numbers(mc, MICA_SHAPE(ROWS, HEADS, FEATURES), MICA_F32, 17);
    return mica__rope(x, rope_table_case(mc, dtype), true);
}

static mica_array *qmatmul_of(mica_ctx *mc, int32_t format, int bits, int group, mica_dtype scales)
{
    enum { N = 24, K = 256 };
    weights w = weights_make(format, bits, group, scales, N, K, PATTERN_RANDOM, 0, 18);
    mica__operand parts[3];
    mica__matrix weight = {.attrs = w.attrs, .n_parts = weights_operands(&w, parts)};
    for (int i = 0; i < weight.n_parts; i++)
        weight.parts[i] =
            mica_from_data(mc, parts[i].data, mica_shape_of(2, parts[i].shape), parts[i].dtype);
    mica_array *x = numbers(mc, MICA_SHAPE(ROWS, K), MICA_F32, 19);
    mica_array *y = mica__linear(x, &weight, MICA__ACTIVATIONS_F32);
    weights_free(&w);
    return y;
}

static mica_array *qmatmul_case(mica_ctx *mc, mica_dtype dtype)
{
    (void)dtype;
    return qmatmul_of(mc, MICA__Q4_K, 0, 0, MICA_F32);
}

static mica_array *mlx_qmatmul_case(mica_ctx *mc, mica_dtype dtype)
{
    (void)dtype;
    return qmatmul_of(mc, MICA__MLX_AFFINE, 4, 64, MICA_F16);
}

/* How far the simpler operations may be from the kernel: `ulps` steps of the result's dtype
 * relative to the value, and so many relative to `scale`, where the composition cancels. */
typedef struct rule_case {
    mica__op op;
    const char *name;
    mica_array *(*build)(mica_ctx *mc, mica_dtype dtype);
    bool any_float; /* f16, bf16 and f64 as well */
    double ulps, scale;
} rule_case;

static const rule_case cases[] = {
    {MICA__OP_SQUARE, "square", square_case, true, 0, 0},
    {MICA__OP_RECIPROCAL, "reciprocal", reciprocal_case, true, 0, 0},
    {MICA__OP_RSQRT, "rsqrt", rsqrt_case, true, 1, 0},
    {MICA__OP_SIGMOID, "sigmoid", sigmoid_case, true, 3, 0},
    {MICA__OP_SILU, "silu", silu_case, true, 3, 0},
    {MICA__OP_GELU, "gelu", gelu_case, true, 3, 6},
    {MICA__OP_GELU_TANH, "gelu_tanh", gelu_tanh_case, true, 24, 0}, /* exp(-2u), |2u| up to 25 */
    {MICA__OP_SWIGLU, "swiglu", swiglu_case, true, 4, 0},
    {MICA__OP_GEGLU, "geglu", geglu_case, true, 24, 0},
    {MICA__OP_MEAN, "mean", mean_case, true, 1, 0},
    {MICA__OP_SOFTMAX, "softmax", softmax_case, true, 2, 0},
    {MICA__OP_FULL, "full", full_case, true, 0, 0},
    {MICA__OP_RMS_NORM, "rms_norm", rms_norm_case, true, 4, 0},
    {MICA__OP_ROPE_TABLE, "rope_table", rope_table_case, false, 1, 0},
    {MICA__OP_ROPE, "rope", rope_case, false, 1, 9},
    {MICA__OP_ROPE, "rope, interleaved", interleaved_rope_case, false, 1, 9},
    {MICA__OP_QMATMUL, "quantized_matmul, Q4_K", qmatmul_case, false, 0, 0},
    {MICA__OP_QMATMUL, "quantized_matmul, affine", mlx_qmatmul_case, false, 0, 0},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static double step_of(mica_dtype dtype)
{
    return dtype == MICA_F64   ? 0x1p-52
           : dtype == MICA_F32 ? 0x1p-23
           : dtype == MICA_F16 ? 0x1p-10
                               : 0x1p-7;
}

/* The case's values on a device, as doubles; how many. */
static int64_t values_on(mica_ctx *mc, const rule_case *c, mica_dtype dtype, double *values)
{
    mica_array *y = c->build(mc, dtype);
    mica_array *wide = mica_astype(y, MICA_F64);
    if (mica_eval_all(mc, wide) != MICA_OK)
        fail_msg("%s of %s: %s", c->name, mica_dtype_name(dtype), mica_error(mc));
    const int64_t n = mica_array_size(wide);
    memcpy(values, mica_data(wide), (size_t)n * sizeof *values);
    mica_close(mc);
    return n;
}

static void compare(const rule_case *c, mica_dtype dtype, const double *got, const double *want,
                    int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double room = c->ulps * step_of(dtype) * (fabs(want[i]) + c->scale);
        if (!(fabs(got[i] - want[i]) <= room))
            fail_msg("%s of %s, value %d: %.17g instead of %.17g", c->name, mica_dtype_name(dtype),
                     (int)i, got[i], want[i]);
    }
}

static void compare_on(bool (*has)(mica__op, mica__op))
{
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16, MICA_F64};
    static double want[MAX_VALUES], got[MAX_VALUES];
    for (int i = 0; i < N_CASES; i++)
        for (int d = 0; d < (cases[i].any_float ? 4 : 1); d++) {
            const int64_t n = values_on(open_device(2, has_all, 0), &cases[i], dtypes[d], want);
            mica_ctx *mc = open_device(2, has, cases[i].op);
            assert_int_equal(values_on(mc, &cases[i], dtypes[d], got), n);
            compare(&cases[i], dtypes[d], got, want, n);
        }
}

static void simpler_operations_give_the_kernels_values(void **state)
{
    (void)state;
    compare_on(has_others);
}

/* swiglu -> silu -> sigmoid -> exp, reciprocal -> divide and so on: within the limit of rounds. */
static void a_device_with_primitives_only_computes_everything(void **state)
{
    (void)state;
    compare_on(has_primitives);
}

static void every_rule_has_a_case(void **state)
{
    (void)state;
    for (int op = 0; op < MICA__N_OPS; op++) {
        bool found = !mica__rules_of((mica__op)op)->decompose;
        for (int i = 0; i < N_CASES; i++)
            found |= cases[i].op == (mica__op)op;
        if (!found)
            fail_msg("%s", mica__op_facts_of((mica__op)op)->name);
    }
}

/* --- what is left without a kernel ------------------------------------------------------------ */

static void without_kernel_and_rule_an_op_is_refused_by_name(void **state)
{
    (void)state;
    mica_ctx *mc = open_device(1, has_others, MICA__OP_MATMUL);
    mica_array *x = matrix(mc, MICA_F32, 1);
    mica_array *y = mica_matmul(x, mica_transpose(x, 0, NULL));
    assert_status(mica_eval_all(mc, y), MICA_E_UNSUPPORTED);
    assert_string_equal(mica_error(mc), "matmul: no kernel for float32, float32");
    mica_clear_error(mc);
    mica_array *z = mica_square(x); /* nothing else is harmed */
    assert_ok(mica_eval_all(mc, z));
    mica_close(mc);
}

static void a_part_without_kernel_is_refused_with_the_op_that_needs_it(void **state)
{
    (void)state;
    mica_ctx *mc = open_device(1, has_other_primitives, MICA__OP_EXP);
    mica_array *y = mica_swiglu(matrix(mc, MICA_F32, 1), matrix(mc, MICA_F32, 2));
    assert_status(mica_eval_all(mc, y), MICA_E_UNSUPPORTED);
    assert_string_equal(mica_error(mc), "swiglu in simpler operations: exp: no kernel for float32");
    mica_close(mc);
}

static void an_empty_axis_decomposes_to_nothing(void **state)
{
    (void)state;
    mica_ctx *mc = open_device(1, has_others, MICA__OP_SOFTMAX);
    mica_array *y = mica_softmax(mica_zeros(mc, MICA_SHAPE(3, 0), MICA_F32), 1);
    assert_ok(mica_eval_all(mc, y));
    assert_int_equal(mica_array_size(y), 0);
    mica_close(mc);
}

/* --- programs --------------------------------------------------------------------------------- */

/* A layer's beginning over a varying number of tokens: norm, product, rotation, gate. */
static mica_program *compile_layer(mica_ctx *mc)
{
    mica_array *in[2] = {
        mica_input_extent(mc, "tokens", MICA_SHAPE(ROWS, FEATURES), MICA_F32),
        mica_input_extent(mc, "tokens", MICA_SHAPE(ROWS), MICA_I32),
    };
    mica_array *weight = numbers(mc, MICA_SHAPE(FEATURES), MICA_F32, 1);
    mica_array *w = numbers(mc, MICA_SHAPE(HEADS * FEATURES, FEATURES), MICA_F32, 2);
    mica_array *x = mica__rms_norm(in[0], weight, 1e-5f, 0);
    mica_array *q = mica_matmul(x, mica_transpose(w, 0, NULL));
    q = mica_reshape(q, MICA_SHAPE(ROWS, HEADS, FEATURES));
    q = mica__rope(q, rope_table_of(mc, in[1]), true);
    mica_array *out = mica_silu(mica_reshape(q, MICA_SHAPE(ROWS, HEADS * FEATURES)));
    mica_program *program = NULL;
    if (mica_compile(mc, 2, in, 1, &out, &program) != MICA_OK)
        fail_msg("compile: %s", mica_error(mc));
    return program;
}

static mica_array *run_layer(mica_ctx *mc, mica_program *program, int64_t tokens)
{
    static float x[ROWS * FEATURES];
    int32_t positions[ROWS];
    uint64_t seed = 3;
    for (int i = 0; i < ROWS * FEATURES; i++)
        x[i] = (float)draw_signed(&seed);
    for (int i = 0; i < ROWS; i++)
        positions[i] = 11 * i;
    mica_array *in[2] = {mica_from_data(mc, x, MICA_SHAPE(tokens, FEATURES), MICA_F32),
                         mica_from_data(mc, positions, MICA_SHAPE(tokens), MICA_I32)};
    mica_array *out;
    mica_memory_usage before, after;
    mica_memory_reset_peak();
    mica_memory_read(&before);
    assert_ok(mica_run(mc, program, in, &out));
    mica_memory_read(&after);
    assert_int_equal(after.peak - before.active, mica_program_describe(program).peak_bytes);
    return out;
}

static void programs_of_parts_know_their_peak_and_follow_extents(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 7};
    static float want[ROWS * HEADS * FEATURES];
    mica_ctx *mc = open_device(1, has_all, 0);
    mica_program *program = compile_layer(mc);
    memcpy(want, mica_data(run_layer(mc, program, ROWS)), sizeof want);
    mica_program_free(program);
    mica_close(mc);
    for (int t = 0; t < 3; t++) {
        mc = open_device(threads[t], has_primitives, 0);
        program = compile_layer(mc);
        for (int64_t tokens = 1; tokens <= ROWS; tokens++) {
            mica_array *out = run_layer(mc, program, tokens);
            assert_int_equal(mica_array_dim(out, 0), tokens);
            const float *got = mica_data(out);
            for (int64_t i = 0; i < tokens * HEADS * FEATURES; i++)
                assert_true(fabsf(got[i] - want[i]) <= 0x1p-20f * (1 + fabsf(want[i])));
        }
        mica_program_free(program);
        mica_close(mc);
    }
}

static void constants_of_parts_stay_with_a_cached_program(void **state)
{
    (void)state;
    mica_ctx *mc = open_device(1, has_primitives, 0);
    for (int i = 0; i < 4; i++) {
        mica_scope *scope = mica_scope_push(mc);
        mica_array *y = mica_sigmoid(mica_full(mc, MICA_SHAPE(5), i, MICA_F64));
        mica_array *first = mica_slice(y, 1, (int64_t[]){0}, (int64_t[]){1}, NULL);
        const double got = mica_item_f64(first), want = 1 / (1 + exp(-i));
        assert_true(fabs(got - want) < 1e-15);
        mica_scope_pop(scope);
    }
    const mica_counters counters = mica_counters_read(mc);
    assert_int_equal(counters.programs_compiled, 1);
    assert_int_equal(counters.cache_hits, 3);
    mica_close(mc);
}

/* What a rule leaves uncomputed is shared with the graph's own nodes. */
static void parts_are_merged_with_equal_nodes(void **state)
{
    (void)state;
    mica_ctx *mc = open_device(1, has_others, MICA__OP_SQUARE);
    mica_array *x = mica_input(mc, MICA_SHAPE(2, 2), MICA_I32);
    mica_array *y = mica_add(mica_square(x), mica_multiply(x, x));
    mica_program *program = NULL;
    assert_ok(mica_compile(mc, 1, &x, 1, &y, &program));
    assert_int_equal(mica_program_describe(program).n_steps, 2);
    mica_program_free(program);
    mica_close(mc);
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    mica_ctx *mc = open_device(2, has_primitives, 0);
    mica_memory_usage before, after;
    mica_memory_read(&before);
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        mica_scope *scope = mica_scope_push(mc);
        mica_array *x = matrix(mc, MICA_F32, 1),
                   *w = numbers(mc, MICA_SHAPE(FEATURES), MICA_F32, 2);
        mica_array *y = mica_add(mica_swiglu(x, mica_rms_norm(x, w, 1e-5f)), mica_softmax(x, 0));
        mica_program *program = NULL;
        mica__fault_after(n, false);
        const mica_status status = mica_compile(mc, 0, NULL, 1, &y, &program);
        done = status == MICA_OK && mica__fault_hits() < n;
        mica__fault_after(0, false);
        assert_true(status == MICA_OK || status == MICA_E_MEMORY);
        assert_int_equal(mica_error_status(mc), status);
        mica_clear_error(mc);
        mica_program_free(program);
        mica_scope_pop(scope);
    }
    mica_memory_read(&after);
    assert_int_equal(after.by_kind[MICA_MEMORY_GRAPH], before.by_kind[MICA_MEMORY_GRAPH]);
    assert_int_equal(after.by_kind[MICA_MEMORY_ARRAYS], before.by_kind[MICA_MEMORY_ARRAYS]);
    assert_int_equal(after.by_kind[MICA_MEMORY_PROGRAMS], before.by_kind[MICA_MEMORY_PROGRAMS]);
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simpler_operations_give_the_kernels_values),
        cmocka_unit_test(a_device_with_primitives_only_computes_everything),
        cmocka_unit_test(every_rule_has_a_case),
        cmocka_unit_test(without_kernel_and_rule_an_op_is_refused_by_name),
        cmocka_unit_test(a_part_without_kernel_is_refused_with_the_op_that_needs_it),
        cmocka_unit_test(an_empty_axis_decomposes_to_nothing),
        cmocka_unit_test(programs_of_parts_know_their_peak_and_follow_extents),
        cmocka_unit_test(constants_of_parts_stay_with_a_cached_program),
        cmocka_unit_test(parts_are_merged_with_equal_nodes),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
