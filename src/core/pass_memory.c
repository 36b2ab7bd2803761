/* pass_memory.c - where every intermediate lives: lifetimes in phases, reuse in place, offsets in
 * one arena.
 *
 * Blocks (values with storage of their own, and workspaces) are placed by size, largest first, each
 * into the smallest gap between the blocks that live at the same time. Very long programs are
 * placed in order of time instead, with the same best fit, since the first way is quadratic.
 * Everything is 64-byte aligned. live_bytes is the largest sum of blocks alive in one phase: no
 * plan can be smaller.
 * SPDX-License-Identifier: MIT
 */
#include "core/ir.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT     64
#define QUADRATIC_MAX 4000

typedef struct block {
    int64_t bytes;
    int32_t first, last;
    int64_t *place; /* where the result goes */
} block;

static int64_t padded(int64_t bytes)
{
    return bytes > 0 ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
}

/* Whether a value is stored in the arena under its own name. */
static bool in_arena(const mica__ir *ir, int64_t id)
{
    const mica__ir_value *value = &ir->values[id];
    return value->base == id && value->leaf < 0 && value->output < 0 && value->node >= 0;
}

/* --- lifetimes
 * -------------------------------------------------------------------------------------------------
 */

static void lifetimes(mica__ir *ir)
{
    for (int64_t i = 0; i < ir->n_values; i++) {
        ir->values[i].first = INT32_MAX;
        ir->values[i].last = -1;
    }
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        const mica__ir_node *node = &ir->nodes[i];
        const int32_t end = node->phase + node->kernel->n_stages - 1;
        for (int j = 0; j < node->n_in + node->n_out; j++) {
            const int32_t id = j < node->n_in ? node->in[j] : node->out + j - node->n_in;
            mica__ir_value *base = &ir->values[ir->values[id].base];
            if (j >= node->n_in && node->phase < base->first)
                base->first = node->phase;
            if (end > base->last)
                base->last = end;
        }
    }
}

/* The storage that a chain of in-place takeovers ends in. */
static int32_t root(const mica__ir *ir, int32_t id)
{
    while (ir->values[id].base != id)
        id = ir->values[id].base;
    return id;
}

/* Whether an input that begins its storage is exactly what the output would be written over. */
static bool covers(const mica__ir_value *in, const mica__ir_value *out)
{
    return in->dtype == out->dtype && in->offset == 0 && mica__ir_size(in) == mica__ir_size(out) &&
           mica__ir_is_contiguous(in);
}

/* Whether node is the only reader of a storage in its last phase, and reads it nowhere but at the
 * element that it writes next. */
static bool reads_in_place(const mica__ir *ir, const mica__ir_node *node, int32_t base,
                           const int32_t *readers)
{
    int32_t reads = 0;
    for (int j = 0; j < node->n_in; j++) {
        const mica__ir_value *in = &ir->values[node->in[j]];
        if (root(ir, in->base) != base)
            continue;
        if (j >= 32 || !(node->kernel->in_place >> j & 1) || !covers(in, &ir->values[node->out]))
            return false;
        reads++;
    }
    return node->kernel->n_stages == 1 && reads && reads == readers[base];
}

/* Whether node may write its output over an input stored in `base`, which dies there. */
static bool may_take_over(const mica__ir *ir, const mica__ir_node *node, int32_t base,
                          const int32_t *readers)
{
    return in_arena(ir, base) && ir->values[base].last == node->phase &&
           mica__ir_bytes(&ir->values[base]) == mica__ir_bytes(&ir->values[node->out]) &&
           reads_in_place(ir, node, base, readers);
}

/* Elementwise outputs take over the storage of an input that dies there. */
static void reuse_in_place(mica__ir *ir, int32_t *readers)
{
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        const mica__ir_node *node = &ir->nodes[i];
        if (!node->kernel->in_place || !in_arena(ir, node->out))
            continue;
        for (int j = 0; j < node->n_in; j++) {
            const int32_t base = root(ir, ir->values[node->in[j]].base);
            if (!may_take_over(ir, node, base, readers))
                continue;
            ir->values[base].last = ir->values[node->out].last;
            readers[base] = readers[node->out];
            ir->values[node->out].base = base;
            break;
        }
    }
    for (int64_t v = 0; v < ir->n_values; v++) /* views of an output follow it */
        ir->values[v].base = root(ir, (int32_t)v);
}

/* A program output may be written into an array that was donated: over it by the step that reads it
 * last, or once nobody reads it any more. */
static bool may_take_leaf(const mica__ir *ir, int32_t leaf, int32_t out, bool in_place,
                          const int32_t *readers)
{
    const mica__ir_value *storage = &ir->values[leaf], *value = &ir->values[out];
    const mica__ir_node *node = &ir->nodes[value->node];
    if (value->base != out || mica__ir_bytes(storage) != mica__ir_bytes(value))
        return false;
    if (in_place)
        return storage->last == node->phase && reads_in_place(ir, node, leaf, readers);
    return storage->last < node->phase;
}

static bool is_taken(const mica__ir *ir, int32_t leaf)
{
    for (int i = 0; i < ir->n_outputs; i++)
        if (ir->values[ir->outputs[i]].base == leaf)
            return true;
    return false;
}

static void take_donated(mica__ir *ir, bool in_place, const int32_t *readers)
{
    for (int64_t l = 0; l < ir->n_values; l++) {
        const int32_t leaf = ir->values[l].leaf;
        if (leaf < 0 || !mica__array_may_be_taken(ir->leaves[leaf]) || is_taken(ir, (int32_t)l))
            continue;
        for (int i = 0; i < ir->n_outputs; i++)
            if (may_take_leaf(ir, (int32_t)l, ir->outputs[i], in_place, readers)) {
                ir->values[ir->outputs[i]].base = (int32_t)l;
                break;
            }
    }
}

