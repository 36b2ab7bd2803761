/* weights_check.h - whether the numbers in a model's weights are ones that kernels rely on.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MODELS_WEIGHTS_CHECK_H
#define MICA_MODELS_WEIGHTS_CHECK_H

#include "base/workers.h"
#include "models/decoder_weights.h"

/* Reads every scale and minimum of the quantised matrices once, on all workers: MICA_E_FORMAT names
 * the first tensor (in file order) that has one which is not finite. Called when the weights are
 * first used, so that opening stays cheap and the pages it touches are those that the first step
 * needs. */
mica_status mica__weights_check(const mica__weights *files, const mica__decoder_weights *weights,
                                const mica__decoder_spec *spec, mica__workers *workers);

#endif
