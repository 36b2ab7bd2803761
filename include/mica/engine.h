/* engine.h - many sequences generated at once from one model.
 *
 * The engine is pulled: its owner submits requests, calls mica_engine_step, and reads events. One
 * thread owns an engine and makes all calls; only mica_engine_cancel and mica_engine_interrupt may
 * come from any thread.
 *
 *     mica_request request;
 *     mica_request_init(&request);
 *     request.tokens = prompt;
 *     request.n_tokens = n;
 *     mica_engine_submit(engine, &request, &id);
 *     while (mica_engine_pending(engine) > 0) {
 *         mica_engine_step(engine);
 *         while (mica_engine_next_event(engine, &event))
 *             ...
 *     }
 *
 * What a request yields depends on its tokens, its parameters and its seed only: not on what else
 * runs, on how prompts are cut into chunks, on what is cached, on pauses.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_ENGINE_H
#define MICA_ENGINE_H

#include <mica/model.h>
#include <mica/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mica_engine mica_engine;

/* --- options ---------------------------------------------------------------------------------- */

/* How keys and values are stored: enumerator, name as --kv takes it. q8 and q4 have groups of 32
 * values along a head with an f16 scale. */
#define MICA_KV_DTYPES(X)                                                                          \
    X(MICA_KV_F16, "f16") /* the default */                                                        \
    X(MICA_KV_F32, "f32")                                                                          \
    X(MICA_KV_BF16, "bf16")                                                                        \
    X(MICA_KV_Q8, "q8")                                                                            \
    X(MICA_KV_Q4, "q4")

typedef enum mica_kv_dtype {
#define X(name, text) name,
    MICA_KV_DTYPES(X)
#undef X
        MICA_N_KV_DTYPES
} mica_kv_dtype;

/* "f16", or "?" outside the list. Static storage. */
MICA_API const char *mica_kv_dtype_name(mica_kv_dtype dtype);

typedef enum mica_admission {
    MICA_ADMISSION_OPTIMISTIC, /* prompt and next steps fit; growth is dealt with by pausing */
    MICA_ADMISSION_STRICT      /* only what fits fully grown: nothing is ever paused for blocks */
} mica_admission;

/* Zero means the default everywhere. */
typedef struct mica_engine_options {
    int64_t kv_memory;      /* bytes of KV at most; default: half of what is free (of the memory
                               limit, or of the machine), at most what the sequences can use; more
                               where a memory limit leaves more beside what steps need, or where
                               that is what one sequence of a context that was given takes */
    int64_t context;        /* tokens of prompt and output together at most; default: the model's */
    mica_kv_dtype kv_dtype; /* used when the engine is made from a model */
    int64_t prefill_chunk; /* prompt tokens of one sequence in one step at most; default: as many as
                              a step holds */
    int64_t step_tokens;   /* tokens in one step at most; default: what the model's step holds */
    int64_t max_sequences; /* sequences that run at once; default: what the model's step holds */
    int64_t queue_limit;   /* sequences that wait at most; default 256 */
    mica_admission admission;
    bool no_prefix_cache;      /* forget the blocks of finished and paused sequences at once */
    const int32_t *end_tokens; /* [n_end_tokens] copied; tokens that end a sequence */
    int64_t n_end_tokens;
    const struct mica_detokenizer *detokenizer; /* copied; NULL: events carry no text */
} mica_engine_options;

/* How token ids become text. All functions are called by the thread that owns the engine. */
typedef struct mica_detokenizer {
    void *owner;
    /* Starts one sequence's text. */
    mica_status (*begin)(void *owner, void **stream);
    /* The whole characters that become known with this token; *bytes stays valid until the stream's
     * next call. */
    mica_status (*add)(void *stream, int32_t token, const char **bytes, size_t *n_bytes);
    /* What is left at the end (a replacement for an incomplete character). May be NULL. */
    mica_status (*finish)(void *stream, const char **bytes, size_t *n_bytes);
    void (*end)(void *stream);
} mica_detokenizer;

/* --- requests --------------------------------------------------------------------------------- */

typedef struct mica_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY forbids the token */
} mica_logit_bias;

/* How a token is drawn. They act in this order: bias, penalties, dry, constraint, top_k, typical_p,
 * top_p, min_p, xtc, temperature. Zero switches a part off. With temperature 0 the largest logit
 * after bias, penalties, dry and constraint is taken (the lowest token where several are equal). */
