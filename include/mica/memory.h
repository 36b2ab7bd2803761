/* memory.h - what mica holds, and the limit on it.
 *
 * Every byte that mica allocates is counted here, under one kind. The limit is hard: an allocation
 * that would pass it is refused with MICA_E_MEMORY, and everything else goes on. Counters are
 * process-wide.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MEMORY_H
#define MICA_MEMORY_H

#include <mica/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an allocation is for: enumerator, name as printed. */
#define MICA_MEMORY_KINDS(X)                                                                       \
    X(MICA_MEMORY_ARRAYS, "arrays")       /* data of arrays that somebody holds */                 \
    X(MICA_MEMORY_WORKSPACE, "workspace") /* arenas of running programs */                         \
    X(MICA_MEMORY_SCRATCH, "scratch")     /* per-worker scratch of running programs */             \
    X(MICA_MEMORY_POOL, "pool")           /* freed buffers kept for reuse */                       \
    X(MICA_MEMORY_GRAPH, "graph")         /* unevaluated arrays, contexts, scopes */               \
    X(MICA_MEMORY_PROGRAMS, "programs")   /* compiled programs */                                  \
    X(MICA_MEMORY_WEIGHTS, "weights")     /* weights that were read instead of mapped */           \
    X(MICA_MEMORY_KV, "kv")               /* committed KV blocks and their bookkeeping */          \
    X(MICA_MEMORY_TEXT, "text")           /* tokenizers and templates */                           \
    X(MICA_MEMORY_THREADS, "threads")     /* stacks of worker threads */                           \
    X(MICA_MEMORY_OTHER, "other")

typedef enum mica_memory_kind {
#define X(name, text) name,
    MICA_MEMORY_KINDS(X)
#undef X
        MICA_MEMORY_N_KINDS
} mica_memory_kind;

typedef struct mica_memory_usage {
    int64_t active;                       /* bytes in use now, without the pool */
    int64_t peak;                         /* highest `active` since start or reset */
    int64_t limit;                        /* bytes; INT64_MAX when there is none */
    int64_t mapped;                       /* bytes of mapped weight files, not in `active` */
    bool mapped_in_limit;                 /* whether the limit covers `mapped` too */
    int64_t by_kind[MICA_MEMORY_N_KINDS]; /* bytes by what they are for; the pool is a kind */
} mica_memory_usage;

/* Reads all counters. Safe from any thread; the counters are read one by one, not as one snapshot.
 */
MICA_API void mica_memory_read(mica_memory_usage *usage);

/* Sets the limit in bytes on active + pool (+ mapped weights where mapped_in_limit). A value below
 * what is in use is accepted: it refuses everything new. bytes <= 0 removes the limit. */
MICA_API void mica_set_memory_limit(int64_t bytes, bool mapped_in_limit);

/* Sets `peak` to `active`. */
MICA_API void mica_memory_reset_peak(void);

/* The printed name of a kind, "?" outside the list. */
MICA_API const char *mica_memory_kind_name(mica_memory_kind kind);

#ifdef __cplusplus
}
#endif

#endif
