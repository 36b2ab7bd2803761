/* settings.c - the tables of the shared options.
 * SPDX-License-Identifier: MIT
 */
#include "cli/settings.h"

#include "cli/failure.h"

#define OUTPUT(field)   offsetof(output_settings, field)
#define MODEL(field)    offsetof(model_settings, field)
#define COMPUTE(field)  offsetof(compute_settings, field)
#define ENGINE(field)   offsetof(engine_settings, field)
#define SAMPLING(field) offsetof(sampling_settings, field)

#define TEMPLATE(field) offsetof(template_settings, field)
#define ENDING(field)   offsetof(ending_settings, field)

#define ANY_COUNT 1e15

const option_spec output_options[] = {
    {"json", 0, OPTION_FLAG, OUTPUT(json), NULL, NULL, 0, 0,
     "Prints one JSON object on standard output and nothing else there; an error is "
     "{\"error\": {\"code\", \"message\", \"where\"}}."},
    {"quiet", 'q', OPTION_FLAG, OUTPUT(quiet), NULL, NULL, 0, 0,
     "No progress, timing or notes on standard error; errors are still reported."},
    {"help", 'h', OPTION_FLAG, OUTPUT(help), NULL, NULL, 0, 0, "Shows this text."},
    {"version", 0, OPTION_FLAG, OUTPUT(version), NULL, NULL, 0, 0, "Shows the version of mica."},
    {0}};

const option_spec model_options[] = {
    {"model", 0, OPTION_FILE, MODEL(model), "PATH|NAME", NULL, 0, 0,
     "The model: a folder with config.json, a .safetensors or .gguf file, or the name of one in "
     "the cache (MICA_CACHE_DIR, else ~/.cache/mica/models; then the Hugging Face cache, as "
     "ORG/NAME). Without it the built-in model, which writes stories."},
    {"memory-limit", 0, OPTION_SIZE, MODEL(memory_limit), "SIZE", NULL, 1, 1e18,
     "A hard limit on memory, mapped weights included. What does not fit is refused with the "
     "numbers. Sizes take K, M, G (powers of 1000) and Ki, Mi, Gi (powers of 1024)."},
    {0}};

const option_spec compute_options[] = {
    {"device", 0, OPTION_CHOICE, COMPUTE(device), "auto|cpu", "auto", 0, 0,
     "Where to compute. This build has the processor only."},
    {"threads", 't', OPTION_INTEGER, COMPUTE(threads), "N", NULL, 1, MICA_MAX_THREADS,
     "Worker threads. By default what the processor affinity and the control group's quota allow. "
     "Results do not depend on it."},
    {"activations", 0, OPTION_CHOICE, COMPUTE(activations), "auto|f32|int8|bf16", "auto", 0, 0,
     "How activations enter products with quantised weights: f32 as they are, int8 rounded to 8 "
     "bits a group; auto is int8. bf16 is not there yet and refused."},
    {"no-mmap", 0, OPTION_FLAG, COMPUTE(no_mmap), NULL, NULL, 0, 0,
     "Reads the weights into memory instead of mapping the file, for files that may change or "
     "vanish meanwhile."},
    {0}};

const option_spec engine_options[] = {
    {"context", 'c', OPTION_INTEGER, ENGINE(context), "N", NULL, 1, ANY_COUNT,
     "Tokens of prompt and answer together at most. By default the model's. Memory is taken only "
     "as it is used."},
    {"kv", 0, OPTION_CHOICE, ENGINE(kv), KV_WORDS, "f16", 0, 0,
     "How keys and values are stored; q8 and q4 have groups of 32 with a scale."},
    {"kv-bits", 0, OPTION_CHOICE, ENGINE(kv_bits), "none|8|4", "none", 0, 0,
     "mlx-lm's spelling: 8 is --kv q8, 4 is --kv q4."},
    {"kv-memory", 0, OPTION_SIZE, ENGINE(kv_memory), "SIZE", NULL, 1, 1e18,
     "Memory for keys and values at most. By default half of what is free after the weights, under "
     "--memory-limit all but what steps need, with --context as much as one sequence of it takes "
     "where that fits, and no more than the context needs."},
    {0}};

