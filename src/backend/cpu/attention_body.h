/* attention_body.h - one chunk of keys and values against query rows, for one feature level.
 *
 * Included by attention_<level>.c after vec_<level>.h. Scores have keys in lanes and are sequential
 * over head_dim; values have value_dim in lanes and are sequential over tokens. So no sum crosses
 * lanes but that of the exponentials, and tiles of any size give the same bits. Codes of 8 and 4
 * bits times their f16 scale are exact in float, so they enter like any other key or value.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/level.h"

#define ATTENTION_CONCAT_(a, b) a##b
#define ATTENTION_CONCAT(a, b)  ATTENTION_CONCAT_(a, b)
#define ATTENTION_EXPORT        ATTENTION_CONCAT(mica__attention_, VEC_LEVEL)

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { TOKENS = MICA__KV_BLOCK_TOKENS, CHUNK = MICA__CHUNK_TOKENS, MAX_ROWS = MICA__ATTEND_ROWS };

static inline int group_of(int dim)
{
    return dim < 32 ? dim : 32;
}

/* Sixteen keys of a block at feature d; f32, bf16, f16. */
INLINE v16 load_keys(int dtype, const uint8_t *keys, int d)
{
    if (dtype == MICA__KV_F32)
        return v_load(keys + d * TOKENS * 4);
    if (dtype == MICA__KV_F16)
        return v_load_f16(keys + d * TOKENS * 2);
    return v_load_bf16(keys + d * TOKENS * 2);
}

INLINE void score_plain(const mica__chunk *chunk, int dtype, int rows, int blocks, int block,
                        const float *const *q, v16 acc[MAX_ROWS][MICA__CHUNK_BLOCKS])
{
    for (int d = 0; d < chunk->head_dim; d++) {
        v16 k[MICA__CHUNK_BLOCKS];
        UNROLL
        for (int b = 0; b < blocks; b++)
            k[b] = load_keys(dtype, chunk->keys[block + b], d);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const v16 x = v_set(q[r][d]);
            UNROLL
            for (int b = 0; b < blocks; b++)
                acc[r][b] = v_fma(x, k[b], acc[r][b]);
        }
    }
}

INLINE void score_coded(const mica__chunk *chunk, int dtype, int rows, int blocks, int block,
                        const float *const *q, v16 acc[MAX_ROWS][MICA__CHUNK_BLOCKS])
{
    const int step = dtype == MICA__KV_Q8 ? 4 : 8; /* codes in a dword */
    const int group = group_of(chunk->head_dim);
    const int code_bytes = chunk->head_dim / step * TOKENS * 4;
    for (int g = 0; g < chunk->head_dim; g += group) {
        v16 scale[MICA__CHUNK_BLOCKS];
        UNROLL
        for (int b = 0; b < blocks; b++)
            scale[b] = v_load_f16(chunk->keys[block + b] + code_bytes + g / group * TOKENS * 2);
        for (int d = g; d < g + group; d += step) {
            w16 w[MICA__CHUNK_BLOCKS];
            UNROLL
            for (int b = 0; b < blocks; b++)
                w[b] = w_load(chunk->keys[block + b] + d / step * TOKENS * 4);
            UNROLL
            for (int i = 0; i < step; i++) {
                v16 k[MICA__CHUNK_BLOCKS];
                UNROLL
                for (int b = 0; b < blocks; b++) {
                    /* nibbles of a byte are values i and i + 4 */
                    const v16 code = dtype == MICA__KV_Q8
                                         ? v_code8(w[b], i)
                                         : v_code4(w[b], i < 4 ? 2 * i : 2 * (i - 4) + 1);
                    k[b] = v_mul(scale[b], code);
                }
                UNROLL
                for (int r = 0; r < rows; r++) {
                    const v16 x = v_set(q[r][d + i]);
                    UNROLL
                    for (int b = 0; b < blocks; b++)
                        acc[r][b] = v_fma(x, k[b], acc[r][b]);
                }
            }
        }
    }
}

