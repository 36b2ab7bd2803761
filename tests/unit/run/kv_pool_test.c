/* kv_pool_test.c - the KV budget and the pools that draw from it.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include "run/kv_store.h"

#define PAGE 4096

static int64_t counted(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.by_kind[MICA_MEMORY_KV];
}

/* A store with one full pool. */
static void open_one(mica__kv_store *store, int64_t block_bytes, int64_t limit)
{
    const mica__pool_spec spec = {MICA__POOL_FULL, 0, block_bytes};
    assert_ok(mica__kv_store_open(store, &spec, 1, limit, true));
}

static void nothing_is_committed_before_a_block_is_taken(void **state)
{
    (void)state;
    mica__kv_store store;
    const int64_t before = counted();
    open_one(&store, 10000, (int64_t)1 << 40); /* a terabyte of address space */
    assert_int_equal(store.budget.used, 0);
    assert_true(counted() - before < 10000);
    int32_t block;
    assert_ok(mica__kv_pool_take(&store.pools[0], -1, &block));
    assert_int_equal(store.budget.used, 3 * PAGE);
    memset(mica__kv_pool_block(&store.pools[0], block), 0xa5, 10000);
    mica__kv_pool_drop(&store.pools[0], block);
    assert_int_equal(store.budget.used, 0);
    mica__kv_store_close(&store);
    assert_int_equal(counted(), before);
}

static void neighbours_share_pages_and_pages_go_with_the_last(void **state)
{
    (void)state;
    mica__kv_store store;
    int32_t blocks[8];
    open_one(&store, 1000, 1 << 20);
    for (int i = 0; i < 8; i++)
        assert_ok(mica__kv_pool_take(&store.pools[0], i ? blocks[i - 1] : -1, &blocks[i]));
    assert_int_equal(store.budget.used, 2 * PAGE); /* 8000 bytes */
    for (int i = 0; i < 8; i++)
        memset(mica__kv_pool_block(&store.pools[0], blocks[i]), i + 1, 1000);
    for (int i = 0; i < 4; i++)
        mica__kv_pool_drop(&store.pools[0], blocks[i]);
    assert_int_equal(store.budget.used, 2 * PAGE); /* block 4 begins on the first page */
    for (int i = 4; i < 8; i++) {
        const uint8_t *bytes = mica__kv_pool_block(&store.pools[0], blocks[i]);
        assert_true(bytes[0] == i + 1 && bytes[999] == i + 1);
    }
    mica__kv_pool_drop(&store.pools[0], blocks[4]);
    assert_int_equal(store.budget.used, PAGE);
    for (int i = 5; i < 8; i++)
        mica__kv_pool_drop(&store.pools[0], blocks[i]);
    assert_int_equal(store.budget.used, 0);
    mica__kv_store_close(&store);
}

static void budget_refuses_one_page_too_many_with_the_numbers(void **state)
{
    (void)state;
    mica__kv_store store;
    int32_t blocks[4];
    open_one(&store, 2 * PAGE, 7 * PAGE);
    for (int i = 0; i < 3; i++)
        assert_ok(mica__kv_pool_take(&store.pools[0], -1, &blocks[i]));
    assert_status(mica__kv_pool_take(&store.pools[0], -1, &blocks[3]), MICA_E_MEMORY);
    assert_non_null(strstr(mica_last_error(), "28672"));
    mica__kv_pool_drop(&store.pools[0], blocks[1]);
    assert_ok(mica__kv_pool_take(&store.pools[0], -1, &blocks[1]));
    mica__kv_store_close(&store);
}

