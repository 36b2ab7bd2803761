/* matmul.c - products of matrices, plain and with stored weights.
 *
 * Which of the two orders of additions a product has is decided here, from how it was written: a
 * right side that is a transpose of its last two axes is multiplied in the x W^T order. It is never
 * taken from strides at run time.
 * SPDX-License-Identifier: MIT
 */
#include <mica/ops.h>

#include <string.h>

#include "ops/infer.h"
#include "ops/matrix.h"

/* --- plain ------------------------------------------------------------------------------------ */

static mica_status infer_matmul(void *attrs, int n_in, const mica__aval *in, int n_out,
                                mica__aval *out)
{
    const mica__matmul_attrs *a = attrs;
    (void)n_in, (void)n_out;
    const int na = in[0].ndim, nb = in[1].ndim;
    const int k_axis = nb - (a->transposed_b ? 1 : 2), n_axis = nb - (a->transposed_b ? 2 : 1);
    if (na < 2 || nb < 2)
        MICA_FAIL(MICA_E_SHAPE, "operands need at least two dimensions");
    if (in[0].shape[na - 1] != in[1].shape[k_axis] || in[0].extents.axis[na - 1] ||
        in[1].extents.axis[k_axis]) {
        char ta[MICA__SHAPE_TEXT], tb[MICA__SHAPE_TEXT];
        MICA_FAIL(MICA_E_SHAPE, "shapes %s and %s do not match%s",
                  mica__shape_text(na, in[0].shape, ta), mica__shape_text(nb, in[1].shape, tb),
                  a->transposed_b ? " (the second is transposed)" : "");
    }
    mica__aval batch_a = in[0], batch_b = in[1];
    batch_a.ndim -= 2;
    batch_b.ndim -= 2;
    MICA_TRY(mica__infer_broadcast(&batch_a, &batch_b, &out[0]));
    out[0].dtype = mica__promote(in[0].dtype, in[1].dtype);
    if (!mica__is_inexact(out[0].dtype))
        MICA_FAIL(MICA_E_UNSUPPORTED, "products of %s are not defined",
                  mica_dtype_name(out[0].dtype));
    out[0].extents.axis[out[0].ndim] = in[0].extents.axis[na - 2];
    out[0].shape[out[0].ndim++] = in[0].shape[na - 2];
    out[0].extents.axis[out[0].ndim] = in[1].extents.axis[n_axis];
    out[0].shape[out[0].ndim++] = in[1].shape[n_axis];
    return MICA_OK;
}

/* The array that `a` is the transpose of (last two axes swapped, nothing else), or NULL. */
static mica_array *untransposed(const mica_array *a)
{
    if (!a->node || a->node->op != MICA__OP_TRANSPOSE || a->ndim < 2)
        return NULL;
    const mica__transpose_attrs *attrs = a->node->attrs;
    for (int i = 0; i < a->ndim - 2; i++)
        if (attrs->axes[i] != i)
            return NULL;
    return attrs->axes[a->ndim - 1] == a->ndim - 2 ? a->node->in[0] : NULL;
}

static mica_array *product(mica_array *a, mica_array *b)
{
    mica_array *source = untransposed(b);
    const mica__matmul_attrs attrs = {.transposed_b = source != NULL};
    mica_array *in[2] = {a, source ? source : b};
    return mica__apply(mica__ctx_for(2, in), MICA__OP_MATMUL, &attrs, 2, in);
}

/* The kernels widen f16, bf16 and f32 themselves; everything else is converted first. Where the
 * result is no inexact type the operation itself says so. */
static mica_array *operand_as(mica_array *a, mica_dtype dtype)
{
    const bool kernel_widens =
        mica__is_float(a->dtype) && a->dtype != MICA_F64 && dtype != MICA_F64 && dtype != MICA_C64;
    return kernel_widens || !mica__is_inexact(dtype) ? a : mica_astype(a, dtype);
}

mica_array *mica_matmul(mica_array *a, mica_array *b)
{
    if (!a || !b)
        return NULL;
    if (!a->ndim || !b->ndim) {
        mica__ctx_fail(mica__ctx_for(1, &a),
                       mica__fail(MICA_E_SHAPE, "matmul: an operand is a scalar"));
        return NULL;
    }
    const mica_dtype dtype = mica__promote(a->dtype, b->dtype);
    const bool vector_a = a->ndim == 1, vector_b = b->ndim == 1;
    a = operand_as(a, dtype);
    b = operand_as(b, dtype);
    if (!a || !b)
        return NULL;
    if (vector_a)
        a = mica_expand_dims(a, 0);
    if (vector_b)
        b = mica_expand_dims(b, 1);
    mica_array *result = a && b ? product(a, b) : NULL;
    if (vector_b)
        result = mica_squeeze(result, -1);
    return vector_a ? mica_squeeze(result, vector_b ? -1 : -2) : result;
}

