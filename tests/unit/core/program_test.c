/* program_test.c - programs: memory prediction, limits, extents, in-place updates, threads.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "core/program.h"

static mica_ctx *open_with(int threads)
{
    const mica_options options = {.threads = threads, .isa = "scalar"};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("mica_open: %s", mica_last_error());
    return mc;
}

static float *iota(int64_t n)
{
    static float data[1 << 16];
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(i % 97) * 0.25f - 10.0f;
    return data;
}

/* A program with branches, views, a reduction and a product. */
static mica_program *compile_mixed(mica_ctx *mc, mica_array **input)
{
    mica_array *x = mica_input(mc, MICA_SHAPE(24, 32), MICA_F32);
    mica_array *w = mica_from_data(mc, iota(32 * 48), MICA_SHAPE(48, 32), MICA_F32);
    mica_array *y = mica_matmul(x, mica_transpose(w, 0, NULL)); /* [24, 48] */
    mica_array *a = mica_multiply(mica_add(y, y), mica_sigmoid(y));
    mica_array *b = mica_reshape(mica_transpose(a, 0, NULL), MICA_SHAPE(24, 48));
    mica_array *s = mica_sum(mica_add(a, b), 2, true); /* [24, 1] */
    mica_array *out = mica_subtract(mica_square(a), s);
    mica_program *program = NULL;
    if (mica_compile(mc, 1, &x, 1, &out, &program) != MICA_OK)
        fail_msg("compile: %s", mica_error(mc));
    *input = mica_from_data(mc, iota(24 * 32), MICA_SHAPE(24, 32), MICA_F32);
    return program;
}

static void high_water_equals_predicted_peak_to_the_byte(void **state)
{
    (void)state;
    const int threads[] = {1, 2, 7};
    for (int i = 0; i < 3; i++) {
        mica_ctx *mc = open_with(threads[i]);
        mica_array *input, *out;
        mica_program *program = compile_mixed(mc, &input);
        for (int repeat = 0; repeat < 2; repeat++) { /* fresh memory, then the pool's */
            mica_scope *scope = mica_scope_push(mc);
            mica_memory_usage before, after;
            mica_memory_reset_peak();
            mica_memory_read(&before);
            assert_ok(mica_run(mc, program, &input, &out));
            mica_memory_read(&after);
            assert_int_equal(after.peak - before.active, mica_program_describe(program).peak_bytes);
            mica_scope_pop(scope);
        }
        const mica_program_facts facts = mica_program_describe(program);
        assert_true(facts.arena_bytes <= facts.live_bytes + facts.live_bytes / 20);
        mica_program_free(program);
        mica_close(mc);
    }
}

static void one_byte_less_refuses_and_leaves_everything_usable(void **state)
{
    (void)state;
    mica_ctx *mc = open_with(2);
    mica_array *input, *out = NULL;
    mica_program *program = compile_mixed(mc, &input);
    mica_memory_usage usage;
    mica_memory_read(&usage);
    const int64_t need = mica_program_describe(program).peak_bytes;
    mica_set_memory_limit(usage.active + need - 1, false);
    assert_status(mica_run(mc, program, &input, &out), MICA_E_MEMORY);
    assert_null(out);
    assert_non_null(strstr(mica_last_error(), "memory limit"));
    assert_string_equal(mica_error(mc), "");
    mica_set_memory_limit(usage.active + need, false);
    assert_ok(mica_run(mc, program, &input, &out));
    mica_set_memory_limit(0, false);
    mica_program_free(program);
    mica_close(mc);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    float first[24 * 48];
    const int threads[] = {1, 2, 3, 7};
    for (int i = 0; i < 4; i++) {
        mica_ctx *mc = open_with(threads[i]);
        mica_array *input, *out;
        mica_program *program = compile_mixed(mc, &input);
        assert_ok(mica_run(mc, program, &input, &out));
        if (i == 0)
            memcpy(first, mica_data(out), sizeof first);
        else
            assert_memory_equal(first, mica_data(out), sizeof first);
        mica_program_free(program);
        mica_close(mc);
    }
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    mica_ctx *mc = open_with(2);
    mica_memory_usage before, after;
    mica_memory_read(&before);
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        mica_scope *scope = mica_scope_push(mc);
        mica__fault_after(n, false);
        mica_array *x = mica_from_data(mc, iota(64), MICA_SHAPE(8, 8), MICA_F32);
        mica_array *y = mica_matmul(x, mica_transpose(x, 0, NULL));
        mica_array *z = mica_add(y, mica_sum(y, 1, false));
        const mica_status status = mica_eval(mc, 1, &z);
        done = status == MICA_OK && mica__fault_hits() < n;
        mica__fault_after(0, false);
        if (status != MICA_OK)
            assert_int_equal(mica_error_status(mc), z ? status : mica_error_status(mc));
        mica_clear_error(mc);
        mica_scope_pop(scope);
    }
    mica_memory_read(&after);
    assert_int_equal(after.by_kind[MICA_MEMORY_GRAPH], before.by_kind[MICA_MEMORY_GRAPH]);
    assert_int_equal(after.by_kind[MICA_MEMORY_ARRAYS], before.by_kind[MICA_MEMORY_ARRAYS]);
    assert_int_equal(after.by_kind[MICA_MEMORY_WORKSPACE], 0);
    assert_int_equal(after.by_kind[MICA_MEMORY_SCRATCH], 0);
    mica_close(mc);
}

