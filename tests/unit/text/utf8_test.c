/* utf8_test.c - reading and writing UTF-8, and the spelling of bytes.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdbool.h>
#include <stdlib.h>

#include "text/byte_spelling.h"
#include "text/utf8.h"

static void every_code_point_is_written_and_read_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        char bytes[4];
        int length;
        if (c >= 0xd800 && c < 0xe000)
            continue;
        const int n = mica__utf8_put(c, bytes);
        assert_int_equal(mica__utf8_next(bytes, n, 0, &length), c);
        assert_int_equal(length, n);
        for (int cut = 1; cut < n; cut++) {
            assert_int_equal(mica__utf8_pending(bytes, cut), cut);
            assert_int_equal(mica__utf8_bad_length(bytes, cut), cut);
            assert_int_equal(mica__utf8_next(bytes, cut, 0, &length), MICA__BAD_CHAR);
            assert_int_equal(length, 1);
        }
        assert_int_equal(mica__utf8_pending(bytes, n), 0);
    }
}

/* Unicode standard, chapter 3, table 3-7 and the examples of best practice (tables 3-8 to 3-11). */
static void invalid_sequences_are_single_bytes(void **state)
{
    (void)state;
    const struct {
        const char *bytes;
        int n;
        int bad_length; /* of the maximal subpart at the start */
    } cases[] = {
        {"\x80", 1, 1},         {"\xc0\xaf", 2, 1},         {"\xc1\xbf", 2, 1},
        {"\xe0\x80\xaf", 3, 1}, {"\xe0\x9f\xbf", 3, 1},     {"\xed\xa0\x80", 3, 1},
        {"\xed\xbf\xbf", 3, 1}, {"\xf0\x80\x80\x41", 4, 1}, {"\xf0\x8f\xbf\xbf", 4, 1},
        {"\xf4\x90\x80", 3, 1}, {"\xf4\x91\x92\x93", 4, 1}, {"\xf5\x80\x80\x80", 4, 1},
        {"\xff", 1, 1},         {"\xe1\x80\xe2", 3, 2},     {"\xf0\x91\x92", 3, 3},
        {"\xf1\xbf\x41", 3, 2}, {"\xe2\x41", 2, 1},
    };
    int64_t bad;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int length;
        assert_int_equal(mica__utf8_next(cases[i].bytes, cases[i].n, 0, &length), MICA__BAD_CHAR);
        assert_int_equal(length, 1);
        assert_int_equal(mica__utf8_bad_length(cases[i].bytes, cases[i].n), cases[i].bad_length);
        assert_false(mica__utf8_valid(cases[i].bytes, cases[i].n, &bad));
    }
    assert_true(mica__utf8_valid("", 0, &bad));
    assert_true(mica__utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10, &bad));
    assert_int_equal(mica__utf8_pending("\xed\xa0", 2), 0);
    assert_int_equal(mica__utf8_pending("a", 1), 0);
    assert_int_equal(mica__utf8_pending("", 0), 0);
}

/* GPT-2's table: printable Latin-1 is itself, the rest counts up from U+0100. */
static void bytes_are_spelled_as_gpt2_does(void **state)
{
    (void)state;
    uint32_t other = 0x100;
    for (int byte = 0; byte < 256; byte++) {
        const bool printable =
            (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        const uint32_t expected = printable ? (uint32_t)byte : other++;
        const char raw = (char)byte;
        char spelled[2], back[2];
        int length;
        int64_t n;
        const int64_t spelled_n = mica__spell_bytes(&raw, 1, spelled);
        assert_int_equal(mica__utf8_next(spelled, spelled_n, 0, &length), expected);
        assert_int_equal(mica__spelled_byte(expected), byte);
        assert_true(mica__unspell_bytes(spelled, spelled_n, back, &n));
        assert_int_equal(n, 1);
        assert_int_equal((uint8_t)back[0], byte);
    }
    assert_int_equal(other, 0x144);
    char out[8];
    int64_t n;
    assert_false(mica__unspell_bytes(" ", 1, out, &n));
    assert_false(mica__unspell_bytes("\xc5\x84", 2, out, &n)); /* U+0144 */
    assert_false(mica__unspell_bytes("\xff", 1, out, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_written_and_read_back),
        cmocka_unit_test(invalid_sequences_are_single_bytes),
        cmocka_unit_test(bytes_are_spelled_as_gpt2_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
