/* fused.h - a chain of elementwise operations that runs over one tile at a time.
 *
 * The evaluator's fusion pass writes it, the CPU backend interprets it: each instruction reads one
 * or two slots and writes one. A slot is a tile of floats; an instruction rounds its result to its
 * dtype, so a chain gives the same bits as its operations one by one.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_FUSED_H
#define MICA_CORE_FUSED_H

#include <stdint.h>

#define MICA__FUSED_INPUTS  16
#define MICA__FUSED_OUTPUTS 4
#define MICA__FUSED_INSTRS  40
#define MICA__FUSED_SLOTS   24

/* op is of class UNARY or BINARY, or MICA__OP_ASTYPE (the result is the input rounded to dtype).
 * dtype is the result's: f32, f16 or bf16. */
typedef struct mica__fused_instr {
    uint16_t op;
    uint8_t dtype;
    uint8_t out;   /* slot written; may be a slot that is read here for the last time */
    uint8_t in[2]; /* slots read; [1] is 0 for one operand */
    uint8_t reserved[2];
} mica__fused_instr;

/* Slots 0 .. n_inputs - 1 start with the inputs (f32, f16 or bf16, any strides, broadcast to the
 * outputs' shape), the others undefined. All outputs have one shape; output i is what slot
 * outputs[i] holds at the end, with the dtype of the instruction that wrote it. */
typedef struct mica__fused_attrs {
    uint8_t n_inputs;
    uint8_t n_outputs;
    uint8_t n_instrs;
    uint8_t n_slots;
    uint8_t outputs[MICA__FUSED_OUTPUTS];
    mica__fused_instr instrs[MICA__FUSED_INSTRS];
} mica__fused_attrs;

#endif
