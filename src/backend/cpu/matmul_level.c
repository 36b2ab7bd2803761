/* matmul_level.c - which level's products run on which machine.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

const mica__matmul_level *mica__matmul_level_at(int i, int *n)
{
    (void)i;
    *n = 1;
    return &mica__matmul_scalar;
}

const mica__matmul_level *mica__matmul_level_for(const mica__cpu *cpu)
{
    (void)cpu;
    return &mica__matmul_scalar;
}
