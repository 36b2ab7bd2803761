/* kernels.c - the list of the CPU backend's kernels: a kernel exists when it stands here.
 *
 * Tried in order, so a specialised kernel stands before the general one of the same op.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/elementwise.h"
#include "core/backend.h"

#define MICA__CPU_KERNELS(X)                                                                       \
    X(astype_float)                                                                                \
    X(astype)                                                                                      \
    X(copy)                                                                                        \
    X(full)                                                                                        \
    X(arange)                                                                                      \
    X(concatenate)                                                                                 \
    X(take)                                                                                        \
    X(sum)                                                                                         \
    X(mean)                                                                                        \
    X(max)                                                                                         \
    X(min)                                                                                         \
    X(softmax)                                                                                     \
    X(rms_norm)                                                                                    \
    X(rope_table)                                                                                  \
    X(rope)                                                                                        \
    X(kv_write)                                                                                    \
    X(attention)

#define DECLARE(name)            extern const mica__kernel mica__cpu_##name;
#define DECLARE_OP(op, name, in) extern const mica__kernel mica__cpu_##name;
MICA__CPU_KERNELS(DECLARE)
MICA__ELEMENTWISE_OPS(DECLARE_OP)

const mica__kernel *const mica__cpu_kernels[] = {
#define ENTRY(name)            &mica__cpu_##name,
#define ENTRY_OP(op, name, in) &mica__cpu_##name,
    MICA__ELEMENTWISE_OPS(ENTRY_OP) MICA__CPU_KERNELS(ENTRY)};
const int mica__cpu_n_kernels = sizeof mica__cpu_kernels / sizeof *mica__cpu_kernels;