typedef struct mica_sampling {
    float temperature; /* logits are divided by it before the draw; >= 0 */
    uint64_t seed;
    int32_t top_k;   /* the k largest stay */
    float typical_p; /* 0 < p < 1: locally typical sampling, Meister et al., arXiv 2202.00666 */
    float top_p;     /* 0 < p < 1: the fewest largest with this share of the probability stay */
    float min_p;     /* 0 < p <= 1: what has at least p times the largest probability stays */
    /* With this chance all tokens that have at least the threshold's probability go, but the least
     * likely of them and end tokens. */
    float xtc_probability;
    float xtc_threshold;
    float repetition_penalty;  /* > 0; logits of tokens in the window are divided by it where
                                  positive,  multiplied where negative; 0 and 1 are off */
    int64_t repetition_window; /* last tokens of prompt and output it looks at; 0 means 64 */
    float presence_penalty;    /* subtracted once from tokens that are in the output */
    float frequency_penalty;   /* subtracted for each time that they are in it */
    /* A token that would go on with a repetition of length n >= dry_allowed_length loses
     * dry_multiplier * dry_base^(n - dry_allowed_length). Repetitions do not reach across breakers.
     */
    float dry_multiplier;
    float dry_base;              /* >= 1; 0 means 1.75 */
    int64_t dry_allowed_length;  /* 0 means 2 */
    int64_t dry_window;          /* last tokens it looks at; 0 means all */
    const int32_t *dry_breakers; /* [n_dry_breakers] */
    int64_t n_dry_breakers;
    const mica_logit_bias *logit_bias; /* [n_logit_bias] */
    int64_t n_logit_bias;
} mica_sampling;

/* What the model's own files recommend: generation_config.json, or the general.sampling keys of a
 * GGUF file. Sets the fields that they name, leaves the others, and says in *named (may be NULL)
 * whether there were any. "do_sample": false is temperature 0; true without a temperature is 1.
 * MICA_E_FORMAT names a key whose value makes no sense. */
MICA_API mica_status mica_model_sampling(const mica_model *model, mica_sampling *sampling,
                                         bool *named);

/* Decides which tokens may come next: a grammar. One state per choice. Called by the owning thread.
 */
typedef struct mica_constraint {
    void *owner;
    mica_status (*begin)(void *owner, void **state);
    /* Sets bit t % 32 of allowed[t / 32] for every allowed token t; all are clear before the call.
     */
    mica_status (*mask)(void *state, uint32_t *allowed, int64_t n_vocab);
    mica_status (*accept)(void *state, int32_t token);
    void (*end)(void *state);
} mica_constraint;

/* Most entries of mica_event.top. */
#define MICA_MAX_TOP_LOGPROBS 20

/* What to generate. Everything it points to is copied at submission, but the owners of hooks. */
typedef struct mica_request {
    const int32_t *tokens; /* [n_tokens] the prompt, at least one */
    int64_t n_tokens;
    int64_t max_tokens; /* output at most; 0: the prompt is computed and nothing drawn; negative:
                           until the context ends */
    int32_t n_choices;  /* independent outputs; 0 means 1 */
    mica_sampling sampling;
    bool ignore_end_tokens;     /* the engine's end tokens do not end it; stop_tokens still do */
    const int32_t *stop_tokens; /* [n_stop_tokens] more tokens that end it */
    int64_t n_stop_tokens;
    const char *const *stop_strings; /* [n_stop_strings] NUL-terminated UTF-8; need a detokenizer */
    int64_t n_stop_strings;
    bool logprobs; /* events carry the log probability of the drawn token */
    int32_t n_top; /* and the n likeliest tokens, at most MICA_MAX_TOP_LOGPROBS */
    const mica_constraint *constraint; /* NULL: any token */
    /* Sees the logits behind every prompt position from logits_from on, before anything changes
     * them: logits [n_vocab], valid during the call. Those positions are computed, not taken from
     * the cache. NULL: none. */
    void (*on_logits)(void *owner, int64_t position, const float *logits, int64_t n_vocab);
    void *on_logits_owner;
    int64_t logits_from;
} mica_request;

/* Sets a request to the defaults: one choice, at most 512 tokens, temperature 0, no filters. */
MICA_API void mica_request_init(mica_request *request);

/* --- events ----------------------------------------------------------------------------------- */

typedef enum mica_event_kind {
    MICA_EVENT_TOKEN,    /* a token was drawn */
    MICA_EVENT_FINISHED, /* the sequence ended: the last event of its choice */
    MICA_EVENT_PAUSED,   /* its blocks went to others; it goes on later */
    MICA_EVENT_RESUMED
} mica_event_kind;

