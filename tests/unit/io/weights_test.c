/* weights_test.c - what a path of a model stands for, and what is refused as no model.
 * SPDX-License-Identifier: MIT
 */
#include "unit/io/assemble.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "io/weights.h"
#include "support/temp_dir.h"

static char *dir;

static int make_dir(void **state)
{
    (void)state;
    dir = temp_dir_new();
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return 0;
}

#define ST_AB                                                                                      \
    "j'{\"a\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]},"                        \
    "\"b\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[4,7]}}' h0x3f80 h0x4000 z3"
#define ST_C "j'{\"c\":{\"dtype\":\"U32\",\"shape\":[1],\"data_offsets\":[0,4]}}' w7"
#define ST_LORA                                                                                    \
    "j'{\"base_model.model.q.lora_A.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":"    \
    "[0,1]},\"base_model.model.q.lora_B.weight\":{\"dtype\":\"U8\",\"shape\":[1],"                 \
    "\"data_offsets\":[1,2]}}' z2"
#define GGUF_ONE                                                                                   \
    "'GGUF' w3 q2 q1 \"general.architecture\" w8 \"llama\" \"t\" w2 q32 q2 w2 q0 "                 \
    "\"f\" w1 q1 w1 q64 p32 z36 p32 h0x3c00 p32"
#define GGUF_OF(key, value) "'GGUF' w3 q0 q1 \"" key "\" w8 \"" value "\" p32"

static const char *put(const char *name, const char *source)
{
    static assembled out;
    assemble(source, &out);
    return temp_write(dir, name, out.bytes, out.n);
}

static void a_folder_with_one_file_opens(void **state)
{
    (void)state;
    put("one/model.safetensors", ST_AB);
    for (int slash = 0; slash < 2; slash++) {
        mica__weights *weights;
        assert_ok(mica__weights_open(temp_path(dir, slash ? "one//" : "one"), true, &weights));
        assert_int_equal(mica__weights_kind_of(weights), MICA__WEIGHTS_SAFETENSORS);
        assert_int_equal(mica__weights_n(weights), 2);
        assert_int_equal(mica__weights_bytes(weights), 7);
        assert_string_equal(mica__weights_folder(weights), temp_path(dir, "one"));
        assert_null(mica__weights_gguf(weights));
        assert_non_null(mica__weights_safetensors(weights));
        const mica__weight *a = mica__weights_find(weights, "a");
        assert_string_equal(a->name, "a");
        assert_string_equal(a->type, "BF16");
        assert_int_equal(a->format, MICA__BF16);
        assert_int_equal(a->dtype, MICA_BF16);
        assert_int_equal(a->n_dims, 2);
        assert_int_equal(a->shape[1], 2);
        assert_int_equal(mica__load_u16(a->data + 2), 0x4000);
        const mica__weight *b = mica__weights_at(weights, 1);
        assert_string_equal(b->type, "F8_E4M3");
        assert_int_equal(b->format, MICA__N_FORMATS);
        assert_int_equal(b->dtype, MICA_U8);
        assert_int_equal(b->st_type, MICA__ST_F8_E4M3);
        assert_int_equal(mica__weights_offset(weights, b), mica__weights_offset(weights, a) + 4);
        assert_non_null(strstr(mica__weights_file(weights, b), "one/model.safetensors"));
        const mica__weight *none;
        assert_null(mica__weights_find(weights, "zz"));
        assert_status(mica__weights_need(weights, "zz", &none), MICA_E_NOT_FOUND);
        assert_non_null(strstr(mica_last_error(), "one/model.safetensors has no tensor \"zz\""));
        mica__weights_close(weights);
    }
}

static void a_sharded_folder_opens(void **state)
{
    (void)state;
    put("shards/model-00001-of-00002.safetensors", ST_AB);
    put("shards/model-00002-of-00002.safetensors", ST_C);
    temp_write_text(dir, "shards/model.safetensors.index.json",
                    "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                    "\"b\":\"model-00001-of-00002.safetensors\","
                    "\"c\":\"model-00002-of-00002.safetensors\"}}");
    static const char *const paths[] = {"shards", "shards/model.safetensors.index.json"};
    for (int i = 0; i < 2; i++) {
        mica__weights *weights;
        assert_ok(mica__weights_open(temp_path(dir, paths[i]), i, &weights));
        const mica__weight *c;
        assert_ok(mica__weights_need(weights, "c", &c));
        assert_int_equal(c->data[0], 7);
        assert_int_equal(c->dtype, MICA_U32);
        assert_non_null(strstr(mica__weights_file(weights, c), "00002-of-00002.safetensors"));
        assert_string_equal(mica__weights_folder(weights), temp_path(dir, "shards"));
        mica__weights_close(weights);
    }
    unlink(temp_path(dir, "shards/model.safetensors.index.json"));
    mica__weights *weights;
    assert_status(mica__weights_open(temp_path(dir, "shards"), true, &weights), MICA_E_NOT_FOUND);
    assert_non_null(
        strstr(mica_last_error(), "2 safetensors files and no model.safetensors.index"));
}

