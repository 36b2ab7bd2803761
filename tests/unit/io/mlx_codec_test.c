/* mlx_codec_test.c - MLX's formats against the golden operation cases.
 *
 * Reads quant.json and quant.safetensors of the outside data: quantize word for word, dequantize
 * within the tolerance of the case, to_fp8 and from_fp8 for every value.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdlib.h>

#include "support/check.h"

#include "base/bytes.h"
#include "base/half.h"
#include "io/json.h"
#include "io/mlx_codec.h"
#include "io/safetensors.h"

static mica__safetensors *tensors;
static mica__json_doc *manifest;

static int open_golden(void **state)
{
    (void)state;
    const char *path = shared_path("golden/ops/quant.json");
    if (!path)
        return 0;
    if (mica__json_read(path, 1 << 24, &manifest) != MICA_OK)
        return -1;
    return mica__safetensors_open(shared_path("golden/ops/quant.safetensors"), true, &tensors);
}

static int close_golden(void **state)
{
    (void)state;
    mica__safetensors_close(tensors);
    mica__json_free(manifest);
    return 0;
}

static const char *text_of(const mica__json *object, const char *key, const char *missing)
{
    const mica__json *node = mica__json_get(object, key);
    return node ? node->string : missing;
}

static const mica__st_tensor *tensor_in(const mica__json *one, const char *list, int i)
{
    const mica__json *node = mica__json_get(one, list)->first;
    while (node && i--)
        node = node->next;
    return node ? mica__safetensors_find(tensors, node->string) : NULL;
}

static float element(const mica__st_tensor *tensor, int64_t i)
{
    if (tensor->type == MICA__ST_F32)
        return mica__load_f32(tensor->data + 4 * i);
    const uint16_t bits = mica__load_u16(tensor->data + 2 * i);
    return tensor->type == MICA__ST_F16 ? mica__f16_to_f32(bits) : mica__bf16_to_f32(bits);
}

static int64_t n_elements(const mica__st_tensor *tensor)
{
    return tensor->bytes / mica__st_type_bytes(tensor->type);
}

/* Reads mode, bits and group size; defaults as MLX has them. */
static mica__mlx_spec spec_of(const mica__json *one)
{
    static const struct {
        const char *mode;
        mica__block_format format;
        int bits, group_size;
    } modes[] = {{"affine", MICA__MLX_AFFINE, 4, 64},
                 {"mxfp4", MICA__MLX_MXFP4, 4, 32},
                 {"mxfp8", MICA__MLX_MXFP8, 8, 32},
                 {"nvfp4", MICA__MLX_NVFP4, 4, 16}};
    const mica__json *params = mica__json_get(one, "params");
    const char *mode = text_of(params, "mode", "affine");
    mica__mlx_spec spec = {.dtype = MICA_F32};
    for (int i = 0; i < 4; i++)
        if (strcmp(mode, modes[i].mode) == 0)
            spec = (mica__mlx_spec){.format = modes[i].format,
                                    .bits = modes[i].bits,
                                    .group_size = modes[i].group_size,
                                    .dtype = MICA_F32};
    if (mica__json_get(params, "bits"))
        spec.bits = (int)mica__json_get(params, "bits")->integer;
    if (mica__json_get(params, "group_size"))
        spec.group_size = (int)mica__json_get(params, "group_size")->integer;
    return spec;
}

static bool has_global_scale(const mica__json *one)
{
    return mica__json_get(mica__json_get(one, "params"), "global_scale") != NULL;
}

static void check_quantize(const mica__json *one)
{
    const char *id = text_of(one, "id", "?");
    const mica__st_tensor *w = tensor_in(one, "inputs", 0);
    mica__mlx_spec spec = spec_of(one);
    spec.dtype = mica__st_type_dtype(w->type);
    if (has_global_scale(one))
        spec.global_scale = element(tensor_in(one, "inputs", 1), 0);
    const int64_t k = w->shape[w->n_dims - 1], rows = n_elements(w) / k;
    const mica__st_tensor *words = tensor_in(one, "outputs", 0);
    const mica__st_tensor *scales = tensor_in(one, "outputs", 1);
    const mica__st_tensor *biases = tensor_in(one, "outputs", 2);
    float x[4096];
    uint8_t codes[4096], s[1024], b[1024];
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < k; i++)
            x[i] = element(w, row * k + i);
        assert_ok(mica__mlx_encode(&spec, x, k, codes, s, b));
        const int64_t n_codes = mica__mlx_code_bytes(&spec, k);
        const int64_t n_scales = mica__mlx_scale_bytes(&spec, k);
        if (memcmp(codes, words->data + row * n_codes, (size_t)n_codes) != 0)
            fail_msg("%s: codes of row %lld differ", id, (long long)row);
        if (memcmp(s, scales->data + row * n_scales, (size_t)n_scales) != 0)
            fail_msg("%s: scales of row %lld differ", id, (long long)row);
        if (biases && memcmp(b, biases->data + row * n_scales, (size_t)n_scales) != 0)
            fail_msg("%s: biases of row %lld differ", id, (long long)row);
    }
}

