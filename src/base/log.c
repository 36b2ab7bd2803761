/* log.c - messages to the callback that the runtime was given.
 *
 * The lock is held during a callback: messages come one at a time, and who has replaced the
 * callback knows that the old one has ended. The threshold is read without it, so a silent library
 * pays one load a message.
 * SPDX-License-Identifier: MIT
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mica_log_callback sink;
static void *sink_user;
static _Atomic int threshold = MICA_LOG_NONE;
static _Thread_local bool delivering;

void mica__log_set(mica_log_level most, mica_log_callback callback, void *user)
{
    pthread_mutex_lock(&lock);
    sink = callback;
    sink_user = user;
    atomic_store(&threshold, callback ? (int)most : MICA_LOG_NONE);
    pthread_mutex_unlock(&lock);
}

bool mica__log_wanted(mica_log_level level)
{
    return level > MICA_LOG_NONE &&
           (int)level <= atomic_load_explicit(&threshold, memory_order_relaxed) && !delivering;
}

void mica__log(mica_log_level level, const char *format, ...)
{
    if (!mica__log_wanted(level))
        return;
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (sink && (int)level <= atomic_load(&threshold)) {
        delivering = true;
        sink(sink_user, level, message);
        delivering = false;
    }
    pthread_mutex_unlock(&lock);
}
