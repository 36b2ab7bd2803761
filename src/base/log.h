/* log.h - messages to the callback that the runtime was given.
 *
 * One sink per process, as there is one runtime. Silent until a callback is set.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_LOG_H
#define MICA_BASE_LOG_H

#include <mica/log.h>
#include <mica/status.h>

/* Messages up to `most` go to the callback. NULL or MICA_LOG_NONE: silence. When this returns, the
 * former callback is not running and will not be called again. Not to be called from a callback. */
void mica__log_set(mica_log_level most, mica_log_callback callback, void *user);

/* Whether a message of this level would be heard: ask before preparing an expensive one. */
bool mica__log_wanted(mica_log_level level);

/* Formats (at most 1023 bytes) and delivers a message when it is wanted. Records no failure. */
void mica__log(mica_log_level level, const char *format, ...) MICA_PRINTF(2, 3);

#endif
