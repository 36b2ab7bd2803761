/* architectures.c - the architectures mica knows, each a function from configuration to
 * decoder_spec.
 *
 * Adding a plain decoder: one function and one row of the table at the end. Field names: Hugging
 * Face config.json and the GGUF specification's keys.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <string.h>

#include "models/config.h"

static mica_status read_sizes(mica__config *c, mica__decoder_spec *spec)
{
    int64_t layers, heads, kv_heads, head_dim;
    const int64_t most = (int64_t)1 << 24;
    MICA_TRY(mica__config_int(c, (mica__field){"hidden_size", "embedding_length"}, NULL, 1, most,
                              &spec->hidden));
    MICA_TRY(mica__config_int(c, (mica__field){"num_hidden_layers", "block_count"}, NULL, 1,
                              MICA__MAX_LAYERS, &layers));
    MICA_TRY(mica__config_int(c, (mica__field){"num_attention_heads", "attention.head_count"}, NULL,
                              1, 4096, &heads));
    MICA_TRY(mica__config_int(c, (mica__field){"num_key_value_heads", "attention.head_count_kv"},
                              &heads, 1, heads, &kv_heads));
    const int64_t even = spec->hidden / heads;
    MICA_TRY(mica__config_int(c, (mica__field){"head_dim", "attention.key_length"}, &even, 1, 4096,
                              &head_dim));
    MICA_TRY(mica__config_int(c, (mica__field){"intermediate_size", "feed_forward_length"}, NULL, 1,
                              most, &spec->intermediate));
    MICA_TRY(mica__config_int(c, (mica__field){"max_position_embeddings", "context_length"}, NULL,
                              1, INT32_MAX, &spec->context));
    if (heads % kv_heads)
        MICA_FAIL(MICA_E_FORMAT, "%lld query heads do not share %lld KV heads", (long long)heads,
                  (long long)kv_heads);
    int64_t value_dim, rotated;
    MICA_TRY(mica__config_int(c, (mica__field){NULL, "attention.value_length"}, &head_dim, 1, 4096,
                              &value_dim));
    MICA_TRY(mica__config_int(c, (mica__field){NULL, "rope.dimension_count"}, &head_dim, 1, 4096,
                              &rotated));
    if (value_dim != head_dim || rotated != head_dim || head_dim % 2)
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "heads of %lld features with %lld value features, %lld of them rotated",
                  (long long)head_dim, (long long)value_dim, (long long)rotated);
    spec->n_layers = (int32_t)layers;
    spec->n_heads = (int32_t)heads;
    spec->n_kv_heads = (int32_t)kv_heads;
    spec->head_dim = (int32_t)head_dim;
    return MICA_OK;
}

/* What all these decoders share. GGUF files do not say whether the head is tied, and few what the
 * vocabulary's size is: the weights do (decoder_weights.c). */
