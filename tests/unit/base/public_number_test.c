/* public_number_test.c - numbers as text through the public header.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/number.h>

static void numbers_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    double real = 7;
    int64_t integer = 7, bytes;
    assert_true(mica_number_parse(".5e1x", 4, &real) && real == 5);
    assert_false(mica_number_parse("1,5", 3, &real));
    assert_false(mica_number_parse("", 0, &real));
    assert_true(real == 5);
    assert_true(mica_integer_parse("-42", 3, &integer) && integer == -42);
    assert_false(mica_integer_parse("4.0", 3, &integer));
    assert_ok(mica_size_parse("1.5G", &bytes));
    assert_int_equal(bytes, 1500000000);
    assert_ok(mica_size_parse("2Ki", &bytes));
    assert_int_equal(bytes, 2048);
    assert_status(mica_size_parse("1X", &bytes), MICA_E_ARGUMENT);
}

static void numbers_are_written_in_their_shortest_form(void **state)
{
    (void)state;
    char text[MICA_NUMBER_TEXT_BYTES];
    assert_int_equal(mica_number_format(text, 0.1), 3);
    assert_string_equal(text, "0.1");
    mica_float_format(text, 0.1f);
    assert_string_equal(text, "0.1");
    mica_size_format(text, 1536);
    assert_string_equal(text, "1.5 KiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_whole_or_not_at_all),
        cmocka_unit_test(numbers_are_written_in_their_shortest_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
