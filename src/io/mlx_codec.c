/* mlx_codec.c - MLX's group formats.
 *
 * Codes are read and written through one bit cursor, so 3, 5 and 6 bits need no special cases.
 * Everything is computed in float32 in the order MLX's CPU has; only what MLX computes in the
 * weights' own type (the scale of nvfp4, quotients) is rounded to it.
 * SPDX-License-Identifier: MIT
 */
#include "io/mlx_codec.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"

#define E2M1_MAX 6.0f
#define E4M3_MAX 448.0f

/* --- small floats ----------------------------------------------------------------------------- */

static const float e2m1_values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

static float e2m1_to_f32(unsigned code)
{
    const float magnitude = e2m1_values[code & 7];
    return code & 8 ? -magnitude : magnitude;
}

/* The nearest of the 16 values; of equals the lower code, so halves go toward zero and what rounds
 * to zero loses its sign. */
static unsigned f32_to_e2m1(float x)
{
    const float magnitude = fabsf(x);
    unsigned code = 0;
    while (code < 7 && magnitude > 0.5f * (e2m1_values[code] + e2m1_values[code + 1]))
        code++;
    return code && x < 0.0f ? code | 8 : code;
}

float mica__e4m3_to_f32(uint8_t code)
{
    const uint32_t sign = (uint32_t)(code & 0x80) << 24;
    const uint32_t exponent = code >> 3 & 15, fraction = code & 7;
    if (exponent == 15 && fraction == 7)
        return mica__f32_from_bits(sign | 0x7fc00000u);
    if (exponent == 0)
        return mica__f32_from_bits(sign | mica__f32_bits((float)fraction * 0x1p-9f));
    return mica__f32_from_bits(sign | (exponent + 120) << 23 | fraction << 20);
}

uint8_t mica__f32_to_e4m3(float value)
{
    const uint32_t u = mica__f32_bits(value);
    const uint8_t sign = (uint8_t)(u >> 24 & 0x80);
    const float magnitude = fabsf(value);
    if (!(magnitude < 464.0f))
        return sign | 0x7e;
    if (magnitude < 0x1p-6f) /* adding 2^14 aligns the fraction to units of 2^-9 and rounds it */
        return (uint8_t)(sign | (mica__f32_bits(magnitude + 0x1p14f) - 0x46800000u));
    const uint32_t bits = (u & 0x7fffffffu) - (120u << 23);
    const uint32_t rounded = (bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20;
    return (uint8_t)(sign | (rounded < 0x7e ? rounded : 0x7e));
}

/* 2^(byte - 127); 255 becomes an infinity. */
static float e8m0_to_f32(uint8_t byte)
{
    return mica__f32_from_bits(byte ? (uint32_t)byte << 23 : 0x400000u);
}

static float round_to(mica_dtype dtype, float value)
{
    if (dtype == MICA_F16)
        return mica__f16_to_f32(mica__f32_to_f16(value));
    return dtype == MICA_BF16 ? mica__bf16_to_f32(mica__f32_to_bf16(value)) : value;
}

/* --- stored scales ---------------------------------------------------------------------------- */

static float load_scale(mica_dtype dtype, const uint8_t *at, int64_t i)
{
    if (dtype == MICA_F32)
        return mica__load_f32(at + 4 * i);
    const uint16_t bits = mica__load_u16(at + 2 * i);
    return dtype == MICA_F16 ? mica__f16_to_f32(bits) : mica__bf16_to_f32(bits);
}

static void store_scale(mica_dtype dtype, uint8_t *at, int64_t i, float value)
{
    if (dtype == MICA_F32)
        mica__store_f32(at + 4 * i, value);
    else
        mica__store_u16(at + 2 * i,
                        dtype == MICA_F16 ? mica__f32_to_f16(value) : mica__f32_to_bf16(value));
}

/* --- codes as a bit stream -------------------------------------------------------------------- */

static unsigned get_code(const uint8_t *codes, int bits, int64_t k)
{
    const int64_t bit = k * bits;
    const int shift = (int)(bit % 8);
    unsigned window = codes[bit / 8];
    if (shift + bits > 8)
        window |= (unsigned)codes[bit / 8 + 1] << 8;
    return window >> shift & ((1u << bits) - 1);
}

/* The stream starts zeroed. */
static void put_code(uint8_t *codes, int bits, int64_t k, unsigned code)
{
    const int64_t bit = k * bits;
    const int shift = (int)(bit % 8);
    codes[bit / 8] |= (uint8_t)(code << shift);
    if (shift + bits > 8)
        codes[bit / 8 + 1] |= (uint8_t)(code >> (8 - shift));
}

/* --- checks and sizes ------------------------------------------------------------------------- */

static bool known(const mica__mlx_spec *s)
{
    switch ((int)s->format) {
    case MICA__MLX_AFFINE:
        return (s->bits == 2 || s->bits == 3 || s->bits == 4 || s->bits == 5 || s->bits == 6 ||
                s->bits == 8) &&
               (s->group_size == 32 || s->group_size == 64 || s->group_size == 128);
    case MICA__MLX_MXFP4:
        return s->bits == 4 && s->group_size == 32;
    case MICA__MLX_MXFP8:
        return s->bits == 8 && s->group_size == 32;
    case MICA__MLX_NVFP4:
        return s->bits == 4 && s->group_size == 16;
    default:
        return false;
    }
}

mica_status mica__mlx_check(const mica__mlx_spec *spec, int64_t k)
{
    const char *name = mica__block_info_of(spec->format)->name;
    if (!known(spec))
        MICA_FAIL(MICA_E_ARGUMENT,
                  "no %s quantisation with %d bits and groups of %d: affine has 2 3 4 5 6 8 bits "
                  "and groups of 32 64 128, mxfp4 4 and 32, mxfp8 8 and 32, nvfp4 4 and 16",
                  name, spec->bits, spec->group_size);
    if (spec->dtype != MICA_F16 && spec->dtype != MICA_BF16 && spec->dtype != MICA_F32)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "%s quantisation of %s: only float16, bfloat16 and float32 exist", name,
                  mica_dtype_name(spec->dtype));
    if (!(spec->global_scale >= 0.0f) || !isfinite(spec->global_scale) ||
        (spec->global_scale > 0.0f && spec->format != MICA__MLX_NVFP4))
        MICA_FAIL(MICA_E_ARGUMENT, "a global scale must be positive, finite, and of nvfp4");
    if (k < 0 || k % spec->group_size || k > INT64_MAX / 8)
        MICA_FAIL(MICA_E_SHAPE, "rows of %lld values do not divide into groups of %d", (long long)k,
                  spec->group_size);
    return MICA_OK;
}

