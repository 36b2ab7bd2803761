/* fast.c - fused operations: norm, rotary embedding, paged attention.
 * SPDX-License-Identifier: MIT
 */
#include "ops/fast.h"

#include <mica/ops.h>

#include "ops/infer.h"
#include "ops/parts.h"

static mica_status infer_rms_norm(void *attrs, int n_in, const mica__aval *in, int n_out,
                                  mica__aval *out)
{
    (void)attrs, (void)n_in, (void)n_out;
    MICA_TRY(mica__expect_ndim(&in[1], 1, "the weight"));
    if (in[0].ndim < 1 || in[0].shape[in[0].ndim - 1] != in[1].shape[0])
        MICA_FAIL(MICA_E_SHAPE, "a weight of %lld for rows of %lld", (long long)in[1].shape[0],
                  in[0].ndim ? (long long)in[0].shape[in[0].ndim - 1] : 0LL);
    if (!mica__is_float(in[0].dtype) || !mica__is_float(in[1].dtype))
        MICA_FAIL(MICA_E_SHAPE, "%s rows with a %s weight", mica_dtype_name(in[0].dtype),
                  mica_dtype_name(in[1].dtype));
    if (in[0].extents.axis[in[0].ndim - 1])
        MICA_FAIL(MICA_E_UNSUPPORTED, "the last axis varies from run to run");
    out[0] = in[0];
    return MICA_OK;
}

static mica_status infer_rope_table(void *attrs, int n_in, const mica__aval *in, int n_out,
                                    mica__aval *out)
{
    (void)attrs, (void)n_in, (void)n_out;
    MICA_TRY(mica__expect_ndim(&in[0], 1, "positions"));
    MICA_TRY(mica__expect_dtype(&in[0], MICA_I32, "positions"));
    MICA_TRY(mica__expect_ndim(&in[1], 1, "frequencies"));
    MICA_TRY(mica__expect_dtype(&in[1], MICA_F32, "frequencies"));
    out[0] =
        (mica__aval){.dtype = MICA_F32, .ndim = 3, .shape = {in[0].shape[0], 2, in[1].shape[0]}};
    out[0].extents.axis[0] = in[0].extents.axis[0];
    return MICA_OK;
}

static mica_status infer_rope(void *attrs, int n_in, const mica__aval *in, int n_out,
                              mica__aval *out)
{
    (void)attrs, (void)n_in, (void)n_out;
    MICA_TRY(mica__expect_ndim(&in[0], 3, "x"));
    MICA_TRY(mica__expect_dtype(&in[0], MICA_F32, "x"));
    MICA_TRY(mica__expect_ndim(&in[1], 3, "the table"));
    if (in[1].shape[0] != in[0].shape[0] || in[1].extents.axis[0] != in[0].extents.axis[0] ||
        2 * in[1].shape[2] > in[0].shape[2])
        MICA_FAIL(MICA_E_SHAPE,
                  "a table of %lld positions and %lld frequencies for %lld tokens of %lld features",
                  (long long)in[1].shape[0], (long long)in[1].shape[2], (long long)in[0].shape[0],
                  (long long)in[0].shape[2]);
    out[0] = in[0];
    return MICA_OK;
}

/* positions, sequence_of and block_table of a step with x's tokens. */
static mica_status check_step(const mica__aval *x, const mica__aval *step)
{
    for (int i = 0; i < 2; i++) {
        MICA_TRY(mica__expect_ndim(&step[i], 1, i ? "sequence_of" : "positions"));
        MICA_TRY(mica__expect_dtype(&step[i], MICA_I32, i ? "sequence_of" : "positions"));
        if (step[i].shape[0] != x->shape[0] || step[i].extents.axis[0] != x->extents.axis[0])
            MICA_FAIL(MICA_E_SHAPE, "%lld entries for %lld tokens", (long long)step[i].shape[0],
                      (long long)x->shape[0]);
    }
    MICA_TRY(mica__expect_ndim(&step[2], 2, "block_table"));
    return mica__expect_dtype(&step[2], MICA_I32, "block_table");
}

