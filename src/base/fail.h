/* fail.h - how functions of the library report failure.
 *
 * A failing function records one message for its thread and returns a status; callers pass the
 * status on. The record is a fixed buffer, so reporting works when memory is out. Contexts copy it
 * when an error becomes sticky.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_FAIL_H
#define MICA_BASE_FAIL_H

#include <mica/status.h>

#define MICA__MESSAGE_BYTES 1024

/* Records the message and returns status, so that `return mica__fail(...)` is one line. */
mica_status mica__fail(mica_status status, const char *format, ...) MICA_PRINTF(2, 3);

/* Puts "prefix: " before the recorded message, to say where it happened; returns status unchanged.
 * A message that begins with the prefix, or with a path below it, stays as it is. */
mica_status mica__fail_at(mica_status status, const char *format, ...) MICA_PRINTF(2, 3);

/* Forgets this thread's record. */
void mica__fail_clear(void);

#define MICA_FAIL(status, ...) return mica__fail(status, __VA_ARGS__)

#define MICA_TRY(call)                                                                             \
    do {                                                                                           \
        const mica_status mica_try_status = (call);                                                \
        if (mica_try_status != MICA_OK)                                                            \
            return mica_try_status;                                                                \
    } while (0)

/* As MICA_TRY, but leaves through `out:`; the function has `mica_status status` in scope. */
#define MICA_TRY_OUT(call)                                                                         \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != MICA_OK)                                                                     \
            goto out;                                                                              \
    } while (0)

#endif
