/* prefix_tree_test.c - what the prefix tree finds, keeps and gives up.
 *
 * Blocks are told apart by their numbers; what must be found follows from the rules in
 * prefix_tree.h by hand.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "run/kv_store.h"

#define PAGE 4096

typedef struct fixture {
    mica__kv_store store;
    int32_t tables[MICA__KV_MAX_POOLS][32];
    int32_t *rows[MICA__KV_MAX_POOLS];
    int32_t tokens[512];
} fixture;

static void begin(fixture *f, const mica__pool_spec *specs, int n_pools, int64_t n_pages)
{
    memset(f, 0, sizeof *f);
    assert_ok(mica__kv_store_open(&f->store, specs, n_pools, n_pages * PAGE, true));
    for (int pool = 0; pool < MICA__KV_MAX_POOLS; pool++)
        f->rows[pool] = f->tables[pool];
    for (int i = 0; i < 512; i++)
        f->tokens[i] = i * 31 % 97;
    memset(f->tables, 0xff, sizeof f->tables);
}

static void end(fixture *f)
{
    mica__kv_store_forget(&f->store);
    for (int pool = 0; pool < f->store.n_pools; pool++)
        assert_int_equal(f->store.pools[pool].n_live, 0);
    assert_int_equal(f->store.tree.n_nodes, 0);
    mica__kv_store_close(&f->store);
}

/* Takes blocks [from, to) in one pool, as a sequence does that computes them. */
static void take(fixture *f, int pool, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        assert_ok(mica__kv_store_take(&f->store, pool, -1, &f->tables[pool][i]));
}

static void drop(fixture *f, int pool, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        if (f->tables[pool][i] >= 0)
            mica__kv_pool_drop(&f->store.pools[pool], f->tables[pool][i]);
        f->tables[pool][i] = -1;
    }
}

static int64_t find(const fixture *f, int64_t n)
{
    return mica__prefix_find(&f->store.tree, f->tokens, n).n_tokens;
}

static const mica__pool_spec full = {MICA__POOL_FULL, 0, PAGE};

static void whole_blocks_are_found_and_partial_ones_are_not(void **state)
{
    (void)state;
    fixture f;
    begin(&f, &full, 1, 20);
    take(&f, 0, 0, 4);
    mica__prefix_insert(&f.store.tree, f.tokens, 60, f.rows, NULL);
    assert_int_equal(f.store.tree.n_nodes, 3);
    assert_int_equal(find(&f, 512), 48);
    assert_int_equal(find(&f, 48), 48);
    assert_int_equal(find(&f, 47), 32);
    assert_int_equal(find(&f, 15), 0);
    f.tokens[20]++;
    assert_int_equal(find(&f, 512), 16);
    drop(&f, 0, 0, 4);
    end(&f);
}

static void sharing_gives_the_same_blocks_in_order(void **state)
{
    (void)state;
    fixture f;
    int32_t own[4];
    begin(&f, &full, 1, 20);
    take(&f, 0, 0, 4);
    memcpy(own, f.tables[0], sizeof own);
    mica__prefix_insert(&f.store.tree, f.tokens, 64, f.rows, NULL);
    drop(&f, 0, 0, 4);
    const mica__prefix_hit hit = mica__prefix_find(&f.store.tree, f.tokens, 50);
    mica__prefix_share(&f.store.tree, &hit, f.rows);
    assert_memory_equal(f.tables[0], own, 3 * sizeof *own);
    assert_int_equal(f.tables[0][3], -1);
    assert_int_equal(f.store.pools[0].references[own[0]], 2);
    assert_int_equal(f.store.pools[0].n_evictable, 1);
    drop(&f, 0, 0, 3);
    end(&f);
}

static void inserting_twice_keeps_one_block_and_hands_it_to_both(void **state)
{
    (void)state;
    fixture f;
    int32_t first[2];
    begin(&f, &full, 1, 20);
    take(&f, 0, 0, 2);
    memcpy(first, f.tables[0], sizeof first);
    mica__prefix_insert(&f.store.tree, f.tokens, 32, f.rows, NULL);
    take(&f, 0, 0, 3); /* another sequence computed the same and a block more */
    mica__prefix_insert(&f.store.tree, f.tokens, 48, f.rows, NULL);
    assert_memory_equal(f.tables[0], first, sizeof first);
    assert_int_equal(f.store.pools[0].n_live, 3);
    assert_int_equal(f.store.pools[0].references[first[0]], 3);
    drop(&f, 0, 0, 3);
    memcpy(f.tables[0], first, sizeof first);
    drop(&f, 0, 0, 2);
    end(&f);
}

