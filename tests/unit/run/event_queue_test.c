/* event_queue_test.c - events come out in order with their text, whatever memory does.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "run/event_queue.h"

static void add(mica__event_queue *queue, int64_t index, const char *text)
{
    mica__event_record *record = mica__events_add(queue);
    record->event.index = index;
    assert_ok(mica__events_set_text(queue, record, text, strlen(text)));
}

/* Every third event has no text. */
static void name(char text[32], int64_t index)
{
    text[0] = '\0';
    if (index % 3)
        snprintf(text, 32, "text %lld", (long long)index);
}

static void events_come_out_in_order_with_their_text(void **state)
{
    (void)state;
    mica__event_queue queue;
    mica_event event;
    char text[32];
    int64_t added = 0, taken = 0;
    mica__events_open(&queue);
    assert_false(mica__events_take(&queue, &event));
    for (int round = 0; round < 50; round++) {
        assert_ok(mica__events_reserve(&queue, 7));
        for (int i = 0; i < 7; i++, added++) {
            name(text, added);
            add(&queue, added, text);
        }
        for (int i = 0; i < round % 9 && mica__events_take(&queue, &event); i++, taken++) {
            name(text, taken);
            assert_int_equal(event.index, taken);
            assert_string_equal(event.text, text);
            assert_int_equal(event.n_text, strlen(text));
            assert_string_equal(event.message, "");
            assert_int_equal(event.token, -1);
        }
    }
    while (mica__events_take(&queue, &event))
        assert_int_equal(event.index, taken++);
    assert_int_equal(taken, added);
    mica__events_close(&queue);
}

static void text_is_forgotten_once_all_events_were_taken(void **state)
{
    (void)state;
    mica__event_queue queue;
    mica_event event;
    mica__events_open(&queue);
    for (int round = 0; round < 3; round++) {
        assert_ok(mica__events_reserve(&queue, 1));
        assert_int_equal(queue.arena.length, 0);
        add(&queue, 1, "twelve bytes");
        assert_int_equal(queue.arena.length, 13);
        assert_true(mica__events_take(&queue, &event));
        assert_string_equal(event.text, "twelve bytes");
    }
    mica__events_close(&queue);
}

static void text_may_hold_zero_bytes(void **state)
{
    (void)state;
    mica__event_queue queue;
    mica_event event;
    mica__events_open(&queue);
    assert_ok(mica__events_reserve(&queue, 1));
    mica__event_record *record = mica__events_add(&queue);
    assert_ok(mica__events_set_text(&queue, record, "a\0b", 3));
    assert_ok(mica__events_set_message(&queue, record, "a message"));
    assert_true(mica__events_take(&queue, &event));
    assert_int_equal(event.n_text, 3);
    assert_memory_equal(event.text, "a\0b\0", 4);
    assert_string_equal(event.message, "a message");
    mica__events_close(&queue);
}

static void refused_text_is_empty_and_later_text_is_whole(void **state)
{
    (void)state;
    mica_memory_usage before, after;
    mica_memory_read(&before);
    for (int64_t n = 1; n < 5; n++) {
        mica__event_queue queue;
        mica_event event;
        char large[3000];
        memset(large, 'x', sizeof large);
        mica__events_open(&queue);
        assert_ok(mica__events_reserve(&queue, 3));
        add(&queue, 0, "before");
        mica__event_record *record = mica__events_add(&queue);
        mica__fault_after(n, false);
        const mica_status status = mica__events_set_text(&queue, record, large, sizeof large);
        mica__fault_after(0, false);
        assert_int_equal(status, n == 1 ? MICA_E_MEMORY : MICA_OK);
        add(&queue, 2, "after");
        assert_true(mica__events_take(&queue, &event));
        assert_string_equal(event.text, "before");
        assert_true(mica__events_take(&queue, &event));
        assert_int_equal(event.n_text, n == 1 ? 0 : sizeof large);
        assert_int_equal(strlen(event.text), event.n_text);
        assert_true(mica__events_take(&queue, &event));
        assert_string_equal(event.text, "after");
        mica__events_close(&queue);
    }
    mica_memory_read(&after);
    assert_int_equal(before.active, after.active);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_out_in_order_with_their_text),
        cmocka_unit_test(text_is_forgotten_once_all_events_were_taken),
        cmocka_unit_test(text_may_hold_zero_bytes),
        cmocka_unit_test(refused_text_is_empty_and_later_text_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
