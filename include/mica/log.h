/* log.h - what the library has to say beside its results, for whoever asks.
 *
 * The library never prints. Without a callback (given to mica_open) it is silent.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_LOG_H
#define MICA_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/* From the most to the least important. */
typedef enum mica_log_level {
    MICA_LOG_NONE,    /* a threshold only: nothing at all */
    MICA_LOG_WARNING, /* the result is right, but something is not as it should be */
    MICA_LOG_INFO,    /* what was chosen: feature level, threads, limits */
    MICA_LOG_DEBUG    /* for who works on the library */
} mica_log_level;

/* Called with one message (UTF-8, without newline, valid during the call), possibly from any thread
 * but never from two at once. What it logs itself by calling the library is dropped. */
typedef void (*mica_log_callback)(void *user, mica_log_level level, const char *message);

#ifdef __cplusplus
}
#endif

#endif
