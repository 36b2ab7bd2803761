/* refusal_test.c - a model that is not fully understood is refused by the name of what is unknown.
 *
 * Made-up models that open are changed in one place each: a field, a key, a tensor. What must be
 * refused stands beside what must not, so that no list of harmless things grows by accident.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include <mica/mica.h>

#include "io/gguf_write.h"
#include "io/weights.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"
#include "support/to_gguf.h"

static mica_ctx *mc;

static int open_context(void **state)
{
    (void)state;
    mc = mica_open(NULL);
    return mc ? 0 : -1;
}

static int close_context(void **state)
{
    (void)state;
    mica_close(mc);
    return 0;
}

/* Opens a model; `named` NULL: that must succeed, else fail with a message that has it. */
static void expect(const char *what, const char *path, const char *named)
{
    mica_model *model;
    const mica_status status = mica_model_open(mc, path, NULL, &model);
    if (status == MICA_OK)
        mica_model_close(model);
    if (!named && status != MICA_OK)
        fail_msg("%s: refused: %s", what, mica_last_error());
    if (named && status == MICA_OK)
        fail_msg("%s: accepted", what);
    if (named && status != MICA_E_UNSUPPORTED && status != MICA_E_FORMAT)
        fail_msg("%s: %s (%s)", what, mica_status_name(status), mica_last_error());
    if (named && !strstr(mica_last_error(), named))
        fail_msg("%s: the message does not name %s: %s", what, named, mica_last_error());
}

/* --- config.json ------------------------------------------------------------------------------ */

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 8192);
    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, 8191, file) > 0);
    fclose(file);
    return text;
}

/* Behind the value that begins at `at`. */
static const char *value_end(const char *at)
{
    int depth = 0;
    for (; *at; at++) {
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && depth-- == 0)
            return at;
        else if (*at == ',' && depth == 0)
            return at;
    }
    return at;
}

/* The object with a field set; the caller frees it. */
static char *with_field(const char *object, const char *key, const char *value)
{
    char quoted[128], *made = malloc(strlen(object) + strlen(value) + 256);
    assert_non_null(made);
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *found = strstr(object, quoted);
    if (found) {
        const char *from = found + strlen(quoted);
        sprintf(made, "%.*s%s%s", (int)(from - object), object, value, value_end(from));
    } else
        sprintf(made, "{%s%s,%s", quoted, value, object + 1);
    return made;
}

typedef struct field_case {
    const char *model, *key, *value, *named;
} field_case;

static void check_field(const field_case *c)
{
    char what[256], *dir = temp_dir_new();
    snprintf(what, sizeof what, "%s with %s %.100s", c->model, c->key, c->value);
    assert_ok(tiny_model_write(dir, c->model));
    char *config = read_text(temp_path(dir, "config.json"));
    char *changed = with_field(config, c->key, c->value);
    temp_write_text(dir, "config.json", changed);
    expect(what, dir, c->named);
    free(config);
    free(changed);
    temp_dir_remove(dir);
}

static void check_fields(const field_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_field(&cases[i]);
}

static void the_models_themselves_open(void **state)
{
    (void)state;
    for (int i = 0; tiny_model_name(i); i++) {
        char *dir = temp_dir_new();
        assert_ok(tiny_model_write(dir, tiny_model_name(i)));
        expect(tiny_model_name(i), dir, NULL);
        temp_dir_remove(dir);
    }
}

#define LLAMA3 "\"rope_type\":\"llama3\",\"factor\":8.0"

