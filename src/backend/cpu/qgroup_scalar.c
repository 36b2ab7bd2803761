/* qgroup_scalar.c - the stored layouts, one function each.
 *
 * Invariant of dequantising: the last operation on a weight is its only rounding. Layouts: GGUF
 * specification and ggml's block structures; MLX's quantize (element k of a row at bit k * bits).
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/qgroup.h"

#include <math.h>

#include "base/bytes.h"
#include "base/half.h"

const int8_t mica__iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
const int8_t mica__e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float mica__half_e8m0(uint8_t e)
{
    return mica__f32_from_bits(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23);
}

float mica__e4m3(uint8_t b)
{
    const int exponent = b >> 3 & 15, fraction = b & 7;
    float v;
    if (exponent == 15 && fraction == 7)
        v = NAN;
    else if (exponent == 0)
        v = (float)fraction * 0x1p-9f;
    else
        v = mica__f32_from_bits((uint32_t)(exponent + 120) << 23 | (uint32_t)fraction << 20);
    return b & 128 ? -v : v;
}

float mica__mlx_scale(mica_dtype dtype, const uint8_t *at, int64_t i)
{
    if (dtype == MICA_F16)
        return mica__f16_to_f32(mica__load_u16(at + 2 * i));
    if (dtype == MICA_BF16)
        return mica__bf16_to_f32(mica__load_u16(at + 2 * i));
    return mica__load_f32(at + 4 * i);
}

static float half_at(const uint8_t *at)
{
    return mica__f16_to_f32(mica__load_u16(at));
}

/* --- GGUF, groups of 32 ----------------------------------------------------------------------- */

static void nibbles(const uint8_t *b, int16_t *code)
{
    for (int j = 0; j < 16; j++) {
        code[j] = b[j] & 15;
        code[j + 16] = b[j] >> 4;
    }
}

static void add_fifth_bits(const uint8_t *b, int16_t *code)
{
    const uint32_t high = mica__load_u32(b);
    for (int j = 0; j < 32; j++)
        code[j] = (int16_t)(code[j] | (high >> j & 1) << 4);
}

static void add_to_codes(int16_t *code, int n, int offset)
{
    for (int j = 0; j < n; j++)
        code[j] = (int16_t)(code[j] + offset);
}

static void through_table(int16_t *code, int n, const int8_t *table)
{
    for (int j = 0; j < n; j++)
        code[j] = table[code[j]];
}

static void read_32(mica__block_format format, const uint8_t *b, mica__qgroup *out)
{
    out->d = format == MICA__MXFP4 ? mica__half_e8m0(b[0]) : half_at(b);
    switch (format) {
    case MICA__Q4_0:
        nibbles(b + 2, out->code);
        add_to_codes(out->code, 32, -8);
        break;
    case MICA__Q4_1:
        out->m = half_at(b + 2);
        nibbles(b + 4, out->code);
        break;
    case MICA__Q5_0:
        nibbles(b + 6, out->code);
        add_fifth_bits(b + 2, out->code);
        add_to_codes(out->code, 32, -16);
        break;
    case MICA__Q5_1:
        out->m = half_at(b + 2);
        nibbles(b + 8, out->code);
        add_fifth_bits(b + 4, out->code);
        break;
    case MICA__IQ4_NL:
        nibbles(b + 2, out->code);
        through_table(out->code, 32, mica__iq4_values);
        break;
    case MICA__MXFP4:
        nibbles(b + 1, out->code);
        through_table(out->code, 32, mica__e2m1_doubled);
        break;
    default: /* Q8_0 */
        for (int j = 0; j < 32; j++)
            out->code[j] = (int8_t)b[2 + j];
        break;
    }
}

/* --- GGUF, super-blocks of 256 ---------------------------------------------------------------- */

static void q2_k_scales(const uint8_t *b, mica__qgroup *out)
{
    out->d = half_at(b + 80);
    out->m = half_at(b + 82);
    for (int i = 0; i < 16; i++) {
        out->scale[i] = b[i] & 15;
        out->min[i] = b[i] >> 4;
    }
}