static void a_gguf_file_opens_under_any_name(void **state)
{
    (void)state;
    static const char *const names[] = {"g/model.gguf", "g/blob"};
    for (int i = 0; i < 2; i++) {
        put(names[i], GGUF_ONE);
        mica__weights *weights;
        assert_ok(mica__weights_open(temp_path(dir, names[i]), true, &weights));
        assert_int_equal(mica__weights_kind_of(weights), MICA__WEIGHTS_GGUF);
        const mica__weight *t = mica__weights_find(weights, "t");
        assert_string_equal(t->name, "t");
        assert_string_equal(t->type, "Q4_0");
        assert_int_equal(t->format, MICA__Q4_0);
        assert_int_equal(t->dtype, MICA_N_DTYPES);
        assert_int_equal(t->shape[0], 2);
        assert_int_equal(t->shape[1], 32);
        assert_int_equal(t->bytes, 36);
        const mica__weight *f = mica__weights_at(weights, 1);
        assert_string_equal(f->name, "f");
        assert_int_equal(f->dtype, MICA_F16);
        assert_int_equal(mica__load_u16(f->data), 0x3c00);
        assert_int_equal(mica__weights_offset(weights, f) - mica__weights_offset(weights, t), 64);
        assert_non_null(mica__gguf_find(mica__weights_gguf(weights), "general.architecture"));
        assert_string_equal(mica__weights_folder(weights), temp_path(dir, "g"));
        mica__weights_close(weights);
    }
}

static void a_safetensors_file_opens_under_any_name(void **state)
{
    (void)state;
    static const char *const names[] = {"s/x.safetensors", "s/blob", "s/wrong.bin", "s/wrong.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mica__weights *weights;
        assert_ok(mica__weights_open(put(names[i], ST_AB), true, &weights));
        mica__weights_close(weights);
    }
    mica__weights *weights;
    put("only/consolidated.safetensors", ST_AB);
    assert_ok(mica__weights_open(temp_path(dir, "only"), true, &weights));
    mica__weights_close(weights);
}

