/* number.c - numbers as text, the same in every locale.
 *
 * The C library's conversions are exact; the only locale-dependent part of them is the decimal
 * point. So reading rewrites a number as digits and an exponent without a point before strtod sees
 * it, and writing takes only the digits and the exponent out of printf's "%e". More than 800 digits
 * cannot matter but for being zero or not: half way between two doubles needs at most 768.
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIGITS   800
#define MOST_EXPONENT INT64_C(100000000000000000) /* more than a text can have digits */

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A decimal in normal form: digits[0, n_digits) * 10^exponent, no leading zeros. */
typedef struct decimal {
    bool negative;
    int n_digits;
    int64_t exponent;
    char digits[MOST_DIGITS];
} decimal;

static void add_digit(decimal *d, char digit, bool behind_point)
{
    if (d->n_digits == 0 && digit == '0') {
        d->exponent -= behind_point;
    } else if (d->n_digits < MOST_DIGITS) {
        d->digits[d->n_digits++] = digit;
        d->exponent -= behind_point;
    } else {
        /* Dropped: counts by its place, and by not being zero. */
        if (digit != '0' && d->digits[MOST_DIGITS - 1] == '0')
            d->digits[MOST_DIGITS - 1] = '1';
        d->exponent += !behind_point;
    }
}

/* Reads [+-] digits behind an e; the value saturates. */
static bool read_exponent(const char *text, size_t n, int64_t *exponent)
{
    size_t at = 0;
    const bool negative = n > 0 && text[0] == '-';
    if (n > 0 && (text[0] == '-' || text[0] == '+'))
        at++;
    if (at == n)
        return false;
    int64_t value = 0;
    for (; at < n; at++) {
        if (!is_digit(text[at]))
            return false;
        if (value < MOST_EXPONENT)
            value = value * 10 + (text[at] - '0');
    }
    *exponent = negative ? -value : value;
    return true;
}

static bool read_decimal(const char *text, size_t n, decimal *d)
{
    size_t at = 0;
    d->negative = n > 0 && text[0] == '-';
    d->n_digits = 0;
    d->exponent = 0;
    if (n > 0 && (text[0] == '-' || text[0] == '+'))
        at++;
    bool any = false, point = false;
    for (; at < n && (is_digit(text[at]) || (text[at] == '.' && !point)); at++) {
        if (text[at] == '.') {
            point = true;
            continue;
        }
        any = true;
        add_digit(d, text[at], point);
    }
    if (!any)
        return false;
    if (at == n)
        return true;
    int64_t exponent;
    if ((text[at] != 'e' && text[at] != 'E') ||
        !read_exponent(text + at + 1, n - at - 1, &exponent))
        return false;
    d->exponent += exponent;
    return true;
}

/* digits * 10^exponent, spelled "123e-45": no point, so that no locale matters. single: rounded to
 * float instead. */
static double decimal_value(const char *digits, int n_digits, int64_t exponent, bool single)
{
    char spelled[MOST_DIGITS + 32];
    memcpy(spelled, digits, (size_t)n_digits);
    snprintf(spelled + n_digits, 32, "e%lld", (long long)exponent);
    return single ? (double)strtof(spelled, NULL) : strtod(spelled, NULL);
}

bool mica__parse_f64(const char *text, size_t n, double *value)
{
    decimal d;
    if (!read_decimal(text, n, &d))
        return false;
    const int64_t magnitude = d.exponent + d.n_digits; /* the value is below 10^magnitude */
    double v = 0;
    if (d.n_digits > 0 && magnitude > DBL_MAX_10_EXP + 1)
        return false;
    if (d.n_digits > 0 && magnitude > -400)
        v = decimal_value(d.digits, d.n_digits, d.exponent, false);
    if (isinf(v))
        return false;
    *value = d.negative ? -v : v;
    return true;
}