/* --- stored weights --------------------------------------------------------------------------- */

static mica_status check_mlx(const mica__qweight_attrs *attrs, int n_parts, const mica__aval *parts)
{
    const bool affine = attrs->format == MICA__MLX_AFFINE;
    if (n_parts != (affine ? 3 : 2))
        MICA_FAIL(MICA_E_ARGUMENT, "an MLX weight has codes, scales%s",
                  affine ? " and biases" : "");
    if (attrs->group < 1 || attrs->k % attrs->group || attrs->bits < 2 || attrs->bits > 8)
        MICA_FAIL(MICA_E_SHAPE, "%lld columns with groups of %d and %d bits", (long long)attrs->k,
                  attrs->group, attrs->bits);
    MICA_TRY(mica__expect_dtype(&parts[0], MICA_U32, "the codes"));
    for (int i = 0; i < n_parts; i++) {
        const int64_t width = i ? attrs->k / attrs->group : attrs->k * attrs->bits / 32;
        if (parts[i].ndim != 2 || parts[i].shape[0] != attrs->n || parts[i].shape[1] != width)
            MICA_FAIL(MICA_E_SHAPE, "part %d of the weight is not [%lld, %lld]", i,
                      (long long)attrs->n, (long long)width);
        if (i && (affine ? !mica__is_float(parts[i].dtype) : parts[i].dtype != MICA_U8))
            MICA_FAIL(MICA_E_SHAPE, "part %d of the weight is %s", i,
                      mica_dtype_name(parts[i].dtype));
    }
    return MICA_OK;
}

static mica_dtype plain_dtype(int32_t format)
{
    switch (format) {
    case MICA__F32:
        return MICA_F32;
    case MICA__F16:
        return MICA_F16;
    case MICA__BF16:
        return MICA_BF16;
    default:
        return MICA_U8;
    }
}

mica_status mica__check_qweight(const mica__qweight_attrs *attrs, int n_parts,
                                const mica__aval *parts)
{
    if (attrs->format < 0 || attrs->format >= MICA__N_FORMATS ||
        !mica__block_info_of((mica__block_format)attrs->format)->has_decoder)
        MICA_FAIL(MICA_E_UNSUPPORTED, "weights of this format cannot be multiplied yet");
    if (attrs->n < 1 || attrs->k < 1)
        MICA_FAIL(MICA_E_SHAPE, "a weight of %lld x %lld", (long long)attrs->n,
                  (long long)attrs->k);
    if (attrs->format >= MICA__MLX_AFFINE)
        return check_mlx(attrs, n_parts, parts);
    const int64_t row = mica__block_row_bytes((mica__block_format)attrs->format, attrs->k);
    const mica_dtype plain = plain_dtype(attrs->format);
    if (n_parts != 1 || row < 0 || parts[0].ndim != 2 || parts[0].shape[0] != attrs->n)
        MICA_FAIL(MICA_E_SHAPE, "a %s weight of %lld x %lld is one array of so many rows",
                  mica__block_info_of((mica__block_format)attrs->format)->name, (long long)attrs->n,
                  (long long)attrs->k);
    const bool bytes = parts[0].dtype == MICA_U8 && parts[0].shape[1] == row;
    if (!bytes && !(plain != MICA_U8 && parts[0].dtype == plain && parts[0].shape[1] == attrs->k))
        MICA_FAIL(MICA_E_SHAPE, "the weight's rows are not %lld bytes", (long long)row);
    return MICA_OK;
}

static mica_status infer_quantize_rows(void *attrs, int n_in, const mica__aval *in, int n_out,
                                       mica__aval *out)
{
    const mica__quantize_rows_attrs *a = attrs;
    (void)n_in, (void)n_out;
    MICA_TRY(mica__expect_dtype(&in[0], MICA_F32, "the activations"));
    MICA_TRY(mica__expect_ndim(&in[0], 2, "the activations"));
    if ((a->group != 32 && a->group != 64 && a->group != 128 && a->group != 256) ||
        in[0].shape[1] % a->group)
        MICA_FAIL(MICA_E_SHAPE, "rows of %lld values in groups of %d", (long long)in[0].shape[1],
                  a->group);
    out[0] = in[0];
    out[0].dtype = MICA_U8;
    out[0].shape[1] = mica__act8_row_bytes(in[0].shape[1], a->group);
    return MICA_OK;
}

