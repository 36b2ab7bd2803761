/* vector_kernels.h - the kernels that are no product with weights, in the order they are tried.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_VECTOR_KERNELS_H
#define MICA_BACKEND_CPU_VECTOR_KERNELS_H

#include "backend/cpu/elementwise.h"

/* mica__cpu_<name> */
#define MICA__VECTOR_KERNELS(X)                                                                    \
    X(fused)                                                                                       \
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
    X(plain_sum)                                                                                   \
    X(plain_mean)                                                                                  \
    X(plain_max)                                                                                   \
    X(plain_min)                                                                                   \
    X(softmax)                                                                                     \
    X(rms_norm)                                                                                    \
    X(rope_table)                                                                                  \
    X(rope)                                                                                        \
    X(kv_write)                                                                                    \
    X(attention)

#define MICA__DECLARE(name)            extern const mica__kernel mica__cpu_##name;
#define MICA__DECLARE_OP(op, name, in) MICA__DECLARE(name) MICA__DECLARE(plain_##name)
MICA__VECTOR_KERNELS(MICA__DECLARE)
MICA__ELEMENTWISE_OPS(MICA__DECLARE_OP)
#undef MICA__DECLARE
#undef MICA__DECLARE_OP

#endif
