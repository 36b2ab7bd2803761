/* byte_buffer.c - a growing string of bytes.
 * SPDX-License-Identifier: MIT
 */
#include "cli/byte_buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool buffer_reserve(byte_buffer *buffer, size_t n)
{
    if (buffer->failed || n > SIZE_MAX / 4 - buffer->length) {
        buffer->failed = true;
        return false;
    }
    const size_t need = buffer->length + n + 1;
    if (need <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity < need)
        capacity *= 2;
    char *grown = realloc(buffer->bytes, capacity);
    if (!grown) {
        buffer->failed = true;
        return false;
    }
    buffer->bytes = grown;
    buffer->capacity = capacity;
    return true;
}

void buffer_add(byte_buffer *buffer, const char *bytes, size_t n)
{
    if (!buffer_reserve(buffer, n))
        return;
    if (n)
        memcpy(buffer->bytes + buffer->length, bytes, n);
    buffer->length += n;
    buffer->bytes[buffer->length] = '\0';
}

void buffer_add_text(byte_buffer *buffer, const char *text)
{
    buffer_add(buffer, text, strlen(text));
}

void buffer_format(byte_buffer *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0)
        buffer->failed = true;
    else if (buffer_reserve(buffer, (size_t)n)) {
        vsnprintf(buffer->bytes + buffer->length, (size_t)n + 1, format, again);
        buffer->length += (size_t)n;
    }
    va_end(again);
}

void buffer_clear(byte_buffer *buffer)
{
    buffer->length = 0;
    if (buffer->bytes)
        buffer->bytes[0] = '\0';
}

void buffer_free(byte_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (byte_buffer){0};
}
