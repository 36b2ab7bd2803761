/* step_driver.h - runs a model step by step without an engine: whole pools, one block table row per
 * sequence.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_STEP_DRIVER_H
#define MICA_TESTS_STEP_DRIVER_H

#include "models/model.h"

typedef struct step_driver {
    mica__model_stepper *stepper;
    mica__stepper face;
    uint8_t *pool[MICA__KV_MAX_POOLS];
    int32_t *table; /* [n_sequences, stride] */
    int64_t stride, n_sequences;
    int32_t *length; /* [n_sequences] tokens so far */
} step_driver;

/* n_sequences of up to max_length tokens each. */
mica_status step_driver_open(mica_model *model, mica__kv_dtype kv, int64_t n_sequences,
                             int64_t max_length, int64_t max_tokens, step_driver *driver);
void step_driver_close(step_driver *driver);

/* Appends n tokens to a sequence in one step; logits f32 [n, n_vocab] of all of them, or NULL for
 * none. */
mica_status step_driver_feed(step_driver *driver, int64_t sequence, const int32_t *tokens,
                             int64_t n, float *logits);

/* Forgets the sequence's tokens. */
void step_driver_reset(step_driver *driver, int64_t sequence);

#endif