static void fields_that_change_the_result_are_refused_by_name(void **state)
{
    (void)state;
    static const field_case cases[] = {
        {"llama", "model_type", "\"phi9\"", "phi9"},
        {"llama", "model_type", "null", "model_type"},
        {"llama", "rope_scaling", "{\"rope_type\":\"yarn\",\"factor\":4.0}", "yarn"},
        {"llama", "rope_scaling", "{\"type\":\"dynamic\",\"factor\":2.0}", "dynamic"},
        {"llama", "rope_scaling", "{\"rope_type\":\"nonsense\"}", "nonsense"},
        {"llama", "rope_scaling", "{\"rope_type\":7}", "rope scaling"},
        {"llama", "rope_scaling", "{\"factor\":4.0}", "factor"},
        {"llama", "rope_scaling", "{" LLAMA3 "}", "low_freq_factor"},
        {"llama", "rope_scaling",
         "{" LLAMA3 ",\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
         "\"original_max_position_embeddings\":64,\"attention_factor\":3}",
         "attention_factor"},
        {"llama", "rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2.0,\"rope_theta\":5000.0}",
         "rope_theta"},
        {"llama", "rope_theta", "\"x\"", "rope_theta"},
        {"llama", "rope_parameters", "{\"rope_type\":\"linear\",\"factor\":2,\"rope_theta\":1e4}",
         "rope_theta"}, /* said twice */
        {"llama", "rope_interleaved", "true", "rope_interleaved"},
        {"llama", "is_causal", "false", "is_causal"},
        {"llama", "causal", "false", "causal"},
        {"llama", "use_rope", "false", "use_rope"},
        {"llama", "auto_map", "{\"AutoModelForCausalLM\":\"own_code.Model\"}", "auto_map"},
        {"llama", "architectures", "[\"LlamaForSequenceClassification\"]",
         "LlamaForSequenceClassification"},
        {"llama", "architectures", "\"LlamaForCausalLM\"", "architectures"},
        {"llama", "prefix", "\"x\"", "prefix"},
        {"llama", "unknown_thing", "1", "unknown_thing"},
        {"llama", "unknown_thing", "true", "unknown_thing"},
        {"llama", "unknown_thing", "\"x\"", "unknown_thing"},
        {"llama", "unknown_thing", "[0]", "unknown_thing"},
        {"llama", "logit_scale", "0.5", "logit_scale"},
        {"llama", "attn_logit_softcapping", "5.0", "attn_logit_softcapping"},
        {"llama", "partial_rotary_factor", "0.5", "partial_rotary_factor"},
        {"llama", "no_rope_layers", "[1,0,1]", "no_rope_layers"},
        {"llama", "sliding_window", "4", "sliding_window"},
        {"llama", "use_sliding_window", "true", "use_sliding_window"},
        {"llama", "hidden_act", "\"gelu\"", "gelu"},
        {"llama", "quantization_config", "{\"quant_method\":\"awq\",\"bits\":4}", "quant_method"},
        {"mistral", "attention_bias", "true", "attention_bias"},
        {"qwen2", "attention_bias", "true", "attention_bias"},
        {"qwen2", "layer_types", "[\"full_attention\",\"full_attention\"]", "layer_types"},
        {"qwen3", "layer_types", "[\"linear_attention\",\"full_attention\",\"full_attention\"]",
         "layer 0"},
        {"qwen3", "layer_types", "[\"full_attention\",\"sliding_attention\",\"full_attention\"]",
         "sliding_window"},
        {"gemma3_text", "use_bidirectional_attention", "true", "use_bidirectional_attention"},
        {"gemma3_text", "hidden_activation", "\"relu\"", "relu"},
        {"gemma3_text", "query_pre_attn_scalar", "-1", "attention scale"},
        {"gemma3_text", "tie_word_embeddings", "false", "lm_head"},
    };
    check_fields(cases, sizeof cases / sizeof *cases);
}

static void sizes_that_make_no_sense_are_refused_by_name(void **state)
{
    (void)state;
    static const field_case cases[] = {
        {"llama", "num_key_value_heads", "3", "KV heads"},
        {"llama", "num_key_value_heads", "8", "num_key_value_heads"},
        {"llama", "vocab_size", "255", "embed_tokens"},
        {"llama", "num_hidden_layers", "2", "model.layers.2."},
        {"llama", "num_hidden_layers", "4", "model.layers.3."},
        {"llama", "num_hidden_layers", "2.5", "num_hidden_layers"},
        {"llama", "max_position_embeddings", "0", "max_position_embeddings"},
        {"llama", "hidden_size", "-5", "hidden_size"},
        {"llama", "num_attention_heads", "1000000000000000000", "num_attention_heads"},
        {"llama", "head_dim", "15", "15"},
        {"llama", "head_dim", "8", "q_proj"},
        {"llama", "rms_norm_eps", "2", "rms_norm_eps"},
        {"llama", "attention_bias", "\"yes\"", "attention_bias"},
    };
    check_fields(cases, sizeof cases / sizeof *cases);
}

