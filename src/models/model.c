/* model.c - opening a model: files, configuration, architecture, weights.
 * SPDX-License-Identifier: MIT
 */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

#include "base/text_buffer.h"
#include "models/config.h"
#include "text/tokenizer_gguf.h"

#define MAX_CONFIG_BYTES ((int64_t)16 << 20)

/* --- finding the architecture ----------------------------------------------------------------- */

static const mica__architecture *architecture_of(const char *name, size_t n, bool gguf)
{
    for (int i = 0; i < mica__n_architectures; i++) {
        const char *known = gguf ? mica__architectures[i].gguf : mica__architectures[i].name;
        if (known && strlen(known) == n && !memcmp(known, name, n))
            return &mica__architectures[i];
    }
    return NULL;
}

static mica_status unknown_architecture(const char *name, size_t n, bool gguf)
{
    char known[256];
    size_t at = 0;
    known[0] = '\0';
    for (int i = 0; i < mica__n_architectures && at < sizeof known; i++) {
        const char *other = gguf ? mica__architectures[i].gguf : mica__architectures[i].name;
        if (other)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", other);
    }
    return mica__fail(MICA_E_UNSUPPORTED,
                      "the architecture \"%.*s\" is not supported yet; known are %s",
                      (int)(n < 64 ? n : 64), name, known);
}

static mica_status read_spec(const char *name, size_t n, mica__config *config,
                             mica__decoder_spec *spec)
{
    const mica__architecture *architecture = architecture_of(name, n, config->gguf != NULL);
    if (!architecture)
        return unknown_architecture(name, n, config->gguf != NULL);
    memset(spec, 0, sizeof *spec);
    memcpy(spec->architecture, name, n);
    MICA_TRY(architecture->read(config, spec));
    return mica__config_finish(config);
}

/* --- end tokens ------------------------------------------------------------------------------- */

static void add_end_id(mica__decoder_spec *spec, int64_t id)
{
    for (int i = 0; i < spec->n_end_ids; i++)
        if (spec->end_ids[i] == id)
            return;
    if (id >= 0 && id <= INT32_MAX && spec->n_end_ids < MICA__MAX_END_IDS)
        spec->end_ids[spec->n_end_ids++] = (int32_t)id;
}

static void add_end_node(mica__decoder_spec *spec, const mica__json *node)
{
    if (node && node->type == MICA__JSON_INTEGER)
        add_end_id(spec, node->integer);
    if (node && node->type == MICA__JSON_ARRAY)
        for (const mica__json *at = node->first; at; at = at->next)
            add_end_node(spec, at->type == MICA__JSON_INTEGER ? at : NULL);
}

static void gguf_end_ids(const mica__gguf *gguf, mica__decoder_spec *spec)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (int i = 0; i < 3; i++) {
        int64_t id;
        if (mica__gguf_get_i64(gguf, keys[i], &id) == MICA_OK)
            add_end_id(spec, id);
    }
}

/* --- the two sources -------------------------------------------------------------------------- */

static mica_status open_gguf(mica_model *model)
{
    const mica__gguf *gguf = mica__weights_gguf(model->files);
    mica__config config;
    mica__gguf_string name;
    mica_status status = mica__config_from_gguf(gguf, &config);
    if (status == MICA_OK)
        status = read_spec(config.prefix, strlen(config.prefix), &config, &model->spec);
    mica__config_free(&config);
    MICA_TRY(status);
    gguf_end_ids(gguf, &model->spec);
    if (mica__gguf_get_string(gguf, "general.name", &name) == MICA_OK)
        snprintf(model->name, sizeof model->name, "%.*s",
                 (int)(name.length < 255 ? name.length : 255), name.bytes);
    return mica__decoder_weights_load(model->mc, model->files, NULL, &model->spec, &model->weights);
}

static mica_status folder_file(const mica_model *model, const char *file, char *path, size_t n)
{
    const int length = snprintf(path, n, "%s/%s", mica__weights_folder(model->files), file);
    if (length < 0 || (size_t)length >= n)
        MICA_FAIL(MICA_E_ARGUMENT, "the path of the model is too long");
    return MICA_OK;
}

/* generation_config.json's end tokens override config.json's; a folder without it is usual. */
static void folder_end_ids(mica_model *model, const mica__json *config)
{
    char path[4096];
    mica__json_doc *generation = NULL;
    if (folder_file(model, "generation_config.json", path, sizeof path) == MICA_OK &&
        mica__json_read(path, MAX_CONFIG_BYTES, &generation) == MICA_OK)
        add_end_node(&model->spec, mica__json_get(mica__json_root(generation), "eos_token_id"));
    mica__json_free(generation);
    if (!model->spec.n_end_ids)
        add_end_node(&model->spec, mica__json_get(config, "eos_token_id"));
}

