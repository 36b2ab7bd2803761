/* weights.c - packs matrices of known values into every stored format.
 * SPDX-License-Identifier: MIT
 */
#include "support/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"

uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double draw_unit(uint64_t *state)
{
    return (double)(draw(state) >> 11) * 0x1p-53;
}

double draw_signed(uint64_t *state)
{
    return draw_unit(state) * 2 - 1;
}

void draw_activations(float *x, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        const double v = draw_signed(&seed);
        x[i] = (float)(v * v * v * 4);
        if (draw(&seed) % 61 == 0)
            x[i] *= 30;
    }
}

/* --- scales ----------------------------------------------------------------------------------- */

static uint16_t draw_half(uint64_t *state, pattern kind)
{
    if (kind == PATTERN_LARGEST)
        return (uint16_t)(0x4c00 | (draw(state) & 0x83ff)); /* 16..32 with either sign */
    if (kind == PATTERN_TINY)
        return (uint16_t)(draw(state) & 0x83ff); /* subnormal */
    return mica__f32_to_f16((float)(draw_signed(state) * 0.02));
}

static double half_value(uint16_t h)
{
    return mica__f16_to_f32(h);
}

static unsigned draw_code(uint64_t *state, unsigned limit, pattern kind)
{
    if (kind == PATTERN_LARGEST)
        return draw(state) % 8 ? limit - 1 : 0;
    return (unsigned)(draw(state) % limit);
}

/* --- GGUF, groups of 32 ----------------------------------------------------------------------- */

static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                            1,    13,   25,  38,  53,  69,  89,  113};
static const double e2m1[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6};

static void pack_nibbles(const unsigned *q, uint8_t *out)
{
    for (int j = 0; j < 16; j++)
        out[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

static void pack_fifth(const unsigned *q, uint8_t *out)
{
    uint32_t bits = 0;
    for (int j = 0; j < 32; j++)
        bits |= (uint32_t)(q[j] >> 4) << j;
    mica__store_u32(out, bits);
}

static void make_32(int32_t format, uint8_t *b, double *v, pattern kind, uint64_t *state)
{
    unsigned q[32];
    const unsigned limit = format == MICA__Q8_0                           ? 256
                           : format == MICA__Q5_0 || format == MICA__Q5_1 ? 32
                                                                          : 16;
    for (int j = 0; j < 32; j++)
        q[j] = draw_code(state, limit, kind);
    const uint16_t d = draw_half(state, kind), m = draw_half(state, kind);
    if (format == MICA__MXFP4) {
        b[0] = (uint8_t)(kind == PATTERN_TINY ? draw(state) % 4 : 110 + draw(state) % 20);
        pack_nibbles(q, b + 1);
        for (int j = 0; j < 32; j++)
            v[j] = ldexp(e2m1[q[j]], b[0] - 127);
        return;
    }
    mica__store_u16(b, d);
    b += 2;
    const bool has_min = format == MICA__Q4_1 || format == MICA__Q5_1;
    if (has_min) {
        mica__store_u16(b, m);
        b += 2;
    }
    if (limit == 32) {
        pack_fifth(q, b);
        b += 4;
    }
    if (format == MICA__Q8_0)
        for (int j = 0; j < 32; j++)
            b[j] = (uint8_t)q[j];
    else
        pack_nibbles(q, b);
    for (int j = 0; j < 32; j++) {
        const double code = format == MICA__Q8_0     ? (int8_t)q[j]
                            : format == MICA__IQ4_NL ? iq4[q[j]]
                            : has_min                ? q[j]
                                                     : (double)q[j] - limit / 2;
        v[j] = half_value(d) * code + (has_min ? half_value(m) : 0);
    }
}

/* --- GGUF, super-blocks ----------------------------------------------------------------------- */

static void pack_q2_k(uint8_t *b, const unsigned *q, const unsigned *sc, const unsigned *mn)
{
    memset(b, 0, 80);
    for (int i = 0; i < 16; i++)
        b[i] = (uint8_t)(sc[i] | mn[i] << 4);
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 4; j++)
            for (int l = 0; l < 32; l++)
                b[16 + 32 * half + l] |= (uint8_t)(q[128 * half + 32 * j + l] << (2 * j));
}

static void pack_q3_k(uint8_t *b, const unsigned *q, const unsigned *sc)
{
    memset(b, 0, 108);
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 4; j++)
            for (int l = 0; l < 32; l++) {
                const unsigned code = q[128 * half + 32 * j + l];
                b[32 + 32 * half + l] |= (uint8_t)((code & 3) << (2 * j));
                b[l] |= (uint8_t)((code >> 2) << (4 * half + j));
            }
    for (int i = 0; i < 16; i++) {
        b[96 + i % 8] |= (uint8_t)((sc[i] & 15) << (i < 8 ? 0 : 4));
        b[96 + 8 + i % 4] |= (uint8_t)((sc[i] >> 4) << (2 * (i / 4)));
    }
}