static void fields_that_change_nothing_are_accepted(void **state)
{
    (void)state;
    static const field_case cases[] = {
        {"llama", "_name_or_path", "\"a/b\"", NULL},
        {"llama", "architectures", "[\"LlamaForCausalLM\"]", NULL},
        {"llama", "attention_dropout", "0.5", NULL},
        {"llama", "bos_token_id", "[7]", NULL},
        {"llama", "eos_token_id", "[2,3]", NULL},
        {"llama", "pad_token_id", "0", NULL},
        {"llama", "cache_implementation", "\"hybrid\"", NULL},
        {"llama", "dtype", "\"bfloat16\"", NULL},
        {"llama", "torch_dtype", "\"bfloat16\"", NULL},
        {"llama", "initializer_range", "0.02", NULL},
        {"llama", "is_llama_config", "true", NULL},
        {"llama", "pretraining_tp", "2", NULL},
        {"llama", "transformers_version", "\"4.57\"", NULL},
        {"llama", "use_cache", "true", NULL},
        {"llama", "id2label", "{\"0\":\"a\"}", NULL},
        {"llama", "tokenizer_class", "\"X\"", NULL},
        {"llama", "rope_interleaved", "false", NULL},
        {"llama", "is_causal", "true", NULL},
        {"llama", "prefix", "\"\"", NULL},
        {"llama", "unknown_thing", "null", NULL},
        {"llama", "unknown_thing", "false", NULL},
        {"llama", "unknown_thing", "[]", NULL},
        {"llama", "rope_scaling", "{\"rope_type\":\"default\"}", NULL},
        {"llama", "rope_scaling", "{\"type\":\"linear\",\"factor\":2}", NULL},
        {"llama", "num_hidden_layers", "3.0", NULL},
    };
    check_fields(cases, sizeof cases / sizeof *cases);
}

/* --- tensors ---------------------------------------------------------------------------------- */

typedef struct tensor {
    char name[128];
    mica_dtype dtype;
    int n_dims;
    int64_t shape[2];
    uint8_t *bytes;
    int64_t n_bytes;
} tensor;

typedef struct tensor_set {
    tensor items[128];
    int n;
} tensor_set;

static tensor *at(tensor_set *set, const char *name)
{
    for (int i = 0; i < set->n; i++)
        if (!strcmp(set->items[i].name, name))
            return &set->items[i];
    fail_msg("the made-up model has no %s", name);
    return NULL;
}

/* A tensor of zeros. */
static tensor *add(tensor_set *set, const char *name, mica_dtype dtype, int n_dims, int64_t rows,
                   int64_t columns)
{
    tensor *t = &set->items[set->n++];
    assert_true(set->n <= 128);
    *t = (tensor){.dtype = dtype, .n_dims = n_dims, .shape = {rows, columns}};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n_bytes = (int64_t)mica_dtype_bytes(dtype) * (n_dims == 2 ? rows * columns : rows);
    t->bytes = calloc(1, (size_t)t->n_bytes);
    assert_non_null(t->bytes);
    return t;
}

static void drop(tensor_set *set, const char *name)
{
    tensor *t = at(set, name);
    free(t->bytes);
    *t = set->items[--set->n];
}

static void replace(tensor_set *set, const char *name, mica_dtype dtype, int n_dims, int64_t rows,
                    int64_t columns)
{
    drop(set, name);
    add(set, name, dtype, n_dims, rows, columns);
}

static void load(tensor_set *set, const mica__weights *files)
{
    set->n = 0;
    for (int64_t i = 0; i < mica__weights_n(files); i++) {
        const mica__weight *w = mica__weights_at(files, i);
        tensor *t = add(set, w->name, w->dtype, w->n_dims, w->shape[0], w->shape[1]);
        assert_int_equal(t->n_bytes, w->bytes);
        memcpy(t->bytes, w->data, (size_t)w->bytes);
    }
}

static void save_safetensors(const tensor_set *set, const char *path)
{
    mica_tensor_writer *writer;
    assert_ok(mica_tensor_writer_open(path, &writer));
    for (int i = 0; i < set->n; i++)
        assert_ok(mica_tensor_writer_declare(writer, set->items[i].name, set->items[i].dtype,
                                             set->items[i].n_dims, set->items[i].shape));
    for (int i = 0; i < set->n; i++)
        assert_ok(mica_tensor_writer_write(writer, set->items[i].bytes, set->items[i].n_bytes));
    assert_ok(mica_tensor_writer_finish(writer));
}

