/* fake_model.c - a stepper whose logits depend on every token it should see and on nothing else.
 * SPDX-License-Identifier: MIT
 */
#include "engine/fake_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK MICA__KV_BLOCK_TOKENS

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 29;
}

static void write_logits(uint64_t seen, float *logits, int64_t n_vocab)
{
    for (int64_t v = 0; v < n_vocab; v++)
        logits[v] = (float)(mix(seen, (uint64_t)v) >> 40) * 0x1p-21f - 4;
}

static void complain(fake_model *model, const char *what, int64_t a, int64_t b)
{
    if (!model->violation[0])
        snprintf(model->violation, sizeof model->violation, "%s (%lld, %lld)", what, (long long)a,
                 (long long)b);
}

/* --- the rules of a step ---------------------------------------------------------------------- */

static void check_positions(fake_model *model, const mica__step *step)
{
    for (int64_t s = 0; s < step->n_sequences; s++) {
        int64_t last = -1;
        for (int64_t t = 0; t < step->n_tokens; t++) {
            if (step->sequence_of[t] != s)
                continue;
            if (last >= 0 && step->positions[t] != last + 1)
                complain(model, "positions of a sequence have a gap", s, step->positions[t]);
            last = step->positions[t];
        }
        if (last + 1 != step->kv_length[s])
            complain(model, "kv_length does not match", step->kv_length[s], last);
    }
    for (int64_t t = 0; t < step->n_tokens; t++) {
        if (step->sequence_of[t] < 0 || step->sequence_of[t] >= step->n_sequences)
            complain(model, "sequence_of is out of range", t, step->sequence_of[t]);
        if (step->positions[t] >= model->stepper.context_length)
            complain(model, "a position is beyond the context", t, step->positions[t]);
        if (step->tokens[t] < 0 || step->tokens[t] >= model->stepper.n_vocab)
            complain(model, "a token is outside the vocabulary", t, step->tokens[t]);
    }
    for (int64_t r = 0; r < step->n_rows; r++)
        if (step->logits_rows[r] >= step->n_tokens || step->logits_rows[r] < 0 ||
            (r > 0 && step->logits_rows[r] <= step->logits_rows[r - 1]))
            complain(model, "logits_rows are not ascending", r, step->logits_rows[r]);
}

/* No block that is written in this step is in another sequence's table. */
static void check_writes(fake_model *model, const mica__step *step)
{
    for (int64_t t = 0; t < step->n_tokens; t++)
        for (int pool = 0; pool < model->stepper.n_pools; pool++) {
            if (model->stepper.pools[pool].kind == MICA__POOL_STATE)
                continue;
            const int32_t *tables = step->block_table[pool];
            const int64_t s = step->sequence_of[t], index = step->positions[t] / BLOCK;
            const int32_t block = tables[s * step->table_stride + index];
            if (index >= step->table_stride || block < 0) {
                complain(model, "a position has no block", pool, step->positions[t]);
                return;
            }
            for (int64_t i = 0; i < step->n_sequences * step->table_stride; i++)
                if (tables[i] == block && i != s * step->table_stride + index)
                    complain(model, "a block that is written is shared", pool, block);
        }
}

/* --- running ---------------------------------------------------------------------------------- */

static uint64_t *record_at(const fake_model *model, const mica__step *step, int pool, int64_t s,
                           int64_t position, uint64_t *lost)
{
    const int32_t block = step->block_table[pool][s * step->table_stride + position / BLOCK];
    if (block < 0)
        return lost;
    uint8_t *bytes =
        step->pool_base[pool] + (int64_t)block * model->stepper.pools[pool].block_bytes;
    return (uint64_t *)(void *)(bytes + position % BLOCK * 8);
}

static uint64_t load(const uint64_t *record)
{
    uint64_t value;
    memcpy(&value, record, sizeof value);
    return value;
}

static void store(uint64_t *record, uint64_t value)
{
    memcpy(record, &value, sizeof value);
}

