/* cgroup.h - how many processors and how much memory this process may use.
 *
 * A container's limits stand in its control group, not in the machine's description. Each function
 * takes the directory below which proc/... and sys/fs/cgroup/... are read: NULL means /, tests give
 * a tree of their own. A file that is missing or makes no sense sets no limit. Nothing here
 * allocates.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_CGROUP_H
#define MICA_BASE_CGROUP_H

#include "base/fail.h"

/* How many threads are worth starting: the processors that the calling thread may run on, or the
 * group's quota where that is smaller, rounded up (half a processor is 1). Always at least 1.
 * MICA_E_ARGUMENT only when root is too long for a path. */
mica_status mica__cpu_quota(const char *root, int *threads);

/* The group's processor quota alone, rounded up: version 2 cpu.max and version 1 cpu.cfs_quota_us,
 * the smallest from the process's group up to the root. INT32_MAX when there is none. */
int32_t mica__cgroup_cpu_limit(const char *root);

/* The group's memory limit in bytes, the smallest from the process's group up to the root (version
 * 2 memory.max, version 1 memory.limit_in_bytes); INT64_MAX when there is none. */
int64_t mica__cgroup_memory_limit(const char *root);

/* The machine's memory, and what programs can still get without swapping, in bytes; INT64_MAX when
 * the system does not say. */
int64_t mica__memory_total(const char *root);
int64_t mica__memory_available(const char *root);

#endif