static void pack_scales_mins(uint8_t *b, const unsigned *sc, const unsigned *mn)
{
    for (int j = 0; j < 4; j++) {
        b[j] = (uint8_t)(sc[j] | (sc[j + 4] >> 4) << 6);
        b[j + 4] = (uint8_t)(mn[j] | (mn[j + 4] >> 4) << 6);
        b[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
    }
}

static void pack_q45_k(uint8_t *b, const unsigned *q, bool five)
{
    uint8_t *low = b + (five ? 48 : 16), *high = b + 16;
    memset(high, 0, five ? 160 : 128);
    for (int i = 0; i < 256; i++) {
        low[i / 64 * 32 + i % 32] |= (uint8_t)((q[i] & 15) << (i % 64 / 32 * 4));
        if (five)
            high[i % 32] |= (uint8_t)((q[i] >> 4) << (i / 32));
    }
}

static void pack_q6_k(uint8_t *b, const unsigned *q)
{
    memset(b, 0, 192);
    for (int half = 0; half < 2; half++)
        for (int l = 0; l < 32; l++) {
            const unsigned *c = q + 128 * half + l;
            b[64 * half + l] = (uint8_t)((c[0] & 15) | (c[64] & 15) << 4);
            b[64 * half + 32 + l] = (uint8_t)((c[32] & 15) | (c[96] & 15) << 4);
            b[128 + 32 * half + l] =
                (uint8_t)(c[0] >> 4 | (c[32] >> 4) << 2 | (c[64] >> 4) << 4 | (c[96] >> 4) << 6);
        }
}

static void pack_iq4_xs(uint8_t *b, const unsigned *q, const unsigned *sc)
{
    uint16_t high = 0;
    memset(b + 4, 0, 4);
    for (int j = 0; j < 8; j++) {
        b[4 + j / 2] |= (uint8_t)((sc[j] & 15) << (j % 2 * 4));
        high = (uint16_t)(high | (sc[j] >> 4) << (2 * j));
        pack_nibbles(q + 32 * j, b + 8 + 16 * j);
    }
    mica__store_u16(b + 2, high);
}

typedef struct super_facts {
    unsigned codes, scales;
    int sub, code_offset, scale_offset;
    bool has_min;
    int d_at, m_at;
} super_facts;

static super_facts super_of(int32_t format)
{
    switch (format) {
    case MICA__Q2_K:
        return (super_facts){4, 16, 16, 0, 0, true, 80, 82};
    case MICA__Q3_K:
        return (super_facts){8, 64, 16, 4, 32, false, 108, 0};
    case MICA__Q4_K:
        return (super_facts){16, 64, 32, 0, 0, true, 0, 2};
    case MICA__Q5_K:
        return (super_facts){32, 64, 32, 0, 0, true, 0, 2};
    case MICA__Q6_K:
        return (super_facts){64, 256, 16, 32, 128, false, 208, 0};
    default: /* IQ4_XS */
        return (super_facts){16, 64, 32, 0, 32, false, 0, 0};
    }
}

static void make_256(int32_t format, uint8_t *b, double *v, pattern kind, uint64_t *state)
{
    const super_facts f = super_of(format);
    unsigned q[256], sc[16], mn[16];
    for (int i = 0; i < 256; i++)
        q[i] = draw_code(state, f.codes, kind);
    for (int i = 0; i < 16; i++) {
        sc[i] = draw_code(state, f.scales, kind);
        mn[i] = draw_code(state, f.scales, kind);
    }
    switch (format) {
    case MICA__Q2_K:
        pack_q2_k(b, q, sc, mn);
        break;
    case MICA__Q3_K:
        pack_q3_k(b, q, sc);
        break;
    case MICA__Q4_K:
    case MICA__Q5_K:
        pack_scales_mins(b + 4, sc, mn);
        pack_q45_k(b, q, format == MICA__Q5_K);
        break;
    case MICA__Q6_K:
        pack_q6_k(b, q);
        for (int i = 0; i < 16; i++)
            b[192 + i] = (uint8_t)((int)sc[i] - 128);
        break;
    default:
        pack_iq4_xs(b, q, sc);
        break;
    }
    const uint16_t d = draw_half(state, kind), m = draw_half(state, kind);
    mica__store_u16(b + f.d_at, d);
    if (f.has_min)
        mica__store_u16(b + f.m_at, m);
    for (int i = 0; i < 256; i++) {
        const int code = format == MICA__IQ4_XS ? iq4[q[i]] : (int)q[i] - f.code_offset;
        v[i] = half_value(d) * ((int)sc[i / f.sub] - f.scale_offset) * code -
               (f.has_min ? half_value(m) * mn[i / f.sub] : 0);
    }
}

/* --- MLX -------------------------------------------------------------------------------------- */

static double store_scale(mica_dtype dtype, uint8_t *at, int64_t i, pattern kind, uint64_t *state)
{
    const double v = kind == PATTERN_LARGEST ? draw_signed(state) * 100
                     : kind == PATTERN_TINY  ? draw_signed(state) * 0x1p-15
                                             : draw_signed(state) * 0.03;
    if (dtype == MICA_F32) {
        mica__store_f32(at + 4 * i, (float)v);
        return (float)v;
    }
    const bool f16 = dtype == MICA_F16;
    const uint16_t bits = f16 ? mica__f32_to_f16((float)v) : mica__f32_to_bf16((float)v);
    mica__store_u16(at + 2 * i, bits);
    return f16 ? half_value(bits) : mica__bf16_to_f32(bits);
}

static double e4m3_value(unsigned b)
{
    const int exponent = b >> 3 & 15, fraction = b & 7;
    const double v = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return b & 128 ? -v : v;
}

static void make_mlx_row(weights *w, uint8_t *codes, uint8_t *scales, uint8_t *biases, double *v,
                         pattern kind, uint64_t *state)
{
    const mica__qweight_attrs *a = &w->attrs;
    memset(codes, 0, (size_t)(a->k * a->bits / 8));
    double scale = 0, bias = 0;
    for (int64_t i = 0; i < a->k; i++) {
        const int64_t g = i / a->group;
        if (i % a->group == 0) {
            if (a->format == MICA__MLX_AFFINE) {
                scale = store_scale(w->scales_dtype, scales, g, kind, state);
                bias = store_scale(w->scales_dtype, biases, g, kind, state);
            } else if (a->format == MICA__MLX_NVFP4) {
                scales[g] = (uint8_t)(draw(state) % 127);
                scale = e4m3_value(scales[g]);
            } else {
                scales[g] =
                    (uint8_t)(kind == PATTERN_TINY ? draw(state) % 4 : 110 + draw(state) % 20);
                scale = ldexp(1, scales[g] - 127);
            }
        }
        unsigned q = draw_code(state, 1u << a->bits, kind);
        if (a->format == MICA__MLX_MXFP8 && (q & 127) == 127)
            q--; /* NaN */
        v[i] = a->format == MICA__MLX_AFFINE  ? q * scale + bias
               : a->format == MICA__MLX_MXFP8 ? e4m3_value(q) * scale
                                              : e2m1[q] * scale;
        for (int bit = 0; bit < a->bits; bit++) {
            const int64_t at = i * a->bits + bit;
            codes[at / 8] |= (uint8_t)((q >> bit & 1) << (at % 8));
        }
    }
}

/* --- plain ------------------------------------------------------------------------------------ */

static void make_plain(int32_t format, uint8_t *b, double *v, int64_t k, pattern kind,
                       uint64_t *state)
{
    for (int64_t i = 0; i < k; i++) {
        const float x = (float)(draw_signed(state) * (kind == PATTERN_LARGEST ? 1000 : 1));
        const uint16_t bf = mica__f32_to_bf16(x), half = mica__f32_to_f16(x);
        if (format == MICA__F32)
            mica__store_f32(b + 4 * i, x);
        else if (format == MICA__F64)
            mica__store_u64(b + 8 * i, (union {
                                           double d;
                                           uint64_t u;
                                       }){.d = x}
                                           .u);
        else
            mica__store_u16(b + 2 * i, format == MICA__F16 ? half : bf);
        v[i] = format == MICA__F16    ? half_value(half)
               : format == MICA__BF16 ? mica__bf16_to_f32(bf)
                                      : x;
    }
}

static bool is_mlx(int32_t format)
{
    return format >= MICA__MLX_AFFINE;
}

static int64_t row_bytes(const weights *w)
{
    const mica__qweight_attrs *a = &w->attrs;
    return is_mlx(a->format) ? a->k * a->bits / 8
                             : mica__block_row_bytes((mica__block_format)a->format, a->k);
}

static int64_t scale_bytes(const weights *w)
{
    return is_mlx(w->attrs.format) ? mica_dtype_bytes(w->scales_dtype) : 0;
}

static void make_row(weights *w, int64_t r, pattern kind, uint64_t *state)
{
    const int64_t k = w->attrs.k, groups = is_mlx(w->attrs.format) ? k / w->attrs.group : 0;
    const int32_t format = w->attrs.format;
    uint8_t *b = w->codes + r * row_bytes(w);
    double *v = w->values + r * k;
    if (is_mlx(format)) {
        make_mlx_row(w, b, w->scales + r * groups * scale_bytes(w),
                     w->biases + r * groups * scale_bytes(w), v, kind, state);
        return;
    }
    const mica__block_info *facts = mica__block_info_of((mica__block_format)format);
    if (facts->values == 1)
        make_plain(format, b, v, k, kind, state);
    for (int64_t i = 0; facts->values > 1 && i < k / facts->values; i++)
        (facts->values == 32 ? make_32 : make_256)(format, b + i * facts->bytes,
                                                   v + i * facts->values, kind, state);
}

weights weights_make(int32_t format, int bits, int group, mica_dtype scales_dtype, int64_t n,
                     int64_t k, pattern kind, int offset, uint64_t seed)
{
    weights w = {.attrs = {format, bits, group, 0, n, k}, .scales_dtype = scales_dtype};
    const size_t codes = (size_t)(n * row_bytes(&w));
    const size_t scales = is_mlx(format) ? (size_t)(n * (k / group) * scale_bytes(&w)) : 0;
    /* Exact ends, so that a sanitizer sees a read beyond the last row. */
    const size_t at = ((size_t)offset + codes + 63) / 64 * 64 + (size_t)offset;
    const size_t behind = (at + scales + 63) / 64 * 64 + (size_t)offset;
    const size_t total = scales ? behind + scales : (size_t)offset + codes;
    w.block = malloc(total ? total : 1);
    w.values = malloc((size_t)(n * k) * sizeof(double) + 1);
    if (!w.block || !w.values)
        abort();
    w.codes = w.block + offset;
    w.scales = scales ? w.block + at : NULL;
    w.biases = scales ? w.block + behind : NULL;
    for (int64_t r = 0; r < n; r++)
        make_row(&w, r, kind, &seed);
    return w;
}

void weights_free(weights *w)
{
    free(w->block);
    free(w->values);
    *w = (weights){0};
}

mica__operand plain_operand(void *data, mica_dtype dtype, int ndim, const int64_t *shape)
{
    mica__operand o = {.data = data, .dtype = dtype, .ndim = ndim};
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        o.shape[i] = shape[i];
        o.strides[i] = stride;
        stride *= shape[i];
    }
    return o;
}

