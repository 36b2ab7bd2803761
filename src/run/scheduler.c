/* scheduler.c - which sequences run, and what the next step computes.
 *
 * A sequence waits, runs, is paused, ends. Admission takes all full-attention blocks of the history
 * and of the tokens right ahead at once (neighbours where possible) and counts the window blocks
 * that running sequences were promised and have not taken yet, so what it admits can go on. The
 * order of arrival decides everything: the oldest is admitted and resumed first, the youngest is
 * paused first, and nobody new is admitted while somebody is paused. So the oldest always goes on,
 * and every sequence is the oldest at some time.
 * SPDX-License-Identifier: MIT
 */
#include "run/scheduler.h"

#include <string.h>

#define BLOCK MICA__KV_BLOCK_TOKENS

/* Successful steps before a lowered token limit is doubled again. */
#define STEPS_TO_RECOVER 8

/* --- what a sequence needs -------------------------------------------------------------------- */

/* How needs are counted. At the least, in bytes of blocks whose neighbours share their pages and
 * with chunks of one token: what a sequence alone can do with. Or with all pages that a block may
 * need for itself and chunks of full size: a promise that can be kept beside others. */
typedef enum counting { COUNT_LEAST, COUNT_SURELY } counting;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t remaining(const mica__sequence *sequence)
{
    return sequence->n_tokens - sequence->computed;
}

static int64_t block_cost(const mica__scheduler *scheduler, int pool, counting how)
{
    const mica__kv_pool *blocks = &scheduler->store.pools[pool];
    return how == COUNT_SURELY ? mica__kv_pool_worst_bytes(blocks) : blocks->spec.block_bytes;
}

/* Bytes that growing to `positions` takes beyond `held` blocks. */
static int64_t bytes_for(const mica__scheduler *scheduler, int64_t positions,
                         const int64_t held[MICA__KV_MAX_POOLS], counting how)
{
    const int64_t chunk = how == COUNT_SURELY ? scheduler->prefill_chunk : 1;
    int64_t bytes = 0;
    for (int pool = 0; pool < scheduler->store.n_pools; pool++) {
        const mica__pool_spec *spec = &scheduler->store.pools[pool].spec;
        int64_t blocks = 1;
        if (spec->kind == MICA__POOL_WINDOW)
            blocks = mica__window_blocks(spec, positions, chunk);
        else if (spec->kind == MICA__POOL_FULL)
            blocks = mica__blocks_for(positions);
        if (blocks > held[pool])
            bytes += (blocks - held[pool]) * block_cost(scheduler, pool, how);
    }
    return bytes;
}

mica_status mica__scheduler_check_fit(const mica__scheduler *scheduler, int64_t n_prompt,
                                      int64_t most_positions)
{
    static const int64_t nothing[MICA__KV_MAX_POOLS];
    const int64_t limit = scheduler->store.budget.limit;
    const int64_t prompt = bytes_for(scheduler, n_prompt, nothing, COUNT_LEAST);
    if (prompt > limit)
        MICA_FAIL(MICA_E_MEMORY,
                  "a prompt of %lld tokens needs %lld bytes of KV, the whole KV budget is %lld",
                  (long long)n_prompt, (long long)prompt, (long long)limit);
    const int64_t all = bytes_for(scheduler, most_positions, nothing, COUNT_SURELY);
    if (scheduler->admission == MICA_ADMISSION_STRICT && all > limit)
        MICA_FAIL(MICA_E_MEMORY,
                  "fully grown to %lld tokens the request needs %lld bytes of KV, the whole KV "
                  "budget is %lld; strict admission takes only what fits: ask for fewer tokens",
                  (long long)most_positions, (long long)all, (long long)limit);
    return MICA_OK;
}

/* --- what there is ---------------------------------------------------------------------------- */

/* Bytes that are free or evictable. */
static int64_t room_left(const mica__scheduler *scheduler, counting how)
{
    int64_t room = scheduler->store.budget.limit;
    for (int pool = 0; pool < scheduler->store.n_pools; pool++) {
        const mica__kv_pool *blocks = &scheduler->store.pools[pool];
        room -= (blocks->n_live - blocks->n_evictable) * block_cost(scheduler, pool, how);
    }
    return room;
}

