/* runtime.c - opening and closing: the process's runtime, contexts, scopes, sticky errors.
 *
 * The runtime is made by the first mica_open and freed with the last context. process_lock guards
 * its birth and death only. This is the one file of the library that reads the environment
 * (MICA_ISA).
 * SPDX-License-Identifier: MIT
 */
#include "core/runtime.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/backend.h"
#include "core/graph.h"
#include "core/program_cache.h"

_Static_assert(MICA_MAX_THREADS == MICA__WORKERS_MAX, "the public bound is the workers' own");

#define DEFAULT_CACHE_BYTES ((int64_t)64 << 20)
#define DEFAULT_POOL_BYTES  ((int64_t)256 << 20)

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static mica__runtime *process_runtime;
static _Thread_local mica_ctx *current;

/* --- errors ----------------------------------------------------------------------------------- */

mica_status mica__ctx_fail(mica_ctx *ctx, mica_status status)
{
    if (ctx && ctx->status == MICA_OK) {
        ctx->status = status;
        memcpy(ctx->message, mica_last_error(), sizeof ctx->message);
    }
    return status;
}

const char *mica_error(const mica_ctx *mc)
{
    return mc ? mc->message : mica_last_error();
}

mica_status mica_error_status(const mica_ctx *mc)
{
    return mc ? mc->status : MICA_E_ARGUMENT;
}

void mica_clear_error(mica_ctx *mc)
{
    if (!mc)
        return;
    mc->status = MICA_OK;
    mc->message[0] = '\0';
}

/* --- runtime ---------------------------------------------------------------------------------- */

static void runtime_free(mica__runtime *runtime)
{
    if (!runtime)
        return;
    int64_t leaked = 0;
    while (runtime->kept) {
        mica_array *array = runtime->kept;
        leaked++;
        for (int32_t n = atomic_load(&array->kept); n > 0; n--)
            mica_release(array);
    }
    if (leaked)
        mica__log(MICA_LOG_WARNING,
                  "%lld arrays were still kept when the runtime closed; they are freed",
                  (long long)leaked);
    mica__log_set(MICA_LOG_NONE, NULL, NULL);
    mica__program_cache_free(runtime->cache);
    mica__workers_free(runtime->workers);
    mica__pool_free(runtime->pool);
    pthread_mutex_destroy(&runtime->lock);
    mica__free(runtime);
}

int mica__thread_count(int asked, int quota)
{
    if (asked > 0)
        return asked;
    return quota < MICA__WORKERS_MAX ? quota : MICA__WORKERS_MAX;
}

static mica_status runtime_start(mica__runtime *runtime, const mica_options *options)
{
    runtime->kernels = mica__cpu_kernels;
    runtime->n_kernels = mica__cpu_n_kernels;
    runtime->cpu = *mica__cpu_host();
    const char *isa = options->isa ? options->isa : getenv("MICA_ISA");
    if (isa && *isa)
        MICA_TRY(mica__cpu_cap(isa, &runtime->cpu));
    int quota = 1;
    if (options->threads <= 0)
        MICA_TRY(mica__cpu_quota(options->root, &quota));
    runtime->threads = mica__thread_count(options->threads, quota);

    int64_t limit = options->memory_limit;
    const int64_t cgroup = mica__cgroup_memory_limit(options->root);
    if (cgroup != INT64_MAX && (limit <= 0 || limit > cgroup))
        limit = cgroup;
    mica_set_memory_limit(limit, options->limit_covers_mapped_weights);

    const int64_t pool = options->pool_bytes ? options->pool_bytes : DEFAULT_POOL_BYTES;
    runtime->pool = mica__pool_new(pool > 0 ? pool : 0);
    if (!runtime->pool)
        return MICA_E_MEMORY;
    MICA_TRY(mica__workers_new(runtime->threads, &runtime->workers));
    char cpu[MICA__CPU_TEXT_BYTES];
    mica__log(MICA_LOG_INFO, "kernels for %s, %d threads, memory limit %lld bytes (0: none)",
              mica__cpu_describe(&runtime->cpu, cpu), runtime->threads, (long long)limit);
    const int64_t cache =
        options->program_cache_bytes ? options->program_cache_bytes : DEFAULT_CACHE_BYTES;
    return mica__program_cache_new(cache, &runtime->cache);
}

static mica__runtime *runtime_new(const mica_options *options)
{
    static const mica_options defaults;
    if (!options)
        options = &defaults;
    mica__runtime *runtime = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *runtime);
    if (!runtime)
        return NULL;
    pthread_mutex_init(&runtime->lock, NULL);
    mica__log_set(options->log_level ? options->log_level : MICA_LOG_INFO, options->log,
                  options->log_user);
    if (runtime_start(runtime, options) != MICA_OK) {
        runtime_free(runtime);
        return NULL;
    }
    return runtime;
}

