/* pass_phases.c - cuts the list of nodes into phases: stretches of steps that do not depend on each
 * other.
 *
 * A barrier stands only between phases. A node starts in the earliest phase that follows the nodes
 * it reads from, and never before the node ahead of it in the list, so that lifetimes stay short. A
 * node that updates storage in place starts after everybody who reads that storage; a reader that
 * would come later is an error that names it.
 * SPDX-License-Identifier: MIT
 */
#include "core/ir.h"

typedef struct last_use {
    int32_t read;    /* last phase that reads the storage, -1: none */
    int32_t written; /* last phase that writes it, -1: it is a leaf */
    int32_t version; /* value id that the storage holds after the last write */
} last_use;

static int32_t max(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static mica_status place_node(mica__ir *ir, mica__ir_node *node, last_use *uses, int32_t previous)
{
    int32_t start = previous;
    const int alias = mica__rules_of(node->op)->alias_of;
    for (int i = 0; i < node->n_in; i++) {
        const mica__ir_value *value = &ir->values[node->in[i]];
        const last_use *use = &uses[value->base];
        start = max(start, use->written + 1);
        const mica__ir_value *held = &ir->values[use->version];
        if (held->node >= 0 && held->base != use->version && value->shows != use->version)
            MICA_FAIL(MICA_E_STATE, "%s reads an array after %s updated it in place",
                      mica__op_facts_of(node->op)->name,
                      mica__op_facts_of(ir->nodes[held->node].op)->name);
    }
    if (alias)
        start = max(start, uses[ir->values[node->in[alias - 1]].base].read + 1);
    node->phase = start;
    const int32_t end = start + node->kernel->n_stages - 1;
    for (int i = 0; i < node->n_in; i++) {
        last_use *use = &uses[ir->values[node->in[i]].base];
        use->read = max(use->read, end);
    }
    for (int i = 0; i < node->n_out; i++) {
        last_use *use = &uses[ir->values[node->out + i].base];
        use->written = max(use->written, end);
        use->version = node->out + i;
    }
    ir->n_phases = max(ir->n_phases, end + 1);
    return MICA_OK;
}

mica_status mica__pass_phases(mica__ir *ir)
{
    last_use *uses = mica__alloc(MICA_MEMORY_GRAPH, (size_t)(ir->n_values + 1) * sizeof *uses);
    if (!uses)
        return MICA_E_MEMORY;
    for (int64_t i = 0; i < ir->n_values; i++)
        uses[i] = (last_use){-1, -1, (int32_t)i};
    mica_status status = MICA_OK;
    int32_t previous = 0;
    for (int64_t i = 0; i < ir->n_nodes && status == MICA_OK; i++) {
        status = place_node(ir, &ir->nodes[i], uses, previous);
        previous = ir->nodes[i].phase;
    }
    mica__free(uses);
    return status;
}