/* Dot products of `rows` queries with the keys of `blocks` blocks from `block` on. */
INLINE void score_tile(const mica__chunk *chunk, int dtype, int rows, int blocks, int block,
                       const float *const *q, float *scores)
{
    v16 acc[MAX_ROWS][MICA__CHUNK_BLOCKS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int b = 0; b < blocks; b++)
            acc[r][b] = v_set(0);
    }
    if (dtype >= MICA__KV_Q8)
        score_coded(chunk, dtype, rows, blocks, block, q, acc);
    else
        score_plain(chunk, dtype, rows, blocks, block, q, acc);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int b = 0; b < blocks; b++)
            v_store(scores + r * CHUNK + (block + b) * TOKENS, acc[r][b]);
    }
}

/* Sixteen (n) values of one token from feature d on. */
INLINE v16 load_values(const mica__chunk *chunk, int dtype, const uint8_t *block, int token, int d,
                       int n)
{
    const int dim = chunk->value_dim, at = token * dim + d;
    if (dtype == MICA__KV_F32)
        return n == 16 ? v_load(block + at * 4) : v_load_n(block + at * 4, n);
    if (dtype == MICA__KV_F16)
        return n == 16 ? v_load_f16(block + at * 2) : v_load_f16_n(block + at * 2, n);
    if (dtype == MICA__KV_BF16)
        return n == 16 ? v_load_bf16(block + at * 2) : v_load_bf16_n(block + at * 2, n);
    const int group = group_of(dim);
    const int code_bytes = dtype == MICA__KV_Q8 ? TOKENS * dim : TOKENS * dim / 2;
    uint16_t half;
    memcpy(&half, block + code_bytes + (token * (dim / group) + d / group) * 2, 2);
    const v16 scale = v_set_f16(half);
    if (dtype == MICA__KV_Q8)
        return v_mul(scale, n == 16 ? v_load_i8(block + at) : v_load_i8_n(block + at, n));
    return v_mul(scale, v_load_i4_n(block + at / 2, n));
}

/* Sums of values weighted by e, for `rows` rows and `vectors` times 16 features (n in the last). */
INLINE void weigh_tile(const mica__chunk *chunk, int dtype, int rows, int vectors, int d, int n,
                       const float *e, float *to, int64_t to_stride)
{
    v16 acc[MAX_ROWS][4];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            acc[r][j] = v_set(0);
    }
    for (int token = chunk->first; token < chunk->last; token++) {
        const uint8_t *block = chunk->values[token / TOKENS];
        v16 v[4];
        UNROLL
        for (int j = 0; j < vectors; j++)
            v[j] = load_values(chunk, dtype, block, token % TOKENS, d + 16 * j, n);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const v16 x = v_set(e[r * CHUNK + token]);
            UNROLL
            for (int j = 0; j < vectors; j++)
                acc[r][j] = v_fma(x, v[j], acc[r][j]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            v_store(to + r * to_stride + d + 16 * j, acc[r][j]);
    }
}

/* Scores to weights e^(score - max) of the visible tokens, 0 for the others. */
static void soften(const mica__chunk *chunk, float *scores, mica__softmax_state *state)
{
    v16 s[MICA__CHUNK_BLOCKS];
    const int from = chunk->first / TOKENS, to = (chunk->last + TOKENS - 1) / TOKENS;
    v16 top = v_set(-__builtin_inff());
    for (int b = from; b < to; b++) {
        s[b] = v_mul(v_load(scores + b * TOKENS), v_set(chunk->scale));
        if (chunk->soft_cap != 0)
            s[b] = v_mul(v_set(chunk->soft_cap), v_tanh(v_div(s[b], v_set(chunk->soft_cap))));
        s[b] = v_keep(s[b], chunk->first - b * TOKENS, chunk->last - b * TOKENS, -__builtin_inff());
        top = v_max(top, s[b]);
    }
    state->max = v_hmax(top);
    v16 total = v_set(0);
    for (int b = from; b < to; b++) {
        const v16 e = v_exp(v_sub(s[b], v_set(state->max)));
        const v16 seen = v_keep(e, chunk->first - b * TOKENS, chunk->last - b * TOKENS, 0);
        v_store(scores + b * TOKENS, seen);
        total = v_add(total, seen);
    }
    state->sum = v_sum(total);
    state->n_chunks = 1;
}

/* What both sides of a fold are multiplied with: one of them is 1. */
typedef struct fold_factors {
    float ours, theirs;
} fold_factors;

