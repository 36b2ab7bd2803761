/* decoder.h - the forward pass of a decoder as a graph, and the stepper that runs it.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MODELS_DECODER_H
#define MICA_MODELS_DECODER_H

#include "models/decoder_weights.h"
#include "run/step.h"

/* The pools a decoder keeps keys and values in: one for layers that see everything, one for sliding
 * layers. */
typedef struct mica__decoder_pools {
    mica__kv_dtype kv_dtype;
    int n;
    mica__pool_spec spec[2];
    int8_t pool_of[MICA__MAX_LAYERS];       /* by layer */
    int64_t layer_offset[MICA__MAX_LAYERS]; /* bytes into a block */
} mica__decoder_pools;

/* Fails by name when the heads cannot be kept in this type. */
mica_status mica__decoder_pools_of(const mica__decoder_spec *spec, mica__kv_dtype kv_dtype,
                                   mica__decoder_pools *pools);

/* How large a step may be. */
typedef struct mica__step_bounds {
    int64_t tokens; /* also the bound of logits rows */
    int64_t sequences;
    int64_t blocks; /* of one row of a block table */
} mica__step_bounds;

/* Inputs of a step's program, in this order: tokens, positions, sequence_of, logits_rows, then per
 * pool its block table, then per pool its memory. Outputs: logits f32 [R, V], then per pool its
 * memory, updated in place. */
#define MICA__STEP_INPUTS 4

mica_status mica__decoder_compile(mica_ctx *mc, const mica__decoder_spec *spec,
                                  const mica__decoder_weights *weights,
                                  const mica__decoder_pools *pools, mica__activations activations,
                                  const mica__step_bounds *bounds, mica_program **program);

#endif