static mica_status check_pool(const mica__kv_attrs *a, const mica__aval *pool)
{
    MICA_TRY(mica__expect_ndim(pool, 1, "the pool"));
    MICA_TRY(mica__expect_dtype(pool, MICA_U8, "the pool"));
    const int64_t layer = mica__kv_layer_bytes(a->kv_dtype, a->kv_heads, a->head_dim, a->value_dim);
    if (layer < 0)
        MICA_FAIL(MICA_E_UNSUPPORTED, "heads of %d and %d features cannot be kept in this KV type",
                  a->head_dim, a->value_dim);
    if (a->layer_offset < 0 || a->block_bytes < 1 || a->layer_offset > a->block_bytes - layer ||
        pool->shape[0] < a->block_bytes)
        MICA_FAIL(MICA_E_SHAPE, "a layer of %lld bytes at %lld does not fit a block of %lld",
                  (long long)layer, (long long)a->layer_offset, (long long)a->block_bytes);
    return MICA_OK;
}

static mica_status check_heads(const mica__aval *x, int64_t heads, int64_t features,
                               const char *what)
{
    MICA_TRY(mica__expect_ndim(x, 3, what));
    MICA_TRY(mica__expect_dtype(x, MICA_F32, what));
    if ((heads && x->shape[1] != heads) || x->shape[2] != features)
        MICA_FAIL(MICA_E_SHAPE, "%s has %lld heads of %lld features", what, (long long)x->shape[1],
                  (long long)x->shape[2]);
    return MICA_OK;
}

static mica_status infer_kv_write(void *attrs, int n_in, const mica__aval *in, int n_out,
                                  mica__aval *out)
{
    const mica__kv_attrs *a = attrs;
    (void)n_in, (void)n_out;
    MICA_TRY(check_pool(a, &in[0]));
    MICA_TRY(check_heads(&in[1], a->kv_heads, a->head_dim, "k"));
    MICA_TRY(check_heads(&in[2], a->kv_heads, a->value_dim, "v"));
    if (in[1].shape[0] != in[2].shape[0] || in[1].extents.axis[0] != in[2].extents.axis[0])
        MICA_FAIL(MICA_E_SHAPE, "k and v have different numbers of tokens");
    MICA_TRY(check_step(&in[1], &in[3]));
    out[0] = in[0];
    return MICA_OK;
}

static mica_status infer_attention(void *attrs, int n_in, const mica__aval *in, int n_out,
                                   mica__aval *out)
{
    const mica__attention_attrs *a = attrs;
    (void)n_in, (void)n_out;
    MICA_TRY(check_pool(&a->kv, &in[1]));
    MICA_TRY(check_heads(&in[0], 0, a->kv.head_dim, "q"));
    if (in[0].shape[1] % a->kv.kv_heads || a->window < 0)
        MICA_FAIL(MICA_E_SHAPE, "%lld query heads over %d KV heads, window %lld",
                  (long long)in[0].shape[1], a->kv.kv_heads, (long long)a->window);
    MICA_TRY(check_step(&in[0], &in[2]));
    out[0] = in[0];
    out[0].shape[2] = a->kv.value_dim;
    return MICA_OK;
}

/* --- said in simpler ops ---------------------------------------------------------------------- */

static mica_array *rms_norm_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    const mica__norm_attrs *a = attrs;
    (void)n_in;
    const mica_dtype dtype = in[0]->dtype, wide = dtype == MICA_F64 ? MICA_F64 : MICA_F32;
    mica_array *x = mica_astype(in[0], wide), *weight = mica_astype(in[1], wide);
    mica_array *eps = mica__constant(ctx, (double)a->eps, wide);
    mica_array *mean = mica_mean(mica_square(x), 1u << (in[0]->ndim - 1), true);
    mica_array *y = mica_multiply(x, mica_rsqrt(mica_add(mean, eps)));
    if (a->weight_offset != 0)
        weight = mica_add(weight, mica__constant(ctx, (double)a->weight_offset, wide));
    return mica_astype(mica_multiply(y, weight), dtype);
}

static mica_array *rope_table_parts(mica_ctx *ctx, const void *attrs, int n_in,
                                    mica_array *const *in)
{
    const mica__rope_table_attrs *a = attrs;
    (void)n_in;
    mica_array *position = mica_expand_dims(mica_astype(in[0], MICA_F32), 1);
    mica_array *angle = mica_expand_dims(mica_multiply(position, in[1]), 1); /* [T, 1, n] */
    mica_array *scale = mica__constant(ctx, (double)a->scale, MICA_F32);
    mica_array *both[2] = {mica_multiply(scale, mica_cos(angle)),
                           mica_multiply(scale, mica_sin(angle))};
    return mica_concatenate(2, both, 1);
}

/* Entries first .. end - 1 of the last of three axes, each step-th. */
static mica_array *part_of_last(mica_array *x, int64_t first, int64_t end, int64_t step)
{
    const int64_t from[3] = {0, 0, first}, to[3] = {INT64_MAX, INT64_MAX, end};
    const int64_t steps[3] = {1, 1, step};
    return mica_slice(x, 3, from, to, steps);
}

