/* alloc_test.c - counting, limits and injected faults of the allocator.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/alloc.h"
#include "base/half.h"

static int64_t held(mica_memory_kind kind)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.by_kind[kind];
}

static void blocks_are_aligned_counted_and_returned(void **state)
{
    (void)state;
    const int64_t before = held(MICA_MEMORY_OTHER);
    for (size_t size = 0; size < 3u << 20; size = size * 3 + 1) {
        char *block = mica__alloc(MICA_MEMORY_OTHER, size);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        memset(block, 0xa5, size);
        assert_int_equal(held(MICA_MEMORY_OTHER) - before, mica__alloc_cost(size));
        mica__free(block);
        assert_int_equal(held(MICA_MEMORY_OTHER), before);
    }
}

static void zeroed_blocks_are_zero_small_and_large(void **state)
{
    (void)state;
    for (size_t size = 1; size < 4u << 20; size = size * 5 + 3) {
        unsigned char *block = mica__alloc_zero(MICA_MEMORY_OTHER, size, 1);
        assert_non_null(block);
        for (size_t i = 0; i < size; i++)
            if (block[i])
                fail_msg("byte %zu of %zu is not zero", i, size);
        mica__free(block);
    }
}

static void limit_refuses_one_byte_less_and_names_need_limit_and_holder(void **state)
{
    (void)state;
    char *holder = mica__alloc(MICA_MEMORY_KV, 10000);
    mica_memory_usage usage;
    mica_memory_read(&usage);
    const int64_t used = usage.active + usage.by_kind[MICA_MEMORY_POOL];
    const int64_t need = mica__alloc_cost(500);
    mica_set_memory_limit(used + need - 1, false);
    assert_null(mica__alloc(MICA_MEMORY_ARRAYS, 500));
    assert_non_null(strstr(mica_last_error(), "arrays needs 576 bytes"));
    assert_non_null(strstr(mica_last_error(), "keys and values 10112"));
    mica_set_memory_limit(used + need, false);
    char *fits = mica__alloc(MICA_MEMORY_ARRAYS, 500);
    assert_non_null(fits);
    mica__free(fits);
    mica_set_memory_limit(0, false);
    mica__free(holder);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    assert_null(mica__alloc(MICA_MEMORY_OTHER, SIZE_MAX));
    assert_null(mica__alloc(MICA_MEMORY_OTHER, SIZE_MAX - 100));
    assert_null(mica__alloc_zero(MICA_MEMORY_OTHER, SIZE_MAX / 2, 3));
}

static void nth_fault_fails_once_or_from_then_on(void **state)
{
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++) {
        mica__fault_after(3, sticky);
        void *a = mica__alloc(MICA_MEMORY_OTHER, 1), *b = mica__alloc(MICA_MEMORY_OTHER, 1);
        assert_true(a && b);
        assert_null(mica__alloc(MICA_MEMORY_OTHER, 1));
        void *d = mica__alloc(MICA_MEMORY_OTHER, 1);
        assert_int_equal(d == NULL, sticky);
        assert_int_equal(mica__fault_hits(), 4);
        mica__fault_after(0, false);
        mica__free(a);
        mica__free(b);
        mica__free(d);
    }
}

static int64_t trim_one(void *owner, int64_t bytes)
{
    (void)bytes;
    void **cached = owner;
    if (!*cached)
        return 0;
    mica__free(*cached);
    *cached = NULL;
    return mica__alloc_cost(4000);
}

static void trimmers_are_asked_before_anything_is_refused(void **state)
{
    (void)state;
    void *cached = mica__alloc(MICA_MEMORY_POOL, 4000);
    assert_ok(mica__memory_add_trimmer(trim_one, &cached));
    mica_memory_usage usage;
    mica_memory_read(&usage);
    mica_set_memory_limit(usage.active + usage.by_kind[MICA_MEMORY_POOL], false);
    void *wanted = mica__alloc(MICA_MEMORY_ARRAYS, 2000);
    assert_non_null(wanted);
    assert_null(cached);
    mica_set_memory_limit(0, false);
    mica__memory_remove_trimmer(trim_one, &cached);
    mica__free(wanted);
}

static void every_half_survives_the_way_to_float_and_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const bool nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
        const uint16_t back = mica__f32_to_f16(mica__f16_to_f32((uint16_t)h));
        if (nan ? (back & 0x7fff) <= 0x7c00 : back != h)
            fail_msg("half %04x came back as %04x", h, back);
    }
}

static void floats_round_to_the_nearest_half_ties_to_even(void **state)
{
    (void)state;
    /* Hand-worked: halves near 1 are 2^-10 apart, subnormals 2^-24. */
    assert_int_equal(mica__f32_to_f16(1.0f + 0x1p-11f), 0x3c00);
    assert_int_equal(mica__f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);
    assert_int_equal(mica__f32_to_f16(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
    assert_int_equal(mica__f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(mica__f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(mica__f32_to_f16(0x1p-25f), 0);
    assert_int_equal(mica__f32_to_f16(3 * 0x1p-25f), 2);
    assert_int_equal(mica__f32_to_f16(-0x1p-24f), 0x8001);
    assert_int_equal(mica__f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
    assert_int_equal(mica__f32_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
    assert_int_equal(mica__f32_to_bf16(3.4e38f), 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_counted_and_returned),
        cmocka_unit_test(zeroed_blocks_are_zero_small_and_large),
        cmocka_unit_test(limit_refuses_one_byte_less_and_names_need_limit_and_holder),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(nth_fault_fails_once_or_from_then_on),
        cmocka_unit_test(trimmers_are_asked_before_anything_is_refused),
        cmocka_unit_test(every_half_survives_the_way_to_float_and_back),
        cmocka_unit_test(floats_round_to_the_nearest_half_ties_to_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
