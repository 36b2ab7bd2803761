/* eval_test.c - evaluation: it computes what is asked for and nothing else, and says no in words.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

static mica_ctx *open_one(void)
{
    const mica_options options = {.threads = 1};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("mica_open: %s", mica_last_error());
    return mc;
}

static int64_t bytes_of(mica_memory_kind kind)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.by_kind[kind];
}

static mica_array *ramp(mica_ctx *mc, int64_t n)
{
    return mica_arange(mc, 0, (double)n, 1, MICA_F32);
}

static void only_what_is_asked_for_is_stored(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = ramp(mc, 10000);
    mica_array *middle = mica_square(x), *top = mica_sum(middle, MICA_ALL_AXES, false);
    const int64_t before = bytes_of(MICA_MEMORY_ARRAYS);
    assert_ok(mica_eval_all(mc, top));
    assert_true(bytes_of(MICA_MEMORY_ARRAYS) - before < 1000); /* one float, not 40,000 bytes */
    assert_true(mica_array_is_evaluated(top));
    assert_false(mica_array_is_evaluated(middle));
    assert_false(mica_array_is_evaluated(x));
    mica_close(mc);
}

static void computing_again_gives_the_same_and_is_counted(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = mica_sin(ramp(mc, 100)), *y = mica_exp(x), *z = mica_sum(y, 1, false);
    assert_ok(mica_eval_all(mc, z));
    assert_int_equal(mica_counters_read(mc).recomputed, 0);
    assert_ok(mica_eval_all(mc, y)); /* exp, sin and arange were computed for z */
    assert_int_equal(mica_counters_read(mc).recomputed, 3);
    assert_ok(mica_eval_all(mc, x)); /* sin and arange once more */
    assert_int_equal(mica_counters_read(mc).recomputed, 5);
    assert_ok(mica_eval_all(mc, x, y, z)); /* nothing left to do */
    assert_int_equal(mica_counters_read(mc).recomputed, 5);
    mica_array *again = mica_sum(mica_exp(x), 1, false);
    assert_ok(mica_eval_all(mc, again)); /* nothing of it was computed before */
    assert_int_equal(mica_counters_read(mc).recomputed, 5);
    assert_memory_equal(mica_data(again), mica_data(z), 4);
    mica_close(mc);
}

static void views_are_not_counted_as_computed_again(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = mica_from_data(mc, (const float[]){1, 2, 3, 4}, MICA_SHAPE(2, 2), MICA_F32);
    mica_array *turned = mica_transpose(x, 0, NULL);
    assert_ok(mica_eval_all(mc, mica_exp(turned)));
    assert_ok(mica_eval_all(mc, turned));
    assert_int_equal(mica_counters_read(mc).recomputed, 0);
    assert_float_equal(((const float *)mica_data(turned))[1], 3, 0);
    mica_close(mc);
}

static void several_results_come_from_one_program(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = ramp(mc, 50), *y = mica_exp(mica_negative(x));
    mica_array *a = mica_sum(y, 1, false), *b = mica_max(y, 1, false);
    assert_ok(mica_eval_all(mc, a, b, y, y, a)); /* twice the same is once */
    assert_int_equal(mica_counters_read(mc).programs_run, 1);
    assert_float_equal(mica_item_f64(b), 1, 0);
    assert_ok(mica_eval(mc, 0, NULL));
    assert_int_equal(mica_counters_read(mc).programs_run, 1);
    mica_close(mc);
}

static void evaluated_arrays_let_go_of_their_graph(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_scope *scope = mica_scope_push(mc);
    mica_array *x = ramp(mc, 10);
    for (int i = 0; i < 200; i++)
        x = mica_add(x, x);
    mica_scope_return(x);
    mica_scope_pop(scope);
    const int64_t before = bytes_of(MICA_MEMORY_GRAPH);
    assert_ok(mica_eval_all(mc, x));
    assert_true(before - bytes_of(MICA_MEMORY_GRAPH) > 200 * 100); /* nodes and arrays */
    mica_close(mc);
}

static void leaves_and_views_of_leaves_can_be_asked_for(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const float data[] = {1, 2, 3, 4, 5, 6};
    mica_array *x = mica_from_data(mc, data, MICA_SHAPE(2, 3), MICA_F32);
    assert_ok(mica_eval_all(mc, x, x));
    const int64_t start[] = {-1, -1}, stop[] = {-3, -4}, step[] = {-1, -2};
    mica_array *part = mica_slice(x, 2, start, stop, step); /* 6 4 / 3 1 */
    mica_array *column = mica_reshape(part, MICA_SHAPE(4, 1));
    mica_array *wide = mica_broadcast_to(column, MICA_SHAPE(4, 2));
    assert_ok(mica_eval_all(mc, part, column, wide));
    assert_memory_equal(mica_data(part), ((const float[]){6, 4, 3, 1}), 16);
    assert_memory_equal(mica_data(column), ((const float[]){6, 4, 3, 1}), 16);
    assert_memory_equal(mica_data(wide), ((const float[]){6, 6, 4, 4, 3, 3, 1, 1}), 32);
    mica_close(mc);
}

static void a_placeholder_has_no_value(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = mica_input(mc, MICA_SHAPE(3), MICA_F32), *y = mica_exp(x);
    mica_array *ready = mica_exp(ramp(mc, 3));
    assert_status(mica_eval_all(mc, ready, x), MICA_E_STATE);
    assert_string_equal(mica_error(mc),
                        "eval: array 1, float32 [3], is a placeholder and has no value");
    mica_clear_error(mc);
    assert_status(mica_eval_all(mc, ready, y), MICA_E_STATE);
    assert_non_null(strstr(mica_error(mc), "placeholder is not known"));
    assert_false(mica_array_is_evaluated(ready)); /* all or none */
    mica_clear_error(mc);
    assert_ok(mica_eval_all(mc, ready));
    mica_close(mc);
}

static void a_failing_step_leaves_arrays_as_they_were(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const int32_t beyond = 5;
    mica_array *x = ramp(mc, 4), *index = mica_from_data(mc, &beyond, MICA_SHAPE(1), MICA_I32);
    mica_array *fine = mica_exp(x), *bad = mica_take(x, index, 0);
    assert_status(mica_eval_all(mc, fine, bad), MICA_E_ARGUMENT);
    assert_non_null(strstr(mica_error(mc), "index 5"));
    assert_false(mica_array_is_evaluated(fine));
    assert_false(mica_array_is_evaluated(bad));
    assert_int_equal(mica_counters_read(mc).recomputed, 0);
    mica_clear_error(mc);
    assert_ok(mica_eval_all(mc, fine));
    assert_int_equal(mica_counters_read(mc).recomputed, 0); /* the failed run computed nothing */
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_asked_for_is_stored),
        cmocka_unit_test(computing_again_gives_the_same_and_is_counted),
        cmocka_unit_test(views_are_not_counted_as_computed_again),
        cmocka_unit_test(several_results_come_from_one_program),
        cmocka_unit_test(evaluated_arrays_let_go_of_their_graph),
        cmocka_unit_test(leaves_and_views_of_leaves_can_be_asked_for),
        cmocka_unit_test(a_placeholder_has_no_value),
        cmocka_unit_test(a_failing_step_leaves_arrays_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
