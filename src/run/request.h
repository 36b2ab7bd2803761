/* request.h - the engine's own copy of a request, shared by its choices.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_REQUEST_H
#define MICA_RUN_REQUEST_H

#include <mica/engine.h>

#include "run/stop_strings.h"

/* Limits on the lists a request may bring. */
#define MICA__MAX_STOP_TOKENS  4096
#define MICA__MAX_DRY_BREAKERS 4096
#define MICA__MAX_CHOICES      1024

struct mica__sequence;

typedef struct mica__request {
    int64_t references;
    mica_request given;         /* its lists point to copies */
    mica_constraint constraint; /* copy of *given.constraint */
    mica__stop_strings stops;
    /* The choice that computes the prompt, for which the others wait: they find it in the prefix
     * tree then. NULL when nobody does. */
    struct mica__sequence *pioneer;
    bool prompt_computed;
} mica__request;

/* Checks all that does not depend on the state of an engine. */
mica_status mica__request_check(const mica_request *given, int64_t n_vocab, int64_t context,
                                bool has_text);

/* A copy with one reference; NULL on failure. */
mica__request *mica__request_copy(const mica_request *given);

/* Gives up a reference; the last one frees the copy. */
void mica__request_release(mica__request *request);

#endif
