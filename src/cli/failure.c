/* failure.c - the record of what went wrong, and its report.
 * SPDX-License-Identifier: MIT
 */
#include "cli/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/json_out.h"

static struct {
    bool set;
    bool usage;
    const char *code;
    char message[2048];
    char where[1024];
} failure;

static int record(const char *code, const char *where, bool usage)
{
    failure.set = true;
    failure.usage = usage;
    failure.code = code;
    snprintf(failure.where, sizeof failure.where, "%s", where ? where : "");
    return usage ? EXIT_USAGE : EXIT_FAILED;
}

int fail_with(mica_status status, const char *where, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure.message, sizeof failure.message, format, arguments);
    va_end(arguments);
    return record(mica_status_name(status), where, false);
}

int fail_from(mica_status status, const char *where)
{
    const char *message = mica_last_error();
    snprintf(failure.message, sizeof failure.message, "%s",
             *message ? message : mica_status_name(status));
    return record(mica_status_name(status), where, false);
}

int fail_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure.message, sizeof failure.message, format, arguments);
    va_end(arguments);
    return record("usage", NULL, true);
}

int fail_memory(void)
{
    return fail_with(MICA_E_MEMORY, NULL, "the system refused memory");
}

void forget_failure(void)
{
    failure.set = false;
}

static void report_json(void)
{
    json_out json = {0};
    json_open(&json, NULL, '{');
    json_open(&json, "error", '{');
    json_text(&json, "code", failure.code);
    json_text(&json, "message", failure.message);
    json_text(&json, "where", failure.where[0] ? failure.where : NULL);
    json_close(&json, '}');
    json_close(&json, '}');
    json_print(&json);
}

/* A message often begins with the path that it is about. */
static bool says_where(void)
{
    return !failure.where[0] || strstr(failure.message, failure.where);
}

void report_brief(void)
{
    if (failure.set)
        fprintf(stderr, "%s%s%s\n", says_where() ? "" : failure.where, says_where() ? "" : ": ",
                failure.message);
    forget_failure();
}

void report_interrupted(bool json)
{
    if (!json || json_was_printed())
        return;
    fail_with(MICA_E_CANCELLED, NULL, "interrupted");
    report_json();
}

void report_failure(const char *command, bool json)
{
    if (!failure.set)
        return;
    if (json)
        report_json();
    fprintf(stderr, "mica%s%s: %s%s%s\n", command ? " " : "", command ? command : "",
            says_where() ? "" : failure.where, says_where() ? "" : ": ", failure.message);
    if (failure.usage)
        fprintf(stderr, "'mica %s%s--help' shows what it takes.\n", command ? command : "",
                command ? " " : "");
}
