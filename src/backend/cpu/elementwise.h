/* elementwise.h - which ops the elementwise kernels cover.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_ELEMENTWISE_H
#define MICA_BACKEND_CPU_ELEMENTWISE_H

#include "core/backend.h"

/* Enumerator, name of the kernel, inputs. One kernel each, because a kernel does not see its op. */
#define MICA__ELEMENTWISE_OPS(X)                                                                   \
    X(MICA__OP_ABS, abs, 1)                                                                        \
    X(MICA__OP_NEGATIVE, negative, 1)                                                              \
    X(MICA__OP_SQUARE, square, 1)                                                                  \
    X(MICA__OP_SQRT, sqrt, 1)                                                                      \
    X(MICA__OP_RSQRT, rsqrt, 1)                                                                    \
    X(MICA__OP_RECIPROCAL, reciprocal, 1)                                                          \
    X(MICA__OP_EXP, exp, 1)                                                                        \
    X(MICA__OP_LOG, log, 1)                                                                        \
    X(MICA__OP_SIN, sin, 1)                                                                        \
    X(MICA__OP_COS, cos, 1)                                                                        \
    X(MICA__OP_TANH, tanh, 1)                                                                      \
    X(MICA__OP_SIGMOID, sigmoid, 1)                                                                \
    X(MICA__OP_ERF, erf, 1)                                                                        \
    X(MICA__OP_SILU, silu, 1)                                                                      \
    X(MICA__OP_GELU, gelu, 1)                                                                      \
    X(MICA__OP_GELU_TANH, gelu_tanh, 1)                                                            \
    X(MICA__OP_ADD, add, 2)                                                                        \
    X(MICA__OP_SUBTRACT, subtract, 2)                                                              \
    X(MICA__OP_MULTIPLY, multiply, 2)                                                              \
    X(MICA__OP_DIVIDE, divide, 2)                                                                  \
    X(MICA__OP_MAXIMUM, maximum, 2)                                                                \
    X(MICA__OP_MINIMUM, minimum, 2)                                                                \
    X(MICA__OP_SWIGLU, swiglu, 2)                                                                  \
    X(MICA__OP_GEGLU, geglu, 2)

bool mica__elementwise_accepts(const mica__call *call, mica__op op);
int64_t mica__elementwise_n_tasks(const mica__call *call, int stage);
size_t mica__elementwise_scratch_bytes(const mica__call *call);
mica_status mica__elementwise_run(const mica__call *call, mica__op op, int64_t task, void *scratch);

#endif