static mica__block_format format_of(mica_dtype dtype)
{
    static const struct {
        mica_dtype dtype;
        mica__block_format format;
    } formats[] = {{MICA_F32, MICA__F32}, {MICA_F16, MICA__F16}, {MICA_BF16, MICA__BF16},
                   {MICA_F64, MICA__F64}, {MICA_I8, MICA__I8},   {MICA_I64, MICA__I64}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype)
            return formats[i].format;
    fail_msg("no GGUF type for dtype %d", (int)dtype);
    return MICA__F32;
}

/* Keys of the file `from` but `without`, then what `more` puts. */
static void save_gguf(const tensor_set *set, const mica__gguf *from, const char *without,
                      void (*more)(mica__gguf_writer *), const char *path)
{
    mica__gguf_writer *writer;
    assert_ok(mica__gguf_writer_open(path, 0, &writer));
    for (int64_t i = 0; i < mica__gguf_n_values(from); i++) {
        const mica__gguf_value *value = mica__gguf_value_at(from, i);
        if (!without || (int64_t)strlen(without) != value->key.length ||
            memcmp(without, value->key.bytes, strlen(without)) != 0)
            assert_ok(mica__gguf_put_value(writer, value));
    }
    if (more)
        more(writer);
    for (int i = 0; i < set->n; i++)
        assert_ok(mica__gguf_declare(writer, set->items[i].name, format_of(set->items[i].dtype),
                                     set->items[i].n_dims, set->items[i].shape));
    for (int i = 0; i < set->n; i++)
        assert_ok(mica__gguf_write(writer, set->items[i].bytes, set->items[i].n_bytes));
    assert_ok(mica__gguf_writer_finish(writer));
}

typedef void (*tensor_change)(tensor_set *set);

/* A folder of the model with its tensors changed. */
static void check_folder(const char *what, const char *model, tensor_change change,
                         const char *named)
{
    static tensor_set set;
    char *dir = temp_dir_new();
    mica__weights *files;
    assert_ok(tiny_model_write(dir, model));
    assert_ok(mica__weights_open(dir, false, &files));
    load(&set, files);
    mica__weights_close(files);
    change(&set);
    save_safetensors(&set, temp_path(dir, "model.safetensors"));
    expect(what, dir, named);
    while (set.n)
        drop(&set, set.items[0].name);
    temp_dir_remove(dir);
}

/* A GGUF file of the model with keys or tensors changed. */
static void check_gguf(const char *what, const char *model, const char *without,
                       void (*more)(mica__gguf_writer *), tensor_change change, const char *named)
{
    static tensor_set set;
    char *dir = temp_dir_new(), plain[4096], changed[4096];
    const to_gguf_options options = {.matrices = MICA__F32, .embedding = MICA__F32};
    mica__weights *files;
    snprintf(plain, sizeof plain, "%s/plain.gguf", dir);
    snprintf(changed, sizeof changed, "%s/changed.gguf", dir);
    assert_ok(tiny_model_write(dir, model));
    assert_ok(to_gguf(dir, plain, &options));
    assert_ok(mica__weights_open(plain, false, &files));
    load(&set, files);
    if (change)
        change(&set);
    save_gguf(&set, mica__weights_gguf(files), without, more, changed);
    mica__weights_close(files);
    expect(what, changed, named);
    while (set.n)
        drop(&set, set.items[0].name);
    temp_dir_remove(dir);
}

static void nothing(tensor_set *set)
{
    (void)set;
}

static void without_norm(tensor_set *set)
{
    drop(set, "model.norm.weight");
}

static void without_up(tensor_set *set)
{
    drop(set, "model.layers.1.mlp.up_proj.weight");
}

static void without_bias(tensor_set *set)
{
    drop(set, "model.layers.2.self_attn.k_proj.bias");
}

static void missing_tensors_are_refused_by_name(void **state)
{
    (void)state;
    check_folder("no norm", "llama", without_norm, "model.norm.weight");
    check_folder("no up_proj", "qwen2", without_up, "model.layers.1.mlp.up_proj.weight");
    check_folder("no bias", "llama", without_bias, "model.layers.2.self_attn.k_proj.bias");
}

static void with_extra(tensor_set *set)
{
    add(set, "foo.weight", MICA_F32, 1, 2, 0);
}

