/* trig_reduce.h - how far a huge float lies from the nearest multiple of pi/2.
 *
 * Payne and Hanek's idea: of the product x * 2/pi only the bits from weight 2 down matter, so a
 * window of 96 bits of 2/pi times the 24-bit integer of x gives the quadrant and 94 bits behind the
 * point.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_TRIG_REDUCE_H
#define MICA_BACKEND_TRIG_REDUCE_H

#include "base/half.h"

/* x is a float held in a double, |x| >= 2^13, inf or NaN. Returns r with x = n pi/2 + r, |r| <=
 * pi/4, and puts 1.5 * 2^52 + (n mod 4) into *rounded. NaN for inf and NaN. */
static inline double mica__reduce_trig(double x, double *rounded)
{
    static const uint32_t two_over_pi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                           0xdb629599, 0x3c439041, 0xfe5163ab};
    const uint32_t u = mica__f32_bits((float)x);
    const int exponent = (int)(u >> 23 & 255) - 150; /* |x| = integer * 2^exponent */
    *rounded = 0x1.8p52;
    if (exponent > 104)
        return x - x;
    const uint64_t integer = (u & 0x7fffffu) | 0x800000u;
    const int first = exponent - 2; /* bit of 2/pi whose weight in the product is 2 */
    uint32_t window[3];
    for (int i = 0; i < 3; i++) {
        const int at = first / 32 + i;
        const uint64_t pair = (uint64_t)two_over_pi[at] << 32 | two_over_pi[at + 1];
        window[i] = (uint32_t)(pair << first % 32 >> 32);
    }
    const uint64_t low = integer * window[2];
    const uint64_t middle = integer * window[1] + (low >> 32);
    const uint64_t high = (integer * window[0] << 32) + middle; /* weight 2^-62, modulo 4 */
    const uint64_t quadrant = (high + ((uint64_t)1 << 61)) >> 62;
    const int64_t rest = (int64_t)(high - (quadrant << 62));
    double r = ((double)rest + (double)(uint32_t)low * 0x1p-32) * 0x1p-62;
    r *= 0x1.921fb54442d18p+0;
    const bool negative = u >> 31;
    *rounded = 0x1.8p52 + (double)(negative ? 4 - quadrant : quadrant);
    return negative ? -r : r;
}

#endif
