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
    int n = vsnprintf(record, sizeof record, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof record)
        snprintf(record + n, sizeof record - (size_t)n, ": %s", before);
    return status;
}

void mica__fail_clear(void)
{
    record[0] = '\0';
}
