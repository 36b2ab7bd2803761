/* engine.c - making an engine, taking requests, ending sequences' lives from outside.
 *
 * Everything of fixed size is allocated here, so that a step allocates only what grows with the
 * sequences. One thread owns the engine; mica_engine_cancel alone may come from others, and touches
 * nothing but the list's links, under the lock, and an atomic flag.
 * SPDX-License-Identifier: MIT
 */
#include "run/engine.h"

#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "run/prefix_file.h"

#define DEFAULT_QUEUE 256

/* Rows of logits in a step at most, where a request wants to see those of its prompt. */
#define MIN_ROW_LIMIT 64

/* --- names ------------------------------------------------------------------------------------ */

const char *mica_kv_dtype_name(mica_kv_dtype dtype)
{
    switch (dtype) {
#define X(name, text)                                                                              \
    case name:                                                                                     \
        return text;
        MICA_KV_DTYPES(X)
#undef X
    case MICA_N_KV_DTYPES:
        break;
    }
    return "?";
}

const char *mica_finish_reason_name(mica_finish_reason reason)
{
    switch (reason) {
#define X(name, text)                                                                              \
    case name:                                                                                     \
        return text;
        MICA_FINISH_REASONS(X)
#undef X
    case MICA_N_FINISH_REASONS:
        break;
    }
    return "?";
}

mica__kv_dtype mica__kv_dtype_from(mica_kv_dtype dtype)
{
    switch (dtype) {
    case MICA_KV_F32:
        return MICA__KV_F32;
    case MICA_KV_BF16:
        return MICA__KV_BF16;
    case MICA_KV_Q8:
        return MICA__KV_Q8;
    case MICA_KV_Q4:
        return MICA__KV_Q4;
    case MICA_KV_F16:
    case MICA_N_KV_DTYPES:
        break;
    }
    return MICA__KV_F16;
}

void mica_request_init(mica_request *request)
{
    memset(request, 0, sizeof *request);
    request->n_choices = 1;
    request->max_tokens = 512;
}

/* --- how much memory -------------------------------------------------------------------------- */

/* What the machine could give without swapping, by its own account; a quarter of its memory where
 * it gives none. */