/* How many inputs of nodes read each base in its last phase. */
static void count_last_readers(const mica__ir *ir, int32_t *readers)
{
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        const mica__ir_node *node = &ir->nodes[i];
        const int32_t end = node->phase + node->kernel->n_stages - 1;
        for (int j = 0; j < node->n_in; j++) {
            const int32_t base = ir->values[node->in[j]].base;
            if (ir->values[base].last == end)
                readers[base]++;
        }
    }
}

/* --- placing
 * ---------------------------------------------------------------------------------------------------
 */

static bool overlap(const block *a, const block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int by_size(const void *x, const void *y)
{
    const block *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->first < b->first ? -1 : a->first > b->first;
}

static int by_time(const void *x, const void *y)
{
    const block *a = x, *b = y;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

/* The best gap for `wanted` among `taken` (sorted by place). */
static int64_t best_gap(const block *wanted, const block *const *taken, int64_t n)
{
    int64_t best = -1, best_room = INT64_MAX, end = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t room = *taken[i]->place - end;
        if (room >= wanted->bytes && room < best_room) {
            best = end;
            best_room = room;
        }
        const int64_t past = *taken[i]->place + taken[i]->bytes;
        end = past > end ? past : end;
    }
    return best >= 0 ? best : end;
}

/* Places blocks in the order given. `live` is a list, sorted by place, of the placed blocks that
 * can still matter. */
static int64_t place_all(block *blocks, int64_t n, const block **live, bool in_time_order)
{
    const block **near = live + n;
    int64_t n_live = 0, top = 0;
    for (int64_t i = 0; i < n; i++) {
        block *b = &blocks[i];
        int64_t n_near = 0, kept = 0;
        for (int64_t j = 0; j < n_live; j++) {
            if (overlap(b, live[j]))
                near[n_near++] = live[j];
            if (!in_time_order || live[j]->last >= b->first)
                live[kept++] = live[j];
        }
        n_live = kept;
        *b->place = best_gap(b, near, n_near);
        top = *b->place + b->bytes > top ? *b->place + b->bytes : top;
        int64_t at = n_live++;
        for (; at > 0 && *live[at - 1]->place > *b->place; at--)
            live[at] = live[at - 1];
        live[at] = b;
    }
    return top;
}

static int64_t largest_live_sum(const block *blocks, int64_t n, int32_t n_phases, int64_t *change)
{
    memset(change, 0, (size_t)(n_phases + 1) * sizeof *change);
    for (int64_t i = 0; i < n; i++) {
        change[blocks[i].first] += blocks[i].bytes;
        change[blocks[i].last + 1] -= blocks[i].bytes;
    }
    int64_t now = 0, most = 0;
    for (int32_t p = 0; p < n_phases; p++) {
        now += change[p];
        most = now > most ? now : most;
    }
    return most;
}

static int64_t gather(mica__ir *ir, block *blocks)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ir->n_values; i++)
        if (in_arena(ir, i) && ir->values[i].last >= 0)
            blocks[n++] = (block){padded(mica__ir_bytes(&ir->values[i])), ir->values[i].first,
                                  ir->values[i].last, &ir->values[i].place};
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        mica__ir_node *node = &ir->nodes[i];
        if (node->workspace > 0)
            blocks[n++] = (block){padded(node->workspace), node->phase,
                                  node->phase + node->kernel->n_stages - 1, &node->workspace_place};
    }
    return n;
}

/* Both orders are tried where that is cheap; the better plan wins. */
static void plan(mica__ir *ir, block *blocks, int64_t n, const block **live)
{
    qsort(blocks, (size_t)n, sizeof *blocks, by_time);
    ir->arena_bytes = place_all(blocks, n, live, true);
    if (n > QUADRATIC_MAX || ir->arena_bytes == ir->live_bytes)
        return;
    qsort(blocks, (size_t)n, sizeof *blocks, by_size);
    const int64_t by_size_bytes = place_all(blocks, n, live, false);
    if (by_size_bytes > ir->arena_bytes) {
        qsort(blocks, (size_t)n, sizeof *blocks, by_time);
        place_all(blocks, n, live, true);
    } else {
        ir->arena_bytes = by_size_bytes;
    }
}

mica_status mica__pass_memory(mica__ir *ir)
{
    const size_t most = (size_t)(ir->n_values + ir->n_nodes + 1);
    block *blocks = mica__alloc(MICA_MEMORY_GRAPH, most * sizeof *blocks);
    const block **live = mica__alloc(MICA_MEMORY_GRAPH, 2 * most * sizeof *live);
    int32_t *readers = mica__alloc_zero(MICA_MEMORY_GRAPH, most, sizeof *readers);
    int64_t *change = mica__alloc(MICA_MEMORY_GRAPH, (size_t)(ir->n_phases + 2) * sizeof *change);
    const bool ready = blocks && live && readers && change;
    if (ready) {
        lifetimes(ir);
        count_last_readers(ir, readers);
        take_donated(ir, true, readers);
        take_donated(ir, false, readers);
        reuse_in_place(ir, readers);
        const int64_t n = gather(ir, blocks);
        ir->live_bytes = largest_live_sum(blocks, n, ir->n_phases, change);
        plan(ir, blocks, n, live);
    }
    mica__free(blocks);
    mica__free(live);
    mica__free(readers);
    mica__free(change);
    return ready ? MICA_OK : MICA_E_MEMORY;
}
