/* block_decode.c - one function per stored layout: a block in, its float32 values out.
 *
 * Invariant: the last operation on a weight is its only rounding. Products of an f16 with an
 * integer of at most 13 bits are exact in float32; where scale and code together need more, they
 * are multiplied as integers first.
 * SPDX-License-Identifier: MIT
 */
#include "io/block_codec.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"

static float load_half(const uint8_t *at)
{
    return mica__f16_to_f32(mica__load_u16(at));
}

/* --- plain elements --------------------------------------------------------------------------- */

/* Double to float, defined outside the range too. */
static float narrow(double v)
{
    if (fabs(v) >= 0x1.ffffffp127) /* half a unit beyond the largest float */
        return v > 0 ? INFINITY : -INFINITY;
    return (float)v;
}

/* Whether the format is a plain one, with its k elements decoded. */
static bool decode_plain(mica__block_format format, const uint8_t *b, int64_t k, float *out)
{
    switch ((int)format) {
    case MICA__F32:
        memcpy(out, b, (size_t)k * sizeof *out);
        return true;
    case MICA__F16:
        for (int64_t i = 0; i < k; i++)
            out[i] = load_half(b + 2 * i);
        return true;
    case MICA__BF16:
        for (int64_t i = 0; i < k; i++)
            out[i] = mica__bf16_to_f32(mica__load_u16(b + 2 * i));
        return true;
    case MICA__F64:
        for (int64_t i = 0; i < k; i++)
            out[i] = narrow(mica__load_f64(b + 8 * i));
        return true;
    default:
        return false;
    }
}

/* --- groups of 32 ----------------------------------------------------------------------------- */

static void decode_q4_0(const uint8_t *b, float *out)
{
    const float d = load_half(b);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)((b[2 + j] & 15) - 8);
        out[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
    }
}

static void decode_q4_1(const uint8_t *b, float *out)
{
    const float d = load_half(b), m = load_half(b + 2);
    for (int j = 0; j < 16; j++) {
        out[j] = fmaf((float)(b[4 + j] & 15), d, m);
        out[j + 16] = fmaf((float)(b[4 + j] >> 4), d, m);
    }
}

/* Code j of a block with 16 bytes of nibbles and a word of fifth bits. */
static int five_bits(const uint8_t *nibbles, uint32_t high, int j)
{
    const int low = j < 16 ? nibbles[j] & 15 : nibbles[j - 16] >> 4;
    return low | (int)((high >> j) & 1u) << 4;
}

static void decode_q5_0(const uint8_t *b, float *out)
{
    const float d = load_half(b);
    const uint32_t high = mica__load_u32(b + 2);
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)(five_bits(b + 6, high, j) - 16);
}

static void decode_q5_1(const uint8_t *b, float *out)
{
    const float d = load_half(b), m = load_half(b + 2);
    const uint32_t high = mica__load_u32(b + 4);
    for (int j = 0; j < 32; j++)
        out[j] = fmaf((float)five_bits(b + 8, high, j), d, m);
}

static void decode_q8_0(const uint8_t *b, float *out)
{
    const float d = load_half(b);
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)(int8_t)b[2 + j];
}

/* The 4-bit values of IQ4_NL and IQ4_XS. */
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

/* Twice the E2M1 values. */
static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void decode_iq4_nl(const uint8_t *b, float *out)
{
    const float d = load_half(b);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)iq4_values[b[2 + j] & 15];
        out[j + 16] = d * (float)iq4_values[b[2 + j] >> 4];
    }
}

/* 2^(e - 128): e 0 and 1 are subnormal floats. */
static float half_e8m0(uint8_t e)
{
    return mica__f32_from_bits(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23);
}

static void decode_mxfp4(const uint8_t *b, float *out)
{
    const float d = half_e8m0(b[0]);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)e2m1_doubled[b[1 + j] & 15];
        out[j + 16] = d * (float)e2m1_doubled[b[1 + j] >> 4];
    }
}

