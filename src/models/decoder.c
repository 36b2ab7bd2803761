/* decoder.c - builds the forward pass of any decoder that decoder_spec can describe.
 *
 * One flat ragged step: T tokens of any sequences, keys and values in paged pools. The residual
 * stream is f32. Only rows whose logits are wanted go through the last layer's attention and mlp.
 * SPDX-License-Identifier: MIT
 */
#include "models/decoder.h"

#include <string.h>

#include <mica/ops.h>

#include "core/program.h"
#include "ops/fast.h"

typedef struct builder {
    mica_ctx *mc;
    const mica__decoder_spec *spec;
    const mica__decoder_weights *weights;
    const mica__decoder_pools *pools;
    mica__activations activations;
    mica_array *rows; /* which tokens' logits are wanted */
    mica_array *positions, *sequence_of;
    mica_array *tables[2]; /* block tables by pool */
    mica_array *memory[2]; /* pool memory, after the writes so far */
    mica_array *rope, *rope_sliding;
} builder;

mica_status mica__decoder_pools_of(const mica__decoder_spec *spec, mica__kv_dtype kv_dtype,
                                   mica__decoder_pools *pools)
{
    *pools = (mica__decoder_pools){.kv_dtype = kv_dtype};
    const int64_t layer =
        mica__kv_layer_bytes((int32_t)kv_dtype, spec->n_kv_heads, spec->head_dim, spec->head_dim);
    if (layer < 0)
        MICA_FAIL(MICA_E_UNSUPPORTED, "heads of %d features cannot be kept as q8 or q4: use f16",
                  spec->head_dim);
    int index[2] = {-1, -1}; /* full, sliding */
    for (int i = 0; i < spec->n_layers; i++) {
        const int kind = spec->sliding[i];
        if (index[kind] < 0) {
            index[kind] = pools->n++;
            pools->spec[index[kind]] =
                (mica__pool_spec){.kind = kind ? MICA__POOL_WINDOW : MICA__POOL_FULL,
                                  .window = kind ? spec->window : 0};
        }
        mica__pool_spec *pool = &pools->spec[index[kind]];
        pools->pool_of[i] = (int8_t)index[kind];
        pools->layer_offset[i] = pool->block_bytes;
        pool->block_bytes += (layer + 63) / 64 * 64;
    }
    return MICA_OK;
}

static mica_array *linear(const builder *b, mica_array *x, const mica__linear_weights *w)
{
    mica_array *y = mica__linear(x, &w->matrix, b->activations);
    return w->bias ? mica_add(y, w->bias) : y;
}

static const mica__linear_weights *matrix(const mica__layer_weights *layer, mica__role role)
{
    return &layer->linear[role - MICA__FIRST_LAYER_ROLE];
}

static mica_array *norm(const builder *b, mica_array *x, mica_array *weight)
{
    return mica__rms_norm(x, weight, b->spec->norm_eps, b->spec->norm_offset);
}

static mica_array *layer_norm(const builder *b, mica_array *x, const mica__layer_weights *layer,
                              mica__role role)
{
    return norm(b, x, layer->vector[role - MICA__FIRST_LAYER_ROLE]);
}

/* [T, heads * D] to [T, heads, D], normalised where the architecture does, rotated. */
static mica_array *heads_of(const builder *b, mica_array *x, int32_t heads,
                            const mica__layer_weights *layer, mica__role norm_role,
                            mica_array *rope)
{
    x = mica_reshape(x, MICA_SHAPE(-1, heads, b->spec->head_dim));
    if (b->spec->qk_norm)
        x = layer_norm(b, x, layer, norm_role);
    return mica__rope(x, rope, b->spec->interleaved);
}

static mica__attention_attrs attention_attrs(const builder *b, int i)
{
    const mica__decoder_spec *s = b->spec;
    const mica__pool_spec *pool = &b->pools->spec[b->pools->pool_of[i]];
    mica__attention_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.kv = (mica__kv_attrs){.kv_dtype = (int32_t)b->pools->kv_dtype,
                                .kv_heads = s->n_kv_heads,
                                .head_dim = s->head_dim,
                                .value_dim = s->head_dim,
                                .block_bytes = pool->block_bytes,
                                .layer_offset = b->pools->layer_offset[i]};
    attrs.scale = s->attention_scale;
    attrs.soft_cap = s->attention_cap;
    attrs.window = pool->window;
    return attrs;
}

/* Attention of layer i over its normalised input h; *x, the residual stream, is cut to the wanted
 * rows in the last layer. */
