/* block_encode.c - float32 values into stored blocks, with ggml's reference rounding.
 *
 * The scale is computed in float32, its inverse multiplies the values, codes are rounded from the
 * products, and only then is the scale rounded to f16: the order that the published encoders have,
 * so the same values give the same bytes. No multiply-add may be fused here (the build forbids
 * contraction). Beyond those encoders: values that are not finite, and scales that do not fit f16,
 * are refused (what was written then is undefined); a scale so small that its inverse overflows
 * counts as zero, which is what f16 makes of it.
 * SPDX-License-Identifier: MIT
 */
#include "io/block_codec.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"

/* The largest magnitude that rounds to a finite f16. */
#define HALF_MAX 65519.99609375f

static void store_half(uint8_t *at, float v)
{
    mica__store_u16(at, mica__f32_to_f16(v));
}

static float inverse(float d)
{
    const float inverted = d != 0.0f ? 1.0f / d : 0.0f;
    return isfinite(inverted) ? inverted : 0.0f;
}

/* --- plain elements --------------------------------------------------------------------------- */

static bool encode_f32(const float *x, uint8_t *b)
{
    mica__store_f32(b, *x);
    return true;
}

static bool encode_f16(const float *x, uint8_t *b)
{
    store_half(b, *x);
    return true;
}

static bool encode_bf16(const float *x, uint8_t *b)
{
    mica__store_u16(b, mica__f32_to_bf16(*x));
    return true;
}

static bool encode_f64(const float *x, uint8_t *b)
{
    const double v = *x;
    memcpy(b, &v, sizeof v);
    return true;
}

/* --- groups of 32; false when the scale or minimum does not fit f16 --------------------------- */

/* The value of largest magnitude, the first of equals. */
static float extreme(const float *x)
{
    float best = 0.0f, magnitude = 0.0f;
    for (int j = 0; j < 32; j++)
        if (fabsf(x[j]) > magnitude) {
            magnitude = fabsf(x[j]);
            best = x[j];
        }
    return best;
}

static void range(const float *x, float *min, float *max)
{
    *min = *max = x[0];
    for (int j = 1; j < 32; j++) {
        *min = x[j] < *min ? x[j] : *min;
        *max = x[j] > *max ? x[j] : *max;
    }
}

/* A code from a value that is at least -0.5 + the rounding offset: truncated, capped. */
static uint8_t code(float v, int most)
{
    const int q = (int)v;
    return (uint8_t)(q < most ? q : most);
}

static void put_nibbles(const uint8_t *codes, uint8_t *b)
{
    for (int j = 0; j < 16; j++)
        b[j] = (uint8_t)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}

static void put_fifth_bits(const uint8_t *codes, uint8_t *b)
{
    uint32_t high = 0;
    for (int j = 0; j < 32; j++)
        high |= (uint32_t)(codes[j] >> 4 & 1) << j;
    mica__store_u32(b, high);
}

/* Codes of the symmetric formats: the extreme value becomes -centre. */
static float symmetric_codes(const float *x, int centre, uint8_t *codes)
{
    const float d = extreme(x) / (float)-centre;
    const float scale = inverse(d);
    for (int j = 0; j < 32; j++)
        codes[j] = code(x[j] * scale + ((float)centre + 0.5f), 2 * centre - 1);
    return d;
}

/* Codes of the formats with a minimum. */
static float offset_codes(const float *x, int most, float *min, uint8_t *codes)
{
    float max;
    range(x, min, &max);
    const float d = (max - *min) / (float)most;
    const float scale = inverse(d);
    if (isfinite(d))
        for (int j = 0; j < 32; j++)
            codes[j] = code((x[j] - *min) * scale + 0.5f, most);
    return d;
}

static bool encode_q4_0(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    const float d = symmetric_codes(x, 8, codes);
    store_half(b, d);
    put_nibbles(codes, b + 2);
    return fabsf(d) <= HALF_MAX;
}

static bool encode_q4_1(const float *x, uint8_t *b)
{
    uint8_t codes[32] = {0};
    float min;
    const float d = offset_codes(x, 15, &min, codes);
    store_half(b, d);
    store_half(b + 2, min);
    put_nibbles(codes, b + 4);
    return d <= HALF_MAX && fabsf(min) <= HALF_MAX;
}

