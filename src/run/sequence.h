/* sequence.h - one output in the making: its tokens and the KV blocks it holds.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_SEQUENCE_H
#define MICA_RUN_SEQUENCE_H

#include <stdatomic.h>

#include "run/kv_store.h"
#include "run/request.h"

typedef enum mica__sequence_state {
    MICA__SEQUENCE_WAITING, /* in the queue, nothing computed */
    MICA__SEQUENCE_RUNNING, /* holds blocks, takes part in steps */
    MICA__SEQUENCE_PAUSED   /* started, holds no blocks */
} mica__sequence_state;

typedef struct mica__sequence {
    struct mica__sequence *older, *newer; /* order of arrival */
    int64_t id;
    int32_t choice;
    mica__request *request;
    mica__sequence_state state;
    _Atomic bool cancelled; /* set by any thread */

    int32_t *tokens; /* [n_tokens] prompt and output */
    int64_t n_tokens;
    int64_t n_prompt;
    int64_t token_capacity;
    int64_t max_tokens; /* prompt and output together never exceed this */

    /* KV: positions [0, computed) are in the pools. tables[pool][i] is the block of positions
     * [16 i, 16 i + 16), -1 where the sequence holds none. */
    int64_t computed;
    int32_t *tables[MICA__KV_MAX_POOLS]; /* [table_capacity] */
    int64_t table_capacity;
    int64_t table_used;                 /* entries from here on are -1 in every pool */
    int64_t held[MICA__KV_MAX_POOLS];   /* entries that are not -1; state: slots of its own */
    int64_t passed[MICA__KV_MAX_POOLS]; /* entries before this are -1: behind the window */
    int32_t slots[MICA__KV_MAX_POOLS];  /* state pools: the slot, -1 without; while held is 0, a
                                           checkpoint of the tree to start from */
    int64_t promised;                   /* positions that admission found room for */

    int64_t chunk; /* positions of the step being planned, 0: not in it */
    int64_t row;   /* its first row of logits in that step */

    void *text_stream; /* of the detokenizer */
    mica__stop_watch watch;
    void *constraint_state;
    int64_t next_logits; /* the next prompt position whose logits the request wants to see */

    mica_usage usage;
    int64_t submitted_ns, started_ns, first_token_ns; /* 0: not yet */
} mica__sequence;

/* A waiting sequence with a copy of the prompt; takes a reference on the request. NULL on failure.
 */
mica__sequence *mica__sequence_new(mica__request *request, const int32_t *prompt, int64_t n_prompt,
                                   int64_t max_tokens);

/* Frees the sequence, which must hold no blocks. */
void mica__sequence_free(mica__sequence *sequence);

/* The most positions whose KV it can ever need: the last token drawn is never computed. */
int64_t mica__sequence_most_positions(const mica__sequence *sequence);

/* Finds the longest prefix of its history in the tree and takes references on it: `computed`
 * becomes its length. Nothing else is taken and nothing evicted. The sequence must hold nothing;
 * the tables are made to cover n_positions first. On failure it holds nothing. */
mica_status mica__sequence_adopt(mica__sequence *sequence, mica__kv_store *store,
                                 int64_t n_positions);

/* Takes what positions [computed, to) need in pools of one kind: blocks, or (state) a slot, filled
 * with the adopted checkpoint or zeros. On failure it keeps what it got. */
mica_status mica__sequence_take(mica__sequence *sequence, mica__kv_store *store,
                                mica__pool_kind kind, int64_t to);

/* Makes room for one more token. */
mica_status mica__sequence_reserve_token(mica__sequence *sequence);

/* Gives the whole blocks of positions [0, to) to the prefix tree as well; to <= computed. */
void mica__sequence_publish(mica__sequence *sequence, mica__kv_store *store, int64_t to);

/* Where a prompt's recurrent state is kept: its last whole block that leaves a token to compute. */
int64_t mica__sequence_checkpoint_at(const mica__sequence *sequence);

/* Drops window blocks that no position from the last whole block's end on sees: with what stays the
 * history can be taken up there again. */
void mica__sequence_pass(mica__sequence *sequence, mica__kv_store *store);

/* Drops every block and slot; nothing is computed any more. */
void mica__sequence_drop(mica__sequence *sequence, mica__kv_store *store);

#endif
