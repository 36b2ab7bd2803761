/* pass_fuse.c - elementwise operations that feed each other become one step, so that memory is read
 * and written once.
 *
 * A group grows backwards from its last node: the producer of one of its inputs joins when it is
 * elementwise on floats, has the group's shape, and nobody outside the group needs its value.
 * Inputs are looked at from the latest producer back, so all users of a value are known when it is
 * judged. Every instruction rounds to its dtype, so fusing keeps bits. The group runs where its
 * last node stood; members in between die.
 * SPDX-License-Identifier: MIT
 */
#include "core/fused.h"
#include "core/ir.h"

#include <string.h>

typedef struct group {
    int32_t members[MICA__FUSED_INSTRS]; /* node indices, descending */
    int n_members;
    int32_t inputs[MICA__FUSED_INPUTS]; /* value ids */
    int32_t uses[MICA__FUSED_INPUTS];   /* by members so far */
    int n_inputs;
} group;

static bool is_fusible_dtype(mica_dtype dtype)
{
    return dtype == MICA_F32 || dtype == MICA_F16 || dtype == MICA_BF16;
}

static bool is_fusible(const mica__ir *ir, const mica__ir_node *node)
{
    const mica__op_class class = mica__op_facts_of(node->op)->class;
    if (class != MICA__CLASS_UNARY && class != MICA__CLASS_BINARY && node->op != MICA__OP_ASTYPE)
        return false;
    for (int i = 0; i < node->n_in; i++)
        if (!is_fusible_dtype(ir->values[node->in[i]].dtype))
            return false;
    return is_fusible_dtype(ir->values[node->out].dtype);
}

static bool same_shape(const mica__ir_value *a, const mica__ir_value *b)
{
    return a->ndim == b->ndim && !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) &&
           !memcmp(a->extents, b->extents, (size_t)a->ndim);
}

/* Adds a use of a value by the group; false when there is no room for another input. */
static bool use(group *g, int32_t value)
{
    for (int i = 0; i < g->n_inputs; i++)
        if (g->inputs[i] == value) {
            g->uses[i]++;
            return true;
        }
    if (g->n_inputs == MICA__FUSED_INPUTS)
        return false;
    g->inputs[g->n_inputs] = value;
    g->uses[g->n_inputs++] = 1;
    return true;
}

/* Puts a node into the group in place of the input that it computes (none for the first). All or
 * nothing. */
static bool join(group *g, const mica__ir *ir, int32_t index, int input)
{
    const mica__ir_node *node = &ir->nodes[index];
    group grown = *g;
    if (grown.n_members == MICA__FUSED_INSTRS)
        return false;
    if (input >= 0) {
        grown.n_inputs--;
        grown.inputs[input] = grown.inputs[grown.n_inputs];
        grown.uses[input] = grown.uses[grown.n_inputs];
    }
    for (int i = 0; i < node->n_in; i++)
        if (!use(&grown, node->in[i]))
            return false;
    if (grown.n_inputs + 2 > MICA__FUSED_SLOTS)
        return false;
    grown.members[grown.n_members++] = index;
    *g = grown;
    return true;
}

/* The input with the latest producer that was not looked at yet (producers below `before`), or -1.
 */
static int latest_input(const group *g, const mica__ir *ir, int32_t before)
{
    int best = -1;
    for (int i = 0; i < g->n_inputs; i++) {
        const int32_t node = ir->values[g->inputs[i]].node;
        if (node >= 0 && node < before && (best < 0 || node > ir->values[g->inputs[best]].node))
            best = i;
    }
    return best;
}

static void grow_group(group *g, const mica__ir *ir, const int32_t *n_uses, int32_t root)
{
    const mica__ir_value *out = &ir->values[ir->nodes[root].out];
    memset(g, 0, sizeof *g);
    join(g, ir, root, -1);
    for (int32_t before = root;;) {
        const int input = latest_input(g, ir, before);
        if (input < 0)
            return;
        const int32_t value = g->inputs[input];
        before = ir->values[value].node;
        const mica__ir_node *node = &ir->nodes[before];
        if (node->out == value && ir->values[value].base == value && is_fusible(ir, node) &&
            !node->dead && n_uses[value] == g->uses[input] && same_shape(&ir->values[value], out))
            join(g, ir, before, input);
    }
}

/* --- from group to instructions --------------------------------------------------------------- */

static int slot_of(const int32_t *slot_value, int n_slots, int32_t value)
{
    for (int i = 0; i < n_slots; i++)
        if (slot_value[i] == value)
            return i;
    return -1;
}

/* Whether a member after position `at` (counted from the first to run) still reads the value. */
static bool read_later(const group *g, const mica__ir *ir, int at, int32_t value)
{
    for (int m = at + 1; m < g->n_members; m++) {
        const mica__ir_node *node = &ir->nodes[g->members[g->n_members - 1 - m]];
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] == value)
                return true;
    }
    return false;
}

