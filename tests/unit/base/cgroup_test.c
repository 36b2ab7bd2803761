/* cgroup_test.c - processor and memory limits read from trees that the test builds.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"
#include "support/temp_dir.h"

#include "base/cgroup.h"

#include <sched.h>
#include <stdlib.h>

#define NONE32 INT32_MAX
#define NONE64 INT64_MAX

typedef struct tree_file {
    const char *path, *text;
} tree_file;

typedef struct tree_case {
    const char *name;
    int32_t cpus;
    int64_t memory;
    tree_file files[8];
} tree_case;

#define GROUP "proc/self/cgroup"
#define FS    "sys/fs/cgroup"

static const tree_case cases[] = {
    {"nothing at all", NONE32, NONE64, {{"other", "x"}}},
    {"v2, half a processor",
     1,
     NONE64,
     {{GROUP, "0::/user.slice\n"}, {FS "/user.slice/cpu.max", "50000 100000\n"}}},
    {"v2, exactly two", 2, NONE64, {{GROUP, "0::/a\n"}, {FS "/a/cpu.max", "200000 100000\n"}}},
    {"v2, a little over two",
     3,
     NONE64,
     {{GROUP, "0::/a\n"}, {FS "/a/cpu.max", "200001 100000\n"}}},
    {"v2, odd period", 4, NONE64, {{GROUP, "0::/a\n"}, {FS "/a/cpu.max", "7000 2000\n"}}},
    {"v2, max",
     NONE32,
     NONE64,
     {{GROUP, "0::/a\n"}, {FS "/a/cpu.max", "max 100000\n"}, {FS "/a/memory.max", "max\n"}}},
    {"v2, the smallest stands above",
     1,
     1000000,
     {{GROUP, "0::/a/b/c\n"},
      {FS "/a/b/c/cpu.max", "400000 100000\n"},
      {FS "/a/b/cpu.max", "max 100000\n"},
      {FS "/a/cpu.max", "100000 100000\n"},
      {FS "/a/b/c/memory.max", "4000000\n"},
      {FS "/a/b/memory.max", "1000000\n"},
      {FS "/a/memory.max", "2000000\n"}}},
    {"v2, the smallest stands below",
     2,
     3000,
     {{GROUP, "0::/a/b\n"},
      {FS "/a/b/cpu.max", "150000 100000\n"},
      {FS "/a/cpu.max", "900000 100000\n"},
      {FS "/a/b/memory.max", "3000\n"},
      {FS "/a/memory.max", "max\n"}}},
    {"v2, container: the path is the host's, the mount is the group",
     2,
     536870912,
     {{GROUP, "0::/docker/0123abcd\n"},
      {FS "/cpu.max", "150000 100000\n"},
      {FS "/memory.max", "536870912\n"}}},
    {"v2, container with its own namespace",
     1,
     77,
     {{GROUP, "0::/\n"}, {FS "/cpu.max", "1000 100000\n"}, {FS "/memory.max", "77\n"}}},
    {"v2, group outside of the namespace",
     5,
     NONE64,
     {{GROUP, "0::/../x\n"}, {FS "/cpu.max", "500000 100000\n"}, {"sys/fs/x/cpu.max", "1 1\n"}}},
    {"v2, sibling groups do not count",
     NONE32,
     NONE64,
     {{GROUP, "0::/a\n"}, {FS "/b/cpu.max", "1000 100000\n"}, {FS "/ab/memory.max", "5\n"}}},
    {"v1, own mounts",
     1,
     268435456,
     {{GROUP, "9:name=systemd:/\n4:memory:/box\n1:cpu:/box\n0::/\n"},
      {FS "/cpu/box/cpu.cfs_quota_us", "50000\n"},
      {FS "/cpu/box/cpu.cfs_period_us", "100000\n"},
      {FS "/memory/box/memory.limit_in_bytes", "268435456\n"}}},
    {"v1, joint mount",
     3,
     NONE64,
     {{GROUP, "3:cpuset:/\n4:cpu,cpuacct:/box/inner\n"},
      {FS "/cpu,cpuacct/box/inner/cpu.cfs_quota_us", "250000\n"},
      {FS "/cpu,cpuacct/box/inner/cpu.cfs_period_us", "100000\n"}}},
    {"v1, no limit",
     NONE32,
     NONE64,
     {{GROUP, "4:memory:/box\n1:cpuacct,cpu:/box\n"},
      {FS "/cpu/box/cpu.cfs_quota_us", "-1\n"},
      {FS "/cpu/box/cpu.cfs_period_us", "100000\n"},
      {FS "/memory/box/memory.limit_in_bytes", "9223372036854771712\n"}}},
    {"v1, limit at the parent and at a mount's root",
     2,
     5000,
     {{GROUP, "4:memory:/p/q\n1:cpu:/p/q\n"},
      {FS "/cpu/p/cpu.cfs_quota_us", "20000\n"},
      {FS "/cpu/p/cpu.cfs_period_us", "10000\n"},
      {FS "/cpu/p/q/cpu.cfs_quota_us", "-1\n"},
      {FS "/cpu/p/q/cpu.cfs_period_us", "100000\n"},
      {FS "/memory/memory.limit_in_bytes", "5000\n"},
      {FS "/memory/p/q/memory.limit_in_bytes", "6000\n"}}},
    {"both versions side by side",
     1,
     4096,
     {{GROUP, "4:memory:/box\n0::/u\n"},
      {FS "/unified/u/cpu.max", "100 100000\n"},
      {FS "/memory/box/memory.limit_in_bytes", "4096\n"}}},
    {"cpuset and cpuacct are not cpu",
     NONE32,
     NONE64,
     {{GROUP, "4:cpuset,cpuacct:/box\n"},
      {FS "/cpu/box/cpu.cfs_quota_us", "1000\n"},
      {FS "/cpu/box/cpu.cfs_period_us", "100000\n"}}},
    {"garbage in the files",
     NONE32,
     NONE64,
     {{GROUP, "0::/a/b/c\n4:cpu\n:::\n\n0::no-slash\n"},
      {FS "/a/b/c/cpu.max", "100000\n"},
      {FS "/a/b/cpu.max", "1x 100000\n"},
      {FS "/a/cpu.max", "100000 0\n"},
      {FS "/cpu.max", "99999999999999999999 1\n"},
      {FS "/a/b/c/memory.max", "-5\n"},
      {FS "/a/b/memory.max", "12 34\n"}}},
    {"empty files", NONE32, NONE64, {{GROUP, "0::/a\n"}, {FS "/a/cpu.max", ""}}},
    {"a quota of zero is no quota",
     NONE32,
     NONE64,
     {{GROUP, "0::/a\n"}, {FS "/a/cpu.max", "0 100000\n"}}},
};

static void limits_are_the_smallest_along_the_path(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    const int allowed = CPU_COUNT(&set);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = temp_dir_new();
        for (const tree_file *file = cases[i].files; file->path; file++)
            temp_write_text(dir, file->path, file->text);
        const int32_t cpus = mica__cgroup_cpu_limit(dir);
        const int64_t memory = mica__cgroup_memory_limit(dir);
        int threads = 0;
        assert_ok(mica__cpu_quota(dir, &threads));
        temp_dir_remove(dir);
        if (cpus != cases[i].cpus || memory != cases[i].memory)
            fail_msg("%s: %d processors and %lld bytes", cases[i].name, cpus, (long long)memory);
        assert_int_equal(threads, cases[i].cpus < allowed ? cases[i].cpus : allowed);
    }
}

static void long_and_deep_groups_are_walked_or_skipped(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    char line[9000] = "0::";
    while (strlen(line) < 3000)
        strcat(line, "/d");
    temp_write_text(dir, GROUP, line);
    temp_write_text(dir, FS "/d/cpu.max", "100000 100000\n");
    assert_int_equal(mica__cgroup_cpu_limit(dir), 1);
    while (strlen(line) < 8000) /* longer than a path can be */
        strcat(line, "/d");
    temp_write_text(dir, GROUP, line);
    assert_int_equal(mica__cgroup_cpu_limit(dir), NONE32);
    temp_dir_remove(dir);
    int threads;
    assert_status(mica__cpu_quota(line, &threads), MICA_E_ARGUMENT);
    assert_int_equal(mica__cgroup_memory_limit(line), NONE64);
    assert_int_equal(mica__memory_total(line), NONE64);
}