static mica_array *attend(builder *b, int i, mica_array *h, mica_array **x)
{
    const mica__decoder_spec *s = b->spec;
    const mica__layer_weights *layer = &b->weights->layers[i];
    const int pool = b->pools->pool_of[i];
    const mica__attention_attrs attrs = attention_attrs(b, i);
    mica_array *rope = s->sliding[i] ? b->rope_sliding : b->rope;
    mica__kv_step step = {b->positions, b->sequence_of, b->tables[pool]};

    mica_array *k = heads_of(b, linear(b, h, matrix(layer, MICA__W_K)), s->n_kv_heads, layer,
                             MICA__W_K_NORM, rope);
    mica_array *v = mica_reshape(linear(b, h, matrix(layer, MICA__W_V)),
                                 MICA_SHAPE(-1, s->n_kv_heads, s->head_dim));
    b->memory[pool] = mica__kv_write(b->memory[pool], k, v, &step, &attrs.kv);
    if (i == s->n_layers - 1) {
        h = mica_take(h, b->rows, 0);
        *x = mica_take(*x, b->rows, 0);
        rope = mica_take(rope, b->rows, 0);
        step.positions = mica_take(b->positions, b->rows, 0);
        step.sequence_of = mica_take(b->sequence_of, b->rows, 0);
    }
    mica_array *q = heads_of(b, linear(b, h, matrix(layer, MICA__W_Q)), s->n_heads, layer,
                             MICA__W_Q_NORM, rope);
    mica_array *y = mica__attention(q, b->memory[pool], &step, &attrs);
    y = mica_reshape(y, MICA_SHAPE(-1, (int64_t)s->n_heads * s->head_dim));
    return linear(b, y, matrix(layer, MICA__W_O));
}

static mica_array *mlp(const builder *b, const mica__layer_weights *layer, mica_array *h)
{
    mica_array *gate = linear(b, h, matrix(layer, MICA__W_GATE));
    mica_array *up = linear(b, h, matrix(layer, MICA__W_UP));
    h = b->spec->mlp == MICA__MLP_GEGLU ? mica_geglu(gate, up) : mica_swiglu(gate, up);
    return linear(b, h, matrix(layer, MICA__W_DOWN));
}

static mica_array *forward(builder *b, mica_array *tokens)
{
    const mica__decoder_spec *s = b->spec;
    mica_array *x = mica__embed(tokens, &b->weights->embed.matrix);
    if (s->embed_scale > 0)
        x = mica_multiply(x, mica_scalar(b->mc, (double)s->embed_scale, MICA_F32));
    for (int i = 0; i < s->n_layers; i++) {
        const mica__layer_weights *layer = &b->weights->layers[i];
        mica_array *y = attend(b, i, layer_norm(b, x, layer, MICA__W_ATTN_NORM), &x);
        if (s->post_norms)
            y = layer_norm(b, y, layer, MICA__W_POST_ATTN_NORM);
        x = mica_add(x, y);
        y = mlp(b, layer, layer_norm(b, x, layer, MICA__W_FFN_NORM));
        if (s->post_norms)
            y = layer_norm(b, y, layer, MICA__W_POST_FFN_NORM);
        x = mica_add(x, y);
    }
    mica_array *logits = linear(b, norm(b, x, b->weights->out_norm), &b->weights->head);
    if (s->logits_cap > 0) {
        mica_array *cap = mica_scalar(b->mc, (double)s->logits_cap, MICA_F32);
        logits = mica_multiply(mica_tanh(mica_divide(logits, cap)), cap);
    }
    return logits;
}

static mica_status build(builder *b, const mica__step_bounds *bounds, mica_program **program)
{
    const int n_pools = b->pools->n;
    mica_array *in[MICA__STEP_INPUTS + 4], *out[3];
    const mica_shape flat = {1, {bounds->tokens}}, table = {2, {bounds->sequences, bounds->blocks}};
    in[0] = mica_input_extent(b->mc, "tokens", flat, MICA_I32);
    in[1] = b->positions = mica_input_extent(b->mc, "tokens", flat, MICA_I32);
    in[2] = b->sequence_of = mica_input_extent(b->mc, "tokens", flat, MICA_I32);
    in[3] = b->rows = mica_input_extent(b->mc, "rows", flat, MICA_I32);
    for (int p = 0; p < n_pools; p++) {
        /* The engine's range of addresses has no length of its own: block numbers bound it. */
        const mica_shape memory = {1, {b->pools->spec[p].block_bytes * ((int64_t)1 << 31)}};
        in[MICA__STEP_INPUTS + p] = b->tables[p] =
            mica_input_extent(b->mc, "sequences", table, MICA_I32);
        in[MICA__STEP_INPUTS + n_pools + p] = b->memory[p] = mica_input(b->mc, memory, MICA_U8);
    }
    b->rope = mica__rope_table(b->positions, b->weights->freqs, 1);
    b->rope_sliding = b->weights->freqs_sliding
                          ? mica__rope_table(b->positions, b->weights->freqs_sliding, 1)
                          : NULL;
    out[0] = forward(b, in[0]);
    for (int p = 0; p < n_pools; p++)
        out[1 + p] = b->memory[p];
    return mica_compile(b->mc, MICA__STEP_INPUTS + 2 * n_pools, in, 1 + n_pools, out, program);
}

mica_status mica__decoder_compile(mica_ctx *mc, const mica__decoder_spec *spec,
                                  const mica__decoder_weights *weights,
                                  const mica__decoder_pools *pools, mica__activations activations,
                                  const mica__step_bounds *bounds, mica_program **program)
{
    builder b = {
        .mc = mc, .spec = spec, .weights = weights, .pools = pools, .activations = activations};
    mica_scope *scope = mica_scope_push(mc);
    if (!scope)
        return MICA_E_MEMORY;
    mica_clear_error(mc);
    mica_status status = build(&b, bounds, program);
    if (status != MICA_OK)
        status = mica__fail(mica_error_status(mc), "%s", mica_error(mc));
    mica_clear_error(mc);
    mica_scope_pop(scope);
    return status;
}
