/* runtime_test.c - how many threads a runtime starts.
 *
 * Threads are counted by the system, and the control group is a tree of the test's own. Not under
 * ThreadSanitizer, which starts a thread itself.
 * Test labels: notsan
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"
#include "support/temp_dir.h"

#include <mica/mica.h>

#include "base/cgroup.h"
#include "core/runtime.h"

typedef struct quota_case {
    const char *group; /* proc/self/cgroup */
    const char *file, *text;
    const char *period_file, *period;
    int workers;
} quota_case;

static const quota_case cases[] = {
    {"0::/job\n", "sys/fs/cgroup/job/cpu.max", "50000 100000\n", NULL, NULL, 1},
    {"0::/job\n", "sys/fs/cgroup/cpu.max", "50000 100000\n", NULL, NULL, 1},
    {"4:cpu,cpuacct:/job\n", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n",
     "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n", 1},
    {"0::/job\n", "sys/fs/cgroup/job/cpu.max", "150000 100000\n", NULL, NULL, 2},
};

static char *tree(const quota_case *c)
{
    char *root = temp_dir_new();
    temp_write_text(root, "proc/self/cgroup", c->group);
    temp_write_text(root, c->file, c->text);
    if (c->period)
        temp_write_text(root, c->period_file, c->period);
    return root;
}

static int threads_now(void)
{
    return temp_dir_entries("/proc/self/task");
}

/* Opens, computes something with many tasks and counts the process's threads in between. */
static void expect_workers(const mica_options *options, int workers)
{
    const int before = threads_now();
    mica_ctx *mc = mica_open(options);
    if (!mc)
        fail_msg("mica_open: %s", mica_last_error());
    assert_int_equal(mica_threads(mc), workers);
    assert_int_equal(mica__workers_count(mc->runtime->workers), workers);
    assert_int_equal(threads_now(), before + workers - 1); /* the caller is one of them */
    mica_array *y = mica_exp(mica_ones(mc, MICA_SHAPE(1 << 20), MICA_F32));
    assert_ok(mica_eval_all(mc, y));
    assert_int_equal(threads_now(), before + workers - 1);
    mica_close(mc);
}

/* Half a processor means the caller alone: nobody else is there to spin. */
static void a_quota_of_half_a_core_starts_no_thread(void **state)
{
    (void)state;
    int allowed; /* by affinity: an empty tree sets no quota */
    char *empty = temp_dir_new();
    assert_ok(mica__cpu_quota(empty, &allowed));
    temp_dir_remove(empty);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *root = tree(&cases[i]);
        const mica_options options = {.root = root};
        expect_workers(&options, cases[i].workers < allowed ? cases[i].workers : allowed);
        temp_dir_remove(root);
    }
}

static void who_asks_for_threads_gets_them_in_spite_of_the_quota(void **state)
{
    (void)state;
    char *root = tree(&cases[0]);
    const mica_options options = {.root = root, .threads = 3};
    expect_workers(&options, 3);
    temp_dir_remove(root);
}

static void machines_larger_than_a_pool_fill_it(void **state)
{
    (void)state;
    assert_int_equal(mica__thread_count(0, 1), 1);
    assert_int_equal(mica__thread_count(0, MICA__WORKERS_MAX), MICA__WORKERS_MAX);
    assert_int_equal(mica__thread_count(0, MICA__WORKERS_MAX + 1), MICA__WORKERS_MAX);
    assert_int_equal(mica__thread_count(0, INT32_MAX), MICA__WORKERS_MAX);
    assert_int_equal(mica__thread_count(-1, 5), 5);
    assert_int_equal(mica__thread_count(7, 2), 7);
}

static void more_threads_than_a_pool_has_are_refused_when_asked_for(void **state)
{
    (void)state;
    const mica_options options = {.threads = MICA__WORKERS_MAX + 1};
    assert_null(mica_open(&options));
    assert_non_null(strstr(mica_last_error(), "1 to 1024 are possible"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quota_of_half_a_core_starts_no_thread),
        cmocka_unit_test(who_asks_for_threads_gets_them_in_spite_of_the_quota),
        cmocka_unit_test(machines_larger_than_a_pool_fill_it),
        cmocka_unit_test(more_threads_than_a_pool_has_are_refused_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
