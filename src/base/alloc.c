/* alloc.c - counted allocation under a hard limit.
 *
 * A block is [header, 64 bytes][payload]; the header holds the counted size and the kind, so that
 * freeing needs neither. Blocks from LARGE bytes on come from mmap (given back at once, huge pages
 * asked for), smaller ones from the C library. The counters are atomics; taking bytes is one
 * compare-and-swap loop on the total, so the limit holds under any number of threads.
 * SPDX-License-Identifier: MIT
 */
#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEADER_BYTES 64
#define LARGE        ((size_t)1 << 20)
#define PAGE         ((size_t)4096)
#define MAGIC        0x6d696361u
#define MAX_TRIMMERS 8

typedef struct header {
    size_t counted; /* bytes taken from the system and counted, this header included */
    size_t payload; /* bytes asked for */
    uint32_t kind;
    uint32_t magic;
} header;

static _Atomic int64_t total; /* active + pool */
static _Atomic int64_t by_kind[MICA_MEMORY_N_KINDS];
static _Atomic int64_t peak;
static _Atomic int64_t mapped;
static _Atomic int64_t limit = INT64_MAX;
static _Atomic bool limit_covers_mapped;

static _Atomic int64_t fault_countdown;
static _Atomic int64_t fault_hits;
static _Atomic bool fault_sticky;

static pthread_mutex_t trimmers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    mica__trimmer trim;
    void *owner;
} trimmers[MAX_TRIMMERS];

/* --- fault injection -------------------------------------------------------------------------- */

void mica__fault_after(int64_t n, bool sticky)
{
    atomic_store(&fault_sticky, sticky);
    atomic_store(&fault_hits, 0);
    atomic_store(&fault_countdown, n);
}

int64_t mica__fault_hits(void)
{
    return atomic_load(&fault_hits);
}

bool mica__fault(void)
{
    atomic_fetch_add_explicit(&fault_hits, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fault_countdown, memory_order_relaxed) == 0)
        return false;
    const int64_t left = atomic_fetch_sub(&fault_countdown, 1);
    if (left > 1)
        return false;
    if (left == 1) {
        /* 0 means off: a sticky fault goes on through negative values instead. */
        if (atomic_load(&fault_sticky))
            atomic_store(&fault_countdown, -1);
        return true;
    }
    return left < 0;
}

/* --- counters and the limit ------------------------------------------------------------------- */

const char *mica_memory_kind_name(mica_memory_kind kind)
{
    switch (kind) {
#define X(name, text)                                                                              \
    case name:                                                                                     \
        return text;
        MICA_MEMORY_KINDS(X)
#undef X
    case MICA_MEMORY_N_KINDS:
        break;
    }
    return "?";
}

void mica_memory_read(mica_memory_usage *usage)
{
    for (int i = 0; i < MICA_MEMORY_N_KINDS; i++)
        usage->by_kind[i] = atomic_load(&by_kind[i]);
    usage->active = atomic_load(&total) - usage->by_kind[MICA_MEMORY_POOL];
    usage->peak = atomic_load(&peak);
    usage->limit = atomic_load(&limit);
    usage->mapped = atomic_load(&mapped);
    usage->mapped_in_limit = atomic_load(&limit_covers_mapped);
}

void mica_set_memory_limit(int64_t bytes, bool mapped_in_limit)
{
    atomic_store(&limit_covers_mapped, mapped_in_limit);
    atomic_store(&limit, bytes > 0 ? bytes : INT64_MAX);
}

static int64_t active_now(void)
{
    return atomic_load(&total) - atomic_load(&by_kind[MICA_MEMORY_POOL]);
}

static void raise_peak(void)
{
    const int64_t now = active_now();
    int64_t seen = atomic_load(&peak);
    while (seen < now && !atomic_compare_exchange_weak(&peak, &seen, now))
        ;
}

void mica_memory_reset_peak(void)
{
    atomic_store(&peak, active_now());
}

static int64_t covered_mapped(void)
{
    return atomic_load(&limit_covers_mapped) ? atomic_load(&mapped) : 0;
}

/* How many bytes are missing for `bytes` more; <= 0 when they fit. */
static int64_t missing_for(int64_t bytes)
{
    const int64_t max = atomic_load(&limit);
    if (max == INT64_MAX)
        return 0;
    return atomic_load(&total) + covered_mapped() - max + bytes;
}

static void trim(int64_t bytes)
{
    pthread_mutex_lock(&trimmers_lock);
    for (int i = 0; i < MAX_TRIMMERS && bytes > 0; i++)
        if (trimmers[i].trim)
            bytes -= trimmers[i].trim(trimmers[i].owner, bytes);
    pthread_mutex_unlock(&trimmers_lock);
}

