/* runtime.h - the process's runtime and its contexts.
 *
 * The runtime owns what contexts share: CPU features, worker pool, buffer pool, program cache, the
 * list of kept arrays. It lives while a context is open. A context is one thread's: its scopes, its
 * sticky error, its named extents. The context's shell outlives mica_close while arrays still point
 * to it.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_RUNTIME_H
#define MICA_CORE_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include <mica/array.h>

#include "base/cpu.h"
#include "base/workers.h"
#include "core/buffer.h"

#define MICA__MAX_EXTENTS 64

struct mica__program_cache;

typedef struct mica__runtime {
    int contexts; /* open ones, under the process lock */
    mica__cpu cpu;
    const struct mica__kernel *const *kernels; /* the device's (backend.h), tried in order; fixed
                                                  before the first program is made */
    int n_kernels;
    int threads;
    mica__workers *workers;
    mica__pool *pool;
    pthread_mutex_t lock; /* kept list, leaf marks while compiling */
    mica_array *kept;
    struct mica__program_cache *cache;
    _Atomic int64_t programs_compiled, cache_hits, programs_run, recomputed;
    int64_t pool_bytes;
} mica__runtime;

struct mica_scope {
    mica_ctx *ctx;
    mica_scope *parent;
    mica_array *arrays; /* owned, linked through scope_next */
};

typedef struct mica__extent {
    char name[32];
    int64_t bound;
} mica__extent;

struct mica_ctx {
    _Atomic int32_t refs; /* the opener and every array */
    _Atomic bool open;
    const void *thread; /* mica__thread_mark of the thread that opened it */
    mica__runtime *runtime;
    mica_scope *root;
    mica_scope *innermost;
    mica_status status; /* the first error's */
    char message[MICA__MESSAGE_BYTES];
    int n_extents;
    mica__extent extents[MICA__MAX_EXTENTS];
    mica_ctx *previous; /* the thread's current context before this one */
};

/* How many workers a runtime starts: what was asked for (the pool refuses too many), else the quota
 * of processors as far as a pool may have so many. */
int mica__thread_count(int asked, int quota);

/* Makes the thread's recorded failure the context's error, unless it has one already; returns
 * status. */
mica_status mica__ctx_fail(mica_ctx *ctx, mica_status status);

/* The thread's current context, or NULL. */
mica_ctx *mica__ctx_current(void);

/* An address that tells threads apart. */
const void *mica__thread_mark(void);

void mica__ctx_unref(mica_ctx *ctx);

#endif