/* --- super-blocks of 256 ---------------------------------------------------------------------- */

static void decode_q2_k(const uint8_t *b, float *out)
{
    const uint8_t *scales = b, *codes = b + 16;
    const float d = load_half(b + 80), dmin = load_half(b + 82);
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, j = i % 128 / 32, l = i % 32;
        const int q = codes[32 * half + l] >> (2 * j) & 3;
        const uint8_t s = scales[i / 16];
        out[i] = fmaf(d, (float)((s & 15) * q), -(dmin * (float)(s >> 4)));
    }
}

static void decode_q3_k(const uint8_t *b, float *out)
{
    const uint8_t *third = b, *codes = b + 32, *packed = b + 96;
    const float d = load_half(b + 108);
    int scales[16];
    for (int i = 0; i < 16; i++) {
        const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
        const int high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
        scales[i] = (low | high << 4) - 32;
    }
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, j = i % 128 / 32, l = i % 32;
        const int low = codes[32 * half + l] >> (2 * j) & 3;
        const int q = third[l] >> (4 * half + j) & 1 ? low : low - 4;
        out[i] = d * (float)(scales[i / 16] * q);
    }
}

/* Scale and minimum of sub-block j (of 8) from the 12 packed bytes of Q4_K and Q5_K. */
static void unpack_scale_min(const uint8_t *b, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = b[j] & 63;
        *min = b[j + 4] & 63;
    } else {
        *scale = (b[j + 4] & 15) | b[j - 4] >> 6 << 4;
        *min = b[j + 4] >> 4 | b[j] >> 6 << 4;
    }
}

static void decode_q4_k(const uint8_t *b, float *out)
{
    const float d = load_half(b), dmin = load_half(b + 2);
    const uint8_t *codes = b + 16;
    for (int j = 0; j < 8; j++) {
        int scale, min;
        unpack_scale_min(b + 4, j, &scale, &min);
        const float offset = -(dmin * (float)min);
        for (int l = 0; l < 32; l++) {
            const int q = codes[j / 2 * 32 + l] >> (j % 2 * 4) & 15;
            out[j * 32 + l] = fmaf(d, (float)(scale * q), offset);
        }
    }
}

static void decode_q5_k(const uint8_t *b, float *out)
{
    const float d = load_half(b), dmin = load_half(b + 2);
    const uint8_t *fifth = b + 16, *codes = b + 48;
    for (int j = 0; j < 8; j++) {
        int scale, min;
        unpack_scale_min(b + 4, j, &scale, &min);
        const float offset = -(dmin * (float)min);
        for (int l = 0; l < 32; l++) {
            const int low = codes[j / 2 * 32 + l] >> (j % 2 * 4) & 15;
            const int q = low | (fifth[l] >> j & 1) << 4;
            out[j * 32 + l] = fmaf(d, (float)(scale * q), offset);
        }
    }
}

static void decode_q6_k(const uint8_t *b, float *out)
{
    const uint8_t *scales = b + 192;
    const float d = load_half(b + 208);
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, part = i % 128 / 32, l = i % 32;
        const int low = b[64 * half + 32 * (part % 2) + l] >> (part / 2 * 4) & 15;
        const int high = b[128 + 32 * half + l] >> (2 * part) & 3;
        out[i] = d * (float)((int8_t)scales[i / 16] * ((low | high << 4) - 32));
    }
}

static void decode_iq4_xs(const uint8_t *b, float *out)
{
    const float d = load_half(b);
    const uint16_t scales_high = mica__load_u16(b + 2);
    for (int j = 0; j < 8; j++) {
        const int low = b[4 + j / 2] >> (j % 2 * 4) & 15;
        const int scale = (low | (scales_high >> (2 * j) & 3) << 4) - 32;
        const uint8_t *codes = b + 8 + 16 * j;
        for (int l = 0; l < 16; l++) {
            out[j * 32 + l] = d * (float)(scale * iq4_values[codes[l] & 15]);
            out[j * 32 + l + 16] = d * (float)(scale * iq4_values[codes[l] >> 4]);
        }
    }
}