static void extents_run_short_and_at_the_bound(void **state)
{
    (void)state;
    mica_ctx *mc = open_with(2);
    mica_array *x = mica_input_extent(mc, "rows", MICA_SHAPE(16, 6), MICA_F32);
    mica_array *y = mica_reshape(x, MICA_SHAPE(16, 2, 3));
    const int axes[] = {0, 2, 1};
    mica_array *z =
        mica_sum(mica_add(mica_transpose(y, 3, axes), mica_scalar(mc, 1, MICA_F32)), 2, false);
    mica_program *program = NULL;
    if (mica_compile(mc, 1, &x, 1, &z, &program))
        fail_msg("%s", mica_error(mc));
    for (int rows = 1; rows <= 16; rows += 5) {
        mica_array *in = mica_from_data(mc, iota(rows * 6), MICA_SHAPE(rows, 6), MICA_F32), *out;
        assert_ok(mica_run(mc, program, &in, &out));
        assert_int_equal(mica_array_dim(out, 0), rows);
        const float *got = mica_data(out), *data = mica_data(in);
        for (int r = 0; r < rows; r++) /* sum over the axis of 3, plus 3 */
            for (int c = 0; c < 2; c++)
                assert_float_equal(got[r * 2 + c],
                                   data[r * 6 + c * 3] + data[r * 6 + c * 3 + 1] +
                                       data[r * 6 + c * 3 + 2] + 3,
                                   1e-5);
    }
    mica_array *long_in = mica_from_data(mc, iota(17 * 6), MICA_SHAPE(17, 6), MICA_F32), *out;
    assert_status(mica_run(mc, program, &long_in, &out), MICA_E_SHAPE);
    mica_program_free(program);
    mica_close(mc);
}

static void a_merge_behind_a_fixed_axis_is_refused(void **state)
{
    (void)state;
    mica_ctx *mc = open_with(1);
    mica_array *x = mica_input_extent(mc, "rows", MICA_SHAPE(16, 6), MICA_F32);
    assert_null(mica_reshape(mica_transpose(x, 0, NULL), MICA_SHAPE(96)));
    assert_non_null(strstr(mica_error(mc), "varying axis"));
    mica_close(mc);
}

static void equal_graphs_share_one_program(void **state)
{
    (void)state;
    mica_ctx *mc = open_with(1);
    for (int i = 0; i < 5; i++) {
        mica_array *x = mica_full(mc, MICA_SHAPE(3, 5), i, MICA_F32);
        mica_array *y = mica_sum(mica_square(x), MICA_ALL_AXES, false);
        assert_float_equal(mica_item_f64(y), 15.0 * i * i, 0);
    }
    const mica_counters counters = mica_counters_read(mc);
    assert_int_equal(counters.programs_compiled, 1);
    assert_int_equal(counters.cache_hits, 4);
    mica_close(mc);
}

static void common_subexpressions_run_once(void **state)
{
    (void)state;
    mica_ctx *mc = open_with(1);
    mica_array *x = mica_input(mc, MICA_SHAPE(4), MICA_F32);
    mica_array *y =
        mica_add(mica_matmul(mica_reshape(x, MICA_SHAPE(2, 2)), mica_reshape(x, MICA_SHAPE(2, 2))),
                 mica_matmul(mica_reshape(x, MICA_SHAPE(2, 2)), mica_reshape(x, MICA_SHAPE(2, 2))));
    mica_program *program = NULL;
    assert_ok(mica_compile(mc, 1, &x, 1, &y, &program));
    assert_int_equal(mica_program_describe(program).n_steps, 2);
    mica_program_free(program);
    mica_close(mc);
}

static void a_chain_of_a_million_ops_builds_runs_and_frees(void **state)
{
    (void)state;
    mica_ctx *mc = open_with(1);
    mica_scope *scope = mica_scope_push(mc);
    mica_array *one = mica_scalar(mc, 1, MICA_F32);
    mica_array *x = mica_scalar(mc, 0, MICA_F32);
    for (int i = 0; i < 1000000; i++)
        x = mica_add(x, one);
    assert_float_equal(mica_item_f64(x), 1000000.0, 0);
    mica_scope_pop(scope);
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(high_water_equals_predicted_peak_to_the_byte),
        cmocka_unit_test(one_byte_less_refuses_and_leaves_everything_usable),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
        cmocka_unit_test(extents_run_short_and_at_the_bound),
        cmocka_unit_test(a_merge_behind_a_fixed_axis_is_refused),
        cmocka_unit_test(equal_graphs_share_one_program),
        cmocka_unit_test(common_subexpressions_run_once),
        cmocka_unit_test(a_chain_of_a_million_ops_builds_runs_and_frees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