int64_t mica__mlx_code_bytes(const mica__mlx_spec *spec, int64_t k)
{
    return k * spec->bits / 8;
}

int64_t mica__mlx_scale_bytes(const mica__mlx_spec *spec, int64_t k)
{
    const int64_t each = spec->format == MICA__MLX_AFFINE ? mica_dtype_bytes(spec->dtype) : 1;
    return k / spec->group_size * each;
}

/* --- decoding --------------------------------------------------------------------------------- */

/* The f32 scale of group g of the formats without biases. */
static float float_scale(const mica__mlx_spec *spec, const uint8_t *scales, int64_t g)
{
    if (spec->format != MICA__MLX_NVFP4)
        return e8m0_to_f32(scales[g]);
    const float scale = mica__e4m3_to_f32(scales[g]);
    return spec->global_scale > 0.0f ? scale * (spec->global_scale / (E2M1_MAX * E4M3_MAX)) : scale;
}

static void decode_group(const mica__mlx_spec *spec, const uint8_t *codes, float scale, float bias,
                         int64_t first, float *out)
{
    const int n = spec->group_size;
    if (spec->format == MICA__MLX_AFFINE)
        for (int i = 0; i < n; i++)
            out[i] = fmaf((float)get_code(codes, spec->bits, first + i), scale, bias);
    else if (spec->format == MICA__MLX_MXFP8)
        for (int i = 0; i < n; i++)
            out[i] = scale * mica__e4m3_to_f32(codes[first + i]);
    else
        for (int i = 0; i < n; i++)
            out[i] = scale * e2m1_to_f32(get_code(codes, 4, first + i));
}

mica_status mica__mlx_decode(const mica__mlx_spec *spec, const uint8_t *codes,
                             const uint8_t *scales, const uint8_t *biases, int64_t k, float *out)
{
    MICA_TRY(mica__mlx_check(spec, k));
    const bool affine = spec->format == MICA__MLX_AFFINE;
    for (int64_t g = 0; g < k / spec->group_size; g++) {
        const float scale =
            affine ? load_scale(spec->dtype, scales, g) : float_scale(spec, scales, g);
        const float bias = affine ? load_scale(spec->dtype, biases, g) : 0.0f;
        decode_group(spec, codes, scale, bias, g * spec->group_size, out + g * spec->group_size);
    }
    return MICA_OK;
}

/* --- encoding --------------------------------------------------------------------------------- */

