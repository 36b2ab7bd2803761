/* qpanel.h - sixteen weight rows unpacked side by side, and activations prepared for them.
 *
 * A panel holds a stretch of up to MICA__PANEL_VALUES values of 16 rows: codes as
 * [value / 4][16 rows][4 values], one vector of 64 bytes for every 4 values, so that a dot
 * instruction leaves the sums of 16 outputs in its lanes, at every level (AVX-512 sees one
 * register, AVX2 two, NEON four). Codes are unsigned with an offset; levels whose dot instruction
 * takes signed bytes only flip the top bit of 8-bit codes. What the offset adds to a sum is a
 * multiple of the sum of the activation codes: it is the accumulator's start value.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_QPANEL_H
#define MICA_BACKEND_CPU_QPANEL_H

#include "backend/cpu/matmul_level.h"

#if !defined(VL)
#error "a level says first how many rows its vectors hold: VL"
#endif

/* A stretch is a multiple of 32 values and, where a format has super-blocks, of 256. */
#define MICA__PANEL_VALUES 1024
#define MICA__PANEL_GROUPS (MICA__PANEL_VALUES / 32)

typedef struct mica__qpanel {
    uint32_t code[MICA__PANEL_VALUES / 4][16] __attribute__((aligned(64)));
    float d[MICA__PANEL_GROUPS][16]; /* of each group or super-block */
    float m[MICA__PANEL_GROUPS][16];
    int32_t scale[MICA__PANEL_VALUES / 16][16];      /* of each sub-block */
    int32_t scale_pair[MICA__PANEL_VALUES / 32][16]; /* of two sub-blocks, i16 each */
    int32_t min_pair[MICA__PANEL_VALUES / 32][16];
} mica__qpanel;

/* One activation row over the same stretch. Indices count from the stretch's first value. */
typedef struct mica__qact {
    const int8_t *codes;
    const float *scales;
    int32_t *start[2]; /* of groups, or steps of 32 values: [0]; of steps of 16: [half of the 32] */
    float *asum;       /* sums of the codes of each group */
    int32_t *pair;     /* sums of the codes of two sub-blocks, i16 each */
    int8_t *moved;     /* the codes in another order, where a format wants that */
} mica__qact;

/* The same stretch of 16 rows: byte `at` of row i is base[i * step + at]. */
typedef struct mica__stream {
    const uint8_t *base;
    int64_t step;
} mica__stream;

typedef struct mica__qlanes {
    mica__stream codes;
    mica__stream scales, biases; /* MLX formats */
} mica__qlanes;

/* A dword of each of VL rows. */
typedef uint32_t lanes __attribute__((vector_size(VL * 4), may_alias));
typedef int32_t lanes_i __attribute__((vector_size(VL * 4), may_alias));
typedef float lanes_f __attribute__((vector_size(VL * 4), may_alias));

/* Where the vectors of VL rows of a panel's field stand: PER_PANEL apart. */
#define PER_PANEL (16 / VL)

#endif
