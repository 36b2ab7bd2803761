/* kernels.c - the list of the CPU backend's kernels: a kernel exists when it stands here.
 *
 * Tried in order, so a specialised kernel stands before the general one of the same op.
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"

const mica__kernel *const mica__cpu_kernels[] = {
    NULL, /* keeps the list non-empty while there are no kernels */
};
const int mica__cpu_n_kernels = sizeof mica__cpu_kernels / sizeof *mica__cpu_kernels - 1;
