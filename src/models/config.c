/* config.c - fields from config.json or GGUF keys.
 * SPDX-License-Identifier: MIT
 */
#include "models/config.h"

#include <stdio.h>
#include <string.h>

/* Fields of config.json that never change what a decoder computes from given weights and tokens:
 * facts about files and training, ids that the tokenizer's files have too, hints for other
 * programs. */
static const char *const harmless[] = {
    "_name_or_path",
    "attention_dropout",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "cache_implementation",
    "dtype",
    "torch_dtype",
    "embd_pdrop",
    "hidden_dropout",
    "initializer_range",
    "is_llama_config",
    "mlp_dropout",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "pretraining_tp",
    "problem_type",
    "quantization", /* of the weights: decoder_weights.c reads it */
    "quantization_config",
    "resid_pdrop",
    "return_dict",
    "transformers_version",
    "transformers.js_config",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
    "id2label",
    "label2id",
    "num_labels",
    "chunk_size_feed_forward",
    "tokenizer_class",
    "task_specific_params",
    "finetuning_task",
};

/* Fields that a value of false turns on, as it were: elsewhere false, like null and nothing in a
 * list, says that a feature is not there. */
static const char *const never_false[] = {
    "causal", "is_causal", "use_causal_mask", "scale_attn_weights", "use_rope",
};

/* --- making ----------------------------------------------------------------------------------- */

static mica_status take_marks(mica__config *config)
{
    config->used = mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)config->n_fields / 64 + 1,
                                    sizeof *config->used);
    return config->used ? MICA_OK : MICA_E_MEMORY;
}

mica_status mica__config_from_json(const mica__json *object, mica__config *config)
{
    *config = (mica__config){.json = object};
    if (!object || object->type != MICA__JSON_OBJECT)
        MICA_FAIL(MICA_E_FORMAT, "config.json is no object");
    config->n_fields = object->n;
    return take_marks(config);
}

mica_status mica__config_from_gguf(const mica__gguf *gguf, mica__config *config)
{
    mica__gguf_string name;
    *config = (mica__config){.gguf = gguf};
    MICA_TRY(mica__gguf_get_string(gguf, "general.architecture", &name));
    if (name.length < 1 || name.length >= MICA__ARCH_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "general.architecture has %lld bytes", (long long)name.length);
    memcpy(config->prefix, name.bytes, (size_t)name.length);
    config->n_fields = mica__gguf_n_values(gguf);
    return take_marks(config);
}

void mica__config_free(mica__config *config)
{
    mica__free(config->used);
    config->used = NULL;
}

/* --- looking up ------------------------------------------------------------------------------- */

static void mark(mica__config *config, int64_t i)
{
    config->used[i / 64] |= 1ull << (i % 64);
}

static bool marked(const mica__config *config, int64_t i)
{
    return config->used[i / 64] >> (i % 64) & 1;
}

const mica__json *mica__config_node(mica__config *config, const char *key)
{
    int64_t i = 0;
    if (!config->json || !key)
        return NULL;
    for (const mica__json *at = config->json->first; at; at = at->next, i++)
        if (!strcmp(at->key, key)) {
            mark(config, i);
            return at->type == MICA__JSON_NULL ? NULL : at;
        }
    return NULL;
}

/* The full GGUF key of a field, or NULL when this file has none. */
static const char *gguf_key(mica__config *config, const char *suffix, char out[128])
{
    if (!config->gguf || !suffix)
        return NULL;
    const int n = snprintf(out, 128, "%s.%s", config->prefix, suffix);
    for (int64_t i = 0; i < config->n_fields; i++) {
        const mica__gguf_value *value = mica__gguf_value_at(config->gguf, i);
        if (value->key.length == n && !memcmp(value->key.bytes, out, (size_t)n)) {
            mark(config, i);
            return out;
        }
    }
    return NULL;
}

bool mica__config_has(mica__config *config, mica__field field)
{
    char key[128];
    return mica__config_node(config, field.hf) || gguf_key(config, field.gguf, key);
}

static const char *name_of(const mica__config *config, mica__field field)
{
    const char *name = config->json ? field.hf : field.gguf;
    return name ? name : field.hf ? field.hf : field.gguf;
}

mica_status mica__config_int(mica__config *config, mica__field field, const int64_t *fallback,
                             int64_t min, int64_t max, int64_t *value)
{
    char key[128];
    const mica__json *node = mica__config_node(config, field.hf);
    if (node) {
        const bool whole = node->type == MICA__JSON_REAL && node->number >= -0x1p53 &&
                           node->number <= 0x1p53 && node->number == (double)(int64_t)node->number;
        if (node->type != MICA__JSON_INTEGER && !whole)
            MICA_FAIL(MICA_E_FORMAT, "config.json: %s is no whole number", field.hf);
        *value = whole ? (int64_t)node->number : node->integer;
    } else if (gguf_key(config, field.gguf, key)) {
        MICA_TRY(mica__gguf_get_i64(config->gguf, key, value));
    } else if (fallback) {
        *value = *fallback;
        return MICA_OK;
    } else {
        MICA_FAIL(MICA_E_FORMAT, "the model's configuration has no %s", name_of(config, field));
    }
    if (*value < min || *value > max)
        MICA_FAIL(MICA_E_FORMAT, "%s is %lld, outside %lld to %lld", name_of(config, field),
                  (long long)*value, (long long)min, (long long)max);
    return MICA_OK;
}

