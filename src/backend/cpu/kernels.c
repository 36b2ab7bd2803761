/* kernels.c - the list of the CPU backend's kernels: a kernel exists when it stands here.
 *
 * Tried in order, so a specialised kernel stands before the general one of the same op.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/vector_kernels.h"
#include "core/backend.h"

#define ENTRY(name)            &mica__cpu_##name,
#define ENTRY_OP(op, name, in) &mica__cpu_##name, &mica__cpu_plain_##name,

/* clang-format off */
const mica__kernel *const mica__cpu_kernels[] = {
    &mica__kernel_quantize_rows,     &mica__kernel_qmatmul_i8,   &mica__kernel_qmatmul,
    &mica__kernel_matmul_transposed, &mica__kernel_matmul_plain, &mica__kernel_matmul_wide,
    &mica__kernel_embed,
    MICA__ELEMENTWISE_OPS(ENTRY_OP)
    MICA__VECTOR_KERNELS(ENTRY)
};
/* clang-format on */
const int mica__cpu_n_kernels = sizeof mica__cpu_kernels / sizeof *mica__cpu_kernels;
