/* decoder_weights.c - finds, checks and wraps a decoder's tensors.
 * SPDX-License-Identifier: MIT
 */
#include "models/decoder_weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <mica/ops.h>

#include "base/bytes.h"
#include "io/block_codec.h"

/* What a role is called. Norm names of Hugging Face differ with where norms stand: see hf_name. */
static const struct {
    const char *hf, *gguf;
} role_names[MICA__N_ROLES] = {
    [MICA__W_EMBED] = {"model.embed_tokens", "token_embd"},
    [MICA__W_OUT_NORM] = {"model.norm", "output_norm"},
    [MICA__W_HEAD] = {"lm_head", "output"},
    [MICA__W_ROPE_FACTORS] = {NULL, "rope_freqs"},
    [MICA__W_ATTN_NORM] = {"input_layernorm", "attn_norm"},
    [MICA__W_Q] = {"self_attn.q_proj", "attn_q"},
    [MICA__W_K] = {"self_attn.k_proj", "attn_k"},
    [MICA__W_V] = {"self_attn.v_proj", "attn_v"},
    [MICA__W_O] = {"self_attn.o_proj", "attn_output"},
    [MICA__W_Q_NORM] = {"self_attn.q_norm", "attn_q_norm"},
    [MICA__W_K_NORM] = {"self_attn.k_norm", "attn_k_norm"},
    [MICA__W_POST_ATTN_NORM] = {"post_attention_layernorm", "post_attention_norm"},
    [MICA__W_FFN_NORM] = {"post_attention_layernorm", "ffn_norm"},
    [MICA__W_GATE] = {"mlp.gate_proj", "ffn_gate"},
    [MICA__W_UP] = {"mlp.up_proj", "ffn_up"},
    [MICA__W_DOWN] = {"mlp.down_proj", "ffn_down"},
    [MICA__W_POST_FFN_NORM] = {"post_feedforward_layernorm", "post_ffw_norm"},
};

typedef struct loader {
    mica_ctx *mc;
    const mica__weights *files;
    const mica__json *quantization;
    mica__decoder_spec *spec;
    mica__decoder_weights *weights;
    bool gguf;
    bool *used; /* by index of the files' tensor */
} loader;

/* --- names ------------------------------------------------------------------------------------ */

static void tensor_name(const loader *l, mica__role role, int layer, const char *suffix,
                        char out[160])
{
    const char *name = l->gguf ? role_names[role].gguf : role_names[role].hf;
    if (!l->gguf && role == MICA__W_FFN_NORM && l->spec->post_norms)
        name = "pre_feedforward_layernorm";
    if (role < MICA__FIRST_LAYER_ROLE)
        snprintf(out, 160, "%s.%s", name, suffix);
    else
        snprintf(out, 160, l->gguf ? "blk.%d.%s.%s" : "model.layers.%d.%s.%s", layer, name, suffix);
}

/* A tensor by name, marked as used; NULL when there is none. */
static const mica__weight *find(loader *l, mica__role role, int layer, const char *suffix)
{
    char name[160];
    tensor_name(l, role, layer, suffix, name);
    const mica__weight *tensor = mica__weights_find(l->files, name);
    if (tensor)
        l->used[tensor - mica__weights_at(l->files, 0)] = true;
    return tensor;
}

static mica_status need(loader *l, mica__role role, int layer, const char *suffix,
                        const mica__weight **tensor)
{
    char name[160];
    *tensor = find(l, role, layer, suffix);
    tensor_name(l, role, layer, suffix, name);
    return *tensor ? MICA_OK
                   : mica__fail(MICA_E_FORMAT, "the model's files have no tensor %s", name);
}

/* --- wrapping --------------------------------------------------------------------------------- */

static mica_status wrap(loader *l, const mica__weight *tensor, mica_shape shape, mica_dtype dtype,
                        mica_array **array)
{
    *array = mica_keep(mica_from_memory(l->mc, tensor->data, shape, dtype, NULL, NULL));
    return *array ? MICA_OK : MICA_E_MEMORY;
}

