/* byte_spelling.c - how byte-level vocabularies spell bytes as printable characters.
 * SPDX-License-Identifier: MIT
 */
#include "text/byte_spelling.h"

#include "text/utf8.h"

static bool is_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

/* The other bytes: 0x00 to 0x20 are U+0100 to U+0120, 0x7f to 0xa0 follow, 0xad is the last. */
static uint32_t spelling(unsigned byte)
{
    if (is_itself(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100 + byte;
    return byte == 0xad ? 0x143 : 0x121 + (byte - 0x7f);
}

int mica__spelled_byte(uint32_t c)
{
    if (c < 0x100)
        return is_itself(c) ? (int)c : -1;
    if (c <= 0x120)
        return (int)(c - 0x100);
    if (c <= 0x142)
        return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

int64_t mica__spell_bytes(const char *bytes, int64_t n, char *out)
{
    int64_t length = 0;
    for (int64_t i = 0; i < n; i++)
        length += mica__utf8_put(spelling((uint8_t)bytes[i]), out + length);
    return length;
}

bool mica__unspell_bytes(const char *text, int64_t n, char *out, int64_t *length)
{
    *length = 0;
    int bytes;
    for (int64_t at = 0; at < n; at += bytes) {
        const int byte = mica__spelled_byte(mica__utf8_next(text, n, at, &bytes));
        if (byte < 0)
            return false;
        out[(*length)++] = (char)byte;
    }
    return true;
}
