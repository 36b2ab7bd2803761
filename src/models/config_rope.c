/* config_rope.c - how positions are rotated, from every way in which files say it.
 *
 * Sources: config.json's rope_theta with rope_scaling (transformers 4), rope_parameters
 * (transformers 5), GGUF's rope.freq_base with rope.scaling.*. A scaling that is not in this file
 * is refused by name.
 * SPDX-License-Identifier: MIT
 */
#include "models/config.h"

#include <string.h>

static bool is_text(const mica__json *node, const char *text)
{
    return node && node->type == MICA__JSON_STRING && !strcmp(node->string, text);
}

static mica_status number(const mica__json *object, const char *key, double *value)
{
    const mica__json *node = mica__json_get(object, key);
    if (!node || (node->type != MICA__JSON_INTEGER && node->type != MICA__JSON_REAL))
        MICA_FAIL(MICA_E_FORMAT, "config.json: the rope scaling has no number %s", key);
    *value = node->number;
    return MICA_OK;
}

/* Every key of a scaling object must be one of these. */
static mica_status only_keys(const mica__json *object, const char *const *keys)
{
    for (const mica__json *at = object->first; at; at = at->next) {
        bool known = at->type == MICA__JSON_NULL;
        for (int i = 0; keys[i] && !known; i++)
            known = !strcmp(keys[i], at->key);
        if (!known)
            MICA_FAIL(MICA_E_UNSUPPORTED, "config.json: %s of the rope scaling is not understood",
                      at->key);
    }
    return MICA_OK;
}

static mica_status read_scaling(const mica__json *object, mica__rope_spec *rope)
{
    static const char *const plain_keys[] = {"rope_type", "type", "rope_theta", NULL};
    static const char *const linear_keys[] = {"rope_type", "type", "rope_theta", "factor", NULL};
    static const char *const llama3_keys[] = {"rope_type",
                                              "type",
                                              "rope_theta",
                                              "factor",
                                              "low_freq_factor",
                                              "high_freq_factor",
                                              "original_max_position_embeddings",
                                              NULL};
    const mica__json *type = mica__json_get(object, "rope_type");
    if (!type)
        type = mica__json_get(object, "type");
    if (!type || is_text(type, "default"))
        return only_keys(object, plain_keys);
    if (is_text(type, "linear")) {
        rope->scaling = MICA__ROPE_LINEAR;
        MICA_TRY(number(object, "factor", &rope->factor));
        return only_keys(object, linear_keys);
    }
    if (is_text(type, "llama3")) {
        rope->scaling = MICA__ROPE_LLAMA3;
        MICA_TRY(number(object, "factor", &rope->factor));
        MICA_TRY(number(object, "low_freq_factor", &rope->low_freq_factor));
        MICA_TRY(number(object, "high_freq_factor", &rope->high_freq_factor));
        MICA_TRY(number(object, "original_max_position_embeddings", &rope->original_context));
        return only_keys(object, llama3_keys);
    }
    MICA_FAIL(MICA_E_UNSUPPORTED, "config.json: rope scaling \"%s\" is not supported yet",
              type->type == MICA__JSON_STRING ? type->string : "?");
}

static mica_status rope_from_json(mica__config *config, const char *section, double default_base,
                                  mica__rope_spec *rope)
{
    const mica__json *parameters = mica__config_node(config, "rope_parameters");
    if (parameters && section && mica__json_get(parameters, section))
        parameters = mica__json_get(parameters, section);
    if (parameters) {
        if (parameters->type != MICA__JSON_OBJECT)
            MICA_FAIL(MICA_E_FORMAT, "config.json: rope_parameters is no object");
        MICA_TRY(number(parameters, "rope_theta", &rope->base));
        return read_scaling(parameters, rope);
    }
    /* The old keys: sliding layers have a base of their own and no scaling. */
    const bool sliding = section && !strcmp(section, "sliding_attention");
    const mica__field base = {sliding ? "rope_local_base_freq" : "rope_theta", NULL};
    MICA_TRY(mica__config_real(config, base, default_base > 0 ? &default_base : NULL, &rope->base));
    const mica__json *scaling = sliding ? NULL : mica__config_node(config, "rope_scaling");
    if (scaling && scaling->type != MICA__JSON_OBJECT)
        MICA_FAIL(MICA_E_FORMAT, "config.json: rope_scaling is no object");
    if (!scaling)
        return MICA_OK;
    if (mica__json_get(scaling, "rope_theta")) {
        double again = 0;
        MICA_TRY(number(scaling, "rope_theta", &again));
        if (again != rope->base)
            MICA_FAIL(MICA_E_UNSUPPORTED,
                      "config.json: rope_theta and that of rope_scaling differ");
    }
    return read_scaling(scaling, rope);
}

static mica_status rope_from_gguf(mica__config *config, bool sliding, double default_base,
                                  mica__rope_spec *rope)
{
    const double one = 1;
    const mica__field base = {NULL, sliding ? "rope.freq_base_swa" : "rope.freq_base"};
    MICA_TRY(mica__config_real(config, base, default_base > 0 ? &default_base : NULL, &rope->base));
    if (sliding)
        return MICA_OK;
    const mica__field type = {NULL, "rope.scaling.type"}, factor = {NULL, "rope.scaling.factor"};
    if (!mica__config_has(config, type)) {
        if (mica__config_has(config, factor))
            MICA_FAIL(MICA_E_UNSUPPORTED,
                      "rope.scaling.factor without rope.scaling.type is not understood");
        return MICA_OK;
    }
    if (mica__config_expect(config, type, "none") == MICA_OK)
        return MICA_OK;
    MICA_TRY(mica__config_expect(config, type, "linear"));
    rope->scaling = MICA__ROPE_LINEAR;
    return mica__config_real(config, factor, &one, &rope->factor);
}

mica_status mica__config_rope(mica__config *config, const char *section, double default_base,
                              mica__rope_spec *rope)
{
    *rope = (mica__rope_spec){.scaling = MICA__ROPE_PLAIN, .factor = 1};
    if (config->json)
        MICA_TRY(rope_from_json(config, section, default_base, rope));
    else
        MICA_TRY(rope_from_gguf(config, section && !strcmp(section, "sliding_attention"),
                                default_base, rope));
    if (!(rope->base > 0) || !(rope->factor > 0))
        MICA_FAIL(MICA_E_FORMAT, "the rope base or factor is not positive");
    return MICA_OK;
}