static mica_status expect_shape(const mica__weight *tensor, int64_t rows, int64_t columns)
{
    const bool fits =
        rows ? tensor->n_dims == 2 && tensor->shape[0] == rows && tensor->shape[1] == columns
             : tensor->n_dims == 1 && tensor->shape[0] == columns;
    if (fits)
        return MICA_OK;
    MICA_FAIL(MICA_E_FORMAT, "tensor %s of %d dimensions [%lld, %lld] should be [%lld, %lld]",
              tensor->name, tensor->n_dims, (long long)tensor->shape[0],
              tensor->n_dims > 1 ? (long long)tensor->shape[1] : 1LL, (long long)rows,
              (long long)columns);
}

static mica_status load_vector(loader *l, mica__role role, int layer, int64_t n,
                               mica_array **vector)
{
    const mica__weight *tensor;
    MICA_TRY(need(l, role, layer, "weight", &tensor));
    MICA_TRY(expect_shape(tensor, 0, n));
    if (tensor->dtype != MICA_F32 && tensor->dtype != MICA_F16 && tensor->dtype != MICA_BF16)
        MICA_FAIL(MICA_E_UNSUPPORTED, "tensor %s is %s, norms must be F32, F16 or BF16",
                  tensor->name, tensor->type);
    l->weights->read_bytes += tensor->bytes;
    return wrap(l, tensor, mica_shape_of(1, &n), tensor->dtype, vector);
}

/* Biases are added in f32: widened once, a few kilobytes. */
static mica_status load_bias(loader *l, mica__role role, int layer, int64_t n, mica_array **bias)
{
    const mica__weight *tensor;
    MICA_TRY(need(l, role, layer, "bias", &tensor));
    MICA_TRY(expect_shape(tensor, 0, n));
    if (tensor->dtype != MICA_F32 && tensor->dtype != MICA_F16 && tensor->dtype != MICA_BF16)
        MICA_FAIL(MICA_E_UNSUPPORTED, "tensor %s is %s, biases must be F32, F16 or BF16",
                  tensor->name, tensor->type);
    mica_array *stored =
        mica_from_memory(l->mc, tensor->data, mica_shape_of(1, &n), tensor->dtype, NULL, NULL);
    mica_array *wide = mica_contiguous(mica_astype(stored, MICA_F32));
    if (!wide || mica_eval(l->mc, 1, &wide) != MICA_OK)
        return mica__fail(mica_error_status(l->mc), "%s", mica_error(l->mc));
    *bias = mica_keep(wide);
    l->weights->read_bytes += tensor->bytes;
    return MICA_OK;
}

static mica_status plain_matrix(loader *l, const mica__weight *tensor, int64_t n, int64_t k,
                                mica__matrix *matrix)
{
    MICA_TRY(expect_shape(tensor, n, k));
    if (tensor->format == MICA__N_FORMATS || !mica__block_info_of(tensor->format)->has_decoder)
        MICA_FAIL(MICA_E_UNSUPPORTED, "tensor %s: weights of type %s are not supported yet",
                  tensor->name, tensor->type);
    matrix->attrs = (mica__qweight_attrs){.format = tensor->format, .n = n, .k = k};
    matrix->n_parts = 1;
    l->weights->read_bytes += tensor->bytes;
    const int64_t shape[2] = {n, mica__block_row_bytes(tensor->format, k)};
    return wrap(l, tensor, mica_shape_of(2, shape), MICA_U8, &matrix->parts[0]);
}

/* --- MLX quantisation ------------------------------------------------------------------------- */

static mica_status mlx_number(const mica__json *own, const mica__json *all, const char *key,
                              int32_t *value)
{
    const mica__json *node = mica__json_get(own, key);
    if (!node)
        node = mica__json_get(all, key);
    if (!node || node->type != MICA__JSON_INTEGER || node->integer < 1 || node->integer > 1024)
        MICA_FAIL(MICA_E_FORMAT, "config.json: quantization has no usable %s", key);
    *value = (int32_t)node->integer;
    return MICA_OK;
}

