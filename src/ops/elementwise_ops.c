/* elementwise_ops.c - operations of one or two operands, element by element.
 *
 * One row in each table per op: dtype rule and documentation. Builders are one line each.
 * SPDX-License-Identifier: MIT
 */
#include <mica/ops.h>

#include <string.h>

#include "ops/infer.h"
#include "ops/parts.h"

/* --- inference -------------------------------------------------------------------------------- */

static mica_status infer_keep(void *attrs, int n_in, const mica__aval *in, int n_out,
                              mica__aval *out)
{
    (void)attrs, (void)n_in, (void)n_out;
    out[0] = in[0];
    return MICA_OK;
}

/* The magnitude of a complex number is real. */
static mica_status infer_abs(void *attrs, int n_in, const mica__aval *in, int n_out,
                             mica__aval *out)
{
    MICA_TRY(infer_keep(attrs, n_in, in, n_out, out));
    if (in[0].dtype == MICA_C64)
        out[0].dtype = MICA_F32;
    return MICA_OK;
}

static mica_status infer_negative(void *attrs, int n_in, const mica__aval *in, int n_out,
                                  mica__aval *out)
{
    if (in[0].dtype == MICA_BOOL)
        MICA_FAIL(MICA_E_SHAPE, "bool has no negative: use logical_not");
    return infer_keep(attrs, n_in, in, n_out, out);
}

static mica_status infer_inexact(void *attrs, int n_in, const mica__aval *in, int n_out,
                                 mica__aval *out)
{
    (void)attrs, (void)n_in, (void)n_out;
    out[0] = in[0];
    out[0].dtype = mica__to_inexact(in[0].dtype);
    return MICA_OK;
}

static mica_status infer_binary(void *attrs, int n_in, const mica__aval *in, int n_out,
                                mica__aval *out)
{
    (void)attrs, (void)n_in, (void)n_out;
    out[0].dtype = mica__promote(in[0].dtype, in[1].dtype);
    return mica__infer_broadcast(&in[0], &in[1], &out[0]);
}

static mica_status infer_divide(void *attrs, int n_in, const mica__aval *in, int n_out,
                                mica__aval *out)
{
    MICA_TRY(infer_binary(attrs, n_in, in, n_out, out));
    out[0].dtype = mica__to_inexact(out[0].dtype);
    return MICA_OK;
}

static mica_status infer_astype(void *attrs, int n_in, const mica__aval *in, int n_out,
                                mica__aval *out)
{
    const mica__astype_attrs *a = attrs;
    (void)n_in, (void)n_out;
    out[0] = in[0];
    out[0].dtype = (mica_dtype)a->dtype;
    return MICA_OK;
}

static mica_status infer_fused(void *attrs, int n_in, const mica__aval *in, int n_out,
                               mica__aval *out)
{
    (void)attrs, (void)n_in, (void)in, (void)n_out, (void)out;
    MICA_FAIL(MICA_E_INTERNAL, "a fused group is made from a graph and is never part of one");
}

/* --- said in simpler ops ---------------------------------------------------------------------- */

static mica_array *square_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    (void)ctx, (void)attrs, (void)n_in;
    return mica_multiply(in[0], in[0]);
}

/* The rest works in f32 at least and rounds its result once, as the kernels do. */
static mica_array *rounded(mica_array *y, mica_dtype dtype)
{
    return mica_astype(y, mica__to_inexact(dtype));
}

/* 1 / x */
static mica_array *inverse(mica_ctx *ctx, mica_array *x)
{
    return x ? mica_divide(mica__constant(ctx, 1, x->dtype), x) : NULL;
}

static mica_array *reciprocal_parts(mica_ctx *ctx, const void *attrs, int n_in,
                                    mica_array *const *in)
{
    (void)attrs, (void)n_in;
    return rounded(inverse(ctx, mica__widened(in[0])), in[0]->dtype);
}

static mica_array *rsqrt_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    (void)ctx, (void)attrs, (void)n_in;
    return rounded(mica_reciprocal(mica_sqrt(mica__widened(in[0]))), in[0]->dtype);
}

static mica_array *sigmoid_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    (void)attrs, (void)n_in;
    mica_array *x = mica__widened(in[0]);
    if (!x)
        return NULL;
    mica_array *divisor = mica_add(mica__constant(ctx, 1, x->dtype), mica_exp(mica_negative(x)));
    return rounded(inverse(ctx, divisor), in[0]->dtype);
}

static mica_array *silu_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    (void)ctx, (void)attrs, (void)n_in;
    mica_array *x = mica__widened(in[0]);
    return rounded(mica_multiply(x, mica_sigmoid(x)), in[0]->dtype);
}

