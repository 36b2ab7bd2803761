/* plan_call.h - a node as a kernel will see it, while planning: bounds as shapes, no data.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_PLAN_CALL_H
#define MICA_CORE_PLAN_CALL_H

#include "core/ir.h"

#define MICA__MAX_OPERANDS 20

void mica__plan_operand(const mica__ir *ir, int32_t id, mica__operand *operand);

/* operands: [MICA__MAX_OPERANDS], inputs first; call points into it. */
void mica__plan_call(const mica__ir *ir, const mica__ir_node *node, mica__operand *operands,
                     mica__call *call);

/* Whether a kernel takes the node once all inputs are contiguous and aligned copies. For values as
 * they were collected, before views lie in other values' storage. */
bool mica__has_kernel(const mica__ir *ir, const mica__ir_node *node);

/* Fails: the node's op, and the graph's op that it stands for, have no kernel. */
mica_status mica__no_kernel(const mica__ir *ir, const mica__ir_node *node);

#endif