static void with_position_ids(tensor_set *set)
{
    add(set, "model.layers.0.my_position_ids", MICA_F32, 1, 2, 0);
}

static void with_other_inv_freq(tensor_set *set)
{
    add(set, "model.layers.0.cross_attn.rotary_emb.inv_freq", MICA_F32, 1, 8, 0);
}

static void with_layer_beyond(tensor_set *set)
{
    add(set, "model.layers.3.self_attn.rotary_emb.inv_freq", MICA_F32, 1, 8, 0);
}

static void with_unasked_bias(tensor_set *set)
{
    add(set, "model.layers.0.mlp.gate_proj.bias", MICA_F32, 1, 128, 0);
}

static void unexpected_tensors_are_refused_by_name(void **state)
{
    (void)state;
    check_folder("extra", "llama", with_extra, "foo.weight");
    check_folder("a name that ends well", "llama", with_position_ids, "my_position_ids");
    check_folder("a table elsewhere", "llama", with_other_inv_freq, "cross_attn");
    check_folder("a table beyond", "llama", with_layer_beyond, "model.layers.3.");
    check_folder("unasked bias", "qwen2", with_unasked_bias, "gate_proj.bias");
}

static void with_inv_freq(tensor_set *set)
{
    char name[128];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "model.layers.%d.self_attn.rotary_emb.inv_freq", i);
        add(set, name, MICA_F32, 1, 8, 0);
    }
    add(set, "model.rotary_emb.inv_freq", MICA_F32, 1, 8, 0);
    add(set, "model.position_ids", MICA_F32, 1, 64, 0);
}

static void harmless_tensors_are_accepted(void **state)
{
    (void)state;
    check_folder("nothing", "llama", nothing, NULL);
    for (int i = 0; tiny_model_name(i); i++)
        check_folder("tables of frequencies", tiny_model_name(i), with_inv_freq, NULL);
}

#define Q "model.layers.0.self_attn.q_proj."

static void narrow_q(tensor_set *set)
{
    replace(set, Q "weight", MICA_F32, 2, 64, 32);
}

static void flat_q(tensor_set *set)
{
    replace(set, Q "weight", MICA_F32, 1, 64 * 64, 0);
}

static void short_norm(tensor_set *set)
{
    replace(set, "model.norm.weight", MICA_F32, 1, 63, 0);
}

static void square_norm(tensor_set *set)
{
    replace(set, "model.norm.weight", MICA_F32, 2, 1, 64);
}

static void long_bias(tensor_set *set)
{
    replace(set, Q "bias", MICA_F32, 1, 65, 0);
}

static void flat_table(tensor_set *set)
{
    replace(set, "model.embed_tokens.weight", MICA_F32, 1, 256 * 64, 0);
}

static void short_head(tensor_set *set)
{
    replace(set, "lm_head.weight", MICA_F32, 2, 255, 64);
}

static void wrong_shapes_are_refused_by_name(void **state)
{
    (void)state;
    check_folder("narrow q", "llama", narrow_q, Q "weight");
    check_folder("flat q", "llama", flat_q, Q "weight");
    check_folder("short norm", "llama", short_norm, "model.norm.weight");
    check_folder("norm in two dimensions", "llama", square_norm, "model.norm.weight");
    check_folder("long bias", "llama", long_bias, Q "bias");
    check_folder("flat table", "llama", flat_table, "model.embed_tokens.weight");
    check_folder("short head", "llama", short_head, "lm_head.weight");
}

static void wide_norm(tensor_set *set)
{
    replace(set, "model.norm.weight", MICA_F64, 1, 64, 0);
}

static void whole_bias(tensor_set *set)
{
    replace(set, Q "bias", MICA_I32, 1, 64, 0);
}

static void byte_q(tensor_set *set)
{
    replace(set, Q "weight", MICA_U8, 2, 64, 64);
}

static void packed_q(tensor_set *set)
{
    replace(set, Q "weight", MICA_U32, 2, 64, 64);
}

static void wrong_types_are_refused_by_name(void **state)
{
    (void)state;
    check_folder("norm of F64", "llama", wide_norm, "model.norm.weight");
    check_folder("bias of I32", "llama", whole_bias, Q "bias");
    check_folder("bytes", "llama", byte_q, Q "weight");
    check_folder("codes without quantization", "llama", packed_q, Q "weight");
}

