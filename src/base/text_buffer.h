/* text_buffer.h - a growing byte string with a bound.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_TEXT_BUFFER_H
#define MICA_BASE_TEXT_BUFFER_H

#include "base/alloc.h"

/* Zero-initialise all but `kind`. `bytes` is NUL-terminated once anything was added; `max` 0 means
 * no bound. Once an addition fails, `status` holds the failure and further additions do nothing:
 * check once at the end. */
typedef struct mica__text {
    char *bytes;
    int64_t length;
    int64_t capacity;
    int64_t max;
    mica_memory_kind kind;
    mica_status status;
} mica__text;

/* Appends n bytes; MICA_E_BUDGET over `max`, MICA_E_MEMORY when refused. */
mica_status mica__text_add(mica__text *text, const char *bytes, size_t n);
mica_status mica__text_add_string(mica__text *text, const char *string);
mica_status mica__text_add_char(mica__text *text, char c);
mica_status mica__text_format(mica__text *text, const char *format, ...) MICA_PRINTF(2, 3);

/* Empties it and keeps the memory. */
void mica__text_clear(mica__text *text);

/* Hands the bytes to the caller, who frees them with mica__free; "" (allocated) when nothing was
 * added, NULL when an addition had failed (everything is freed). The buffer is left empty. */
char *mica__text_take(mica__text *text);

void mica__text_free(mica__text *text);

#endif
