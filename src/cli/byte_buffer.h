/* byte_buffer.h - a growing string of bytes.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_BYTE_BUFFER_H
#define MICA_CLI_BYTE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include <mica/status.h>

/* Zero-initialise. `bytes` ends in NUL once something was added (NULL before). After a refused
 * allocation `failed` is set and additions do nothing: ask once at the end. */
typedef struct byte_buffer {
    char *bytes;
    size_t length, capacity;
    bool failed;
} byte_buffer;

/* Room for n more bytes and a NUL; false when refused. */
bool buffer_reserve(byte_buffer *buffer, size_t n);

void buffer_add(byte_buffer *buffer, const char *bytes, size_t n);
void buffer_add_text(byte_buffer *buffer, const char *text);
void buffer_format(byte_buffer *buffer, const char *format, ...) MICA_PRINTF(2, 3);

/* Empties it and keeps its memory. */
void buffer_clear(byte_buffer *buffer);

void buffer_free(byte_buffer *buffer);

/* Its bytes, "" where nothing was added. */
static inline const char *buffer_text(const byte_buffer *buffer)
{
    return buffer->bytes ? buffer->bytes : "";
}

#endif