/* --- a head beside tied embeddings ------------------------------------------------------------ */

/* The table in bfloat16 (its upper halves), and a head of the same values in float32. */
static void wide_copy(tensor_set *set)
{
    tensor wide = *at(set, "model.embed_tokens.weight");
    const int64_t n = wide.n_bytes / 4;
    tensor *head = add(set, "lm_head.weight", MICA_F32, 2, wide.shape[0], wide.shape[1]);
    tensor *table = at(set, "model.embed_tokens.weight");
    uint8_t *narrow = malloc((size_t)n * 2);
    assert_non_null(narrow);
    for (int64_t i = 0; i < n; i++) {
        memcpy(narrow + 2 * i, wide.bytes + 4 * i + 2, 2);
        memcpy(head->bytes + 4 * i + 2, wide.bytes + 4 * i + 2, 2);
    }
    free(table->bytes);
    table->dtype = MICA_BF16;
    table->bytes = narrow;
    table->n_bytes = 2 * n;
}

static void equal_copy(tensor_set *set)
{
    tensor *head = add(set, "lm_head.weight", MICA_F32, 2, 256, 64);
    memcpy(head->bytes, at(set, "model.embed_tokens.weight")->bytes, (size_t)head->n_bytes);
}

static void other_values(tensor_set *set)
{
    equal_copy(set);
    at(set, "lm_head.weight")->bytes[4 * 77] ^= 1;
}

static void wide_other_values(tensor_set *set)
{
    wide_copy(set);
    at(set, "lm_head.weight")->bytes[4 * 77] ^= 1;
}

static void shorter_copy(tensor_set *set)
{
    add(set, "lm_head.weight", MICA_F32, 2, 128, 64);
}

static void a_head_beside_tied_embeddings_must_hold_the_same_values(void **state)
{
    (void)state;
    check_folder("equal", "qwen2", equal_copy, NULL);
    check_folder("equal, wider", "qwen2", wide_copy, NULL);
    check_folder("other", "qwen2", other_values, "lm_head.weight holds other values");
    check_folder("other, wider", "qwen2", wide_other_values, "lm_head.weight holds other values");
    check_folder("shorter", "qwen2", shorter_copy, "lm_head.weight");
}

/* --- GGUF ------------------------------------------------------------------------------------- */

static void odd_architecture(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_string(writer, "general.architecture", "odd", 3));
}

static void yarn(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_string(writer, "qwen2.rope.scaling.type", "yarn", 4));
    assert_ok(mica__gguf_put_real(writer, "qwen2.rope.scaling.factor", MICA__GGUF_F32, 4));
}

static void linear(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_string(writer, "qwen2.rope.scaling.type", "linear", 6));
    assert_ok(mica__gguf_put_real(writer, "qwen2.rope.scaling.factor", MICA__GGUF_F32, 4));
}

static void factor_alone(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_real(writer, "qwen2.rope.scaling.factor", MICA__GGUF_F32, 4));
}

static void both_ways(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_bool(writer, "qwen2.attention.causal", false));
}

static void one_way(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_bool(writer, "qwen2.attention.causal", true));
    assert_ok(mica__gguf_put_integer(writer, "qwen2.vocab_size", MICA__GGUF_U32, 256));
    assert_ok(mica__gguf_put_string(writer, "general.license", "mit", 3));
    assert_ok(mica__gguf_put_integer(writer, "qwen2moe.expert_count", MICA__GGUF_U32, 8));
}

static void short_vocabulary(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_integer(writer, "qwen2.vocab_size", MICA__GGUF_U32, 77));
}

static void window(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_integer(writer, "qwen2.attention.sliding_window", MICA__GGUF_U32, 8));
}

static void experts(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_integer(writer, "qwen2.expert_count", MICA__GGUF_U32, 8));
}

static void scaled(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_real(writer, "qwen2.logit_scale", MICA__GGUF_F32, 0.5));
}

static void pooled(mica__gguf_writer *writer)
{
    assert_ok(mica__gguf_put_integer(writer, "qwen2.pooling_type", MICA__GGUF_U32, 1));
}

