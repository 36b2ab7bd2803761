/* unpack_xz.c - the packed files of the outside test data.
 * SPDX-License-Identifier: MIT
 */
#include "support/unpack_xz.h"

#include <lzma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_whole(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *bytes = NULL;
    size_t capacity = 0;
    *n = 0;
    for (;;) {
        if (capacity - *n < 2)
            bytes = realloc(bytes, capacity = capacity ? 2 * capacity : 1 << 16);
        const size_t got = fread(bytes + *n, 1, capacity - *n - 1, file);
        *n += got;
        if (got == 0)
            break;
    }
    bytes[*n] = '\0';
    fclose(file);
    return bytes;
}

static char *unpack(const char *packed, size_t packed_n, size_t *n)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream, UINT64_MAX, LZMA_CONCATENATED) != LZMA_OK)
        return NULL;
    size_t capacity = 8 * packed_n + 1024;
    char *bytes = malloc(capacity + 1);
    stream.next_in = (const uint8_t *)packed;
    stream.avail_in = packed_n;
    lzma_ret ret = LZMA_OK;
    while (ret == LZMA_OK) {
        if (stream.total_out == capacity)
            bytes = realloc(bytes, (capacity *= 2) + 1);
        stream.next_out = (uint8_t *)bytes + stream.total_out;
        stream.avail_out = capacity - stream.total_out;
        ret = lzma_code(&stream, LZMA_FINISH);
    }
    *n = stream.total_out;
    lzma_end(&stream);
    if (ret != LZMA_STREAM_END) {
        free(bytes);
        return NULL;
    }
    bytes[*n] = '\0';
    return bytes;
}

char *read_or_unpack(const char *path, size_t *n)
{
    char *bytes = read_whole(path, n);
    const size_t length = strlen(path);
    if (!bytes || length < 3 || strcmp(path + length - 3, ".xz") != 0)
        return bytes;
    size_t unpacked_n = 0;
    char *unpacked = unpack(bytes, *n, &unpacked_n);
    free(bytes);
    *n = unpacked_n;
    return unpacked;
}
