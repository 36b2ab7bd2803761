/* promote.c - MLX's promotion rules, worked out from categories instead of a table of 196 entries.
 * SPDX-License-Identifier: MIT
 */
#include "core/promote.h"

bool mica__is_float(mica_dtype dtype)
{
    return dtype == MICA_F16 || dtype == MICA_BF16 || dtype == MICA_F32 || dtype == MICA_F64;
}

bool mica__is_inexact(mica_dtype dtype)
{
    return mica__is_float(dtype) || dtype == MICA_C64;
}

static bool is_unsigned(mica_dtype dtype)
{
    return dtype >= MICA_U8 && dtype <= MICA_U64;
}

static bool is_signed(mica_dtype dtype)
{
    return dtype >= MICA_I8 && dtype <= MICA_I64;
}

bool mica__is_integer(mica_dtype dtype)
{
    return is_unsigned(dtype) || is_signed(dtype);
}

mica_dtype mica__to_inexact(mica_dtype dtype)
{
    return mica__is_inexact(dtype) ? dtype : MICA_F32;
}

static mica_dtype promote_floats(mica_dtype a, mica_dtype b)
{
    if (a == MICA_F64 || b == MICA_F64)
        return MICA_F64;
    return a == b ? a : MICA_F32; /* f32 with a half, or f16 with bf16 */
}

static mica_dtype promote_mixed(mica_dtype unsigned_type, mica_dtype signed_type)
{
    if (unsigned_type == MICA_U64)
        return MICA_F32;
    const int u = unsigned_type - MICA_U8, s = signed_type - MICA_I8;
    return (mica_dtype)(MICA_I8 + (s > u ? s : u + 1));
}

mica_dtype mica__promote(mica_dtype a, mica_dtype b)
{
    if (a == b)
        return a;
    if (a == MICA_C64 || b == MICA_C64)
        return MICA_C64;
    if (mica__is_float(a) && mica__is_float(b))
        return promote_floats(a, b);
    if (mica__is_float(a) || mica__is_float(b))
        return mica__is_float(a) ? a : b;
    if (a == MICA_BOOL || b == MICA_BOOL)
        return a == MICA_BOOL ? b : a;
    if (is_unsigned(a) == is_unsigned(b))
        return a > b ? a : b;
    return is_unsigned(a) ? promote_mixed(a, b) : promote_mixed(b, a);
}
