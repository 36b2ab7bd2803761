/* donate_test.c - donated arrays: their buffer serves an output, and later use is an error by name.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include "base/alloc.h"
#include "core/graph.h"
#include "ops/fast.h"

enum { N = 4096 };

static mica_ctx *open_one(void)
{
    const mica_options options = {.threads = 1};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("mica_open: %s", mica_last_error());
    return mc;
}

/* 0 1 2 ... N - 1, evaluated, with a buffer of its own. */
static mica_array *ramp(mica_ctx *mc)
{
    mica_array *x = mica_arange(mc, 0, N, 1, MICA_F32);
    assert_ok(mica_eval(mc, 1, &x));
    return x;
}

static int64_t array_bytes(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.by_kind[MICA_MEMORY_ARRAYS];
}

static void an_output_takes_the_buffer_of_an_elementwise_operand(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = ramp(mc), *y = mica_add(mica_square(x), mica_scalar(mc, 1, MICA_F32));
    const void *data = mica_data(x);
    const int64_t before = array_bytes();
    assert_ok(mica_donate(x));
    assert_ok(mica_eval_all(mc, y));
    assert_ptr_equal(mica_data(y), data);
    assert_int_equal(array_bytes(), before);
    for (int i = 0; i < N; i++)
        assert_float_equal(((const float *)data)[i], (float)i * (float)i + 1, 0);
    assert_false(mica_array_is_evaluated(x));
    mica_close(mc);
}

static void an_output_takes_a_buffer_that_earlier_steps_were_done_with(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = ramp(mc);
    mica_array *largest = mica_max(x, 1, false);
    mica_array *y = mica_full(mc, MICA_SHAPE(N), 2, MICA_F32); /* ready before x is read */
    mica_array *z = mica_contiguous(mica_broadcast_to(largest, MICA_SHAPE(N)));
    const void *data = mica_data(x);
    assert_ok(mica_donate(x));
    assert_ok(mica_eval_all(mc, y, z));
    assert_ptr_not_equal(mica_data(y), data);
    assert_ptr_equal(mica_data(z), data); /* it starts once the maximum is there */
    assert_float_equal(((const float *)mica_data(z))[N - 1], N - 1, 0);
    assert_float_equal(((const float *)mica_data(y))[N - 1], 2, 0);
    mica_close(mc);
}

static void a_buffer_that_fits_no_output_goes_back(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = ramp(mc), *sum = mica_sum(x, 1, false);
    const int64_t before = array_bytes();
    assert_ok(mica_donate(x));
    assert_ok(mica_eval_all(mc, sum));
    assert_float_equal(mica_item_f64(sum), (N - 1.0) * N / 2, 0);
    assert_true(before - array_bytes() > N * 4 - 200);
    mica_close(mc);
}

static void a_transposed_read_is_never_overwritten(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = mica_reshape(ramp(mc), MICA_SHAPE(64, 64));
    assert_ok(mica_eval_all(mc, x));
    mica_array *y = mica_add(x, mica_transpose(x, 0, NULL));
    mica_array *z = mica_negative(mica_transpose(x, 0, NULL));
    assert_ok(mica_donate(x));
    assert_ok(mica_eval_all(mc, y, z));
    const float *sum = mica_data(y), *turned = mica_data(z);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            assert_float_equal(sum[i * 64 + j], 65 * (i + j), 0);
            assert_float_equal(turned[i * 64 + j], -(j * 64 + i), 0);
        }
    mica_close(mc);
}

static void two_donated_arrays_serve_two_outputs(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *a = ramp(mc), *b = ramp(mc);
    mica_array *sum = mica_add(a, mica_scalar(mc, 1, MICA_F32));
    mica_array *twice = mica_add(b, b);
    const void *of_a = mica_data(a);
    const int64_t before = array_bytes();
    assert_ok(mica_donate(a));
    assert_ok(mica_donate(b));
    assert_ok(mica_eval_all(mc, twice, sum));
    assert_ptr_equal(mica_data(sum), of_a);
    assert_true(array_bytes() <= before + 200);
    assert_float_equal(((const float *)mica_data(twice))[7], 14, 0);
    assert_float_equal(((const float *)mica_data(sum))[7], 8, 0);
    mica_close(mc);
}

