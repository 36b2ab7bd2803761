/* public_number.c - the number functions of include/mica/number.h, over number.h.
 * SPDX-License-Identifier: MIT
 */
#include <mica/number.h>

#include "base/number.h"

_Static_assert(MICA_NUMBER_TEXT_BYTES == MICA__F64_TEXT_BYTES, "one size of a number's text");

bool mica_number_parse(const char *text, size_t n, double *value)
{
    return mica__parse_f64(text, n, value);
}

bool mica_integer_parse(const char *text, size_t n, int64_t *value)
{
    return mica__parse_i64(text, n, value);
}

mica_status mica_size_parse(const char *text, int64_t *bytes)
{
    return mica__parse_size(text, bytes);
}

int mica_number_format(char out[MICA_NUMBER_TEXT_BYTES], double value)
{
    return mica__format_f64(out, value);
}

int mica_float_format(char out[MICA_NUMBER_TEXT_BYTES], float value)
{
    return mica__format_f32(out, value);
}

int mica_size_format(char out[MICA_NUMBER_TEXT_BYTES], int64_t bytes)
{
    return mica__format_size(out, bytes);
}
