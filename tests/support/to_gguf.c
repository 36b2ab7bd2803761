/* to_gguf.c - see to_gguf.h.
 * SPDX-License-Identifier: MIT
 */
#include "support/to_gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "io/block_codec.h"
#include "io/gguf_write.h"
#include "io/json.h"
#include "io/weights.h"

typedef struct conversion {
    const to_gguf_options *options;
    mica__json_doc *config_doc, *tokenizer_doc;
    const mica__json *config;
    mica__weights *weights;
    mica__gguf_writer *writer;
    const char *arch; /* GGUF's name */
    bool gemma, llama;
    int64_t heads, kv_heads, head_dim;
    double *factors; /* [head_dim / 2] of llama3's scaling, or NULL */
} conversion;

static double number(const mica__json *object, const char *key, double fallback)
{
    const mica__json *node = mica__json_get(object, key);
    return node && (node->type == MICA__JSON_INTEGER || node->type == MICA__JSON_REAL)
               ? node->number
               : fallback;
}

/* --- keys ------------------------------------------------------------------------------------- */

static mica_status put_u32(conversion *c, const char *suffix, double value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->arch, suffix);
    return mica__gguf_put_integer(c->writer, key, MICA__GGUF_U32, (int64_t)value);
}

static mica_status put_f32(conversion *c, const char *suffix, double value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->arch, suffix);
    return mica__gguf_put_real(c->writer, key, MICA__GGUF_F32, (double)(float)value);
}

static mica_status put_general(conversion *c, const char *key, const char *text)
{
    return text ? mica__gguf_put_string(c->writer, key, text, (int64_t)strlen(text)) : MICA_OK;
}

static mica_status put_model_keys(conversion *c)
{
    const mica__json *g = c->config;
    MICA_TRY(put_general(c, "general.architecture", c->arch));
    MICA_TRY(put_general(c, "general.name", c->options->name));
    MICA_TRY(put_general(c, "general.description", c->options->description));
    MICA_TRY(put_general(c, "general.license", c->options->license));
    MICA_TRY(put_u32(c, "context_length", number(g, "max_position_embeddings", 0)));
    MICA_TRY(put_u32(c, "embedding_length", number(g, "hidden_size", 0)));
    MICA_TRY(put_u32(c, "block_count", number(g, "num_hidden_layers", 0)));
    MICA_TRY(put_u32(c, "feed_forward_length", number(g, "intermediate_size", 0)));
    MICA_TRY(put_u32(c, "attention.head_count", (double)c->heads));
    MICA_TRY(put_u32(c, "attention.head_count_kv", (double)c->kv_heads));
    MICA_TRY(put_u32(c, "attention.key_length", (double)c->head_dim));
    MICA_TRY(put_u32(c, "attention.value_length", (double)c->head_dim));
    MICA_TRY(put_u32(c, "rope.dimension_count", (double)c->head_dim));
    MICA_TRY(put_f32(c, "rope.freq_base", number(g, "rope_theta", 10000)));
    MICA_TRY(put_f32(c, "attention.layer_norm_rms_epsilon", number(g, "rms_norm_eps", 0)));
    if (!c->gemma)
        return MICA_OK;
    MICA_TRY(put_f32(c, "rope.freq_base_swa", number(g, "rope_local_base_freq", 10000)));
    MICA_TRY(put_u32(c, "attention.sliding_window", number(g, "sliding_window", 0)));
    MICA_TRY(
        put_u32(c, "attention.sliding_window_pattern", number(g, "sliding_window_pattern", 6)));
    return put_f32(c, "attention.scale",
                   1 / sqrt(number(g, "query_pre_attn_scalar", (double)c->head_dim)));
}

static mica_status put_vocabulary(conversion *c, const mica__json *vocab, const mica__json *added)
{
    const int64_t n = (int64_t)number(c->config, "vocab_size", 0);
    mica__gguf_string *tokens = calloc((size_t)n, sizeof *tokens);
    int32_t *types = calloc((size_t)n, sizeof *types);
    mica_status status = tokens && types ? MICA_OK : MICA_E_MEMORY;
    for (const mica__json *at = vocab->first; at && status == MICA_OK; at = at->next)
        if (at->integer >= 0 && at->integer < n) {
            tokens[at->integer] = (mica__gguf_string){at->key, at->key_length};
            types[at->integer] = 1;
        }
    for (const mica__json *at = added ? added->first : NULL; at && status == MICA_OK;
         at = at->next) {
        const int64_t id = mica__json_get(at, "id")->integer;
        const mica__json *content = mica__json_get(at, "content");
        if (id >= 0 && id < n) {
            tokens[id] = (mica__gguf_string){content->string, content->length};
            types[id] = mica__json_get(at, "special")->boolean ? 3 : 4;
        }
    }
    for (int64_t i = 0; i < n && status == MICA_OK; i++)
        if (!types[i])
            status = mica__fail(MICA_E_FORMAT, "the tokenizer has no token %lld", (long long)i);
    if (status == MICA_OK)
        status = mica__gguf_put_strings(c->writer, "tokenizer.ggml.tokens", tokens, n);
    if (status == MICA_OK)
        status =
            mica__gguf_put_array(c->writer, "tokenizer.ggml.token_type", MICA__GGUF_I32, types, n);
    free(tokens);
    free(types);
    return status;
}

