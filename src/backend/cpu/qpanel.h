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

/* A stretch is a multiple of 32 values and, where a format has super-blocks, of 256. */
#define MICA__PANEL_VALUES 1024
#define MICA__PANEL_GROUPS (MICA__PANEL_VALUES / 32)

/* 64 bytes: a dword for each of 16 rows. Aligned as its type says. */
typedef uint32_t mica__v64 __attribute__((vector_size(64)));
typedef uint8_t mica__v64b __attribute__((vector_size(64)));
typedef int32_t mica__v64i __attribute__((vector_size(64)));
typedef float mica__v64f __attribute__((vector_size(64)));

typedef struct mica__qpanel {
    mica__v64 code[MICA__PANEL_VALUES / 4];
    mica__v64f d[MICA__PANEL_GROUPS]; /* of each group or super-block */
    mica__v64f m[MICA__PANEL_GROUPS];
    mica__v64i scale[MICA__PANEL_VALUES / 16];      /* of each sub-block */
    mica__v64i scale_pair[MICA__PANEL_VALUES / 32]; /* of two sub-blocks, i16 each */
    mica__v64i min_pair[MICA__PANEL_VALUES / 32];
} mica__qpanel;

/* One activation row over the same stretch. */
typedef struct mica__qact {
    /* Of steps of 32 values: [0]; of steps of 16: [first or last half of 32]. */
    int32_t start[2][MICA__PANEL_GROUPS] __attribute__((aligned(64)));
    float asum[MICA__PANEL_GROUPS]
        __attribute__((aligned(64))); /* sums of activation codes of each group */
    int32_t pair[MICA__PANEL_GROUPS]; /* sums of the codes of two sub-blocks, i16 each */
    const int8_t *codes;              /* of the stretch */
    const float *scales;
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

#endif
