/* clock.h - monotonic time in nanoseconds.
 *
 * The one clock of the library: never set back, unaffected by the date, comparable between threads.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_CLOCK_H
#define MICA_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since an arbitrary start (usually boot). */
static inline int64_t mica__clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double mica__clock_seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

#endif
