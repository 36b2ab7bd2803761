/* letter_case_test.c - case and classes of characters with known answers in the Unicode standard.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "text/letter_case.h"

static void characters_map_to_one_or_several(void **state)
{
    (void)state;
    static const struct {
        uint32_t point;
        letter_form form;
        int n;
        uint32_t mapped[3];
    } cases[] = {
        {'a', LETTER_TO_UPPER, 1, {'A'}},
        {'Z', LETTER_TO_LOWER, 1, {'z'}},
        {'1', LETTER_TO_UPPER, 1, {'1'}},
        {0xe9, LETTER_TO_UPPER, 1, {0xc9}},
        {0xdf, LETTER_TO_UPPER, 2, {'S', 'S'}},    /* sharp s */
        {0xdf, LETTER_TO_TITLE, 2, {'S', 's'}},    /* SpecialCasing.txt */
        {0x130, LETTER_TO_LOWER, 2, {'i', 0x307}}, /* I with dot above */
        {0x1c6, LETTER_TO_TITLE, 1, {0x1c5}},      /* dz with caron */
        {0x1c6, LETTER_TO_UPPER, 1, {0x1c4}},
        {0xfb03, LETTER_TO_UPPER, 3, {'F', 'F', 'I'}}, /* ffi ligature */
        {0x3a3, LETTER_TO_LOWER, 1, {0x3c3}},
        {0x10400, LETTER_TO_LOWER, 1, {0x10428}}, /* Deseret */
        {0x10ffff, LETTER_TO_LOWER, 1, {0x10ffff}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t mapped[3];
        assert_int_equal(mica__letter_map(cases[i].point, cases[i].form, mapped), cases[i].n);
        assert_memory_equal(mapped, cases[i].mapped, (size_t)cases[i].n * sizeof *mapped);
    }
}

static void classes_are_those_of_the_standard(void **state)
{
    (void)state;
    assert_true(mica__letter_class('a').lower && mica__letter_class('a').alpha);
    assert_true(mica__letter_class('A').upper && mica__letter_class('A').cased);
    assert_true(mica__letter_class(0x1c5).title);
    assert_true(mica__letter_class('7').decimal && mica__letter_class('7').numeric);
    assert_true(mica__letter_class(0xb2).digit && !mica__letter_class(0xb2).decimal);
    assert_true(mica__letter_class(0xbd).numeric && !mica__letter_class(0xbd).digit);
    assert_true(mica__letter_class('\'').ignorable && !mica__letter_class('\'').alpha);
    assert_true(mica__letter_class(' ').printable && !mica__letter_class(0xa0).printable);
    assert_false(mica__letter_class('\n').printable || mica__letter_class(0x200d).printable);
    assert_true(mica__letter_class(0x65e5).alpha && !mica__letter_class(0x65e5).cased);
    assert_false(mica__letter_class(0x10ffff).printable || mica__letter_class(0).alpha);
}

static void white_space_is_what_python_strips(void **state)
{
    (void)state;
    static const uint32_t spaces[] = {9,      10,     11,     12,     13,     28,     29,
                                      30,     31,     32,     0x85,   0xa0,   0x1680, 0x2000,
                                      0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
    static const uint32_t others[] = {0, 8, 14, 27, 33, 0x7f, 0x180e, 0x200b, 0x2060, 0xfeff};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        assert_true(mica__letter_space(spaces[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(mica__letter_space(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_map_to_one_or_several),
        cmocka_unit_test(classes_are_those_of_the_standard),
        cmocka_unit_test(white_space_is_what_python_strips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
