/* graph.h - lazy arrays: what a handle points to, and how operations are recorded.
 *
 * An array is a value: shape, dtype and, once evaluated, a buffer. An unevaluated array points to
 * the node that will compute it; a node holds references to its inputs and never to its outputs, so
 * there are no cycles. Evaluating an array drops its node. A graph belongs to the context (and so
 * to the thread) that built it; evaluated arrays have no edges and may be read anywhere. Freeing
 * walks a work list, never the call stack.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_GRAPH_H
#define MICA_CORE_GRAPH_H

#include <mica/array.h>

#include "core/buffer.h"
#include "core/op.h"
#include "core/runtime.h"

/* Which axes follow a named extent: 0, or 1 + the context's number of the extent. The axis is shape
 * / bound times the extent's value of the run. */
typedef struct mica__extents {
    uint8_t axis[MICA_MAX_DIMS];
} mica__extents;

/* dtype, shape and extents of a value: what inference works on. */
typedef struct mica__aval {
    mica_dtype dtype;
    int ndim;
    int64_t shape[MICA_MAX_DIMS];
    mica__extents extents;
} mica__aval;

typedef struct mica__node {
    _Atomic int32_t refs; /* unevaluated outputs that point here */
    mica__op op;
    int n_in;
    int n_out;
    int64_t seen; /* number of the last collection that met it, and its index there (collect.c) */
    int32_t index;
    bool computed;           /* by an evaluation, for the sake of others */
    struct mica__node *next; /* in the list of nodes being freed */
    void *attrs;      /* mica__op_facts_of(op)->attr_bytes, behind the inputs in the same block */
    mica_array *in[]; /* [n_in] references */
} mica__node;

/* What became of an array that was given away. */
typedef enum mica__donation {
    MICA__NOT_DONATED,
    MICA__OFFERED, /* the next program that reads it takes the buffer */
    MICA__GONE     /* taken: there is no value any more */
} mica__donation;

struct mica_array {
    _Atomic int32_t refs;
    _Atomic int32_t kept;   /* references that belong to callers of mica_keep; changed under the
                               runtime's lock */
    _Atomic int32_t pinned; /* compiled programs that hold it as a constant */
    mica_dtype dtype;
    int ndim;
    int out; /* which output of node */
    bool placeholder;
    uint8_t donation;     /* mica__donation */
    int32_t index;        /* as a node's, for leaves */
    mica_ctx *ctx;        /* counted reference to the context that made it */
    mica__node *node;     /* NULL once evaluated, and for leaves */
    mica__buffer *buffer; /* NULL until evaluated */
    int64_t offset;       /* bytes into the buffer; the value is row-major from there */
    mica_scope *scope;    /* that owns one reference, or NULL */
    mica_array *scope_next, **scope_link;
    mica_array *kept_next, **kept_link; /* the runtime's list of kept arrays */
    int64_t seen; /* as a node's, for leaves; it and index are touched under the runtime's lock */
    mica__extents extents;
    int64_t shape[];
};

/* Elements of a shape; -1 on overflow or a negative dimension. */
int64_t mica__shape_size(int ndim, const int64_t *shape);

/* Whether a shape is one an array may have (ndim, dimensions, bytes); the failure is recorded,
 * prefixed by what. */
mica_status mica__shape_check(const char *what, const mica_shape *shape, mica_dtype dtype);

void mica__aval_of(const mica_array *array, mica__aval *aval);

/* A new array of the innermost scope, unevaluated and without node. NULL: recorded in the context.
 */
mica_array *mica__array_new(mica_ctx *ctx, const mica__aval *aval);

/* Bytes that mica__array_new counts for ndim axes. */
int64_t mica__array_cost(int ndim);

/* Takes a new array back from its scope and drops it; NULL is ignored. */
void mica__array_drop(mica_array *array);

/* Drops one reference. */
void mica__array_unref(mica_array *array);

/* Marks an array evaluated: takes over the caller's reference to buffer, drops the node. */
void mica__array_fill(mica_array *array, mica__buffer *buffer, int64_t offset);

/* Whether a program that reads the array may write an output into its buffer: it was donated, and
 * nobody else holds the buffer. */
bool mica__array_may_be_taken(const mica_array *array);

/* Ends a donated array's value: the buffer goes, later use is an error. */
void mica__array_consume(mica_array *array);

/* The context in which an operation on these inputs is recorded: among the thread's own open
 * contexts that of the first unevaluated input, else of the first one, else the thread's current
 * one. A thread that never opened a context uses those of its inputs. NULL (recorded for the
 * thread) when there is none. */
mica_ctx *mica__ctx_for(int n, mica_array *const *inputs);

/* The same for one array whose error is to be recorded. */
mica_ctx *mica__ctx_of(const mica_array *array);

/* Fails unless an unevaluated array belongs to ctx: graphs are one thread's. `what` and `i` name
 * it. */
mica_status mica__check_context(const mica_ctx *ctx, const char *what, int i,
                                const mica_array *array);

/* "[2, 3]" into out, cut where it does not fit; returns out. And "float32 [2, 3]". */
#define MICA__SHAPE_TEXT 128
const char *mica__shape_text(int ndim, const int64_t *shape, char out[MICA__SHAPE_TEXT]);
#define MICA__ARRAY_TEXT 160
const char *mica__array_text(const mica_array *array, char out[MICA__ARRAY_TEXT]);

/* Records an operation and gives its outputs: checks the inputs (NULL: NULL out silently, since the
 * error is recorded already; donated; of another thread's open graph), runs the op's inference,
 * makes node and outputs. attrs: the op's attribute struct, copied. All NULL on error. The one way
 * to build graphs. */
mica_array *mica__apply(mica_ctx *ctx, mica__op op, const void *attrs, int n_in,
                        mica_array *const *inputs);
mica_status mica__apply_multi(mica_ctx *ctx, mica__op op, const void *attrs, int n_in,
                              mica_array *const *inputs, int n_out, mica_array **outputs);

/* --- rules: one block per op, in ops/<family>.c ----------------------------------------------- */

typedef struct mica__rules {
    mica__op op;
    const char *doc; /* one line for the documentation */

    /* dtype, shape and extents of the outputs from those of the inputs; attributes may be completed
     * (they are the node's own copy). The failure message needs no op name: the caller adds it. */
    mica_status (*infer)(void *attrs, int n_in, const mica__aval *in, int n_out, mica__aval *out);

    /* The op said in simpler ones: used where the device has no kernel (pass_decompose.c), and as
     * the oracle in tests. Gives an array of the op's dtype, shape and extents; constants come from
     * mica__constant; sub-results may need decomposing themselves, never into the op again. A
     * result of NULL without an error in ctx: these operands cannot be said so. NULL: primitive.
     * Ops with one output only. */
    mica_array *(*decompose)(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in);

    int n_out;    /* 0 means 1 */
    int alias_of; /* 1 + the input whose buffer output 0 updates in place by contract; 0: none */
} mica__rules;

/* The rules of an op; every row of ops.def has them. */
const mica__rules *mica__rules_of(mica__op op);

/* ops/rules.c puts the families together: each family exports its blocks as a list ended by doc ==
 * NULL. */
extern const mica__rules mica__elementwise_rules[];
extern const mica__rules mica__shape_rules[];
extern const mica__rules mica__reduce_rules[];
extern const mica__rules mica__index_rules[];
extern const mica__rules mica__matmul_rules[];
extern const mica__rules mica__fast_rules[];
extern const mica__rules mica__create_rules[];

#endif
