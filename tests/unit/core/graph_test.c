/* graph_test.c - arrays and graphs: references, scopes, sticky errors, contexts.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include <math.h>
#include <string.h>

#include "core/graph.h"

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

static mica_array *numbers(mica_ctx *mc)
{
    const float data[] = {1, 2, 3, 4, 5, 6};
    return mica_from_data(mc, data, MICA_SHAPE(2, 3), MICA_F32);
}

/* --- lifetime --------------------------------------------------------------------------------- */

static void popping_a_scope_frees_what_it_owns(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const int64_t graph = bytes_of(MICA_MEMORY_GRAPH), arrays = bytes_of(MICA_MEMORY_ARRAYS);
    mica_scope *outer = mica_scope_push(mc);
    mica_array *x = numbers(mc);
    mica_scope *inner = mica_scope_push(mc);
    mica_array *y = mica_exp(mica_add(x, x));
    assert_int_equal(atomic_load(&y->refs), 1);     /* the scope's */
    assert_int_equal(atomic_load(&x->refs), 1 + 2); /* the scope's, and an edge for each operand */
    mica_scope_pop(inner);
    assert_int_equal(atomic_load(&x->refs), 1);
    mica_scope_pop(outer);
    assert_int_equal(bytes_of(MICA_MEMORY_GRAPH), graph);
    assert_int_equal(bytes_of(MICA_MEMORY_ARRAYS), arrays);
    mica_close(mc);
}

static void popping_a_scope_pops_those_inside(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const int64_t graph = bytes_of(MICA_MEMORY_GRAPH);
    mica_scope *outer = mica_scope_push(mc);
    mica_scope_push(mc);
    numbers(mc);
    mica_scope_push(mc);
    numbers(mc);
    mica_scope_pop(outer);
    assert_int_equal(bytes_of(MICA_MEMORY_GRAPH), graph);
    mica_scope_pop(NULL);
    mica_close(mc);
}

static void an_operand_lives_as_long_as_the_graph_that_reads_it(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_scope *inner = mica_scope_push(mc);
    mica_array *y = mica_scope_return(mica_add(numbers(mc), numbers(mc)));
    mica_scope_pop(inner);
    assert_ok(mica_eval(mc, 1, &y));
    assert_float_equal(((const float *)mica_data(y))[5], 12, 0);
    mica_close(mc);
}

static void returned_arrays_move_out_one_scope(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_scope *outer = mica_scope_push(mc);
    mica_scope *inner = mica_scope_push(mc);
    mica_array *x = numbers(mc);
    assert_ptr_equal(mica_scope_return(x), x);
    mica_scope_pop(inner);
    assert_float_equal(((const float *)mica_data(x))[0], 1, 0);
    assert_ptr_equal(mica_scope_return(x), x); /* to the context */
    assert_ptr_equal(mica_scope_return(x), x); /* stays there */
    mica_scope_pop(outer);
    assert_float_equal(((const float *)mica_data(x))[0], 1, 0);
    assert_null(mica_scope_return(NULL));
    mica_close(mc);
}

static void kept_arrays_outlive_their_scope_until_released(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const int64_t graph = bytes_of(MICA_MEMORY_GRAPH), arrays = bytes_of(MICA_MEMORY_ARRAYS);
    mica_scope *scope = mica_scope_push(mc);
    mica_array *x = mica_keep(mica_keep(numbers(mc)));
    mica_scope_pop(scope);
    assert_float_equal(((const float *)mica_data(x))[1], 2, 0);
    mica_release(x);
    assert_float_equal(((const float *)mica_data(x))[1], 2, 0);
    mica_release(x);
    assert_int_equal(bytes_of(MICA_MEMORY_GRAPH), graph);
    assert_int_equal(bytes_of(MICA_MEMORY_ARRAYS), arrays);
    assert_null(mica_keep(NULL));
    mica_release(NULL);
    mica_close(mc);
}

static void kept_arrays_outlive_their_context(void **state)
{
    (void)state;
    mica_ctx *first = open_one(), *second = mica_open(NULL);
    assert_non_null(second);
    mica_array *x = mica_keep(numbers(first));
    mica_close(first);
    assert_float_equal(((const float *)mica_data(x))[2], 3, 0);
    mica_array *sum = mica_sum(mica_square(x), MICA_ALL_AXES, false); /* in the open context */
    assert_float_equal(mica_item_f64(sum), 91, 0);
    mica_release(x);
    mica_close(second);
}

