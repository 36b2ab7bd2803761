/* number.h - numbers as text, the same in every locale.
 *
 * strtod and printf follow the program's locale and its decimal comma; these do not.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_NUMBER_H
#define MICA_NUMBER_H

#include <mica/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads all of text[0, n) as a decimal number: [+-] digits [. digits] [e [+-] digits], rounded to
 * the nearest double. False, with *value untouched, for anything else (spaces, inf, nan) and beyond
 * the largest double. */
MICA_API bool mica_number_parse(const char *text, size_t n, double *value);

/* Reads all of text[0, n) as [+-] digits; false for anything else and outside int64. */
MICA_API bool mica_integer_parse(const char *text, size_t n, int64_t *value);

/* Reads an amount of memory in bytes: "512M" and "4GB" count in powers of 1000, "512Mi" and "4GiB"
 * in powers of 1024; fractions ("1.5G") need a unit. MICA_E_ARGUMENT, quoting the text, for
 * anything else. */
MICA_API mica_status mica_size_parse(const char *text, int64_t *bytes);

/* Room that the two functions below need. */
#define MICA_NUMBER_TEXT_BYTES 32

/* Writes the shortest decimal that reads back as the same double ("0.1", "1e+23"); "nan", "inf" and
 * "-inf" are written so. NUL-terminated; returns its length. */
MICA_API int mica_number_format(char out[MICA_NUMBER_TEXT_BYTES], double value);

/* The same for a float: the shortest decimal that reads back as the same float. */
MICA_API int mica_float_format(char out[MICA_NUMBER_TEXT_BYTES], float value);

/* Writes an amount of memory for people: "1023 B", "4.0 GiB". NUL-terminated; returns its length.
 */
MICA_API int mica_size_format(char out[MICA_NUMBER_TEXT_BYTES], int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
