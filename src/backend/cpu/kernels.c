/* kernels.c - the list of the CPU backend's kernels: a kernel exists when it stands here.
 *
 * Tried in order, so a specialised kernel stands before the general one of the same op.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_kernels.h"
#include "core/backend.h"

const mica__kernel *const mica__cpu_kernels[] = {
    &mica__kernel_quantize_rows,     &mica__kernel_qmatmul_i8,   &mica__kernel_qmatmul,
    &mica__kernel_matmul_transposed, &mica__kernel_matmul_plain, &mica__kernel_embed,
};
const int mica__cpu_n_kernels = sizeof mica__cpu_kernels / sizeof *mica__cpu_kernels;