static void later_use_is_an_error_that_names_it(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = ramp(mc), *y = mica_exp(x), *late = mica_square(x);
    assert_ok(mica_donate(x));
    for (int taken = 0; taken < 2; taken++) {
        assert_null(mica_data(x));
        assert_string_equal(mica_error(mc), "data: float32 [4096] was donated");
        mica_clear_error(mc);
        assert_null(mica_sin(x));
        assert_string_equal(mica_error(mc), "sin: input 0, float32 [4096], was donated");
        mica_clear_error(mc);
        assert_status(mica_eval_all(mc, x), MICA_E_STATE);
        assert_string_equal(mica_error(mc), "eval: array 0, float32 [4096], was donated");
        mica_clear_error(mc);
        assert_status(mica_donate(x), MICA_E_STATE);
        assert_string_equal(mica_error(mc), "donate: float32 [4096] was donated before");
        mica_clear_error(mc);
        if (!taken)
            assert_ok(mica_eval_all(mc, y));
    }
    assert_status(mica_eval_all(mc, late), MICA_E_STATE); /* never a wrong value */
    assert_string_equal(mica_error(mc), "the graph needs float32 [4096], which was donated");
    mica_clear_error(mc);
    assert_int_equal(mica_item_i64(mica_scalar(mc, 4, MICA_I32)), 4);
    mica_close(mc);
}

static void what_cannot_be_donated_is_refused(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = ramp(mc), *lazy = mica_exp(x), *in = mica_input(mc, MICA_SHAPE(N), MICA_F32);
    assert_status(mica_donate(NULL), MICA_E_ARGUMENT);
    mica_clear_error(mc);
    assert_status(mica_donate(lazy), MICA_E_STATE);
    assert_string_equal(mica_error(mc), "donate: float32 [4096] is not evaluated");
    mica_clear_error(mc);
    assert_status(mica_donate(in), MICA_E_STATE);
    mica_clear_error(mc);
    mica_array *out = mica_add(in, x);
    mica_program *program = NULL;
    assert_ok(mica_compile(mc, 1, &in, 1, &out, &program));
    assert_status(mica_donate(x), MICA_E_STATE);
    assert_string_equal(mica_error(mc),
                        "donate: float32 [4096] is a constant of a compiled program");
    mica_clear_error(mc);
    mica_program_free(program);
    assert_ok(mica_donate(x));
    assert_status(mica_compile(mc, 1, &in, 1, &out, &program), MICA_E_STATE);
    assert_non_null(strstr(mica_error(mc), "which was donated"));
    mica_close(mc);
}

static void a_run_takes_what_it_is_given(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *in = mica_input(mc, MICA_SHAPE(N), MICA_F32), *out = mica_exp(in), *y = NULL;
    mica_program *program = NULL;
    assert_ok(mica_compile(mc, 1, &in, 1, &out, &program));
    mica_array *x = ramp(mc);
    const int64_t before = array_bytes();
    assert_ok(mica_donate(x));
    assert_ok(mica_run(mc, program, &x, &y));
    assert_int_equal(array_bytes(), before); /* x's bytes went as y's came */
    assert_float_equal(((const float *)mica_data(y))[0], 1, 0);
    assert_status(mica_run(mc, program, &x, &y), MICA_E_STATE);
    assert_non_null(strstr(mica_last_error(), "was donated"));
    assert_null(y);
    mica_program_free(program);
    mica_close(mc);
}

static void a_refused_evaluation_takes_nothing(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = ramp(mc), *y = mica_softmax(mica_sin(x), 0), *z = mica_exp(x);
    assert_ok(mica_donate(x));
    bool done = false;
    for (int64_t n = 1; !done; n++) { /* no memory before the first step */
        mica__fault_after(n, false);
        const mica_status status = mica_eval_all(mc, y);
        done = status == MICA_OK;
        mica__fault_after(0, false);
        if (!done)
            assert_int_equal(x->donation, MICA__OFFERED);
        mica_clear_error(mc);
    }
    assert_int_equal(x->donation, MICA__GONE);
    assert_status(mica_eval_all(mc, z), MICA_E_STATE);
    mica_close(mc);
}

