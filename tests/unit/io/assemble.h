/* assemble.h - hand-made files for the reader tests, written as a line of tokens.
 *
 *   'text'    the bytes between the quotes          "text"   u64 length, then the bytes
 *   j'text'   the same as "text", for JSON          b1 h1 w1 q1   u8 u16 u32 u64 (decimal, 0x, -)
 *   z16       16 zero bytes                         p32      zeros up to a multiple of 32
 * Tokens are separated by spaces.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_UNIT_IO_ASSEMBLE_H
#define MICA_TESTS_UNIT_IO_ASSEMBLE_H

#include <stdlib.h>

#include "support/check.h"

#define ASSEMBLED_MAX 65536

typedef struct assembled {
    uint8_t bytes[ASSEMBLED_MAX];
    size_t n;
} assembled;

static inline void put_bytes(assembled *out, const void *bytes, size_t n)
{
    assert_true(n <= ASSEMBLED_MAX - out->n);
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
}

static inline void put_integer(assembled *out, uint64_t value, size_t n)
{
    put_bytes(out, &value, n);
}

static inline const char *put_quoted(assembled *out, const char *at, bool with_length)
{
    const char quote = *at++;
    const char *end = strchr(at, quote);
    assert_non_null(end);
    if (with_length)
        put_integer(out, (uint64_t)(end - at), 8);
    put_bytes(out, at, (size_t)(end - at));
    return end + 1;
}

static inline const char *put_number(assembled *out, const char *at)
{
    const char kind = *at++;
    char *end;
    const uint64_t value =
        *at == '-' ? (uint64_t)strtoll(at, &end, 0) : (uint64_t)strtoull(at, &end, 0);
    static const uint8_t zero;
    if (kind == 'b')
        put_integer(out, value, 1);
    else if (kind == 'h')
        put_integer(out, value, 2);
    else if (kind == 'w')
        put_integer(out, value, 4);
    else if (kind == 'q')
        put_integer(out, value, 8);
    else if (kind == 'z')
        for (uint64_t i = 0; i < value; i++)
            put_bytes(out, &zero, 1);
    else if (kind == 'p')
        while (out->n % value)
            put_bytes(out, &zero, 1);
    else
        fail_msg("unknown token at \"%c%s\"", kind, at);
    return end;
}

static inline void assemble(const char *source, assembled *out)
{
    out->n = 0;
    for (const char *at = source; *at;) {
        if (*at == ' ')
            at++;
        else if (*at == '\'')
            at = put_quoted(out, at, false);
        else if (*at == '"')
            at = put_quoted(out, at, true);
        else if (*at == 'j')
            at = put_quoted(out, at + 1, true);
        else
            at = put_number(out, at);
    }
}

/* The bytes in memory of exactly their size, so that the sanitizers see reads past the end. */
static inline uint8_t *exact_copy(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    return copy;
}

static inline size_t read_file(const char *path, uint8_t *bytes, size_t most)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = fread(bytes, 1, most, file);
    assert_int_equal(fclose(file), 0);
    return n;
}

#endif