static mica_status mlx_format(const mica__json *own, const mica__json *all, int32_t *format)
{
    const mica__json *mode = mica__json_get(own, "mode");
    if (!mode)
        mode = mica__json_get(all, "mode");
    for (int i = MICA__MLX_AFFINE; i < MICA__N_FORMATS; i++)
        if (mode ? mode->type == MICA__JSON_STRING &&
                       !strcmp(mode->string, mica__block_info_of((mica__block_format)i)->name)
                 : i == MICA__MLX_AFFINE) {
            *format = i;
            return MICA_OK;
        }
    MICA_FAIL(MICA_E_UNSUPPORTED, "config.json: quantization mode \"%s\" is not supported",
              mode && mode->type == MICA__JSON_STRING ? mode->string : "?");
}

/* codes, scales and, for affine, biases. A layer may have settings of its own under its name. */
static mica_status mlx_matrix(loader *l, mica__role role, int layer, const mica__weight *codes,
                              int64_t n, int64_t k, mica__matrix *matrix)
{
    char name[160];
    tensor_name(l, role, layer, "", name);
    name[strlen(name) - 1] = '\0';
    const mica__json *own = mica__json_get(l->quantization, name);
    mica__qweight_attrs *attrs = &matrix->attrs;
    *attrs = (mica__qweight_attrs){.n = n, .k = k};
    MICA_TRY(mlx_number(own, l->quantization, "bits", &attrs->bits));
    MICA_TRY(mlx_number(own, l->quantization, "group_size", &attrs->group));
    MICA_TRY(mlx_format(own, l->quantization, &attrs->format));
    if (k % attrs->group || k * attrs->bits % 32)
        MICA_FAIL(MICA_E_FORMAT, "tensor %s: rows of %lld do not fit groups of %d", codes->name,
                  (long long)k, attrs->group);
    matrix->n_parts = attrs->format == MICA__MLX_AFFINE ? 3 : 2;
    static const char *const suffixes[] = {"weight", "scales", "biases"};
    for (int i = 0; i < matrix->n_parts; i++) {
        const mica__weight *tensor = codes;
        const int64_t shape[2] = {n, i ? k / attrs->group : k * attrs->bits / 32};
        if (i)
            MICA_TRY(need(l, role, layer, suffixes[i], &tensor));
        MICA_TRY(expect_shape(tensor, shape[0], shape[1]));
        if (tensor->dtype == MICA_N_DTYPES)
            MICA_FAIL(MICA_E_FORMAT, "tensor %s is %s", tensor->name, tensor->type);
        l->weights->read_bytes += tensor->bytes;
        MICA_TRY(wrap(l, tensor, mica_shape_of(2, shape), tensor->dtype, &matrix->parts[i]));
    }
    mica__aval avals[3];
    for (int i = 0; i < matrix->n_parts; i++)
        mica__aval_of(matrix->parts[i], &avals[i]);
    const mica_status status = mica__check_qweight(attrs, matrix->n_parts, avals);
    return status == MICA_OK ? status : mica__fail_at(status, "tensor %s", codes->name);
}

static mica_status load_linear(loader *l, mica__role role, int layer, int64_t n, int64_t k,
                               bool bias, mica__linear_weights *linear)
{
    const mica__weight *tensor;
    MICA_TRY(need(l, role, layer, "weight", &tensor));
    if (!l->gguf && l->quantization && tensor->dtype == MICA_U32)
        MICA_TRY(mlx_matrix(l, role, layer, tensor, n, k, &linear->matrix));
    else
        MICA_TRY(plain_matrix(l, tensor, n, k, &linear->matrix));
    return bias ? load_bias(l, role, layer, n, &linear->bias) : MICA_OK;
}

/* --- rotary frequencies ----------------------------------------------------------------------- */

/* Llama 3's smooth interpolation between scaled and unscaled frequencies (as published with the
 * model). */
