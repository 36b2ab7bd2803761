/* clock_test.c - time goes forward, in nanoseconds.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/clock.h"

static void the_clock_never_goes_back_and_moves(void **state)
{
    (void)state;
    const int64_t start = mica__clock_ns();
    int64_t last = start;
    while (last - start < 2000000) { /* two milliseconds */
        const int64_t now = mica__clock_ns();
        assert_true(now >= last);
        last = now;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true(now.tv_sec - last / 1000000000 <= 60);
    assert_true(mica__clock_seconds(0, 1500000000) == 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_never_goes_back_and_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
