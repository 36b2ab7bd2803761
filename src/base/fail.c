/* fail.c - the thread's failure record.
 * SPDX-License-Identifier: MIT
 */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char record[MICA__MESSAGE_BYTES];

const char *mica_status_name(mica_status status)
{
    switch (status) {
#define X(name, value, text)                                                                       \
    case name:                                                                                     \
        return text;
        MICA_STATUS_LIST(X)
#undef X
    }
    return "unknown";
}

const char *mica_last_error(void)
{
    return record;
}

mica_status mica__fail(mica_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(record, sizeof record, format, args);
    va_end(args);
    return status;
}

mica_status mica__fail_at(mica_status status, const char *format, ...)
{
    char before[MICA__MESSAGE_BYTES];
    memcpy(before, record, sizeof before);
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(record, sizeof record, format, args);
    va_end(args);
    /* Truncated by hand: sanitizer builds warn about a snprintf that may have to. */
    if (n < 0 || (size_t)n + 3 > sizeof record)
        return status;
    /* Who opened a file has often said its path already, or that of a file below it. */
    if (n > 0 && strncmp(before, record, (size_t)n) == 0 &&
        (before[n] == ':' || before[n] == '/')) {
        memcpy(record, before, sizeof record);
        return status;
    }
    char *end = record + n;
    memcpy(end, ": ", 2);
    const size_t room = sizeof record - (size_t)n - 3;
    const size_t length = strnlen(before, sizeof before);
    const size_t kept = length < room ? length : room;
    memcpy(end + 2, before, kept);
    end[2 + kept] = '\0';
    return status;
}

void mica__fail_clear(void)
{
    record[0] = '\0';
}
