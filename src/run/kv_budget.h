/* kv_budget.h - the one byte budget that every KV pool draws from.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_KV_BUDGET_H
#define MICA_RUN_KV_BUDGET_H

#include "base/alloc.h"

/* A budget of `limit` bytes over one reserved range of address space. Nothing of it exists until it
 * is committed; committed pages count against `limit` and against the process-wide limit
 * (MICA_MEMORY_KV). */
typedef struct mica__kv_budget {
    int64_t limit;      /* most bytes committed at once */
    int64_t used;       /* bytes committed now, whole pages */
    int64_t peak;       /* highest `used` since opening */
    int64_t page_bytes; /* of the system */
    uint8_t *base;      /* the reserved range */
    int64_t reserved;   /* its bytes */
    int64_t carved;     /* how much of it ranges own */
} mica__kv_budget;

/* A part of the reserved range. `base` is aligned to 2 MiB. */
typedef struct mica__kv_range {
    mica__kv_budget *budget;
    uint8_t *base;
    int64_t bytes;    /* whole pages */
    int64_t writable; /* bytes from base that the system lets us write */
} mica__kv_range;

/* The address space that a range of `bytes` takes out of the reserve; 0 when it cannot be
 * represented. */
int64_t mica__kv_range_cost(int64_t bytes);

/* Reserves `reserve` bytes of address space for ranges and sets the limit; nothing is committed. On
 * failure the budget is zero and needs no closing. */
mica_status mica__kv_budget_open(mica__kv_budget *budget, int64_t limit, int64_t reserve);

/* Gives the address space back; every range must have released its pages. A zero budget is fine. */
void mica__kv_budget_close(mica__kv_budget *budget);

/* Carves the next range; its cost must be left of the reserve. */
mica_status mica__kv_budget_carve(mica__kv_budget *budget, int64_t bytes, mica__kv_range *range);

/* Commits the whole pages [from, to) (byte offsets in the range, multiples of the page). Refused
 * with MICA_E_MEMORY, with numbers, when the budget or the process-wide limit would be passed. */
mica_status mica__kv_range_commit(mica__kv_range *range, int64_t from, int64_t to);

/* Gives committed pages back to the system; their content is lost. */
void mica__kv_range_release(mica__kv_range *range, int64_t from, int64_t to);

#endif