static int64_t system_available(void)
{
    const int64_t available = mica__memory_available(NULL);
    return available != INT64_MAX ? available
                                  : (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4;
}

/* Bytes of KV that one sequence of `context` tokens takes at most, whole pages counted. */
static double one_context(const mica__stepper *stepper, int64_t context)
{
    const int64_t page = (int64_t)sysconf(_SC_PAGESIZE);
    double bytes = 0;
    for (int pool = 0; pool < stepper->n_pools; pool++) {
        const mica__pool_spec *spec = &stepper->pools[pool];
        const int64_t blocks = spec->kind == MICA__POOL_WINDOW
                                   ? mica__window_blocks(spec, context, stepper->max_tokens)
                                   : mica__blocks_for(context);
        int64_t block_bytes = spec->block_bytes; /* a block may need the pages around it, too */
        if (block_bytes % page)
            block_bytes = page % block_bytes ? (block_bytes / page + 2) * page : page;
        bytes += (double)block_bytes * (spec->kind == MICA__POOL_STATE ? 2.0 : (double)blocks);
    }
    return bytes;
}

mica_status mica__engine_default_kv(const mica__stepper *stepper, int64_t context,
                                    int64_t n_sequences, bool chosen, int64_t *bytes)
{
    const double one = one_context(stepper, context), want = one * (double)n_sequences;
    mica_memory_usage usage;
    mica_memory_read(&usage);
    int64_t free_bytes = system_available(), left = INT64_MAX;
    if (usage.limit != INT64_MAX)
        left = usage.limit - usage.active - usage.by_kind[MICA_MEMORY_POOL] -
               (usage.mapped_in_limit ? usage.mapped : 0);
    if (left < free_bytes)
        free_bytes = left;
    double most = free_bytes > 2 ? (double)(free_bytes / 2) : 1;
    if (left == free_bytes && want > most && stepper->reserve) {
        int64_t reserve;
        MICA_TRY(stepper->reserve(stepper->model, n_sequences, &reserve));
        if ((double)(left - reserve) > most)
            most = (double)(left - reserve);
    } else if ((chosen || left == free_bytes) && one > most && one <= (double)free_bytes) {
        most = one;
    }
    *bytes = want < 1 ? 1 : (int64_t)(want < most ? want : most);
    return MICA_OK;
}

/* --- making one ------------------------------------------------------------------------------- */

/* `given`, or the model's own where it is 0; refused beyond that. */
static mica_status choose(const char *what, int64_t given, int64_t own, int64_t *chosen)
{
    if (given < 0 || given > own)
        MICA_FAIL(MICA_E_ARGUMENT, "%s is %lld; the model's step takes 1 to %lld", what,
                  (long long)given, (long long)own);
    *chosen = given ? given : own;
    return MICA_OK;
}

static mica_status check_stepper(const mica__stepper *stepper)
{
    if (!stepper->run || stepper->n_vocab < 1 || stepper->n_vocab > INT32_MAX ||
        stepper->context_length < 1 || stepper->context_length > INT32_MAX ||
        stepper->max_tokens < 1 || stepper->max_tokens > INT32_MAX || stepper->max_sequences < 1 ||
        stepper->max_sequences > INT32_MAX)
        MICA_FAIL(MICA_E_ARGUMENT, "the model describes its steps with sizes out of range");
    return MICA_OK;
}

static void on_change(void *owner, mica__sequence *sequence, mica_event_kind kind)
{
    mica_engine *engine = owner;
    if (kind == MICA_EVENT_FINISHED) {
        mica__engine_finish(engine, sequence, MICA_FINISH_MEMORY, MICA_E_MEMORY, -1, NULL);
        return;
    }
    mica__event_record *record = mica__events_add(&engine->events);
    record->event.kind = kind;
    record->event.request = sequence->id;
    record->event.choice = sequence->choice;
}

static mica_status configure(mica_engine *engine, const mica_engine_options *options)
{
    mica__scheduler *scheduler = &engine->scheduler;
    const mica__stepper *stepper = &engine->stepper;
    MICA_TRY(choose("the context", options->context, stepper->context_length, &engine->context));
    MICA_TRY(
        choose("step_tokens", options->step_tokens, stepper->max_tokens, &scheduler->step_tokens));
    MICA_TRY(choose("max_sequences", options->max_sequences, stepper->max_sequences,
                    &scheduler->max_sequences));
    if (options->prefill_chunk < 0 || options->queue_limit < 0 || options->kv_memory < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "prefill_chunk, queue_limit or kv_memory is negative");
    if (options->admission != MICA_ADMISSION_OPTIMISTIC &&
        options->admission != MICA_ADMISSION_STRICT)
        MICA_FAIL(MICA_E_ARGUMENT, "admission %d is unknown", (int)options->admission);
    scheduler->prefill_chunk = scheduler->step_tokens;
    if (options->prefill_chunk > 0 && options->prefill_chunk < scheduler->step_tokens)
        scheduler->prefill_chunk = options->prefill_chunk;
    scheduler->stepper = stepper;
    scheduler->token_limit = scheduler->step_tokens;
    scheduler->admission = options->admission;
    scheduler->on_change = on_change;
    scheduler->owner = engine;
    engine->queue_limit = options->queue_limit ? options->queue_limit : DEFAULT_QUEUE;
    engine->max_rows =
        scheduler->max_sequences > MIN_ROW_LIMIT ? scheduler->max_sequences : MIN_ROW_LIMIT;
    if (engine->max_rows > scheduler->step_tokens)
        engine->max_rows = scheduler->step_tokens;
    if (options->detokenizer) {
        engine->detokenizer = *options->detokenizer;
        engine->has_text = true;
        if (!engine->detokenizer.begin || !engine->detokenizer.add || !engine->detokenizer.end)
            MICA_FAIL(MICA_E_ARGUMENT, "the detokenizer lacks a function");
    }
    return MICA_OK;
}

static mica_status copy_end_tokens(mica_engine *engine, const mica_engine_options *options)
{
    const int64_t n = options->n_end_tokens;
    if (n < 0 || n > MICA__MAX_STOP_TOKENS || (n > 0 && !options->end_tokens))
        MICA_FAIL(MICA_E_ARGUMENT, "the list of %lld end tokens makes no sense", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (options->end_tokens[i] < 0 || options->end_tokens[i] >= engine->stepper.n_vocab)
            MICA_FAIL(MICA_E_ARGUMENT, "end token %d is not in the vocabulary of %lld",
                      (int)options->end_tokens[i], (long long)engine->stepper.n_vocab);
    if (n == 0)
        return MICA_OK;
    engine->end_tokens = mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)n, sizeof(int32_t));
    if (!engine->end_tokens)
        return MICA_E_MEMORY;
    memcpy(engine->end_tokens, options->end_tokens, (size_t)n * sizeof(int32_t));
    engine->n_end_tokens = n;
    return MICA_OK;
}