static void least_recently_used_leaf_goes_first_and_used_ones_stay(void **state)
{
    (void)state;
    fixture f;
    begin(&f, &full, 1, 6);
    take(&f, 0, 0, 3); /* A: blocks 0 1 2 of the tokens */
    mica__prefix_insert(&f.store.tree, f.tokens, 48, f.rows, NULL);
    drop(&f, 0, 0, 3);
    int32_t other[32];
    memcpy(other, f.tokens, sizeof other);
    other[16]++; /* B: shares the first block, then differs */
    mica__prefix_hit hit = mica__prefix_find(&f.store.tree, other, 32);
    assert_int_equal(hit.n_tokens, 16);
    mica__prefix_share(&f.store.tree, &hit, f.rows);
    take(&f, 0, 1, 2);
    mica__prefix_insert(&f.store.tree, other, 32, f.rows, NULL);
    drop(&f, 0, 0, 2);
    assert_int_equal(f.store.tree.n_nodes, 4);

    assert_true(mica__prefix_evict(&f.store.tree)); /* A's last block is the oldest leaf */
    assert_int_equal(find(&f, 48), 32);
    assert_int_equal(mica__prefix_find(&f.store.tree, other, 32).n_tokens, 32);
    assert_true(mica__prefix_evict(&f.store.tree));
    assert_int_equal(find(&f, 48), 16);
    hit = mica__prefix_find(&f.store.tree, other, 32); /* B is in use now */
    mica__prefix_share(&f.store.tree, &hit, f.rows);
    assert_false(mica__prefix_evict(&f.store.tree));
    drop(&f, 0, 0, 2);
    assert_true(mica__prefix_evict(&f.store.tree));
    assert_true(mica__prefix_evict(&f.store.tree));
    assert_false(mica__prefix_evict(&f.store.tree));
    end(&f);
}

static void taking_evicts_only_as_much_as_it_needs(void **state)
{
    (void)state;
    fixture f;
    begin(&f, &full, 1, 6);
    take(&f, 0, 0, 5);
    mica__prefix_insert(&f.store.tree, f.tokens, 80, f.rows, NULL);
    drop(&f, 0, 0, 5);
    take(&f, 0, 10, 12); /* one is free, one must be evicted */
    assert_int_equal(f.store.tree.n_evicted, 1);
    assert_int_equal(find(&f, 80), 64);
    drop(&f, 0, 10, 12);
    end(&f);
}

static void window_hit_needs_only_the_blocks_in_sight(void **state)
{
    (void)state;
    fixture f;
    const mica__pool_spec specs[] = {full, {MICA__POOL_WINDOW, 20, PAGE}};
    begin(&f, specs, 2, 100);
    take(&f, 0, 0, 6);
    take(&f, 1, 3, 6); /* blocks 0 to 2 passed out of the window before anybody kept them */
    mica__prefix_insert(&f.store.tree, f.tokens, 96, f.rows, NULL);
    /* Position 96 sees [77, 96): blocks 4 and 5. Position 80 sees [61, 80): blocks 3 and 4.
     * Position 64 sees [45, 64): blocks 2 and 3, and 2 is missing. Position 16 sees all before. */
    assert_int_equal(find(&f, 96), 96);
    assert_int_equal(find(&f, 95), 80);
    assert_int_equal(find(&f, 79), 0);
    drop(&f, 0, 0, 6);
    drop(&f, 1, 0, 6);
    const mica__prefix_hit hit = mica__prefix_find(&f.store.tree, f.tokens, 96);
    mica__prefix_share(&f.store.tree, &hit, f.rows);
    for (int i = 0; i < 6; i++) {
        assert_true(f.tables[0][i] >= 0);
        assert_int_equal(f.tables[1][i] >= 0, i >= 4);
    }
    drop(&f, 0, 0, 6);
    drop(&f, 1, 0, 6);
    end(&f);
}

static void missing_window_blocks_are_filled_in_later(void **state)
{
    (void)state;
    fixture f;
    const mica__pool_spec specs[] = {full, {MICA__POOL_WINDOW, 20, PAGE}};
    begin(&f, specs, 2, 100);
    take(&f, 0, 0, 4);
    take(&f, 1, 2, 4);
    mica__prefix_insert(&f.store.tree, f.tokens, 64, f.rows, NULL);
    assert_int_equal(find(&f, 40), 0);
    take(&f, 1, 0, 2);
    mica__prefix_insert(&f.store.tree, f.tokens, 32, f.rows, NULL);
    assert_int_equal(find(&f, 40), 32);
    drop(&f, 0, 0, 4);
    drop(&f, 1, 0, 4);
    end(&f);
}

