/* identity.h - an engine over a real model whose every interesting logit is compared with a first
 * run's.
 *
 * The engine's steps are watched: rows behind the end of the prompt are looked up by their position
 * and token, so that decode steps are compared with all their bits, not by what was drawn.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_IDENTITY_H
#define MICA_TESTS_IDENTITY_H

#include <mica/engine.h>

#include "models/model.h"

enum { IDENTITY_DECODED = 16, IDENTITY_ROWS = IDENTITY_DECODED + 1 };

/* What the first prompt gives. Filled by the first run, compared with by later ones. */
typedef struct identity_answer {
    int64_t n_prompt, n_vocab;
    bool known;
    bool every;    /* logits behind every prompt position are kept too */
    float *prompt; /* [n_prompt, n_vocab] where `every` */
    float *rows;   /* [IDENTITY_ROWS, n_vocab] behind the last prompt position and each output */
    int32_t tokens[IDENTITY_ROWS];
} identity_answer;

void identity_answer_open(identity_answer *answer, int64_t n_prompt, int64_t n_vocab, bool every);
void identity_answer_close(identity_answer *answer);

typedef struct identity_engine {
    mica_engine *engine;
    mica__model_stepper *stepper;
    mica__stepper inner;
    identity_answer *answer; /* of the run */
    const char *what;
    int64_t n_prompts;
    bool seen[IDENTITY_ROWS]; /* a row with the answer's bits came up */
} identity_engine;

/* Fails the test when it cannot. options: context, kv_dtype, prefill_chunk, kv_memory are read. */
void identity_open(mica_model *model, const mica_engine_options *options, identity_engine *e);
void identity_close(identity_engine *e);

/* Runs the first prompt beside n_prompts - 1 others of up to `longest` tokens; the first must give
 * `answer` to the bit, or makes it. Its last prompt position is computed, and all of them where
 * from_start; `what` names the run in failures. */
void identity_run(identity_engine *e, const char *what, int n_prompts, int64_t longest,
                  bool from_start, identity_answer *answer);

#endif
