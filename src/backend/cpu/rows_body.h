/* rows_body.h - reductions, norms and rotations of rows of floats, for one feature level.
 *
 * Included by rows_<level>.c after vec_<level>.h. The canonical order of a sum: lane k mod 16, in
 * each lane in order of k; after 1024 elements the tree over the lanes; block sums in order.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/level.h"

#define ROWS_CONCAT_(a, b) a##b
#define ROWS_CONCAT(a, b)  ROWS_CONCAT_(a, b)
#define ROWS_EXPORT        ROWS_CONCAT(mica__rows_, VEC_LEVEL)

#define BLOCK 1024

static inline v16 load_some(const float *x, int64_t n)
{
    return n >= 16 ? v_load(x) : v_load_n(x, (int)n);
}

static inline void store_some(float *to, v16 x, int64_t n)
{
    if (n >= 16)
        v_store(to, x);
    else
        v_store_n(to, x, (int)n);
}

static float sum_row(const float *x, int64_t n)
{
    float total = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t stop = n - start < BLOCK ? n : start + BLOCK;
        v16 lanes = v_set(0);
        for (int64_t k = start; k < stop; k += 16)
            lanes = v_add(lanes, load_some(x + k, stop - k));
        total = total + v_sum(lanes);
    }
    return total;
}

static float sum_squares_row(const float *x, int64_t n)
{
    float total = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t stop = n - start < BLOCK ? n : start + BLOCK;
        v16 lanes = v_set(0);
        for (int64_t k = start; k < stop; k += 16) {
            const v16 v = load_some(x + k, stop - k);
            lanes = v_fma(v, v, lanes);
        }
        total = total + v_sum(lanes);
    }
    return total;
}

static float max_row(const float *x, int64_t n)
{
    v16 lanes = v_set(x[0]);
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        lanes = v_max(lanes, v_load(x + k));
    if (k < n)
        lanes = v_max(lanes, v_keep(v_load_n(x + k, (int)(n - k)), 0, (int)(n - k), x[0]));
    return v_hmax(lanes);
}

static float min_row(const float *x, int64_t n)
{
    v16 lanes = v_set(x[0]);
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        lanes = v_min(lanes, v_load(x + k));
    if (k < n)
        lanes = v_min(lanes, v_keep(v_load_n(x + k, (int)(n - k)), 0, (int)(n - k), x[0]));
    return v_hmin(lanes);
}

#define FOLD_TO(name, f)                                                                           \
    static void name(float *to, const float *x, int64_t n)                                         \
    {                                                                                              \
        for (int64_t k = 0; k < n; k += 16)                                                        \
            store_some(to + k, f(load_some(to + k, n - k), load_some(x + k, n - k)), n - k);       \
    }
FOLD_TO(add_to, v_add)
FOLD_TO(max_to, v_max)
FOLD_TO(min_to, v_min)

static void exp_less(float *to, const float *x, float top, int64_t n)
{
    const v16 shift = v_set(top);
    for (int64_t k = 0; k < n; k += 16)
        store_some(to + k, v_exp(v_sub(load_some(x + k, n - k), shift)), n - k);
}

static void divide(float *to, const float *x, float divisor, int64_t n)
{
    const v16 d = v_set(divisor);
    for (int64_t k = 0; k < n; k += 16)
        store_some(to + k, v_div(load_some(x + k, n - k), d), n - k);
}

static inline v16 load_weight(const uint8_t *weight, mica_dtype dtype, int64_t k, int64_t n)
{
    const int count = n - k < 16 ? (int)(n - k) : 16;
    if (dtype == MICA_F32)
        return count == 16 ? v_load(weight + k * 4) : v_load_n(weight + k * 4, count);
    if (dtype == MICA_F16)
        return v_load_f16_n(weight + k * 2, count);
    return v_load_bf16_n(weight + k * 2, count);
}

static void scale_weighted(float *to, const float *x, float factor, const void *weight,
                           mica_dtype weight_dtype, float offset, int64_t n)
{
    const v16 r = v_set(factor), plus = v_set(offset);
    for (int64_t k = 0; k < n; k += 16) {
        const v16 w = v_add(load_weight(weight, weight_dtype, k, n), plus);
        store_some(to + k, v_mul(v_mul(load_some(x + k, n - k), r), w), n - k);
    }
}

static void rotate(float *to_a, float *to_b, const float *a, const float *b, const float *c,
                   const float *s, int64_t n)
{
    for (int64_t k = 0; k < n; k += 16) {
        const v16 x = load_some(a + k, n - k), y = load_some(b + k, n - k);
        const v16 cosine = load_some(c + k, n - k), sine = load_some(s + k, n - k);
        store_some(to_a + k, v_fnma(y, sine, v_mul(x, cosine)), n - k);
        store_some(to_b + k, v_fma(x, sine, v_mul(y, cosine)), n - k);
    }
}

static void angles(float *c, float *s, const float *freqs, float position, float scale, int64_t n)
{
    const v16 p = v_set(position), factor = v_set(scale);
    for (int64_t k = 0; k < n; k += 16) {
        const v16 angle = v_mul(p, load_some(freqs + k, n - k));
        store_some(c + k, v_mul(factor, v_cos(angle)), n - k);
        store_some(s + k, v_mul(factor, v_sin(angle)), n - k);
    }
}

const mica__rows_level ROWS_EXPORT = {
    .sum = sum_row,
    .sum_squares = sum_squares_row,
    .max = max_row,
    .min = min_row,
    .add_to = add_to,
    .max_to = max_to,
    .min_to = min_to,
    .exp_less = exp_less,
    .divide = divide,
    .scale_weighted = scale_weighted,
    .rotate = rotate,
    .angles = angles,
};