/* x * (1 + erf(x / sqrt 2)) / 2; far on the negative side only as exact as 1 + erf is. */
static mica_array *gelu_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    (void)attrs, (void)n_in;
    mica_array *x = mica__widened(in[0]);
    if (!x)
        return NULL;
    mica_array *erf =
        mica_erf(mica_multiply(x, mica__constant(ctx, 0x1.6a09e667f3bcdp-1, x->dtype)));
    mica_array *share = mica_multiply(mica_add(erf, mica__constant(ctx, 1, x->dtype)),
                                      mica__constant(ctx, 0.5, x->dtype));
    return rounded(mica_multiply(x, share), in[0]->dtype);
}

/* x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
static mica_array *gelu_tanh_parts(mica_ctx *ctx, const void *attrs, int n_in,
                                   mica_array *const *in)
{
    (void)attrs, (void)n_in;
    mica_array *x = mica__widened(in[0]);
    if (!x)
        return NULL;
    mica_array *cube = mica_multiply(mica_square(x), x);
    mica_array *sum = mica_add(x, mica_multiply(cube, mica__constant(ctx, 0.044715, x->dtype)));
    mica_array *u2 = mica_multiply(sum, mica__constant(ctx, 0x1.9884533d43651p+0, x->dtype));
    return rounded(mica_multiply(x, mica_sigmoid(u2)), in[0]->dtype);
}

/* The unary gate of a times b. */
static mica_array *gated(mica_array *(*gate)(mica_array *), mica_array *const *in)
{
    const mica_dtype dtype = mica__promote(in[0]->dtype, in[1]->dtype);
    return rounded(mica_multiply(gate(mica__widened(in[0])), mica__widened(in[1])), dtype);
}

static mica_array *swiglu_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    (void)ctx, (void)attrs, (void)n_in;
    return gated(mica_silu, in);
}

static mica_array *geglu_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    (void)ctx, (void)attrs, (void)n_in;
    return gated(mica_gelu_tanh, in);
}

const mica__rules mica__elementwise_rules[] = {
    {MICA__OP_ABS, "magnitude", infer_abs, NULL, 0, 0},
    {MICA__OP_NEGATIVE, "negation; integers wrap", infer_negative, NULL, 0, 0},
    {MICA__OP_SQUARE, "a * a", infer_keep, square_parts, 0, 0},
    {MICA__OP_SQRT, "square root, correctly rounded", infer_inexact, NULL, 0, 0},
    {MICA__OP_RSQRT, "1 / sqrt(a), two roundings", infer_inexact, rsqrt_parts, 0, 0},
    {MICA__OP_RECIPROCAL, "1 / a", infer_inexact, reciprocal_parts, 0, 0},
    {MICA__OP_EXP, "exponential", infer_inexact, NULL, 0, 0},
    {MICA__OP_LOG, "natural logarithm", infer_inexact, NULL, 0, 0},
    {MICA__OP_SIN, "sine", infer_inexact, NULL, 0, 0},
    {MICA__OP_COS, "cosine", infer_inexact, NULL, 0, 0},
    {MICA__OP_TANH, "hyperbolic tangent", infer_inexact, NULL, 0, 0},
    {MICA__OP_SIGMOID, "1 / (1 + exp(-a))", infer_inexact, sigmoid_parts, 0, 0},
    {MICA__OP_ERF, "error function", infer_inexact, NULL, 0, 0},
    {MICA__OP_SILU, "a * sigmoid(a)", infer_inexact, silu_parts, 0, 0},
    {MICA__OP_GELU, "a * (1 + erf(a / sqrt 2)) / 2", infer_inexact, gelu_parts, 0, 0},
    {MICA__OP_GELU_TANH, "gelu's approximation with tanh", infer_inexact, gelu_tanh_parts, 0, 0},
    {MICA__OP_ADD, "a + b", infer_binary, NULL, 0, 0},
    {MICA__OP_SUBTRACT, "a - b", infer_binary, NULL, 0, 0},
    {MICA__OP_MULTIPLY, "a * b", infer_binary, NULL, 0, 0},
    {MICA__OP_DIVIDE, "a / b, never integer division", infer_divide, NULL, 0, 0},
    {MICA__OP_MAXIMUM, "the larger; NaN if either is", infer_binary, NULL, 0, 0},
    {MICA__OP_MINIMUM, "the smaller; NaN if either is", infer_binary, NULL, 0, 0},
    {MICA__OP_SWIGLU, "silu(a) * b", infer_divide, swiglu_parts, 0, 0},
    {MICA__OP_GEGLU, "gelu_tanh(a) * b", infer_divide, geglu_parts, 0, 0},
    {MICA__OP_ASTYPE, "conversion", infer_astype, NULL, 0, 0},
    {MICA__OP_FUSED, "a group of elementwise operations", infer_fused, NULL, 0, 0},
    {MICA__N_OPS, NULL, NULL, NULL, 0, 0},
};

/* --- builders --------------------------------------------------------------------------------- */

/* Whether the kernels widen this dtype themselves: everything else is converted first. */
static bool is_tile_float(mica_dtype dtype)
{
    return dtype == MICA_F32 || dtype == MICA_F16 || dtype == MICA_BF16;
}

