/* tiny_model.c - see tiny_model.h.
 * SPDX-License-Identifier: MIT
 */
#include "support/tiny_model.h"

#include <stdlib.h>

#include <mica/io.h>

#include "support/check.h"
#include "support/temp_dir.h"
#include "support/to_gguf.h"
#include "support/weights.h"

enum { HIDDEN = 64, WIDE = 128, VOCAB = 256, LAYERS = 3, HEADS = 4 };

typedef struct tiny {
    const char *name;
    int64_t kv_heads, head_dim;
    bool tied, qkv_bias, o_bias, mlp_bias, qk_norm, four_norms;
    const char *more; /* of config.json */
} tiny;

static const tiny models[] = {
    {.name = "llama",
     .kv_heads = 2,
     .head_dim = 16,
     .qkv_bias = true,
     .o_bias = true,
     .mlp_bias = true,
     .more = "\"hidden_act\":\"silu\",\"rope_theta\":10000.0,\"attention_bias\":true,"
             "\"mlp_bias\":true,\"rope_scaling\":{\"factor\":8.0,\"low_freq_factor\":1.0,"
             "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":64,"
             "\"rope_type\":\"llama3\"}"},
    {.name = "mistral",
     .kv_heads = 1,
     .head_dim = 16,
     .more = "\"hidden_act\":\"silu\",\"rope_theta\":10000.0,\"sliding_window\":12"},
    {.name = "qwen2",
     .kv_heads = 2,
     .head_dim = 16,
     .tied = true,
     .qkv_bias = true,
     .more = "\"hidden_act\":\"silu\",\"rope_theta\":1000000.0,\"use_sliding_window\":false,"
             "\"sliding_window\":16,\"max_window_layers\":1"},
    {.name = "qwen3",
     .kv_heads = 4,
     .head_dim = 32,
     .tied = true,
     .qk_norm = true,
     .more = "\"hidden_act\":\"silu\",\"rope_theta\":1000000.0,\"attention_bias\":false,"
             "\"use_sliding_window\":false,\"sliding_window\":null,\"max_window_layers\":3"},
    {.name = "gemma3_text",
     .kv_heads = 1,
     .head_dim = 32,
     .tied = true,
     .qk_norm = true,
     .four_norms = true,
     .more = "\"hidden_activation\":\"gelu_pytorch_tanh\",\"rope_theta\":1000000.0,"
             "\"rope_local_base_freq\":10000.0,\"rope_scaling\":null,\"sliding_window\":12,"
             "\"sliding_window_pattern\":3,\"query_pre_attn_scalar\":24,"
             "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null"},
};
#define N_MODELS ((int)(sizeof models / sizeof *models))

const char *tiny_model_name(int i)
{
    return i >= 0 && i < N_MODELS ? models[i].name : NULL;
}

static void write_config(const char *folder, const tiny *m)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"model_type\":\"%s\",\"vocab_size\":%d,\"hidden_size\":%d,\"intermediate_size\":%d,"
             "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,"
             "\"head_dim\":%d,\"max_position_embeddings\":1024,\"bos_token_id\":1,"
             "\"eos_token_id\":2,\"rms_norm_eps\":1e-05,\"tie_word_embeddings\":%s,%s}",
             m->name, VOCAB, HIDDEN, WIDE, LAYERS, HEADS, (int)m->kv_heads, (int)m->head_dim,
             m->tied ? "true" : "false", m->more);
    temp_write_text(folder, "config.json", text);
}

/* Tensors are listed twice: to declare them, then to write their values. */
typedef struct writing {
    mica_tensor_writer *writer;
    mica_status status;
    bool values;
    uint64_t seed;
    bool gemma; /* its norms are stored without their 1 */
} writing;

