/* cgroup.c - how many processors and how much memory this process may use.
 *
 * proc/self/cgroup names the process's group per hierarchy ("4:cpu,cpuacct:/a/b"; "0::/a/b" for
 * version 2). A limit may stand at any level, so every level up to the mount is read and the
 * smallest counts. Inside a container the named path often does not exist below the mount, whose
 * root then is the container's own group: missing levels are skipped, which finds it.
 * SPDX-License-Identifier: MIT
 */
#include "base/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIST_BYTES 16384 /* proc/self/cgroup: about fifteen lines */

/* Reads the start of a small file as text; false when it cannot be read or is empty. */
static bool read_small(const char *path, char *text, size_t capacity)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return false;
    size_t n = 0;
    while (n < capacity - 1) {
        const ssize_t got = read(fd, text + n, capacity - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    text[n] = '\0';
    return n > 0;
}

/* A decimal at *at, which is moved behind it; false when there is none or it exceeds int64. */
static bool read_number(const char **at, int64_t *value)
{
    const char *p = *at;
    int64_t v = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            return false;
    *at = p;
    *value = v;
    return true;
}

/* Whether text ends here, but for a newline. */
static bool at_end(const char *at)
{
    return *at == '\0' || (*at == '\n' && at[1] == '\0');
}

/* --- single files ----------------------------------------------------------------------------- */

/* Reads one group's limit in a directory; INT64_MAX when it has none. */
typedef int64_t (*limit_reader)(const char *directory);

static bool read_in(const char *directory, const char *name, char *text, size_t capacity)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", directory, name);
    return n > 0 && (size_t)n < sizeof path && read_small(path, text, capacity);
}

static int64_t rounded_up(int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0)
        return INT64_MAX;
    return quota / period + (quota % period != 0);
}

/* "50000 100000", "max 100000" */
static int64_t cpu_v2(const char *directory)
{
    char text[128];
    int64_t quota, period;
    if (!read_in(directory, "cpu.max", text, sizeof text))
        return INT64_MAX;
    const char *at = text;
    if (!read_number(&at, &quota) || *at++ != ' ' || !read_number(&at, &period) || !at_end(at))
        return INT64_MAX;
    return rounded_up(quota, period);
}

static bool read_single(const char *directory, const char *name, int64_t *value)
{
    char text[128];
    const char *at = text;
    return read_in(directory, name, text, sizeof text) && read_number(&at, value) && at_end(at);
}

/* Without a quota the file holds -1, which is no number here. */
static int64_t cpu_v1(const char *directory)
{
    int64_t quota, period;
    if (!read_single(directory, "cpu.cfs_quota_us", &quota) ||
        !read_single(directory, "cpu.cfs_period_us", &period))
        return INT64_MAX;
    return rounded_up(quota, period);
}

static int64_t memory_v2(const char *directory)
{
    int64_t bytes;
    return read_single(directory, "memory.max", &bytes) ? bytes : INT64_MAX;
}

/* Without a limit the file holds the largest multiple of the page size. */
static int64_t memory_v1(const char *directory)
{
    int64_t bytes;
    if (!read_single(directory, "memory.limit_in_bytes", &bytes) || bytes >= INT64_MAX - 0xfffff)
        return INT64_MAX;
    return bytes;
}

/* --- the way up ------------------------------------------------------------------------------- */

/* The smallest limit from mount/group up to mount; group starts with '/' or is empty. */
static int64_t smallest_along(const char *mount, const char *group, limit_reader reader)
{
    char path[PATH_MAX];
    /* A group outside of what is mounted here is shown as /.. */
    const bool outside = strstr(group, "/../") || !strcmp(group, "/..");
    const int n = snprintf(path, sizeof path, "%s%s", mount, outside ? "" : group);
    if (n < 0 || (size_t)n >= sizeof path)
        return INT64_MAX;
    const size_t shortest = strlen(mount);
    int64_t smallest = INT64_MAX;
    for (;;) {
        const int64_t limit = reader(path);
        smallest = limit < smallest ? limit : smallest;
        if (strlen(path) <= shortest)
            return smallest;
        *strrchr(path, '/') = '\0';
    }
}

/* Whether a comma-separated list holds the name. */
static bool lists(const char *list, size_t n, const char *name)
{
    for (size_t at = 0; at < n;) {
        size_t end = at;
        while (end < n && list[end] != ',')
            end++;
        if (end - at == strlen(name) && !memcmp(list + at, name, end - at))
            return true;
        at = end + 1;
    }
    return false;
}

