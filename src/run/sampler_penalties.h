/* sampler_penalties.h - what changes logits before any filter.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_SAMPLER_PENALTIES_H
#define MICA_RUN_SAMPLER_PENALTIES_H

#include "run/sampler.h"

/* Each changes sampler->logits in place. Tokens outside the vocabulary are ignored. */
void mica__apply_bias(mica__sampler *sampler, const mica_sampling *sampling);
void mica__apply_repetition(mica__sampler *sampler, const mica__sampler_input *input);
void mica__apply_presence(mica__sampler *sampler, const mica__sampler_input *input);
void mica__apply_dry(mica__sampler *sampler, const mica__sampler_input *input);
void mica__apply_mask(mica__sampler *sampler, const uint32_t *allowed);

#endif
