/* array.h - runtime, contexts, scopes, lazy arrays and programs.
 *
 *     mica_ctx *mc = mica_open(NULL);
 *     mica_scope *step = mica_scope_push(mc);
 *     mica_array *x = mica_full(mc, MICA_SHAPE(4, 8), 2.0, MICA_F32);
 *     mica_array *y = mica_sum(mica_square(x), MICA_ALL_AXES, false);   nothing is computed yet
 *     if (mica_eval_all(mc, y))
 *         ...                                                           mica_error(mc) says why
 *     mica_scope_pop(step);
 *     mica_close(mc);
 *
 * Arrays are immutable values, computed when evaluated and reference counted. A builder returns an
 * array that belongs to the innermost open scope of its context and dies with it, NULL on error;
 * NULL in gives NULL out. The first error of a context stays until it is cleared, so a whole
 * formula is checked once, at eval or compile. One runtime per process; one context per thread. An
 * evaluated array may be used from any thread: what is built from it belongs to the thread's own
 * context (of several, to that of the first unevaluated operand, else of the first operand).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_ARRAY_H
#define MICA_ARRAY_H

#include <mica/dtype.h>
#include <mica/log.h>
#include <mica/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mica_ctx mica_ctx;
typedef struct mica_scope mica_scope;
typedef struct mica_array mica_array;
typedef struct mica_program mica_program;

/* A shape by value. MICA_SHAPE(2, 3) makes one of two axes, MICA_SCALAR one of none. */
typedef struct mica_shape {
    int ndim;
    int64_t dims[MICA_MAX_DIMS];
} mica_shape;

