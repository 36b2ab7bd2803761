/* qweight.c - weight matrices from operands; the check that their scales are finite.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/qweight.h"

#include "base/bytes.h"

static mica__qform form_of(int32_t format)
{
    switch (format) {
    case MICA__Q4_0:
    case MICA__Q5_0:
    case MICA__Q8_0:
    case MICA__IQ4_NL:
    case MICA__MXFP4:
    case MICA__MLX_MXFP4:
        return MICA__FORM_SCALE;
    case MICA__Q4_1:
    case MICA__Q5_1:
    case MICA__MLX_AFFINE:
        return MICA__FORM_BIAS;
    case MICA__Q3_K:
    case MICA__Q6_K:
    case MICA__IQ4_XS:
        return MICA__FORM_SUPER;
    case MICA__Q2_K:
    case MICA__Q4_K:
    case MICA__Q5_K:
        return MICA__FORM_SUPER_MIN;
    default:
        return MICA__FORM_NONE;
    }
}

bool mica__qweight_has_i8(int32_t format)
{
    return form_of(format) != MICA__FORM_NONE;
}

static bool is_matrix(const mica__operand *in, int64_t rows, int64_t columns)
{
    return in->ndim == 2 && in->shape[0] == rows && in->shape[1] == columns &&
           (in->strides[1] == 1 || columns <= 1);
}

static mica__block_format plain_format(mica_dtype dtype)
{
    switch (dtype) {
    case MICA_F32:
        return MICA__F32;
    case MICA_F16:
        return MICA__F16;
    case MICA_BF16:
        return MICA__BF16;
    case MICA_F64:
        return MICA__F64;
    default:
        return MICA__N_FORMATS;
    }
}

mica__qweight mica__qweight_plain(mica_dtype dtype, int64_t n, int64_t k, const uint8_t *data,
                                  int64_t stride_bytes)
{
    mica__qweight w = {.format = plain_format(dtype), .n = n, .k = k, .codes = data};
    w.codes_stride = stride_bytes;
    return w;
}

static bool gguf_weight(const mica__operand *in, int n_in, mica__qweight *w)
{
    if (n_in != 1 || !mica__block_info_of(w->format)->has_decoder)
        return false;
    const int64_t row_bytes = mica__block_row_bytes(w->format, w->k);
    w->codes = in->data;
    w->codes_stride = in->strides[0] * mica_dtype_bytes(in->dtype);
    if (in->dtype == MICA_U8)
        return row_bytes >= 0 && is_matrix(in, w->n, row_bytes);
    return plain_format(in->dtype) == w->format && is_matrix(in, w->n, w->k);
}

static bool mlx_bits_fit(const mica__qweight_attrs *a)
{
    switch (a->format) {
    case MICA__MLX_AFFINE:
        return (a->bits >= 2 && a->bits <= 8 && a->bits != 7) &&
               (a->group == 32 || a->group == 64 || a->group == 128);
    case MICA__MLX_MXFP4:
        return a->bits == 4 && a->group == 32;
    case MICA__MLX_MXFP8:
        return a->bits == 8 && a->group == 32;
    case MICA__MLX_NVFP4:
        return a->bits == 4 && a->group == 16;
    default:
        return false;
    }
}

static bool mlx_weight(const mica__qweight_attrs *a, const mica__operand *in, int n_in,
                       mica__qweight *w)
{
    const bool affine = a->format == MICA__MLX_AFFINE;
    if (!mlx_bits_fit(a) || n_in != (affine ? 3 : 2) || a->k % a->group || a->k * a->bits % 32)
        return false;
    const mica_dtype dtype = in[1].dtype;
    const bool real = dtype == MICA_F16 || dtype == MICA_BF16 || dtype == MICA_F32;
    if (in[0].dtype != MICA_U32 || (affine ? !real : dtype != MICA_U8) ||
        !is_matrix(&in[0], a->n, a->k * a->bits / 32) || !is_matrix(&in[1], a->n, a->k / a->group))
        return false;
    w->bits = a->bits;
    w->scales_dtype = dtype;
    w->codes = in[0].data;
    w->codes_stride = in[0].strides[0] * 4;
    w->scales = in[1].data;
    w->scales_stride = in[1].strides[0] * mica_dtype_bytes(dtype);
    if (affine) {
        if (in[2].dtype != dtype || !is_matrix(&in[2], a->n, a->k / a->group))
            return false;
        w->biases = in[2].data;
        w->biases_stride = in[2].strides[0] * mica_dtype_bytes(dtype);
    }
    return true;
}

bool mica__qweight_of(const mica__qweight_attrs *attrs, const mica__operand *in, int n_in,
                      mica__qweight *weight)
{
    if (attrs->format < 0 || attrs->format >= MICA__N_FORMATS || attrs->n < 0 || attrs->k < 0)
        return false;
    *weight = (mica__qweight){.format = (mica__block_format)attrs->format,
                              .form = form_of(attrs->format),
                              .n = attrs->n,
                              .k = attrs->k};
    weight->group = mica__act8_group(attrs->format, attrs->group);
    weight->sub =
        attrs->format == MICA__Q4_K || attrs->format == MICA__Q5_K || attrs->format == MICA__IQ4_XS
            ? 32
            : 16;
    if (mica__block_info_of(weight->format)->values)
        return gguf_weight(in, n_in, weight);
    return mlx_weight(attrs, in, n_in, weight);
}