static void q3_k_scales(const uint8_t *b, mica__qgroup *out)
{
    const uint8_t *packed = b + 96;
    out->d = half_at(b + 108);
    for (int i = 0; i < 16; i++) {
        const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
        const int high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
        out->scale[i] = (int16_t)((low | high << 4) - 32);
    }
}

/* Of Q4_K and Q5_K: 12 bytes of 6-bit scales and minima. */
static void q4_k_scales(const uint8_t *b, mica__qgroup *out)
{
    out->d = half_at(b);
    out->m = half_at(b + 2);
    b += 4;
    for (int j = 0; j < 4; j++) {
        out->scale[j] = b[j] & 63;
        out->min[j] = b[j + 4] & 63;
        out->scale[j + 4] = (int16_t)((b[j + 8] & 15) | b[j] >> 6 << 4);
        out->min[j + 4] = (int16_t)(b[j + 8] >> 4 | b[j + 4] >> 6 << 4);
    }
}

static void q6_k_scales(const uint8_t *b, mica__qgroup *out)
{
    out->d = half_at(b + 208);
    for (int i = 0; i < 16; i++)
        out->scale[i] = (int8_t)b[192 + i];
}

static void iq4_xs_scales(const uint8_t *b, mica__qgroup *out)
{
    const uint16_t high = mica__load_u16(b + 2);
    out->d = half_at(b);
    for (int j = 0; j < 8; j++) {
        const int low = b[4 + j / 2] >> (j % 2 * 4) & 15;
        out->scale[j] = (int16_t)((low | (high >> (2 * j) & 3) << 4) - 32);
    }
}

void mica__qgroup_scales(mica__block_format format, const uint8_t *block, mica__qgroup *out)
{
    switch (format) {
    case MICA__Q2_K:
        q2_k_scales(block, out);
        break;
    case MICA__Q3_K:
        q3_k_scales(block, out);
        break;
    case MICA__Q4_K:
    case MICA__Q5_K:
        q4_k_scales(block, out);
        break;
    case MICA__Q6_K:
        q6_k_scales(block, out);
        break;
    default:
        iq4_xs_scales(block, out);
        break;
    }
}