static double llama3_frequency(const mica__rope_spec *rope, double f)
{
    const double wavelength = 2 * 3.14159265358979323846 / f;
    const double low = rope->original_context / rope->low_freq_factor;
    const double high = rope->original_context / rope->high_freq_factor;
    if (wavelength > low)
        return f / rope->factor;
    if (wavelength < high)
        return f;
    const double smooth = (rope->original_context / wavelength - rope->low_freq_factor) /
                          (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * f / rope->factor + smooth * f;
}

static mica_status load_frequencies(loader *l, mica__rope_spec *rope, mica_array **freqs)
{
    const int64_t n = l->spec->head_dim / 2;
    const mica__weight *factors =
        l->gguf && rope == &l->spec->rope ? find(l, MICA__W_ROPE_FACTORS, 0, "weight") : NULL;
    if (factors) {
        MICA_TRY(expect_shape(factors, 0, n));
        if (factors->dtype != MICA_F32 || rope->scaling != MICA__ROPE_PLAIN)
            MICA_FAIL(MICA_E_UNSUPPORTED,
                      "rope_freqs.weight beside another rope scaling, or not F32");
        rope->scaling = MICA__ROPE_FACTORS;
    }
    float *values = mica__alloc(MICA_MEMORY_OTHER, (size_t)n * sizeof *values);
    if (!values)
        return MICA_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        double f = pow(rope->base, -(double)(2 * i) / (double)l->spec->head_dim);
        if (rope->scaling == MICA__ROPE_LINEAR)
            f /= rope->factor;
        else if (rope->scaling == MICA__ROPE_LLAMA3)
            f = llama3_frequency(rope, f);
        else if (rope->scaling == MICA__ROPE_FACTORS)
            f /= (double)mica__load_f32(factors->data + 4 * i);
        values[i] = (float)f;
    }
    *freqs = mica_keep(mica_from_data(l->mc, values, mica_shape_of(1, &n), MICA_F32));
    mica__free(values);
    return *freqs ? MICA_OK : MICA_E_MEMORY;
}

/* --- all of it -------------------------------------------------------------------------------- */

static mica_status load_layer(loader *l, int i)
{
    const mica__decoder_spec *s = l->spec;
    const int64_t q = (int64_t)s->n_heads * s->head_dim, kv = (int64_t)s->n_kv_heads * s->head_dim;
    const struct {
        mica__role role;
        int64_t n, k; /* k 0: a norm of n */
        bool wanted, bias;
    } parts[] = {
        {MICA__W_ATTN_NORM, s->hidden, 0, true, false},
        {MICA__W_Q, q, s->hidden, true, s->qkv_bias},
        {MICA__W_K, kv, s->hidden, true, s->qkv_bias},
        {MICA__W_V, kv, s->hidden, true, s->qkv_bias},
        {MICA__W_O, s->hidden, q, true, s->o_bias},
        {MICA__W_Q_NORM, s->head_dim, 0, s->qk_norm, false},
        {MICA__W_K_NORM, s->head_dim, 0, s->qk_norm, false},
        {MICA__W_POST_ATTN_NORM, s->hidden, 0, s->post_norms, false},
        {MICA__W_FFN_NORM, s->hidden, 0, true, false},
        {MICA__W_GATE, s->intermediate, s->hidden, true, s->mlp_bias},
        {MICA__W_UP, s->intermediate, s->hidden, true, s->mlp_bias},
        {MICA__W_DOWN, s->hidden, s->intermediate, true, s->mlp_bias},
        {MICA__W_POST_FFN_NORM, s->hidden, 0, s->post_norms, false},
    };
    mica__layer_weights *layer = &l->weights->layers[i];
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        const int at = parts[p].role - MICA__FIRST_LAYER_ROLE;
        if (!parts[p].wanted)
            continue;
        if (parts[p].k)
            MICA_TRY(load_linear(l, parts[p].role, i, parts[p].n, parts[p].k, parts[p].bias,
                                 &layer->linear[at]));
        else
            MICA_TRY(load_vector(l, parts[p].role, i, parts[p].n, &layer->vector[at]));
    }
    return MICA_OK;
}

/* --- a head beside tied embeddings ------------------------------------------------------------ */

