/* matmul_level.c - which functions the products with weights use on which processor.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

#include "base/cpu.h"

const mica__matmul_level *mica__matmul_level_for(const mica__cpu *cpu)
{
    static const mica__matmul_level scalar = {&mica__i8_scalar, &mica__float_scalar};
    if (!cpu)
        cpu = mica__cpu_host();
#if defined(__x86_64__)
    static const mica__matmul_level avx512vnni = {&mica__i8_avx512vnni, &mica__float_scalar};
    if (cpu->level == MICA__CPU_AVX512 && cpu->flags & MICA__CPU_AVX512_VNNI)
        return &avx512vnni;
#endif
    return &scalar;
}
