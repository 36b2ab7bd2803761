/* level.h - the kernels that exist once per feature level, and which level a call uses.
 *
 * A family of kernels is a struct of functions; <family>_<level>.c fills one from <family>_body.h.
 * All levels give the same bits.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_LEVEL_H
#define MICA_BACKEND_CPU_LEVEL_H

#include "backend/cpu/attention_level.h"
#include "base/cpu.h"
#include "core/backend.h"

/* Elementwise work over contiguous runs of n >= 0 elements at any address. */
typedef struct mica__tile_level {
    /* f32, f16 or bf16 to float and back, rounded to nearest even. */
    void (*load)(float *to, const void *from, mica_dtype dtype, int64_t n);
    void (*store)(void *to, const float *from, mica_dtype dtype, int64_t n);
    /* The values f16 or bf16 would keep; nothing for f32. */
    void (*round)(float *values, mica_dtype dtype, int64_t n);
    /* Ops of class UNARY and BINARY; to may be a or b. False where the op is none of them. */
    bool (*unary)(mica__op op, float *to, const float *a, int64_t n);
    bool (*binary)(mica__op op, float *to, const float *a, const float *b, int64_t n);
} mica__tile_level;

/* Reductions and row operations in the canonical order of docs/numerics.md. */
typedef struct mica__rows_level {
    /* Sums (of squares) of n floats: 16 lanes, blocks of 1024, block sums in order. */
    float (*sum)(const float *x, int64_t n);
    float (*sum_squares)(const float *x, int64_t n);
    float (*max)(const float *x, int64_t n); /* n >= 1 */
    float (*min)(const float *x, int64_t n);
    /* to[i] += x[i]; and the larger, the smaller of the two. */
    void (*add_to)(float *to, const float *x, int64_t n);
    void (*max_to)(float *to, const float *x, int64_t n);
    void (*min_to)(float *to, const float *x, int64_t n);
    /* to[i] = e^(x[i] - top); to[i] = x[i] / divisor. to may be x. */
    void (*exp_less)(float *to, const float *x, float top, int64_t n);
    void (*divide)(float *to, const float *x, float divisor, int64_t n);
    /* to[i] = (x[i] * factor) * (weight[i] + offset). */
    void (*scale_weighted)(float *to, const float *x, float factor, const void *weight,
                           mica_dtype weight_dtype, float offset, int64_t n);
    /* Pairs (a[i], b[i]) turned by (c[i], s[i]): a c - b s, b c + a s. Outputs may be inputs. */
    void (*rotate)(float *to_a, float *to_b, const float *a, const float *b, const float *c,
                   const float *s, int64_t n);
    /* c[i] = scale cos(position freqs[i]), s[i] = scale sin(..). */
    void (*angles)(float *c, float *s, const float *freqs, float position, float scale, int64_t n);
} mica__rows_level;

/* NULL where this build has no such level. */
const mica__tile_level *mica__tile_level_at(mica__cpu_level level);
const mica__rows_level *mica__rows_level_at(mica__cpu_level level);
const mica__attention_level *mica__attention_level_at(mica__cpu_level level);

#define MICA__LEVELS(family)                                                                       \
    extern const mica__##family##_level mica__##family##_scalar, mica__##family##_avx2,            \
        mica__##family##_avx512, mica__##family##_neon;
MICA__LEVELS(tile)
MICA__LEVELS(rows)
MICA__LEVELS(attention)
#undef MICA__LEVELS

#endif
