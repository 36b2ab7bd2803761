/* pass_order.c - an order of execution that needs less memory than the graph's own.
 *
 * Sethi and Ullman's rule, on bytes: what a node needs is the most that lives while its inputs are
 * computed one after another, and the input that needs most beyond what it leaves goes first. The
 * new order is the walk of the graph in that order, depth first. Where results are shared the rule
 * is a guess, so both orders are planned, and the new one is taken when its plan is smaller. Any
 * order that keeps reads and updates of the same storage in sequence gives the same bits.
 * Reference: Sethi and Ullman, The generation of optimal code for arithmetic expressions, 1970.
 *
 * Linear but for sorting each node's inputs; programs of more than NODES_MAX steps keep the graph's
 * order, since planning three times would take long there.
 * SPDX-License-Identifier: MIT
 */
#include "core/ir.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX 20000

/* A node that must run before another. */
typedef struct before {
    int32_t node;
    int64_t gain; /* bytes needed beyond those left: higher goes first */
} before;

typedef struct reader {
    int32_t node;
    int32_t next; /* entry in the list of readers, or -1 */
} reader;

typedef struct schedule {
    before *edges;    /* of node i: first[i] .. first[i + 1] - 1 */
    int64_t *first;   /* [n_nodes + 1] */
    int64_t *need;    /* [n_nodes] bytes alive at most while the node is computed */
    int32_t *written; /* [n_values] the last node that writes a storage, -1: none */
    int32_t *read;    /* [n_values] its readers since then, an entry of readers or -1 */
    reader *readers;  /* [inputs of all nodes] */
    int64_t *at;      /* [n_nodes] the edge that the walk follows next */
    int32_t *stack;   /* [n_nodes] */
    int32_t *order;   /* [n_nodes] the result: node indices */
    bool *seen;       /* [n_nodes] */
    int32_t n_readers, n_ordered;
} schedule;

