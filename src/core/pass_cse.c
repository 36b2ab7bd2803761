/* pass_cse.c - equal nodes become one, and what nobody uses goes away.
 *
 * Two nodes are equal when op, attributes and (already merged) inputs are. Operations that update
 * an input in place are never merged. Keeps bits: the surviving node computes what both would have.
 * SPDX-License-Identifier: MIT
 */
#include "base/hash_map.h"
#include "core/ir.h"

#include <string.h>

typedef struct node_table {
    int32_t *slots;  /* node index + 1, 0: empty */
    int64_t n_slots; /* power of two */
} node_table;

static uint64_t node_hash(const mica__ir_node *node)
{
    uint64_t h = mica__hash(node->in, (size_t)node->n_in * sizeof *node->in, (uint64_t)node->op);
    return mica__hash(node->attrs, mica__op_facts_of(node->op)->attr_bytes, h);
}

static bool node_equal(const mica__ir_node *a, const mica__ir_node *b)
{
    return a->op == b->op && a->n_in == b->n_in && a->n_out == b->n_out &&
           !memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) &&
           !memcmp(a->attrs, b->attrs, mica__op_facts_of(a->op)->attr_bytes);
}

/* The equal node that came before, or -1 after noting this one. */
static int32_t find_or_add(const mica__ir *ir, node_table *table, int32_t index)
{
    const mica__ir_node *node = &ir->nodes[index];
    for (uint64_t at = node_hash(node);; at++) {
        int32_t *slot = &table->slots[at & (uint64_t)(table->n_slots - 1)];
        if (!*slot) {
            *slot = index + 1;
            return -1;
        }
        if (node_equal(&ir->nodes[*slot - 1], node))
            return *slot - 1;
    }
}

/* Marks as dead what no output needs. */
static mica_status sweep(mica__ir *ir)
{
    bool *needed = mica__alloc_zero(MICA_MEMORY_GRAPH, (size_t)ir->n_nodes + 1, sizeof *needed);
    if (!needed)
        return MICA_E_MEMORY;
    for (int i = 0; i < ir->n_outputs; i++)
        if (ir->values[ir->outputs[i]].node >= 0)
            needed[ir->values[ir->outputs[i]].node] = true;
    for (int64_t i = ir->n_nodes - 1; i >= 0; i--) {
        mica__ir_node *node = &ir->nodes[i];
        node->dead = !needed[i];
        for (int j = 0; j < node->n_in && needed[i]; j++)
            if (ir->values[node->in[j]].node >= 0)
                needed[ir->values[node->in[j]].node] = true;
    }
    mica__free(needed);
    return MICA_OK;
}

mica_status mica__pass_cse(mica__ir *ir)
{
    node_table table = {.n_slots = 16};
    while (table.n_slots < 2 * ir->n_nodes)
        table.n_slots *= 2;
    table.slots = mica__alloc_zero(MICA_MEMORY_GRAPH, (size_t)table.n_slots, sizeof *table.slots);
    int32_t *same_as = mica__alloc(MICA_MEMORY_GRAPH, (size_t)(ir->n_values + 1) * sizeof *same_as);
    if (!table.slots || !same_as) {
        mica__free(table.slots);
        mica__free(same_as);
        return MICA_E_MEMORY;
    }
    for (int64_t i = 0; i < ir->n_values; i++)
        same_as[i] = (int32_t)i;
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        mica__ir_node *node = &ir->nodes[i];
        for (int j = 0; j < node->n_in; j++)
            node->in[j] = same_as[node->in[j]];
        if (mica__rules_of(node->op)->alias_of)
            continue;
        const int32_t first = find_or_add(ir, &table, (int32_t)i);
        for (int j = 0; first >= 0 && j < node->n_out; j++)
            same_as[node->out + j] = ir->nodes[first].out + j;
    }
    for (int i = 0; i < ir->n_outputs; i++)
        ir->outputs[i] = same_as[ir->outputs[i]];
    mica__free(table.slots);
    mica__free(same_as);
    return sweep(ir);
}
