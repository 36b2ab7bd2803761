/* tile_scalar.c - elementwise runs in plain C. SPDX-License-Identifier: MIT */
#include "backend/cpu/vec_scalar.h"

#include "backend/cpu/tile_body.h"