/* Assigns slots; a slot is free again after its value's last reader. False when they do not
 * suffice. */
static bool write_chain(const group *g, const mica__ir *ir, mica__fused_attrs *chain)
{
    int32_t slot_value[MICA__FUSED_SLOTS];
    memset(chain, 0, sizeof *chain);
    chain->n_inputs = (uint8_t)g->n_inputs;
    chain->n_outputs = 1;
    chain->n_instrs = (uint8_t)g->n_members;
    int n_slots = g->n_inputs;
    for (int i = 0; i < g->n_inputs; i++)
        slot_value[i] = g->inputs[i];
    for (int m = 0; m < g->n_members; m++) {
        const mica__ir_node *node = &ir->nodes[g->members[g->n_members - 1 - m]];
        mica__fused_instr *instr = &chain->instrs[m];
        instr->op = (uint16_t)node->op;
        instr->dtype = (uint8_t)ir->values[node->out].dtype;
        for (int i = 0; i < node->n_in; i++)
            instr->in[i] = (uint8_t)slot_of(slot_value, n_slots, node->in[i]);
        for (int s = 0; s < n_slots; s++)
            if (slot_value[s] >= 0 && !read_later(g, ir, m, slot_value[s]))
                slot_value[s] = -1;
        int slot = slot_of(slot_value, n_slots, -1);
        if (slot < 0)
            slot = n_slots++;
        if (slot >= MICA__FUSED_SLOTS)
            return false;
        slot_value[slot] = node->out;
        instr->out = (uint8_t)slot;
        chain->outputs[0] = (uint8_t)slot;
    }
    chain->n_slots = (uint8_t)n_slots;
    return true;
}

static mica_status replace(mica__ir *ir, const group *g, const mica__fused_attrs *chain)
{
    mica__ir_node *root = &ir->nodes[g->members[0]];
    mica__fused_attrs *attrs = mica__arena_alloc(&ir->arena, sizeof *attrs, 16);
    int32_t *in = mica__arena_alloc(&ir->arena, sizeof g->inputs, 16);
    if (!attrs || !in)
        return MICA_E_MEMORY;
    *attrs = *chain;
    memcpy(in, g->inputs, sizeof g->inputs);
    for (int m = 1; m < g->n_members; m++)
        ir->nodes[g->members[m]].dead = true;
    root->op = MICA__OP_FUSED;
    root->attrs = attrs;
    root->in = in;
    root->n_in = g->n_inputs;
    return MICA_OK;
}

/* --- the pass --------------------------------------------------------------------------------- */

static void count_uses(const mica__ir *ir, int32_t *n_uses)
{
    for (int64_t i = 0; i < ir->n_nodes; i++)
        for (int j = 0; j < ir->nodes[i].n_in; j++) {
            const int32_t value = ir->nodes[i].in[j];
            n_uses[value]++;
            if (ir->values[value].base != value)
                n_uses[ir->values[value].base]++; /* read through a view */
        }
    for (int i = 0; i < ir->n_outputs; i++)
        n_uses[ir->outputs[i]]++;
}

/* Closes the gaps that dead nodes leave. */
static void remove_dead(mica__ir *ir)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        if (ir->nodes[i].dead)
            continue;
        ir->nodes[n] = ir->nodes[i];
        for (int j = 0; j < ir->nodes[n].n_out; j++)
            ir->values[ir->nodes[n].out + j].node = (int32_t)n;
        n++;
    }
    ir->n_nodes = n;
}

/* Whether the device runs groups at all. */
static bool device_fuses(const mica__ir *ir)
{
    const mica__runtime *runtime = ir->ctx->runtime;
    for (int i = 0; i < runtime->n_kernels; i++)
        if (runtime->kernels[i]->op == MICA__OP_FUSED)
            return true;
    return false;
}

mica_status mica__pass_fuse(mica__ir *ir)
{
    if (!device_fuses(ir))
        return MICA_OK;
    int32_t *n_uses = mica__alloc_zero(MICA_MEMORY_GRAPH, (size_t)ir->n_values + 1, sizeof *n_uses);
    if (!n_uses)
        return MICA_E_MEMORY;
    count_uses(ir, n_uses);
    mica_status status = MICA_OK;
    for (int64_t i = ir->n_nodes - 1; i >= 0 && status == MICA_OK; i--) {
        group g;
        mica__fused_attrs chain;
        if (ir->nodes[i].dead || !is_fusible(ir, &ir->nodes[i]))
            continue;
        grow_group(&g, ir, n_uses, (int32_t)i);
        if (g.n_members > 1 && write_chain(&g, ir, &chain))
            status = replace(ir, &g, &chain);
    }
    mica__free(n_uses);
    if (status == MICA_OK)
        remove_dead(ir);
    return status;
}
