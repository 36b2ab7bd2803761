/* progress.h - a bar on a terminal for what takes over a second, nothing anywhere else.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_PROGRESS_H
#define MICA_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Says once whether bars may be drawn at all: not with --quiet. */
void progress_allow(bool allow);

/* label: what is done, as long as the bar lives; total: of the unit, at least 1. */
void progress_begin(const char *label, int64_t total);

/* Draws when a second has passed since the beginning, at most ten times a second. */
void progress_update(int64_t done);

/* Takes the bar away, so that other text can be written; the next update draws it again. */
void progress_hide(void);

/* Takes it away for good. */
void progress_end(void);

/* Seconds of a clock that is never set back. */
double seconds_now(void);

#endif