bool mica__parse_i64(const char *text, size_t n, int64_t *value)
{
    size_t at = 0;
    const bool negative = n > 0 && text[0] == '-';
    if (n > 0 && (text[0] == '-' || text[0] == '+'))
        at++;
    if (at == n)
        return false;
    int64_t v = 0;
    for (; at < n; at++) {
        const int digit = text[at] - '0';
        if (!is_digit(text[at]) || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, negative ? -digit : digit, &v))
            return false;
    }
    *value = v;
    return true;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Digits of a positive value: 0.d1d2d3... * 10^(exponent + 1). */
typedef struct digits {
    char text[24];
    int n;
    int exponent; /* of the first digit */
} digits;

/* The n digits nearest to value. */
static digits nearest_digits(double value, int n)
{
    char spelled[64];
    digits d = {.n = 0};
    snprintf(spelled, sizeof spelled, "%.*e", n - 1, value);
    const char *at = spelled;
    for (; *at != 'e'; at++)
        if (is_digit(*at)) /* not the decimal point, whatever it is */
            d.text[d.n++] = *at;
    const bool negative = at[1] == '-';
    for (at += 2; is_digit(*at); at++)
        d.exponent = d.exponent * 10 + (*at - '0');
    if (negative)
        d.exponent = -d.exponent;
    return d;
}

/* The next larger number of as many digits. */
static digits next_digits(digits d)
{
    int at = d.n - 1;
    while (at >= 0 && d.text[at] == '9')
        d.text[at--] = '0';
    if (at >= 0) {
        d.text[at]++;
    } else {
        d.text[0] = '1';
        d.exponent++;
    }
    return d;
}

static bool reads_back(const digits *d, double value, bool single)
{
    return decimal_value(d->text, d->n, d->exponent - d->n + 1, single) == value;
}

/* The shortest digits that read back as value > 0. Normal numbers survive 15 digits (floats 6), so
 * a shorter spelling appears there with zeros behind it; subnormal ones have fewer bits. Above a
 * power of two numbers lie twice as far apart as below: then the next larger spelling may read back
 * where the nearest does not. */
static digits shortest_digits(double value, bool single)
{
    const int safe = single ? FLT_DIG : DBL_DIG;
    const int enough = single ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;
    const double least_normal = single ? (double)FLT_MIN : DBL_MIN;
    int exponent;
    const bool power_of_two = frexp(value, &exponent) == 0.5;
    for (int n = value < least_normal ? 1 : safe;; n++) {
        digits d = nearest_digits(value, n);
        if (n >= enough || reads_back(&d, value, single))
            return d;
        if (power_of_two) {
            d = next_digits(d);
            if (reads_back(&d, value, single))
                return d;
        }
    }
}

static char *put(char *at, const char *bytes, int n)
{
    memcpy(at, bytes, (size_t)n);
    return at + n;
}

static char *put_zeros(char *at, int n)
{
    memset(at, '0', (size_t)n);
    return at + n;
}

/* Writes at most 24 bytes and returns their end. */
static char *lay_out(char *at, digits d)
{
    while (d.n > 1 && d.text[d.n - 1] == '0')
        d.n--;
    if (d.exponent < -5 || d.exponent >= 16) {
        at = put(at, d.text, 1);
        if (d.n > 1)
            at = put(put(at, ".", 1), d.text + 1, d.n - 1);
        return at + snprintf(at, 8, "e%+d", d.exponent);
    }
    if (d.exponent < 0)
        return put(put_zeros(put(at, "0.", 2), -d.exponent - 1), d.text, d.n);
    const int before = d.exponent + 1 < d.n ? d.exponent + 1 : d.n;
    at = put_zeros(put(at, d.text, before), d.exponent + 1 - before);
    return d.n > before ? put(put(at, ".", 1), d.text + before, d.n - before) : at;
}

static int format_real(char *out, double value, bool single)
{
    char *at = out;
    if (signbit(value) && !isnan(value))
        *at++ = '-';
    if (isnan(value))
        at = put(at, "nan", 3);
    else if (isinf(value))
        at = put(at, "inf", 3);
    else if (value == 0)
        at = put(at, "0", 1);
    else
        at = lay_out(at, shortest_digits(fabs(value), single));
    *at = '\0';
    return (int)(at - out);
}

