/* kernel_call.h - runs one kernel of the CPU backend the hard way.
 *
 * Tasks run in random order, each with scratch and workspace of exactly the size the kernel asked
 * for while planning, filled with NaN before. So what depends on order, on a worker's leftovers or
 * on more memory than it asked for shows.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_KERNEL_CALL_H
#define MICA_TESTS_KERNEL_CALL_H

#include "base/cpu.h"
#include "core/backend.h"

/* The levels of this machine that the build has kernels for, scalar first. */
int kernel_levels(const mica__cpu **levels);

/* An operand over data, row-contiguous. */
mica__operand operand_of(void *data, mica_dtype dtype, int ndim, const int64_t *shape);
#define OPERAND(data, dtype, ...)                                                                  \
    operand_of(data, dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                    \
               (const int64_t[]){__VA_ARGS__})

/* Runs all stages of the first kernel of `op` that accepts the call. Fails the test when there is
 * none. */
mica_status run_kernel(mica__op op, const mica__call *call);

/* The same with scratch and workspace as the kernel asked for `planned`, the call at its bounds. */
mica_status run_kernel_planned(mica__op op, const mica__call *planned, const mica__call *call);

/* A small generator whose seed is printed when a test fails. */
typedef struct random_source {
    uint64_t state;
} random_source;
uint32_t random_u32(random_source *random);
float random_float(random_source *random, float low, float high);
float random_normal(random_source *random); /* about N(0, 1) */

/* Fails unless both are equal as bits, NaN as NaN. */
void assert_same_floats(const float *got, const float *want, int64_t n, const char *what);

#endif
