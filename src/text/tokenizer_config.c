/* tokenizer_config.c - what the files beside a tokenizer say about it.
 *
 * tokenizer_config.json names the tokens with a role, added tokens, flags and the chat template;
 * generation_config.json the ids that end an answer.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "base/file.h"
#include "text/tokenizer_json.h"

#define MAX_CONFIG (INT64_C(64) << 20)

/* --- reading ---------------------------------------------------------------------------------- */

static mica_status read_json(const char *folder, const char *name, mica__json_doc **doc)
{
    char *path = mica__path_join(folder, name);
    if (!path)
        return MICA_E_MEMORY;
    mica_status status = MICA_OK;
    if (mica__file_exists(path))
        status = mica__json_read(path, MAX_CONFIG, doc);
    mica__free(path);
    return status;
}

static mica_status read_text(const char *folder, const char *name, mica__text *text)
{
    char *path = mica__path_join(folder, name);
    if (!path)
        return MICA_E_MEMORY;
    mica_status status = MICA_OK;
    text->kind = MICA_MEMORY_TEXT;
    if (mica__file_exists(path))
        status = mica__file_read_text(path, MAX_CONFIG, text);
    mica__free(path);
    return status;
}

mica_status mica__model_config_read(const char *folder, mica__model_config *config)
{
    *config = (mica__model_config){.jinja = {.kind = MICA_MEMORY_TEXT}};
    mica_status status;
    MICA_TRY_OUT(read_json(folder, "tokenizer_config.json", &config->tokenizer));
    MICA_TRY_OUT(read_json(folder, "special_tokens_map.json", &config->special));
    MICA_TRY_OUT(read_json(folder, "generation_config.json", &config->generation));
    MICA_TRY_OUT(read_json(folder, "config.json", &config->model));
    MICA_TRY_OUT(read_text(folder, "chat_template.jinja", &config->jinja));
    return MICA_OK;
out:
    mica__model_config_free(config);
    return status;
}

void mica__model_config_free(mica__model_config *config)
{
    mica__json_free(config->tokenizer);
    mica__json_free(config->special);
    mica__json_free(config->generation);
    mica__json_free(config->model);
    mica__text_free(&config->jinja);
    *config = (mica__model_config){.jinja = {.kind = MICA_MEMORY_TEXT}};
}

static const mica__json *member(const mica__json_doc *doc, const char *key)
{
    const mica__json *node = doc ? mica__json_get(mica__json_root(doc), key) : NULL;
    return node && node->type != MICA__JSON_NULL ? node : NULL;
}

const char *mica__model_config_class(const mica__model_config *config)
{
    const mica__json *node = config ? member(config->tokenizer, "tokenizer_class") : NULL;
    return node && node->type == MICA__JSON_STRING ? node->string : NULL;
}

mica_status mica__model_config_prefix_space(const mica__model_config *config, bool *space)
{
    *space = false;
    if (!config || !config->tokenizer)
        return MICA_OK;
    return mica__json_bool(mica__json_root(config->tokenizer), "add_prefix_space", false, space);
}

bool mica__model_config_new_prefix(const mica__model_config *config)
{
    const mica__json *legacy = config ? member(config->tokenizer, "legacy") : NULL;
    return legacy && legacy->type == MICA__JSON_BOOL && !legacy->boolean;
}

/* --- added tokens ----------------------------------------------------------------------------- */

/* The id that a key of added_tokens_decoder is; -1 when it is none. */
static int64_t key_id(const mica__json *entry)
{
    int64_t id = 0;
    for (int64_t i = 0; i < entry->key_length; i++) {
        if (entry->key[i] < '0' || entry->key[i] > '9' || id > MICA__MAX_TOKENS)
            return -1;
        id = id * 10 + (entry->key[i] - '0');
    }
    return entry->key_length > 0 ? id : -1;
}

mica_status mica__model_config_put_added(const mica__model_config *config, mica_tokenizer *t,
                                         bool *any)
{
    *any = false;
    const mica__json *list = config ? member(config->tokenizer, "added_tokens_decoder") : NULL;
    if (list && list->type != MICA__JSON_OBJECT)
        MICA_FAIL(MICA_E_FORMAT, "added_tokens_decoder of tokenizer_config.json is not an object");
    for (const mica__json *entry = list ? list->first : NULL; entry; entry = entry->next) {
        const mica__json *content = mica__json_get(entry, "content");
        const int64_t id = key_id(entry);
        if (id < 0 || !content || content->type != MICA__JSON_STRING)
            MICA_FAIL(MICA_E_FORMAT,
                      "added token \"%.40s\" of tokenizer_config.json has no id or no content",
                      entry->key);
        mica__added_flags flags;
        MICA_TRY(mica__json_added_flags(entry, &flags));
        const mica_status status =
            mica__tokenizer_put_added(t, id, content->string, content->length, flags);
        if (status != MICA_OK)
            return mica__fail_at(status, "tokenizer_config.json");
        *any = true;
    }
    return MICA_OK;
}

/* --- roles ------------------------------------------------------------------------------------ */

/* The token that "bos_token" and the like name: a text, or an object with its content. */
static const mica__json *named_token(const mica__model_config *config, const char *key)
{
    const mica__json *node = member(config->tokenizer, key);
    if (!node)
        node = member(config->special, key);
    if (node && node->type == MICA__JSON_OBJECT)
        node = mica__json_get(node, "content");
    return node && node->type == MICA__JSON_STRING ? node : NULL;
}