/* --- contexts --------------------------------------------------------------------------------- */

static mica_scope *scope_new(mica_ctx *ctx)
{
    mica_scope *scope = mica__alloc(MICA_MEMORY_GRAPH, sizeof *scope);
    if (scope) {
        *scope = (mica_scope){.ctx = ctx, .parent = ctx->innermost};
        ctx->innermost = scope;
    }
    return scope;
}

static mica_ctx *ctx_new(mica__runtime *runtime)
{
    mica_ctx *ctx = mica__alloc_zero(MICA_MEMORY_GRAPH, 1, sizeof *ctx);
    if (!ctx)
        return NULL;
    atomic_init(&ctx->refs, 1);
    ctx->runtime = runtime;
    ctx->root = scope_new(ctx);
    if (!ctx->root) {
        mica__free(ctx);
        return NULL;
    }
    atomic_init(&ctx->open, true);
    ctx->thread = mica__thread_mark();
    ctx->previous = current;
    return ctx;
}

mica_ctx *mica_open(const mica_options *options)
{
    pthread_mutex_lock(&process_lock);
    mica_ctx *ctx = NULL;
    if (process_runtime && options) {
        mica__fail(MICA_E_STATE,
                   "the runtime is open already: only the first mica_open takes options");
        goto out;
    }
    if (!process_runtime)
        process_runtime = runtime_new(options);
    if (!process_runtime)
        goto out;
    ctx = ctx_new(process_runtime);
    if (ctx) {
        process_runtime->contexts++;
        current = ctx;
    } else if (process_runtime->contexts == 0) {
        runtime_free(process_runtime);
        process_runtime = NULL;
    }
out:
    pthread_mutex_unlock(&process_lock);
    return ctx;
}

void mica__ctx_unref(mica_ctx *ctx)
{
    if (atomic_fetch_sub_explicit(&ctx->refs, 1, memory_order_acq_rel) == 1)
        mica__free(ctx);
}

const void *mica__thread_mark(void)
{
    return &current;
}

mica_ctx *mica__ctx_current(void)
{
    return current;
}

static void forget_current(mica_ctx *closing)
{
    if (current == closing)
        current = closing->previous;
    for (mica_ctx *at = current; at; at = at->previous)
        if (at->previous == closing)
            at->previous = closing->previous;
}

void mica_close(mica_ctx *mc)
{
    if (!mc)
        return;
    while (mc->innermost)
        mica_scope_pop(mc->innermost);
    atomic_store(&mc->open, false);
    forget_current(mc);
    pthread_mutex_lock(&process_lock);
    if (--process_runtime->contexts == 0) {
        runtime_free(process_runtime);
        process_runtime = NULL;
    }
    pthread_mutex_unlock(&process_lock);
    mica__ctx_unref(mc);
}

int mica_threads(const mica_ctx *mc)
{
    return mc->runtime->threads;
}

const char *mica_isa(const mica_ctx *mc)
{
    return mica__cpu_level_name(mc->runtime->cpu.level);
}

mica_counters mica_counters_read(const mica_ctx *mc)
{
    mica__runtime *runtime = mc->runtime;
    return (mica_counters){
        .programs_compiled = atomic_load(&runtime->programs_compiled),
        .cache_hits = atomic_load(&runtime->cache_hits),
        .programs_run = atomic_load(&runtime->programs_run),
        .recomputed = atomic_load(&runtime->recomputed),
        .pool_hits = mica__pool_hits(runtime->pool),
    };
}

/* --- scopes ----------------------------------------------------------------------------------- */

mica_scope *mica_scope_push(mica_ctx *mc)
{
    if (!mc)
        return NULL;
    mica_scope *scope = scope_new(mc);
    if (!scope)
        mica__ctx_fail(mc, MICA_E_MEMORY);
    return scope;
}

static void scope_close(mica_scope *scope)
{
    while (scope->arrays) {
        mica_array *array = scope->arrays;
        scope->arrays = array->scope_next;
        if (scope->arrays)
            scope->arrays->scope_link = &scope->arrays;
        array->scope = NULL;
        array->scope_next = NULL;
        array->scope_link = NULL;
        mica__array_unref(array);
    }
    scope->ctx->innermost = scope->parent;
    mica__free(scope);
}

void mica_scope_pop(mica_scope *scope)
{
    if (!scope)
        return;
    mica_ctx *ctx = scope->ctx;
    while (ctx->innermost != scope)
        scope_close(ctx->innermost);
    scope_close(scope);
}