int weights_operands(const weights *w, mica__operand *in)
{
    const mica__qweight_attrs *a = &w->attrs;
    if (!is_mlx(a->format)) {
        in[0] = plain_operand(w->codes, MICA_U8, 2, (int64_t[]){a->n, row_bytes(w)});
        in[0].unaligned = true;
        return 1;
    }
    const int64_t groups = a->k / a->group;
    in[0] = plain_operand(w->codes, MICA_U32, 2, (int64_t[]){a->n, a->k * a->bits / 32});
    in[1] = plain_operand(w->scales, w->scales_dtype, 2, (int64_t[]){a->n, groups});
    in[2] = plain_operand(w->biases, w->scales_dtype, 2, (int64_t[]){a->n, groups});
    in[0].unaligned = in[1].unaligned = in[2].unaligned = true;
    return a->format == MICA__MLX_AFFINE ? 3 : 2;
}

mica__qweight weights_describe(const weights *w)
{
    mica__operand in[3];
    mica__qweight q = {0};
    const int n = weights_operands(w, in);
    if (!mica__qweight_of(&w->attrs, in, n, &q))
        abort();
    return q;
}

static const struct {
    int32_t format;
    int bits, group;
    mica_dtype scales_dtype;
} all_formats[] = {
    {MICA__Q4_0, 0, 0, 0},
    {MICA__Q4_1, 0, 0, 0},
    {MICA__Q5_0, 0, 0, 0},
    {MICA__Q5_1, 0, 0, 0},
    {MICA__Q8_0, 0, 0, 0},
    {MICA__IQ4_NL, 0, 0, 0},
    {MICA__MXFP4, 0, 0, 0},
    {MICA__Q2_K, 0, 0, 0},
    {MICA__Q3_K, 0, 0, 0},
    {MICA__Q4_K, 0, 0, 0},
    {MICA__Q5_K, 0, 0, 0},
    {MICA__Q6_K, 0, 0, 0},
    {MICA__IQ4_XS, 0, 0, 0},
    {MICA__MLX_AFFINE, 2, 32, MICA_F16},
    {MICA__MLX_AFFINE, 3, 64, MICA_BF16},
    {MICA__MLX_AFFINE, 4, 64, MICA_F16},
    {MICA__MLX_AFFINE, 4, 32, MICA_F32},
    {MICA__MLX_AFFINE, 4, 128, MICA_BF16},
    {MICA__MLX_AFFINE, 5, 64, MICA_F32},
    {MICA__MLX_AFFINE, 6, 128, MICA_F16},
    {MICA__MLX_AFFINE, 8, 64, MICA_BF16},
    {MICA__MLX_AFFINE, 8, 128, MICA_F32},
    {MICA__MLX_AFFINE, 8, 32, MICA_F16},
    {MICA__MLX_MXFP4, 4, 32, MICA_U8},
    {MICA__MLX_MXFP8, 8, 32, MICA_U8},
    {MICA__MLX_NVFP4, 4, 16, MICA_U8},
    {MICA__F32, 0, 0, 0},
    {MICA__F16, 0, 0, 0},
    {MICA__BF16, 0, 0, 0},
    {MICA__F64, 0, 0, 0},
};