static mica_status allocate(void *list, int64_t count, size_t size)
{
    void *memory = mica__alloc_zero(MICA_MEMORY_WORKSPACE, (size_t)count, size);
    if (!memory)
        return MICA_E_MEMORY;
    memcpy(list, &memory, sizeof memory);
    return MICA_OK;
}

static mica_status allocate_step(mica_engine *engine)
{
    const int64_t n_sequences = engine->scheduler.max_sequences;
    const int64_t n_tokens = engine->scheduler.step_tokens;
    const int64_t blocks = mica__blocks_for(engine->context);
    int64_t entries, row_bytes;
    if (!mica__mul_i64(n_sequences, blocks + 1, &entries) ||
        !mica__mul_i64(engine->max_rows, engine->stepper.n_vocab, &row_bytes))
        MICA_FAIL(MICA_E_MEMORY, "block tables or logits cannot be represented");
    MICA_TRY(allocate(&engine->tokens, n_tokens, sizeof(int32_t)));
    MICA_TRY(allocate(&engine->positions, n_tokens, sizeof(int32_t)));
    MICA_TRY(allocate(&engine->sequence_of, n_tokens, sizeof(int32_t)));
    MICA_TRY(allocate(&engine->logits_rows, engine->max_rows, sizeof(int32_t)));
    MICA_TRY(allocate(&engine->kv_length, n_sequences, sizeof(int32_t)));
    MICA_TRY(allocate(&engine->state_slot, n_sequences, sizeof(int32_t)));
    MICA_TRY(allocate(&engine->members, n_sequences, sizeof(mica__sequence *)));
    MICA_TRY(allocate(&engine->scheduler.running, n_sequences, sizeof(mica__sequence *)));
    for (int pool = 0; pool < engine->stepper.n_pools; pool++)
        if (engine->stepper.pools[pool].kind != MICA__POOL_STATE)
            MICA_TRY(allocate(&engine->tables[pool], entries, sizeof(int32_t)));
    MICA_TRY(allocate(&engine->logits, engine->stepper.n_vocab, sizeof(float)));
    engine->row_capacity = 1;
    return mica__sampler_open(&engine->sampler, engine->stepper.n_vocab);
}

static mica_status open_engine(mica_engine *engine, const mica_engine_options *options)
{
    MICA_TRY(check_stepper(&engine->stepper));
    MICA_TRY(configure(engine, options));
    MICA_TRY(copy_end_tokens(engine, options));
    MICA_TRY(allocate_step(engine));
    int64_t kv = options->kv_memory;
    if (kv == 0)
        MICA_TRY(mica__engine_default_kv(&engine->stepper, engine->context,
                                         engine->scheduler.max_sequences, options->context > 0,
                                         &kv));
    return mica__kv_store_open(&engine->scheduler.store, engine->stepper.pools,
                               engine->stepper.n_pools, kv, !options->no_prefix_cache);
}