static void q2_k_codes(const uint8_t *b, int16_t *code)
{
    for (int i = 0; i < 256; i++)
        code[i] = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void q3_k_codes(const uint8_t *b, int16_t *code)
{
    for (int i = 0; i < 256; i++) {
        const int low = b[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        const int third = b[i % 32] >> (i / 32) & 1;
        code[i] = (int16_t)((low | third << 2) - 4);
    }
}

static void q4_k_codes(const uint8_t *b, int16_t *code)
{
    for (int i = 0; i < 256; i++)
        code[i] = b[16 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

static void q5_k_codes(const uint8_t *b, int16_t *code)
{
    for (int i = 0; i < 256; i++) {
        const int low = b[48 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
        const int fifth = b[16 + i % 32] >> (i / 32) & 1;
        code[i] = (int16_t)(low | fifth << 4);
    }
}

static void q6_k_codes(const uint8_t *b, int16_t *code)
{
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, part = i % 128 / 32, l = i % 32;
        const int low = b[64 * half + 32 * (part % 2) + l] >> (part / 2 * 4) & 15;
        const int high = b[128 + 32 * half + l] >> (2 * part) & 3;
        code[i] = (int16_t)((low | high << 4) - 32);
    }
}

static void iq4_xs_codes(const uint8_t *b, int16_t *code)
{
    for (int j = 0; j < 8; j++)
        nibbles(b + 8 + 16 * j, code + 32 * j);
    through_table(code, 256, mica__iq4_values);
}

/* --- MLX -------------------------------------------------------------------------------------- */

/* n codes of a dense little-endian bit stream. */
static void read_bits(const uint8_t *b, int bits, int64_t n, int16_t *code)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * bits;
        unsigned v = b[at / 8];
        if (at % 8 + bits > 8)
            v |= (unsigned)b[at / 8 + 1] << 8;
        code[i] = (int16_t)(v >> (at % 8) & ((1u << bits) - 1));
    }
}

static void read_mlx(const mica__qweight *w, int64_t row, int64_t g, mica__qgroup *out)
{
    const uint8_t *scales = w->scales + row * w->scales_stride;
    read_bits(w->codes + row * w->codes_stride + g * w->group * w->bits / 8, w->bits, w->group,
              out->code);
    if (w->format == MICA__MLX_AFFINE) {
        out->d = mica__mlx_scale(w->scales_dtype, scales, g);
        out->m = mica__mlx_scale(w->scales_dtype, w->biases + row * w->biases_stride, g);
    } else {
        out->d = mica__half_e8m0(scales[g]);
        through_table(out->code, (int)w->group, mica__e2m1_doubled);
    }
}

static void read_256(mica__block_format format, const uint8_t *b, mica__qgroup *out)
{
    mica__qgroup_scales(format, b, out);
    switch (format) {
    case MICA__Q2_K:
        q2_k_codes(b, out->code);
        break;
    case MICA__Q3_K:
        q3_k_codes(b, out->code);
        break;
    case MICA__Q4_K:
        q4_k_codes(b, out->code);
        break;
    case MICA__Q5_K:
        q5_k_codes(b, out->code);
        break;
    case MICA__Q6_K:
        q6_k_codes(b, out->code);
        break;
    default:
        iq4_xs_codes(b, out->code);
        break;
    }
}

void mica__qgroup_read(const mica__qweight *w, int64_t row, int64_t g, mica__qgroup *out)
{
    const mica__block_info *facts = mica__block_info_of(w->format);
    const uint8_t *b = w->codes + row * w->codes_stride + g * facts->bytes;
    if (facts->values == 256)
        read_256(w->format, b, out);
    else if (facts->values == 32)
        read_32(w->format, b, out);
    else
        read_mlx(w, row, g, out);
}

/* --- dequantising ----------------------------------------------------------------------------- */

static float group_value(const mica__qweight *w, const mica__qgroup *g, int64_t i)
{
    const int sub = (int)(i / w->sub);
    switch (w->form) {
    case MICA__FORM_SCALE:
        return g->d * (float)g->code[i];
    case MICA__FORM_BIAS:
        return fmaf((float)g->code[i], g->d, g->m);
    case MICA__FORM_SUPER:
        return g->d * (float)(g->scale[sub] * g->code[i]);
    default:
        return fmaf(g->d, (float)(g->scale[sub] * g->code[i]), -(g->m * (float)g->min[sub]));
    }
}

/* Double to float with the conversion defined outside the range too. */
static float f64_to_f32(double v)
{
    if (v >= 0x1.ffffffp127 || v <= -0x1.ffffffp127) /* half a unit beyond the largest float */
        return v > 0 ? INFINITY : -INFINITY;
    return (float)v;
}

static float plain_value(const mica__qweight *w, const uint8_t *row, int64_t i)
{
    switch (w->format) {
    case MICA__F16:
        return mica__f16_to_f32(mica__load_u16(row + 2 * i));
    case MICA__BF16:
        return mica__bf16_to_f32(mica__load_u16(row + 2 * i));
    case MICA__F64:
        return f64_to_f32(mica__load_f64(row + 8 * i));
    default:
        return mica__load_f32(row + 4 * i);
    }
}

/* Formats that have a decoder and no integer form. */
static float odd_value(const mica__qweight *w, int64_t row, int64_t i)
{
    const uint8_t *codes = w->codes + row * w->codes_stride;
    const uint8_t *scales = w->scales + row * w->scales_stride;
    if (w->format == MICA__MLX_MXFP8)
        return mica__e4m3(codes[i]) * 2 * mica__half_e8m0(scales[i / 32]);
    if (w->format == MICA__MLX_NVFP4)
        return mica__e4m3(scales[i / 16]) * 0.5f *
               (float)mica__e2m1_doubled[codes[i / 2] >> (i % 2 * 4) & 15];
    return plain_value(w, codes, i);
}

void mica__qgroup_dequantize(const mica__qweight *w, int64_t row, int64_t k0, int64_t n, float *out)
{
    if (w->form == MICA__FORM_NONE) {
        for (int64_t i = 0; i < n; i++)
            out[i] = odd_value(w, row, k0 + i);
        return;
    }
    mica__qgroup group;
    for (int64_t i = 0; i < n; i++) {
        if (i % w->group == 0)
            mica__qgroup_read(w, row, (k0 + i) / w->group, &group);
        out[i] = group_value(w, &group, i % w->group);
    }
}
