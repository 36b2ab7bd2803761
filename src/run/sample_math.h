/* sample_math.h - exponential and logarithm with the same bits on every machine.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_SAMPLE_MATH_H
#define MICA_RUN_SAMPLE_MATH_H

/* e^x within 2 ulp; 0 below -708 (results under 2^-1021 are not wanted here), infinity above 709,
 * NaN for NaN. */
double mica__sample_exp(double x);

/* Natural logarithm within 2 ulp of a positive normal finite x (or 1 ulp of 1 near x = 1). */
double mica__sample_log(double x);

#endif
