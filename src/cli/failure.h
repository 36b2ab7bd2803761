/* failure.h - what went wrong, for the exit status and the report at the end.
 *
 * A function of the program that can fail returns an exit status: 0, 1 (failed), 2 (bad usage) or
 * 130 (interrupted). Whoever fails first records why; main reports it once, as text on standard
 * error or as one JSON object on standard output.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_FAILURE_H
#define MICA_CLI_FAILURE_H

#include <mica/status.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130, EXIT_TERMINATED = 143 };

/* Records a failure and returns EXIT_FAILED. where: the file, option or line it is about, or NULL;
 * copied. */
int fail_with(mica_status status, const char *where, const char *format, ...) MICA_PRINTF(3, 4);

/* The same with the library's message for the call that has just returned `status`. */
int fail_from(mica_status status, const char *where);

/* Records bad usage and returns EXIT_USAGE. */
int fail_usage(const char *format, ...) MICA_PRINTF(1, 2);

/* Out of memory in the program itself. */
int fail_memory(void);

/* Forgets what was recorded: it was no failure after all. */
void forget_failure(void);

/* Says what was recorded in a line on standard error and forgets it, for what goes on after it. */
void report_brief(void);

/* Interrupted: with --json the error object, where standard output has no object yet. */
void report_interrupted(bool json);

/* Reports what was recorded. command: "generate", or NULL. Nothing when nothing was recorded. */
void report_failure(const char *command, bool json);

#endif