static mica_status put_merges(conversion *c, const mica__json *merges)
{
    mica__gguf_string *list = calloc((size_t)merges->n + 1, sizeof *list);
    char **joined = calloc((size_t)merges->n + 1, sizeof *joined);
    mica_status status = list && joined ? MICA_OK : MICA_E_MEMORY;
    int64_t n = 0;
    for (const mica__json *at = merges->first; at && status == MICA_OK; at = at->next, n++) {
        if (at->type == MICA__JSON_STRING) {
            list[n] = (mica__gguf_string){at->string, at->length};
            continue;
        }
        const mica__json *a = at->first, *b = a->next;
        joined[n] = malloc((size_t)(a->length + b->length + 2));
        list[n] = (mica__gguf_string){joined[n], sprintf(joined[n], "%s %s", a->string, b->string)};
    }
    if (status == MICA_OK)
        status = mica__gguf_put_strings(c->writer, "tokenizer.ggml.merges", list, n);
    for (int64_t i = 0; joined && i < merges->n; i++)
        free(joined[i]);
    free(joined);
    free(list);
    return status;
}

static mica_status put_tokenizer(conversion *c)
{
    const mica__json *root = mica__json_root(c->tokenizer_doc),
                     *model = mica__json_get(root, "model");
    MICA_TRY(mica__gguf_put_string(c->writer, "tokenizer.ggml.model", "gpt2", 4));
    MICA_TRY(mica__gguf_put_string(c->writer, "tokenizer.ggml.pre", "gpt-2", 5));
    MICA_TRY(
        put_vocabulary(c, mica__json_get(model, "vocab"), mica__json_get(root, "added_tokens")));
    MICA_TRY(put_merges(c, mica__json_get(model, "merges")));
    MICA_TRY(mica__gguf_put_integer(c->writer, "tokenizer.ggml.bos_token_id", MICA__GGUF_U32,
                                    (int64_t)number(c->config, "bos_token_id", 0)));
    MICA_TRY(mica__gguf_put_integer(c->writer, "tokenizer.ggml.eos_token_id", MICA__GGUF_U32,
                                    (int64_t)number(c->config, "eos_token_id", 0)));
    return mica__gguf_put_bool(c->writer, "tokenizer.ggml.add_bos_token", false);
}

/* --- tensors ---------------------------------------------------------------------------------- */

static const struct {
    const char *hf, *gguf;
} names[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"post_attention_layernorm", NULL},
};

static mica_status gguf_name(const conversion *c, const char *hf, char out[128])
{
    int layer = -1, at = 0;
    const char *rest = hf;
    if (sscanf(hf, "model.layers.%d.%n", &layer, &at) == 1 && at)
        rest = hf + at;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i].hf);
        if (strncmp(rest, names[i].hf, n) != 0 || rest[n] != '.')
            continue;
        const char *name = names[i].gguf ? names[i].gguf
                           : c->gemma    ? "post_attention_norm"
                                         : "ffn_norm";
        if (layer >= 0)
            snprintf(out, 128, "blk.%d.%s%s", layer, name, rest + n);
        else
            snprintf(out, 128, "%s%s", name, rest + n);
        return MICA_OK;
    }
    MICA_FAIL(MICA_E_UNSUPPORTED, "no GGUF name for %s", hf);
}

static mica__block_format format_of(const conversion *c, const mica__weight *tensor)
{
    if (tensor->n_dims == 1)
        return MICA__F32;
    return strstr(tensor->name, "embed_tokens") ? c->options->embedding : c->options->matrices;
}

/* Row of the folder's tensor that stands at `row` of the GGUF's: pairs (i, i + d/2) become (2i, 2i
 * + 1). */
static int64_t source_row(const conversion *c, const mica__weight *tensor, int64_t row)
{
    if (!c->llama || (!strstr(tensor->name, "q_proj") && !strstr(tensor->name, "k_proj")))
        return row;
    const int64_t d = c->head_dim, head = row / d, i = row % d;
    return head * d + i / 2 + (i % 2) * (d / 2);
}

