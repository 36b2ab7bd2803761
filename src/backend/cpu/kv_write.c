/* kv_write.c - rounds the keys and values of a step's tokens into the blocks of a pool.
 *
 * What is rounded here is what attention reads, also within the same step. A task owns whole
 * tokens, and tokens never share a byte, so tasks do not meet.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/kv_layout.h"
#include "backend/cpu/level.h"

#include <string.h>

#include "base/half.h"

enum { TASK_TOKENS = 8, TOKENS = MICA__KV_BLOCK_TOKENS };

enum { POOL, KEYS, VALUES, POSITIONS, SEQUENCE_OF, BLOCK_TABLE };

static bool accepts(const mica__call *call)
{
    for (int i = KEYS; i <= VALUES; i++)
        if (call->in[i].dtype != MICA_F32 || call->in[i].ndim != 3 || call->in[i].unaligned ||
            !mica__operand_in_rows(&call->in[i]))
            return false;
    return mica__kv_operands_fit(&call->in[POOL], &call->in[POSITIONS], &call->in[SEQUENCE_OF],
                                 &call->in[BLOCK_TABLE]);
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    return mica__div_up(call->in[KEYS].shape[0], TASK_TOKENS);
}

/* One row, rounded: halves in order of the row. */
static size_t scratch_bytes(const mica__call *call)
{
    const mica__kv_attrs *attrs = call->attrs;
    const int64_t dim = attrs->head_dim > attrs->value_dim ? attrs->head_dim : attrs->value_dim;
    return (size_t)(dim * 4 + 63) / 64 * 64;
}

static uint8_t two_codes(int low, int high)
{
    const unsigned byte = (unsigned)(low + 8) | (unsigned)(high + 8) << 4;
    return (uint8_t)byte;
}

/* K of one token: column `slot` of [head_dim][16]. */
static void write_keys(mica__cpu_level level, int kv_dtype, const float *x, int dim, int slot,
                       uint8_t *keys, void *scratch)
{
    if (kv_dtype == MICA__KV_F32) {
        for (int d = 0; d < dim; d++)
            memcpy(keys + (d * TOKENS + slot) * 4, x + d, 4);
        return;
    }
    if (kv_dtype < MICA__KV_Q8) {
        const uint16_t *halves = scratch;
        mica__tile_level_at(level)->store(scratch, x,
                                          kv_dtype == MICA__KV_F16 ? MICA_F16 : MICA_BF16, dim);
        for (int d = 0; d < dim; d++)
            memcpy(keys + (d * TOKENS + slot) * 2, halves + d, 2);
        return;
    }
    const int group = mica__kv_group(dim), step = kv_dtype == MICA__KV_Q8 ? 4 : 8;
    uint8_t *scales = keys + dim / step * TOKENS * 4;
    for (int d = 0; d < dim; d += group) {
        int8_t codes[32];
        const uint16_t half = mica__f32_to_f16(
            mica__attention_level_at(level)->encode(kv_dtype, x + d, group, codes));
        memcpy(scales + (d / group * TOKENS + slot) * 2, &half, 2);
        for (int i = 0; i < group; i += step) {
            uint8_t *dword = keys + ((d + i) / step * TOKENS + slot) * 4;
            for (int j = 0; j < 4; j++)
                dword[j] = kv_dtype == MICA__KV_Q8 ? (uint8_t)codes[i + j]
                                                   : two_codes(codes[i + j], codes[i + j + 4]);
        }
    }
}

/* V of one token: row `slot` of [16][value_dim]. */
static void write_values(mica__cpu_level level, int kv_dtype, const float *x, int dim, int slot,
                         uint8_t *values)
{
    if (kv_dtype < MICA__KV_Q8) {
        const mica_dtype dtype = kv_dtype == MICA__KV_F32    ? MICA_F32
                                 : kv_dtype == MICA__KV_BF16 ? MICA_BF16
                                                             : MICA_F16;
        mica__tile_level_at(level)->store(values + slot * dim * mica_dtype_bytes(dtype), x, dtype,
                                          dim);
        return;
    }
    const bool q8 = kv_dtype == MICA__KV_Q8;
    const int group = mica__kv_group(dim);
    uint8_t *row = values + (q8 ? slot * dim : slot * dim / 2);
    uint8_t *scales = values + (q8 ? TOKENS * dim : TOKENS * dim / 2);
    for (int d = 0; d < dim; d += group) {
        int8_t codes[32];
        const uint16_t half = mica__f32_to_f16(
            mica__attention_level_at(level)->encode(kv_dtype, x + d, group, codes));
        memcpy(scales + (slot * (dim / group) + d / group) * 2, &half, 2);
        for (int i = 0; i < group; i++)
            if (q8)
                row[d + i] = (uint8_t)codes[i];
            else if (i % 2)
                row[(d + i) / 2] = two_codes(codes[i - 1], codes[i]);
    }
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    const mica__kv_attrs *attrs = call->attrs;
    const mica__operand *k = &call->in[KEYS], *v = &call->in[VALUES];
    const mica__cpu_level level = call->cpu->level;
    if (call->out[0].data != call->in[POOL].data)
        MICA_FAIL(MICA_E_INTERNAL, "kv_write: the pool must be updated in place");
    mica__kv_step step;
    MICA_TRY(mica__kv_step_of("kv_write", attrs, &call->out[0], &call->in[POSITIONS], &step));
    const int64_t first = task * TASK_TOKENS;
    for (int64_t t = first; t < first + TASK_TOKENS && t < k->shape[0]; t++) {
        int64_t sequence, position;
        MICA_TRY(mica__kv_token(&step, t, &sequence, &position));
        const int slot = (int)(position % TOKENS);
        for (int head = 0; head < attrs->kv_heads; head++) {
            uint8_t *keys;
            MICA_TRY(mica__kv_block(&step, sequence, position / TOKENS, head, &keys));
            const float *key_row =
                (const float *)k->data + t * k->strides[0] + head * k->strides[1];
            const float *value_row =
                (const float *)v->data + t * v->strides[0] + head * v->strides[1];
            write_keys(level, attrs->kv_dtype, key_row, attrs->head_dim, slot, keys, scratch);
            write_values(level, attrs->kv_dtype, value_row, attrs->value_dim, slot,
                         keys + step.layout.key_bytes);
        }
    }
    return MICA_OK;
}

const mica__kernel mica__cpu_kv_write = {
    .op = MICA__OP_KV_WRITE,
    .name = "kv_write",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .scratch_bytes = scratch_bytes,
    .run = run,
    .in_place = 1,
};