static void what_is_no_model_is_refused_by_what_it_is(void **state)
{
    (void)state;
    put("adapter/adapter_config.json", "'{}'");
    put("adapter/adapter_model.safetensors", ST_LORA);
    put("mlx-adapter/adapter_config.json", "'{}'");
    put("mlx-adapter/adapters.safetensors", ST_LORA);
    put("pickled/pytorch_model.bin", "'PK' b3 b4 z30");
    put("pickled/config.json", "'{}'");
    put("ggufs/a.gguf", GGUF_ONE);
    put("empty/config.json", "'{}'");
    static const struct {
        const char *name;
        const char *source; /* NULL: the folder above */
        mica_status status;
        const char *message;
    } cases[] = {
        {"adapter", NULL, MICA_E_UNSUPPORTED, "LoRA adapter"},
        {"mlx-adapter", NULL, MICA_E_UNSUPPORTED, "LoRA adapter"},
        {"pickled", NULL, MICA_E_UNSUPPORTED, "only pickle files (pytorch_model.bin)"},
        {"ggufs", NULL, MICA_E_NOT_FOUND, "ggufs/a.gguf"},
        {"empty", NULL, MICA_E_NOT_FOUND, "no weight file"},
        {"adapters.safetensors", ST_LORA, MICA_E_UNSUPPORTED, "LoRA adapter"},
        {"model.bin", "'PK' b3 b4 z30", MICA_E_UNSUPPORTED, "PyTorch pickle file"},
        {"model.pt", "b0x80 b2 'ctorch'", MICA_E_UNSUPPORTED, "PyTorch pickle file"},
        {"model.pth", "'anything'", MICA_E_UNSUPPORTED, "PyTorch pickle file"},
        {"innocent", "b0x80 b4 b0x95", MICA_E_UNSUPPORTED, "PyTorch pickle file"},
        {"weights.npz", "'PK' b3 b4 z30", MICA_E_UNSUPPORTED, "zip archive"},
        {"mmproj.gguf", GGUF_OF("general.architecture", "clip"), MICA_E_UNSUPPORTED, "projector"},
        {"mmproj2.gguf", GGUF_OF("general.type", "mmproj"), MICA_E_UNSUPPORTED, "projector"},
        {"lora.gguf", GGUF_OF("general.type", "adapter"), MICA_E_UNSUPPORTED, "LoRA adapter"},
        {"imatrix.gguf", GGUF_OF("general.type", "imatrix"), MICA_E_UNSUPPORTED, "importance"},
        {"big.gguf", "'GGUF' w0x03000000 z16", MICA_E_UNSUPPORTED, "big-endian"},
        {"big2.gguf", "'FUGG' w0x03000000 z16", MICA_E_UNSUPPORTED, "big-endian"},
        {"old.bin", "'lmgg' z20", MICA_E_UNSUPPORTED, "before GGUF"},
        {"text.txt", "'hello, hello'", MICA_E_FORMAT, "neither a GGUF nor a safetensors"},
        {"nothing.dat", "", MICA_E_FORMAT, "neither a GGUF nor a safetensors"},
        {"cut.gguf", "'GG'", MICA_E_FORMAT, "ends inside the header"},
        {"cut.safetensors", "w7", MICA_E_FORMAT, "4 bytes"},
        {"cut2.safetensors", "q100 '{\"a\"'", MICA_E_FORMAT, "a header of 100 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].source)
            put(cases[i].name, cases[i].source);
        mica__weights *weights;
        const mica_status status =
            mica__weights_open(temp_path(dir, cases[i].name), true, &weights);
        if (status != cases[i].status || !strstr(mica_last_error(), cases[i].message) ||
            !strstr(mica_last_error(), cases[i].name))
            fail_msg("%s: %s, \"%s\"", cases[i].name, mica_status_name(status), mica_last_error());
        assert_null(weights);
    }
    mica__weights *weights;
    assert_status(mica__weights_open(temp_path(dir, "absent"), true, &weights), MICA_E_NOT_FOUND);
    assert_status(mica__weights_open("/dev/null", true, &weights), MICA_E_IO);
    assert_status(mica__weights_open("", true, &weights), MICA_E_NOT_FOUND);
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    put("fault/model-1.safetensors", ST_AB);
    put("fault/model-2.safetensors", ST_C);
    temp_write_text(dir, "fault/model.safetensors.index.json",
                    "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-1.safetensors\","
                    "\"c\":\"model-2.safetensors\"}}");
    put("fault.gguf", GGUF_ONE);
    static const char *const paths[] = {"fault", "fault.gguf"};
    mica_memory_usage before, after;
    mica_memory_read(&before);
    for (int p = 0; p < 4; p++) {
        int64_t n = 1;
        for (;; n++) {
            mica__weights *weights;
            mica__fault_after(n, false);
            const mica_status status =
                mica__weights_open(temp_path(dir, paths[p / 2]), p % 2, &weights);
            mica__fault_after(0, false);
            mica__weights_close(weights);
            mica_memory_read(&after);
            assert_int_equal(after.active, before.active);
            assert_int_equal(after.mapped, before.mapped);
            if (status == MICA_OK)
                break;
            assert_int_equal(status, MICA_E_MEMORY);
            assert_null(weights);
        }
        assert_true(n > 10);
    }
}

static void models_made_by_others_open(void **state)
{
    (void)state;
    if (!shared_path("golden/models"))
        skip();
    static const char *const folders[] = {"golden/models/qwen3", "golden/models/mlx-qwen2-q3",
                                          "golden/models/gpt2", "models/tales-19m"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        mica__weights *weights;
        assert_ok(mica__weights_open(shared_path(folders[i]), true, &weights));
        assert_true(mica__weights_n(weights) > 10);
        mica__weights_close(weights);
    }
}

static void files_of_others_are_told_apart(void **state)
{
    (void)state;
    if (!shared_path("data/weights/numpy-torch"))
        skip();
    static const char *const pickles[] = {"candle_test.pt", "candle_test_with_key.pt",
                                          "candle_fortran_tensor_3d.pth"};
    mica__weights *weights;
    char path[256];
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        snprintf(path, sizeof path, "data/weights/numpy-torch/%s", pickles[i]);
        assert_status(mica__weights_open(shared_path(path), true, &weights), MICA_E_UNSUPPORTED);
        assert_non_null(strstr(mica_last_error(), "pickle"));
    }
    assert_status(
        mica__weights_open(shared_path("data/weights/numpy-torch/candle_test.npz"), true, &weights),
        MICA_E_UNSUPPORTED);
    assert_status(
        mica__weights_open(shared_path("data/weights/numpy-torch/candle_test.npy"), true, &weights),
        MICA_E_FORMAT);
    /* A vocabulary has keys and no tensors. */
    assert_ok(mica__weights_open(
        shared_path("data/tokenizers/llama.cpp-vocab/ggml-vocab-gpt-2.gguf"), true, &weights));
    assert_int_equal(mica__weights_n(weights), 0);
    const mica__gguf_value *tokens =
        mica__gguf_find(mica__weights_gguf(weights), "tokenizer.ggml.tokens");
    assert_int_equal(tokens->n, 50257);
    mica__weights_close(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_with_one_file_opens),
        cmocka_unit_test(a_sharded_folder_opens),
        cmocka_unit_test(a_gguf_file_opens_under_any_name),
        cmocka_unit_test(a_safetensors_file_opens_under_any_name),
        cmocka_unit_test(what_is_no_model_is_refused_by_what_it_is),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
        cmocka_unit_test(models_made_by_others_open),
        cmocka_unit_test(files_of_others_are_told_apart),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