/* What a person calls it, to stand behind "holding". */
static const char *words_for(mica_memory_kind kind)
{
    static const char *const words[MICA_MEMORY_N_KINDS] = {
        [MICA_MEMORY_ARRAYS] = "arrays",
        [MICA_MEMORY_WORKSPACE] = "what a step computes",
        [MICA_MEMORY_SCRATCH] = "the threads' scratch memory",
        [MICA_MEMORY_POOL] = "buffers for reuse",
        [MICA_MEMORY_GRAPH] = "the graph of operations",
        [MICA_MEMORY_PROGRAMS] = "compiled programs",
        [MICA_MEMORY_WEIGHTS] = "weights",
        [MICA_MEMORY_KV] = "keys and values",
        [MICA_MEMORY_TEXT] = "the tokenizer and text",
        [MICA_MEMORY_THREADS] = "the threads' stacks",
        [MICA_MEMORY_OTHER] = "tables and requests",
    };
    return words[kind];
}

static mica_status refuse(const char *what, int64_t bytes)
{
    char holders[512];
    size_t at = 0;
    holders[0] = '\0';
    for (int i = 0; i < MICA_MEMORY_N_KINDS; i++) {
        const int64_t held = atomic_load(&by_kind[i]);
        if (held > 0 && at < sizeof holders)
            at += (size_t)snprintf(holders + at, sizeof holders - at, "%s%s %lld", at ? ", " : "",
                                   words_for((mica_memory_kind)i), (long long)held);
    }
    const int64_t files = covered_mapped();
    if (files > 0 && at < sizeof holders)
        snprintf(holders + at, sizeof holders - at, "%smapped files %lld", at ? ", " : "",
                 (long long)files);
    return mica__fail(MICA_E_MEMORY,
                      "%s needs %lld bytes, the memory limit is %lld, in use are %lld (%s)", what,
                      (long long)bytes, (long long)atomic_load(&limit),
                      (long long)(atomic_load(&total) + files), holders[0] ? holders : "nothing");
}

mica_status mica__memory_check(const char *what, int64_t bytes)
{
    int64_t missing = missing_for(bytes);
    if (missing > 0) {
        trim(missing);
        missing = missing_for(bytes);
    }
    return missing > 0 ? refuse(what, bytes) : MICA_OK;
}

mica_status mica__memory_take(mica_memory_kind kind, int64_t bytes)
{
    if (mica__fault())
        MICA_FAIL(MICA_E_MEMORY, "no memory for %lld bytes of %s (injected fault)",
                  (long long)bytes, mica_memory_kind_name(kind));
    for (int round = 0;; round++) {
        int64_t before = atomic_load(&total);
        for (;;) {
            const int64_t max = atomic_load(&limit);
            if (max != INT64_MAX &&
                (before > max - bytes || before + bytes + covered_mapped() > max))
                break;
            if (atomic_compare_exchange_weak(&total, &before, before + bytes)) {
                atomic_fetch_add(&by_kind[kind], bytes);
                raise_peak();
                return MICA_OK;
            }
        }
        if (round > 0) {
            char what[64];
            snprintf(what, sizeof what, "holding %s", words_for(kind));
            return refuse(what, bytes);
        }
        trim(missing_for(bytes));
    }
}

void mica__memory_give(mica_memory_kind kind, int64_t bytes)
{
    atomic_fetch_sub(&by_kind[kind], bytes);
    atomic_fetch_sub(&total, bytes);
}

mica_status mica__memory_map(int64_t bytes)
{
    if (mica__fault())
        MICA_FAIL(MICA_E_MEMORY, "cannot map %lld bytes (injected fault)", (long long)bytes);
    if (atomic_load(&limit_covers_mapped))
        MICA_TRY(mica__memory_check("mapping the file", bytes));
    atomic_fetch_add(&mapped, bytes);
    return MICA_OK;
}

void mica__memory_unmap(int64_t bytes)
{
    atomic_fetch_sub(&mapped, bytes);
}

mica_status mica__memory_add_trimmer(mica__trimmer function, void *owner)
{
    mica_status status = MICA_E_INTERNAL;
    pthread_mutex_lock(&trimmers_lock);
    for (int i = 0; i < MAX_TRIMMERS; i++)
        if (!trimmers[i].trim) {
            trimmers[i].trim = function;
            trimmers[i].owner = owner;
            status = MICA_OK;
            break;
        }
    pthread_mutex_unlock(&trimmers_lock);
    return status == MICA_OK ? status
                             : mica__fail(status, "more than %d memory trimmers", MAX_TRIMMERS);
}

