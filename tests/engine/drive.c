/* drive.c - runs an engine over a fake model, or a real one, and writes down what it says.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include "engine/drive.h"

void drive_open(drive *d, mica_engine *engine, int64_t capacity)
{
    memset(d, 0, sizeof *d);
    d->engine = engine;
    d->outputs = calloc((size_t)capacity, sizeof *d->outputs);
    d->capacity = capacity;
    assert_non_null(d->outputs);
}

void drive_close(drive *d)
{
    free(d->outputs);
}

static drive_output *look_up(drive *d, int64_t id, int32_t choice)
{
    for (int64_t i = d->n - 1; i >= 0; i--)
        if (d->outputs[i].id == id && d->outputs[i].choice == choice)
            return &d->outputs[i];
    return NULL;
}

drive_output *drive_find(drive *d, int64_t id, int32_t choice)
{
    drive_output *output = look_up(d, id, choice);
    if (!output)
        fail_msg("request %lld, choice %d said nothing", (long long)id, (int)choice);
    return output;
}

int64_t drive_submit(drive *d, const mica_request *request)
{
    int64_t id;
    assert_ok(mica_engine_submit(d->engine, request, &id));
    assert_true(id > 0);
    return id;
}

static void note(drive *d, const mica_event *event)
{
    drive_output *output = look_up(d, event->request, event->choice);
    if (!output) {
        assert_true(d->n < d->capacity);
        output = &d->outputs[d->n++];
        output->id = event->request;
        output->choice = event->choice;
    }
    assert_int_equal(output->n_finished, 0); /* nothing comes after the end */
    assert_int_equal(event->text[event->n_text], '\0');
    assert_true(output->n_text + event->n_text < DRIVE_MAX_TEXT);
    memcpy(output->text + output->n_text, event->text, event->n_text);
    output->n_text += event->n_text;
    switch (event->kind) {
    case MICA_EVENT_TOKEN:
        assert_int_equal(event->index, output->n);
        assert_true(output->n < DRIVE_MAX_TOKENS);
        output->logprobs[output->n] = event->logprob;
        output->tokens[output->n++] = event->token;
        break;
    case MICA_EVENT_FINISHED:
        output->n_finished++;
        output->last = *event;
        snprintf(output->message, sizeof output->message, "%s", event->message);
        break;
    case MICA_EVENT_PAUSED:
        assert_int_equal(output->n_paused, output->n_resumed);
        if (output->n_paused > 0 && !d->fragile) /* nobody is paused twice without progress */
            assert_true(output->n > output->n_at_pause);
        output->n_at_pause = output->n;
        output->n_paused++;
        break;
    case MICA_EVENT_RESUMED:
        output->n_resumed++;
        assert_int_equal(output->n_paused, output->n_resumed);
        break;
    }
}

void drive_step(drive *d)
{
    const mica_status status = mica_engine_step(d->engine);
    if (status != MICA_OK && !(d->fragile && status == MICA_E_MEMORY))
        fail_msg("a step failed: %s", mica_last_error());
    mica_event event;
    while (mica_engine_next_event(d->engine, &event))
        note(d, &event);
    d->n_steps++;
}

void drive_finish(drive *d)
{
    for (int64_t steps = 0; mica_engine_pending(d->engine) > 0; steps++) {
        if (steps > 200000)
            fail_msg("the engine does not come to an end");
        drive_step(d);
    }
    const fake_model *model = d->real ? NULL : d->engine->stepper.model;
    if (model && model->violation[0])
        fail_msg("a step broke its contract: %s", model->violation);
}

void drive_expect(const mica__stepper *stepper, const int32_t *prompt, int64_t n_prompt, int64_t n,
                  int32_t *out)
{
    static fake_oracle oracle;
    float logits[256];
    assert_true(stepper->n_vocab <= 256);
    oracle.stepper = stepper;
    oracle.n = 0;
    for (int64_t i = 0; i < n_prompt; i++)
        fake_oracle_feed(&oracle, prompt[i], logits);
    for (int64_t i = 0; i < n; i++) {
        int32_t best = 0;
        for (int32_t v = 1; v < stepper->n_vocab; v++)
            if (logits[v] > logits[best])
                best = v;
        out[i] = best;
        fake_oracle_feed(&oracle, best, logits);
    }
}

void drive_prompt(uint64_t seed, int32_t *tokens, int64_t n)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((state >> 33) % 97);
    }
}

void drive_check_empty(mica_engine *engine)
{
    const mica__kv_store *store = &engine->scheduler.store;
    for (int pool = 0; pool < store->n_pools; pool++)
        assert_int_equal(store->pools[pool].n_live, store->pools[pool].n_evictable);
    mica_engine_clear_prefix_cache(engine);
    for (int pool = 0; pool < store->n_pools; pool++) {
        assert_int_equal(store->pools[pool].n_live, 0);
        assert_int_equal(store->pools[pool].n_evictable, 0);
        for (int64_t b = 0; b < store->pools[pool].capacity; b++)
            assert_int_equal(store->pools[pool].references[b], 0);
    }
    assert_int_equal(store->tree.n_nodes, 0);
    assert_int_equal(store->budget.used, 0);
}

int64_t drive_bytes(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active + usage.by_kind[MICA_MEMORY_POOL];
}
