/* attention_avx512.c - attention_body.h in AVX-512. SPDX-License-Identifier: MIT */
#include "backend/cpu/level.h"

#if defined(__x86_64__)
#include "backend/cpu/vec_avx512.h"

#include "backend/cpu/attention_body.h"
#endif
