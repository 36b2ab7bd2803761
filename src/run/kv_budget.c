/* kv_budget.c - committing and giving back pages of the KV address space.
 *
 * Owns one PROT_NONE reservation. A page is committed by counting it and by making the range
 * writable up to a high-water mark; it is given back by dropping its content and its count. The
 * mark never falls, so that a fragmented pool costs two mappings of the kernel and not thousands.
 * Invariant: `used` is the sum of committed pages of all ranges, never above `limit`, and equals
 * what this budget holds under MICA_MEMORY_KV beyond bookkeeping.
 * SPDX-License-Identifier: MIT
 */
#include "run/kv_budget.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((int64_t)2 << 20)

/* Below this size huge pages would make more resident than was counted, for nothing. */
#define HUGE_PAGES_FROM ((int64_t)64 << 20)

static int64_t round_up(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

int64_t mica__kv_range_cost(int64_t bytes)
{
    if (bytes < 1 || bytes > INT64_MAX - HUGE_PAGE)
        return 0;
    return round_up(bytes, HUGE_PAGE);
}

mica_status mica__kv_budget_open(mica__kv_budget *budget, int64_t limit, int64_t reserve)
{
    memset(budget, 0, sizeof *budget);
    int64_t bytes;
    if (limit < 1 || reserve < 1 || !mica__add_i64(reserve, HUGE_PAGE, &bytes))
        MICA_FAIL(MICA_E_ARGUMENT, "a KV budget of %lld bytes (address space %lld) makes no sense",
                  (long long)limit, (long long)reserve);
    if (mica__fault())
        MICA_FAIL(MICA_E_MEMORY, "no address space for %lld bytes of KV (injected fault)",
                  (long long)bytes);
    void *base =
        mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        MICA_FAIL(MICA_E_MEMORY, "the system refused %lld bytes of address space for KV: %s",
                  (long long)bytes, strerror(errno));
    budget->limit = limit;
    budget->page_bytes = (int64_t)sysconf(_SC_PAGESIZE);
    budget->base = base;
    budget->reserved = bytes;
    const int64_t misaligned = (int64_t)((uintptr_t)base % (uintptr_t)HUGE_PAGE);
    budget->carved = misaligned ? HUGE_PAGE - misaligned : 0;
    return MICA_OK;
}

void mica__kv_budget_close(mica__kv_budget *budget)
{
    if (budget->base)
        munmap(budget->base, (size_t)budget->reserved);
    memset(budget, 0, sizeof *budget);
}

mica_status mica__kv_budget_carve(mica__kv_budget *budget, int64_t bytes, mica__kv_range *range)
{
    const int64_t cost = mica__kv_range_cost(bytes);
    if (cost == 0 || cost > budget->reserved - budget->carved)
        MICA_FAIL(MICA_E_INTERNAL, "a KV range of %lld bytes does not fit into the reserve",
                  (long long)bytes);
    *range = (mica__kv_range){.budget = budget,
                              .base = budget->base + budget->carved,
                              .bytes = round_up(bytes, budget->page_bytes)};
    budget->carved += cost;
    return MICA_OK;
}

/* Raises the writable mark to cover `to`, in huge pages so that it is rarely done. */
static mica_status make_writable(mica__kv_range *range, int64_t to)
{
    if (to <= range->writable)
        return MICA_OK;
    int64_t mark = round_up(to, HUGE_PAGE);
    if (mark > range->bytes)
        mark = range->bytes;
    if (mica__fault())
        MICA_FAIL(MICA_E_MEMORY, "cannot make KV pages writable (injected fault)");
    const size_t more = (size_t)(mark - range->writable);
    if (mprotect(range->base + range->writable, more, PROT_READ | PROT_WRITE) != 0)
        MICA_FAIL(MICA_E_MEMORY, "the system refused %zu bytes of KV pages: %s", more,
                  strerror(errno));
    if (range->budget->limit >= HUGE_PAGES_FROM) /* advice only: refusal changes nothing */
        madvise(range->base + range->writable, more, MADV_HUGEPAGE);
    range->writable = mark;
    return MICA_OK;
}

mica_status mica__kv_range_commit(mica__kv_range *range, int64_t from, int64_t to)
{
    mica__kv_budget *budget = range->budget;
    const int64_t bytes = to - from;
    if (bytes == 0)
        return MICA_OK;
    if (bytes > budget->limit - budget->used)
        MICA_FAIL(MICA_E_MEMORY,
                  "the KV budget of %lld bytes is used up: %lld are in use, %lld more are needed",
                  (long long)budget->limit, (long long)budget->used, (long long)bytes);
    MICA_TRY(mica__memory_take(MICA_MEMORY_KV, bytes));
    const mica_status status = make_writable(range, to);
    if (status != MICA_OK) {
        mica__memory_give(MICA_MEMORY_KV, bytes);
        return status;
    }
    budget->used += bytes;
    if (budget->used > budget->peak)
        budget->peak = budget->used;
    return MICA_OK;
}

void mica__kv_range_release(mica__kv_range *range, int64_t from, int64_t to)
{
    const int64_t bytes = to - from;
    if (bytes == 0)
        return;
    madvise(range->base + from, (size_t)bytes, MADV_DONTNEED);
    mica__memory_give(MICA_MEMORY_KV, bytes);
    range->budget->used -= bytes;
}