static bool encode_q5_0(const float *x, uint8_t *b)
{
    uint8_t codes[32];
    const float d = symmetric_codes(x, 16, codes);
    store_half(b, d);
    put_fifth_bits(codes, b + 2);
    put_nibbles(codes, b + 6);
    return fabsf(d) <= HALF_MAX;
}

static bool encode_q5_1(const float *x, uint8_t *b)
{
    uint8_t codes[32] = {0};
    float min;
    const float d = offset_codes(x, 31, &min, codes);
    store_half(b, d);
    store_half(b + 2, min);
    put_fifth_bits(codes, b + 4);
    put_nibbles(codes, b + 8);
    return d <= HALF_MAX && fabsf(min) <= HALF_MAX;
}

static bool encode_q8_0(const float *x, uint8_t *b)
{
    const float d = fabsf(extreme(x)) / 127.0f;
    const float scale = inverse(d);
    store_half(b, d);
    for (int j = 0; j < 32; j++)
        b[2 + j] = (uint8_t)(int8_t)roundf(x[j] * scale); /* halves away from zero */
    return d <= HALF_MAX;
}

/* The E2M1 code whose doubled value times d is nearest to x; the lower code of equals. */
static uint8_t nearest_e2m1(float x, float d)
{
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    uint8_t best = 0;
    for (uint8_t i = 1; i < 16; i++)
        if (fabsf((float)doubled[i] * d - x) < fabsf((float)doubled[best] * d - x))
            best = i;
    return best;
}

/* The exponent is floor(log2(largest magnitude)) - 2, taken exactly. */
static bool encode_mxfp4(const float *x, uint8_t *b)
{
    const float largest = fabsf(extreme(x));
    int e = 0;
    if (largest > 0.0f) {
        frexpf(largest, &e); /* largest = f * 2^e with f in [1/2, 1) */
        e = e - 1 - 2 + 127;
        e = e > 0 ? e : 0;
    }
    const float d = ldexpf(1.0f, e - 128);
    uint8_t codes[32];
    for (int j = 0; j < 32; j++)
        codes[j] = nearest_e2m1(x[j], d);
    b[0] = (uint8_t)e;
    put_nibbles(codes, b + 1);
    return true;
}

typedef bool (*block_encoder)(const float *values, uint8_t *block);

static const block_encoder encoders[MICA__N_FORMATS] = {
    [MICA__F32] = encode_f32,     [MICA__F16] = encode_f16,   [MICA__BF16] = encode_bf16,
    [MICA__F64] = encode_f64,     [MICA__Q4_0] = encode_q4_0, [MICA__Q4_1] = encode_q4_1,
    [MICA__Q5_0] = encode_q5_0,   [MICA__Q5_1] = encode_q5_1, [MICA__Q8_0] = encode_q8_0,
    [MICA__MXFP4] = encode_mxfp4,
};

bool mica__block_can_encode(mica__block_format format)
{
    return encoders[format] != NULL;
}

mica_status mica__block_encode(mica__block_format format, const float *values, int64_t k,
                               uint8_t *blocks)
{
    const mica__block_info *facts = mica__block_info_of(format);
    if (!encoders[format])
        MICA_FAIL(MICA_E_UNSUPPORTED, "encoding %s is not supported", facts->name);
    if (mica__block_row_bytes(format, k) < 0)
        MICA_FAIL(MICA_E_SHAPE, "a row of %lld values does not divide into %s blocks of %d",
                  (long long)k, facts->name, facts->values);
    if (facts->values > 1)
        for (int64_t i = 0; i < k; i++)
            if (!isfinite(values[i]))
                MICA_FAIL(MICA_E_ARGUMENT, "value %lld of a row is not finite: %s cannot hold it",
                          (long long)i, facts->name);
    for (int64_t i = 0; i < k / facts->values; i++)
        if (!encoders[format](values + i * facts->values, blocks + i * facts->bytes))
            MICA_FAIL(MICA_E_ARGUMENT, "values %lld to %lld of a row are too large for %s",
                      (long long)(i * facts->values), (long long)((i + 1) * facts->values - 1),
                      facts->name);
    return MICA_OK;
}