static void pools_share_one_budget_without_a_split(void **state)
{
    (void)state;
    mica__kv_store store;
    const mica__pool_spec specs[] = {{MICA__POOL_FULL, 0, PAGE},
                                     {MICA__POOL_WINDOW, 64, 2 * PAGE},
                                     {MICA__POOL_STATE, 0, 5 * PAGE}};
    int32_t full[20], window[10], slot;
    assert_ok(mica__kv_store_open(&store, specs, 3, 20 * PAGE, true));
    for (int i = 0; i < 20; i++) /* each pool can have it all */
        assert_ok(mica__kv_pool_take(&store.pools[0], -1, &full[i]));
    assert_status(mica__kv_pool_take(&store.pools[1], -1, &window[0]), MICA_E_MEMORY);
    for (int i = 0; i < 20; i++)
        mica__kv_pool_drop(&store.pools[0], full[i]);
    for (int i = 0; i < 7; i++)
        assert_ok(mica__kv_pool_take(&store.pools[1], -1, &window[i]));
    assert_ok(mica__kv_pool_take(&store.pools[2], -1, &slot));
    assert_ok(mica__kv_pool_take(&store.pools[0], -1, &full[0]));
    assert_status(mica__kv_pool_take(&store.pools[0], -1, &full[1]), MICA_E_MEMORY);
    assert_int_equal(store.budget.used, 20 * PAGE);
    mica__kv_store_close(&store);
}

static void sequences_that_grow_together_get_neighbouring_blocks(void **state)
{
    (void)state;
    mica__kv_store store;
    int32_t last[3] = {-1, -1, -1};
    int neighbours = 0;
    open_one(&store, PAGE, 1000 * PAGE);
    for (int i = 0; i < 64; i++)
        for (int s = 0; s < 3; s++) {
            int32_t block;
            assert_ok(mica__kv_pool_take(&store.pools[0], last[s], &block));
            neighbours += block == last[s] + 1;
            last[s] = block;
        }
    assert_true(neighbours >= 64 * 3 * 7 / 8);
    mica__kv_store_close(&store);
}

static void references_and_evictable_blocks_are_counted(void **state)
{
    (void)state;
    mica__kv_store store;
    int32_t block;
    open_one(&store, PAGE, 10 * PAGE);
    mica__kv_pool *pool = &store.pools[0];
    assert_ok(mica__kv_pool_take(pool, -1, &block));
    mica__kv_pool_keep(pool, block); /* the tree beside the sequence */
    assert_int_equal(pool->n_evictable, 0);
    mica__kv_pool_drop(pool, block);
    assert_int_equal(pool->n_evictable, 1);
    assert_true(mica__kv_pool_is_evictable(pool, block));
    mica__kv_pool_share(pool, block);
    assert_int_equal(pool->n_evictable, 0);
    mica__kv_pool_unkeep(pool, block);
    assert_int_equal(pool->n_live, 1);
    mica__kv_pool_drop(pool, block);
    assert_int_equal(pool->n_live, 0);
    mica__kv_store_close(&store);
}

static void random_takes_and_drops_keep_content_and_count(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 100, 1000, 4095, 4096, 4097, 10000, 8192};
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        mica__kv_store store;
        int32_t held[40];
        int n = 0;
        uint32_t random = 99;
        const int64_t before = counted();
        open_one(&store, sizes[size], 30 * PAGE);
        mica__kv_pool *pool = &store.pools[0];
        for (int round = 0; round < 3000; round++) {
            random = random * 1664525u + 1013904223u;
            if (random >> 31 && n < 40) {
                if (mica__kv_pool_take(pool, n ? held[n - 1] : -1, &held[n]) == MICA_OK) {
                    memset(mica__kv_pool_block(pool, held[n]), held[n] & 0xff, sizes[size]);
                    n++;
                }
            } else if (n > 0) {
                const int which = (int)(random >> 8) % n;
                const uint8_t *bytes = mica__kv_pool_block(pool, held[which]);
                for (int64_t i = 0; i < sizes[size]; i++)
                    assert_int_equal(bytes[i], held[which] & 0xff);
                mica__kv_pool_drop(pool, held[which]);
                held[which] = held[--n];
            }
            bool pages[64] = {false}; /* the pages that live blocks overlap, the slow way */
            int64_t used = 0;
            for (int i = 0; i < n; i++)
                for (int64_t p = held[i] * sizes[size] / PAGE;
                     p <= ((held[i] + 1) * sizes[size] - 1) / PAGE; p++)
                    pages[p] = true;
            for (int p = 0; p < 64; p++)
                used += pages[p] * PAGE;
            assert_int_equal(store.budget.used, used);
            assert_int_equal(pool->n_live, n);
        }
        mica__kv_store_close(&store);
        assert_int_equal(counted(), before);
    }
}

