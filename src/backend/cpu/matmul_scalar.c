/* matmul_scalar.c - the products with weights in plain C: complete, and what every level must
 * equal.
 *
 * One output at a time, in the orders of docs/numerics.md, with no thought of speed.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/act8.h"
#include "backend/cpu/qgroup.h"
#include "base/bytes.h"
#include "base/half.h"

/* --- rounding activations --------------------------------------------------------------------- */

/* To the nearest integer, ties to even, for |v| < 2^22. */
static float round_even(float v)
{
    return (v + 12582912.0f) - 12582912.0f;
}

static void quantize_group(const float *x, int64_t group, int8_t *codes, float *scale)
{
    float amax = 0;
    bool finite = true;
    for (int64_t i = 0; i < group; i++) {
        const float a = fabsf(x[i]);
        finite = finite && a <= 3.40282347e38f;
        amax = a > amax ? a : amax;
    }
    const bool any = finite && amax >= MICA__ACT8_MIN;
    const float inverse = any ? 127.0f / amax : 0.0f;
    *scale = !finite ? NAN : any ? amax / 127.0f : 0.0f;
    for (int64_t i = 0; i < group; i++) {
        float v = any ? round_even(x[i] * inverse) : 0.0f;
        v = v > 127 ? 127 : v < -127 ? -127 : v;
        codes[i] = (int8_t)v;
    }
}

static void quantize_row(const float *x, int64_t k, int64_t group, uint8_t *row)
{
    memset(row, 0, (size_t)mica__act8_row_bytes(k, group));
    int8_t *codes = (int8_t *)row;
    float *scales = mica__act8_scales(row, k);
    int16_t *sums = mica__act8_sums(row, k, group);
    for (int64_t g = 0; g < k / group; g++)
        quantize_group(x + g * group, group, codes + g * group, &scales[g]);
    for (int64_t i = 0; i < k; i++)
        sums[i / 16] = (int16_t)(sums[i / 16] + codes[i]);
}

static void dequantize(const mica__qweight *w, int64_t row, int64_t k0, int64_t n, float *out)
{
    mica__qgroup_dequantize(w, row, k0, n, out);
}

/* --- products with rounded activations -------------------------------------------------------- */

static int32_t dot(const int16_t *code, const int8_t *a, int64_t n)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += code[i] * a[i];
    return sum;
}

static int32_t sum_of(const int8_t *a, int64_t n)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i];
    return sum;
}

/* What a group adds to the accumulator, before the activations' scale. fma(.., +0) is a product
 * whose zero is +0. */
static float group_term(const mica__qweight *w, const mica__qgroup *g, const int8_t *a)
{
    if (w->form == MICA__FORM_SCALE)
        return fmaf(g->d, (float)dot(g->code, a, w->group), 0.0f);
    if (w->form == MICA__FORM_BIAS) {
        const float t = fmaf(g->d, (float)dot(g->code, a, w->group), 0.0f);
        return fmaf(g->m, (float)sum_of(a, w->group), t);
    }
    int32_t s = 0, m = 0;
    for (int i = 0; i < 256 / w->sub; i++) {
        s += g->scale[i] * dot(g->code + i * w->sub, a + i * w->sub, w->sub);
        if (w->form == MICA__FORM_SUPER_MIN)
            m += g->min[i] * sum_of(a + i * w->sub, w->sub);
    }
    if (w->form == MICA__FORM_SUPER)
        return fmaf(g->d, (float)s, 0.0f);
    const float minima = g->m * (float)m;
    return fmaf(g->d, (float)s, -minima);
}

/* Calls f for every wanted row; acc is where its product with the first activation row goes. */
static void each_row(const mica__strip *strip,
                     void (*f)(const mica__strip *strip, int64_t row, float *acc))
{
    for (int p = 0; p < strip->n_panels; p++) {
        const mica__panel_rows *rows = &strip->panels[p];
        for (int i = rows->from; i < rows->to; i++)
            f(strip, rows->first + i * rows->step, strip->acc + 16 * p + i);
    }
}