static void check_quantize_error(const mica__json *one)
{
    const mica__st_tensor *w = tensor_in(one, "inputs", 0);
    mica__mlx_spec spec = spec_of(one);
    spec.dtype = mica__st_type_dtype(w->type);
    /* One case is a vector, which MLX refuses; rows are all there is here. */
    if (w->n_dims > 1 && mica__mlx_check(&spec, w->shape[w->n_dims - 1]) == MICA_OK)
        fail_msg("%s: not refused", text_of(one, "id", "?"));
}

static void check_dequantize(const mica__json *one)
{
    const mica__st_tensor *words = tensor_in(one, "inputs", 0);
    const mica__st_tensor *scales = tensor_in(one, "inputs", 1);
    mica__mlx_spec spec = spec_of(one);
    const mica__st_tensor *biases =
        spec.format == MICA__MLX_AFFINE ? tensor_in(one, "inputs", 2) : NULL;
    if (biases)
        spec.dtype = mica__st_type_dtype(scales->type);
    if (has_global_scale(one))
        spec.global_scale = element(tensor_in(one, "inputs", 2), 0);
    const mica__st_tensor *want = tensor_in(one, "outputs", 0);
    const mica__json *tol = mica__json_get(one, "tol");
    const double abs = mica__json_get(tol, "abs")->number, rel = mica__json_get(tol, "rel")->number;
    const int64_t k = want->shape[want->n_dims - 1], rows = n_elements(want) / k;
    float got[4096];
    for (int64_t row = 0; row < rows; row++) {
        const int64_t n_codes = mica__mlx_code_bytes(&spec, k);
        const int64_t n_scales = mica__mlx_scale_bytes(&spec, k);
        assert_ok(mica__mlx_decode(&spec, words->data + row * n_codes,
                                   scales->data + row * n_scales,
                                   biases ? biases->data + row * n_scales : NULL, k, got));
        for (int64_t i = 0; i < k; i++) {
            const double expected = (double)element(want, row * k + i);
            if (!(fabs((double)got[i] - expected) <= abs + rel * fabs(expected)))
                fail_msg("%s: value %lld is %a, not %a", text_of(one, "id", "?"),
                         (long long)(row * k + i), (double)got[i], expected);
        }
    }
}

static void check_fp8(const mica__json *one, bool encode)
{
    const mica__st_tensor *in = tensor_in(one, "inputs", 0), *out = tensor_in(one, "outputs", 0);
    for (int64_t i = 0; i < n_elements(in); i++) {
        if (encode && mica__f32_to_e4m3(element(in, i)) != out->data[i])
            fail_msg("%s: %a became %02x", text_of(one, "id", "?"), (double)element(in, i),
                     mica__f32_to_e4m3(element(in, i)));
        if (encode)
            continue;
        const float got = mica__e4m3_to_f32(in->data[i]), want = element(out, i);
        if (!(got == want || (isnan(got) && isnan(want))))
            fail_msg("%s: code %02x became %a", text_of(one, "id", "?"), in->data[i], (double)got);
    }
}

static void golden_cases_hold(void **state)
{
    (void)state;
    if (!manifest)
        skip();
    int n_quantize = 0, n_dequantize = 0, n_fp8 = 0, n_errors = 0;
    const mica__json *one = mica__json_get(mica__json_root(manifest), "cases")->first;
    for (; one; one = one->next) {
        const char *op = text_of(one, "op", "");
        if (strcmp(op, "quantize") == 0 && mica__json_get(one, "error")) {
            check_quantize_error(one);
            n_errors++;
        } else if (strcmp(op, "quantize") == 0) {
            check_quantize(one);
            n_quantize++;
        } else if (strcmp(op, "dequantize") == 0) {
            check_dequantize(one);
            n_dequantize++;
        } else if (strcmp(op, "to_fp8") == 0 || strcmp(op, "from_fp8") == 0) {
            check_fp8(one, op[0] == 't');
            n_fp8++;
        }
    }
    assert_int_equal(n_quantize, 71);
    assert_int_equal(n_errors, 6);
    assert_int_equal(n_dequantize, 65);
    assert_int_equal(n_fp8, 6);
}