static mica_status set_role(const mica__model_config *config, const char *key, bool needed,
                            const mica_tokenizer *t, int32_t *id)
{
    const mica__json *token = named_token(config, key);
    if (!token || token->length == 0)
        return MICA_OK;
    const int32_t found = mica__vocab_find(&t->vocab, token->string, token->length);
    if (found < 0 && needed)
        MICA_FAIL(MICA_E_FORMAT, "the %s \"%.80s\" is not in the vocabulary", key, token->string);
    if (found >= 0)
        *id = found;
    return MICA_OK;
}

/* The ids under a key, one or a list: the first is the role where none is set, all may be ends. */
static mica_status apply_ids(const mica__json_doc *doc, const char *key, mica_tokenizer *t,
                             int32_t *role, bool ends)
{
    const mica__json *node = member(doc, key);
    if (!node)
        return MICA_OK;
    const bool list = node->type == MICA__JSON_ARRAY;
    for (const mica__json *id = list ? node->first : node; id; id = list ? id->next : NULL) {
        if (id->type != MICA__JSON_INTEGER || id->integer < 0)
            MICA_FAIL(MICA_E_FORMAT, "\"%s\" is not an id or a list of ids", key);
        if (id->integer >= t->vocab.n)
            continue; /* a model may know more ids than its tokenizer: nothing can spell this one */
        if (*role < 0)
            *role = (int32_t)id->integer;
        if (ends)
            MICA_TRY(mica__tokenizer_add_end(t, (int32_t)id->integer));
    }
    return MICA_OK;
}

/* Tokenizer classes that put their begin token themselves, whatever tokenizer.json says. */
static bool class_adds(const char *class)
{
    static const char *const names[] = {"Llama", "CodeLlama", "Gemma"};
    for (size_t i = 0; class && i < sizeof names / sizeof names[0]; i++)
        if (strncmp(class, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static mica_status flag(const mica__model_config *config, const char *key, int *value)
{
    const mica__json *node = member(config->tokenizer, key);
    *value = -1;
    if (node && node->type != MICA__JSON_BOOL)
        MICA_FAIL(MICA_E_FORMAT, "%s of tokenizer_config.json is neither true nor false", key);
    if (node)
        *value = node->boolean;
    return MICA_OK;
}

static mica_status apply_flags(const mica__model_config *config, mica_tokenizer *t,
                               bool has_template)
{
    int add_bos, add_eos;
    MICA_TRY(flag(config, "add_bos_token", &add_bos));
    MICA_TRY(flag(config, "add_eos_token", &add_eos));
    const bool own = class_adds(mica__model_config_class(config));
    if (has_template && !own)
        return MICA_OK;
    if (add_bos < 0 && own && !has_template)
        add_bos = true;
    mica__tokenizer_add_flags(t, add_bos, add_eos);
    return MICA_OK;
}

/* --- templates -------------------------------------------------------------------------------- */

static mica_status apply_templates(const mica__model_config *config, mica_tokenizer *t)
{
    const mica__json *node = member(config->tokenizer, "chat_template");
    if (node && node->type == MICA__JSON_STRING)
        MICA_TRY(mica__tokenizer_add_template(t, "default", 7, node->string, node->length));
    else if (node && node->type != MICA__JSON_ARRAY)
        MICA_FAIL(MICA_E_FORMAT,
                  "chat_template of tokenizer_config.json is neither a text nor a list");
    const bool list = node && node->type == MICA__JSON_ARRAY;
    for (const mica__json *item = list ? node->first : NULL; item; item = item->next) {
        const mica__json *name = mica__json_get(item, "name");
        const mica__json *text = mica__json_get(item, "template");
        if (!name || !text || name->type != MICA__JSON_STRING || text->type != MICA__JSON_STRING)
            MICA_FAIL(MICA_E_FORMAT, "a chat_template of the list has no name or no template");
        MICA_TRY(mica__tokenizer_add_template(t, name->string, name->length, text->string,
                                              text->length));
    }
    if (config->jinja.length > 0)
        MICA_TRY(mica__tokenizer_add_template(t, "default", 7, config->jinja.bytes,
                                              config->jinja.length));
    return MICA_OK;
}

mica_status mica__model_config_apply(const mica__model_config *config, mica_tokenizer *t,
                                     bool has_template)
{
    if (!config)
        return MICA_OK;
    MICA_TRY(set_role(config, "bos_token", true, t, &t->bos));
    MICA_TRY(set_role(config, "eos_token", true, t, &t->eos));
    MICA_TRY(set_role(config, "pad_token", false, t, &t->pad));
    MICA_TRY(set_role(config, "unk_token", false, t, &t->unk));
    MICA_TRY(apply_ids(config->generation, "bos_token_id", t, &t->bos, false));
    MICA_TRY(apply_ids(config->generation, "eos_token_id", t, &t->eos, true));
    if (t->bos < 0)
        MICA_TRY(apply_ids(config->model, "bos_token_id", t, &t->bos, false));
    if (t->n_ends == 0 && t->eos < 0)
        MICA_TRY(apply_ids(config->model, "eos_token_id", t, &t->eos, true));
    MICA_TRY(apply_flags(config, t, has_template));
    return apply_templates(config, t);
}