typedef void (*block_decoder)(const uint8_t *block, float *out);

static const block_decoder decoders[MICA__N_FORMATS] = {
    [MICA__Q4_0] = decode_q4_0,   [MICA__Q4_1] = decode_q4_1,     [MICA__Q5_0] = decode_q5_0,
    [MICA__Q5_1] = decode_q5_1,   [MICA__Q8_0] = decode_q8_0,     [MICA__Q2_K] = decode_q2_k,
    [MICA__Q3_K] = decode_q3_k,   [MICA__Q4_K] = decode_q4_k,     [MICA__Q5_K] = decode_q5_k,
    [MICA__Q6_K] = decode_q6_k,   [MICA__IQ4_NL] = decode_iq4_nl, [MICA__IQ4_XS] = decode_iq4_xs,
    [MICA__MXFP4] = decode_mxfp4,
};

static mica_status check_row(mica__block_format format, int64_t k)
{
    const mica__block_info *facts = mica__block_info_of(format);
    if (mica__block_row_bytes(format, k) < 0)
        MICA_FAIL(MICA_E_SHAPE, "a row of %lld values does not divide into %s blocks of %d",
                  (long long)k, facts->name, facts->values);
    return MICA_OK;
}

mica_status mica__block_decode(mica__block_format format, const uint8_t *blocks, int64_t k,
                               float *out)
{
    const mica__block_info *facts = mica__block_info_of(format);
    const bool plain = facts->has_decoder && facts->values == 1;
    if (!plain && !decoders[format])
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "%s weights are not supported yet: use a file of the model in Q4_K, Q8_0 or "
                  "another of the common types",
                  facts->name);
    MICA_TRY(check_row(format, k));
    if (decode_plain(format, blocks, k, out))
        return MICA_OK;
    for (int64_t i = 0; i < k / facts->values; i++)
        decoders[format](blocks + i * facts->bytes, out + i * facts->values);
    return MICA_OK;
}

/* Where the f16 scales of a block stand; -1: no further one. */
static void scale_offsets(mica__block_format format, int offsets[2])
{
    offsets[0] = offsets[1] = -1;
    switch (format) {
    case MICA__Q4_1:
    case MICA__Q5_1:
    case MICA__Q4_K:
    case MICA__Q5_K:
        offsets[1] = 2;
        offsets[0] = 0;
        break;
    case MICA__Q4_0:
    case MICA__Q5_0:
    case MICA__Q8_0:
    case MICA__IQ4_NL:
    case MICA__IQ4_XS:
        offsets[0] = 0;
        break;
    case MICA__Q2_K:
        offsets[0] = 80;
        offsets[1] = 82;
        break;
    case MICA__Q3_K:
        offsets[0] = 108;
        break;
    case MICA__Q6_K:
        offsets[0] = 208;
        break;
    default:
        break;
    }
}

mica_status mica__block_check_scales(mica__block_format format, const uint8_t *blocks, int64_t k,
                                     int64_t *bad)
{
    const mica__block_info *facts = mica__block_info_of(format);
    MICA_TRY(check_row(format, k));
    int offsets[2];
    scale_offsets(format, offsets);
    for (int64_t i = 0; i < k / facts->values; i++) {
        const uint8_t *block = blocks + i * facts->bytes;
        bool finite = format != MICA__MXFP4 || block[0] != 255;
        for (int s = 0; s < 2 && offsets[s] >= 0; s++)
            finite = finite && (mica__load_u16(block + offsets[s]) & 0x7c00) != 0x7c00;
        if (!finite) {
            *bad = i;
            MICA_FAIL(MICA_E_FORMAT, "block %lld of a %s row has a scale that is not finite",
                      (long long)i, facts->name);
        }
    }
    return MICA_OK;
}
