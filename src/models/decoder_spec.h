/* decoder_spec.h - what a decoder is, as data: the one description that models/decoder.c builds
 * from.
 *
 * An architecture's file fills this in from config.json or GGUF keys and names its weights; nothing
 * else knows the architecture.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MODELS_DECODER_SPEC_H
#define MICA_MODELS_DECODER_SPEC_H

#include "base/fail.h"
#include "ops/matrix.h"

#define MICA__MAX_LAYERS  512
#define MICA__MAX_END_IDS 16
#define MICA__ARCH_BYTES  32

/* How positions become angles: one for layers that see everything, one for sliding layers. */
typedef struct mica__rope_spec {
    double base;
    enum { MICA__ROPE_PLAIN, MICA__ROPE_LINEAR, MICA__ROPE_LLAMA3, MICA__ROPE_FACTORS } scaling;
    double factor; /* LINEAR: positions / factor; LLAMA3 */
    double low_freq_factor, high_freq_factor, original_context; /* LLAMA3 */
    /* FACTORS: frequencies are divided by a tensor of the file (rope_freqs.weight) */
} mica__rope_spec;

typedef enum mica__mlp_kind {
    MICA__MLP_SWIGLU, /* down(silu(gate) * up) */
    MICA__MLP_GEGLU   /* down(gelu_tanh(gate) * up) */
} mica__mlp_kind;

typedef struct mica__decoder_spec {
    char architecture[MICA__ARCH_BYTES];
    int64_t n_vocab, hidden, intermediate;
    int32_t n_layers, n_heads, n_kv_heads, head_dim;
    int64_t context; /* positions the model was trained for */
    float norm_eps;
    float norm_offset;               /* added to norm weights: 1 for Gemma's safetensors */
    float embed_scale;               /* 0: none */
    float attention_scale;           /* of q . k */
    float attention_cap, logits_cap; /* soft caps, 0: none */
    bool interleaved;                /* rope pairs (2i, 2i+1) */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;    /* RMS norm of each head of q and k */
    bool post_norms; /* norms after attention and mlp, before the residual sum */
    bool tied;       /* the head is the embedding table */
    mica__mlp_kind mlp;
    mica__rope_spec rope, rope_sliding;
    int64_t window;                    /* of sliding layers */
    uint8_t sliding[MICA__MAX_LAYERS]; /* 1: a sliding layer */
    int n_end_ids;
    int32_t end_ids[MICA__MAX_END_IDS];
} mica__decoder_spec;

/* The weights of a decoder by role: enumerator, Hugging Face suffix, GGUF suffix, whether per
 * layer. */
typedef enum mica__role {
    MICA__W_EMBED,
    MICA__W_OUT_NORM,
    MICA__W_HEAD,
    MICA__W_ROPE_FACTORS,
    MICA__W_ATTN_NORM, /* per layer from here */
    MICA__W_Q,
    MICA__W_K,
    MICA__W_V,
    MICA__W_O,
    MICA__W_Q_NORM,
    MICA__W_K_NORM,
    MICA__W_POST_ATTN_NORM,
    MICA__W_FFN_NORM,
    MICA__W_GATE,
    MICA__W_UP,
    MICA__W_DOWN,
    MICA__W_POST_FFN_NORM,
    MICA__N_ROLES
} mica__role;

#define MICA__FIRST_LAYER_ROLE MICA__W_ATTN_NORM
#define MICA__N_LAYER_ROLES    (MICA__N_ROLES - MICA__FIRST_LAYER_ROLE)

struct mica__config;

/* How one architecture says it. */
typedef struct mica__architecture {
    const char *name; /* config.json's model_type */
    const char *gguf; /* general.architecture */

    /* Fills the spec from either source. The reader remembers which keys were asked for; keys left
     * over are refused. */
    mica_status (*read)(struct mica__config *config, mica__decoder_spec *spec);
} mica__architecture;

extern const mica__architecture mica__architectures[];
extern const int mica__n_architectures;

#endif