static void put(writing *w, const char *name, int64_t rows, int64_t k, double middle, double spread)
{
    const int64_t shape[] = {rows, k}, n = rows ? rows * k : k;
    if (w->status != MICA_OK)
        return;
    if (!w->values) {
        w->status = mica_tensor_writer_declare(w->writer, name, MICA_F32, rows ? 2 : 1,
                                               rows ? shape : shape + 1);
        return;
    }
    float *values = malloc((size_t)n * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(middle + spread * draw_signed(&w->seed));
    w->status = mica_tensor_writer_write(w->writer, values, n * (int64_t)sizeof *values);
    free(values);
}

static void put_norm(writing *w, int layer, const char *name, int64_t k)
{
    char full[128];
    snprintf(full, sizeof full, "model.layers.%d.%s.weight", layer, name);
    put(w, full, 0, k, w->gemma ? 0 : 1, 0.3);
}

static void put_linear(writing *w, int layer, const char *name, int64_t rows, int64_t k, bool bias)
{
    char full[128];
    snprintf(full, sizeof full, "model.layers.%d.%s.weight", layer, name);
    put(w, full, rows, k, 0, 0.25);
    snprintf(full, sizeof full, "model.layers.%d.%s.bias", layer, name);
    if (bias)
        put(w, full, 0, rows, 0, 0.2);
}

static void put_layer(writing *w, const tiny *m, int layer)
{
    const int64_t q = HEADS * m->head_dim, kv = m->kv_heads * m->head_dim;
    put_norm(w, layer, "input_layernorm", HIDDEN);
    put_norm(w, layer, "post_attention_layernorm", HIDDEN);
    if (m->four_norms) {
        put_norm(w, layer, "pre_feedforward_layernorm", HIDDEN);
        put_norm(w, layer, "post_feedforward_layernorm", HIDDEN);
    }
    put_linear(w, layer, "self_attn.q_proj", q, HIDDEN, m->qkv_bias);
    put_linear(w, layer, "self_attn.k_proj", kv, HIDDEN, m->qkv_bias);
    put_linear(w, layer, "self_attn.v_proj", kv, HIDDEN, m->qkv_bias);
    put_linear(w, layer, "self_attn.o_proj", HIDDEN, q, m->o_bias);
    if (m->qk_norm) {
        put_norm(w, layer, "self_attn.q_norm", m->head_dim);
        put_norm(w, layer, "self_attn.k_norm", m->head_dim);
    }
    put_linear(w, layer, "mlp.gate_proj", WIDE, HIDDEN, m->mlp_bias);
    put_linear(w, layer, "mlp.up_proj", WIDE, HIDDEN, m->mlp_bias);
    put_linear(w, layer, "mlp.down_proj", HIDDEN, WIDE, m->mlp_bias);
}

mica_status tiny_model_write(const char *folder, const char *name)
{
    const tiny *m = models;
    while (m < models + N_MODELS && strcmp(m->name, name) != 0)
        m++;
    assert_true(m < models + N_MODELS);
    write_config(folder, m);
    writing w = {.seed = 5, .gemma = m->four_norms};
    w.status = mica_tensor_writer_open(temp_path(folder, "model.safetensors"), &w.writer);
    for (int pass = 0; pass < 2 && w.status == MICA_OK; pass++) {
        w.values = pass == 1;
        put(&w, "model.embed_tokens.weight", VOCAB, HIDDEN, 0, 1);
        for (int layer = 0; layer < LAYERS; layer++)
            put_layer(&w, m, layer);
        put(&w, "model.norm.weight", 0, HIDDEN, w.gemma ? 0 : 1, 0.3);
        if (!m->tied)
            put(&w, "lm_head.weight", VOCAB, HIDDEN, 0, 0.25);
    }
    if (w.status != MICA_OK) {
        mica_tensor_writer_discard(w.writer);
        return w.status;
    }
    return mica_tensor_writer_finish(w.writer);
}

void tiny_model_file(const char *folder, const char *name, mica__block_format format, char *path,
                     size_t path_bytes)
{
    assert_ok(tiny_model_write(folder, name));
    snprintf(path, path_bytes, "%s", folder);
    if (format == MICA__F32)
        return;
    const to_gguf_options options = {.name = name, .matrices = format, .embedding = format};
    snprintf(path, path_bytes, "%s/model.gguf", folder);
    assert_ok(to_gguf(folder, path, &options));
}
