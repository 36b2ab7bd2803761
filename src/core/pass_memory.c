/* pass_memory.c - where every intermediate lives: lifetimes in phases, reuse in place, offsets in
 * one arena.
 *
 * Blocks (values with storage of their own, and workspaces) are placed one after the other, each
 * into a gap between the blocks placed before it that live at the same time. Which order and which
 * gap pack best depends on the program, so several are tried: by time, by size, by area, by
 * lifetime, the lowest gap and the smallest one, then what ended on top is moved ahead and placed
 * again. The search ends within 1/128 of the lower bound, and is bounded by a count of tries and of
 * steps, never by a clock: plans are the same everywhere. Very long programs get the orders that
 * are cheap only. Everything is 64-byte aligned. live_bytes is the largest sum of blocks alive in
 * one phase, steps of one phase running at the same time: no plan can be smaller.
 * SPDX-License-Identifier: MIT
 */
#include "core/ir.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT     64
#define QUADRATIC_MAX 4000                /* blocks */
#define MAX_LONG      1000                /* blocks */
#define MAX_TRIES     32                  /* from one order */
#define MAX_WORK      ((int64_t)32 << 20) /* pairs of blocks, from one order */

typedef struct block {
    int64_t bytes, place;
    int32_t first, last; /* phases */
    int32_t id;    /* position before any sorting: orders are total, plans the same everywhere */
    int32_t owner; /* value, or node whose workspace it is */
    bool of_node;
} block;

typedef struct plan_state {
    block *blocks; /* [n] in the order of placing */
    int64_t n;
    int32_t n_phases;
    int64_t live_bytes, goal; /* lower bound; what is good enough */
    const block **live;       /* [2 n] lists of place_all */
    int64_t *best;            /* [n] places of the best plan so far, by id */
    int64_t best_bytes;
} plan_state;

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

/* --- lifetimes -------------------------------------------------------------------------------- */

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

/* --- placing ---------------------------------------------------------------------------------- */