static int64_t below_mount(const char *root, const char *mount, int mount_length, const char *group,
                           limit_reader reader)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%.*s", root,
                           mount_length ? "/" : "", mount_length, mount);
    return n > 0 && (size_t)n < sizeof path ? smallest_along(path, group, reader) : INT64_MAX;
}

/* The limit that one line of proc/self/cgroup leads to. Mounts: the unified one at sys/fs/cgroup or
 * beside version 1 in unified/, version 1 ones by controller or by the whole list. */
static int64_t limit_of_line(const char *root, char *line, const char *controller, limit_reader v1,
                             limit_reader v2)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group || group[1] != '/')
        return INT64_MAX;
    controllers++;
    const int n = (int)(group - controllers);
    group++;
    size_t length = strlen(group);
    while (length > 0 && group[length - 1] == '/') /* the root group is "/" */
        group[--length] = '\0';
    int64_t first, second;
    if (n == 0) {
        first = below_mount(root, "", 0, group, v2);
        second = below_mount(root, "unified", 7, group, v2);
    } else if (lists(controllers, (size_t)n, controller)) {
        first = below_mount(root, controllers, n, group, v1);
        second = below_mount(root, controller, (int)strlen(controller), group, v1);
    } else {
        return INT64_MAX;
    }
    return first < second ? first : second;
}

static int64_t smallest_limit(const char *root, const char *controller, limit_reader v1,
                              limit_reader v2)
{
    char list[LIST_BYTES], path[PATH_MAX];
    root = root ? root : "";
    const int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (n < 0 || (size_t)n >= sizeof path || !read_small(path, list, sizeof list))
        return INT64_MAX;
    int64_t smallest = INT64_MAX;
    char *rest = list;
    for (char *line; (line = strsep(&rest, "\n"));) {
        const int64_t limit = limit_of_line(root, line, controller, v1, v2);
        smallest = limit < smallest ? limit : smallest;
    }
    return smallest;
}

int32_t mica__cgroup_cpu_limit(const char *root)
{
    const int64_t limit = smallest_limit(root, "cpu", cpu_v1, cpu_v2);
    return limit < INT32_MAX ? (int32_t)limit : INT32_MAX;
}

int64_t mica__cgroup_memory_limit(const char *root)
{
    return smallest_limit(root, "memory", memory_v1, memory_v2);
}

/* --- the machine ------------------------------------------------------------------------------ */

static int processors_allowed(void)
{
    unsigned long mask[16384 / (8 * sizeof(unsigned long))]; /* larger machines than cpu_set_t's */
    memset(mask, 0, sizeof mask);
    int n = 0;
    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)(void *)mask) == 0)
        n = CPU_COUNT_S(sizeof mask, (cpu_set_t *)(void *)mask);
    if (n < 1)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n;
}

mica_status mica__cpu_quota(const char *root, int *threads)
{
    if (root && strlen(root) > PATH_MAX / 2)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "the root directory's name has %zu bytes, the longest possible "
                  "has %d",
                  strlen(root), PATH_MAX / 2);
    const int allowed = processors_allowed();
    const int32_t limit = mica__cgroup_cpu_limit(root);
    *threads = limit < allowed ? (int)limit : allowed;
    return MICA_OK;
}

/* The value of a line "Name:   123 kB" in bytes. */
static int64_t meminfo(const char *root, const char *name)
{
    char text[LIST_BYTES], path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/proc/meminfo", root ? root : "");
    if (n < 0 || (size_t)n >= sizeof path || !read_small(path, text, sizeof text))
        return INT64_MAX;
    const size_t length = strlen(name);
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        int64_t value;
        if (strncmp(line, name, length) != 0 || line[length] != ':')
            continue;
        const char *at = line + length + 1;
        at += strspn(at, " \t");
        if (read_number(&at, &value) && !strcmp(at, " kB") &&
            !__builtin_mul_overflow(value, 1024, &value))
            return value;
    }
    return INT64_MAX;
}

int64_t mica__memory_total(const char *root)
{
    return meminfo(root, "MemTotal");
}

int64_t mica__memory_available(const char *root)
{
    return meminfo(root, "MemAvailable");
}
