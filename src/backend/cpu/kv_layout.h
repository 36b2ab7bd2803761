/* kv_layout.h - where the keys and values of one head stand in a block (core/op.h says how).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_KV_LAYOUT_H
#define MICA_BACKEND_CPU_KV_LAYOUT_H

#include "backend/cpu/operand.h"
#include "core/op.h"

typedef struct mica__kv_layout {
    int64_t key_bytes;  /* of one head in one block; values follow */
    int64_t head_bytes; /* keys and values */
} mica__kv_layout;

/* Values that share a scale. */
static inline int mica__kv_group(int dim)
{
    return dim < 32 ? dim : 32;
}

/* Checks the attributes against each other; key and value sizes of one head. */
mica_status mica__kv_layout_of(const mica__kv_attrs *attrs, mica__kv_layout *layout);

/* What kv_write and attention ask about their shared operands, read once a task. */
typedef struct mica__kv_step {
    const mica__kv_attrs *attrs;
    mica__kv_layout layout;
    const char *op; /* for messages */
    int64_t n_blocks;
    const mica__operand *pool;
    const mica__operand *positions;
    const mica__operand *sequence_of;
    const mica__operand *block_table;
} mica__kv_step;

/* operands: pool, positions, sequence_of, block_table. */
mica_status mica__kv_step_of(const char *op, const mica__kv_attrs *attrs, const mica__operand *pool,
                             const mica__operand *positions, mica__kv_step *step);

/* Whether the dtypes and shapes of those operands are what the op takes. */
bool mica__kv_operands_fit(const mica__operand *pool, const mica__operand *positions,
                           const mica__operand *sequence_of, const mica__operand *block_table);

/* Sequence and position of a token, inside the block table. */
mica_status mica__kv_token(const mica__kv_step *step, int64_t token, int64_t *sequence,
                           int64_t *position);

/* Keys of a head in the block that holds positions 16 * index and on; values at + key_bytes. */
mica_status mica__kv_block(const mica__kv_step *step, int64_t sequence, int64_t index, int head,
                           uint8_t **keys);

#endif