static void a_run_that_fails_after_it_began_destroys_what_it_wrote(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const int32_t beyond = N;
    mica_array *index = mica_from_data(mc, &beyond, MICA_SHAPE(1), MICA_I32);
    mica_array *x = ramp(mc), *y = mica_exp(x);
    mica_array *bad = mica_take(y, index, 0), *again = mica_sin(x);
    assert_ok(mica_donate(x));
    assert_status(mica_eval_all(mc, y, bad), MICA_E_ARGUMENT);
    mica_clear_error(mc);
    assert_false(mica_array_is_evaluated(y));
    assert_status(mica_eval_all(mc, again), MICA_E_STATE); /* exp was written over it */
    assert_non_null(strstr(mica_error(mc), "was donated"));
    mica_close(mc);
}

static int n_released;

static void count_release(void *user)
{
    (void)user;
    n_released++;
}

static void memory_of_the_caller_is_given_back_and_never_written(void **state)
{
    (void)state;
    static const float data[] = {1, 2, 3, 4};
    mica_ctx *mc = open_one();
    mica_array *x = mica_from_memory(mc, data, MICA_SHAPE(4), MICA_F32, count_release, NULL);
    mica_array *y = mica_negative(x);
    n_released = 0;
    assert_ok(mica_donate(x));
    assert_int_equal(n_released, 0);
    assert_ok(mica_eval_all(mc, y));
    assert_int_equal(n_released, 1);
    assert_float_equal(data[3], 4, 0);
    assert_float_equal(((const float *)mica_data(y))[3], -4, 0);
    mica_close(mc);
}

/* The one operation that updates an input by contract, through the array API. */
static void an_updated_pool_is_a_new_array_and_the_old_one_is_gone(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const mica__kv_attrs attrs = {
        .kv_dtype = MICA__KV_F32, .kv_heads = 1, .head_dim = 2, .value_dim = 2, .block_bytes = 256};
    const int32_t zero = 0;
    mica_array *pool = mica_zeros(mc, MICA_SHAPE(256), MICA_U8);
    assert_ok(mica_eval_all(mc, pool));
    const void *data = mica_data(pool);
    mica_array *k = mica_from_data(mc, (const float[]){1, 2}, MICA_SHAPE(1, 1, 2), MICA_F32);
    mica_array *v = mica_from_data(mc, (const float[]){3, 4}, MICA_SHAPE(1, 1, 2), MICA_F32);
    const mica__kv_step step = {
        .positions = mica_from_data(mc, &zero, MICA_SHAPE(1), MICA_I32),
        .sequence_of = mica_from_data(mc, &zero, MICA_SHAPE(1), MICA_I32),
        .block_table = mica_from_data(mc, &zero, MICA_SHAPE(1, 1), MICA_I32),
    };
    mica_array *updated = mica__kv_write(pool, k, v, &step, &attrs);
    assert_ok(mica_eval_all(mc, updated));
    assert_ptr_equal(mica_data(updated), data);
    assert_float_equal(((const float *)mica_data(updated))[0], 1, 0);
    assert_null(mica_data(pool));
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_output_takes_the_buffer_of_an_elementwise_operand),
        cmocka_unit_test(an_output_takes_a_buffer_that_earlier_steps_were_done_with),
        cmocka_unit_test(a_buffer_that_fits_no_output_goes_back),
        cmocka_unit_test(a_transposed_read_is_never_overwritten),
        cmocka_unit_test(two_donated_arrays_serve_two_outputs),
        cmocka_unit_test(later_use_is_an_error_that_names_it),
        cmocka_unit_test(what_cannot_be_donated_is_refused),
        cmocka_unit_test(a_run_takes_what_it_is_given),
        cmocka_unit_test(a_refused_evaluation_takes_nothing),
        cmocka_unit_test(a_run_that_fails_after_it_began_destroys_what_it_wrote),
        cmocka_unit_test(memory_of_the_caller_is_given_back_and_never_written),
        cmocka_unit_test(an_updated_pool_is_a_new_array_and_the_old_one_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
