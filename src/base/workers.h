/* workers.h - a pool of threads that run one function together.
 *
 * The pool has n workers: n - 1 threads and whoever calls run, who is worker 0. A run calls one
 * body on all workers at once; between its phases the workers meet at a barrier. The pool splits no
 * work: the body does, from (worker, n_workers), by rules that keep results independent of n.
 * Waiting workers spin for some microseconds and then sleep, so a pool takes no more than its share
 * of a busy machine.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_WORKERS_H
#define MICA_BASE_WORKERS_H

#include "base/alloc.h"

#define MICA__WORKERS_MAX 1024

/* The C library puts a thread's thread-local variables on its stack; ThreadSanitizer has nearly a
 * megabyte of them. */
#if defined(__SANITIZE_THREAD__)
#define MICA__WORKERS_STACK_BYTES ((int64_t)2560 << 10)
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MICA__WORKERS_STACK_BYTES ((int64_t)2560 << 10)
#endif
#endif
#if !defined(MICA__WORKERS_STACK_BYTES)
#define MICA__WORKERS_STACK_BYTES ((int64_t)512 << 10)
#endif

typedef struct mica__workers mica__workers;

/* Starts n_threads - 1 threads (1 <= n_threads <= MICA__WORKERS_MAX). Their stacks (512 KiB and a
 * guard page each) are counted as MICA_MEMORY_THREADS. The threads take no signals but those that
 * their own instructions raise (SIGSEGV, SIGBUS, ...). On failure (MICA_E_MEMORY when the limit or
 * the system refuses a thread) nothing is left running or counted. */
mica_status mica__workers_new(int n_threads, mica__workers **workers);

/* Ends and joins the threads; NULL is ignored. No run may be going on or waiting. */
void mica__workers_free(mica__workers *workers);

int mica__workers_count(const mica__workers *workers);

/* Runs body(user, worker, n_workers) once on every worker, all at the same time, and returns when
 * all have returned; what they wrote is visible to the caller, and what the caller wrote before to
 * them. Callers from several threads are served one after another in the order of their calls.
 * Allocates nothing and cannot fail. Not to be called from inside a body. The body runs with
 * default floating point settings (round to nearest, subnormals kept) on every worker, whatever the
 * caller's are; these are put back. */
void mica__workers_run(mica__workers *workers, void (*body)(void *user, int worker, int n_workers),
                       void *user);

/* Called from inside a running body by all workers: each returns once all have called. What a
 * worker wrote before is visible to all afterwards. */
void mica__workers_barrier(mica__workers *workers, int worker);

/* Callers that are running or waiting now (a statistic: stale when read). */
int mica__workers_callers(const mica__workers *workers);

#endif