mica_status mica__engine_new(const mica__stepper *stepper, const mica_engine_options *options,
                             mica_engine **engine)
{
    static const mica_engine_options defaults;
    *engine = NULL;
    mica_engine *made = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *made);
    if (!made)
        return MICA_E_MEMORY;
    made->stepper = *stepper;
    pthread_mutex_init(&made->lock, NULL);
    mica__events_open(&made->events);
    const mica_status status = open_engine(made, options ? options : &defaults);
    if (status != MICA_OK) {
        made->stepper.release = NULL; /* the model stays the caller's */
        mica_engine_free(made);
        return status;
    }
    *engine = made;
    return MICA_OK;
}

void mica_engine_free(mica_engine *engine)
{
    if (!engine)
        return;
    while (engine->scheduler.oldest) {
        mica__sequence *sequence = engine->scheduler.oldest;
        mica__scheduler_remove(&engine->scheduler, sequence, false);
        mica__engine_discard(engine, sequence);
    }
    mica__kv_store_close(&engine->scheduler.store);
    mica__sampler_close(&engine->sampler);
    mica__events_close(&engine->events);
    for (int pool = 0; pool < MICA__KV_MAX_POOLS; pool++)
        mica__free(engine->tables[pool]);
    mica__free(engine->tokens);
    mica__free(engine->positions);
    mica__free(engine->sequence_of);
    mica__free(engine->logits_rows);
    mica__free(engine->kv_length);
    mica__free(engine->state_slot);
    mica__free(engine->members);
    mica__free(engine->scheduler.running);
    mica__free(engine->logits);
    mica__free(engine->end_tokens);
    pthread_mutex_destroy(&engine->lock);
    if (engine->stepper.release)
        engine->stepper.release(engine->stepper.model);
    mica__free(engine);
}

/* --- submitting ------------------------------------------------------------------------------- */

void mica__engine_discard(mica_engine *engine, mica__sequence *sequence)
{
    if (sequence->text_stream)
        engine->detokenizer.end(sequence->text_stream);
    if (sequence->constraint_state)
        sequence->request->constraint.end(sequence->constraint_state);
    mica__sequence_free(sequence);
}

static mica_status check_queue(const mica_engine *engine, int64_t n_choices)
{
    const mica__scheduler *scheduler = &engine->scheduler;
    if (n_choices > engine->queue_limit)
        MICA_FAIL(MICA_E_ARGUMENT, "%lld choices do not fit into the queue of %lld",
                  (long long)n_choices, (long long)engine->queue_limit);
    if (scheduler->n_waiting + n_choices > engine->queue_limit)
        MICA_FAIL(MICA_E_STATE,
                  "the queue is full: %lld sequences wait, %lld more would pass its limit of %lld "
                  "(%lld run, %lld are paused)",
                  (long long)scheduler->n_waiting, (long long)n_choices,
                  (long long)engine->queue_limit, (long long)scheduler->n_running,
                  (long long)scheduler->n_paused);
    return MICA_OK;
}

/* One choice with the states of its hooks; NULL on failure. */
static mica__sequence *make_choice(mica_engine *engine, mica__request *request,
                                   const mica_request *given, int64_t most)
{
    mica__sequence *sequence = mica__sequence_new(request, given->tokens, given->n_tokens, most);
    if (!sequence)
        return NULL;
    mica_status status = MICA_OK;
    if (engine->has_text)
        status = engine->detokenizer.begin(engine->detokenizer.owner, &sequence->text_stream);
    if (status == MICA_OK && given->constraint)
        status = given->constraint->begin(given->constraint->owner, &sequence->constraint_state);
    if (status == MICA_OK)
        return sequence;
    mica__engine_discard(engine, sequence);
    return NULL;
}

