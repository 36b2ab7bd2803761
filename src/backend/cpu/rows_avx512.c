/* rows_avx512.c - rows_body.h in AVX-512. SPDX-License-Identifier: MIT */
#include "backend/cpu/level.h"

#if defined(__x86_64__)
#include "backend/cpu/vec_avx512.h"

#include "backend/cpu/rows_body.h"
#endif