static void window_blocks_of_a_used_prefix_can_be_evicted(void **state)
{
    (void)state;
    fixture f;
    const mica__pool_spec specs[] = {full, {MICA__POOL_WINDOW, 16, PAGE}};
    begin(&f, specs, 2, 100);
    take(&f, 0, 0, 4);
    take(&f, 1, 0, 4);
    mica__prefix_insert(&f.store.tree, f.tokens, 64, f.rows, NULL);
    drop(&f, 1, 0, 3); /* the sequence goes on, its window has passed */
    assert_true(mica__prefix_evict(&f.store.tree));
    assert_true(mica__prefix_evict(&f.store.tree));
    assert_true(mica__prefix_evict(&f.store.tree));
    assert_false(mica__prefix_evict(&f.store.tree));
    assert_int_equal(f.store.tree.n_nodes, 4);
    assert_int_equal(find(&f, 64), 64);
    assert_int_equal(find(&f, 63), 0);
    drop(&f, 0, 0, 4);
    drop(&f, 1, 0, 4);
    end(&f);
}

static void state_hit_needs_a_checkpoint_where_it_ends(void **state)
{
    (void)state;
    fixture f;
    const mica__pool_spec specs[] = {full, {MICA__POOL_STATE, 0, PAGE}};
    int32_t checkpoint[MICA__KV_MAX_POOLS] = {-1, -1, -1, -1};
    begin(&f, specs, 2, 100);
    take(&f, 0, 0, 4);
    assert_ok(mica__kv_store_take(&f.store, 1, -1, &checkpoint[1]));
    mica__prefix_insert(&f.store.tree, f.tokens, 32, f.rows, checkpoint);
    mica__prefix_insert(&f.store.tree, f.tokens, 64, f.rows, NULL);
    mica__kv_pool_drop(&f.store.pools[1], checkpoint[1]);
    assert_int_equal(find(&f, 64), 32);
    assert_int_equal(find(&f, 31), 0);
    const mica__prefix_hit hit = mica__prefix_find(&f.store.tree, f.tokens, 64);
    assert_int_equal(mica__prefix_state(&hit, 1), checkpoint[1]);
    drop(&f, 0, 0, 4);
    end(&f);
}

static void without_memory_for_nodes_blocks_stay_the_callers(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 8; n++) {
        fixture f;
        begin(&f, &full, 1, 20);
        take(&f, 0, 0, 4);
        mica__fault_after(n, true);
        mica__prefix_insert(&f.store.tree, f.tokens, 64, f.rows, NULL);
        mica__fault_after(0, false);
        assert_int_equal(find(&f, 64), 16 * (n - 1 < 4 ? n - 1 : 4));
        drop(&f, 0, 0, 4);
        end(&f);
    }
}

static void many_prefixes_are_told_apart(void **state)
{
    (void)state;
    fixture f;
    begin(&f, &full, 1, 2000);
    for (int i = 0; i < 500; i++) {
        f.tokens[0] = i;
        take(&f, 0, 0, 2);
        mica__prefix_insert(&f.store.tree, f.tokens, 32, f.rows, NULL);
        f.tables[0][31] = f.tables[0][1];
        drop(&f, 0, 0, 2);
    }
    assert_int_equal(f.store.tree.n_nodes, 1000);
    for (int i = 0; i < 510; i++) {
        f.tokens[0] = i;
        assert_int_equal(find(&f, 32), i < 500 ? 32 : 0);
    }
    f.tables[0][31] = -1;
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_blocks_are_found_and_partial_ones_are_not),
        cmocka_unit_test(sharing_gives_the_same_blocks_in_order),
        cmocka_unit_test(inserting_twice_keeps_one_block_and_hands_it_to_both),
        cmocka_unit_test(least_recently_used_leaf_goes_first_and_used_ones_stay),
        cmocka_unit_test(taking_evicts_only_as_much_as_it_needs),
        cmocka_unit_test(window_hit_needs_only_the_blocks_in_sight),
        cmocka_unit_test(missing_window_blocks_are_filled_in_later),
        cmocka_unit_test(window_blocks_of_a_used_prefix_can_be_evicted),
        cmocka_unit_test(state_hit_needs_a_checkpoint_where_it_ends),
        cmocka_unit_test(without_memory_for_nodes_blocks_stay_the_callers),
        cmocka_unit_test(many_prefixes_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
