/* fail_test.c - the failure record: messages, prefixes, truncation.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/fail.h"

static void a_prefix_stands_before_the_message(void **state)
{
    (void)state;
    assert_int_equal(mica__fail(MICA_E_IO, "no %s", "file"), MICA_E_IO);
    assert_string_equal(mica_last_error(), "no file");
    assert_int_equal(mica__fail_at(MICA_E_FORMAT, "model %d", 7), MICA_E_FORMAT);
    assert_string_equal(mica_last_error(), "model 7: no file");
    mica__fail_clear();
    assert_string_equal(mica_last_error(), "");
}

static void a_prefix_that_is_there_already_is_not_put_twice(void **state)
{
    (void)state;
    mica__fail(MICA_E_FORMAT, "a/b.gguf: no magic");
    mica__fail_at(MICA_E_FORMAT, "a/b.gguf");
    assert_string_equal(mica_last_error(), "a/b.gguf: no magic");
    mica__fail_at(MICA_E_FORMAT, "a");
    assert_string_equal(mica_last_error(), "a/b.gguf: no magic");
    mica__fail_at(MICA_E_FORMAT, "a/b");
    assert_string_equal(mica_last_error(), "a/b: a/b.gguf: no magic");
}

static void long_messages_are_cut_and_stay_terminated(void **state)
{
    (void)state;
    char text[3000];
    for (size_t n = 1000; n < 1050; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        mica__fail(MICA_E_IO, "%s", text);
        assert_int_equal(strlen(mica_last_error()), n < 1024 ? n : 1023);
        mica__fail(MICA_E_IO, "%s", "message");
        mica__fail_at(MICA_E_IO, "%s", text);
        assert_true(strlen(mica_last_error()) <= 1023);
        mica__fail(MICA_E_IO, "%s", text);
        mica__fail_at(MICA_E_IO, "here");
        assert_int_equal(strlen(mica_last_error()), n + 6 < 1024 ? n + 6 : 1023);
        assert_memory_equal(mica_last_error(), "here: xxx", 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_stands_before_the_message),
        cmocka_unit_test(a_prefix_that_is_there_already_is_not_put_twice),
        cmocka_unit_test(long_messages_are_cut_and_stay_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