/* Cosines (0) or sines (1) of a table [T, 2, n]: [T, 1, n]. */
static mica_array *table_row(mica_array *table, int64_t row)
{
    const int64_t from[3] = {0, row, 0}, to[3] = {INT64_MAX, row + 1, INT64_MAX};
    return mica_slice(table, 3, from, to, NULL);
}

/* Two arrays [T, H, n] as [T, H, 2n], entry by entry in turn. */
static mica_array *interleave(mica_array *a, mica_array *b)
{
    mica_array *pairs[2] = {mica_expand_dims(a, 3), mica_expand_dims(b, 3)};
    return mica_flatten(mica_concatenate(2, pairs, 3), 2, 3);
}

static mica_array *rope_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    const mica__rope_attrs *attr = attrs;
    (void)ctx, (void)n_in;
    mica_array *x = in[0], *cosine = table_row(in[1], 0), *sine = table_row(in[1], 1);
    const int64_t n = in[1]->shape[2];
    const bool mixed = attr->interleaved;
    mica_array *a = mixed ? part_of_last(x, 0, 2 * n, 2) : part_of_last(x, 0, n, 1);
    mica_array *b = mixed ? part_of_last(x, 1, 2 * n, 2) : part_of_last(x, n, 2 * n, 1);
    mica_array *parts[3] = {
        mica_subtract(mica_multiply(a, cosine), mica_multiply(b, sine)),
        mica_add(mica_multiply(b, cosine), mica_multiply(a, sine)),
        part_of_last(x, 2 * n, x->shape[2], 1), /* not rotated */
    };
    if (!mixed)
        return mica_concatenate(3, parts, 2);
    mica_array *turned[2] = {interleave(parts[0], parts[1]), parts[2]};
    return mica_concatenate(2, turned, 2);
}

const mica__rules mica__fast_rules[] = {
    {MICA__OP_RMS_NORM, "root mean square norm over the last axis", infer_rms_norm, rms_norm_parts,
     0, 0},
    {MICA__OP_ROPE_TABLE, "cosines and sines of positions", infer_rope_table, rope_table_parts, 0,
     0},
    {MICA__OP_ROPE, "rotary position embedding from a table", infer_rope, rope_parts, 0, 0},
    {MICA__OP_KV_WRITE, "keys and values into the paged pool, in place", infer_kv_write, NULL, 0,
     1},
    {MICA__OP_ATTENTION, "attention over the paged pool", infer_attention, NULL, 0, 0},
    {MICA__N_OPS, NULL, NULL, NULL, 0, 0},
};

mica_array *mica__rms_norm(mica_array *x, mica_array *weight, float eps, float offset)
{
    const mica__norm_attrs attrs = {.eps = eps, .weight_offset = offset};
    mica_array *in[2] = {x, weight};
    return mica__apply(mica__ctx_for(2, in), MICA__OP_RMS_NORM, &attrs, 2, in);
}

mica_array *mica_rms_norm(mica_array *x, mica_array *weight, float eps)
{
    return mica__rms_norm(x, weight, eps, 0);
}

mica_array *mica__rope_table(mica_array *positions, mica_array *freqs, float scale)
{
    const mica__rope_table_attrs attrs = {.scale = scale};
    mica_array *in[2] = {positions, freqs};
    return mica__apply(mica__ctx_for(2, in), MICA__OP_ROPE_TABLE, &attrs, 2, in);
}

mica_array *mica__rope(mica_array *x, mica_array *table, bool interleaved)
{
    const mica__rope_attrs attrs = {.interleaved = interleaved};
    mica_array *in[2] = {x, table};
    return mica__apply(mica__ctx_for(2, in), MICA__OP_ROPE, &attrs, 2, in);
}

mica_array *mica__kv_write(mica_array *pool, mica_array *k, mica_array *v,
                           const mica__kv_step *step, const mica__kv_attrs *attrs)
{
    mica_array *in[6] = {pool, k, v, step->positions, step->sequence_of, step->block_table};
    return mica__apply(mica__ctx_for(6, in), MICA__OP_KV_WRITE, attrs, 6, in);
}

mica_array *mica__attention(mica_array *q, mica_array *pool, const mica__kv_step *step,
                            const mica__attention_attrs *attrs)
{
    mica_array *in[5] = {q, pool, step->positions, step->sequence_of, step->block_table};
    return mica__apply(mica__ctx_for(5, in), MICA__OP_ATTENTION, attrs, 5, in);
}