static int64_t positions_ahead(const mica__scheduler *scheduler, const mica__sequence *sequence,
                               int64_t more)
{
    const int64_t most = mica__sequence_most_positions(sequence);
    if (scheduler->admission == MICA_ADMISSION_STRICT)
        return most;
    return least(most, sequence->n_tokens + MICA__ADMISSION_AHEAD + more);
}

/* Bytes that running sequences were promised and have not taken; at least those of their next
 * tokens with `ahead` >= 0, and as many more. */
static int64_t outstanding(const mica__scheduler *scheduler, int64_t ahead, counting how)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < scheduler->n_running; i++) {
        const mica__sequence *sequence = scheduler->running[i];
        int64_t positions = sequence->promised;
        if (ahead >= 0 && positions < positions_ahead(scheduler, sequence, ahead))
            positions = positions_ahead(scheduler, sequence, ahead);
        bytes += bytes_for(scheduler, positions, sequence->held, how);
    }
    return bytes;
}

/* Steps until a sequence has computed its history again beside those that run. */
static int64_t steps_to_catch_up(const mica__scheduler *scheduler, const mica__sequence *sequence)
{
    int64_t tokens = remaining(sequence);
    for (int64_t i = 0; i < scheduler->n_running; i++)
        tokens += remaining(scheduler->running[i]) - 1;
    int64_t rate = least(scheduler->prefill_chunk, scheduler->step_tokens - scheduler->n_running);
    if (rate < 1)
        rate = 1;
    return tokens / rate + 1;
}

/* --- lists ------------------------------------------------------------------------------------ */

void mica__scheduler_add(mica__scheduler *scheduler, mica__sequence *sequence)
{
    sequence->state = MICA__SEQUENCE_WAITING;
    sequence->older = scheduler->newest;
    sequence->newer = NULL;
    if (scheduler->newest)
        scheduler->newest->newer = sequence;
    else
        scheduler->oldest = sequence;
    scheduler->newest = sequence;
    scheduler->n_waiting++;
}

static void stop_running(mica__scheduler *scheduler, mica__sequence *sequence)
{
    int64_t i = 0;
    while (scheduler->running[i] != sequence)
        i++;
    memmove(&scheduler->running[i], &scheduler->running[i + 1],
            (size_t)(scheduler->n_running - i - 1) * sizeof *scheduler->running);
    scheduler->n_running--;
    sequence->chunk = 0;
    if (sequence->request->pioneer == sequence)
        sequence->request->pioneer = NULL;
}

void mica__scheduler_remove(mica__scheduler *scheduler, mica__sequence *sequence, bool keep)
{
    if (sequence->state == MICA__SEQUENCE_RUNNING) {
        stop_running(scheduler, sequence);
        if (keep)
            mica__sequence_publish(sequence, &scheduler->store, sequence->computed);
    } else if (sequence->state == MICA__SEQUENCE_WAITING) {
        scheduler->n_waiting--;
    } else {
        scheduler->n_paused--;
    }
    mica__sequence_drop(sequence, &scheduler->store);
    if (sequence->older)
        sequence->older->newer = sequence->newer;
    else
        scheduler->oldest = sequence->newer;
    if (sequence->newer)
        sequence->newer->older = sequence->older;
    else
        scheduler->newest = sequence->older;
}

static void pause_youngest(mica__scheduler *scheduler)
{
    mica__sequence *sequence = scheduler->running[scheduler->n_running - 1];
    stop_running(scheduler, sequence);
    mica__sequence_publish(sequence, &scheduler->store, sequence->computed);
    mica__sequence_drop(sequence, &scheduler->store);
    sequence->state = MICA__SEQUENCE_PAUSED;
    sequence->usage.pauses++;
    scheduler->n_paused++;
    scheduler->n_pauses++;
    scheduler->on_change(scheduler->owner, sequence, MICA_EVENT_PAUSED);
}