/* All choices in a chain of `newer` links, in order; NULL on failure. */
static mica__sequence *make_choices(mica_engine *engine, mica__request *request,
                                    const mica_request *given, int64_t n_choices, int64_t most)
{
    mica__sequence *first = NULL;
    for (int64_t choice = n_choices - 1; choice >= 0; choice--) {
        mica__sequence *sequence = make_choice(engine, request, given, most);
        if (!sequence) {
            while (first) {
                mica__sequence *next = first->newer;
                mica__engine_discard(engine, first);
                first = next;
            }
            return NULL;
        }
        sequence->choice = (int32_t)choice;
        sequence->newer = first;
        first = sequence;
    }
    return first;
}

static int64_t longest(const mica_engine *engine, const mica_request *request)
{
    if (request->max_tokens < 0 || request->max_tokens > engine->context - request->n_tokens)
        return engine->context;
    return request->n_tokens + request->max_tokens;
}

mica_status mica_engine_submit(mica_engine *engine, const mica_request *request, int64_t *id)
{
    const int64_t n_choices = request->n_choices ? request->n_choices : 1;
    *id = 0;
    MICA_TRY(
        mica__request_check(request, engine->stepper.n_vocab, engine->context, engine->has_text));
    MICA_TRY(check_queue(engine, n_choices));
    const int64_t most = longest(engine, request);
    MICA_TRY(
        mica__scheduler_check_fit(&engine->scheduler, request->n_tokens,
                                  most - 1 > request->n_tokens ? most - 1 : request->n_tokens));
    if (request->sampling.dry_multiplier > 0)
        MICA_TRY(mica__sampler_reserve_history(&engine->sampler, engine->context));
    mica__request *copy = mica__request_copy(request);
    if (!copy)
        return MICA_E_MEMORY;
    mica__sequence *first = make_choices(engine, copy, request, n_choices, most);
    mica__request_release(copy);
    if (!first)
        return MICA_E_MEMORY;
    const int64_t now = mica__clock_ns();
    *id = ++engine->last_id;
    pthread_mutex_lock(&engine->lock);
    while (first) {
        mica__sequence *next = first->newer;
        first->id = *id;
        first->submitted_ns = now;
        mica__scheduler_add(&engine->scheduler, first);
        first = next;
    }
    pthread_mutex_unlock(&engine->lock);
    return MICA_OK;
}

mica_status mica_engine_cancel(mica_engine *engine, int64_t id)
{
    bool found = false;
    pthread_mutex_lock(&engine->lock);
    for (mica__sequence *at = engine->scheduler.oldest; at; at = at->newer)
        if (at->id == id) {
            atomic_store(&at->cancelled, true);
            found = true;
        }
    pthread_mutex_unlock(&engine->lock);
    if (!found)
        MICA_FAIL(MICA_E_NOT_FOUND, "request %lld has ended or never was", (long long)id);
    return MICA_OK;
}

void mica_engine_interrupt(mica_engine *engine, bool interrupt)
{
    atomic_store(&engine->interrupted, interrupt);
}

/* --- stepping --------------------------------------------------------------------------------- */

static void obey_cancellations(mica_engine *engine)
{
    for (mica__sequence *at = engine->scheduler.oldest, *next; at; at = next) {
        next = at->newer;
        if (atomic_load(&at->cancelled))
            mica__engine_finish(engine, at, MICA_FINISH_CANCELLED, MICA_OK, -1, NULL);
    }
}

int64_t mica_engine_pending(const mica_engine *engine)
{
    const mica__scheduler *scheduler = &engine->scheduler;
    return scheduler->n_waiting + scheduler->n_running + scheduler->n_paused;
}

