/* log_test.c - thresholds, silence, nested and concurrent messages.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/log.h"

#include <pthread.h>

typedef struct heard {
    int n;
    int inside; /* plain: callbacks never overlap */
    mica_log_level level;
    char last[2048];
} heard;

static void listen(void *user, mica_log_level level, const char *message)
{
    heard *h = user;
    assert_int_equal(h->inside++, 0);
    h->n++;
    h->level = level;
    snprintf(h->last, sizeof h->last, "%s", message);
    mica__log(MICA_LOG_WARNING, "from inside"); /* dropped, and no deadlock */
    h->inside--;
}

static void nothing_is_said_unless_asked_for(void **state)
{
    (void)state;
    heard h = {0};
    mica__log(MICA_LOG_WARNING, "nobody listens");
    assert_false(mica__log_wanted(MICA_LOG_WARNING));
    mica__log_set(MICA_LOG_INFO, listen, &h);
    mica__log(MICA_LOG_DEBUG, "too small");
    assert_int_equal(h.n, 0);
    mica__log(MICA_LOG_INFO, "%d threads", 3);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.level, MICA_LOG_INFO);
    assert_string_equal(h.last, "3 threads");
    mica__log(MICA_LOG_WARNING, "w");
    assert_int_equal(h.n, 2);
    assert_true(mica__log_wanted(MICA_LOG_WARNING) && !mica__log_wanted(MICA_LOG_DEBUG));
    mica__log(MICA_LOG_NONE, "no level");
    assert_int_equal(h.n, 2);
    mica__log(MICA_LOG_INFO, "%01500d", 7);
    assert_int_equal(strlen(h.last), 1023);
    mica__log_set(MICA_LOG_NONE, listen, &h);
    mica__log(MICA_LOG_WARNING, "x");
    mica__log_set(MICA_LOG_DEBUG, NULL, NULL);
    mica__log(MICA_LOG_WARNING, "x");
    assert_int_equal(h.n, 3);
}

static void *talk(void *user)
{
    (void)user;
    for (int i = 0; i < 2000; i++)
        mica__log(MICA_LOG_DEBUG, "message %d", i);
    return NULL;
}

static void messages_of_several_threads_come_one_at_a_time(void **state)
{
    (void)state;
    heard h = {0};
    mica__log_set(MICA_LOG_DEBUG, listen, &h);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, talk, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    mica__log_set(MICA_LOG_NONE, NULL, NULL);
    assert_int_equal(h.n, 8000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_unless_asked_for),
        cmocka_unit_test(messages_of_several_threads_come_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
