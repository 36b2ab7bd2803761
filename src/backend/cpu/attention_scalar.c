/* attention_scalar.c - attention in plain C. SPDX-License-Identifier: MIT */
#include "backend/cpu/vec_scalar.h"

#include "backend/cpu/attention_body.h"