static bool same_bytes(const mica__weight *a, const mica__weight *b)
{
    return a->bytes == b->bytes && a->dtype == b->dtype && a->format == b->format &&
           !memcmp(a->data, b->data, (size_t)a->bytes);
}

static bool is_decodable(const mica__weight *tensor)
{
    return tensor->format != MICA__N_FORMATS && mica__block_info_of(tensor->format)->has_decoder;
}

/* Whether two matrices [n, k] of any formats hold the same values; rows [2, k] are room for them.
 */
static mica_status compare_rows(const mica__weight *a, const mica__weight *b, float *rows,
                                bool *same)
{
    const int64_t k = a->shape[1], a_row = mica__block_row_bytes(a->format, k),
                  b_row = mica__block_row_bytes(b->format, k);
    *same = true;
    for (int64_t i = 0; i < a->shape[0] && *same; i++) {
        MICA_TRY(mica__block_decode(a->format, a->data + i * a_row, k, rows));
        MICA_TRY(mica__block_decode(b->format, b->data + i * b_row, k, rows + k));
        for (int64_t j = 0; j < k; j++)
            *same &= rows[j] == rows[k + j];
    }
    return MICA_OK;
}

/* Codes with scales beside them: the same bytes in all parts. */
static bool same_parts(loader *l)
{
    static const char *const suffixes[] = {"scales", "biases"};
    bool same = true;
    for (int i = 0; i < 2; i++) {
        const mica__weight *head = find(l, MICA__W_HEAD, 0, suffixes[i]),
                           *embed = find(l, MICA__W_EMBED, 0, suffixes[i]);
        same &= head && embed ? same_bytes(head, embed) : head == embed;
    }
    return same;
}

/* A copy of the table, in whatever format, is left unused; other values are refused. */
static mica_status check_tied_head(loader *l, const mica__weight *head, const mica__weight *embed)
{
    bool same = same_bytes(head, embed) && same_parts(l);
    MICA_TRY(expect_shape(head, embed->shape[0], embed->shape[1]));
    if (!same && is_decodable(head) && is_decodable(embed)) {
        float *rows = mica__alloc(MICA_MEMORY_OTHER, 2 * (size_t)head->shape[1] * sizeof *rows);
        if (!rows)
            return MICA_E_MEMORY;
        const mica_status status = compare_rows(head, embed, rows, &same);
        mica__free(rows);
        MICA_TRY(status);
    }
    if (!same)
        MICA_FAIL(MICA_E_UNSUPPORTED, "the embeddings are tied, but %s holds other values",
                  head->name);
    return MICA_OK;
}

/* The table and the head. */
static mica_status load_ends(loader *l)
{
    mica__decoder_spec *s = l->spec;
    const mica__weight *embed;
    MICA_TRY(need(l, MICA__W_EMBED, 0, "weight", &embed));
    if (embed->n_dims != 2)
        MICA_FAIL(MICA_E_FORMAT, "tensor %s has %d dimensions", embed->name, embed->n_dims);
    if (!s->n_vocab)
        s->n_vocab = embed->shape[0];
    MICA_TRY(load_linear(l, MICA__W_EMBED, 0, s->n_vocab, s->hidden, false, &l->weights->embed));
    MICA_TRY(load_vector(l, MICA__W_OUT_NORM, 0, s->hidden, &l->weights->out_norm));
    const mica__weight *head = find(l, MICA__W_HEAD, 0, "weight");
    if (l->gguf)
        s->tied = !head;
    if (s->tied) {
        if (head)
            MICA_TRY(check_tied_head(l, head, embed));
        l->weights->head = l->weights->embed;
        return MICA_OK;
    }
    l->weights->read_bytes -= embed->bytes; /* looked up, not read */
    return load_linear(l, MICA__W_HEAD, 0, s->n_vocab, s->hidden, false, &l->weights->head);
}

/* --- the rest --------------------------------------------------------------------------------- */

/* Tables that old programs stored with the weights and that follow from the configuration: rotary
 * frequencies and the positions 0, 1, 2, ... */