bool weights_format(int i, int32_t *format, int *bits, int *group, mica_dtype *scales_dtype)
{
    if (i < 0 || i >= (int)(sizeof all_formats / sizeof *all_formats))
        return false;
    *format = all_formats[i].format;
    *bits = all_formats[i].bits;
    *group = all_formats[i].group;
    *scales_dtype = all_formats[i].scales_dtype;
    return true;
}

const char *weights_name(const weights *w)
{
    static char name[80];
    snprintf(name, sizeof name, "%s %d/%d %s [%lld, %lld]",
             mica__block_info_of((mica__block_format)w->attrs.format)->name, (int)w->attrs.bits,
             (int)w->attrs.group, mica_dtype_name(w->scales_dtype), (long long)w->attrs.n,
             (long long)w->attrs.k);
    return name;
}

mica_status run_kernel_in_order(const mica__kernel *kernel, mica__call *call, int direction)
{
    if (kernel->accepts && !kernel->accepts(call))
        return MICA_E_UNSUPPORTED;
    const size_t scratch_bytes = kernel->scratch_bytes ? kernel->scratch_bytes(call) : 0;
    const size_t workspace_bytes = kernel->workspace_bytes ? kernel->workspace_bytes(call) : 0;
    void *scratch = aligned_alloc(64, (scratch_bytes + 64) / 64 * 64);
    void *workspace = aligned_alloc(64, (workspace_bytes + 64) / 64 * 64);
    if (!scratch || !workspace)
        abort();
    memset(scratch, 0xff, scratch_bytes);
    memset(workspace, 0xff, workspace_bytes);
    call->workspace = workspace;
    mica_status status = MICA_OK;
    for (int stage = 0; stage < kernel->n_stages && status == MICA_OK; stage++) {
        const int64_t n = kernel->n_tasks(call, stage);
        for (int64_t i = 0; i < n && status == MICA_OK; i++)
            status = kernel->run(call, stage, direction > 0 ? i : n - 1 - i, scratch);
    }
    free(scratch);
    free(workspace);
    return status;
}