static mica_status read_common(mica__config *c, const char *activation_key, const char *activation,
                               mica__decoder_spec *spec)
{
    double eps;
    bool tied = false, causal = true;
    const int64_t unknown = 0;
    MICA_TRY(read_sizes(c, spec));
    MICA_TRY(mica__config_int(c, (mica__field){"vocab_size", "vocab_size"},
                              c->gguf ? &unknown : NULL, c->gguf ? 0 : 1, (int64_t)1 << 24,
                              &spec->n_vocab));
    MICA_TRY(mica__config_real(c, (mica__field){"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
                               NULL, &eps));
    MICA_TRY(mica__config_bool(c, (mica__field){"tie_word_embeddings", NULL}, spec->tied, &tied));
    MICA_TRY(mica__config_expect(c, (mica__field){activation_key, NULL}, activation));
    MICA_TRY(mica__config_bool(c, (mica__field){NULL, "attention.causal"}, true, &causal));
    if (!causal)
        MICA_FAIL(MICA_E_UNSUPPORTED, "attention.causal is false: a model that sees what follows");
    if (!(eps >= 0) || eps > 1)
        MICA_FAIL(MICA_E_FORMAT, "rms_norm_eps is %g", eps);
    spec->norm_eps = (float)eps;
    spec->tied = tied;
    spec->attention_scale = (float)(1 / sqrt((double)spec->head_dim));
    return MICA_OK;
}

/* Layers with a window, from layer_types where the file has it. `full_every` n: layer i is full
 * when (i + 1) % n == 0; 0: all slide. */
static mica_status read_sliding(mica__config *c, int64_t window, int64_t full_every,
                                mica__decoder_spec *spec)
{
    const mica__json *types = mica__config_node(c, "layer_types");
    spec->window = window;
    for (int32_t i = 0; i < spec->n_layers; i++)
        spec->sliding[i] = window > 0 && (full_every == 0 || (i + 1) % full_every != 0);
    if (!types)
        return MICA_OK;
    int32_t i = 0;
    if (types->type != MICA__JSON_ARRAY || types->n != spec->n_layers)
        MICA_FAIL(MICA_E_FORMAT, "config.json: layer_types does not list %d layers",
                  spec->n_layers);
    for (const mica__json *at = types->first; at; at = at->next, i++) {
        const bool sliding =
            at->type == MICA__JSON_STRING && !strcmp(at->string, "sliding_attention");
        if (!sliding && !(at->type == MICA__JSON_STRING && !strcmp(at->string, "full_attention")))
            MICA_FAIL(MICA_E_UNSUPPORTED, "config.json: layer %d has a type that is not understood",
                      i);
        if (sliding && window <= 0)
            MICA_FAIL(MICA_E_FORMAT, "config.json: layer %d slides and there is no sliding_window",
                      i);
        spec->sliding[i] = sliding;
    }
    return MICA_OK;
}

static mica_status read_llama(mica__config *c, mica__decoder_spec *spec)
{
    MICA_TRY(read_common(c, "hidden_act", "silu", spec));
    MICA_TRY(mica__config_bool(c, (mica__field){"attention_bias", NULL}, false, &spec->qkv_bias));
    MICA_TRY(mica__config_bool(c, (mica__field){"mlp_bias", NULL}, false, &spec->mlp_bias));
    spec->o_bias = spec->qkv_bias;
    spec->interleaved = c->gguf != NULL; /* GGUF's llama has the rows of q and k permuted for it */
    return mica__config_rope(c, NULL, 10000, &spec->rope);
}

static mica_status read_mistral(mica__config *c, mica__decoder_spec *spec)
{
    int64_t window;
    const int64_t none = 0;
    MICA_TRY(read_common(c, "hidden_act", "silu", spec));
    MICA_TRY(mica__config_int(c, (mica__field){"sliding_window", "attention.sliding_window"}, &none,
                              0, INT32_MAX, &window));
    MICA_TRY(read_sliding(c, window, 0, spec));
    return mica__config_rope(c, NULL, 10000, &spec->rope);
}

/* Qwen's sliding layers are those from max_window_layers on, and only when use_sliding_window says
 * so. */
static mica_status read_qwen_window(mica__config *c, mica__decoder_spec *spec)
{
    bool use = false;
    int64_t window, full_layers;
    const int64_t none = 0, all = spec->n_layers;
    MICA_TRY(mica__config_bool(c, (mica__field){"use_sliding_window", NULL}, false, &use));
    MICA_TRY(
        mica__config_int(c, (mica__field){"sliding_window", NULL}, &none, 0, INT32_MAX, &window));
    MICA_TRY(mica__config_int(c, (mica__field){"max_window_layers", NULL}, &all, 0, INT32_MAX,
                              &full_layers));
    MICA_TRY(read_sliding(c, use ? window : 0, 1, spec));
    if (use && window > 0 && !mica__config_node(c, "layer_types"))
        for (int32_t i = 0; i < spec->n_layers; i++)
            spec->sliding[i] = i >= full_layers;
    return MICA_OK;
}

static mica_status read_qwen2(mica__config *c, mica__decoder_spec *spec)
{
    MICA_TRY(read_common(c, "hidden_act", "silu", spec));
    MICA_TRY(read_qwen_window(c, spec));
    spec->qkv_bias = true;
    return mica__config_rope(c, NULL, 10000, &spec->rope);
}

static mica_status read_qwen3(mica__config *c, mica__decoder_spec *spec)
{
    bool bias = false;
    MICA_TRY(read_common(c, "hidden_act", "silu", spec));
    MICA_TRY(read_qwen_window(c, spec));
    MICA_TRY(mica__config_bool(c, (mica__field){"attention_bias", NULL}, false, &bias));
    spec->qkv_bias = spec->o_bias = bias;
    spec->qk_norm = true;
    return mica__config_rope(c, NULL, 10000, &spec->rope);
}

static mica_status read_gemma3(mica__config *c, mica__decoder_spec *spec)
{
    double scalar, attention_cap, logits_cap;
    const double none = 0;
    const int64_t six = 6;
    int64_t window, pattern, pattern5;
    bool bidirectional = false;
    spec->tied = c->json != NULL; /* where the file does not say it */
    MICA_TRY(read_common(c, "hidden_activation", "gelu_pytorch_tanh", spec));
    const double head_dim = spec->head_dim;
    MICA_TRY(
        mica__config_real(c, (mica__field){"query_pre_attn_scalar", NULL}, &head_dim, &scalar));
    MICA_TRY(mica__config_real(c, (mica__field){"attn_logit_softcapping", "attn_logit_softcapping"},
                               &none, &attention_cap));
    MICA_TRY(mica__config_real(c,
                               (mica__field){"final_logit_softcapping", "final_logit_softcapping"},
                               &none, &logits_cap));
    MICA_TRY(mica__config_int(c, (mica__field){"sliding_window", "attention.sliding_window"}, NULL,
                              1, INT32_MAX, &window));
    MICA_TRY(mica__config_int(
        c, (mica__field){"_sliding_window_pattern", "attention.sliding_window_pattern"}, &six, 1,
        MICA__MAX_LAYERS, &pattern5));
    MICA_TRY(mica__config_int(c, (mica__field){"sliding_window_pattern", NULL}, &pattern5, 1,
                              MICA__MAX_LAYERS, &pattern));
    MICA_TRY(mica__config_bool(c, (mica__field){"use_bidirectional_attention", NULL}, false,
                               &bidirectional));
    MICA_TRY(mica__config_bool(c, (mica__field){"attention_bias", NULL}, false, &spec->qkv_bias));
    spec->o_bias = spec->qkv_bias;
    const double usual = 1 / sqrt(scalar);
    double scale;
    MICA_TRY(mica__config_real(c, (mica__field){NULL, "attention.scale"}, &usual, &scale));
    if (bidirectional)
        MICA_FAIL(MICA_E_UNSUPPORTED, "config.json: use_bidirectional_attention is not supported");
    if (!(scalar > 0) || !(scale > 0))
        MICA_FAIL(MICA_E_FORMAT, "the attention scale is not positive");
    MICA_TRY(read_sliding(c, window, pattern, spec));
    spec->attention_scale = (float)scale;
    spec->attention_cap = (float)attention_cap;
    spec->logits_cap = (float)logits_cap;
    spec->embed_scale = (float)sqrt((double)spec->hidden);
    spec->norm_offset = c->gguf ? 0 : 1; /* GGUF stores the sum */
    spec->qk_norm = spec->post_norms = true;
    spec->mlp = MICA__MLP_GEGLU;
    MICA_TRY(mica__config_rope(c, "full_attention", c->gguf ? 1e6 : 0, &spec->rope));
    return mica__config_rope(c, "sliding_attention", 10000, &spec->rope_sliding);
}

const mica__architecture mica__architectures[] = {
    {"llama", "llama", read_llama},         {"mistral", NULL, read_mistral},
    {"qwen2", "qwen2", read_qwen2},         {"qwen3", "qwen3", read_qwen3},
    {"gemma3_text", "gemma3", read_gemma3},
};
const int mica__n_architectures = sizeof mica__architectures / sizeof *mica__architectures;
