/* letter_case.h - letter case and classes of code points, as Python's string methods see them.
 *
 * The data is letter_table.h, written by tools/gen_letters and pinned: what a template
 * prints does not change with the system.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_LETTER_CASE_H
#define MICA_TEXT_LETTER_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct letter_class {
    bool printable, alpha, decimal, digit, numeric, lower, upper, title;
    bool cased, ignorable; /* for the final form of sigma */
} letter_class;

letter_class mica__letter_class(uint32_t point);

typedef enum letter_form { LETTER_TO_UPPER, LETTER_TO_LOWER, LETTER_TO_TITLE } letter_form;

/* The code points (1 to 3) that `point` becomes. */
int mica__letter_map(uint32_t point, letter_form form, uint32_t out[3]);

/* White space as str.strip and str.split see it. */
bool mica__letter_space(uint32_t point);

/* Decodes one code point of well-formed UTF-8 and returns its bytes. */
static inline size_t mica__letter_next(const char *p, uint32_t *point)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80) {
        *point = u[0];
        return 1;
    }
    if (u[0] < 0xe0) {
        *point = (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3f);
        return 2;
    }
    if (u[0] < 0xf0) {
        *point = (uint32_t)(u[0] & 0x0f) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
        return 3;
    }
    *point = (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 |
             (uint32_t)(u[2] & 0x3f) << 6 | (u[3] & 0x3f);
    return 4;
}

/* The start of the code point that ends before p. */
static inline size_t mica__letter_back(const char *p)
{
    size_t n = 1;
    while (((unsigned char)p[-(ptrdiff_t)n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Encodes one code point into at most 4 bytes. */
static inline size_t mica__letter_put(char to[4], uint32_t point)
{
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (char)(0xc0 | point >> 6);
        to[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (char)(0xe0 | point >> 12);
        to[1] = (char)(0x80 | (point >> 6 & 0x3f));
        to[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | point >> 18);
    to[1] = (char)(0x80 | (point >> 12 & 0x3f));
    to[2] = (char)(0x80 | (point >> 6 & 0x3f));
    to[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

#endif
