/* drive.h - runs an engine over a fake model, or a real one, and writes down what it says.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_DRIVE_H
#define MICA_TESTS_DRIVE_H

#include "engine/fake_model.h"
#include "run/engine.h"
#include "run/kv_budget.h"
#include "run/request.h"
#include "run/scheduler.h"
#include "run/sequence.h"

#define DRIVE_MAX_TOKENS 1024
#define DRIVE_MAX_TEXT   8192

/* What one choice of one request said. */
typedef struct drive_output {
    int64_t id;
    int32_t choice;
    int64_t n;
    int32_t tokens[DRIVE_MAX_TOKENS];
    float logprobs[DRIVE_MAX_TOKENS];
    char text[DRIVE_MAX_TEXT];
    size_t n_text;
    int64_t n_paused, n_resumed, n_finished;
    int64_t n_at_pause; /* tokens it had when it was paused last */
    mica_event last;    /* its FINISHED event, text and message not valid */
    char message[512];
} drive_output;

typedef struct drive {
    mica_engine *engine;
    drive_output *outputs; /* [capacity] */
    int64_t n, capacity;
    int64_t n_steps;
    bool real;    /* the model is none of fake_model.h, which watches its contract */
    bool fragile; /* steps may fail with MICA_E_MEMORY (injected faults) */
} drive;

void drive_open(drive *d, mica_engine *engine, int64_t capacity);
void drive_close(drive *d);

/* Submits; fails the test when refused. */
int64_t drive_submit(drive *d, const mica_request *request);

/* One step and all of its events. */
void drive_step(drive *d);

/* Steps until nothing is pending; fails the test when that takes unreasonably long. */
void drive_finish(drive *d);

/* What a choice said; fails the test when it said nothing. */
drive_output *drive_find(drive *d, int64_t id, int32_t choice);

/* The greedy continuation that the oracle gives: n tokens into out. */
void drive_expect(const mica__stepper *stepper, const int32_t *prompt, int64_t n_prompt, int64_t n,
                  int32_t *out);

/* A prompt of n tokens that depends on the seed. */
void drive_prompt(uint64_t seed, int32_t *tokens, int64_t n);

/* Fails the test unless the pools hold nothing but what the prefix tree keeps, and nothing at all
 * after that was cleared. */
void drive_check_empty(mica_engine *engine);

/* Bytes counted now under all kinds. */
int64_t drive_bytes(void);

#endif