static void fold_values(float *values, const float *later, fold_factors factors, int64_t n)
{
    const v16 a = v_set(factors.ours), b = v_set(factors.theirs);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(values + i, v_fma(v_load(later + i), b, v_mul(v_load(values + i), a)));
    if (i < n) {
        const int rest = (int)(n - i);
        const v16 x = v_load_n(later + i, rest);
        v_store_n(values + i, v_fma(x, b, v_mul(v_load_n(values + i, rest), a)), rest);
    }
}

/* Folds `rows` <= 16 later states, none empty, into earlier ones; the exponentials of all rows are
 * one vector. */
static void fold_rows(int rows, mica__softmax_state *states, float *values, int64_t value_stride,
                      const mica__softmax_state *later, const float *later_values,
                      int64_t later_stride, int64_t n)
{
    float e[16] = {0}, sums[16] = {0};
    for (int r = 0; r < rows; r++)
        e[r] = states[r].max >= later[r].max ? later[r].max - states[r].max
                                             : states[r].max - later[r].max;
    v_store(e, v_exp(v_load(e)));
    fold_factors factors[16] = {{0}};
    float ours[16] = {0}, theirs[16] = {0}, later_sums[16] = {0};
    for (int r = 0; r < rows; r++) {
        const bool keep = states[r].max >= later[r].max;
        factors[r] = keep ? (fold_factors){1, e[r]} : (fold_factors){e[r], 1};
        ours[r] = factors[r].ours;
        theirs[r] = factors[r].theirs;
        sums[r] = states[r].sum;
        later_sums[r] = later[r].sum;
    }
    v_store(sums, v_fma(v_load(later_sums), v_load(theirs), v_mul(v_load(sums), v_load(ours))));
    for (int r = 0; r < rows; r++) {
        if (!states[r].n_chunks) {
            states[r] = later[r];
            memcpy(values + r * value_stride, later_values + r * later_stride,
                   (size_t)n * sizeof *values);
            continue;
        }
        states[r].max = states[r].max >= later[r].max ? states[r].max : later[r].max;
        states[r].sum = sums[r];
        states[r].n_chunks += later[r].n_chunks;
        fold_values(values + r * value_stride, later_values + r * later_stride, factors[r], n);
    }
}

static void fold(mica__softmax_state *state, float *values, const mica__softmax_state *later,
                 const float *later_values, int64_t n)
{
    if (later->n_chunks)
        fold_rows(1, state, values, 0, later, later_values, 0, n);
}

static void finish(float *to, const mica__softmax_state *state, const float *values, int64_t n)
{
    const v16 sum = v_set(state->sum);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(to + i, v_div(v_load(values + i), sum));
    if (i < n)
        v_store_n(to + i, v_div(v_load_n(values + i, (int)(n - i)), sum), (int)(n - i));
}

/* Scores of `rows` rows over the blocks with a visible token. */
INLINE void score_rows(const mica__chunk *chunk, int dtype, int rows, const float *const *q,
                       float *scores)
{
    int b = chunk->first / TOKENS;
    const int to = (chunk->last + TOKENS - 1) / TOKENS;
    for (; b + TILE_BLOCKS <= to; b += TILE_BLOCKS)
        score_tile(chunk, dtype, rows, TILE_BLOCKS, b, q, scores);
    for (; b < to; b++)
        score_tile(chunk, dtype, rows, 1, b, q, scores);
}

INLINE void weigh_rows(const mica__chunk *chunk, int dtype, int rows, const float *e, float *to,
                       int64_t to_stride)
{
    const int dim = chunk->value_dim;
    int d = 0;
    for (; d + 16 * TILE_VECTORS <= dim; d += 16 * TILE_VECTORS)
        weigh_tile(chunk, dtype, rows, TILE_VECTORS, d, 16, e, to, to_stride);
    for (; d + 16 <= dim; d += 16)
        weigh_tile(chunk, dtype, rows, 1, d, 16, e, to, to_stride);
    if (d < dim)
        weigh_tile(chunk, dtype, rows, 1, d, dim - d, e, to, to_stride);
}