static int64_t plus(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* --- what must come before what --------------------------------------------------------------- */

static void add_edge(schedule *s, int64_t *end, int32_t node)
{
    if (node >= 0)
        s->edges[(*end)++] = (before){node, 0};
}

/* Inputs after their writers, an update in place after all readers of what it replaces. */
static void link_node(const mica__ir *ir, schedule *s, int32_t i)
{
    const mica__ir_node *node = &ir->nodes[i];
    const int alias = mica__rules_of(node->op)->alias_of;
    int64_t end = s->first[i];
    for (int j = 0; j < node->n_in; j++)
        add_edge(s, &end, s->written[ir->values[node->in[j]].base]);
    const int32_t updated = alias ? ir->values[node->in[alias - 1]].base : -1;
    for (int32_t r = alias ? s->read[updated] : -1; r >= 0; r = s->readers[r].next)
        add_edge(s, &end, s->readers[r].node);
    s->first[i + 1] = end;
    for (int j = 0; j < node->n_in; j++) {
        const int32_t base = ir->values[node->in[j]].base;
        s->readers[s->n_readers] = (reader){i, s->read[base]};
        s->read[base] = s->n_readers++;
    }
    for (int j = 0; j < node->n_out; j++) {
        const int32_t base = ir->values[node->out + j].base;
        s->written[base] = i;
        s->read[base] = -1;
    }
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Bytes in the arena that hold a node's results once it ran. */
static int64_t bytes_left(const mica__ir *ir, const mica__ir_node *node)
{
    int64_t bytes = 0;
    for (int j = 0; j < node->n_out; j++) {
        const mica__ir_value *value = &ir->values[node->out + j];
        if (value->base == node->out + j && value->output < 0)
            bytes = plus(bytes, mica__ir_bytes(value));
    }
    return bytes;
}

/* Ties in the graph's order. */
static int by_gain(const void *x, const void *y)
{
    const before *a = x, *b = y;
    if (a->gain != b->gain)
        return a->gain < b->gain ? 1 : -1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static void weigh_node(const mica__ir *ir, schedule *s, int32_t i)
{
    before *edges = &s->edges[s->first[i]];
    const int64_t n = s->first[i + 1] - s->first[i];
    for (int64_t e = 0; e < n; e++)
        edges[e].gain = s->need[edges[e].node] - bytes_left(ir, &ir->nodes[edges[e].node]);
    qsort(edges, (size_t)n, sizeof *edges, by_gain);
    int64_t alive = 0, need = 0;
    for (int64_t e = 0; e < n; e++) {
        if (e && edges[e].node == edges[e - 1].node)
            continue;
        const int64_t now = plus(alive, s->need[edges[e].node]);
        need = now > need ? now : need;
        alive = plus(alive, bytes_left(ir, &ir->nodes[edges[e].node]));
    }
    alive = plus(alive, plus(bytes_left(ir, &ir->nodes[i]), ir->nodes[i].workspace));
    s->need[i] = alive > need ? alive : need;
}

/* --- the walk --------------------------------------------------------------------------------- */

/* Everything that `root` waits for, and itself. */
static void walk(schedule *s, int32_t root)
{
    int32_t depth = 0;
    if (!s->seen[root])
        s->stack[depth++] = root;
    s->seen[root] = true;
    while (depth) {
        const int32_t node = s->stack[depth - 1];
        if (s->at[node] == s->first[node + 1]) {
            s->order[s->n_ordered++] = node;
            depth--;
            continue;
        }
        const int32_t next = s->edges[s->at[node]++].node;
        if (!s->seen[next])
            s->stack[depth++] = next;
        s->seen[next] = true;
    }
}

/* Nodes that nobody waits for begin a walk each, in the graph's order. */
static void walk_all(const mica__ir *ir, schedule *s)
{
    bool *inner = s->seen;
    for (int64_t e = 0; e < s->first[ir->n_nodes]; e++)
        inner[s->edges[e].node] = true;
    int32_t n_roots = 0;
    int32_t *roots = s->written; /* no longer needed; there is a value for each node at least */
    for (int32_t i = 0; i < ir->n_nodes; i++)
        if (!inner[i])
            roots[n_roots++] = i;
    memset(s->seen, 0, (size_t)ir->n_nodes * sizeof *s->seen);
    memcpy(s->at, s->first, (size_t)ir->n_nodes * sizeof *s->at);
    for (int32_t r = 0; r < n_roots; r++)
        walk(s, roots[r]);
}

static mica_status schedule_new(const mica__ir *ir, schedule *s)
{
    size_t n_in = 0;
    for (int64_t i = 0; i < ir->n_nodes; i++)
        n_in += (size_t)ir->nodes[i].n_in;
    const size_t n = (size_t)ir->n_nodes, v = (size_t)ir->n_values + 1;
    *s = (schedule){
        .edges = mica__alloc(MICA_MEMORY_GRAPH, (2 * n_in + 1) * sizeof *s->edges),
        .first = mica__alloc_zero(MICA_MEMORY_GRAPH, n + 1, sizeof *s->first),
        .need = mica__alloc_zero(MICA_MEMORY_GRAPH, n, sizeof *s->need),
        .written = mica__alloc(MICA_MEMORY_GRAPH, v * sizeof *s->written),
        .read = mica__alloc(MICA_MEMORY_GRAPH, v * sizeof *s->read),
        .readers = mica__alloc(MICA_MEMORY_GRAPH, (n_in + 1) * sizeof *s->readers),
        .at = mica__alloc(MICA_MEMORY_GRAPH, n * sizeof *s->at),
        .stack = mica__alloc(MICA_MEMORY_GRAPH, n * sizeof *s->stack),
        .order = mica__alloc(MICA_MEMORY_GRAPH, n * sizeof *s->order),
        .seen = mica__alloc_zero(MICA_MEMORY_GRAPH, n, sizeof *s->seen),
    };
    if (!s->edges || !s->first || !s->need || !s->written || !s->read || !s->readers || !s->at ||
        !s->stack || !s->order || !s->seen)
        return MICA_E_MEMORY;
    for (size_t i = 0; i < v; i++)
        s->written[i] = s->read[i] = -1;
    return MICA_OK;
}

static void schedule_free(schedule *s)
{
    mica__free(s->edges);
    mica__free(s->first);
    mica__free(s->need);
    mica__free(s->written);
    mica__free(s->read);
    mica__free(s->readers);
    mica__free(s->at);
    mica__free(s->stack);
    mica__free(s->order);
    mica__free(s->seen);
}

/* --- old or new ------------------------------------------------------------------------------- */

static void put_in_order(mica__ir *ir, const mica__ir_node *nodes, const int32_t *order)
{
    for (int32_t i = 0; i < ir->n_nodes; i++) {
        ir->nodes[i] = nodes[order ? order[i] : i];
        for (int j = 0; j < ir->nodes[i].n_out; j++)
            ir->values[ir->nodes[i].out + j].node = i;
    }
}

typedef struct cost {
    int64_t bytes; /* of arena and outputs with buffers of their own */
    int32_t n_phases;
} cost;

/* What the program would take in an order (NULL: the graph's); plans a copy. */
static mica_status try_order(const mica__ir *ir, const int32_t *order, cost *taken)
{
    mica__ir trial = *ir;
    const size_t n_values = (size_t)ir->n_values * sizeof *ir->values;
    trial.nodes = mica__alloc(MICA_MEMORY_GRAPH, (size_t)ir->n_nodes * sizeof *ir->nodes);
    trial.values = mica__alloc(MICA_MEMORY_GRAPH, n_values);
    mica_status status = trial.nodes && trial.values ? MICA_OK : MICA_E_MEMORY;
    if (status == MICA_OK) {
        memcpy(trial.values, ir->values, n_values);
        put_in_order(&trial, ir->nodes, order);
        status = mica__pass_phases(&trial);
    }
    if (status == MICA_OK)
        status = mica__pass_memory(&trial);
    if (status == MICA_OK) {
        *taken = (cost){trial.arena_bytes, trial.n_phases};
        for (int i = 0; i < ir->n_outputs; i++) {
            const mica__ir_value *value = &trial.values[ir->outputs[i]];
            if (trial.values[value->base].leaf < 0)
                taken->bytes = plus(taken->bytes, mica__ir_bytes(value));
        }
    }
    mica__free(trial.nodes);
    mica__free(trial.values);
    return status;
}

/* A barrier more costs time in every run: it has to save something. */
static bool is_better(const cost *changed, const cost *old)
{
    if (changed->n_phases <= old->n_phases)
        return changed->bytes < old->bytes;
    return changed->bytes < old->bytes - old->bytes / 8;
}

static mica_status choose(mica__ir *ir, const int32_t *order)
{
    cost old, changed;
    bool same = true;
    for (int32_t i = 0; i < ir->n_nodes; i++)
        same &= order[i] == i;
    if (same)
        return MICA_OK;
    MICA_TRY(try_order(ir, NULL, &old));
    MICA_TRY(try_order(ir, order, &changed));
    if (!is_better(&changed, &old))
        return MICA_OK;
    const size_t bytes = (size_t)ir->n_nodes * sizeof *ir->nodes;
    mica__ir_node *nodes = mica__alloc(MICA_MEMORY_GRAPH, bytes);
    if (!nodes)
        return MICA_E_MEMORY;
    memcpy(nodes, ir->nodes, bytes);
    put_in_order(ir, nodes, order);
    mica__free(nodes);
    return MICA_OK;
}

mica_status mica__pass_order(mica__ir *ir)
{
    if (ir->n_nodes < 3 || ir->n_nodes > NODES_MAX)
        return MICA_OK;
    schedule s;
    mica_status status = schedule_new(ir, &s);
    if (status == MICA_OK) {
        for (int32_t i = 0; i < ir->n_nodes; i++) {
            link_node(ir, &s, i);
            weigh_node(ir, &s, i);
        }
        walk_all(ir, &s);
        status = choose(ir, s.order);
    }
    schedule_free(&s);
    return status;
}
