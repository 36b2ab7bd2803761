/* decimal.h - doubles as decimal numbers of a wanted precision: what printf does, in no locale.
 *
 * Works on the exact decimal digits of a double, so every rounding is the right one: to nearest,
 * ties to even. For the shortest digits that read back, see base/number.h.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_DECIMAL_H
#define MICA_TEXT_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

#define MICA__DECIMAL_MAX_PRECISION 400

/* Bytes that hold any result below, with its NUL. */
#define MICA__DECIMAL_BYTES 800

/* |value| (finite) with `precision` digits behind the point, as "%.*f"; `point` keeps the point
 * when there are none. Returns the length. precision: 0 to MICA__DECIMAL_MAX_PRECISION. */
size_t mica__decimal_fixed(double value, int precision, bool point, char *out);

/* As "%.*e" (or "%.*E" for e = 'E'). */
size_t mica__decimal_scientific(double value, int precision, bool point, char e, char *out);

/* As "%.*g": the shorter of both for `precision` significant digits (0 counts as 1), without
 * trailing zeros unless `keep`. The exponent is used from `digits` on: precision for printf's rule.
 */
size_t mica__decimal_general(double value, int precision, int digits, bool keep, char e, char *out);

#endif