static mica_status write_tensor(conversion *c, const mica__weight *tensor)
{
    const int64_t k = tensor->shape[tensor->n_dims - 1],
                  rows = tensor->n_dims > 1 ? tensor->shape[0] : 1;
    const bool vector = tensor->n_dims == 1;
    const mica__block_format format = format_of(c, tensor);
    const int64_t in_bytes = mica__block_row_bytes(tensor->format, k),
                  out_bytes = mica__block_row_bytes(format, k);
    float *values = malloc((size_t)k * sizeof *values), *all = NULL;
    uint8_t *row = malloc((size_t)out_bytes + 1);
    mica_status status = values && row && out_bytes > 0 ? MICA_OK : MICA_E_MEMORY;
    for (int64_t r = 0; r < rows && status == MICA_OK; r++) {
        status = mica__block_decode(tensor->format,
                                    tensor->data + source_row(c, tensor, r) * in_bytes, k, values);
        if (status == MICA_OK && vector) { /* a bias of q or k is permuted like its rows */
            all = malloc((size_t)k * sizeof *all);
            for (int64_t i = 0; all && i < k; i++)
                all[i] = values[source_row(c, tensor, i)] +
                         (c->gemma && strstr(tensor->name, "norm") ? 1.0f : 0.0f);
            if (all)
                memcpy(values, all, (size_t)k * sizeof *all);
            free(all);
        }
        if (status == MICA_OK)
            status = mica__block_encode(format, values, k, row);
        if (status == MICA_OK)
            status = mica__gguf_write(c->writer, row, out_bytes);
    }
    free(values);
    free(row);
    return status;
}

static mica_status put_tensors(conversion *c)
{
    char name[128];
    const int64_t n = mica__weights_n(c->weights), half = c->head_dim / 2;
    if (c->factors)
        MICA_TRY(mica__gguf_declare(c->writer, "rope_freqs.weight", MICA__F32, 1, &half));
    for (int64_t i = 0; i < n; i++) {
        const mica__weight *tensor = mica__weights_at(c->weights, i);
        MICA_TRY(gguf_name(c, tensor->name, name));
        MICA_TRY(mica__gguf_declare(c->writer, name, format_of(c, tensor), tensor->n_dims,
                                    tensor->shape));
    }
    for (int64_t i = 0; i < half && c->factors; i++) {
        const float factor = (float)c->factors[i];
        MICA_TRY(mica__gguf_write(c->writer, &factor, sizeof factor));
    }
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(write_tensor(c, mica__weights_at(c->weights, i)));
    return MICA_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* GGUF keeps llama3's scaling as what each frequency is divided by. */
static mica_status llama3_factors(conversion *c)
{
    const mica__json *s = mica__json_get(c->config, "rope_scaling");
    if (!s || s->type != MICA__JSON_OBJECT)
        return MICA_OK;
    c->factors = malloc((size_t)c->head_dim / 2 * sizeof *c->factors);
    if (!c->factors)
        return MICA_E_MEMORY;
    const double factor = number(s, "factor", 1), low = number(s, "low_freq_factor", 1);
    const double high = number(s, "high_freq_factor", 1),
                 length = number(s, "original_max_position_embeddings", 1);
    for (int64_t i = 0; i < c->head_dim / 2; i++) {
        const double f =
            pow(number(c->config, "rope_theta", 10000), -2.0 * (double)i / (double)c->head_dim);
        const double turns = length * f / (2 * 3.14159265358979323846);
        const double smooth = (turns - low) / (high - low);
        c->factors[i] = turns < low    ? factor
                        : turns > high ? 1
                                       : 1 / ((1 - smooth) / factor + smooth);
    }
    return MICA_OK;
}

static mica_status read_config(conversion *c, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", folder);
    MICA_TRY(mica__json_read(path, 1 << 20, &c->config_doc));
    c->config = mica__json_root(c->config_doc);
    const char *type = mica__json_get(c->config, "model_type")->string;
    c->gemma = !strcmp(type, "gemma3_text");
    c->llama = !strcmp(type, "llama") || !strcmp(type, "mistral");
    c->arch = c->gemma ? "gemma3" : c->llama ? "llama" : type;
    c->heads = (int64_t)number(c->config, "num_attention_heads", 1);
    c->kv_heads = (int64_t)number(c->config, "num_key_value_heads", (double)c->heads);
    c->head_dim = (int64_t)number(c->config, "head_dim",
                                  number(c->config, "hidden_size", 0) / (double)c->heads);
    MICA_TRY(llama3_factors(c));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    mica__json_read(path, 64 << 20, &c->tokenizer_doc); /* a folder without one is usual in tests */
    return mica__weights_open(folder, true, &c->weights);
}

mica_status to_gguf(const char *folder, const char *path, const to_gguf_options *options)
{
    conversion c = {.options = options};
    mica_status status = read_config(&c, folder);
    if (status == MICA_OK)
        status = mica__gguf_writer_open(path, 0, &c.writer);
    if (status == MICA_OK)
        status = put_model_keys(&c);
    if (status == MICA_OK && c.tokenizer_doc)
        status = put_tokenizer(&c);
    if (status == MICA_OK)
        status = put_tensors(&c);
    if (status == MICA_OK)
        status = mica__gguf_writer_finish(c.writer);
    else
        mica__gguf_writer_discard(c.writer);
    free(c.factors);
    mica__weights_close(c.weights);
    mica__json_free(c.config_doc);
    mica__json_free(c.tokenizer_doc);
    return status;
}