/* The larger extreme is met exactly: the step is refitted so that a whole number of steps from zero
 * reaches it, unless it rounds to zero steps. */
static void affine_fit(const float *x, int n, int most, float *scale, float *bias)
{
    float low = x[0], high = x[0];
    for (int i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float step = (high - low) / (float)most;
    step = step > 1e-7f ? step : 1e-7f;
    const bool below = fabsf(low) > fabsf(high);
    const float edge = below ? low : high;
    *scale = below ? step : -step;
    *bias = 0.0f;
    const float steps = rintf(edge / *scale);
    if (steps != 0.0f) {
        *scale = edge / steps;
        *bias = edge;
    }
}

static void affine_group(const mica__mlx_spec *spec, const float *x, int64_t g, uint8_t *codes,
                         uint8_t *scales, uint8_t *biases)
{
    const int most = (1 << spec->bits) - 1;
    float scale, bias;
    affine_fit(x, spec->group_size, most, &scale, &bias);
    for (int i = 0; i < spec->group_size; i++) {
        float q = rintf((x[i] - bias) / scale);
        q = q > 0.0f ? q : 0.0f;
        q = q < (float)most ? q : (float)most;
        put_code(codes, spec->bits, g * spec->group_size + i, (unsigned)q);
    }
    store_scale(spec->dtype, scales, g, scale);
    store_scale(spec->dtype, biases, g, bias);
}

static float largest(const float *x, int n)
{
    float most = 0.0f;
    for (int i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* The byte of the least power of two that is at least `ratio`; 127 for zero. */
static uint8_t e8m0_above(float ratio)
{
    if (ratio == 0.0f)
        return 127;
    int e;
    const float fraction = frexpf(ratio, &e); /* ratio = fraction * 2^e, fraction in [1/2, 1) */
    const int byte = (fraction == 0.5f ? e - 1 : e) + 127;
    return (uint8_t)(byte < 0 ? 0 : byte > 254 ? 254 : byte);
}

static void power_group(const mica__mlx_spec *spec, const float *x, int64_t g, uint8_t *codes,
                        uint8_t *scales)
{
    const bool eight = spec->format == MICA__MLX_MXFP8;
    const float most = largest(x, spec->group_size);
    scales[g] = e8m0_above(round_to(spec->dtype, most / (eight ? E4M3_MAX : E2M1_MAX)));
    const float scale = e8m0_to_f32(scales[g]);
    for (int i = 0; i < spec->group_size; i++) {
        const float ratio = round_to(spec->dtype, x[i] / scale);
        put_code(codes, spec->bits, g * spec->group_size + i,
                 eight ? mica__f32_to_e4m3(ratio) : f32_to_e2m1(ratio));
    }
}

static void nvfp4_group(const mica__mlx_spec *spec, const float *x, int64_t g, uint8_t *codes,
                        uint8_t *scales)
{
    const float enc = spec->global_scale > 0.0f ? E2M1_MAX * E4M3_MAX / spec->global_scale : 1.0f;
    const float ratio = round_to(spec->dtype, largest(x, spec->group_size) / E2M1_MAX);
    scales[g] = mica__f32_to_e4m3(ratio * enc);
    const float scale = mica__e4m3_to_f32(scales[g]);
    for (int i = 0; i < spec->group_size; i++) {
        const float q = scale > 0.0f ? round_to(spec->dtype, x[i] / scale) * enc : 0.0f;
        put_code(codes, spec->bits, g * spec->group_size + i, f32_to_e2m1(q));
    }
}

mica_status mica__mlx_encode(const mica__mlx_spec *spec, const float *values, int64_t k,
                             uint8_t *codes, uint8_t *scales, uint8_t *biases)
{
    MICA_TRY(mica__mlx_check(spec, k));
    for (int64_t i = 0; i < k; i++)
        if (!(fabsf(values[i]) <= 0x1p126f))
            MICA_FAIL(MICA_E_ARGUMENT, "value %lld of a row is not finite or too large for %s",
                      (long long)i, mica__block_info_of(spec->format)->name);
    memset(codes, 0, (size_t)mica__mlx_code_bytes(spec, k));
    for (int64_t g = 0; g < k / spec->group_size; g++) {
        const float *x = values + g * spec->group_size;
        if (spec->format == MICA__MLX_AFFINE)
            affine_group(spec, x, g, codes, scales, biases);
        else if (spec->format == MICA__MLX_NVFP4)
            nvfp4_group(spec, x, g, codes, scales);
        else
            power_group(spec, x, g, codes, scales);
    }
    return MICA_OK;
}