static bool is_harmless(const loader *l, const char *name)
{
    char known[160];
    if (l->gguf)
        return false;
    for (int i = 0; i < l->spec->n_layers; i++) {
        snprintf(known, sizeof known, "model.layers.%d.self_attn.rotary_emb.inv_freq", i);
        if (!strcmp(name, known))
            return true;
    }
    return !strcmp(name, "model.rotary_emb.inv_freq") || !strcmp(name, "model.position_ids") ||
           !strcmp(name, "position_ids");
}

static mica_status refuse_unexpected(const loader *l)
{
    for (int64_t i = 0; i < mica__weights_n(l->files); i++) {
        const char *name = mica__weights_at(l->files, i)->name;
        if (!l->used[i] && !is_harmless(l, name))
            MICA_FAIL(MICA_E_UNSUPPORTED,
                      "tensor %s is not expected in a %s model, and may change the result", name,
                      l->spec->architecture);
    }
    return MICA_OK;
}

/* GGUF keys do not say which products have biases: the tensors do. */
static void find_biases(loader *l)
{
    l->spec->qkv_bias |= find(l, MICA__W_Q, 0, "bias") != NULL;
    l->spec->o_bias |= find(l, MICA__W_O, 0, "bias") != NULL;
    l->spec->mlp_bias |= find(l, MICA__W_DOWN, 0, "bias") != NULL;
}

static mica_status load_all(loader *l)
{
    mica__decoder_spec *s = l->spec;
    l->weights->layers =
        mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)s->n_layers, sizeof *l->weights->layers);
    l->used =
        mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)mica__weights_n(l->files) + 1, sizeof *l->used);
    if (!l->weights->layers || !l->used)
        return MICA_E_MEMORY;
    if (l->gguf)
        find_biases(l);
    MICA_TRY(load_ends(l));
    MICA_TRY(load_frequencies(l, &s->rope, &l->weights->freqs));
    if (s->window)
        MICA_TRY(load_frequencies(l, s->rope_sliding.base > 0 ? &s->rope_sliding : &s->rope,
                                  &l->weights->freqs_sliding));
    for (int i = 0; i < s->n_layers; i++)
        MICA_TRY(load_layer(l, i));
    return refuse_unexpected(l);
}

mica_status mica__decoder_weights_load(mica_ctx *mc, const mica__weights *files,
                                       const mica__json *quantization, mica__decoder_spec *spec,
                                       mica__decoder_weights *weights)
{
    *weights = (mica__decoder_weights){0};
    loader l = {.mc = mc,
                .files = files,
                .quantization = quantization,
                .spec = spec,
                .weights = weights,
                .gguf = mica__weights_kind_of(files) == MICA__WEIGHTS_GGUF};
    mica_scope *scope = mica_scope_push(mc);
    if (!scope)
        return MICA_E_MEMORY;
    const mica_status status = load_all(&l);
    mica_scope_pop(scope);
    mica__free(l.used);
    if (status != MICA_OK)
        mica__decoder_weights_free(weights, spec);
    return status;
}

static void free_linear(mica__linear_weights *linear)
{
    for (int i = 0; i < linear->matrix.n_parts; i++)
        mica_release(linear->matrix.parts[i]);
    mica_release(linear->bias);
}

void mica__decoder_weights_free(mica__decoder_weights *weights, const mica__decoder_spec *spec)
{
    free_linear(&weights->embed);
    if (weights->head.matrix.parts[0] != weights->embed.matrix.parts[0])
        free_linear(&weights->head);
    mica_release(weights->out_norm);
    mica_release(weights->freqs);
    mica_release(weights->freqs_sliding);
    for (int i = 0; weights->layers && i < spec->n_layers; i++)
        for (int r = 0; r < MICA__N_LAYER_ROLES; r++) {
            free_linear(&weights->layers[i].linear[r]);
            mica_release(weights->layers[i].vector[r]);
        }
    mica__free(weights->layers);
    *weights = (mica__decoder_weights){0};
}
