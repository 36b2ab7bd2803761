/* status.h - what a call that does work returns, and the message behind it.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_STATUS_H
#define MICA_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(MICA_BUILDING)
#define MICA_API __attribute__((visibility("default")))
#else
#define MICA_API
#endif

#if defined(__GNUC__)
#define MICA_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define MICA_PRINTF(fmt, first)
#endif

/* Every status: enumerator, value, short name as --json prints it. */
#define MICA_STATUS_LIST(X)                                                                        \
    X(MICA_OK, 0, "ok")                                                                            \
    X(MICA_E_ARGUMENT, 1, "argument") /* the caller passed something that makes no sense */        \
    X(MICA_E_SHAPE, 2, "shape")       /* shapes or dtypes do not fit together */                   \
    X(MICA_E_MEMORY, 3, "memory")     /* over the memory limit, or the system refused */           \
    X(MICA_E_IO, 4, "io")             /* a file or the network could not be read or written */     \
    X(MICA_E_FORMAT, 5, "format")     /* what was read breaks the rules of its format */           \
    X(MICA_E_UNSUPPORTED, 6, "unsupported") /* understood, and not implemented */                  \
    X(MICA_E_NOT_FOUND, 7, "not_found")     /* a named thing does not exist */                     \
    X(MICA_E_STATE, 8, "state")             /* the object cannot do this now */                    \
    X(MICA_E_BUDGET, 9, "budget")           /* a budget for steps, output or depth is used up */   \
    X(MICA_E_CANCELLED, 10, "cancelled")    /* the caller asked to stop */                         \
    X(MICA_E_DEVICE, 11, "device")          /* a device failed */                                  \
    X(MICA_E_INTERNAL, 12, "internal")      /* a bug in mica */

typedef enum mica_status {
#define X(name, value, text) name = value,
    MICA_STATUS_LIST(X)
#undef X
} mica_status;

/* The short name of a status ("memory"), or "unknown" for a value that is none. Static storage. */
MICA_API const char *mica_status_name(mica_status status);

/* The message of this thread's last failed call that has no context to ask (files, tokenizers,
 * templates). Valid until the next failing call on the same thread; "" when nothing has failed. */
MICA_API const char *mica_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