static mica_array *operand_as(mica_array *a, mica_dtype dtype)
{
    return is_tile_float(a->dtype) && is_tile_float(dtype) ? a : mica_astype(a, dtype);
}

/* dtype kept. */
static mica_array *unary(mica__op op, mica_array *a)
{
    return a ? mica__apply(mica__ctx_for(1, &a), op, NULL, 1, &a) : NULL;
}

/* A function that is not defined on integers. */
static mica_array *inexact(mica__op op, mica_array *a)
{
    return a ? unary(op, operand_as(a, mica__to_inexact(a->dtype))) : NULL;
}

static mica_array *binary_as(mica__op op, mica_array *a, mica_array *b, mica_dtype dtype)
{
    mica_array *in[2] = {operand_as(a, dtype), operand_as(b, dtype)};
    return mica__apply(mica__ctx_for(2, in), op, NULL, 2, in);
}

static mica_array *binary(mica__op op, mica_array *a, mica_array *b)
{
    return a && b ? binary_as(op, a, b, mica__promote(a->dtype, b->dtype)) : NULL;
}

static mica_array *inexact_binary(mica__op op, mica_array *a, mica_array *b)
{
    return a && b ? binary_as(op, a, b, mica__to_inexact(mica__promote(a->dtype, b->dtype))) : NULL;
}

mica_array *mica_abs(mica_array *a)
{
    return unary(MICA__OP_ABS, a);
}

mica_array *mica_negative(mica_array *a)
{
    return unary(MICA__OP_NEGATIVE, a);
}

mica_array *mica_square(mica_array *a)
{
    return unary(MICA__OP_SQUARE, a);
}

mica_array *mica_sqrt(mica_array *a)
{
    return inexact(MICA__OP_SQRT, a);
}

mica_array *mica_rsqrt(mica_array *a)
{
    return inexact(MICA__OP_RSQRT, a);
}

mica_array *mica_reciprocal(mica_array *a)
{
    return inexact(MICA__OP_RECIPROCAL, a);
}

mica_array *mica_exp(mica_array *a)
{
    return inexact(MICA__OP_EXP, a);
}

mica_array *mica_log(mica_array *a)
{
    return inexact(MICA__OP_LOG, a);
}

mica_array *mica_sin(mica_array *a)
{
    return inexact(MICA__OP_SIN, a);
}

mica_array *mica_cos(mica_array *a)
{
    return inexact(MICA__OP_COS, a);
}

mica_array *mica_tanh(mica_array *a)
{
    return inexact(MICA__OP_TANH, a);
}

mica_array *mica_sigmoid(mica_array *a)
{
    return inexact(MICA__OP_SIGMOID, a);
}

mica_array *mica_erf(mica_array *a)
{
    return inexact(MICA__OP_ERF, a);
}

mica_array *mica_silu(mica_array *a)
{
    return inexact(MICA__OP_SILU, a);
}

mica_array *mica_gelu(mica_array *a)
{
    return inexact(MICA__OP_GELU, a);
}

mica_array *mica_gelu_tanh(mica_array *a)
{
    return inexact(MICA__OP_GELU_TANH, a);
}

mica_array *mica_add(mica_array *a, mica_array *b)
{
    return binary(MICA__OP_ADD, a, b);
}

mica_array *mica_subtract(mica_array *a, mica_array *b)
{
    return binary(MICA__OP_SUBTRACT, a, b);
}

mica_array *mica_multiply(mica_array *a, mica_array *b)
{
    return binary(MICA__OP_MULTIPLY, a, b);
}

mica_array *mica_divide(mica_array *a, mica_array *b)
{
    return inexact_binary(MICA__OP_DIVIDE, a, b);
}

mica_array *mica_maximum(mica_array *a, mica_array *b)
{
    return binary(MICA__OP_MAXIMUM, a, b);
}

mica_array *mica_minimum(mica_array *a, mica_array *b)
{
    return binary(MICA__OP_MINIMUM, a, b);
}

mica_array *mica_swiglu(mica_array *gate, mica_array *up)
{
    return inexact_binary(MICA__OP_SWIGLU, gate, up);
}

mica_array *mica_geglu(mica_array *gate, mica_array *up)
{
    return inexact_binary(MICA__OP_GEGLU, gate, up);
}

mica_array *mica_astype(mica_array *a, mica_dtype dtype)
{
    if (!a || a->dtype == dtype)
        return a;
    mica_ctx *ctx = mica__ctx_for(1, &a);
    if ((unsigned)dtype >= MICA_N_DTYPES) {
        mica__ctx_fail(ctx, mica__fail(MICA_E_ARGUMENT, "astype: %d is no dtype", (int)dtype));
        return NULL;
    }
    const mica__astype_attrs attrs = {.dtype = dtype};
    return mica__apply(ctx, MICA__OP_ASTYPE, &attrs, 1, &a);
}
