/* rows_neon.c - rows_body.h in NEON. SPDX-License-Identifier: MIT */
#include "backend/cpu/level.h"

#if defined(__aarch64__)
#include "backend/cpu/vec_neon.h"

#include "backend/cpu/rows_body.h"
#else
typedef int mica__level_of_another_machine;
#endif
