/* check.h - what every test file includes: cmocka with its prerequisites.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_CHECK_H
#define MICA_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <mica/status.h>

/* Fails with the recorded message when a call that must succeed does not. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        const mica_status check_status = (call);                                                   \
        if (check_status != MICA_OK)                                                               \
            fail_msg("%s: %s: %s", #call, mica_status_name(check_status), mica_last_error());      \
    } while (0)

/* Fails unless the call gives exactly this status. */
#define assert_status(call, expected)                                                              \
    do {                                                                                           \
        const mica_status check_status = (call);                                                   \
        if (check_status != (expected))                                                            \
            fail_msg("%s: %s instead of %s (%s)", #call, mica_status_name(check_status),           \
                     mica_status_name(expected), mica_last_error());                               \
    } while (0)

/* A file below the outside test data, or NULL where that is absent. Static buffer, valid until the
 * next call. */
const char *shared_path(const char *relative);

/* A file that tools/fetch put into the model cache (the environment's MICA_CACHE_DIR, else the one
 * the build was configured with), or NULL where it is absent. Static buffer of its own, as above.
 */
const char *fetched_path(const char *relative);

#endif