/* Why a sequence ended: enumerator, name as --json prints it. */
#define MICA_FINISH_REASONS(X)                                                                     \
    X(MICA_FINISH_NONE, "none")                                                                    \
    X(MICA_FINISH_STOP, "stop")               /* an end or stop token */                           \
    X(MICA_FINISH_LENGTH, "length")           /* max_tokens or the context */                      \
    X(MICA_FINISH_STOP_STRING, "stop_string") /* a stop string appeared */                         \
    X(MICA_FINISH_MEMORY, "memory")           /* it outgrew the KV budget; what it has stands */   \
    X(MICA_FINISH_CANCELLED, "cancelled")                                                          \
    X(MICA_FINISH_ERROR, "error") /* see status and message */

typedef enum mica_finish_reason {
#define X(name, text) name,
    MICA_FINISH_REASONS(X)
#undef X
        MICA_N_FINISH_REASONS
} mica_finish_reason;

/* "stop", or "?" outside the list. Static storage. */
MICA_API const char *mica_finish_reason_name(mica_finish_reason reason);

/* What one choice has cost. Seconds are of the monotonic clock. */
typedef struct mica_usage {
    int64_t prompt_tokens;
    int64_t output_tokens;   /* drawn, an end token not counted */
    int64_t computed_tokens; /* positions that went through the model for it, repeats after a pause
                                included */
    int64_t cached_tokens;   /* positions of its prompt taken from the prefix cache at its start */
    int64_t pauses;
    double queued_s;      /* submission to the first step */
    double first_token_s; /* submission to the first token; 0 when there was none */
    double total_s;       /* submission to the end */
} mica_usage;

typedef struct mica_token_logprob {
    int32_t token;
    float logprob; /* natural log of its probability before anything is changed or filtered */
} mica_token_logprob;

typedef struct mica_event {
    mica_event_kind kind;
    int64_t request; /* as mica_engine_submit gave it */
    int32_t choice;
    int32_t token; /* TOKEN: what was drawn; FINISHED: the end or stop token, else -1 */
    int64_t index; /* TOKEN: 0 for the choice's first */
    /* Text that has become certain: a possible beginning of a stop string is held back. UTF-8, NUL-
     * terminated; never NULL. Valid until the next mica_engine_step. */
    const char *text;
    size_t n_text;
    float logprob; /* of `token`, where the request asked */
    int32_t n_top;
    mica_token_logprob top[MICA_MAX_TOP_LOGPROBS]; /* likeliest first */
    mica_finish_reason reason;                     /* FINISHED */
    mica_status status;                            /* MEMORY and ERROR: what failed, else MICA_OK */
    const char *message; /* and its message; never NULL, valid as text is */
    mica_usage usage;    /* FINISHED */
} mica_event;

/* --- the engine ------------------------------------------------------------------------------- */

/* Makes an engine over a model, which must outlive it; options NULL: all defaults. End tokens of
 * the model's files are added to the options'. The context of the model must belong to the calling
 * thread, which owns the engine from then on. MICA_E_ARGUMENT names what makes no sense,
 * MICA_E_UNSUPPORTED a KV type that cannot hold the model's heads, MICA_E_MEMORY what does not fit.
 */
MICA_API mica_status mica_engine_open(mica_model *model, const mica_engine_options *options,
                                      mica_engine **engine);

/* What a model takes, before anything is made. Bytes, unless said otherwise. */
typedef struct mica_plan {
    int64_t weights;        /* of the model's tensors, mapped or read */
    int64_t read_per_token; /* of weights that one decoded token reads */
    int64_t kv_per_token;   /* of layers that keep everything, one sequence */
    int64_t kv_window;      /* of sliding layers, one sequence, at most */
    int64_t kv;             /* of `sequences` sequences of `context` tokens */
    int64_t prefill_peak;   /* exact peak of the largest step, logits included */
    int64_t decode_peak;    /* of a step of one token for each sequence */
    int64_t overhead;       /* of all else, at most: the files' headers, the vocabulary, compiled
                               programs and their compiling, lists of the engine, threads */
    int64_t total;          /* weights + kv + the larger peak + overhead: a run of these sequences
                               succeeds under this limit */
    int64_t context;        /* tokens planned for */
    int64_t sequences;
    int64_t max_context; /* tokens of one sequence that fit under `limit`; the model's if none */
    int64_t limit;       /* 0: none */
} mica_plan;

/* Plans for `sequences` sequences (0: 1) of options' context under a limit in bytes (0: none).
 * Compiles the programs of the model's steps and reads its tokenizer, and allocates no KV. What the
 * process holds already, other models' too, is part of `overhead`. */
MICA_API mica_status mica_plan_model(mica_model *model, const mica_engine_options *options,
                                     int64_t sequences, int64_t limit, mica_plan *plan);

/* Ends everything that still runs, without events, and frees the engine; NULL is ignored. No other
 * thread may be inside mica_engine_cancel. */
MICA_API void mica_engine_free(mica_engine *engine);