static void gguf_keys_that_change_the_result_are_refused_by_name(void **state)
{
    (void)state;
    check_gguf("itself", "qwen2", NULL, NULL, NULL, NULL);
    check_gguf("harmless keys", "qwen2", NULL, one_way, NULL, NULL);
    check_gguf("linear", "qwen2", NULL, linear, NULL, NULL);
    check_gguf("architecture", "qwen2", "general.architecture", odd_architecture, NULL, "odd");
    check_gguf("yarn", "qwen2", NULL, yarn, NULL, "yarn");
    check_gguf("factor", "qwen2", NULL, factor_alone, NULL, "rope.scaling.factor");
    check_gguf("causal", "qwen2", NULL, both_ways, NULL, "attention.causal");
    check_gguf("vocabulary", "qwen2", NULL, short_vocabulary, NULL, "token_embd.weight");
    check_gguf("window", "qwen2", NULL, window, NULL, "qwen2.attention.sliding_window");
    check_gguf("experts", "qwen2", NULL, experts, NULL, "qwen2.expert_count");
    check_gguf("scale", "qwen2", NULL, scaled, NULL, "qwen2.logit_scale");
    check_gguf("pooling", "qwen2", NULL, pooled, NULL, "qwen2.pooling_type");
    check_gguf("no layers", "qwen2", "qwen2.block_count", NULL, NULL, "block_count");
    check_gguf("no norm", "llama", "llama.attention.layer_norm_rms_epsilon", NULL, NULL,
               "layer_norm_rms_epsilon");
}

static void without_gguf_norm(tensor_set *set)
{
    drop(set, "output_norm.weight");
}

static void with_gguf_extra(tensor_set *set)
{
    add(set, "blk.0.attn_sinks.weight", MICA_F32, 1, 4, 0);
}

static void with_gguf_inv_freq(tensor_set *set)
{
    add(set, "blk.0.rotary_emb.inv_freq", MICA_F32, 1, 8, 0);
}

static void with_gguf_bias(tensor_set *set)
{
    add(set, "blk.1.attn_output.bias", MICA_F32, 1, 64, 0);
}

static void narrow_gguf_up(tensor_set *set)
{
    replace(set, "blk.2.ffn_up.weight", MICA_F32, 2, 127, 64);
}

static void wide_gguf_norm(tensor_set *set)
{
    replace(set, "blk.2.ffn_norm.weight", MICA_F64, 1, 64, 0);
}

static void narrow_factors(tensor_set *set)
{
    replace(set, "rope_freqs.weight", MICA_F16, 1, 8, 0);
}

static void short_factors(tensor_set *set)
{
    replace(set, "rope_freqs.weight", MICA_F32, 1, 7, 0);
}

static void gguf_tensors_are_refused_by_name(void **state)
{
    (void)state;
    check_gguf("no norm", "qwen2", NULL, NULL, without_gguf_norm, "output_norm.weight");
    check_gguf("extra", "qwen2", NULL, NULL, with_gguf_extra, "attn_sinks");
    check_gguf("a name that ends well", "qwen2", NULL, NULL, with_gguf_inv_freq, "inv_freq");
    check_gguf("a bias of one layer", "qwen2", NULL, NULL, with_gguf_bias,
               "blk.1.attn_output.bias");
    check_gguf("narrow up", "qwen2", NULL, NULL, narrow_gguf_up, "blk.2.ffn_up.weight");
    check_gguf("norm of F64", "qwen2", NULL, NULL, wide_gguf_norm, "blk.2.ffn_norm.weight");
    check_gguf("factors of F16", "llama", NULL, NULL, narrow_factors, "rope_freqs.weight");
    check_gguf("short factors", "llama", NULL, NULL, short_factors, "rope_freqs.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_models_themselves_open),
        cmocka_unit_test(fields_that_change_the_result_are_refused_by_name),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused_by_name),
        cmocka_unit_test(fields_that_change_nothing_are_accepted),
        cmocka_unit_test(missing_tensors_are_refused_by_name),
        cmocka_unit_test(unexpected_tensors_are_refused_by_name),
        cmocka_unit_test(harmless_tensors_are_accepted),
        cmocka_unit_test(wrong_shapes_are_refused_by_name),
        cmocka_unit_test(wrong_types_are_refused_by_name),
        cmocka_unit_test(a_head_beside_tied_embeddings_must_hold_the_same_values),
        cmocka_unit_test(gguf_keys_that_change_the_result_are_refused_by_name),
        cmocka_unit_test(gguf_tensors_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