static void codes_are_a_little_endian_bit_stream(void **state)
{
    (void)state;
    /* Scale 1, bias 0 and 32 codes of 5 bits: value k is bits 5k to 5k + 4. Codes 1, 2, 4, 8, 16,
     * 31, 0, 21 are the 40 bits 10101 00000 11111 10000 01000 00100 00010 00001. */
    const uint8_t codes[20] = {0x41, 0x10, 0x04, 0x3f, 0xa8};
    const float one = 1.0f, zero = 0.0f;
    const mica__mlx_spec spec = {
        .format = MICA__MLX_AFFINE, .bits = 5, .group_size = 32, .dtype = MICA_F32};
    float out[32];
    assert_ok(
        mica__mlx_decode(&spec, codes, (const uint8_t *)&one, (const uint8_t *)&zero, 32, out));
    static const float expected[9] = {1, 2, 4, 8, 16, 31, 0, 21, 0};
    assert_memory_equal(out, expected, sizeof expected);
}

static void halves_between_e2m1_values_go_to_the_lower_code(void **state)
{
    (void)state;
    const mica__mlx_spec spec = {
        .format = MICA__MLX_MXFP4, .bits = 4, .group_size = 32, .dtype = MICA_F32};
    /* 6 fixes the scale to 1 (byte 127); MLX on its CPU gives these bytes for the others. */
    float x[32] = {6,      0.25f,  0.75f,  1.25f,  1.75f, 2.5f,  3.5f, 5,
                   -0.25f, -0.75f, -1.25f, -1.75f, -2.5f, -3.5f, -5,   -0.1f};
    static const uint8_t expected[8] = {7, 33, 67, 101, 144, 186, 220, 14};
    uint8_t codes[16], scale;
    assert_ok(mica__mlx_encode(&spec, x, 32, codes, &scale, NULL));
    assert_int_equal(scale, 127);
    assert_memory_equal(codes, expected, sizeof expected);
    x[0] = 6.5f; /* 6.5 / 6 rounds up to 2 */
    assert_ok(mica__mlx_encode(&spec, x, 32, codes, &scale, NULL));
    assert_int_equal(scale, 128);
}

static void values_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    float x[128] = {0};
    uint8_t codes[128], scales[64], biases[64];
    mica__mlx_spec spec = {
        .format = MICA__MLX_AFFINE, .bits = 4, .group_size = 32, .dtype = MICA_F32};
    x[5] = NAN;
    assert_status(mica__mlx_encode(&spec, x, 128, codes, scales, biases), MICA_E_ARGUMENT);
    x[5] = 3e38f;
    assert_status(mica__mlx_encode(&spec, x, 128, codes, scales, biases), MICA_E_ARGUMENT);
    x[5] = 0;
    assert_ok(mica__mlx_encode(&spec, x, 128, codes, scales, biases));
    assert_status(mica__mlx_encode(&spec, x, 100, codes, scales, biases), MICA_E_SHAPE);
    spec.dtype = MICA_I32;
    assert_status(mica__mlx_check(&spec, 128), MICA_E_ARGUMENT);
    spec = (mica__mlx_spec){.format = MICA__MLX_MXFP4,
                            .bits = 4,
                            .group_size = 32,
                            .dtype = MICA_F32,
                            .global_scale = 1};
    assert_status(mica__mlx_check(&spec, 128), MICA_E_ARGUMENT);
    spec = (mica__mlx_spec){.format = MICA__Q4_0, .bits = 4, .group_size = 32, .dtype = MICA_F32};
    assert_status(mica__mlx_check(&spec, 128), MICA_E_ARGUMENT);
}

static void every_e4m3_code_survives_the_way_to_float_and_back(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++)
        if ((code & 0x7f) != 0x7f)
            assert_int_equal(mica__f32_to_e4m3(mica__e4m3_to_f32((uint8_t)code)), code);
    assert_true(isnan(mica__e4m3_to_f32(0x7f)) && isnan(mica__e4m3_to_f32(0xff)));
    assert_int_equal(mica__f32_to_e4m3(NAN), 0x7e);
    assert_int_equal(mica__f32_to_e4m3(-INFINITY), 0xfe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_cases_hold),
        cmocka_unit_test(codes_are_a_little_endian_bit_stream),
        cmocka_unit_test(halves_between_e2m1_values_go_to_the_lower_code),
        cmocka_unit_test(values_that_do_not_fit_are_refused),
        cmocka_unit_test(every_e4m3_code_survives_the_way_to_float_and_back),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
