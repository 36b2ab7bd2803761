/* ir.h - a graph on its way to a program.
 *
 * collect.c turns the unevaluated part of a graph into numbered values and nodes; the passes
 * rewrite them in place; the planner gives every value a place; program.c freezes the result.
 * Everything here lives in one arena that is dropped when the program is made. Node order is always
 * a valid execution order.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_IR_H
#define MICA_CORE_IR_H

#include "base/arena.h"
#include "base/text_buffer.h"
#include "core/backend.h"
#include "core/graph.h"

/* Where a value's elements are: in the storage of `base` (itself unless it is a view), from
 * `offset` elements on. */
typedef struct mica__ir_value {
    mica_dtype dtype;
    int ndim;
    int64_t *shape;   /* [ndim] at the bounds */
    int64_t *strides; /* [ndim] elements; set by the view pass */
    uint8_t *extents; /* [ndim] 1 + extent number, or 0 */
    int32_t node;     /* that computes it, or -1 for leaves and views */
    int32_t leaf;     /* index into ir->leaves, or -1 */
    int32_t base;
    int32_t shows; /* the value whose elements a view shows; itself unless it is a view */
    int64_t offset;
    int32_t output; /* program output it is stored as, or -1 */
    int32_t first;  /* phases between which its storage is needed (bases only) */
    int32_t last;
    int64_t place; /* byte offset in the arena (bases only), -1: not in the arena */
} mica__ir_value;

typedef struct mica__ir_node {
    mica__op op;
    mica__op part_of; /* the graph's op that this node helps to say in simpler ones; else op */
    int32_t n_in, n_out;
    int32_t *in; /* value ids */
    int32_t out; /* first output value id; outputs are consecutive */
    const void *attrs;
    bool dead; /* removed by a pass */
    const mica__kernel *kernel;
    int32_t phase;     /* of its first stage */
    int64_t workspace; /* bytes, and their place in the arena */
    int64_t workspace_place;
} mica__ir_node;

typedef struct mica__ir {
    mica_ctx *ctx;
    mica__arena arena;
    mica__ir_value *values;
    int64_t n_values, values_capacity;
    mica__ir_node *nodes;
    int64_t n_nodes, nodes_capacity;
    mica_array **leaves; /* placeholders and evaluated arrays, in order of first use */
    int64_t n_leaves, leaves_capacity;
    int64_t n_borrowed;   /* of them, the graph's; those behind are constants that passes made, and
                             hold a reference each */
    mica__node **sources; /* borrowed; the graph's nodes that were collected */
    int64_t n_sources, sources_capacity;
    int64_t n_recomputed; /* of them, that an earlier evaluation computed and did not keep */
    int32_t *outputs;     /* value id of each program output */
    int n_outputs;
    int32_t n_phases;
    size_t scratch; /* bytes a worker needs at most */
    int64_t arena_bytes;
    int64_t live_bytes;
    mica__text key; /* canonical description: equal keys mean equal programs */
} mica__ir;

/* Numbers the graph below `outputs`, in dependency order; evaluated arrays and placeholders become
 * leaves. Inputs that the caller names come first among the leaves, in order. */
mica_status mica__ir_collect(mica_ctx *ctx, int n_in, mica_array *const *inputs, int n_out,
                             mica_array *const *outputs, mica__ir *ir);

/* Writes ir->key from what was collected. */
mica_status mica__ir_describe(mica__ir *ir);
void mica__ir_free(mica__ir *ir);

/* New values and nodes for passes; ids stay valid, pointers do not. */
mica_status mica__ir_add_value(mica__ir *ir, const mica__ir_value *like, int32_t *id);
mica_status mica__ir_add_node(mica__ir *ir, mica__op op, const void *attrs, int n_in,
                              const int32_t *in, int32_t out, int32_t *id);

/* Appends a node as it is, for passes that write the list anew; its outputs name its new place. */
mica_status mica__ir_append_node(mica__ir *ir, const mica__ir_node *node);

/* A new leaf for an evaluated array, which gets a reference; id is its value. */
mica_status mica__ir_add_constant(mica__ir *ir, mica_array *array, int32_t *id);

/* Whether a value's elements stand row-major without gaps. */
bool mica__ir_is_contiguous(const mica__ir_value *value);
int64_t mica__ir_size(const mica__ir_value *value);
int64_t mica__ir_bytes(const mica__ir_value *value);

/* Row-major strides of a shape. */
void mica__row_strides(int ndim, const int64_t *shape, int64_t *strides);

/* --- passes, in the order in which they run --------------------------------------------------- */

/* What the device has no kernel for is said in simpler operations. */
mica_status mica__pass_decompose(mica__ir *ir);
/* Equal nodes become one; unused ones die. */
mica_status mica__pass_cse(mica__ir *ir);
/* Reshape, transpose, slice, broadcast become strides. */
mica_status mica__pass_views(mica__ir *ir);
/* Elementwise chains become one step. */
mica_status mica__pass_fuse(mica__ir *ir);
/* A kernel for each node, copies where one needs them. */
mica_status mica__pass_kernels(mica__ir *ir);
/* An order that needs less memory, where there is one. */
mica_status mica__pass_order(mica__ir *ir);
/* Stretches of independent steps. */
mica_status mica__pass_phases(mica__ir *ir);
/* Lifetimes, reuse in place, offsets in the arena. */
mica_status mica__pass_memory(mica__ir *ir);

#endif
