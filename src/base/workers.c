/* workers.c - a pool of threads that run one function together.
 *
 * Everything that waits here waits for a `signal`: a counter that somebody else advances. A waiter
 * spins on it for a bounded number of rounds, then announces itself in `sleepers` and sleeps in the
 * kernel on the counter's value. Invariant: a waiter adds itself to `sleepers` before the kernel
 * compares the counter, and the waker advances the counter before it reads `sleepers` (both
 * sequentially consistent), so either the waker sees the sleeper or the kernel sees the new value:
 * no wake-up is lost, and nobody enters the kernel when nobody sleeps.
 *
 * Short spins matter on a busy machine: a worker whose peer was preempted must give its CPU up at
 * once, so that both come back together; one that spins through uses up its own share and is
 * preempted just when the peer returns.
 * SPDX-License-Identifier: MIT
 */
#include "base/workers.h"

#include "base/cgroup.h"
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE    64
#define SPIN_NS 20000 /* about what going to sleep and being woken costs */

typedef struct signal_counter {
    _Alignas(LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} signal_counter;

typedef struct worker_thread {
    mica__workers *workers;
    int index;
    pthread_t id;
    void *stack; /* guard page first */
    size_t stack_bytes;
} worker_thread;

struct mica__workers {
    int n;
    int n_started; /* threads that must be joined */
    int spins;
    void (*body)(void *user, int worker, int n_workers); /* NULL in a launch: threads end */
    void *user;
    signal_counter launch;                  /* advanced once per run */
    signal_counter finished;                /* advanced by the last thread of a run */
    signal_counter generation;              /* advanced by the last worker at a barrier */
    signal_counter serving;                 /* the ticket whose caller may run */
    _Alignas(LINE) _Atomic uint32_t n_left; /* threads whose body has not returned */
    _Alignas(LINE) _Atomic uint32_t n_arrived;
    _Alignas(LINE) _Atomic uint32_t next_ticket;
    _Alignas(LINE) worker_thread threads[];
};

/* Set on a thread while it runs a body. */
static _Thread_local bool inside_body;

/* --- waiting ---------------------------------------------------------------------------------- */

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint32_t bits)
{
    /* Returns early on a signal or when the value has changed: every caller looks again. */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, NULL, NULL, bits);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t bits)
{
    syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
}

/* Returns once the counter is no longer `seen`. */
static void wait_past(signal_counter *signal, uint32_t seen, int spins)
{
    for (int i = 0; i < spins; i++) {
        if (atomic_load_explicit(&signal->value, memory_order_acquire) != seen)
            return;
        pause_briefly();
    }
    atomic_fetch_add(&signal->sleepers, 1);
    while (atomic_load(&signal->value) == seen)
        futex_wait(&signal->value, seen, FUTEX_BITSET_MATCH_ANY);
    atomic_fetch_sub(&signal->sleepers, 1);
}

static void advance(signal_counter *signal)
{
    atomic_fetch_add(&signal->value, 1);
    if (atomic_load(&signal->sleepers) > 0)
        futex_wake(&signal->value, FUTEX_BITSET_MATCH_ANY);
}

/* Rounds of pause_briefly() in SPIN_NS, whose length differs a hundredfold between processors. The
 * quickest of several samples is the one that was not interrupted. */
static int spins_for(int n_workers)
{
    enum { SAMPLES = 5, ROUNDS = 128 };
    int processors;
    if (mica__cpu_quota(NULL, &processors) != MICA_OK || n_workers > processors)
        return 0; /* whoever spins keeps another worker from its CPU */
    int64_t best = INT64_MAX;
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t start = mica__clock_ns();
        for (int k = 0; k < ROUNDS; k++)
            pause_briefly();
        const int64_t took = mica__clock_ns() - start;
        best = took < best ? took : best;
    }
    const int64_t spins = (int64_t)SPIN_NS * ROUNDS / (best > 0 ? best : 1);
    return spins < 50 ? 50 : spins > 10000 ? 10000 : (int)spins;
}

/* --- floating point settings ------------------------------------------------------------------ */

/* The control register of the vector units. A host program may have asked for flush-to-zero or
 * another rounding mode on its own thread only; results must not depend on which worker computes
 * them. */
