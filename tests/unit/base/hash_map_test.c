/* hash_map_test.c - the hash against published values, the map against a plain list.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/hash_map.h"

#include <stdlib.h>

static int64_t active(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active;
}

/* --- hash ------------------------------------------------------------------------------------- */

static void siphash_2_4_gives_the_published_values(void **state)
{
    (void)state;
    /* Aumasson and Bernstein, appendix A: key 00 01 .. 0f, message 00 01 .. 0e; and the first
     * values of the table in their reference distribution (messages of 0, 1, 2 bytes). */
    const uint64_t k0 = 0x0706050403020100u, k1 = 0x0f0e0d0c0b0a0908u;
    uint8_t message[15];
    for (int i = 0; i < 15; i++)
        message[i] = (uint8_t)i;
    assert_true(mica__siphash(message, 15, k0, k1, 2, 4) == 0xa129ca6149be45e5u);
    assert_true(mica__siphash(message, 0, k0, k1, 2, 4) == 0x726fdb47dd0e0e31u);
    assert_true(mica__siphash(message, 1, k0, k1, 2, 4) == 0x74f839c593dc67fdu);
    assert_true(mica__siphash(message, 2, k0, k1, 2, 4) == 0x0d6c8009d9a94f5au);
}

static void hash_gives_the_values_of_another_implementation(void **state)
{
    (void)state;
    /* CPython 3.11, PYTHONHASHSEED=0: hash(bytes((i * 7 + 1) & 255 for i in range(n))) */
    static const struct {
        size_t n;
        uint64_t hash;
    } cases[] = {{1, 0x44bc103b1f8540edu},  {2, 0xb238744ea7a5a1d0u},  {7, 0xb41012aeee05c7d4u},
                 {8, 0xd22d9341176d0728u},  {9, 0x4ec42971d570753bu},  {15, 0x566f711d32f59152u},
                 {16, 0x7e6bfb8bf1d36ac4u}, {63, 0x5c34c6b66e3070ffu}, {64, 0x814eabd66a4299ebu},
                 {100, 0x27a357ab4c25be13u}};
    uint8_t message[101];
    for (int i = 0; i < 101; i++)
        message[i] = (uint8_t)(i * 7 - 6); /* the message starts at [1]: an odd address */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(mica__hash(message + 1, cases[i].n, 0) == cases[i].hash);
    assert_true(mica__hash(message, 5, 1) != mica__hash(message, 5, 2));
    assert_true(mica__hash(NULL, 0, 7) == mica__hash("", 0, 7));
}

/* --- map -------------------------------------------------------------------------------------- */

static void entries_are_found_and_replaced(void **state)
{
    (void)state;
    mica__map *map;
    assert_ok(mica__map_new(MICA_MEMORY_TEXT, MICA__MAP_COPIES, &map));
    int64_t value = 99;
    assert_false(mica__map_find(map, "a", 1, &value));
    assert_int_equal(value, 99);
    char key[3] = "ab";
    assert_ok(mica__map_insert(map, key, 2, 1));
    key[0] = 'x'; /* the map has its own copy */
    assert_true(mica__map_find(map, "ab", 2, &value));
    assert_int_equal(value, 1);
    assert_false(mica__map_find(map, "a", 1, NULL));
    assert_false(mica__map_find(map, "xb", 2, NULL));
    assert_ok(mica__map_insert(map, "ab", 2, -5));
    assert_true(mica__map_find(map, "ab", 2, &value));
    assert_int_equal(value, -5);
    bool added;
    assert_ok(mica__map_insert_new(map, "ab", 2, 7, &added, &value));
    assert_false(added);
    assert_int_equal(value, -5);
    assert_ok(mica__map_insert_new(map, "ab\0c", 4, 7, &added, &value));
    assert_true(added);
    assert_int_equal(value, 7);
    assert_ok(mica__map_insert(map, NULL, 0, 8)); /* the empty key is one too */
    assert_true(mica__map_find(map, "", 0, &value));
    assert_int_equal(value, 8);
    assert_int_equal(mica__map_count(map), 3);
    assert_ok(mica__map_insert(map, "z", 1, 3));
    assert_true(mica__map_find(map, "z", 1, &value));
    assert_int_equal(value, 3);
    mica__map_free(map);
    mica__map_free(NULL);
}

static void borrowed_keys_stay_where_they_are(void **state)
{
    (void)state;
    static const char key[] = "borrowed";
    mica__map *map;
    assert_ok(mica__map_new(MICA_MEMORY_TEXT, MICA__MAP_BORROWS, &map));
    assert_ok(mica__map_insert(map, key, 8, 4));
    int64_t at = 0, value;
    const char *seen;
    size_t n;
    assert_true(mica__map_next(map, &at, &seen, &n, &value));
    assert_ptr_equal(seen, key);
    assert_int_equal(n, 8);
    assert_int_equal(value, 4);
    assert_false(mica__map_next(map, &at, &seen, &n, &value));
    mica__map_free(map);
}