const option_spec sampling_options[] = {
    {"temp", 0, OPTION_REAL, SAMPLING(temperature), "X", "0", 0, 1000,
     "Temperature. 0 always takes the likeliest token."},
    {"top-p", 0, OPTION_REAL, SAMPLING(top_p), "P", "1", 0, 1,
     "Keeps the fewest likeliest tokens whose probabilities reach P together; 0 and 1 keep all."},
    {"min-p", 0, OPTION_REAL, SAMPLING(min_p), "P", "0", 0, 1,
     "Drops tokens with less than P times the probability of the likeliest."},
    {"top-k", 0, OPTION_INTEGER, SAMPLING(top_k), "N", "0", 0, 1e9,
     "Keeps the N likeliest tokens; 0 keeps all."},
    {"typical-p", 0, OPTION_REAL, SAMPLING(typical_p), "P", "1", 0, 1,
     "Keeps the most typical tokens whose probabilities reach P together; 0 and 1 keep all."},
    {"xtc-probability", 0, OPTION_REAL, SAMPLING(xtc_probability), "P", "0", 0, 1,
     "The chance that all tokens over --xtc-threshold go, but the least likely of them."},
    {"xtc-threshold", 0, OPTION_REAL, SAMPLING(xtc_threshold), "P", "0.1", 0, 1,
     "The probability from which --xtc-probability drops tokens."},
    {"repetition-penalty", 0, OPTION_REAL, SAMPLING(repetition_penalty), "X", "1", 0.01, 100,
     "Divides the logits of recent tokens by X (multiplies negative ones); 1 is off, and X under 1 "
     "favours them."},
    {"repetition-context-size", 0, OPTION_INTEGER, SAMPLING(repetition_window), "N", "64", 1, 1e9,
     "How many of the last tokens, prompt included, --repetition-penalty looks at."},
    {"presence-penalty", 0, OPTION_REAL, SAMPLING(presence_penalty), "X", "0", -100, 100,
     "Subtracted once from the logit of every token that the answer has already."},
    {"frequency-penalty", 0, OPTION_REAL, SAMPLING(frequency_penalty), "X", "0", -100, 100,
     "Subtracted from the logit of a token for each time that the answer has it already."},
    {"dry-multiplier", 0, OPTION_REAL, SAMPLING(dry_multiplier), "X", "0", 0, 1000,
     "Strength of the penalty on going on with a repetition; 0 is off."},
    {"dry-base", 0, OPTION_REAL, SAMPLING(dry_base), "X", "1.75", 1, 1000,
     "How fast that penalty grows with the repetition's length."},
    {"dry-allowed-length", 0, OPTION_INTEGER, SAMPLING(dry_allowed_length), "N", "2", 1, 1e9,
     "Repetitions up to this many tokens cost nothing."},
    {"dry-window", 0, OPTION_INTEGER, SAMPLING(dry_window), "N", "0", 0, 1e9,
     "How many of the last tokens are searched for repetitions; 0 is all."},
    {"dry-breaker", 0, OPTION_TEXTS, SAMPLING(dry_breakers), "TEXT", NULL, 0, 0,
     "Repetitions do not reach across a token that is TEXT, once or several times, spaces around "
     "it aside. May be given several times; by default line ends, colons, double quotes and "
     "asterisks break."},
    {"logit-bias", 0, OPTION_TEXTS, SAMPLING(logit_bias), "ID=X", NULL, 0, 0,
     "Adds X to the logit of the token with this id. May be given several times."},
    {0}};

const option_spec seed_options[] = {
    {"seed", 's', OPTION_SEED, SAMPLING(seed), "N", "0", 0, 0,
     "Seed of the draws, 0 to 18446744073709551615. The same seed gives the same text, whatever "
     "else runs beside it. random (or -1) draws one, which is reported."},
    {0}};

const option_spec random_seed_options[] = {
    {"seed", 's', OPTION_SEED, SAMPLING(seed), "N", "random", 0, 0,
     "Seed of the draws, 0 to 18446744073709551615. The same seed and messages give the same "
     "answers. random (or -1) draws one; /stats shows it."},
    {0}};

const option_spec template_options[] = {
    {"system-prompt", 0, OPTION_TEXT, TEMPLATE(system_prompt), "TEXT", NULL, 0, 0,
     "The system message that the conversation begins with."},
    {"chat-template", 0, OPTION_FILE, TEMPLATE(chat_template), "FILE", NULL, 0, 0,
     "A Jinja template to use instead of the model's own."},
    {"chat-template-config", 0, OPTION_TEXT, TEMPLATE(chat_template_config), "JSON", NULL, 0, 0,
     "Variables for the template as a JSON object: '{\"enable_thinking\": false}'."},
    {"ignore-chat-template", 0, OPTION_FLAG, TEMPLATE(ignore_chat_template), NULL, NULL, 0, 0,
     "Continues the text as it is; special tokens spelled in it count as such."},
    {0}};

const option_spec ending_options[] = {
    {"max-tokens", 'm', OPTION_INTEGER, ENDING(max_tokens), "N", "512", -1, ANY_COUNT,
     "Tokens of an answer at most; -1: until the context is full."},
    {"extra-eos-token", 0, OPTION_TEXTS, ENDING(extra_eos_token), "TOKEN", NULL, 0, 0,
     "Another token that ends an answer: its id, or its text. May be given several times."},
    {"ignore-eos", 0, OPTION_FLAG, ENDING(ignore_eos), NULL, NULL, 0, 0,
     "Goes on after the tokens that end an answer."},
    {"stop", 0, OPTION_TEXTS, ENDING(stop), "TEXT", NULL, 0, 0,
     "Ends an answer before this text. May be given several times."},
    {0}};

int settings_kv(const arguments *given, const engine_settings *settings, mica_kv_dtype *kv)
{
    *kv = (mica_kv_dtype)settings->kv;
    if (settings->kv_bits && option_given(given, "kv"))
        return fail_usage("--kv and --kv-bits say the same thing: give one of them");
    if (settings->kv_bits)
        *kv = settings->kv_bits == 1 ? MICA_KV_Q8 : MICA_KV_Q4;
    return 0;
}

int settings_activations(const compute_settings *settings, mica_activation_mode *mode)
{
    static const mica_activation_mode modes[] = {MICA_ACTIVATIONS_AUTO, MICA_ACTIVATIONS_F32,
                                                 MICA_ACTIVATIONS_INT8};
    if (settings->activations == 3)
        return fail_with(MICA_E_UNSUPPORTED, "--activations bf16",
                         "this build has no bf16 products yet; use f32 (exact) or int8 (fast)");
    *mode = modes[settings->activations];
    return 0;
}