static inline uint64_t fp_settings(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#else
    return 0;
#endif
}

static inline void set_fp_settings(uint64_t settings)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((unsigned)settings);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" ::"r"(settings));
#else
    (void)settings;
#endif
}

#if defined(__x86_64__)
#define FP_DEFAULT 0x1f80 /* all exceptions masked, to nearest, no flushing */
#else
#define FP_DEFAULT 0
#endif

/* --- threads ---------------------------------------------------------------------------------- */

static void *serve(void *argument)
{
    worker_thread *self = argument;
    mica__workers *workers = self->workers;
    char name[16];
    snprintf(name, sizeof name, "mica-%d", self->index);
    pthread_setname_np(pthread_self(), name);
    set_fp_settings(FP_DEFAULT);
    inside_body = true;
    for (uint32_t seen = 0;; seen++) {
        wait_past(&workers->launch, seen, workers->spins);
        if (!workers->body)
            return NULL;
        workers->body(workers->user, self->index, workers->n);
        if (atomic_fetch_sub_explicit(&workers->n_left, 1, memory_order_acq_rel) == 1)
            advance(&workers->finished);
    }
}

/* All signals but those that the thread's own instructions raise: blocking these would turn a
 * host's crash handler off. */
static void blocked_signals(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

static mica_status create_thread(worker_thread *thread)
{
    if (mica__fault())
        MICA_FAIL(MICA_E_MEMORY, "worker thread %d could not be started (injected fault)",
                  thread->index);
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error)
        MICA_FAIL(MICA_E_MEMORY, "worker thread %d could not be started: %s", thread->index,
                  strerrordesc_np(error));
    const size_t guard = thread->stack_bytes - (size_t)MICA__WORKERS_STACK_BYTES;
    error = pthread_attr_setstack(&attributes, (char *)thread->stack + guard,
                                  (size_t)MICA__WORKERS_STACK_BYTES);
    if (!error) {
        sigset_t blocked, before;
        blocked_signals(&blocked);
        pthread_sigmask(SIG_SETMASK, &blocked, &before);
        error = pthread_create(&thread->id, &attributes, serve, thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    if (error)
        MICA_FAIL(MICA_E_MEMORY,
                  "the system refused worker thread %d (%s): use fewer threads, or raise the limit "
                  "on processes",
                  thread->index, strerrordesc_np(error));
    return MICA_OK;
}

static void give_stack(worker_thread *thread)
{
    if (thread->stack)
        munmap(thread->stack, thread->stack_bytes);
    thread->stack = NULL;
    mica__memory_give(MICA_MEMORY_THREADS, (int64_t)thread->stack_bytes);
}

/* The stack is mapped here and not by the C library, which would keep it after the thread's end. */
static mica_status start_thread(mica__workers *workers, int index)
{
    worker_thread *thread = &workers->threads[index - 1];
    const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    *thread = (worker_thread){.workers = workers,
                              .index = index,
                              .stack_bytes = guard + (size_t)MICA__WORKERS_STACK_BYTES};
    MICA_TRY(mica__memory_take(MICA_MEMORY_THREADS, (int64_t)thread->stack_bytes));
    void *stack = mmap(NULL, thread->stack_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    mica_status status = MICA_OK;
    if (stack == MAP_FAILED) {
        status = mica__fail(MICA_E_MEMORY, "the system refused a stack for worker thread %d: %s",
                            index, strerrordesc_np(errno));
        goto out;
    }
    thread->stack = stack;
    if (mprotect((char *)stack + guard, (size_t)MICA__WORKERS_STACK_BYTES,
                 PROT_READ | PROT_WRITE)) {
        status = mica__fail(MICA_E_MEMORY, "the system refused a stack for worker thread %d: %s",
                            index, strerrordesc_np(errno));
        goto out;
    }
    MICA_TRY_OUT(create_thread(thread));
    workers->n_started = index;
    return MICA_OK;
out:
    give_stack(thread);
    return status;
}

/* --- the pool --------------------------------------------------------------------------------- */

mica_status mica__workers_new(int n_threads, mica__workers **workers)
{
    *workers = NULL;
    if (n_threads < 1 || n_threads > MICA__WORKERS_MAX)
        MICA_FAIL(MICA_E_ARGUMENT, "%d worker threads asked for; 1 to %d are possible", n_threads,
                  MICA__WORKERS_MAX);
    const size_t bytes = sizeof(mica__workers) + (size_t)(n_threads - 1) * sizeof(worker_thread);
    mica__workers *pool = mica__alloc_zero(MICA_MEMORY_THREADS, 1, bytes);
    if (!pool)
        return MICA_E_MEMORY;
    pool->n = n_threads;
    pool->spins = spins_for(n_threads);
    for (int i = 1; i < n_threads; i++) {
        const mica_status status = start_thread(pool, i);
        if (status != MICA_OK) {
            mica__workers_free(pool);
            return status;
        }
    }
    *workers = pool;
    return MICA_OK;
}

void mica__workers_free(mica__workers *workers)
{
    if (!workers)
        return;
    assert(mica__workers_callers(workers) == 0);
    workers->body = NULL;
    advance(&workers->launch);
    for (int i = 0; i < workers->n_started; i++) {
        pthread_join(workers->threads[i].id, NULL);
        give_stack(&workers->threads[i]);
    }
    mica__free(workers);
}

int mica__workers_count(const mica__workers *workers)
{
    return workers->n;
}

int mica__workers_callers(const mica__workers *workers)
{
    const uint32_t serving = atomic_load(&workers->serving.value);
    return (int)(atomic_load(&workers->next_ticket) - serving);
}

/* Tickets are served in order. A sleeper is woken through the bit of its ticket, so handing over
 * wakes the next caller and (but for every 32nd) no other. */
static uint32_t ticket_bit(uint32_t ticket)
{
    return (uint32_t)1 << (ticket % 32);
}

static void take_turn(mica__workers *workers)
{
    const uint32_t ticket = atomic_fetch_add(&workers->next_ticket, 1);
    signal_counter *serving = &workers->serving;
    if (atomic_load_explicit(&serving->value, memory_order_acquire) == ticket)
        return;
    atomic_fetch_add(&serving->sleepers, 1);
    for (;;) {
        const uint32_t now = atomic_load(&serving->value);
        if (now == ticket)
            break;
        futex_wait(&serving->value, now, ticket_bit(ticket));
    }
    atomic_fetch_sub(&serving->sleepers, 1);
}

static void end_turn(mica__workers *workers)
{
    signal_counter *serving = &workers->serving;
    const uint32_t next = atomic_fetch_add(&serving->value, 1) + 1;
    if (atomic_load(&serving->sleepers) > 0)
        futex_wake(&serving->value, ticket_bit(next));
}

void mica__workers_run(mica__workers *workers, void (*body)(void *user, int worker, int n_workers),
                       void *user)
{
    assert(body && !inside_body);
    take_turn(workers);
    const uint32_t finished = atomic_load_explicit(&workers->finished.value, memory_order_relaxed);
    const int n = workers->n;
    if (n > 1) {
        workers->body = body;
        workers->user = user;
        atomic_store_explicit(&workers->n_left, (uint32_t)n - 1, memory_order_relaxed);
        advance(&workers->launch);
    }
    const uint64_t settings = fp_settings();
    set_fp_settings(FP_DEFAULT);
    inside_body = true;
    body(user, 0, n);
    inside_body = false;
    set_fp_settings(settings);
    if (n > 1)
        wait_past(&workers->finished, finished, workers->spins);
    end_turn(workers);
}

void mica__workers_barrier(mica__workers *workers, int worker)
{
    assert(inside_body && worker >= 0 && worker < workers->n);
    (void)worker;
    const uint32_t n = (uint32_t)workers->n;
    if (n == 1)
        return;
    /* Read before arriving: after that the last worker may advance it at any moment. */
    const uint32_t seen = atomic_load_explicit(&workers->generation.value, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&workers->n_arrived, 1, memory_order_acq_rel) + 1 == n) {
        atomic_store_explicit(&workers->n_arrived, 0, memory_order_relaxed);
        advance(&workers->generation);
    } else {
        wait_past(&workers->generation, seen, workers->spins);
    }
}
