/* utf8.c - reading and writing UTF-8, one character at a time.
 * SPDX-License-Identifier: MIT
 */
#include "text/utf8.h"

/* What the second byte may be after each lead byte (Unicode standard, table 3-7). */
static bool second_fits(uint8_t first, uint8_t second)
{
    switch (first) {
    case 0xe0:
        return second >= 0xa0 && second <= 0xbf;
    case 0xed:
        return second >= 0x80 && second <= 0x9f;
    case 0xf0:
        return second >= 0x90 && second <= 0xbf;
    case 0xf4:
        return second >= 0x80 && second <= 0x8f;
    default:
        return (second & 0xc0) == 0x80;
    }
}

/* Bytes of a character with this lead byte; 0 when none starts so. */
static int length_of(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2)
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0)
        return 3;
    return first < 0xf5 ? 4 : 0;
}

/* How many of the bytes a character with this lead byte needs are there and fit. */
static int fitting(const uint8_t *at, int64_t n, int length)
{
    int have = 1;
    while (have < length && have < n &&
           (have == 1 ? second_fits(at[0], at[1]) : (at[have] & 0xc0) == 0x80))
        have++;
    return have;
}

uint32_t mica__utf8_next_long(const char *text, int64_t n, int64_t at, int *length)
{
    const uint8_t *s = (const uint8_t *)text + at;
    const int bytes = length_of(s[0]);
    if (bytes < 2 || fitting(s, n - at, bytes) < bytes) {
        *length = 1;
        return bytes == 1 ? s[0] : MICA__BAD_CHAR;
    }
    *length = bytes;
    if (bytes == 2)
        return (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
    if (bytes == 3)
        return (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    return (s[0] & 0x07u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
}

int mica__utf8_put(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

bool mica__utf8_valid(const char *text, int64_t n, int64_t *bad)
{
    int length;
    for (int64_t at = 0; at < n; at += length)
        if (mica__utf8_next(text, n, at, &length) == MICA__BAD_CHAR) {
            if (bad)
                *bad = at;
            return false;
        }
    return true;
}

int mica__utf8_pending(const char *text, int64_t n)
{
    const uint8_t *s = (const uint8_t *)text;
    const int bytes = n > 0 ? length_of(s[0]) : 0;
    if (bytes < 2 || n >= bytes)
        return 0;
    return fitting(s, n, bytes) == n ? (int)n : 0;
}

int mica__utf8_bad_length(const char *text, int64_t n)
{
    const uint8_t *s = (const uint8_t *)text;
    const int bytes = length_of(s[0]);
    return bytes < 2 ? 1 : fitting(s, n, bytes);
}
