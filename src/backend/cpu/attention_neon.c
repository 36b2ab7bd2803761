/* attention_neon.c - attention_body.h in NEON. SPDX-License-Identifier: MIT */
#include "backend/cpu/level.h"

#if defined(__aarch64__)
#include "backend/cpu/vec_neon.h"

#include "backend/cpu/attention_body.h"
#endif
