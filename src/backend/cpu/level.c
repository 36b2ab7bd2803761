/* level.c - the vector kernels of each feature level this build has.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/level.h"

#if defined(__x86_64__)
#define X86(x)  &x
#define NEON(x) NULL
#elif defined(__aarch64__)
#define X86(x)  NULL
#define NEON(x) &x
#else
#define X86(x)  NULL
#define NEON(x) NULL
#endif

#define LEVEL_AT(family)                                                                           \
    const mica__##family##_level *mica__##family##_level_at(mica__cpu_level level)                 \
    {                                                                                              \
        static const mica__##family##_level *const levels[MICA__N_CPU_LEVELS] = {                  \
            &mica__##family##_scalar, X86(mica__##family##_avx2), X86(mica__##family##_avx512),    \
            NEON(mica__##family##_neon)};                                                          \
        return levels[level];                                                                      \
    }
LEVEL_AT(tile)
LEVEL_AT(rows)
LEVEL_AT(attention)