static void budgets_and_pools_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    mica__kv_store store;
    mica__pool_spec spec = {MICA__POOL_FULL, 0, PAGE};
    assert_status(mica__kv_store_open(&store, &spec, 1, PAGE - 1, true), MICA_E_MEMORY);
    assert_non_null(strstr(mica_last_error(), "4095"));
    assert_status(mica__kv_store_open(&store, &spec, 1, 0, true), MICA_E_MEMORY);
    assert_status(mica__kv_store_open(&store, &spec, 5, PAGE, true), MICA_E_ARGUMENT);
    spec.block_bytes = INT64_MAX / 2;
    assert_status(mica__kv_store_open(&store, &spec, 1, INT64_MAX, true), MICA_E_ARGUMENT);
    spec.block_bytes = (int64_t)1 << 52; /* more than there are addresses */
    assert_status(mica__kv_store_open(&store, &spec, 1, (int64_t)1 << 52, true), MICA_E_MEMORY);
    spec.block_bytes = 0;
    assert_status(mica__kv_store_open(&store, &spec, 1, PAGE, true), MICA_E_ARGUMENT);
    spec = (mica__pool_spec){MICA__POOL_WINDOW, 0, PAGE};
    assert_status(mica__kv_store_open(&store, &spec, 1, PAGE, true), MICA_E_ARGUMENT);
    spec = (mica__pool_spec){(mica__pool_kind)9, 0, PAGE};
    assert_status(mica__kv_store_open(&store, &spec, 1, PAGE, true), MICA_E_ARGUMENT);
}

static void failing_commits_change_nothing(void **state)
{
    (void)state;
    const int64_t before = counted();
    for (int64_t n = 1;; n++) {
        mica__kv_store store;
        const mica__pool_spec spec = {MICA__POOL_FULL, 0, 3000};
        int32_t block;
        mica__fault_after(n, false);
        mica_status status = mica__kv_store_open(&store, &spec, 1, 1 << 20, true);
        if (status == MICA_OK) {
            status = mica__kv_pool_take(&store.pools[0], -1, &block);
            mica__fault_after(0, false);
            assert_int_equal(store.pools[0].n_live, status == MICA_OK);
            assert_int_equal(store.budget.used, status == MICA_OK ? PAGE : 0);
            if (status != MICA_OK) /* and works the next time */
                assert_ok(mica__kv_pool_take(&store.pools[0], -1, &block));
            mica__kv_store_close(&store);
        }
        mica__fault_after(0, false);
        assert_int_equal(counted(), before);
        if (status == MICA_OK)
            break;
        assert_int_equal(status, MICA_E_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_committed_before_a_block_is_taken),
        cmocka_unit_test(neighbours_share_pages_and_pages_go_with_the_last),
        cmocka_unit_test(budget_refuses_one_page_too_many_with_the_numbers),
        cmocka_unit_test(pools_share_one_budget_without_a_split),
        cmocka_unit_test(sequences_that_grow_together_get_neighbouring_blocks),
        cmocka_unit_test(references_and_evictable_blocks_are_counted),
        cmocka_unit_test(random_takes_and_drops_keep_content_and_count),
        cmocka_unit_test(budgets_and_pools_that_make_no_sense_are_refused),
        cmocka_unit_test(failing_commits_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
