/* sample_math.c - exponential and logarithm in double, by additions and multiplications only.
 *
 * Every operation is an IEEE double operation that rounds once (the build forbids contraction), so
 * the result has the same bits on every machine; the C library's functions have not.
 * SPDX-License-Identifier: MIT
 */
#include "run/sample_math.h"

#include <stdint.h>
#include <string.h>

#define LN2_64_HIGH 0x1.62e42fep-7 /* ln 2 / 64 with 24 zero bits behind: k * this is exact */
#define LN2_64_LOW  0x1.f473de6af278fp-36
#define LN2_HIGH    0x1.62e42fep-1
#define LN2_LOW     0x1.f473de6af278fp-30
#define INV_LN2_64  0x1.71547652b82fep+6

/* 2^(j / 64), nearest double. */
static const double power[64] = {
    0x1.0000000000000p+0, 0x1.02c9a3e778061p+0, 0x1.059b0d3158574p+0, 0x1.0874518759bc8p+0,
    0x1.0b5586cf9890fp+0, 0x1.0e3ec32d3d1a2p+0, 0x1.11301d0125b51p+0, 0x1.1429aaea92de0p+0,
    0x1.172b83c7d517bp+0, 0x1.1a35beb6fcb75p+0, 0x1.1d4873168b9aap+0, 0x1.2063b88628cd6p+0,
    0x1.2387a6e756238p+0, 0x1.26b4565e27cddp+0, 0x1.29e9df51fdee1p+0, 0x1.2d285a6e4030bp+0,
    0x1.306fe0a31b715p+0, 0x1.33c08b26416ffp+0, 0x1.371a7373aa9cbp+0, 0x1.3a7db34e59ff7p+0,
    0x1.3dea64c123422p+0, 0x1.4160a21f72e2ap+0, 0x1.44e086061892dp+0, 0x1.486a2b5c13cd0p+0,
    0x1.4bfdad5362a27p+0, 0x1.4f9b2769d2ca7p+0, 0x1.5342b569d4f82p+0, 0x1.56f4736b527dap+0,
    0x1.5ab07dd485429p+0, 0x1.5e76f15ad2148p+0, 0x1.6247eb03a5585p+0, 0x1.6623882552225p+0,
    0x1.6a09e667f3bcdp+0, 0x1.6dfb23c651a2fp+0, 0x1.71f75e8ec5f74p+0, 0x1.75feb564267c9p+0,
    0x1.7a11473eb0187p+0, 0x1.7e2f336cf4e62p+0, 0x1.82589994cce13p+0, 0x1.868d99b4492edp+0,
    0x1.8ace5422aa0dbp+0, 0x1.8f1ae99157736p+0, 0x1.93737b0cdc5e5p+0, 0x1.97d829fde4e50p+0,
    0x1.9c49182a3f090p+0, 0x1.a0c667b5de565p+0, 0x1.a5503b23e255dp+0, 0x1.a9e6b5579fdbfp+0,
    0x1.ae89f995ad3adp+0, 0x1.b33a2b84f15fbp+0, 0x1.b7f76f2fb5e47p+0, 0x1.bcc1e904bc1d2p+0,
    0x1.c199bdd85529cp+0, 0x1.c67f12e57d14bp+0, 0x1.cb720dcef9069p+0, 0x1.d072d4a07897cp+0,
    0x1.d5818dcfba487p+0, 0x1.da9e603db3285p+0, 0x1.dfc97337b9b5fp+0, 0x1.e502ee78b3ff6p+0,
    0x1.ea4afa2a490dap+0, 0x1.efa1bee615a27p+0, 0x1.f50765b6e4540p+0, 0x1.fa7c1819e90d8p+0,
};

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double mica__sample_exp(double x)
{
    if (!(x > -708.0))
        return x != x ? x : 0.0;
    if (x > 709.0)
        return from_bits((uint64_t)0x7ff << 52);
    const double scaled = x * INV_LN2_64;
    const int64_t k = (int64_t)(scaled + (scaled < 0 ? -0.5 : 0.5));
    const double r = (x - (double)k * LN2_64_HIGH) - (double)k * LN2_64_LOW;
    /* |r| < 0.0055: the first term left out is below 2^-54. */
    const double p = r + r * r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120))));
    const int64_t exponent = k >> 6;
    const double base = power[k & 63];
    return (base + base * p) * from_bits((uint64_t)(exponent + 1023) << 52);
}

double mica__sample_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t exponent = (int64_t)(bits >> 52) - 1023;
    double m = from_bits((bits & 0xfffffffffffffu) | (uint64_t)1023 << 52); /* [1, 2) */
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    const double f = (m - 1) / (m + 1), s = f * f;
    /* 2 atanh(f) = 2 f (1 + s / 3 + s^2 / 5 + ...), s < 0.0295 */
    double sum = 0;
    for (int n = 21; n >= 3; n -= 2)
        sum = (sum + 1.0 / n) * s;
    const double e = (double)exponent;
    return e * LN2_HIGH + (2 * f + (2 * f * sum + e * LN2_LOW));
}
