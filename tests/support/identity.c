/* identity.c - see identity.h.
 * SPDX-License-Identifier: MIT
 */
#include "support/identity.h"

#include <stdlib.h>

#include "run/engine.h"
#include "support/check.h"

void identity_answer_open(identity_answer *answer, int64_t n_prompt, int64_t n_vocab, bool every)
{
    memset(answer, 0, sizeof *answer);
    answer->n_prompt = n_prompt;
    answer->n_vocab = n_vocab;
    answer->every = every;
    answer->rows = calloc((size_t)(IDENTITY_ROWS * n_vocab), sizeof *answer->rows);
    assert_non_null(answer->rows);
    if (every) {
        answer->prompt = calloc((size_t)(n_prompt * n_vocab), sizeof *answer->prompt);
        assert_non_null(answer->prompt);
    }
}

void identity_answer_close(identity_answer *answer)
{
    free(answer->rows);
    free(answer->prompt);
    memset(answer, 0, sizeof *answer);
}

/* --- watching steps --------------------------------------------------------------------------- */

/* Alone, a row at a position of the answer is the answer's. Among others it is whichever has the
 * answer's bits: no other sequence computes the same. */
static void look_at_row(identity_engine *e, int64_t row, const float *logits)
{
    identity_answer *a = e->answer;
    const size_t bytes = (size_t)a->n_vocab * sizeof *logits;
    if (row < 0 || row >= IDENTITY_ROWS)
        return;
    if (a->known) {
        e->seen[row] = e->seen[row] || memcmp(a->rows + row * a->n_vocab, logits, bytes) == 0;
    } else {
        assert_int_equal(e->n_prompts, 1);
        memcpy(a->rows + row * a->n_vocab, logits, bytes);
        e->seen[row] = true;
    }
}

static mica_status run_step(void *user, const mica__step *step)
{
    identity_engine *e = user;
    const mica_status status = e->inner.run(e->inner.model, step);
    for (int64_t r = 0; e->answer && status == MICA_OK && r < step->n_rows; r++)
        look_at_row(e, step->positions[step->logits_rows[r]] - (e->answer->n_prompt - 1),
                    step->logits + r * e->inner.n_vocab);
    return status;
}

static void release(void *user)
{
    identity_engine *e = user;
    mica__model_stepper_free(e->stepper);
}

void identity_open(mica_model *model, const mica_engine_options *options, identity_engine *e)
{
    const mica__stepper_options wanted = {.kv_dtype = mica__kv_dtype_from(options->kv_dtype),
                                          .context = options->context};
    memset(e, 0, sizeof *e);
    assert_ok(mica__model_stepper_new(model, &wanted, &e->stepper, &e->inner));
    mica__stepper outer = e->inner;
    outer.model = e;
    outer.run = run_step;
    outer.release = release;
    assert_ok(mica__engine_new(&outer, options, &e->engine));
}

void identity_close(identity_engine *e)
{
    mica_engine_free(e->engine);
}

/* --- a run ------------------------------------------------------------------------------------ */

static void see_logits(void *owner, int64_t position, const float *logits, int64_t n_vocab)
{
    identity_engine *e = owner;
    const identity_answer *a = e->answer;
    const size_t bytes = (size_t)n_vocab * sizeof *logits;
    assert_int_equal(n_vocab, a->n_vocab);
    if (position == a->n_prompt - 1 && a->known && memcmp(a->rows, logits, bytes) != 0)
        fail_msg("%s: the logits behind the prompt differ", e->what);
    if (!a->every)
        return;
    if (!a->known)
        memcpy(a->prompt + position * n_vocab, logits, bytes);
    else if (memcmp(a->prompt + position * n_vocab, logits, bytes) != 0)
        fail_msg("%s: the logits behind position %lld differ", e->what, (long long)position);
}

static int64_t submit(identity_engine *e, int i, int64_t longest, bool from_start)
{
    const int64_t n_first = e->answer->n_prompt, n_vocab = e->answer->n_vocab;
    int64_t n = n_first < longest ? n_first : longest, id;
    n = i == 0 ? n_first : i % 3 == 1 && n > 13 ? n - 13 : n;
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    assert_non_null(ids);
    for (int64_t k = 0; k < n; k++)
        ids[k] = (int32_t)(4 + (k * (7 + i) + i * 31 + k / 200) % (n_vocab < 5000 ? 250 : 4999));
    mica_request request;
    mica_request_init(&request);
    request.tokens = ids;
    request.n_tokens = n;
    request.max_tokens = IDENTITY_ROWS;
    request.ignore_end_tokens = true;
    if (i == 0) {
        request.on_logits = see_logits;
        request.on_logits_owner = e;
        request.logits_from = from_start ? 0 : n - 1;
    }
    assert_ok(mica_engine_submit(e->engine, &request, &id));
    free(ids);
    return id;
}

void identity_run(identity_engine *e, const char *what, int n_prompts, int64_t longest,
                  bool from_start, identity_answer *answer)
{
    int32_t tokens[IDENTITY_ROWS];
    int64_t first = 0;
    int n = 0;
    e->answer = answer;
    e->what = what;
    e->n_prompts = n_prompts;
    memset(e->seen, 0, sizeof e->seen);
    for (int i = 0; i < n_prompts; i++) {
        const int64_t id = submit(e, i, longest, from_start);
        first = i ? first : id;
    }
    while (mica_engine_pending(e->engine) > 0) {
        mica_event event;
        assert_ok(mica_engine_step(e->engine));
        while (mica_engine_next_event(e->engine, &event)) {
            if (event.kind == MICA_EVENT_FINISHED && event.reason == MICA_FINISH_ERROR)
                fail_msg("%s: %s", what, event.message);
            if (event.request == first && event.kind == MICA_EVENT_TOKEN && n < IDENTITY_ROWS)
                tokens[n++] = event.token;
        }
    }
    assert_int_equal(n, IDENTITY_ROWS);
    if (answer->known && memcmp(tokens, answer->tokens, sizeof tokens) != 0)
        fail_msg("%s: the output differs", what);
    for (int i = 0; i < IDENTITY_ROWS; i++)
        if (!e->seen[i])
            fail_msg("%s: no row has the bits of decode step %d", what, i);
    memcpy(answer->tokens, tokens, sizeof tokens);
    answer->known = true;
    e->answer = NULL;
}
