/* sampling.h - from the sampling options to what a request takes.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_SAMPLING_H
#define MICA_CLI_SAMPLING_H

#include "cli/session.h"

/* The lists that a mica_sampling points to. Zero-initialise. */
typedef struct sampling_lists {
    int32_t *breakers;
    int64_t n_breakers, breaker_capacity;
    mica_logit_bias bias[MAX_LIST];
} sampling_lists;

/* Fills *sampling; it points into *lists. A random seed is drawn here, below 2^53 so that every
 * reader of JSON keeps it. */
int sampling_make(const sampling_settings *settings, const cli_session *session,
                  sampling_lists *lists, mica_sampling *sampling);

void sampling_free(sampling_lists *lists);

#endif
