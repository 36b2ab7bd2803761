/* letter_case.c - look-ups in the table of letter case.
 * SPDX-License-Identifier: MIT
 */
#include "text/letter_case.h"

#include "text/letter_table.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

letter_class mica__letter_class(uint32_t point)
{
    size_t low = 0, high = COUNT(letter_classes);
    while (high - low > 1) { /* letter_classes[low].from <= point */
        const size_t middle = low + (high - low) / 2;
        if (letter_classes[middle].from <= point)
            low = middle;
        else
            high = middle;
    }
    const unsigned flags = letter_classes[low].flags;
    return (letter_class){.printable = flags & LETTER_PRINTABLE,
                          .alpha = flags & LETTER_ALPHA,
                          .decimal = flags & LETTER_DECIMAL,
                          .digit = flags & LETTER_DIGIT,
                          .numeric = flags & LETTER_NUMERIC,
                          .lower = flags & LETTER_LOWER,
                          .upper = flags & LETTER_UPPER,
                          .title = flags & LETTER_TITLE,
                          .cased = flags & LETTER_CASED,
                          .ignorable = flags & LETTER_IGNORABLE};
}

static int map_special(uint32_t point, letter_form form, uint32_t out[3])
{
    for (size_t i = 0; i < COUNT(letter_specials); i++) {
        if (letter_specials[i].point != point)
            continue;
        const uint32_t *to = form == LETTER_TO_UPPER   ? letter_specials[i].upper
                             : form == LETTER_TO_LOWER ? letter_specials[i].lower
                                                       : letter_specials[i].title;
        int n = 0;
        for (; n < 3 && to[n]; n++)
            out[n] = to[n];
        return n;
    }
    return 0;
}

int mica__letter_map(uint32_t point, letter_form form, uint32_t out[3])
{
    out[0] = point;
    if (point < 0x80) {
        if (form == LETTER_TO_LOWER && point >= 'A' && point <= 'Z')
            out[0] = point + 32;
        else if (form != LETTER_TO_LOWER && point >= 'a' && point <= 'z')
            out[0] = point - 32;
        return 1;
    }
    for (size_t low = 0, high = COUNT(letter_cases); low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (letter_cases[middle].point == point) {
            out[0] = point + (uint32_t)(form == LETTER_TO_UPPER   ? letter_cases[middle].upper
                                        : form == LETTER_TO_LOWER ? letter_cases[middle].lower
                                                                  : letter_cases[middle].title);
            return 1;
        }
        if (letter_cases[middle].point < point)
            low = middle + 1;
        else
            high = middle;
    }
    const int n = map_special(point, form, out);
    return n ? n : 1;
}

bool mica__letter_space(uint32_t point)
{
    if (point < 0x80)
        return (point >= 9 && point <= 13) || (point >= 28 && point <= 32);
    return point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
           point == 0x202f || point == 0x205f || point == 0x3000;
}
