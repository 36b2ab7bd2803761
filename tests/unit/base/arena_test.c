/* arena_test.c - pieces, marks and what goes back.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/arena.h"

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.by_kind[MICA_MEMORY_GRAPH];
}

static void pieces_are_aligned_apart_and_freed_at_once(void **state)
{
    (void)state;
    const int64_t before = held();
    mica__arena arena = {.kind = MICA_MEMORY_GRAPH};
    enum { N = 2000 };
    static unsigned char *pieces[N];
    static size_t sizes[N];
    for (int i = 0; i < N; i++) {
        sizes[i] = (size_t)(i * 37 % 500) + (i % 400 == 399 ? 100000 : 0);
        const size_t align = (size_t)1 << (i % 7);
        pieces[i] = mica__arena_alloc(&arena, sizes[i], align);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % align, 0);
        memset(pieces[i], i & 255, sizes[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            if (pieces[i][k] != (i & 255))
                fail_msg("byte %zu of piece %d was overwritten", k, i);
    assert_true(held() > before);
    mica__arena_free(&arena);
    assert_int_equal(held(), before);
    assert_non_null(mica__arena_alloc(&arena, 10, 8)); /* usable again */
    mica__arena_free(&arena);
    mica__arena_free(&arena);
}

static void reset_reuses_memory_and_keeps_what_came_before(void **state)
{
    (void)state;
    const int64_t before = held();
    mica__arena arena = {.kind = MICA_MEMORY_GRAPH};
    const mica__arena_mark start = mica__arena_mark_here(&arena);
    char *kept = mica__arena_strndup(&arena, "kept!", 4);
    const mica__arena_mark mark = mica__arena_mark_here(&arena);
    int64_t after_first = 0;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 300; i++)
            memset(mica__arena_alloc(&arena, 1000, 16), 0xee, 1000);
        memset(mica__arena_alloc(&arena, 3000000, 16), 0xee, 3000000); /* larger than a chunk */
        if (round == 0)
            after_first = held();
        assert_int_equal(held(), after_first);
        assert_string_equal(kept, "kept");
        mica__arena_reset(&arena, mark);
    }
    mica__arena_trim(&arena);
    assert_true(held() - before < 8192);
    assert_string_equal(kept, "kept");
    mica__arena_reset(&arena, start);
    mica__arena_trim(&arena);
    assert_int_equal(held(), before);
    mica__arena_free(&arena);
}

static void zeroed_pieces_are_zero_after_reuse(void **state)
{
    (void)state;
    mica__arena arena = {.kind = MICA_MEMORY_GRAPH};
    memset(mica__arena_alloc(&arena, 3000, 1), 0xff, 3000);
    mica__arena_reset(&arena, (mica__arena_mark){0});
    const unsigned char *zero = mica__arena_zero(&arena, 100, 30);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(zero[i], 0);
    mica__arena_free(&arena);
}

static void impossible_sizes_and_refusals_leave_the_arena_usable(void **state)
{
    (void)state;
    const int64_t before = held();
    mica__arena arena = {.kind = MICA_MEMORY_GRAPH};
    assert_null(mica__arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(mica__arena_alloc(&arena, SIZE_MAX - 100, 64));
    assert_null(mica__arena_zero(&arena, SIZE_MAX / 2, 3));
    assert_null(mica__arena_strndup(&arena, "", SIZE_MAX - 1));
    for (int64_t n = 1; n < 12; n++) {
        mica__fault_after(n, false);
        int refused = 0;
        for (int i = 0; i < 200; i++) {
            char *piece = mica__arena_alloc(&arena, 1000, 8);
            refused += !piece;
            if (piece)
                memset(piece, 1, 1000);
        }
        assert_int_equal(refused, mica__fault_hits() >= n);
        mica__fault_after(0, false);
        mica__arena_free(&arena);
        assert_int_equal(held(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_apart_and_freed_at_once),
        cmocka_unit_test(reset_reuses_memory_and_keeps_what_came_before),
        cmocka_unit_test(zeroed_pieces_are_zero_after_reuse),
        cmocka_unit_test(impossible_sizes_and_refusals_leave_the_arena_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