#ifndef __cplusplus
#define MICA_SHAPE(...)                                                                            \
    ((mica_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define MICA_SCALAR ((mica_shape){0, {0}})
#endif

/* The same from a list: ndim axes of dims; ndim outside 0..MICA_MAX_DIMS gives a shape that every
 * builder refuses. */
MICA_API mica_shape mica_shape_of(int ndim, const int64_t *dims);

/* For axis lists of reductions: all axes. */
#define MICA_ALL_AXES ((uint32_t)0xffffffffu)

/* The most worker threads that a context can have. */
#define MICA_MAX_THREADS 1024

/* How to open. Zero-initialise; zero means the default. */
typedef struct mica_options {
    int64_t memory_limit; /* bytes, hard; 0: the cgroup's limit if there is one, else none */
    bool limit_covers_mapped_weights;
    int threads;      /* up to MICA_MAX_THREADS; 0: what affinity and cgroup quota allow */
    const char *isa;  /* caps the CPU feature level ("scalar", "avx2", ...); NULL: MICA_ISA from the
                         environment */
    const char *root; /* where proc/ and sys/ are looked up; NULL: "/" (for tests) */
    int64_t program_cache_bytes; /* 0: 64 MiB */
    int64_t pool_bytes;          /* freed buffers kept for reuse; 0: 256 MiB, negative: none */
    mica_log_callback log;       /* NULL: silent */
    void *log_user;
    mica_log_level log_level; /* the least important that is wanted; NONE (0) means INFO */
} mica_options;

/* Opens a context on the process's runtime, which the first call makes from `options` (NULL: all
 * defaults); later calls join it and may pass NULL only. NULL on failure, with mica_last_error().
 * The context belongs to the calling thread. */
MICA_API mica_ctx *mica_open(const mica_options *options);

/* Closes a context: its scopes and what they own are released. The runtime closes with its last
 * context; arrays that are still kept then are freed and reported to the log. NULL is ignored. */
MICA_API void mica_close(mica_ctx *mc);

/* The context's first error since it was cleared, "" if none; and its status. */
MICA_API const char *mica_error(const mica_ctx *mc);
MICA_API mica_status mica_error_status(const mica_ctx *mc);
MICA_API void mica_clear_error(mica_ctx *mc);

/* How many worker threads the runtime uses, the caller included. */
MICA_API int mica_threads(const mica_ctx *mc);

/* The CPU feature level in use: "scalar", "avx2", "avx512" or "neon". Static storage. */
MICA_API const char *mica_isa(const mica_ctx *mc);

/* --- scopes ----------------------------------------------------------------------------------- */

/* Opens a scope inside the innermost one. NULL on failure (the error is in the context). */
MICA_API mica_scope *mica_scope_push(mica_ctx *mc);

/* Releases every array that the scope owns, scopes inside it included. NULL is ignored. */
MICA_API void mica_scope_pop(mica_scope *scope);

/* Hands an array from the innermost scope to the one around it; returns it. */
MICA_API mica_array *mica_scope_return(mica_array *array);

/* --- lifetime --------------------------------------------------------------------------------- */

/* Gives the caller a reference of its own, ended by mica_release; returns the array. NULL in, NULL
 * out. */
MICA_API mica_array *mica_keep(mica_array *array);
MICA_API void mica_release(mica_array *array);

/* Says that the caller will not read this evaluated array again. The next evaluation of a graph
 * that reads it, or the next mica_run that is given it, takes it: the buffer is used for an output
 * of the same size where that is possible, and goes back to the pool otherwise. Any other use
 * (data, item, a new operation, a graph evaluated later) is an error that names it. A run that
 * fails after it began may have destroyed it. Refused for an array that is not evaluated, was
 * donated before, or is a constant of a compiled program. */
MICA_API mica_status mica_donate(mica_array *array);

/* --- facts ------------------------------------------------------------------------------------ */

MICA_API mica_dtype mica_array_dtype(const mica_array *array); /* MICA_N_DTYPES for NULL */
MICA_API mica_shape mica_array_shape(const mica_array *array);
MICA_API int mica_array_ndim(const mica_array *array);
MICA_API int64_t mica_array_dim(const mica_array *array,
                                int axis); /* negative axes count from the end; -1 if none */
MICA_API int64_t mica_array_size(const mica_array *array);  /* elements */
MICA_API int64_t mica_array_bytes(const mica_array *array); /* size * bytes of the dtype */
MICA_API bool mica_array_is_evaluated(const mica_array *array);

/* --- making arrays ---------------------------------------------------------------------------- */

/* Copies data (row-major, mica_array_bytes of the shape) into a new evaluated array. */
MICA_API mica_array *mica_from_data(mica_ctx *mc, const void *data, mica_shape shape,
                                    mica_dtype dtype);

/* An evaluated array over memory of the caller, not copied. release(user) is called once nobody
 * reads it any more (NULL: nothing is called); data may start at any address. On failure release is
 * not called. */
MICA_API mica_array *mica_from_memory(mica_ctx *mc, const void *data, mica_shape shape,
                                      mica_dtype dtype, void (*release)(void *user), void *user);

/* A placeholder to be given when a program runs. Its value cannot be read. */
MICA_API mica_array *mica_input(mica_ctx *mc, mica_shape shape, mica_dtype dtype);

/* The same with a first axis that varies from run to run: shape.dims[0] is the bound of the extent
 * `name` (at most 64 in a context; one name has one bound). Kernels loop to the value of the
 * run. */
MICA_API mica_array *mica_input_extent(mica_ctx *mc, const char *name, mica_shape shape,
                                       mica_dtype dtype);

/* --- evaluation ------------------------------------------------------------------------------- */

/* Computes the given arrays and nothing else; all or none. n >= 0. On failure the context's error
 * is set (or was set by a builder before, and is reported), and the arrays stay as they were. */
MICA_API mica_status mica_eval(mica_ctx *mc, int n, mica_array *const *arrays);

#ifndef __cplusplus
#define mica_eval_all(mc, ...)                                                                     \
    mica_eval((mc), (int)(sizeof((mica_array *[]){__VA_ARGS__}) / sizeof(mica_array *)),           \
              (mica_array *[]){__VA_ARGS__})
#endif

/* The evaluated data, row-major, or NULL with the error set when the array is not evaluated
 * (mica_eval it first) or is a placeholder. Valid while the array is. */
MICA_API const void *mica_data(const mica_array *array);

/* The single element of an array of size 1, evaluated on demand; NaN / 0 with the error set on
 * failure. */
MICA_API double mica_item_f64(mica_array *array);
MICA_API int64_t mica_item_i64(mica_array *array);

/* --- programs --------------------------------------------------------------------------------- */

/* Compiles the graph from inputs (placeholders) to outputs; evaluated arrays that it reads are kept
 * as constants. The caller owns *program (mica_program_free). Tracing happens once: running builds
 * no graph. */
MICA_API mica_status mica_compile(mica_ctx *mc, int n_in, mica_array *const *inputs, int n_out,
                                  mica_array *const *outputs, mica_program **program);

/* Runs with evaluated arrays of the placeholders' shapes (a named extent: up to its bound, the same
 * for all of that name), gives one new array per output, owned by the innermost scope. All or none.
 */
MICA_API mica_status mica_run(mica_ctx *mc, mica_program *program, mica_array *const *inputs,
                              mica_array **outputs);

typedef struct mica_program_facts {
    int64_t peak_bytes;  /* what a run takes at most: arena, scratch of all workers, outputs; exact
                            at the bounds */
    int64_t arena_bytes; /* planned arena */
    int64_t live_bytes;  /* largest sum of intermediates alive at once: the arena's lower bound */
    int64_t scratch_bytes; /* of all workers together */
    int64_t output_bytes;
    int64_t program_bytes; /* the program itself */
    int n_steps;           /* kernels launched by a run */
    int n_phases;          /* stretches between barriers */
} mica_program_facts;

/* What was planned; the program must be compiled. */
MICA_API mica_program_facts mica_program_describe(const mica_program *program);
/* Ends the caller's reference; NULL is ignored. Results of runs stay. To be called before the last
 * context closes. */
MICA_API void mica_program_free(mica_program *program);

/* Counters of the runtime since it was opened. */
typedef struct mica_counters {
    int64_t programs_compiled;
    int64_t cache_hits; /* evaluations that found their program */
    int64_t programs_run;
    int64_t recomputed; /* intermediates computed again since nobody had asked for them the first
                           time */
    int64_t pool_hits;
} mica_counters;

/* Reads the counters one by one; safe from any thread. */
MICA_API mica_counters mica_counters_read(const mica_ctx *mc);

#ifdef __cplusplus
}
#endif

#endif
