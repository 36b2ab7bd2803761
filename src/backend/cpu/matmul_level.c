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
    static const mica__matmul_level avx2[] = {{&mica__i8_avx2, &mica__float_avx2},
                                              {&mica__i8_avxvnni, &mica__float_avx2}};
    static const mica__matmul_level avx512[] = {{&mica__i8_avx2, &mica__float_avx512},
                                                {&mica__i8_avxvnni, &mica__float_avx512},
                                                {&mica__i8_avx512vnni, &mica__float_avx512}};
    const int avx_vnni = cpu->flags & MICA__CPU_AVX_VNNI ? 1 : 0;
    if (cpu->level == MICA__CPU_AVX512)
        return &avx512[cpu->flags & MICA__CPU_AVX512_VNNI ? 2 : avx_vnni];
    if (cpu->level == MICA__CPU_AVX2)
        return &avx2[avx_vnni];
#elif defined(__aarch64__)
    static const mica__matmul_level neon[] = {{&mica__i8_neon, &mica__float_neon},
                                              {&mica__i8_neondot, &mica__float_neon}};
    if (cpu->level == MICA__CPU_NEON)
        return &neon[cpu->flags & MICA__CPU_ARM_DOTPROD ? 1 : 0];
#endif
    return &scalar;
}
