/* matmul_level.h - what a feature level provides to the products with weights.
 *
 * Invariant: every level gives the same bits for every function, whatever the number of rows on
 * either side; docs/numerics.md has the orders of additions. Products with rounded
 * activations and float products have levels of their own, composed per processor.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_MATMUL_LEVEL_H
#define MICA_BACKEND_CPU_MATMUL_LEVEL_H

#include "backend/cpu/qweight.h"

/* Most weight rows and activation rows of one strip; more weight rows where there are few
 * activation rows. */
#define MICA__STRIP_ROWS     64
#define MICA__STRIP_ACTS     256
#define MICA__STRIP_FEW_ACTS 4
#define MICA__STRIP_FEW_ROWS 256

/* Sixteen weight rows that share the lanes of a vector: lane i is row first + i * step. Only lanes
 * [from, to) are wanted. All 16 rows exist when to is 16, else just those below to. */
typedef struct mica__panel_rows {
    int64_t first, step;
    int from, to;
} mica__panel_rows;

/* A strip: some weight rows times some activation rows. acc is [n_acts][16 * n_panels] and receives
 * the products; lanes that are not wanted are undefined. */
typedef struct mica__strip {
    const mica__qweight *weight;
    mica__panel_rows panels[MICA__STRIP_FEW_ROWS / 16];
    int n_panels;
    int n_acts;
    const void *const *acts; /* [n_acts] act8 rows, or rows of f32 [k] */
    float *acc;
    uint8_t *scratch; /* 64-byte aligned, as many bytes as the level asks for */
} mica__strip;

/* Some columns of a matrix B [k, n] times some activation rows. */
typedef struct mica__columns {
    const uint8_t *b;          /* element (0, first column), at any address */
    mica__block_format format; /* of b: MICA__F32, F16 or BF16 */
    int64_t stride_bytes;      /* from row to row of b */
    int64_t k;
    int n;                   /* columns, at most MICA__STRIP_ROWS */
    int n_acts;              /* at most MICA__STRIP_ACTS */
    const void *const *acts; /* [n_acts] rows of f32 [k] */
    float *acc;              /* [n_acts][MICA__STRIP_ROWS], what lies beyond n is undefined */
    uint8_t *scratch;
} mica__columns;

/* Products with rounded activations. */
typedef struct mica__i8_level {
    void (*strip)(const mica__strip *strip);
    size_t (*scratch)(const mica__qweight *w);
} mica__i8_level;

/* Everything else. */
typedef struct mica__float_level {
    /* One row of k values (a multiple of group) to act8. */
    void (*quantize_row)(const float *x, int64_t k, int64_t group, uint8_t *row);

    /* Values [k0, k0 + n) of a weight row as f32; k0 a multiple of 256. */
    void (*dequantize)(const mica__qweight *w, int64_t row, int64_t k0, int64_t n, float *out);

    /* The product of f32 rows with weights as f32, over 16 lanes. */
    void (*strip)(const mica__strip *strip);
    size_t (*strip_scratch)(const mica__qweight *w);

    /* x times B with B stored [k, n]: each output sequential in k. */
    void (*columns)(const mica__columns *columns);
    size_t columns_scratch;

    /* f16 or bf16 to f32, f32 to f16 or bf16. */
    void (*to_f32)(mica_dtype dtype, const uint8_t *in, int64_t n, float *out);
    void (*from_f32)(mica_dtype dtype, const float *in, int64_t n, uint8_t *out);
} mica__float_level;

typedef struct mica__matmul_level {
    const mica__i8_level *i8;
    const mica__float_level *real;
} mica__matmul_level;

/* What the products use on this processor; NULL: on the host. */
const mica__matmul_level *mica__matmul_level_for(const mica__cpu *cpu);

extern const mica__i8_level mica__i8_scalar;
extern const mica__i8_level mica__i8_avx2;
extern const mica__i8_level mica__i8_avxvnni;
extern const mica__i8_level mica__i8_avx512vnni;
extern const mica__i8_level mica__i8_neon;
extern const mica__i8_level mica__i8_neondot;

extern const mica__float_level mica__float_scalar;
extern const mica__float_level mica__float_avx2;
extern const mica__float_level mica__float_avx512;
extern const mica__float_level mica__float_neon;

#endif