/* Puts a request into the queue and gives its number (> 0). MICA_E_ARGUMENT names what makes no
 * sense; MICA_E_STATE when the queue is full (the message has the numbers; try again later);
 * MICA_E_MEMORY when its prompt can never fit into the KV budget. */
MICA_API mica_status mica_engine_submit(mica_engine *engine, const mica_request *request,
                                        int64_t *id);

/* Ends all choices of a request at the next step: one FINISHED event each, reason cancelled. From
 * any thread. MICA_E_NOT_FOUND when it has ended already or never was. */
MICA_API mica_status mica_engine_cancel(mica_engine *engine, int64_t id);

/* Ends the step that is being computed at its next phase, a matter of milliseconds, or else the
 * next one: the sequences that take part in it finish with reason cancelled. interrupt false
 * forgets one that no step has obeyed yet. From any thread, and from signal handlers. */
MICA_API void mica_engine_interrupt(mica_engine *engine, bool interrupt);

/* Admits what fits and computes one step: one token for every running sequence and chunks of
 * prompts. Does nothing when nothing is pending. A failure of the model ends the sequences of the
 * step with an event each and is no failure of this call; MICA_E_MEMORY means that there was no
 * memory even for events: nothing has changed, it may be called again. */
MICA_API mica_status mica_engine_step(mica_engine *engine);

/* Takes the oldest event; false when there is none. */
MICA_API bool mica_engine_next_event(mica_engine *engine, mica_event *event);

/* Sequences that have not ended. */
MICA_API int64_t mica_engine_pending(const mica_engine *engine);

/* Counters since the engine was made, and what it holds now. */
typedef struct mica_engine_stats {
    int64_t waiting, running, paused; /* sequences now */
    int64_t finished;
    int64_t steps;           /* runs of the model that succeeded */
    int64_t computed_tokens; /* positions that went through the model */
    int64_t cached_tokens;   /* positions that a prefix hit spared, resumes included */
    int64_t output_tokens;
    int64_t pauses;
    int64_t kv_limit; /* bytes */
    int64_t kv_used;  /* committed now, what the prefix cache holds included */
    int64_t kv_peak;
    int64_t kv_cached; /* of kv_used: held by the prefix cache alone, given up when needed */
    int64_t evicted_blocks;
    double model_s; /* time inside the model */
} mica_engine_stats;

/* Reads the counters; called by the owning thread. */
MICA_API void mica_engine_read_stats(const mica_engine *engine, mica_engine_stats *stats);

/* Gives up all blocks that only the prefix cache holds. */
MICA_API void mica_engine_clear_prefix_cache(mica_engine *engine);

/* --- keeping prompts -------------------------------------------------------------------------- */

/* How many of tokens[0, n_tokens) the prefix cache could spare a request that goes on behind them:
 * a multiple of 16. (A request needs its last token computed: for itself it gets fewer than all.)
 */
MICA_API int64_t mica_engine_find_prefix(const mica_engine *engine, const int32_t *tokens,
                                         int64_t n_tokens);

/* Writes the keys and values that the prefix cache holds of tokens[0, n_tokens) into one file,
 * whole blocks of 16 tokens; *n_saved is how many tokens that was. The file appears under its name
 * when it is whole, in place of what was there. MICA_E_NOT_FOUND when the cache has not one block
 * of them, MICA_E_STATE when the engine was made without a prefix cache. */
MICA_API mica_status mica_engine_save_prefix(mica_engine *engine, const int32_t *tokens,
                                             int64_t n_tokens, const char *path, int64_t *n_saved);

/* What became of a file of keys and values, in tokens. */
typedef struct mica_prefix_load {
    int64_t stored;  /* that the file holds */
    int64_t matched; /* of these, the leading ones that were asked for, in whole blocks */
    int64_t loaded;  /* of these, what the prefix cache has now */
} mica_prefix_load;

/* Puts what a file holds of tokens[0, n_tokens) into the prefix cache (tokens NULL: all that it
 * holds), so that requests find it as if the engine had computed it: with the same bits. Nothing is
 * read but what matches. What does not fit into the KV budget or under the memory limit is left out
 * from the end on; MICA_E_MEMORY with the numbers when not one block fits.
 *
 * MICA_E_ARGUMENT names both sides where the file was made with another model, KV type or
 * activation mode; MICA_E_UNSUPPORTED another version of the format; MICA_E_FORMAT says what is
 * broken: every size, token and block is checked before it is used. On failure the cache is as it
 * was, but for what had to make room. */
MICA_API mica_status mica_engine_load_prefix(mica_engine *engine, const char *path,
                                             const int32_t *tokens, int64_t n_tokens,
                                             mica_prefix_load *load);

#ifdef __cplusplus
}
#endif

#endif
