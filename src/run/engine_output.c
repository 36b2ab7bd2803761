/* engine_output.c - from a row of logits to tokens, text and the end of a sequence.
 *
 * A token is reported with the text that it makes certain. A token that ends the sequence is not
 * part of its output: it has no TOKEN event, no text, and is not kept in the history.
 * SPDX-License-Identifier: MIT
 */
#include "run/engine.h"

#include <string.h>

#include "base/clock.h"

/* --- the end ---------------------------------------------------------------------------------- */

static void set_logprobs(mica_event *event, const mica__sample *sample)
{
    event->logprob = sample->logprob;
    event->n_top = sample->n_top;
    memcpy(event->top, sample->top, sizeof event->top);
}

static void set_usage(mica__sequence *sequence, mica_usage *usage)
{
    const int64_t now = mica__clock_ns();
    *usage = sequence->usage;
    usage->prompt_tokens = sequence->n_prompt;
    usage->output_tokens = sequence->n_tokens - sequence->n_prompt;
    usage->total_s = mica__clock_seconds(sequence->submitted_ns, now);
    usage->queued_s = mica__clock_seconds(sequence->submitted_ns,
                                          sequence->started_ns ? sequence->started_ns : now);
    if (sequence->first_token_ns)
        usage->first_token_s =
            mica__clock_seconds(sequence->submitted_ns, sequence->first_token_ns);
}

/* The text that is certain now that nothing follows; best effort, without memory it stays short.
 * True when the detokenizer's last bytes complete a stop string. */
static bool flush_text(mica_engine *engine, mica__sequence *sequence, mica__event_record *record)
{
    const char *bytes = "", *text = "";
    size_t n = 0, n_text = 0;
    bool found = false;
    if (engine->detokenizer.finish &&
        engine->detokenizer.finish(sequence->text_stream, &bytes, &n) != MICA_OK)
        n = 0;
    mica__stop_watch_finish(&sequence->watch, &sequence->request->stops, bytes, n, &text, &n_text,
                            &found);
    mica__events_set_text(&engine->events, record, text, n_text);
    return found;
}

static bool is_failure(mica_finish_reason reason)
{
    return reason == MICA_FINISH_MEMORY || reason == MICA_FINISH_ERROR;
}

void mica__engine_finish(mica_engine *engine, mica__sequence *sequence, mica_finish_reason reason,
                         mica_status status, int32_t token, const mica__sample *sample)
{
    mica__event_record *record = mica__events_add(&engine->events);
    mica_event *event = &record->event;
    event->kind = MICA_EVENT_FINISHED;
    event->request = sequence->id;
    event->choice = sequence->choice;
    event->status = status;
    if (is_failure(reason)) /* before anything else can fail and replace the message */
        mica__events_set_message(&engine->events, record, mica_last_error());
    if (engine->has_text && reason != MICA_FINISH_STOP_STRING &&
        flush_text(engine, sequence, record) && !is_failure(reason) &&
        reason != MICA_FINISH_CANCELLED)
        reason = MICA_FINISH_STOP_STRING;
    event->reason = reason;
    event->token = token;
    if (sample)
        set_logprobs(event, sample);
    set_usage(sequence, &event->usage);
    engine->n_finished++;
    pthread_mutex_lock(&engine->lock);
    mica__scheduler_remove(&engine->scheduler, sequence,
                           reason != MICA_FINISH_CANCELLED && reason != MICA_FINISH_ERROR);
    pthread_mutex_unlock(&engine->lock);
    mica__engine_discard(engine, sequence);
}

/* --- one token -------------------------------------------------------------------------------- */

static bool contains(const int32_t *list, int64_t n, int32_t token)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == token)
            return true;
    return false;
}

static bool ends_sequence(const mica_engine *engine, const mica_request *given, int32_t token)
{
    return (!given->ignore_end_tokens &&
            contains(engine->end_tokens, engine->n_end_tokens, token)) ||
           contains(given->stop_tokens, given->n_stop_tokens, token);
}