int mica__format_f64(char out[MICA__F64_TEXT_BYTES], double value)
{
    return format_real(out, value, false);
}

int mica__format_f32(char out[MICA__F64_TEXT_BYTES], float value)
{
    return format_real(out, (double)value, true);
}

/* --- amounts of memory ------------------------------------------------------------------------ */

__extension__ typedef unsigned __int128 uint128;

/* The factor of a unit, or 0. */
static int64_t unit_factor(const char *unit)
{
    static const char prefixes[] = "kmgtp";
    if (!*unit || !strcmp(unit, "B") || !strcmp(unit, "b"))
        return 1;
    const char lower = (char)(*unit | 0x20);
    const char *prefix = memchr(prefixes, lower, sizeof prefixes - 1);
    if (!prefix)
        return 0;
    const char *rest = unit + 1;
    const bool binary_unit = !strcmp(rest, "i") || !strcmp(rest, "iB") || !strcmp(rest, "ib");
    if (!binary_unit && *rest && strcmp(rest, "B") != 0 && strcmp(rest, "b") != 0)
        return 0;
    int64_t factor = 1;
    for (int i = 0; i <= prefix - prefixes; i++)
        factor *= binary_unit ? 1024 : 1000;
    return factor;
}

/* Reads digits into *value and returns how many; -1 when they exceed 18. */
static int read_digits(const char *text, int64_t *value)
{
    int n = 0;
    for (*value = 0; is_digit(text[n]); n++) {
        if (n == 18)
            return -1;
        *value = *value * 10 + (text[n] - '0');
    }
    return n;
}

mica_status mica__parse_size(const char *text, int64_t *bytes)
{
    int64_t whole, fraction = 0;
    const int n_whole = read_digits(text, &whole);
    const char *at = text + (n_whole > 0 ? n_whole : 0);
    int n_fraction = 0;
    if (*at == '.') {
        n_fraction = read_digits(at + 1, &fraction);
        at += 1 + (n_fraction > 0 ? n_fraction : 0);
    }
    at += strspn(at, " ");
    const int64_t factor = unit_factor(at);
    if (n_whole < 0 || n_fraction < 0 || n_whole + n_fraction == 0 || !factor ||
        (factor == 1 && at > text + n_whole && memchr(text, '.', (size_t)(at - text))))
        MICA_FAIL(MICA_E_ARGUMENT,
                  "\"%.60s\" is no amount of memory: write bytes, or a number with K, M, G or T "
                  "(512M, 1.5G; Ki, Mi, Gi for powers of 1024)",
                  text);
    uint128 scale = 1;
    for (int i = 0; i < n_fraction; i++)
        scale *= 10;
    const uint128 total =
        (uint128)whole * (uint128)factor + (uint128)fraction * (uint128)factor / scale;
    if (total > INT64_MAX)
        MICA_FAIL(MICA_E_ARGUMENT, "\"%.60s\" is more memory than can be counted", text);
    *bytes = (int64_t)total;
    return MICA_OK;
}

int mica__format_size(char out[MICA__F64_TEXT_BYTES], int64_t bytes)
{
    static const char units[] = "KMGTPE";
    const uint64_t size = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
    const char *sign = bytes < 0 ? "-" : "";
    if (size < 1024)
        return snprintf(out, MICA__F64_TEXT_BYTES, "%s%d B", sign, (int)size);
    int unit = 0;
    uint128 factor = 1024;
    /* Rounded to tenths it must stay below 1024 of its unit. */
    while (unit < 5 && ((uint128)size * 10 + factor / 2) / factor >= 10240) {
        factor *= 1024;
        unit++;
    }
    const uint64_t tenths = (uint64_t)(((uint128)size * 10 + factor / 2) / factor);
    return snprintf(out, MICA__F64_TEXT_BYTES, "%s%llu.%d %ciB", sign,
                    (unsigned long long)(tenths / 10), (int)(tenths % 10), units[unit]);
}