static void product_shape(const mica__qweight_attrs *a, const mica__aval *x, mica__aval *out)
{
    *out = (mica__aval){.dtype = MICA_F32, .ndim = 2, .shape = {x->shape[0], a->n}};
    out->extents.axis[0] = x->extents.axis[0];
}

static mica_status infer_qmatmul(void *attrs, int n_in, const mica__aval *in, int n_out,
                                 mica__aval *out)
{
    const mica__qweight_attrs *a = attrs;
    (void)n_out;
    MICA_TRY(mica__expect_dtype(&in[0], MICA_F32, "the activations"));
    MICA_TRY(mica__expect_ndim(&in[0], 2, "the activations"));
    MICA_TRY(mica__check_qweight(a, n_in - 1, in + 1));
    if (in[0].shape[1] != a->k)
        MICA_FAIL(MICA_E_SHAPE, "rows of %lld values for a weight of %lld columns",
                  (long long)in[0].shape[1], (long long)a->k);
    product_shape(a, &in[0], &out[0]);
    return MICA_OK;
}

static mica_status infer_qmatmul_i8(void *attrs, int n_in, const mica__aval *in, int n_out,
                                    mica__aval *out)
{
    const mica__qweight_attrs *a = attrs;
    (void)n_out;
    MICA_TRY(mica__expect_dtype(&in[0], MICA_U8, "the rounded activations"));
    MICA_TRY(mica__expect_ndim(&in[0], 2, "the rounded activations"));
    MICA_TRY(mica__check_qweight(a, n_in - 1, in + 1));
    if (!mica__act8_has_product(a->format))
        MICA_FAIL(MICA_E_UNSUPPORTED, "%s weights have no product with rounded activations",
                  mica__block_info_of((mica__block_format)a->format)->name);
    if (in[0].shape[1] != mica__act8_row_bytes(a->k, mica__act8_group(a->format, a->group)))
        MICA_FAIL(MICA_E_SHAPE, "the activations were not rounded for this weight");
    product_shape(a, &in[0], &out[0]);
    return MICA_OK;
}

/* The whole weight dequantised, one rounding a value, then the product of floats. */
static mica_array *qmatmul_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    const mica__qweight_attrs *a = attrs;
    if (a->n > INT32_MAX)
        return NULL; /* more rows than ids can name */
    mica_array *weight[4] = {mica_arange(ctx, 0, (double)a->n, 1, MICA_I32)};
    for (int i = 1; i < n_in; i++)
        weight[i] = in[i];
    mica_array *rows = mica__apply(ctx, MICA__OP_EMBED, a, n_in, weight);
    return mica_matmul(in[0], mica_transpose(rows, 0, NULL));
}

const mica__rules mica__matmul_rules[] = {
    {MICA__OP_MATMUL, "product of matrices, leading axes broadcast", infer_matmul, NULL, 0, 0},
    {MICA__OP_QUANTIZE_ROWS, "rows rounded to 8-bit codes with a scale per group",
     infer_quantize_rows, NULL, 0, 0},
    {MICA__OP_QMATMUL, "x W^T with a stored weight, dequantised to f32", infer_qmatmul,
     qmatmul_parts, 0, 0},
    {MICA__OP_QMATMUL_I8, "x W^T of 8-bit activations with a stored weight", infer_qmatmul_i8, NULL,
     0, 0},
    {MICA__N_OPS, NULL, NULL, NULL, 0, 0},
};

mica_array *mica__apply_matrix(mica__op op, mica_array *x, const mica__matrix *weight)
{
    mica_array *in[4] = {x};
    if (!x)
        return NULL;
    for (int i = 0; i < weight->n_parts; i++)
        in[i + 1] = weight->parts[i];
    return mica__apply(mica__ctx_for(1, &x), op, &weight->attrs, weight->n_parts + 1, in);
}

mica_array *mica__linear(mica_array *x, const mica__matrix *weight, mica__activations activations)
{
    const int32_t format = weight->attrs.format;
    if (!x || activations != MICA__ACTIVATIONS_INT8 || !mica__act8_has_product(format))
        return mica__apply_matrix(MICA__OP_QMATMUL, x, weight);
    const mica__quantize_rows_attrs attrs = {.group =
                                                 mica__act8_group(format, weight->attrs.group)};
    mica_array *rounded = mica__apply(mica__ctx_for(1, &x), MICA__OP_QUANTIZE_ROWS, &attrs, 1, &x);
    return mica__apply_matrix(MICA__OP_QMATMUL_I8, rounded, weight);
}