/* Computes one token; returns the hash of all that it sees. */
static uint64_t compute(fake_model *model, const mica__step *step, int64_t t)
{
    const int64_t s = step->sequence_of[t], position = step->positions[t];
    uint64_t seen = 0, lost = 0xdead;
    for (int pool = 0; pool < model->stepper.n_pools; pool++) {
        const mica__pool_spec *spec = &model->stepper.pools[pool];
        const uint64_t own = mix((uint64_t)step->tokens[t], (uint64_t)position);
        uint64_t hash = (uint64_t)pool;
        if (spec->kind == MICA__POOL_STATE) {
            uint64_t *state = (uint64_t *)(void *)(step->pool_base[pool] +
                                                   step->state_slot[s] * spec->block_bytes);
            hash = mix(load(state), own);
            store(state, hash);
        } else {
            int64_t first = spec->kind == MICA__POOL_WINDOW ? position - spec->window + 1 : 0;
            for (first = first > 0 ? first : 0; first < position; first++)
                hash = mix(hash, load(record_at(model, step, pool, s, first, &lost)));
            hash = mix(hash, own);
            store(record_at(model, step, pool, s, position, &lost), hash);
        }
        seen = mix(seen, hash);
    }
    return seen;
}

static mica_status fail(fake_model *model, const mica__step *step, mica_status status)
{
    uint64_t lost;
    for (int64_t t = 0; t < step->n_tokens; t++)
        for (int pool = 0; pool < model->stepper.n_pools; pool++)
            if (model->stepper.pools[pool].kind != MICA__POOL_STATE)
                store(record_at(model, step, pool, step->sequence_of[t], step->positions[t], &lost),
                      0xeeeeeeeeeeeeeeeeu);
    return mica__fail(status, "the fake model failed on purpose");
}

static mica_status run(void *owner, const mica__step *step)
{
    fake_model *model = owner;
    model->n_calls++;
    if (step->n_tokens < 1 || step->n_tokens > model->stepper.max_tokens || step->n_sequences < 1 ||
        step->n_sequences > model->stepper.max_sequences)
        complain(model, "a step of impossible size", step->n_tokens, step->n_sequences);
    check_positions(model, step);
    check_writes(model, step);
    if (model->violation[0])
        return mica__fail(MICA_E_INTERNAL, "%s", model->violation);
    if (model->fail_from && model->n_calls >= model->fail_from &&
        model->n_calls < model->fail_from + model->fail_count)
        return fail(model, step, model->fail_status);
    if (model->fail_above && step->n_tokens > model->fail_above)
        return fail(model, step, MICA_E_MEMORY);
    int64_t row = 0;
    for (int64_t t = 0; t < step->n_tokens; t++) {
        const uint64_t seen = compute(model, step, t);
        if (row < step->n_rows && step->logits_rows[row] == t) {
            write_logits(seen, step->logits + row * model->stepper.n_vocab, model->stepper.n_vocab);
            row++;
        }
    }
    if (model->n_calls == model->nan_call && step->n_rows > 0)
        step->logits[3] = NAN;
    model->n_runs++;
    model->n_tokens += step->n_tokens;
    model->n_rows += step->n_rows;
    if (step->n_tokens > model->largest_step)
        model->largest_step = step->n_tokens;
    return MICA_OK;
}

void fake_open(fake_model *model)
{
    memset(model, 0, sizeof *model);
    model->stepper = (mica__stepper){.model = model,
                                     .n_vocab = 97,
                                     .context_length = 1024,
                                     .max_tokens = 64,
                                     .max_sequences = 16,
                                     .run = run};
}

void fake_add_pool(fake_model *model, mica__pool_kind kind, int64_t window, int64_t block_bytes)
{
    model->stepper.pools[model->stepper.n_pools++] =
        (mica__pool_spec){.kind = kind, .window = window, .block_bytes = block_bytes};
}

/* --- the oracle ------------------------------------------------------------------------------- */

void fake_oracle_feed(fake_oracle *oracle, int32_t token, float *logits)
{
    const int64_t position = oracle->n++;
    const uint64_t own = mix((uint64_t)token, (uint64_t)position);
    uint64_t seen = 0;
    for (int pool = 0; pool < oracle->stepper->n_pools; pool++) {
        const mica__pool_spec *spec = &oracle->stepper->pools[pool];
        uint64_t *records = oracle->records[pool], hash = (uint64_t)pool;
        int64_t first = spec->kind == MICA__POOL_WINDOW ? position - spec->window + 1 : 0;
        if (spec->kind == MICA__POOL_STATE)
            hash = mix(position > 0 ? records[position - 1] : 0, own);
        else {
            for (first = first > 0 ? first : 0; first < position; first++)
                hash = mix(hash, records[first]);
            hash = mix(hash, own);
        }
        records[position] = hash;
        seen = mix(seen, hash);
    }
    if (logits)
        write_logits(seen, logits, oracle->stepper->n_vocab);
}