static int n_warnings, n_messages;

static void count_line(void *user, mica_log_level level, const char *message)
{
    assert_ptr_equal(user, &n_messages);
    assert_true(strlen(message) > 0);
    n_messages++;
    if (level == MICA_LOG_WARNING) {
        assert_non_null(strstr(message, "3 arrays were still kept"));
        n_warnings++;
    }
}

static void closing_the_runtime_frees_and_reports_kept_arrays(void **state)
{
    (void)state;
    mica_memory_usage before, after;
    mica_memory_read(&before);
    const mica_options options = {.threads = 1, .log = count_line, .log_user = &n_messages};
    mica_ctx *mc = mica_open(&options);
    assert_int_equal(n_messages, 1);              /* what was chosen */
    mica_keep(mica_keep(mica_keep(numbers(mc)))); /* three references of the caller */
    mica_keep(mica_exp(numbers(mc)));
    mica_keep(numbers(mc));
    mica_close(mc);
    assert_int_equal(n_messages, 2);
    assert_int_equal(n_warnings, 1);
    mica_memory_read(&after);
    assert_int_equal(after.active, before.active);
}

static int n_released;

static void count_release(void *user)
{
    (void)user;
    n_released++;
}

static void memory_of_the_caller_is_released_once_after_its_last_reader(void **state)
{
    (void)state;
    static const float data[] = {1, 2, 3, 4};
    mica_ctx *mc = open_one();
    mica_scope *scope = mica_scope_push(mc);
    n_released = 0;
    mica_array *x = mica_from_memory(mc, data, MICA_SHAPE(4), MICA_F32, count_release, NULL);
    assert_ptr_equal(mica_data(x), data);
    mica_array *y = mica_keep(mica_exp(x));
    mica_scope_pop(scope);
    assert_int_equal(n_released, 0); /* y's graph reads it */
    assert_ok(mica_eval(mc, 1, &y));
    assert_int_equal(n_released, 1);
    mica_release(y);
    mica_close(mc);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void the_first_error_stays_until_it_is_cleared(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    assert_string_equal(mica_error(mc), "");
    assert_int_equal(mica_error_status(mc), MICA_OK);
    mica_array *x = numbers(mc);
    assert_null(mica_matmul(x, x));
    assert_string_equal(mica_error(mc), "matmul: shapes [2, 3] and [2, 3] do not match");
    assert_int_equal(mica_error_status(mc), MICA_E_SHAPE);
    assert_null(mica_reshape(x, MICA_SHAPE(7)));
    assert_string_equal(mica_error(mc), "matmul: shapes [2, 3] and [2, 3] do not match");
    mica_clear_error(mc);
    assert_string_equal(mica_error(mc), "");
    assert_null(mica_reshape(x, MICA_SHAPE(7)));
    assert_string_equal(mica_error(mc), "reshape: [2, 3] cannot become [7]");
    mica_close(mc);
}

static void null_gives_null_and_no_new_error(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = numbers(mc), *parts[] = {x, NULL};
    assert_null(mica_add(NULL, x));
    assert_null(mica_add(x, NULL));
    assert_null(mica_exp(NULL));
    assert_null(mica_sum(NULL, 0, false));
    assert_null(mica_softmax(NULL, 0));
    assert_null(mica_take(x, NULL, 0));
    assert_null(mica_matmul(NULL, NULL));
    assert_null(mica_concatenate(2, parts, 0));
    assert_null(mica_reshape(NULL, MICA_SCALAR));
    assert_null(mica_swapaxes(NULL, 0, 1));
    assert_null(mica_flatten(NULL, 0, -1));
    assert_null(mica_rms_norm(x, NULL, 0));
    assert_null(mica_astype(NULL, MICA_F32));
    assert_null(mica_data(NULL));
    assert_string_equal(mica_error(mc), "");
    assert_int_equal(mica_array_ndim(NULL), -1);
    assert_int_equal(mica_array_size(NULL), -1);
    assert_int_equal(mica_array_dtype(NULL), MICA_N_DTYPES);
    assert_false(mica_array_is_evaluated(NULL));
    mica_close(mc);
}

static void a_whole_formula_is_checked_once(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = numbers(mc);
    mica_array *bad = mica_exp(mica_add(mica_matmul(x, x), x)); /* fails inside, NULL from there */
    assert_null(bad);
    mica_array *good = mica_exp(x); /* builders still work */
    assert_non_null(good);
    assert_status(mica_eval_all(mc, good, bad), MICA_E_SHAPE);
    assert_status(mica_eval_all(mc, good), MICA_E_SHAPE); /* the first error ends it all */
    assert_false(mica_array_is_evaluated(good));
    mica_program *program = NULL;
    assert_status(mica_compile(mc, 0, NULL, 1, &good, &program), MICA_E_SHAPE);
    mica_clear_error(mc);
    assert_status(mica_eval_all(mc, good, bad), MICA_E_ARGUMENT); /* NULL is named */
    assert_non_null(strstr(mica_error(mc), "array 1 is NULL"));
    mica_clear_error(mc);
    assert_ok(mica_eval_all(mc, good));
    mica_close(mc);
}

static void data_and_item_say_why_there_is_no_value(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *lazy = mica_exp(numbers(mc));
    assert_null(mica_data(lazy));
    assert_string_equal(mica_error(mc), "data: float32 [2, 3] is not evaluated");
    mica_clear_error(mc);
    mica_array *given = mica_input(mc, MICA_SHAPE(1), MICA_F32);
    assert_null(mica_data(given));
    assert_string_equal(mica_error(mc), "data: float32 [1] is a placeholder");
    mica_clear_error(mc);
    assert_true(isnan(mica_item_f64(given)));
    assert_int_equal(mica_error_status(mc), MICA_E_STATE);
    mica_clear_error(mc);
    assert_true(isnan(mica_item_f64(lazy)));
    assert_string_equal(mica_error(mc), "item: the array has 6 elements, not one");
    mica_clear_error(mc);
    assert_int_equal(mica_item_i64(mica_scalar(mc, 3, MICA_F32)), 0);
    assert_string_equal(mica_error(mc), "item: float32 is no integer type");
    mica_close(mc);
}

static void item_evaluates_and_reads_every_type(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    for (int d = 0; d < MICA_N_DTYPES; d++) {
        if (d == MICA_C64)
            continue;
        mica_array *one = mica_reshape(mica_scalar(mc, 1, (mica_dtype)d), MICA_SHAPE(1, 1));
        assert_float_equal(mica_item_f64(one), 1, 0);
        if (d < MICA_F16)
            assert_int_equal(mica_item_i64(one), 1);
    }
    const int64_t least = INT64_MIN;
    assert_true(mica_item_i64(mica_from_data(mc, &least, MICA_SCALAR, MICA_I64)) == INT64_MIN);
    const uint64_t most = UINT64_MAX;
    assert_float_equal(mica_item_f64(mica_from_data(mc, &most, MICA_SCALAR, MICA_U64)), 0x1p64, 0);
    assert_string_equal(mica_error(mc), "");
    mica_close(mc);
}

static void bad_shapes_and_dtypes_are_refused_by_name(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    assert_null(mica_zeros(mc, mica_shape_of(13, (const int64_t[13]){1}), MICA_F32));
    assert_int_equal(mica_error_status(mc), MICA_E_SHAPE);
    mica_clear_error(mc);
    assert_null(mica_zeros(mc, mica_shape_of(-1, NULL), MICA_F32));
    mica_clear_error(mc);
    assert_null(mica_zeros(mc, MICA_SHAPE(-2), MICA_F32));
    mica_clear_error(mc);
    assert_null(mica_input(mc, MICA_SHAPE(INT64_MAX, 2), MICA_F32));
    assert_int_equal(mica_error_status(mc), MICA_E_SHAPE);
    mica_clear_error(mc);
    assert_null(mica_input(mc, MICA_SHAPE(1), (mica_dtype)99));
    assert_int_equal(mica_error_status(mc), MICA_E_ARGUMENT);
    mica_clear_error(mc);
    assert_null(
        mica_broadcast_to(mica_scalar(mc, 1, MICA_F32), MICA_SHAPE(INT64_MAX / 2, 1 << 20)));
    assert_int_equal(mica_error_status(mc), MICA_E_SHAPE);
    mica_clear_error(mc);
    assert_null(mica_zeros(NULL, MICA_SHAPE(1), MICA_F32));
    mica_close(mc);
}

/* --- contexts --------------------------------------------------------------------------------- */

static void evaluated_arrays_of_another_context_may_be_read(void **state)
{
    (void)state;
    mica_ctx *first = open_one(), *second = mica_open(NULL);
    mica_array *ready = numbers(first), *lazy = mica_exp(numbers(second));
    mica_array *mixed = mica_add(ready, lazy); /* belongs where its unevaluated operand does */
    assert_non_null(mixed);
    assert_ptr_equal(mixed->ctx, second);
    assert_ok(mica_eval(second, 1, &mixed));
    mica_close(second);
    mica_close(first);
}

static void graphs_of_two_contexts_do_not_mix(void **state)
{
    (void)state;
    mica_ctx *first = open_one(), *second = mica_open(NULL);
    mica_array *a = mica_exp(numbers(first)), *b = mica_exp(numbers(second));
    assert_null(mica_add(a, b));
    assert_non_null(strstr(mica_error(first), "belongs to another context"));
    assert_string_equal(mica_error(second), "");
    mica_clear_error(first);
    assert_status(mica_eval(second, 1, &a), MICA_E_STATE);
    assert_non_null(strstr(mica_error(second), "belongs to another context"));
    mica_clear_error(second);
    mica_program *program = NULL;
    assert_status(mica_compile(second, 0, NULL, 1, &a, &program), MICA_E_STATE);
    mica_clear_error(second);
    assert_ok(mica_eval(first, 1, &a));
    assert_non_null(mica_add(a, b));
    mica_close(second);
    mica_close(first);
}

static void a_graph_whose_context_is_closed_is_refused_by_reason(void **state)
{
    (void)state;
    mica_ctx *first = open_one(), *second = mica_open(NULL);
    mica_array *lazy = mica_keep(mica_exp(numbers(first)));
    mica_close(first);
    assert_null(mica_square(lazy));
    assert_non_null(strstr(mica_error(second), "before its context was closed"));
    mica_clear_error(second);
    assert_status(mica_eval(second, 1, &lazy), MICA_E_STATE);
    mica_clear_error(second);
    assert_null(mica_data(lazy));
    assert_non_null(strstr(mica_error(second), "is not evaluated"));
    mica_release(lazy);
    mica_close(second);
}

static void only_the_first_open_takes_options(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const mica_options options = {.threads = 3};
    assert_null(mica_open(&options));
    assert_non_null(strstr(mica_last_error(), "only the first"));
    assert_int_equal(mica_threads(mc), 1);
    mica_close(mc);
    mica_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(popping_a_scope_frees_what_it_owns),
        cmocka_unit_test(popping_a_scope_pops_those_inside),
        cmocka_unit_test(an_operand_lives_as_long_as_the_graph_that_reads_it),
        cmocka_unit_test(returned_arrays_move_out_one_scope),
        cmocka_unit_test(kept_arrays_outlive_their_scope_until_released),
        cmocka_unit_test(kept_arrays_outlive_their_context),
        cmocka_unit_test(closing_the_runtime_frees_and_reports_kept_arrays),
        cmocka_unit_test(memory_of_the_caller_is_released_once_after_its_last_reader),
        cmocka_unit_test(the_first_error_stays_until_it_is_cleared),
        cmocka_unit_test(null_gives_null_and_no_new_error),
        cmocka_unit_test(a_whole_formula_is_checked_once),
        cmocka_unit_test(data_and_item_say_why_there_is_no_value),
        cmocka_unit_test(item_evaluates_and_reads_every_type),
        cmocka_unit_test(bad_shapes_and_dtypes_are_refused_by_name),
        cmocka_unit_test(evaluated_arrays_of_another_context_may_be_read),
        cmocka_unit_test(graphs_of_two_contexts_do_not_mix),
        cmocka_unit_test(a_graph_whose_context_is_closed_is_refused_by_reason),
        cmocka_unit_test(only_the_first_open_takes_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