mica_status mica_engine_step(mica_engine *engine)
{
    const int64_t pending = mica_engine_pending(engine);
    const int64_t most = engine->scheduler.max_sequences;
    if (pending == 0)
        return MICA_OK;
    /* A sequence that runs can be resumed, paused, give a token and end; any can end. */
    MICA_TRY(
        mica__events_reserve(&engine->events, pending + 3 * (pending < most ? pending : most)));
    obey_cancellations(engine);
    mica__scheduler_admit(&engine->scheduler);
    mica__engine_run_step(engine);
    return MICA_OK;
}

bool mica_engine_next_event(mica_engine *engine, mica_event *event)
{
    return mica__events_take(&engine->events, event);
}

void mica_engine_read_stats(const mica_engine *engine, mica_engine_stats *stats)
{
    const mica__scheduler *scheduler = &engine->scheduler;
    const mica__kv_store *store = &scheduler->store;
    *stats = (mica_engine_stats){
        .waiting = scheduler->n_waiting,
        .running = scheduler->n_running,
        .paused = scheduler->n_paused,
        .finished = engine->n_finished,
        .steps = engine->n_steps,
        .computed_tokens = engine->n_computed,
        .cached_tokens = scheduler->n_cached_tokens,
        .output_tokens = engine->n_output,
        .pauses = scheduler->n_pauses,
        .kv_limit = store->budget.limit,
        .kv_used = store->budget.used,
        .kv_peak = store->budget.peak,
        .kv_cached = mica__kv_store_evictable(store),
        .evicted_blocks = store->tree.n_evicted,
        .model_s = (double)engine->model_ns * 1e-9,
    };
}

void mica_engine_clear_prefix_cache(mica_engine *engine)
{
    mica__kv_store_forget(&engine->scheduler.store);
}

/* --- keeping prompts -------------------------------------------------------------------------- */

static mica_status prefix_owner(const mica_engine *engine, mica__prefix_owner *owner)
{
    if (!engine->scheduler.store.caching)
        MICA_FAIL(MICA_E_STATE, "the engine was made without a prefix cache");
    if (!engine->stepper.identify)
        MICA_FAIL(MICA_E_UNSUPPORTED, "the model cannot say what its keys and values depend on");
    *owner = (mica__prefix_owner){.n_vocab = engine->stepper.n_vocab, .context = engine->context};
    return engine->stepper.identify(engine->stepper.model, &owner->identity);
}

static mica_status check_list(const int32_t *tokens, int64_t n_tokens)
{
    if (n_tokens < 0 || (n_tokens > 0 && !tokens))
        MICA_FAIL(MICA_E_ARGUMENT, "a list of %lld tokens makes no sense", (long long)n_tokens);
    return MICA_OK;
}

int64_t mica_engine_find_prefix(const mica_engine *engine, const int32_t *tokens, int64_t n_tokens)
{
    return n_tokens > 0 && tokens
               ? mica__prefix_find(&engine->scheduler.store.tree, tokens, n_tokens).n_tokens
               : 0;
}

mica_status mica_engine_save_prefix(mica_engine *engine, const int32_t *tokens, int64_t n_tokens,
                                    const char *path, int64_t *n_saved)
{
    mica__prefix_owner owner;
    *n_saved = 0;
    MICA_TRY(check_list(tokens, n_tokens));
    MICA_TRY(prefix_owner(engine, &owner));
    return mica__prefix_save(&engine->scheduler.store, &owner, tokens, n_tokens, path, n_saved);
}

mica_status mica_engine_load_prefix(mica_engine *engine, const char *path, const int32_t *tokens,
                                    int64_t n_tokens, mica_prefix_load *load)
{
    mica__prefix_owner owner;
    *load = (mica_prefix_load){0};
    MICA_TRY(check_list(tokens, tokens ? n_tokens : 0));
    MICA_TRY(prefix_owner(engine, &owner));
    return mica__prefix_load(&engine->scheduler.store, &owner, path, tokens, n_tokens, load);
}