mica_status mica__config_real(mica__config *config, mica__field field, const double *fallback,
                              double *value)
{
    char key[128];
    const mica__json *node = mica__config_node(config, field.hf);
    if (node) {
        if (node->type != MICA__JSON_INTEGER && node->type != MICA__JSON_REAL)
            MICA_FAIL(MICA_E_FORMAT, "config.json: %s is no number", field.hf);
        *value = node->number;
        return MICA_OK;
    }
    if (gguf_key(config, field.gguf, key))
        return mica__gguf_get_f64(config->gguf, key, value);
    if (!fallback)
        MICA_FAIL(MICA_E_FORMAT, "the model's configuration has no %s", name_of(config, field));
    *value = *fallback;
    return MICA_OK;
}

mica_status mica__config_bool(mica__config *config, mica__field field, bool fallback, bool *value)
{
    char key[128];
    const mica__json *node = mica__config_node(config, field.hf);
    *value = fallback;
    if (node) {
        if (node->type != MICA__JSON_BOOL)
            MICA_FAIL(MICA_E_FORMAT, "config.json: %s is neither true nor false", field.hf);
        *value = node->boolean;
        return MICA_OK;
    }
    return gguf_key(config, field.gguf, key) ? mica__gguf_get_bool(config->gguf, key, value)
                                             : MICA_OK;
}

mica_status mica__config_expect(mica__config *config, mica__field field, const char *text)
{
    char key[128];
    mica__gguf_string found = {0};
    const mica__json *node = mica__config_node(config, field.hf);
    if (node && node->type != MICA__JSON_STRING)
        MICA_FAIL(MICA_E_FORMAT, "config.json: %s is no text", field.hf);
    if (node)
        found = (mica__gguf_string){node->string, node->length};
    else if (gguf_key(config, field.gguf, key))
        MICA_TRY(mica__gguf_get_string(config->gguf, key, &found));
    else
        return MICA_OK;
    if ((size_t)found.length != strlen(text) || memcmp(found.bytes, text, (size_t)found.length))
        MICA_FAIL(MICA_E_UNSUPPORTED, "%s \"%.*s\" is not supported here, only \"%s\"",
                  name_of(config, field), (int)(found.length < 64 ? found.length : 64), found.bytes,
                  text);
    return MICA_OK;
}

/* --- what is left ----------------------------------------------------------------------------- */

static bool listed(const char *const *list, size_t n, const char *key, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == length && !memcmp(list[i], key, length))
            return true;
    return false;
}

#define LISTED(list, key) listed(list, sizeof(list) / sizeof *(list), key, strlen(key))

static bool says_nothing(const mica__json *node)
{
    switch (node->type) {
    case MICA__JSON_NULL:
        return true;
    case MICA__JSON_BOOL:
        return node->boolean == LISTED(never_false, node->key);
    case MICA__JSON_STRING:
        return node->length == 0;
    case MICA__JSON_ARRAY:
    case MICA__JSON_OBJECT:
        return node->n == 0;
    default:
        return false;
    }
}

/* A model of another class is a classifier or an embedder, whatever its model_type. */
static mica_status check_classes(const mica__json *node)
{
    static const char end[] = "ForCausalLM";
    const int64_t n = (int64_t)sizeof end - 1;
    if (node->type != MICA__JSON_ARRAY)
        MICA_FAIL(MICA_E_FORMAT, "config.json: architectures is no list");
    for (const mica__json *at = node->first; at; at = at->next)
        if (at->type != MICA__JSON_STRING || at->length < n ||
            memcmp(at->string + at->length - n, end, (size_t)n) != 0)
            MICA_FAIL(MICA_E_UNSUPPORTED,
                      "config.json: architectures names \"%.64s\", which is no language model that "
                      "continues text (...ForCausalLM)",
                      at->type == MICA__JSON_STRING ? at->string : "?");
    return MICA_OK;
}

/* A field that nobody read. */
static mica_status check_unread(const mica__json *node)
{
    if (says_nothing(node) || LISTED(harmless, node->key))
        return MICA_OK;
    if (!strcmp(node->key, "architectures"))
        return check_classes(node);
    MICA_FAIL(MICA_E_UNSUPPORTED, "config.json: %s is not understood and may change the result",
              node->key);
}

static mica_status finish_gguf(const mica__config *config)
{
    const size_t prefix = strlen(config->prefix);
    for (int64_t i = 0; i < config->n_fields; i++) {
        const mica__gguf_string key = mica__gguf_value_at(config->gguf, i)->key;
        if (marked(config, i) || (size_t)key.length <= prefix + 1 ||
            memcmp(key.bytes, config->prefix, prefix) || key.bytes[prefix] != '.')
            continue;
        MICA_FAIL(MICA_E_UNSUPPORTED, "the key %.*s is not understood and may change the result",
                  (int)(key.length < 128 ? key.length : 128), key.bytes);
    }
    return MICA_OK;
}

mica_status mica__config_finish(const mica__config *config)
{
    if (config->gguf)
        return finish_gguf(config);
    int64_t i = 0;
    for (const mica__json *at = config->json->first; at; at = at->next, i++)
        if (!marked(config, i))
            MICA_TRY(check_unread(at));
    return MICA_OK;
}
