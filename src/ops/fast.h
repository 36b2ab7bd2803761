/* fast.h - fused operations of decoders, for models.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_OPS_FAST_H
#define MICA_OPS_FAST_H

#include "core/graph.h"

/* x / sqrt(mean(x^2) + eps) * (weight + offset) over the last axis. */
mica_array *mica__rms_norm(mica_array *x, mica_array *weight, float eps, float offset);

/* cos and sin of positions i32 [T] times freqs f32 [n], both scaled: f32 [T, 2, n]. */
mica_array *mica__rope_table(mica_array *positions, mica_array *freqs, float scale);

/* Rotates the first 2n features of x f32 [T, H, D] by the table. */
mica_array *mica__rope(mica_array *x, mica_array *table, bool interleaved);

/* What a step gives every layer that keeps keys and values: positions and sequence_of i32 [T],
 * block_table i32 [S, B]. */
typedef struct mica__kv_step {
    mica_array *positions;
    mica_array *sequence_of;
    mica_array *block_table;
} mica__kv_step;

/* Writes k f32 [T, Hkv, D] and v f32 [T, Hkv, Dv] into the pool u8 [bytes] in place: the pool after
 * it. */
mica_array *mica__kv_write(mica_array *pool, mica_array *k, mica_array *v,
                           const mica__kv_step *step, const mica__kv_attrs *attrs);

/* Attention of q f32 [T, H, D] over the pool: f32 [T, H, Dv]. */
mica_array *mica__attention(mica_array *q, mica_array *pool, const mica__kv_step *step,
                            const mica__attention_attrs *attrs);

#endif