/* A list that does slowly what the map does. */
enum { UNIVERSE = 300 };
typedef struct model {
    int64_t value[UNIVERSE];
    int64_t born[UNIVERSE]; /* 0: not there, else when it was inserted */
    int64_t clock;
} model;

/* Keys of many lengths, some of them prefixes of others. */
static size_t make_key(int i, char key[64])
{
    const size_t n = (size_t)i % 40;
    memset(key, 'k', 64);
    memcpy(key, &i, n < sizeof i ? n : sizeof i);
    if (n < sizeof i) { /* too short to hold i: told apart by a longer tail */
        snprintf(key, 64, "%d", i);
        return strlen(key);
    }
    return n;
}

static void check_against_model(const mica__map *map, const model *m)
{
    int64_t count = 0, last = 0, at = 0, value;
    const char *key;
    size_t n;
    while (mica__map_next(map, &at, &key, &n, &value)) {
        count++;
        int found = -1;
        for (int i = 0; i < UNIVERSE && found < 0; i++) {
            char own[64];
            if (make_key(i, own) == n && !memcmp(own, key, n))
                found = i;
        }
        assert_true(found >= 0 && m->born[found] > last); /* in the order of insertion */
        assert_int_equal(value, m->value[found]);
        last = m->born[found];
    }
    assert_int_equal(mica__map_count(map), count);
    for (int i = 0; i < UNIVERSE; i++) {
        char own[64];
        const size_t length = make_key(i, own);
        assert_int_equal(mica__map_find(map, own, length, &value), m->born[i] != 0);
        if (m->born[i])
            assert_int_equal(value, m->value[i]);
        count -= m->born[i] != 0;
    }
    assert_int_equal(count, 0);
}

static void random_operations_agree_with_a_list(void **state)
{
    (void)state;
    const unsigned seed = 20240229;
    print_message("seed %u\n", seed);
    srand(seed);
    mica__map *map;
    assert_ok(mica__map_new(MICA_MEMORY_TEXT, MICA__MAP_COPIES, &map));
    static model m;
    for (int step = 1; step <= 40000; step++) {
        char key[64];
        const int universe = step / 4000 % 2 ? UNIVERSE : UNIVERSE / 10;
        const int i = rand() % universe;
        const size_t n = make_key(i, key);
        const int64_t value = rand();
        assert_ok(mica__map_insert(map, key, n, value));
        m.value[i] = value;
        if (!m.born[i])
            m.born[i] = ++m.clock;
        if (step % 997 == 0)
            check_against_model(map, &m);
    }
    mica__map_free(map);
}

static void a_million_keys_with_reserved_room_need_no_more_memory(void **state)
{
    (void)state;
    enum { N = 1000000 };
    mica__map *map;
    assert_ok(mica__map_new(MICA_MEMORY_TEXT, MICA__MAP_COPIES, &map));
    assert_ok(mica__map_reserve(map, N, N * 8));
    mica__fault_after(1, true); /* every allocation fails from here on */
    mica_status status = MICA_OK;
    for (int64_t i = 0; i < N && status == MICA_OK; i++)
        status = mica__map_insert(map, &i, sizeof i, -i);
    mica__fault_after(0, false);
    assert_ok(status);
    for (int64_t i = 0, value; i < N; i++)
        assert_true(mica__map_find(map, &i, sizeof i, &value) && value == -i);
    mica__map_free(map);
}

static void a_refused_insertion_changes_nothing(void **state)
{
    (void)state;
    const int64_t before = active();
    for (int64_t n = 1;; n++) {
        assert_true(n < 200);
        mica__map *map = NULL;
        mica_status status;
        int done = 0;
        mica__fault_after(n, false);
        status = mica__map_new(MICA_MEMORY_TEXT, MICA__MAP_COPIES, &map);
        for (; status == MICA_OK && done < 500; done++)
            status = mica__map_insert(map, &done, sizeof done, done);
        mica__fault_after(0, false);
        if (map) {
            if (status != MICA_OK)
                done--;
            assert_int_equal(mica__map_count(map), done);
            for (int i = 0; i < 500; i++)
                assert_int_equal(mica__map_find(map, &i, sizeof i, NULL), i < done);
            assert_ok(mica__map_insert(map, &done, sizeof done, 1)); /* usable afterwards */
        }
        mica__map_free(map);
        assert_int_equal(active(), before);
        if (status == MICA_OK)
            break;
        assert_int_equal(status, MICA_E_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash_2_4_gives_the_published_values),
        cmocka_unit_test(hash_gives_the_values_of_another_implementation),
        cmocka_unit_test(entries_are_found_and_replaced),
        cmocka_unit_test(borrowed_keys_stay_where_they_are),
        cmocka_unit_test(random_operations_agree_with_a_list),
        cmocka_unit_test(a_million_keys_with_reserved_room_need_no_more_memory),
        cmocka_unit_test(a_refused_insertion_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
