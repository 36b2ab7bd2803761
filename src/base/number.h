/* number.h - numbers as text, the same in every locale.
 *
 * strtod and printf("%g") follow the host program's locale (and its decimal comma); nothing here
 * does.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_NUMBER_H
#define MICA_BASE_NUMBER_H

#include "base/fail.h"

/* Reads all of text[0, n) as a decimal number: [+-] digits [. digits] [e [+-] digits], digits on at
 * least one side of the point. The value is the nearest double, for any number of digits. False for
 * anything else (spaces, hexadecimal, inf and nan) and for values beyond the largest double; values
 * too small become subnormal or zero. *value is set on success only. */
bool mica__parse_f64(const char *text, size_t n, double *value);

/* Reads all of text[0, n) as [+-] digits; false for anything else and outside int64. */
bool mica__parse_i64(const char *text, size_t n, int64_t *value);

/* Writes the shortest decimal that mica__parse_f64 reads back as the same double ("0.1", "-3",
 * "1e+23", "5e-324"; "-0" for negative zero), among several the nearest. "nan", "inf" and "-inf"
 * are written so. Returns the length. */
#define MICA__F64_TEXT_BYTES 32
int mica__format_f64(char out[MICA__F64_TEXT_BYTES], double value);

/* The same for a float: the shortest decimal that reads back as the same float. */
int mica__format_f32(char out[MICA__F64_TEXT_BYTES], float value);

/* Reads an amount of memory: a decimal number and a unit. "4G" and "4GB" are 4 * 10^9 bytes,
 * "4Gi" and "4GiB" are 4 * 2^30; likewise k, M, T, P, upper or lower case; "B" or nothing: bytes.
 * Fractions ("1.5G") are cut to whole bytes and need a unit above B. MICA_E_ARGUMENT, quoting the
 * text, for anything else, for negative amounts and outside int64. */
mica_status mica__parse_size(const char *text, int64_t *bytes);

/* Writes an amount for people: "0 B", "1023 B", "4.0 GiB" (one digit after the point, rounded to
 * nearest). */
int mica__format_size(char out[MICA__F64_TEXT_BYTES], int64_t bytes);

#endif