INLINE void attend_rows(const mica__chunk *chunk, int dtype, int rows, const float *const *q,
                        mica__softmax_state *states, float *values, int64_t value_stride,
                        float *scratch)
{
    const int64_t padded = (chunk->value_dim + 15) / 16 * 16;
    float *weighed = scratch + MICA__ATTEND_ROWS * CHUNK;
    mica__softmax_state later[MAX_ROWS];
    score_rows(chunk, dtype, rows, q, scratch);
    for (int r = 0; r < rows; r++)
        soften(chunk, scratch + r * CHUNK, &later[r]);
    weigh_rows(chunk, dtype, rows, scratch, weighed, padded);
    fold_rows(rows, states, values, value_stride, later, weighed, padded, chunk->value_dim);
}

INLINE void attend_all(const mica__chunk *chunk, int dtype, int n_rows, const float *const *q,
                       mica__softmax_state *states, float *values, int64_t value_stride,
                       float *scratch)
{
    int r = 0;
    for (; r + TILE_ROWS <= n_rows; r += TILE_ROWS)
        attend_rows(chunk, dtype, TILE_ROWS, q + r, states + r, values + r * value_stride,
                    value_stride, scratch);
    q += r;
    states += r;
    values += r * value_stride;
#if TILE_ROWS > 2 /* heads in groups of 2, 3, 6, 7 are common */
    if (n_rows - r == 3)
        attend_rows(chunk, dtype, 3, q, states, values, value_stride, scratch);
    if (n_rows - r == 2)
        attend_rows(chunk, dtype, 2, q, states, values, value_stride, scratch);
#endif
    if (n_rows - r == 1)
        attend_rows(chunk, dtype, 1, q, states, values, value_stride, scratch);
}

/* The blocks with a visible token, as f32 blocks in scratch. Exact, so the bits stay. */
INLINE void widen_keys(const mica__chunk *chunk, int dtype, int block, float *to)
{
    const uint8_t *keys = chunk->keys[block];
    if (dtype < MICA__KV_Q8) {
        for (int d = 0; d < chunk->head_dim; d++)
            v_store(to + d * TOKENS, load_keys(dtype, keys, d));
        return;
    }
    const int step = dtype == MICA__KV_Q8 ? 4 : 8, group = group_of(chunk->head_dim);
    const uint8_t *scales = keys + chunk->head_dim / step * TOKENS * 4;
    for (int d = 0; d < chunk->head_dim; d += step) {
        const v16 scale = v_load_f16(scales + d / group * TOKENS * 2);
        const w16 w = w_load(keys + d / step * TOKENS * 4);
        UNROLL
        for (int i = 0; i < step; i++) {
            const v16 code =
                dtype == MICA__KV_Q8 ? v_code8(w, i) : v_code4(w, i < 4 ? 2 * i : 2 * (i - 4) + 1);
            v_store(to + (d + i) * TOKENS, v_mul(scale, code));
        }
    }
}

INLINE void widen_values(const mica__chunk *chunk, int dtype, int block, float *to)
{
    const int dim = chunk->value_dim;
    for (int t = 0; t < TOKENS; t++) {
        int d = 0;
        for (; d + 16 <= dim; d += 16)
            v_store(to + t * dim + d, load_values(chunk, dtype, chunk->values[block], t, d, 16));
        if (d < dim)
            v_store_n(to + t * dim + d,
                      load_values(chunk, dtype, chunk->values[block], t, d, dim - d), dim - d);
    }
}

INLINE void widen(const mica__chunk *chunk, int dtype, float *to, mica__chunk *wide)
{
    *wide = *chunk;
    wide->kv_dtype = MICA__KV_F32;
    for (int b = chunk->first / TOKENS; b * TOKENS < chunk->last; b++) {
        float *keys = to + b * TOKENS * (chunk->head_dim + chunk->value_dim);
        float *values = keys + TOKENS * chunk->head_dim;
        widen_keys(chunk, dtype, b, keys);
        widen_values(chunk, dtype, b, values);
        wide->keys[b] = (const uint8_t *)keys;
        wide->values[b] = (const uint8_t *)values;
    }
}

static void attend_f32(const mica__chunk *chunk, int n_rows, const float *const *q,
                       mica__softmax_state *states, float *values, int64_t value_stride,
                       float *scratch)
{
    attend_all(chunk, MICA__KV_F32, n_rows, q, states, values, value_stride, scratch);
}