static void row_i8(const mica__strip *strip, int64_t row, float *first)
{
    const mica__qweight *w = strip->weight;
    for (int m = 0; m < strip->n_acts; m++)
        first[m * strip->n_panels * 16] = 0;
    for (int64_t g = 0; g < w->k / w->group; g++) {
        mica__qgroup group;
        mica__qgroup_read(w, row, g, &group);
        for (int m = 0; m < strip->n_acts; m++) {
            float *acc = &first[m * strip->n_panels * 16];
            const uint8_t *act = strip->acts[m];
            const float sa = mica__act8_scales((uint8_t *)act, w->k)[g];
            *acc = fmaf(sa, group_term(w, &group, (const int8_t *)act + g * w->group), *acc);
        }
    }
}

static void strip_i8(const mica__strip *strip)
{
    each_row(strip, row_i8);
}

static size_t no_scratch(const mica__qweight *w)
{
    (void)w;
    return 0;
}

/* --- products in f32 -------------------------------------------------------------------------- */

static float lanes_tree(float lane[16])
{
    for (int width = 8; width; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] = lane[i] + lane[i + width];
    return lane[0];
}

/* One block of at most 1024 values; a short last group of 16 is filled up with zeros. */
static float dot_block(const float *w, const float *x, int64_t n)
{
    float lane[16] = {0};
    for (int64_t i = 0; i < (n + 15) / 16 * 16; i++)
        lane[i % 16] = i < n ? fmaf(w[i], x[i], lane[i % 16]) : fmaf(0.0f, 0.0f, lane[i % 16]);
    return lanes_tree(lane);
}

static void row_f32(const mica__strip *strip, int64_t row, float *first)
{
    const mica__qweight *w = strip->weight;
    float values[1024];
    for (int m = 0; m < strip->n_acts; m++)
        first[m * strip->n_panels * 16] = 0;
    for (int64_t k0 = 0; k0 < w->k; k0 += 1024) {
        const int64_t n = w->k - k0 < 1024 ? w->k - k0 : 1024;
        mica__qgroup_dequantize(w, row, k0, n, values);
        for (int m = 0; m < strip->n_acts; m++) {
            float *acc = &first[m * strip->n_panels * 16];
            *acc = *acc + dot_block(values, (const float *)strip->acts[m] + k0, n);
        }
    }
}

static void strip_f32(const mica__strip *strip)
{
    each_row(strip, row_f32);
}

static float element(const uint8_t *at, mica__block_format format, int64_t i)
{
    if (format == MICA__F16)
        return mica__f16_to_f32(mica__load_u16(at + 2 * i));
    if (format == MICA__BF16)
        return mica__bf16_to_f32(mica__load_u16(at + 2 * i));
    return mica__load_f32(at + 4 * i);
}

static void columns(const mica__columns *c)
{
    for (int m = 0; m < c->n_acts; m++) {
        const float *x = c->acts[m];
        for (int j = 0; j < c->n; j++) {
            float acc = 0;
            for (int64_t i = 0; i < c->k; i++)
                acc = fmaf(x[i], element(c->b + i * c->stride_bytes, c->format, j), acc);
            c->acc[m * MICA__STRIP_ROWS + j] = acc;
        }
    }
}

static void to_f32(mica_dtype dtype, const uint8_t *in, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = element(in, dtype == MICA_F16 ? MICA__F16 : MICA__BF16, i);
}

static void from_f32(mica_dtype dtype, const float *in, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i++)
        mica__store_u16(out + 2 * i,
                        dtype == MICA_F16 ? mica__f32_to_f16(in[i]) : mica__f32_to_bf16(in[i]));
}

const mica__i8_level mica__i8_scalar = {strip_i8, no_scratch};

const mica__float_level mica__float_scalar = {
    .quantize_row = quantize_row,
    .dequantize = dequantize,
    .strip = strip_f32,
    .strip_scratch = no_scratch,
    .columns = columns,
    .columns_scratch = 0,
    .to_f32 = to_f32,
    .from_f32 = from_f32,
};
