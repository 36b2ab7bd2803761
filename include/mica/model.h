/* model.h - language models from files.
 *
 * A model is a folder (config.json with safetensors) or a GGUF file, mapped read-only and used in
 * place. A model that is not fully understood is refused by the name of what is unknown, never
 * approximated.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MODEL_H
#define MICA_MODEL_H

#include <mica/array.h>
#include <mica/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mica_model mica_model;

/* How activations enter products with quantised weights (docs/numerics.md). */
typedef enum mica_activation_mode {
    MICA_ACTIVATIONS_AUTO, /* int8 */
    MICA_ACTIVATIONS_F32,  /* as they are; weights are dequantised: the reference mode */
    MICA_ACTIVATIONS_INT8  /* rounded to 8 bits per group where weights are quantised */
} mica_activation_mode;

/* Zero-initialise; zero means the default. */
typedef struct mica_model_options {
    mica_activation_mode activations;
    bool no_mmap; /* read the weights into counted memory instead of mapping them */
} mica_model_options;

/* Opens a model on a context, which must outlive it and whose thread must be the one that steps it.
 * *model is owned by the caller. MICA_E_UNSUPPORTED names an architecture, field, tensor type or
 * tensor that is not understood; MICA_E_FORMAT what is missing or broken. */
MICA_API mica_status mica_model_open(mica_ctx *mc, const char *path,
                                     const mica_model_options *options, mica_model **model);
MICA_API void mica_model_close(mica_model *model);

typedef struct mica_model_facts {
    const char *architecture; /* "llama", "gemma3_text", ...: as long as the model lives */
    const char *name;         /* general.name of a GGUF file, else the folder's name */
    int64_t n_parameters;
    int64_t weight_bytes; /* of all tensors as stored */
    int64_t read_bytes;   /* of the weights that one decoded token reads */
    int64_t n_layers, hidden, n_heads, n_kv_heads, head_dim, n_vocab;
    int64_t context; /* tokens the model was trained for */
    int64_t window;  /* of its sliding layers, 0: it has none */
    int64_t n_sliding_layers;
    mica_activation_mode activations;
} mica_model_facts;

/* Facts of an open model. */
MICA_API mica_model_facts mica_model_describe(const mica_model *model);

/* Ids that end an answer, from generation_config.json, config.json or GGUF keys. Returns how many;
 * *ids as long as the model lives. The tokenizer's files may name more. */
MICA_API int mica_model_end_ids(const mica_model *model, const int32_t **ids);

/* The tokenizer that came with the model: from the keys of its GGUF file, which are read where they
 * are and not opened a second time, else from the files beside its weights. *tokenizer is owned by
 * the caller (mica_tokenizer_free) and may outlive the model. Errors as mica_tokenizer_open's. */
MICA_API mica_status mica_model_tokenizer(const mica_model *model, mica_tokenizer **tokenizer);

#ifdef __cplusplus
}
#endif

#endif