static void meminfo_gives_bytes(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    assert_int_equal(mica__memory_total(dir), NONE64);
    assert_int_equal(mica__memory_available(dir), NONE64);
    temp_write_text(dir, "proc/meminfo",
                    "MemTotal:       16316412 kB\nMemFree:         1234 kB\n"
                    "MemAvailable:    8000000 kB\n");
    assert_int_equal(mica__memory_total(dir), INT64_C(16316412) * 1024);
    assert_int_equal(mica__memory_available(dir), INT64_C(8000000) * 1024);
    temp_write_text(dir, "proc/meminfo", "MemTotal:  many kB\nMemAvailableX: 3 kB\n");
    assert_int_equal(mica__memory_total(dir), NONE64);
    assert_int_equal(mica__memory_available(dir), NONE64);
    temp_write_text(dir, "proc/meminfo", "MemTotal: 9223372036854775807 kB\nMemAvailable: 3 MB");
    assert_int_equal(mica__memory_total(dir), NONE64);
    assert_int_equal(mica__memory_available(dir), NONE64);
    temp_dir_remove(dir);
}

static void this_machine_has_memory_and_processors(void **state)
{
    (void)state;
    int threads = 0;
    assert_ok(mica__cpu_quota(NULL, &threads));
    assert_true(threads >= 1);
    const int64_t total = mica__memory_total(NULL), available = mica__memory_available(NULL);
    assert_true(total > 0 && total < NONE64);
    assert_true(available > 0 && available <= total);
    assert_true(mica__cgroup_memory_limit(NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_the_smallest_along_the_path),
        cmocka_unit_test(long_and_deep_groups_are_walked_or_skipped),
        cmocka_unit_test(meminfo_gives_bytes),
        cmocka_unit_test(this_machine_has_memory_and_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
