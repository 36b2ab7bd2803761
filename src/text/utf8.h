/* utf8.h - reading and writing UTF-8, one character at a time.
 *
 * Strict: overlong forms, surrogates and values over U+10FFFF are invalid. A byte that starts no
 * valid character is a character of its own, MICA__BAD_CHAR of length 1, so that walking any bytes
 * ends and loses none of them.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_UTF8_H
#define MICA_TEXT_UTF8_H

#include <stdbool.h>
#include <stdint.h>

#define MICA__BAD_CHAR 0x110000u /* one past the last code point: a byte that is no character */

/* As mica__utf8_next where text[at] is not ASCII. */
uint32_t mica__utf8_next_long(const char *text, int64_t n, int64_t at, int *length);

/* The character at text[at], at < n; *length is its bytes, 1 to 4. */
static inline uint32_t mica__utf8_next(const char *text, int64_t n, int64_t at, int *length)
{
    const uint8_t first = (uint8_t)text[at];
    if (first < 0x80) {
        *length = 1;
        return first;
    }
    return mica__utf8_next_long(text, n, at, length);
}

/* Writes c (at most 0x10FFFF, no surrogate) to out[0, 4); returns its bytes. */
int mica__utf8_put(uint32_t c, char *out);

/* Whether text[0, n) is valid throughout; else *bad (which may be NULL) is the first byte that is
 * not. */
bool mica__utf8_valid(const char *text, int64_t n, int64_t *bad);

/* How many of the n bytes at `text` (at most 4 are looked at) belong to a character that may still
 * be completed by bytes to come: 1 to 3, or 0 when the first byte begins a whole character or none
 * can follow it. */
int mica__utf8_pending(const char *text, int64_t n);

/* The length of the longest invalid piece at `text` that one replacement character stands for (the
 * practice of the Unicode standard, chapter 3: maximal subpart); n > 0 and text[0] begins no valid
 * character. */
int mica__utf8_bad_length(const char *text, int64_t n);

#endif
