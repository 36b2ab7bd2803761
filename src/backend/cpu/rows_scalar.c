/* rows_scalar.c - row operations in plain C. SPDX-License-Identifier: MIT */
#include "backend/cpu/vec_scalar.h"

#include "backend/cpu/rows_body.h"