static bool overlap(const block *a, const block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

typedef int order(const void *x, const void *y);

static int by_time(const void *x, const void *y)
{
    const block *a = x, *b = y;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_size(const void *x, const void *y)
{
    const block *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return by_time(x, y);
}

static int64_t lifetime(const block *b)
{
    return (int64_t)b->last - b->first + 1;
}

static int by_lifetime(const void *x, const void *y)
{
    const int64_t a = lifetime(x), b = lifetime(y);
    return a == b ? by_size(x, y) : a < b ? 1 : -1;
}

/* Bytes times phases, the area that a block covers. As floating point, which cannot overflow. */
static int by_area(const void *x, const void *y)
{
    const double a = (double)((const block *)x)->bytes * (double)lifetime(x);
    const double b = (double)((const block *)y)->bytes * (double)lifetime(y);
    return a == b ? by_size(x, y) : a < b ? 1 : -1;
}

/* The lowest or the smallest gap for `wanted` among `taken` (sorted by place). */
static int64_t find_gap(const block *wanted, const block *const *taken, int64_t n, bool lowest)
{
    int64_t best = -1, best_room = INT64_MAX, end = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t room = taken[i]->place - end;
        if (room >= wanted->bytes && room < best_room) {
            best = end;
            best_room = room;
            if (lowest)
                break;
        }
        const int64_t past = taken[i]->place + taken[i]->bytes;
        end = past > end ? past : end;
    }
    return best >= 0 ? best : end;
}

/* Where in a list sorted by place a block at `place` goes: behind its equals. */
static int64_t position(const block *const *live, int64_t n, int64_t place)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (live[middle]->place > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Places blocks in the order given; returns the bytes needed. The first n_any come in any order,
 * those behind them in order of time: what has died by then is looked at no more. */
static int64_t place_all(plan_state *plan, int64_t n_any, bool lowest)
{
    const block **live = plan->live, **near = live + plan->n;
    int64_t n_live = 0, top = 0;
    for (int64_t i = 0; i < plan->n; i++) {
        block *b = &plan->blocks[i];
        int64_t n_near = 0, kept = 0;
        for (int64_t j = 0; j < n_live; j++) {
            if (overlap(b, live[j]))
                near[n_near++] = live[j];
            if (i < n_any || live[j]->last >= b->first)
                live[kept++] = live[j];
        }
        n_live = kept;
        b->place = find_gap(b, near, n_near, lowest);
        top = b->place + b->bytes > top ? b->place + b->bytes : top;
        const int64_t at = position(live, n_live, b->place);
        memmove(live + at + 1, live + at, (size_t)(n_live++ - at) * sizeof *live);
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

/* Every value and workspace that the arena holds. */
static int64_t gather(const mica__ir *ir, block *blocks)
{
    int32_t n = 0;
    for (int32_t i = 0; i < ir->n_values; i++) {
        const mica__ir_value *value = &ir->values[i];
        if (!in_arena(ir, i) || value->last < 0)
            continue;
        blocks[n] = (block){.bytes = padded(mica__ir_bytes(value)),
                            .first = value->first,
                            .last = value->last,
                            .id = n,
                            .owner = i};
        n++;
    }
    for (int32_t i = 0; i < ir->n_nodes; i++) {
        const mica__ir_node *node = &ir->nodes[i];
        if (node->workspace <= 0)
            continue;
        blocks[n] = (block){.bytes = padded(node->workspace),
                            .first = node->phase,
                            .last = node->phase + node->kernel->n_stages - 1,
                            .id = n,
                            .owner = i,
                            .of_node = true};
        n++;
    }
    return n;
}

/* Keeps a plan that is better than the best so far. */
static void keep_better(plan_state *plan, int64_t bytes)
{
    if (bytes >= plan->best_bytes)
        return;
    plan->best_bytes = bytes;
    for (int64_t i = 0; i < plan->n; i++)
        plan->best[plan->blocks[i].id] = plan->blocks[i].place;
}

/* The blocks that live longest first, the others by time: nearly as good as the better orders where
 * a few blocks live long, and cheap for any number of blocks. */
static void try_long_first(plan_state *plan, bool lowest)
{
    block *blocks = plan->blocks;
    if (plan->best_bytes <= plan->goal)
        return;
    qsort(blocks, (size_t)plan->n, sizeof *blocks, by_lifetime);
    int64_t n_long = 0;
    while (n_long < plan->n && n_long < MAX_LONG && lifetime(&blocks[n_long]) > plan->n_phases / 8)
        n_long++;
    qsort(blocks, (size_t)n_long, sizeof *blocks, by_area);
    qsort(blocks + n_long, (size_t)(plan->n - n_long), sizeof *blocks, by_time);
    keep_better(plan, place_all(plan, n_long, lowest));
}

/* Moves the blocks that reach above `bytes` ahead of all others, whose order stays. Whether any
 * moved: they may have been the first already. */
static bool move_ahead(plan_state *plan, int64_t bytes)
{
    block *blocks = plan->blocks;
    int64_t n_high = 0;
    bool moved = false;
    for (int64_t i = 0; i < plan->n; i++) {
        const block b = blocks[i];
        if (b.place + b.bytes <= bytes)
            continue;
        moved = moved || i > n_high;
        memmove(blocks + n_high + 1, blocks + n_high, (size_t)(i - n_high) * sizeof *blocks);
        blocks[n_high++] = b;
    }
    return moved;
}

/* Begins with an order; what ends too high is placed first in the next try. */
static void search_from(plan_state *plan, order *compare, bool lowest)
{
    const int64_t affordable = MAX_WORK / (plan->n * plan->n + 1);
    if (plan->best_bytes <= plan->goal)
        return;
    qsort(plan->blocks, (size_t)plan->n, sizeof *plan->blocks, compare);
    keep_better(plan, place_all(plan, plan->n, lowest));
    for (int64_t tries = 0; tries < MAX_TRIES && tries < affordable; tries++) {
        if (plan->best_bytes <= plan->goal || !move_ahead(plan, plan->goal))
            break;
        keep_better(plan, place_all(plan, plan->n, lowest));
    }
}

/* Tries until a plan reaches the goal: what is cheap first, then what packs decoders. */
static void find_plan(plan_state *plan)
{
    static order *const orders[] = {by_area, by_size, by_lifetime};
    qsort(plan->blocks, (size_t)plan->n, sizeof *plan->blocks, by_time);
    plan->best_bytes = INT64_MAX;
    plan->goal = plan->live_bytes + plan->live_bytes / 128;
    keep_better(plan, place_all(plan, 0, false));
    for (int i = 0; i < 3 && plan->n <= QUADRATIC_MAX; i++) {
        search_from(plan, orders[i], true);
        search_from(plan, orders[i], false);
    }
    try_long_first(plan, false);
    try_long_first(plan, true);
}

/* Writes the best plan into the values and nodes it is about. */
static void keep_places(mica__ir *ir, const plan_state *plan)
{
    ir->arena_bytes = plan->n ? plan->best_bytes : 0;
    for (int64_t i = 0; i < plan->n; i++) {
        const block *b = &plan->blocks[i];
        int64_t *place =
            b->of_node ? &ir->nodes[b->owner].workspace_place : &ir->values[b->owner].place;
        *place = plan->best[b->id];
    }
}

mica_status mica__pass_memory(mica__ir *ir)
{
    const size_t most = (size_t)(ir->n_values + ir->n_nodes + 1);
    plan_state plan = {.n_phases = ir->n_phases};
    plan.blocks = mica__alloc(MICA_MEMORY_GRAPH, most * sizeof *plan.blocks);
    plan.live = mica__alloc(MICA_MEMORY_GRAPH, 2 * most * sizeof *plan.live);
    plan.best = mica__alloc(MICA_MEMORY_GRAPH, most * sizeof *plan.best);
    int32_t *readers = mica__alloc_zero(MICA_MEMORY_GRAPH, most, sizeof *readers);
    int64_t *change = mica__alloc(MICA_MEMORY_GRAPH, (size_t)(ir->n_phases + 2) * sizeof *change);
    const bool ready = plan.blocks && plan.live && plan.best && readers && change;
    if (ready) {
        lifetimes(ir);
        count_last_readers(ir, readers);
        take_donated(ir, true, readers);
        take_donated(ir, false, readers);
        reuse_in_place(ir, readers);
        plan.n = gather(ir, plan.blocks);
        plan.live_bytes = largest_live_sum(plan.blocks, plan.n, ir->n_phases, change);
        find_plan(&plan);
        keep_places(ir, &plan);
        ir->live_bytes = plan.live_bytes;
    }
    mica__free(plan.blocks);
    mica__free(plan.live);
    mica__free(plan.best);
    mica__free(readers);
    mica__free(change);
    return ready ? MICA_OK : MICA_E_MEMORY;
}