/* Many rows share the work of widening the chunk once; few are read as they lie. Codes cost more to
 * read, so fewer rows pay for it. */
#define WIDEN_ROWS(dtype) ((dtype) >= MICA__KV_Q8 ? TILE_ROWS + 1 : 2 * TILE_ROWS + 1)

#define ATTEND(name, dtype)                                                                        \
    static void name(const mica__chunk *chunk, int n_rows, const float *const *q,                  \
                     mica__softmax_state *states, float *values, int64_t value_stride,             \
                     float *scratch)                                                               \
    {                                                                                              \
        if (n_rows < WIDEN_ROWS(dtype)) {                                                          \
            attend_all(chunk, dtype, n_rows, q, states, values, value_stride, scratch);            \
            return;                                                                                \
        }                                                                                          \
        mica__chunk wide;                                                                          \
        widen(chunk, dtype, scratch + mica__attend_tile_floats(chunk->value_dim), &wide);          \
        attend_f32(&wide, n_rows, q, states, values, value_stride, scratch);                       \
    }
ATTEND(attend_bf16, MICA__KV_BF16)
ATTEND(attend_f16, MICA__KV_F16)
ATTEND(attend_q8, MICA__KV_Q8)
ATTEND(attend_q4, MICA__KV_Q4)

static void attend(const mica__chunk *chunk, int n_rows, const float *const *queries,
                   mica__softmax_state *states, float *values, int64_t value_stride, float *scratch)
{
    switch (chunk->kv_dtype) {
    case MICA__KV_F32:
        attend_f32(chunk, n_rows, queries, states, values, value_stride, scratch);
        break;
    case MICA__KV_BF16:
        attend_bf16(chunk, n_rows, queries, states, values, value_stride, scratch);
        break;
    case MICA__KV_F16:
        attend_f16(chunk, n_rows, queries, states, values, value_stride, scratch);
        break;
    case MICA__KV_Q8:
        attend_q8(chunk, n_rows, queries, states, values, value_stride, scratch);
        break;
    default:
        attend_q4(chunk, n_rows, queries, states, values, value_stride, scratch);
        break;
    }
}

/* Largest magnitude of n <= 32 values; NaN if one is. */
static float magnitude_of(const float *x, int n)
{
    v16 top = v_set(0);
    int i = 0;
    for (; i + 16 <= n; i += 16)
        top = v_max(top, v_abs(v_load(x + i)));
    if (i < n)
        top = v_max(top, v_abs(v_load_n(x + i, n - i)));
    return v_hmax(top);
}

/* See attention_level.h. */
static float encode(int kv_dtype, const float *x, int n, int8_t *codes)
{
    const bool q8 = kv_dtype == MICA__KV_Q8;
    const float magnitude = magnitude_of(x, n);
    float extreme = magnitude;
    if (!q8)
        for (int i = 0; i < n; i++)
            if (__builtin_fabsf(x[i]) == magnitude) {
                extreme = x[i];
                break;
            }
    uint16_t half = mica__f32_to_f16(q8 ? extreme / 127.0f : extreme / -8.0f);
    if ((half & 0x7fff) > 0x7bff)
        half = (uint16_t)((half & 0x8000) | 0x7bff);
    if (!(magnitude < __builtin_inff()))
        half = 0x7e00;
    const float scale = mica__f16_to_f32(half);
    if (scale == 0 || scale != scale) {
        memset(codes, 0, (size_t)n);
        return scale;
    }
    const v16 divisor = v_set(scale), low = v_set(q8 ? -127.0f : -8.0f);
    const v16 high = v_set(q8 ? 127.0f : 7.0f), rounder = v_set(0x1.8p23f);
    for (int i = 0; i < n; i += 16) {
        const int count = n - i < 16 ? n - i : 16;
        const v16 y = v_div(v_load_n(x + i, count), divisor);
        const v16 nearest = v_sub(v_add(v_min(v_max(y, low), high), rounder), rounder);
        float lanes[16];
        v_store(lanes, nearest);
        for (int j = 0; j < count; j++)
            codes[i + j] = (int8_t)lanes[j];
    }
    return scale;
}

const mica__attention_level ATTENTION_EXPORT = {attend, fold, finish, encode};
