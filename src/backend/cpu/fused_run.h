/* fused_run.h - the tile interpreter behind all elementwise work on floats.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_FUSED_RUN_H
#define MICA_BACKEND_CPU_FUSED_RUN_H

#include "backend/cpu/operand.h"
#include "core/fused.h"

/* Elements of one slot: 4 KiB of floats, so that a chain of a dozen slots stays in L1. */
#define MICA__FUSED_TILE 1024

/* Whether a chain is well formed and these operands fit it. */
bool mica__fused_accepts(const mica__fused_attrs *chain, const mica__operand *in,
                         const mica__operand *out);

/* Scratch for a chain: a tile for each slot. */
size_t mica__fused_scratch_bytes(const mica__fused_attrs *chain);

/* Elements [start, start + n) of the outputs. Output 0 may lie over an input of the same dtype,
 * shape and strides. */
mica_status mica__fused_run(const mica__cpu *cpu, const mica__fused_attrs *chain,
                            const mica__operand *in, const mica__operand *out, int64_t start,
                            int64_t n, void *scratch);

#endif
