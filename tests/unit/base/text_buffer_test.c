/* text_buffer_test.c - growing texts, bounds, sticky failures.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/text_buffer.h"

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.by_kind[MICA_MEMORY_TEXT];
}

static void additions_are_joined_and_terminated(void **state)
{
    (void)state;
    mica__text text = {.kind = MICA_MEMORY_TEXT};
    assert_ok(mica__text_add(&text, NULL, 0));
    assert_string_equal(text.bytes, "");
    assert_ok(mica__text_add(&text, "a\0b", 3));
    assert_ok(mica__text_add_char(&text, '-'));
    assert_ok(mica__text_add_string(&text, "tail"));
    assert_ok(mica__text_format(&text, " %d %s", 42, "x"));
    assert_int_equal(text.length, 13);
    assert_memory_equal(text.bytes, "a\0b-tail 42 x", 14);
    mica__text_clear(&text);
    assert_int_equal(text.length, 0);
    for (int i = 0; i < 5000; i++)
        assert_ok(mica__text_format(&text, "%d,", i % 10));
    assert_int_equal(text.length, 10000);
    assert_int_equal(text.bytes[9998], '9');
    mica__text_free(&text);
    assert_null(text.bytes);
}

static void a_bound_is_kept_to_the_byte_and_sticks(void **state)
{
    (void)state;
    mica__text text = {.kind = MICA_MEMORY_TEXT, .max = 10};
    assert_ok(mica__text_add(&text, "0123456789", 10));
    assert_status(mica__text_add_char(&text, 'x'), MICA_E_BUDGET);
    assert_status(mica__text_add(&text, "", 0), MICA_E_BUDGET);
    assert_int_equal(text.length, 10);
    mica__text_clear(&text);
    assert_ok(mica__text_format(&text, "%010d", 3));
    assert_status(mica__text_format(&text, "%d", 1), MICA_E_BUDGET);
    assert_string_equal(text.bytes, "0000000003");
    assert_null(mica__text_take(&text)); /* a failed text is not handed out */
    assert_status(mica__text_add(&text, "x", SIZE_MAX), MICA_E_BUDGET);
    mica__text_free(&text);
}

static void taken_texts_belong_to_the_caller(void **state)
{
    (void)state;
    const int64_t before = held();
    mica__text text = {.kind = MICA_MEMORY_TEXT};
    char *empty = mica__text_take(&text);
    assert_string_equal(empty, "");
    mica__text_add_string(&text, "abc");
    char *full = mica__text_take(&text);
    assert_string_equal(full, "abc");
    assert_int_equal(text.length, 0);
    mica__text_free(&text);
    mica__free(empty);
    mica__free(full);
    assert_int_equal(held(), before);
}

static void a_refused_growth_sticks_and_leaks_nothing(void **state)
{
    (void)state;
    const int64_t before = held();
    for (int64_t n = 1;; n++) {
        assert_true(n < 30);
        mica__text text = {.kind = MICA_MEMORY_TEXT};
        mica__fault_after(n, false);
        for (int i = 0; i < 1000; i++)
            mica__text_format(&text, "%d", i % 10);
        mica__fault_after(0, false);
        const mica_status status = text.status;
        assert_int_equal(status == MICA_OK, text.length == 1000);
        mica__text_free(&text);
        assert_int_equal(held(), before);
        if (status == MICA_OK)
            break;
        assert_int_equal(status, MICA_E_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(additions_are_joined_and_terminated),
        cmocka_unit_test(a_bound_is_kept_to_the_byte_and_sticks),
        cmocka_unit_test(taken_texts_belong_to_the_caller),
        cmocka_unit_test(a_refused_growth_sticks_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
