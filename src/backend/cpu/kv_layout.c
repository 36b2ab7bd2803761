/* kv_layout.c - finding the block of a token, with every index checked.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/kv_layout.h"

static int64_t plane_bytes(int32_t kv_dtype, int64_t dim)
{
    const int64_t bits[MICA__N_KV_DTYPES] = {32, 16, 16, 8, 4};
    int64_t bytes = MICA__KV_BLOCK_TOKENS * dim * bits[kv_dtype] / 8;
    if (kv_dtype >= MICA__KV_Q8)
        bytes += MICA__KV_BLOCK_TOKENS * 2 * (dim / mica__kv_group((int)dim));
    return bytes;
}

mica_status mica__kv_layout_of(const mica__kv_attrs *attrs, mica__kv_layout *layout)
{
    const int64_t bytes =
        mica__kv_layer_bytes(attrs->kv_dtype, attrs->kv_heads, attrs->head_dim, attrs->value_dim);
    if (bytes < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "KV type %d cannot hold heads of %d and %d values",
                  (int)attrs->kv_dtype, (int)attrs->head_dim, (int)attrs->value_dim);
    if (attrs->layer_offset < 0 || attrs->block_bytes < bytes ||
        attrs->layer_offset > attrs->block_bytes - bytes)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "a layer of %lld bytes at offset %lld does not fit KV blocks of %lld bytes",
                  (long long)bytes, (long long)attrs->layer_offset, (long long)attrs->block_bytes);
    layout->key_bytes = plane_bytes(attrs->kv_dtype, attrs->head_dim);
    layout->head_bytes = bytes / attrs->kv_heads;
    return MICA_OK;
}

mica_status mica__kv_step_of(const char *op, const mica__kv_attrs *attrs, const mica__operand *pool,
                             const mica__operand *positions, mica__kv_step *step)
{
    MICA_TRY(mica__kv_layout_of(attrs, &step->layout));
    step->attrs = attrs;
    step->op = op;
    step->n_blocks = pool->shape[0] / attrs->block_bytes;
    step->pool = pool;
    step->positions = positions;
    step->sequence_of = positions + 1;
    step->block_table = positions + 2;
    return MICA_OK;
}

bool mica__kv_operands_fit(const mica__operand *pool, const mica__operand *positions,
                           const mica__operand *sequence_of, const mica__operand *block_table)
{
    return pool->dtype == MICA_U8 && pool->ndim == 1 && mica__operand_in_rows(pool) &&
           positions->dtype == MICA_I32 && positions->ndim == 1 && sequence_of->dtype == MICA_I32 &&
           sequence_of->ndim == 1 && block_table->dtype == MICA_I32 && block_table->ndim == 2 &&
           !positions->unaligned && !sequence_of->unaligned && !block_table->unaligned;
}

mica_status mica__kv_token(const mica__kv_step *step, int64_t token, int64_t *sequence,
                           int64_t *position)
{
    const mica__operand *table = step->block_table;
    *sequence = mica__operand_integer(step->sequence_of, token * step->sequence_of->strides[0]);
    *position = mica__operand_integer(step->positions, token * step->positions->strides[0]);
    if (*sequence < 0 || *sequence >= table->shape[0])
        MICA_FAIL(MICA_E_ARGUMENT, "%s: token %lld is of sequence %lld, the block table has %lld",
                  step->op, (long long)token, (long long)*sequence, (long long)table->shape[0]);
    if (*position < 0 || *position / MICA__KV_BLOCK_TOKENS >= table->shape[1])
        MICA_FAIL(MICA_E_ARGUMENT,
                  "%s: token %lld has position %lld, the block table covers [0, %lld)", step->op,
                  (long long)token, (long long)*position,
                  (long long)(table->shape[1] * MICA__KV_BLOCK_TOKENS));
    return MICA_OK;
}

mica_status mica__kv_block(const mica__kv_step *step, int64_t sequence, int64_t index, int head,
                           uint8_t **keys)
{
    const mica__operand *table = step->block_table;
    const int64_t block =
        mica__operand_integer(table, sequence * table->strides[0] + index * table->strides[1]);
    if (block < 0 || block >= step->n_blocks)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "%s: sequence %lld needs block %lld of its table, which is %lld; the pool has "
                  "blocks 0 to %lld",
                  step->op, (long long)sequence, (long long)index, (long long)block,
                  (long long)step->n_blocks - 1);
    *keys = step->pool->data + block * step->attrs->block_bytes + step->attrs->layer_offset +
            head * step->layout.head_bytes;
    return MICA_OK;
}