static mica_status draw_token(mica_engine *engine, mica__sequence *sequence, const float *logits,
                              mica__sample *sample)
{
    const mica_request *given = &sequence->request->given;
    const int64_t n_vocab = engine->stepper.n_vocab;
    const uint32_t *allowed = NULL;
    if (given->constraint) {
        memset(engine->sampler.allowed, 0,
               (size_t)((n_vocab + 31) / 32) * sizeof *engine->sampler.allowed);
        MICA_TRY(
            given->constraint->mask(sequence->constraint_state, engine->sampler.allowed, n_vocab));
        allowed = engine->sampler.allowed;
    }
    const mica__sampler_input input = {.logits = logits,
                                       .tokens = sequence->tokens,
                                       .n_tokens = sequence->n_tokens,
                                       .n_prompt = sequence->n_prompt,
                                       .sampling = &given->sampling,
                                       .choice = sequence->choice,
                                       .allowed = allowed,
                                       .end_tokens = engine->end_tokens,
                                       .n_end_tokens = engine->n_end_tokens,
                                       .logprobs = given->logprobs || given->n_top > 0,
                                       .n_top = given->n_top};
    return mica__sampler_draw(&engine->sampler, &input, sample);
}

/* Puts the text that a token makes certain into its event; *found when a stop string is complete.
 */
static mica_status add_text(mica_engine *engine, mica__sequence *sequence, int32_t token,
                            mica__event_record *record, bool *found)
{
    const char *bytes, *text;
    size_t n, n_text;
    if (!engine->has_text)
        return MICA_OK;
    MICA_TRY(engine->detokenizer.add(sequence->text_stream, token, &bytes, &n));
    MICA_TRY(mica__stop_watch_add(&sequence->watch, &sequence->request->stops, bytes, n, &text,
                                  &n_text, found));
    return mica__events_set_text(&engine->events, record, text, n_text);
}

/* Appends a drawn token and reports it; *found when its text completes a stop string. */
static mica_status accept(mica_engine *engine, mica__sequence *sequence, const mica__sample *sample,
                          bool *found)
{
    const mica_request *given = &sequence->request->given;
    mica__event_record *record = mica__events_add(&engine->events);
    mica_event *event = &record->event;
    event->kind = MICA_EVENT_TOKEN;
    event->request = sequence->id;
    event->choice = sequence->choice;
    event->token = sample->token;
    event->index = sequence->n_tokens - sequence->n_prompt;
    set_logprobs(event, sample);
    sequence->tokens[sequence->n_tokens++] = sample->token;
    engine->n_output++;
    if (sequence->first_token_ns == 0)
        sequence->first_token_ns = mica__clock_ns();
    if (given->constraint)
        MICA_TRY(given->constraint->accept(sequence->constraint_state, sample->token));
    return add_text(engine, sequence, sample->token, record, found);
}

void mica__engine_output(mica_engine *engine, mica__sequence *sequence, const float *logits)
{
    mica__sample sample;
    bool found = false;
    mica_status status = draw_token(engine, sequence, logits, &sample);
    if (status == MICA_OK && ends_sequence(engine, &sequence->request->given, sample.token)) {
        mica__engine_finish(engine, sequence, MICA_FINISH_STOP, MICA_OK, sample.token, &sample);
        return;
    }
    if (status == MICA_OK)
        status = accept(engine, sequence, &sample, &found);
    if (status != MICA_OK)
        mica__engine_finish(engine, sequence, MICA_FINISH_ERROR, status, -1, NULL);
    else if (found)
        mica__engine_finish(engine, sequence, MICA_FINISH_STOP_STRING, MICA_OK, -1, NULL);
    else if (sequence->n_tokens == sequence->max_tokens)
        mica__engine_finish(engine, sequence, MICA_FINISH_LENGTH, MICA_OK, -1, NULL);
}
