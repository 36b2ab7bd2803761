/* heap_sort_test.c - sorting keeps every item and puts them in order.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "io/heap_sort.h"

typedef struct item {
    int32_t key;
    int32_t payload[5];
} item;

static int compare_items(const void *left, const void *right)
{
    const item *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

static void items_come_out_ascending_and_whole(void **state)
{
    (void)state;
    enum { MOST = 300 };
    static item items[MOST];
    uint32_t random = 1;
    for (int n = 0; n <= MOST; n++) {
        int64_t before = 0, after = 0;
        for (int i = 0; i < n; i++) {
            random = random * 1664525u + 1013904223u;
            items[i].key = (int32_t)(random >> 24) - 128; /* many equal ones */
            items[i].payload[4] = items[i].key * 3;
            before += items[i].key;
        }
        mica__heap_sort(items, n, sizeof *items, compare_items);
        for (int i = 0; i < n; i++) {
            assert_true(i == 0 || items[i - 1].key <= items[i].key);
            assert_int_equal(items[i].payload[4], items[i].key * 3);
            after += items[i].key;
        }
        assert_int_equal(before, after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_ascending_and_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