/* --- admission -------------------------------------------------------------------------------- */

/* Whether the budget has room for a sequence that grows to `positions`, with what others were
 * promised. One that was paused waits until it can stay: until all that run can go on while it
 * catches up, and a while longer. Alone, what does not fit on the second thought can be dealt with
 * then. */
static mica_status check_room(const mica__scheduler *scheduler, const mica__sequence *sequence,
                              int64_t positions)
{
    const bool alone = scheduler->n_running == 0;
    const counting how =
        alone && scheduler->admission == MICA_ADMISSION_OPTIMISTIC ? COUNT_LEAST : COUNT_SURELY;
    const int64_t ahead =
        sequence->state == MICA__SEQUENCE_PAUSED ? steps_to_catch_up(scheduler, sequence) : -1;
    const int64_t need = bytes_for(scheduler, positions, sequence->held, how);
    const int64_t room = room_left(scheduler, how) - outstanding(scheduler, ahead, how);
    if (need > room)
        MICA_FAIL(MICA_E_MEMORY,
                  "%lld tokens need %lld bytes of KV, the budget of %lld has room for %lld",
                  (long long)positions, (long long)need, (long long)scheduler->store.budget.limit,
                  (long long)room);
    return MICA_OK;
}

/* Everything that the sequence needs up to `positions` beyond what it adopted. */
static mica_status take_ahead(mica__scheduler *scheduler, mica__sequence *sequence,
                              int64_t positions)
{
    MICA_TRY(check_room(scheduler, sequence, positions));
    MICA_TRY(mica__sequence_reserve_token(sequence));
    MICA_TRY(mica__sequence_take(sequence, &scheduler->store, MICA__POOL_STATE, positions));
    return mica__sequence_take(sequence, &scheduler->store, MICA__POOL_FULL, positions);
}

static mica_status try_to_start(mica__scheduler *scheduler, mica__sequence *sequence,
                                int64_t positions)
{
    MICA_TRY(mica__sequence_adopt(sequence, &scheduler->store, positions));
    const mica_status status = take_ahead(scheduler, sequence, positions);
    if (status != MICA_OK)
        mica__sequence_drop(sequence, &scheduler->store);
    return status;
}

static bool arrived_before(const mica__sequence *a, const mica__sequence *b)
{
    return a->id < b->id || (a->id == b->id && a->choice < b->choice);
}

static void insert_running(mica__scheduler *scheduler, mica__sequence *sequence)
{
    int64_t at = scheduler->n_running++;
    for (; at > 0 && arrived_before(sequence, scheduler->running[at - 1]); at--)
        scheduler->running[at] = scheduler->running[at - 1];
    scheduler->running[at] = sequence;
}

static mica_status start(mica__scheduler *scheduler, mica__sequence *sequence, int64_t positions)
{
    MICA_TRY(try_to_start(scheduler, sequence, positions));
    const bool resumes = sequence->state == MICA__SEQUENCE_PAUSED;
    if (resumes)
        scheduler->n_paused--;
    else
        scheduler->n_waiting--;
    sequence->state = MICA__SEQUENCE_RUNNING;
    sequence->promised = positions;
    sequence->chunk = 0;
    insert_running(scheduler, sequence);
    scheduler->n_cached_tokens += sequence->computed;
    if (!sequence->request->prompt_computed && !sequence->request->pioneer)
        sequence->request->pioneer = sequence;
    if (resumes)
        scheduler->on_change(scheduler->owner, sequence, MICA_EVENT_RESUMED);
    else
        sequence->usage.cached_tokens = sequence->computed;
    return MICA_OK;
}

/* Another choice computes the prompt that this one would find in the prefix tree. */
static bool waits_for_pioneer(const mica__scheduler *scheduler, const mica__sequence *sequence)
{
    return scheduler->store.caching && sequence->request->pioneer &&
           sequence->request->pioneer != sequence && sequence->n_prompt > BLOCK;
}