void mica__memory_remove_trimmer(mica__trimmer function, void *owner)
{
    pthread_mutex_lock(&trimmers_lock);
    for (int i = 0; i < MAX_TRIMMERS; i++)
        if (trimmers[i].trim == function && trimmers[i].owner == owner)
            trimmers[i].trim = NULL;
    pthread_mutex_unlock(&trimmers_lock);
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* Bytes taken from the system for a payload; 0 when the sum overflows. */
static size_t block_bytes(size_t payload)
{
    size_t bytes;
    if (!mica__add(payload, HEADER_BYTES, &bytes) || bytes > (size_t)INT64_MAX - PAGE)
        return 0;
    const size_t unit = bytes >= LARGE ? PAGE : 64;
    return (bytes + unit - 1) / unit * unit;
}

int64_t mica__alloc_cost(size_t bytes)
{
    return (int64_t)block_bytes(bytes);
}

static void *system_take(size_t bytes)
{
    if (bytes < LARGE)
        return aligned_alloc(64, bytes);
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    madvise(block, bytes, MADV_HUGEPAGE); /* advice only: refusal changes nothing */
    return block;
}

static void system_give(void *block, size_t bytes)
{
    if (bytes < LARGE)
        free(block);
    else
        munmap(block, bytes);
}

void *mica__alloc(mica_memory_kind kind, size_t bytes)
{
    const size_t counted = block_bytes(bytes);
    if (!counted) {
        mica__fail(MICA_E_MEMORY, "an allocation of %zu bytes cannot be represented", bytes);
        return NULL;
    }
    if (mica__memory_take(kind, (int64_t)counted) != MICA_OK)
        return NULL;
    header *block = system_take(counted);
    if (!block) {
        mica__memory_give(kind, (int64_t)counted);
        mica__fail(MICA_E_MEMORY, "the system refused %zu bytes for %s", counted,
                   mica_memory_kind_name(kind));
        return NULL;
    }
    *block = (header){.counted = counted, .payload = bytes, .kind = (uint32_t)kind, .magic = MAGIC};
    return (char *)block + HEADER_BYTES;
}

void *mica__alloc_zero(mica_memory_kind kind, size_t count, size_t size)
{
    size_t bytes;
    if (!mica__mul(count, size, &bytes)) {
        mica__fail(MICA_E_MEMORY, "an allocation of %zu x %zu bytes cannot be represented", count,
                   size);
        return NULL;
    }
    void *memory = mica__alloc(kind, bytes);
    if (memory && block_bytes(bytes) < LARGE)
        memset(memory, 0, bytes); /* larger blocks come zeroed from mmap */
    return memory;
}

static header *header_of(void *memory)
{
    header *block = (header *)(void *)((char *)memory - HEADER_BYTES);
    if (block->magic != MAGIC)
        abort(); /* our own bug: not a block of this allocator, or freed twice */
    return block;
}

void mica__set_kind(void *memory, mica_memory_kind kind)
{
    header *block = header_of(memory);
    /* The new kind is raised last, so that a block in transit is missing from a kind, never counted
     * twice, and the peak is taken when all is settled. */
    atomic_fetch_sub(&by_kind[block->kind], (int64_t)block->counted);
    block->kind = (uint32_t)kind;
    atomic_fetch_add(&by_kind[kind], (int64_t)block->counted);
    raise_peak();
}

void *mica__realloc(mica_memory_kind kind, void *memory, size_t bytes)
{
    if (!memory)
        return mica__alloc(kind, bytes);
    header *old = header_of(memory);
    if (block_bytes(bytes) == old->counted) {
        old->payload = bytes;
        return memory;
    }
    void *grown = mica__alloc(kind, bytes);
    if (!grown)
        return NULL;
    memcpy(grown, memory, old->payload < bytes ? old->payload : bytes);
    mica__free(memory);
    return grown;
}

void mica__free(void *memory)
{
    if (!memory)
        return;
    header *block = header_of(memory);
    const size_t counted = block->counted;
    block->magic = 0;
    mica__memory_give((mica_memory_kind)block->kind, (int64_t)counted);
    system_give(block, counted);
}

char *mica__strndup(mica_memory_kind kind, const char *text, size_t n)
{
    char *copy = mica__alloc(kind, n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

mica_status mica__grow(mica_memory_kind kind, void **items, size_t size, int64_t need,
                       int64_t *capacity)
{
    if (need <= *capacity)
        return MICA_OK;
    int64_t wanted = *capacity > 4 ? *capacity : 4;
    while (wanted < need)
        if (!mica__mul_i64(wanted, 2, &wanted))
            MICA_FAIL(MICA_E_MEMORY, "a list of %lld items cannot be represented", (long long)need);
    size_t bytes;
    if (!mica__mul((size_t)wanted, size, &bytes))
        MICA_FAIL(MICA_E_MEMORY, "a list of %lld items cannot be represented", (long long)need);
    void *grown = mica__realloc(kind, *items, bytes);
    if (!grown)
        return MICA_E_MEMORY;
    *items = grown;
    *capacity = wanted;
    return MICA_OK;
}
