/* text_buffer.c - a growing byte string with a bound.
 * SPDX-License-Identifier: MIT
 */
#include "base/text_buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

mica_status mica__text_add(mica__text *text, const char *bytes, size_t n)
{
    if (text->status != MICA_OK)
        return text->status;
    if (n > (size_t)INT64_MAX / 2 || (text->max > 0 && text->length + (int64_t)n > text->max))
        return text->status = mica__fail(MICA_E_BUDGET, "a text would pass its bound of %lld bytes",
                                         (long long)text->max);
    text->status = mica__grow(text->kind, (void **)&text->bytes, 1, text->length + (int64_t)n + 1,
                              &text->capacity);
    if (text->status != MICA_OK)
        return text->status;
    if (n)
        memcpy(text->bytes + text->length, bytes, n);
    text->length += (int64_t)n;
    text->bytes[text->length] = '\0';
    return MICA_OK;
}

mica_status mica__text_add_string(mica__text *text, const char *string)
{
    return mica__text_add(text, string, strlen(string));
}

mica_status mica__text_add_char(mica__text *text, char c)
{
    return mica__text_add(text, &c, 1);
}

mica_status mica__text_format(mica__text *text, const char *format, ...)
{
    if (text->status != MICA_OK)
        return text->status;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0)
        text->status =
            mica__grow(text->kind, (void **)&text->bytes, 1, text->length + n + 1, &text->capacity);
    else
        text->status = mica__fail(MICA_E_INTERNAL, "bad format \"%s\"", format);
    if (text->status == MICA_OK && text->max > 0 && text->length + n > text->max)
        text->status = mica__fail(MICA_E_BUDGET, "a text would pass its bound of %lld bytes",
                                  (long long)text->max);
    if (text->status == MICA_OK) {
        vsnprintf(text->bytes + text->length, (size_t)n + 1, format, again);
        text->length += n;
    }
    va_end(again);
    return text->status;
}

void mica__text_clear(mica__text *text)
{
    text->length = 0;
    text->status = MICA_OK;
    if (text->bytes)
        text->bytes[0] = '\0';
}

char *mica__text_take(mica__text *text)
{
    if (text->status == MICA_OK && !text->bytes)
        mica__text_add(text, "", 0);
    char *bytes = text->bytes;
    if (text->status != MICA_OK) {
        mica__free(bytes);
        bytes = NULL;
    }
    *text = (mica__text){.kind = text->kind, .max = text->max};
    return bytes;
}

void mica__text_free(mica__text *text)
{
    mica__free(text->bytes);
    *text = (mica__text){.kind = text->kind, .max = text->max};
}
