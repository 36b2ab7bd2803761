/* matmul_kernels.h - the kernels of products with weights, for the list in kernels.c.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_MATMUL_KERNELS_H
#define MICA_BACKEND_CPU_MATMUL_KERNELS_H

#include "core/backend.h"

extern const mica__kernel mica__kernel_quantize_rows;
extern const mica__kernel mica__kernel_qmatmul_i8;
extern const mica__kernel mica__kernel_qmatmul;
extern const mica__kernel mica__kernel_matmul_transposed;
extern const mica__kernel mica__kernel_matmul_plain;
extern const mica__kernel mica__kernel_matmul_wide;
extern const mica__kernel mica__kernel_embed;

#endif