/* The next in line: paused ones first. */
static mica__sequence *next_in_line(const mica__scheduler *scheduler)
{
    const mica__sequence_state wanted =
        scheduler->n_paused > 0 ? MICA__SEQUENCE_PAUSED : MICA__SEQUENCE_WAITING;
    for (mica__sequence *sequence = scheduler->oldest; sequence; sequence = sequence->newer)
        if (sequence->state == wanted &&
            (wanted == MICA__SEQUENCE_PAUSED || !waits_for_pioneer(scheduler, sequence)))
            return sequence;
    return NULL;
}

void mica__scheduler_admit(mica__scheduler *scheduler)
{
    while (scheduler->n_running < scheduler->max_sequences) {
        mica__sequence *sequence = next_in_line(scheduler);
        if (!sequence)
            return;
        if (start(scheduler, sequence, positions_ahead(scheduler, sequence, 0)) == MICA_OK)
            continue;
        if (scheduler->n_running > 0)
            return;
        /* It has everything to itself: its history alone may fit, or nothing ever will. */
        if (scheduler->admission == MICA_ADMISSION_STRICT ||
            start(scheduler, sequence, sequence->n_tokens) != MICA_OK)
            scheduler->on_change(scheduler->owner, sequence, MICA_EVENT_FINISHED);
    }
}

/* --- planning a step -------------------------------------------------------------------------- */

bool mica__scheduler_wants_row(const mica__sequence *sequence, int64_t position)
{
    if (position >= sequence->next_logits && position < sequence->n_prompt)
        return true;
    return position == sequence->n_tokens - 1 && sequence->max_tokens > sequence->n_prompt;
}

int64_t mica__scheduler_rows(const mica__sequence *sequence)
{
    const int64_t end = sequence->computed + sequence->chunk;
    int64_t rows = sequence->chunk > 0 && mica__scheduler_wants_row(sequence, end - 1);
    const int64_t first =
        sequence->next_logits > sequence->computed ? sequence->next_logits : sequence->computed;
    const int64_t seen_end = least(end - 1, sequence->n_prompt);
    if (seen_end > first)
        rows += seen_end - first;
    return rows;
}

static bool has_state(const mica__scheduler *scheduler)
{
    for (int pool = 0; pool < scheduler->store.n_pools; pool++)
        if (scheduler->store.pools[pool].spec.kind == MICA__POOL_STATE)
            return true;
    return false;
}

/* The largest chunk of at most `tokens` positions with at most `rows` rows of logits. */
static int64_t largest_chunk(const mica__scheduler *scheduler, mica__sequence *sequence,
                             int64_t tokens, int64_t rows)
{
    int64_t chunk = least(least(remaining(sequence), scheduler->prefill_chunk), tokens);
    const int64_t checkpoint = mica__sequence_checkpoint_at(sequence);
    if (has_state(scheduler) && checkpoint > sequence->computed)
        chunk = least(chunk, checkpoint - sequence->computed);
    sequence->chunk = chunk;
    while (sequence->chunk > 0) {
        const int64_t excess = mica__scheduler_rows(sequence) - rows;
        if (excess <= 0)
            break;
        sequence->chunk -= excess < sequence->chunk ? excess : sequence->chunk;
    }
    chunk = sequence->chunk;
    sequence->chunk = 0;
    return chunk;
}

/* Shares the step's tokens and rows out: one token for everybody who has one left to compute, then
 * chunks of prompts. One token is kept for prompts, so that both go on however small a step is. */
