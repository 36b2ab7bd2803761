/* attention_level.h - what attention needs once per feature level.
 *
 * A chunk is 64 tokens at an absolute position that is a multiple of 64, four blocks of 16. The
 * arithmetic of one query row is the same whichever rows it shares a call with.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_ATTENTION_LEVEL_H
#define MICA_BACKEND_CPU_ATTENTION_LEVEL_H

#include <stdint.h>

#include "core/op.h"

#define MICA__CHUNK_BLOCKS 4
#define MICA__CHUNK_TOKENS (MICA__CHUNK_BLOCKS * MICA__KV_BLOCK_TOKENS)

/* Running softmax of one query row: values are sums weighted by e^(score - max). */
typedef struct mica__softmax_state {
    float max;
    float sum;
    int32_t n_chunks; /* folded so far; 0: empty, values undefined */
} mica__softmax_state;

/* One chunk of one KV head, seen by some query rows over the same range of its tokens. */
typedef struct mica__chunk {
    int32_t kv_dtype;
    int32_t head_dim;
    int32_t value_dim;
    int first, last; /* visible tokens [first, last) of the chunk, not empty */
    const uint8_t *keys[MICA__CHUNK_BLOCKS]; /* of blocks with a visible token; others undefined */
    const uint8_t *values[MICA__CHUNK_BLOCKS];
    float scale;
    float soft_cap;
} mica__chunk;

/* Rows of a register tile, at most. */
#define MICA__ATTEND_ROWS 4

/* Floats of scratch that attend needs: for tiles, and for a widened chunk behind them. */
static inline int64_t mica__attend_tile_floats(int64_t value_dim)
{
    return MICA__ATTEND_ROWS * (MICA__CHUNK_TOKENS + (value_dim + 15) / 16 * 16);
}

static inline int64_t mica__attend_floats(int64_t head_dim, int64_t value_dim)
{
    return mica__attend_tile_floats(value_dim) + MICA__CHUNK_TOKENS * (head_dim + value_dim);
}

typedef struct mica__attention_level {
    /* Folds the chunk into the state of n_rows query rows. queries[i]: float [head_dim];
     * states[i], values of row i at values + i * value_stride. scratch:
     * mica__attend_floats. */
    void (*attend)(const mica__chunk *chunk, int n_rows, const float *const *queries,
                   mica__softmax_state *states, float *values, int64_t value_stride,
                   float *scratch);
    /* Folds a later state into an earlier one. n: value_dim. */
    void (*fold)(mica__softmax_state *state, float *values, const mica__softmax_state *later,
                 const float *later_values, int64_t n);
    /* to[i] = values[i] / sum. */
    void (*finish)(float *to, const mica__softmax_state *state, const float *values, int64_t n);
    /* Rounds n <= 32 values that share a scale to q8 or q4 codes; returns the scale, which an f16
     * holds exactly. q8: codes in [-127, 127], scale = largest magnitude / 127. q4: codes in [-8,
     * 7], scale = the first value of largest magnitude / -8. The scale is rounded to f16 (held
     * within its finite range), then code = value / scale, rounded, to the nearest integer, ties to
     * even, held in range. Scale 0: codes 0. A value that is not finite makes the scale NaN. */
    float (*encode)(int kv_dtype, const float *x, int n, int8_t *codes);
} mica__attention_level;

#endif
