/* decimal.c - exact decimal digits of doubles, and their rounding.
 *
 * A double is m * 2^e with integers m and e. For e < 0 it is m * 5^-e / 10^-e, so its digits are
 * those of one large integer either way, and end after at most 767 of them.
 * SPDX-License-Identifier: MIT
 */
#include "text/decimal.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define WORDS      84 /* 2^53 * 5^1074 has 2547 bits, 2^1024 has 1025 */
#define MAX_DIGITS 800

/* value = 0.d[0]d[1]... * 10^point; no digits for zero. */
typedef struct digits {
    char d[MAX_DIGITS];
    int n;
    int point;
} digits;

static int multiply(uint32_t *words, int n, uint32_t by)
{
    uint64_t carry = 0;
    for (int i = 0; i < n; i++) {
        carry += (uint64_t)words[i] * by;
        words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry)
        words[n++] = (uint32_t)carry;
    return n;
}

/* Divides by 10^9 and returns the rest. */
static uint32_t divide(uint32_t *words, int *n)
{
    uint64_t rest = 0;
    for (int i = *n; i-- > 0;) {
        rest = rest << 32 | words[i];
        words[i] = (uint32_t)(rest / 1000000000);
        rest %= 1000000000;
    }
    while (*n && !words[*n - 1])
        --*n;
    return (uint32_t)rest;
}

static void exact(double value, digits *out)
{
    int exponent;
    const double fraction = frexp(fabs(value), &exponent);
    uint64_t mantissa = (uint64_t)ldexp(fraction, 53);
    for (exponent -= 53; exponent < 0 && mantissa && !(mantissa & 1); exponent++)
        mantissa >>= 1;
    uint32_t words[WORDS] = {(uint32_t)mantissa, (uint32_t)(mantissa >> 32)};
    int n = words[1] ? 2 : words[0] ? 1 : 0, shift = 0;
    char reversed[MAX_DIGITS];
    int n_reversed = 0;
    for (int i = 0; i < exponent; i++)
        n = multiply(words, n, 2);
    for (int i = 0; i > exponent && n; i--) {
        n = multiply(words, n, 5);
        shift++;
    }
    while (n) {
        uint32_t nine = divide(words, &n);
        for (int i = 0; i < 9 && (n || nine); i++) {
            reversed[n_reversed++] = (char)('0' + nine % 10);
            nine /= 10;
        }
    }
    out->n = n_reversed;
    out->point = n_reversed - shift;
    for (int i = 0; i < n_reversed; i++)
        out->d[i] = reversed[n_reversed - 1 - i];
}

/* Keeps the first `count` digits (may be <= 0), rounded to nearest, ties to even. */
static void round_to(digits *x, int count)
{
    if (count >= x->n)
        return;
    bool up = false;
    if (count >= 0) {
        bool more = false;
        for (int i = count + 1; i < x->n; i++)
            more = more || x->d[i] != '0';
        const bool odd = count > 0 && (x->d[count - 1] & 1);
        up = x->d[count] > '5' || (x->d[count] == '5' && (more || odd));
    }
    x->n = count < 0 ? 0 : count;
    if (!up)
        return;
    int at = x->n;
    while (at > 0 && x->d[at - 1] == '9')
        x->d[--at] = '0';
    if (at > 0) {
        x->d[at - 1]++;
        return;
    }
    /* 999 became 1000: one digit more before the point */
    memmove(x->d + 1, x->d, (size_t)x->n);
    x->d[0] = '1';
    x->n++;
    x->point++;
}

static char digit_at(const digits *x, int i)
{
    return i >= 0 && i < x->n ? x->d[i] : '0';
}

static size_t put_fixed(const digits *x, int precision, bool point, char *out)
{
    size_t at = 0;
    for (int i = x->point > 0 ? 0 : x->point - 1; i < x->point; i++)
        out[at++] = digit_at(x, i);
    if (precision > 0 || point)
        out[at++] = '.';
    for (int i = 0; i < precision; i++)
        out[at++] = digit_at(x, x->point + i);
    out[at] = '\0';
    return at;
}

static size_t put_scientific(const digits *x, int precision, bool point, char e, char *out)
{
    size_t at = 0;
    const int exponent = x->n ? x->point - 1 : 0;
    out[at++] = digit_at(x, 0);
    if (precision > 0 || point)
        out[at++] = '.';
    for (int i = 1; i <= precision; i++)
        out[at++] = digit_at(x, i);
    return at + (size_t)snprintf(out + at, 8, "%c%c%02d", e, exponent < 0 ? '-' : '+',
                                 exponent < 0 ? -exponent : exponent);
}

size_t mica__decimal_fixed(double value, int precision, bool point, char *out)
{
    digits x;
    exact(value, &x);
    round_to(&x, x.point + precision);
    if (!x.n)
        x.point = 0;
    return put_fixed(&x, precision, point, out);
}

size_t mica__decimal_scientific(double value, int precision, bool point, char e, char *out)
{
    digits x;
    exact(value, &x);
    round_to(&x, precision + 1);
    return put_scientific(&x, precision, point, e, out);
}

size_t mica__decimal_general(double value, int precision, int first, bool keep, char e, char *out)
{
    digits x;
    if (precision < 1)
        precision = 1;
    exact(value, &x);
    round_to(&x, precision);
    const int exponent = x.n ? x.point - 1 : 0;
    int kept = precision;
    if (!keep) {
        while (x.n && x.d[x.n - 1] == '0')
            x.n--;
        kept = x.n ? x.n : 1;
    }
    if (!x.n)
        x.point = 1; /* zero is 0, one digit before the point */
    if (exponent < -4 || exponent >= first)
        return put_scientific(&x, kept - 1, keep, e, out);
    return put_fixed(&x, kept > exponent + 1 ? kept - exponent - 1 : 0, keep, out);
}