static mica_status open_config(mica_model *model, const mica__json *root)
{
    const mica__json *type = mica__json_get(root, "model_type");
    if (!type || type->type != MICA__JSON_STRING || type->length >= MICA__ARCH_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "config.json has no model_type");
    mica__config config;
    mica_status status = mica__config_from_json(root, &config);
    if (status == MICA_OK)
        status = read_spec(type->string, (size_t)type->length, &config, &model->spec);
    mica__config_free(&config);
    MICA_TRY(status);
    folder_end_ids(model, root);
    const mica__json *quantization = mica__json_get(root, "quantization");
    if (!quantization && mica__json_get(root, "quantization_config"))
        quantization = mica__json_get(root, "quantization_config");
    if (quantization && mica__json_get(quantization, "quant_method"))
        MICA_FAIL(
            MICA_E_UNSUPPORTED,
            "config.json: quantization_config of another system (quant_method) is not supported");
    return mica__decoder_weights_load(model->mc, model->files, quantization, &model->spec,
                                      &model->weights);
}

static mica_status open_folder(mica_model *model)
{
    char path[4096];
    mica__json_doc *doc = NULL;
    MICA_TRY(folder_file(model, "config.json", path, sizeof path));
    MICA_TRY(mica__json_read(path, MAX_CONFIG_BYTES, &doc));
    const mica_status status = open_config(model, mica__json_root(doc));
    mica__json_free(doc);
    const char *folder = mica__weights_folder(model->files), *slash = strrchr(folder, '/');
    snprintf(model->name, sizeof model->name, "%s", slash && slash[1] ? slash + 1 : folder);
    return status;
}

/* --- public ----------------------------------------------------------------------------------- */

static int64_t count_parameters(const mica_model *model)
{
    int64_t n = 0;
    for (int64_t i = 0; i < mica__weights_n(model->files); i++) {
        const mica__weight *tensor = mica__weights_at(model->files, i);
        int64_t values = 1;
        for (int d = 0; d < tensor->n_dims; d++)
            values *= tensor->shape[d];
        n += values;
    }
    return n;
}

mica_status mica_model_open(mica_ctx *mc, const char *path, const mica_model_options *options,
                            mica_model **opened)
{
    static const mica_model_options defaults;
    if (!options)
        options = &defaults;
    *opened = NULL;
    if (!mc || !path)
        MICA_FAIL(MICA_E_ARGUMENT, "model_open: no context or no path");
    mica_model *model = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *model);
    if (!model)
        return MICA_E_MEMORY;
    model->mc = mc;
    model->mode = options->activations == MICA_ACTIVATIONS_AUTO ? MICA_ACTIVATIONS_INT8
                                                                : options->activations;
    model->activations =
        model->mode == MICA_ACTIVATIONS_INT8 ? MICA__ACTIVATIONS_INT8 : MICA__ACTIVATIONS_F32;
    mica_status status = mica__weights_open(path, !options->no_mmap, &model->files);
    if (status == MICA_OK)
        status = mica__weights_kind_of(model->files) == MICA__WEIGHTS_GGUF ? open_gguf(model)
                                                                           : open_folder(model);
    if (status != MICA_OK) {
        mica_model_close(model);
        return mica__fail_at(status, "%s", path);
    }
    model->n_parameters = count_parameters(model);
    *opened = model;
    return MICA_OK;
}

void mica_model_close(mica_model *model)
{
    if (!model)
        return;
    mica__decoder_weights_free(&model->weights, &model->spec);
    mica__weights_close(model->files);
    mica__free(model);
}

mica_model_facts mica_model_describe(const mica_model *model)
{
    const mica__decoder_spec *s = &model->spec;
    int64_t sliding = 0;
    for (int i = 0; i < s->n_layers; i++)
        sliding += s->sliding[i];
    return (mica_model_facts){
        .architecture = s->architecture,
        .name = model->name,
        .n_parameters = model->n_parameters,
        .weight_bytes = mica__weights_bytes(model->files),
        .read_bytes = model->weights.read_bytes,
        .n_layers = s->n_layers,
        .hidden = s->hidden,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .n_vocab = s->n_vocab,
        .context = s->context,
        .window = sliding ? s->window : 0,
        .n_sliding_layers = sliding,
        .activations = model->mode,
    };
}

int mica_model_end_ids(const mica_model *model, const int32_t **ids)
{
    *ids = model->spec.end_ids;
    return model->spec.n_end_ids;
}

mica_status mica_model_tokenizer(const mica_model *model, mica_tokenizer **tokenizer)
{
    if (!model || !tokenizer)
        MICA_FAIL(MICA_E_ARGUMENT, "model_tokenizer: no model");
    const mica__gguf *gguf = mica__weights_gguf(model->files);
    if (!gguf)
        return mica_tokenizer_open(mica__weights_folder(model->files), tokenizer);
    const mica_status status = mica__tokenizer_from_gguf(gguf, tokenizer);
    return status == MICA_OK ? status : mica__fail_at(status, "%s", mica__gguf_path(gguf, 0));
}
