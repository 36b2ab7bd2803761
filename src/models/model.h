/* model.h - an open model, and steppers over it.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MODELS_MODEL_H
#define MICA_MODELS_MODEL_H

#include <mica/model.h>

#include "models/decoder.h"

struct mica_model {
    mica_ctx *mc;
    mica__weights *files;
    mica__decoder_spec spec;
    mica__decoder_weights weights;
    mica_activation_mode mode;
    mica__activations activations;
    char name[256];
    int64_t n_parameters;
    bool checked; /* the weights' scales, at the first step */
};

/* Programs of a model for one KV type and one set of bounds. Made when first needed, one for each
 * bucket of step sizes. */
typedef struct mica__model_stepper mica__model_stepper;

typedef struct mica__stepper_options {
    mica__kv_dtype kv_dtype;
    int64_t context;       /* 0: the model's */
    int64_t max_tokens;    /* 0: 512 */
    int64_t max_sequences; /* 0: 32 */
} mica__stepper_options;

/* *face is what an engine takes; it and the stepper live until mica__model_stepper_free. The model
 * must outlive both. */
mica_status mica__model_stepper_new(mica_model *model, const mica__stepper_options *options,
                                    mica__model_stepper **stepper, mica__stepper *face);
void mica__model_stepper_free(mica__model_stepper *stepper);

/* What compiling the programs takes for a while, and what n_sequences of the whole context take in
 * tables and histories: bytes, an upper bound. */
int64_t mica__model_stepper_slack(const mica__model_stepper *stepper, int64_t n_sequences);

/* The exact peak of a step of up to n_tokens, in bytes, besides weights and KV. Compiles its
 * program if need be. */
mica_status mica__model_stepper_peak(mica__model_stepper *stepper, int64_t n_tokens,
                                     int64_t *bytes);

/* What the model's keys and values of a type depend on; the fingerprint is model_identity.c's.
 * MICA_E_NOT_FOUND when the model's config.json has vanished meanwhile. */
mica_status mica__model_identify(const mica_model *model, mica__kv_dtype kv_dtype,
                                 mica__identity *identity);

/* Checked between phases of a running step: set it from anywhere to end the step with
 * MICA_E_CANCELLED. NULL: none. */
void mica__model_stepper_set_cancel(mica__model_stepper *stepper, const _Atomic bool *cancel);

#endif