static void assign_chunks(mica__scheduler *scheduler, int64_t rows)
{
    const int64_t n = scheduler->n_running;
    int64_t tokens = scheduler->token_limit;
    bool has_prefill = false;
    for (int64_t i = 0; i < n; i++) {
        scheduler->running[i]->chunk = 0;
        has_prefill |= remaining(scheduler->running[i]) > 1;
    }
    const bool prefill_turn = tokens == 1 && scheduler->n_steps % 2 == 1;
    const int64_t kept = has_prefill && (tokens > 1 || prefill_turn) ? 1 : 0;
    for (int64_t k = 0; k < n && tokens > kept; k++) {
        mica__sequence *sequence = scheduler->running[(scheduler->turn + k) % n];
        if (remaining(sequence) != 1)
            continue;
        sequence->chunk = largest_chunk(scheduler, sequence, 1, rows);
        tokens -= sequence->chunk;
        rows -= mica__scheduler_rows(sequence);
    }
    for (int64_t i = 0; i < n && tokens > 0; i++) {
        mica__sequence *sequence = scheduler->running[i];
        if (remaining(sequence) == 1)
            continue;
        sequence->chunk = largest_chunk(scheduler, sequence, tokens, rows);
        tokens -= sequence->chunk;
        rows -= mica__scheduler_rows(sequence);
    }
}

static mica_status cover_chunk(mica__scheduler *scheduler, mica__sequence *sequence)
{
    const int64_t to = sequence->computed + sequence->chunk;
    MICA_TRY(mica__sequence_reserve_token(sequence));
    MICA_TRY(mica__sequence_take(sequence, &scheduler->store, MICA__POOL_FULL, to));
    return mica__sequence_take(sequence, &scheduler->store, MICA__POOL_WINDOW, to);
}

/* Gets the blocks for a sequence's chunk, at the cost of younger ones. It may end up paused or
 * ended itself. */
static void secure_chunk(mica__scheduler *scheduler, mica__sequence *sequence)
{
    while (cover_chunk(scheduler, sequence) != MICA_OK) {
        if (scheduler->n_running > 1) {
            const bool itself = scheduler->running[scheduler->n_running - 1] == sequence;
            pause_youngest(scheduler);
            if (itself)
                return;
        } else if (sequence->chunk > 1) {
            sequence->chunk /= 2;
        } else {
            scheduler->on_change(scheduler->owner, sequence, MICA_EVENT_FINISHED);
            return;
        }
    }
}

int64_t mica__scheduler_plan(mica__scheduler *scheduler, int64_t max_rows)
{
    int64_t tokens = 0;
    assign_chunks(scheduler, max_rows);
    for (int64_t i = 0; i < scheduler->n_running; i++)
        if (scheduler->running[i]->chunk > 0)
            secure_chunk(scheduler, scheduler->running[i]);
    for (int64_t i = 0; i < scheduler->n_running; i++)
        tokens += scheduler->running[i]->chunk;
    return tokens;
}

/* --- after a step ----------------------------------------------------------------------------- */

void mica__scheduler_advance(mica__scheduler *scheduler, mica__sequence *sequence)
{
    const int64_t before = sequence->computed;
    sequence->computed += sequence->chunk;
    sequence->usage.computed_tokens += sequence->chunk;
    if (before < sequence->n_prompt)
        mica__sequence_publish(sequence, &scheduler->store,
                               least(sequence->computed, sequence->n_prompt));
    if (sequence->computed >= sequence->n_prompt) {
        sequence->request->prompt_computed = true;
        sequence->request->pioneer = NULL;
    }
    mica__sequence_pass(sequence, &scheduler->store);
}

void mica__scheduler_succeeded(mica__scheduler *scheduler, int64_t n_decoded)
{
    scheduler->n_steps++;
    if (scheduler->n_running > 0)
        scheduler->turn = (scheduler->turn + n_decoded) % scheduler->n_running;
    if (scheduler->token_limit == scheduler->step_tokens ||
        ++scheduler->successes < STEPS_TO_RECOVER)
        return;
    scheduler->token_limit = least(scheduler->token_limit * 2, scheduler->step_tokens);
    scheduler->successes = 0;
}

bool mica__scheduler_relieve(mica__scheduler *scheduler, int64_t n_tokens)
{
    scheduler->successes = 0;
    if (n_tokens > 1) {
        scheduler->token_limit = n_tokens / 2;
        return true;
    }
    if (mica__kv_store_evictable(&scheduler->store) > 0) {
        mica__kv_store_forget(&scheduler->store);
        return true;
    }
    if (scheduler->n_running > 1) {
        pause_youngest(scheduler);
        return true;
    }
    return false;
}
