/* settings.h - the options that several commands share: model, engine, sampling, output.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_SETTINGS_H
#define MICA_CLI_SETTINGS_H

#include <mica/mica.h>

#include "cli/options.h"

typedef struct output_settings {
    bool json, quiet;
    bool help, version; /* for the tables; the parser acts on them before */
} output_settings;

typedef struct model_settings {
    const char *model;    /* NULL: the built-in one */
    int64_t memory_limit; /* bytes, 0: none */
} model_settings;

typedef struct compute_settings {
    int device;      /* 0 auto, 1 cpu */
    int64_t threads; /* 0: what affinity and quota allow */
    int activations; /* which of auto, f32, int8, bf16 */
    bool no_mmap;
} compute_settings;

typedef struct engine_settings {
    int kv;          /* mica_kv_dtype */
    int kv_bits;     /* 0: not given, 1: 8, 2: 4 */
    int64_t context; /* 0: the model's */
    int64_t kv_memory;
} engine_settings;

typedef struct sampling_settings {
    double temperature, top_p, min_p, typical_p;
    int64_t top_k;
    double xtc_probability, xtc_threshold;
    double repetition_penalty, presence_penalty, frequency_penalty;
    int64_t repetition_window;
    double dry_multiplier, dry_base;
    int64_t dry_allowed_length, dry_window;
    text_list dry_breakers, logit_bias;
    option_seed seed;
} sampling_settings;

typedef struct template_settings {
    const char *system_prompt, *chat_template, *chat_template_config;
    bool ignore_chat_template;
} template_settings;

typedef struct ending_settings {
    int64_t max_tokens;
    bool ignore_eos;
    text_list extra_eos_token, stop;
} ending_settings;

extern const option_spec template_options[], ending_options[];
extern const option_spec output_options[], model_options[], compute_options[], engine_options[],
    sampling_options[];

/* --seed, apart since its default differs: 0, or a random one. Both are of sampling_settings. */
extern const option_spec seed_options[], random_seed_options[];

/* A group of a command whose settings structure has a member of this name. */
#define SHARED_GROUP(title, what, type)                                                            \
    {                                                                                              \
        title, what##_options, offsetof(type, what)                                                \
    }

/* The words of --kv, in the order of mica_kv_dtype. */
#define KV_WORDS "f16|f32|bf16|q8|q4"

/* The KV type that --kv and --kv-bits ask for. */
int settings_kv(const arguments *given, const engine_settings *settings, mica_kv_dtype *kv);

/* What --activations asks for; bf16 is refused. */
int settings_activations(const compute_settings *settings, mica_activation_mode *mode);

#endif
