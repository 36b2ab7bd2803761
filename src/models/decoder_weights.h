/* decoder_weights.h - a decoder's weights by role, as arrays over the mapped files.
 *
 * Nothing is copied but biases (widened to f32 once) and rotary frequencies. Every tensor of the
 * files is accounted for: a missing one is an error, and so is one that no role names, but for a
 * short list of harmless ones.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MODELS_DECODER_WEIGHTS_H
#define MICA_MODELS_DECODER_WEIGHTS_H

#include "io/json.h"
#include "io/weights.h"
#include "models/decoder_spec.h"

/* A matrix with the bias that follows it (NULL: none), f32 [n]. */
typedef struct mica__linear_weights {
    mica__matrix matrix;
    mica_array *bias;
} mica__linear_weights;

typedef struct mica__layer_weights {
    mica__linear_weights
        linear[MICA__N_LAYER_ROLES];         /* by role - MICA__FIRST_LAYER_ROLE; only products */
    mica_array *vector[MICA__N_LAYER_ROLES]; /* norms [n], in the file's dtype */
} mica__layer_weights;

typedef struct mica__decoder_weights {
    mica__linear_weights embed, head;
    mica_array *out_norm;
    mica_array *freqs, *freqs_sliding; /* f32 [head_dim / 2] */
    mica__layer_weights *layers;       /* [n_layers] */
    int64_t read_bytes; /* of everything but the embedding table where that is only looked up */
} mica__decoder_weights;

/* quantization: config.json's block, or NULL. Completes the spec from what the files hold (tied
 * head, vocabulary). Arrays are kept references on mc's runtime, released by
 * mica__decoder_weights_free. */
mica_status mica__decoder_weights_load(mica_ctx *mc, const mica__weights *files,
                                       const mica__json *quantization, mica__decoder_spec *spec,
                                       mica__decoder_weights *weights);
void mica__decoder_weights_free(mica__decoder_weights *weights, const mica__decoder_spec *spec);

#endif
