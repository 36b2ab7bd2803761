/* weights.h - made-up weight matrices whose values are known because they were packed here.
 *
 * Codes and scales are drawn first, the values follow from the definition of the format in double
 * precision, and the bytes are packed from the same codes: nothing is decoded, so the values are
 * independent of the library.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_WEIGHTS_H
#define MICA_TESTS_WEIGHTS_H

#include "backend/cpu/qweight.h"

/* Which extremes a matrix has. */
typedef enum pattern {
    PATTERN_RANDOM,
    PATTERN_LARGEST, /* codes, sub-scales and minima at their largest magnitudes */
    PATTERN_TINY,    /* scales subnormal, or the smallest there are */
    N_PATTERNS
} pattern;

typedef struct weights {
    mica__qweight_attrs attrs;
    mica_dtype scales_dtype; /* MLX affine */
    uint8_t *block;          /* everything below lives in it */
    uint8_t *codes, *scales, *biases;
    double *values; /* [n, k] exact */
} weights;

/* A matrix [n, k] whose bytes begin `offset` bytes behind a 64-byte boundary. */
weights weights_make(int32_t format, int bits, int group, mica_dtype scales_dtype, int64_t n,
                     int64_t k, pattern kind, int offset, uint64_t seed);
void weights_free(weights *w);

/* Its operands, as inputs behind the activations; returns how many. */
int weights_operands(const weights *w, mica__operand *in);
mica__qweight weights_describe(const weights *w);

/* Every stored format that can be multiplied: i = 0, 1, ...; false behind the last. */
bool weights_format(int i, int32_t *format, int *bits, int *group, mica_dtype *scales_dtype);
const char *weights_name(const weights *w);

/* Random numbers of the tests: splitmix64; in [0, 1); in [-1, 1). */
uint64_t draw(uint64_t *state);
double draw_unit(uint64_t *state);
double draw_signed(uint64_t *state);

/* Fills x [rows, k] with a mixture of magnitudes. */
void draw_activations(float *x, int64_t count, uint64_t seed);

/* Plans nothing, runs every task of a kernel over a call's operands, in the given order (1 or -1).
 * Takes and frees scratch and workspace. */
mica_status run_kernel_in_order(const mica__kernel *kernel, mica__call *call, int direction);

/* An operand of a contiguous array. */
mica__operand plain_operand(void *data, mica_dtype dtype, int ndim, const int64_t *shape);

#endif
