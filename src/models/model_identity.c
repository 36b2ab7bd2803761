/* model_identity.c - telling models apart by their files, in milliseconds.
 *
 * The fingerprint is a hash over the configuration whole (config.json, or all keys of a GGUF file),
 * and of every tensor its name, type, shape and bytes: small ones whole, of large ones 16 pieces of
 * 256 bytes spread evenly from the first byte to the last. Training, fusing an adapter and
 * quantising change nearly every value of a tensor; what goes unseen is an edit of few values of a
 * large one.
 * SPDX-License-Identifier: MIT
 */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash_map.h"
#include "io/shown.h"
#include "run/engine.h"

#define PIECES      16
#define PIECE_BYTES 256

#define MAX_CONFIG_BYTES ((int64_t)16 << 20)

static uint64_t hash_tensor(const mica__weight *tensor, uint64_t hash)
{
    hash = mica__hash(tensor->name, strlen(tensor->name), hash);
    hash = mica__hash(tensor->type, strlen(tensor->type), hash);
    hash = mica__hash(tensor->shape, (size_t)tensor->n_dims * sizeof *tensor->shape, hash);
    if (tensor->bytes <= PIECES * PIECE_BYTES)
        return mica__hash(tensor->data, (size_t)tensor->bytes, hash);
    const int64_t last = tensor->bytes - PIECE_BYTES;
    for (int64_t i = 0; i < PIECES; i++) {
        const int64_t at = last / (PIECES - 1) * i + last % (PIECES - 1) * i / (PIECES - 1);
        hash = mica__hash(tensor->data + at, PIECE_BYTES, hash);
    }
    return hash;
}

static uint64_t hash_gguf_keys(const mica__gguf *gguf, uint64_t hash)
{
    for (int64_t i = 0; i < mica__gguf_n_values(gguf); i++) {
        const mica__gguf_value *value = mica__gguf_value_at(gguf, i);
        const int64_t shape[] = {value->type, value->element_type, value->n};
        hash = mica__hash(value->key.bytes, (size_t)value->key.length, hash);
        hash = mica__hash(shape, sizeof shape, hash);
        hash = mica__hash(value->data, (size_t)value->bytes, hash);
    }
    return hash;
}

static mica_status hash_config(const mica_model *model, uint64_t *hash)
{
    mica__text text = {.kind = MICA_MEMORY_OTHER};
    char *path = mica__path_join(mica__weights_folder(model->files), "config.json");
    mica_status status = path ? mica__file_read_text(path, MAX_CONFIG_BYTES, &text) : MICA_E_MEMORY;
    mica__free(path);
    if (status == MICA_OK)
        *hash = mica__hash(text.bytes, (size_t)text.length, *hash);
    mica__text_free(&text);
    return status;
}

static const char *kv_name(mica__kv_dtype dtype)
{
    int i = 0;
    while (i < MICA_N_KV_DTYPES && mica__kv_dtype_from((mica_kv_dtype)i) != dtype)
        i++;
    return mica_kv_dtype_name((mica_kv_dtype)i);
}

mica_status mica__model_identify(const mica_model *model, mica__kv_dtype kv_dtype,
                                 mica__identity *identity)
{
    uint64_t hash = 0;
    const mica__gguf *gguf = mica__weights_gguf(model->files);
    if (gguf)
        hash = hash_gguf_keys(gguf, hash);
    else
        MICA_TRY(hash_config(model, &hash));
    for (int64_t i = 0; i < mica__weights_n(model->files); i++)
        hash = hash_tensor(mica__weights_at(model->files, i), hash);
    memset(identity, 0, sizeof *identity);
    mica__shown(identity->name, model->name, (int64_t)strlen(model->name));
    snprintf(identity->model, sizeof identity->model, "%s %016llx", model->spec.architecture,
             (unsigned long long)hash);
    snprintf(identity->kv, sizeof identity->kv, "%s", kv_name(kv_dtype));
    snprintf(identity->activations, sizeof identity->activations, "%s",
             model->activations == MICA__ACTIVATIONS_INT8 ? "int8" : "f32");
    return MICA_OK;
}
