/* block_codec_test.c - GGUF blocks against values from the reference package and hand calculation.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdlib.h>

#include "support/check.h"

#include "base/half.h"
#include "io/block_codec.h"
#include "io/safetensors.h"

#define FIXTURE MICA_SOURCE_DIR "/tests/data/io/block_codec.safetensors"

static mica__safetensors *fixture;

static int open_fixture(void **state)
{
    (void)state;
    return mica__safetensors_open(FIXTURE, true, &fixture) == MICA_OK ? 0 : -1;
}

static int close_fixture(void **state)
{
    (void)state;
    mica__safetensors_close(fixture);
    return 0;
}

static const mica__st_tensor *tensor_of(const char *what, const char *format, const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s.%s", what, format, part);
    return mica__safetensors_find(fixture, name);
}

static void decoding_gives_the_reference_values(void **state)
{
    (void)state;
    int seen = 0;
    for (int f = 0; f < MICA__N_FORMATS; f++) {
        const mica__block_info *facts = mica__block_info_of((mica__block_format)f);
        const mica__st_tensor *blocks = tensor_of("decode", facts->name, "blocks");
        if (!blocks)
            continue;
        const mica__st_tensor *values = tensor_of("decode", facts->name, "values");
        const int64_t k = values->shape[0];
        assert_int_equal(mica__block_row_bytes((mica__block_format)f, k), blocks->bytes);
        float *out = malloc((size_t)k * sizeof *out);
        assert_non_null(out);
        assert_ok(mica__block_decode((mica__block_format)f, blocks->data, k, out));
        for (int64_t i = 0; i < k; i++)
            if (memcmp(&out[i], values->data + 4 * i, 4) != 0 && out[i] != 0.0f)
                fail_msg("%s value %lld is %a", facts->name, (long long)i, (double)out[i]);
        free(out);
        seen++;
    }
    assert_int_equal(seen, 13);
}

static void encoding_gives_the_reference_bytes(void **state)
{
    (void)state;
    const mica__st_tensor *values = mica__safetensors_find(fixture, "encode.values");
    const int64_t k = values->shape[0];
    float *x = malloc((size_t)values->bytes);
    assert_non_null(x);
    memcpy(x, values->data, (size_t)values->bytes);
    int seen = 0;
    for (int f = 0; f < MICA__N_FORMATS; f++) {
        const mica__block_info *facts = mica__block_info_of((mica__block_format)f);
        const mica__st_tensor *blocks = tensor_of("encode", facts->name, "blocks");
        if (!blocks)
            continue;
        assert_true(mica__block_can_encode((mica__block_format)f));
        uint8_t *out = malloc((size_t)blocks->bytes);
        assert_non_null(out);
        assert_ok(mica__block_encode((mica__block_format)f, x, k, out));
        for (int64_t i = 0; i < blocks->bytes; i++)
            if (out[i] != blocks->data[i])
                fail_msg("%s byte %lld (block %lld) is %02x, not %02x", facts->name, (long long)i,
                         (long long)(i / facts->bytes), out[i], blocks->data[i]);
        free(out);
        seen++;
    }
    assert_int_equal(seen, 8);
    free(x);
}

static void a_q4_0_block_encodes_as_worked_out_by_hand(void **state)
{
    (void)state;
    /* -16 is the extreme: d = 2 (f16 0x4000); code = trunc(x / 2 + 8.5): 15 -> 16, capped to 15;
     * 3 -> 10; -1 -> 8; 0 -> 8. */
    float x[32] = {-16, 15, 3, -1};
    x[16] = 1, x[17] = -15;
    uint8_t block[18];
    assert_ok(mica__block_encode(MICA__Q4_0, x, 32, block));
    const uint8_t expected[6] = {0x00, 0x40, 0x90, 0x1f, 0x8a, 0x88};
    assert_memory_equal(block, expected, sizeof expected);
    float back[32];
    assert_ok(mica__block_decode(MICA__Q4_0, block, 32, back));
    assert_true(back[0] == -16 && back[1] == 14 && back[2] == 4 && back[3] == 0);
    assert_true(back[16] == 2 && back[17] == -14);
}

static void plain_elements_convert(void **state)
{
    (void)state;
    const double doubles[5] = {1.0 + 0x1p-24, 1e300, -1e300, 0x1.ffffffp127, 3.5};
    float out[5];
    assert_ok(mica__block_decode(MICA__F64, (const uint8_t *)doubles, 5, out));
    assert_true(out[0] == 1.0f && isinf(out[1]) && out[2] == -INFINITY && isinf(out[3]));
    assert_true(out[4] == 3.5f);
    const uint16_t halves[2] = {0x3c01, 0x8000};
    assert_ok(mica__block_decode(MICA__F16, (const uint8_t *)halves, 2, out));
    assert_true(out[0] == 1.0f + 0x1p-10f && out[1] == 0.0f && signbit(out[1]));
    const uint16_t brains[1] = {0xbf81};
    assert_ok(mica__block_decode(MICA__BF16, (const uint8_t *)brains, 1, out));
    assert_true(out[0] == -1.0f - 0x1p-7f);
    uint8_t bytes[8];
    const float value = -2.5f;
    assert_ok(mica__block_encode(MICA__F64, &value, 1, bytes));
    assert_ok(mica__block_decode(MICA__F64, bytes, 1, out));
    assert_true(out[0] == value);
    assert_ok(mica__block_encode(MICA__F32, &value, 1, bytes));
    assert_memory_equal(bytes, &value, 4);
}

static void data_at_odd_addresses_decodes_the_same(void **state)
{
    (void)state;
    const mica__st_tensor *blocks = tensor_of("decode", "Q6_K", "blocks");
    const mica__st_tensor *values = tensor_of("decode", "Q6_K", "values");
    uint8_t *moved = malloc((size_t)blocks->bytes + 1);
    float out[1024];
    assert_non_null(moved);
    memcpy(moved + 1, blocks->data, (size_t)blocks->bytes);
    assert_ok(mica__block_decode(MICA__Q6_K, moved + 1, 1024, out));
    for (int i = 0; i < 1024; i++)
        assert_true(out[i] == 0.0f || memcmp(&out[i], values->data + 4 * i, 4) == 0);
    free(moved);
}

static void formats_without_a_decoder_say_so_by_name(void **state)
{
    (void)state;
    int without = 0;
    for (int f = 0; f < MICA__MLX_AFFINE; f++) {
        const mica__block_info *facts = mica__block_info_of((mica__block_format)f);
        uint8_t block[512] = {0};
        float out[256];
        const mica_status status =
            mica__block_decode((mica__block_format)f, block, facts->values, out);
        assert_int_equal(status, facts->has_decoder ? MICA_OK : MICA_E_UNSUPPORTED);
        if (!facts->has_decoder) {
            assert_non_null(strstr(mica_last_error(), facts->name));
            without++;
        }
    }
    assert_int_equal(without, 18);
    float out[32];
    uint8_t block[32] = {0};
    assert_status(mica__block_decode(MICA__MLX_AFFINE, block, 32, out), MICA_E_UNSUPPORTED);
    assert_status(mica__block_encode(MICA__Q4_K, out, 256, block), MICA_E_UNSUPPORTED);
}

static void rows_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    float x[33] = {0};
    uint8_t block[64] = {0};
    int64_t bad;
    assert_status(mica__block_decode(MICA__Q8_0, block, 33, x), MICA_E_SHAPE);
    assert_status(mica__block_decode(MICA__Q8_0, block, -32, x), MICA_E_SHAPE);
    assert_status(mica__block_encode(MICA__Q8_0, x, 31, block), MICA_E_SHAPE);
    assert_status(mica__block_check_scales(MICA__Q8_0, block, 31, &bad), MICA_E_SHAPE);
    assert_ok(mica__block_decode(MICA__Q8_0, block, 0, x));
}

static void values_that_a_block_cannot_hold_are_refused(void **state)
{
    (void)state;
    static const mica__block_format formats[] = {MICA__Q4_0, MICA__Q4_1, MICA__Q5_0,
                                                 MICA__Q5_1, MICA__Q8_0, MICA__MXFP4};
    uint8_t block[64];
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        float x[32] = {0};
        x[7] = NAN;
        assert_status(mica__block_encode(formats[f], x, 32, block), MICA_E_ARGUMENT);
        assert_non_null(strstr(mica_last_error(), "value 7"));
        x[7] = -INFINITY;
        assert_status(mica__block_encode(formats[f], x, 32, block), MICA_E_ARGUMENT);
        x[7] = 3e38f, x[8] = -3e38f;
        assert_status(mica__block_encode(formats[f], x, 32, block),
                      formats[f] == MICA__MXFP4 ? MICA_OK : MICA_E_ARGUMENT);
        /* So small that the inverse of the scale overflows: zeros, not undefined conversions. */
        for (int i = 0; i < 32; i++)
            x[i] = (float)(i - 16) * 0x1p-149f;
        assert_ok(mica__block_encode(formats[f], x, 32, block));
        float back[32];
        assert_ok(mica__block_decode(formats[f], block, 32, back));
        for (int i = 0; i < 32; i++)
            assert_true(fabsf(back[i]) <= 0x1p-120f);
    }
    const float large = 1e30f;
    assert_ok(mica__block_encode(MICA__F16, &large, 1, block)); /* as the type has it: infinity */
}

static void scales_that_are_not_finite_are_found(void **state)
{
    (void)state;
    /* Format and where its scales stand, from the layouts in block_codec.h. */
    static const struct {
        mica__block_format format;
        int offsets[2];
    } layouts[] = {{MICA__Q4_0, {0, 0}},     {MICA__Q4_1, {0, 2}},   {MICA__Q5_0, {0, 0}},
                   {MICA__Q5_1, {0, 2}},     {MICA__Q8_0, {0, 0}},   {MICA__Q2_K, {80, 82}},
                   {MICA__Q3_K, {108, 108}}, {MICA__Q4_K, {0, 2}},   {MICA__Q5_K, {0, 2}},
                   {MICA__Q6_K, {208, 208}}, {MICA__IQ4_NL, {0, 0}}, {MICA__IQ4_XS, {0, 0}}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (int which = 0; which < 2; which++) {
            const mica__block_info *facts = mica__block_info_of(layouts[i].format);
            uint8_t blocks[512] = {0};
            int64_t bad = -1;
            assert_ok(mica__block_check_scales(layouts[i].format, blocks, 2 * facts->values, &bad));
            blocks[facts->bytes + layouts[i].offsets[which] + 1] = 0xfc; /* minus infinity */
            assert_status(
                mica__block_check_scales(layouts[i].format, blocks, 2 * facts->values, &bad),
                MICA_E_FORMAT);
            assert_int_equal(bad, 1);
        }
    uint8_t block[17] = {255};
    int64_t bad;
    assert_status(mica__block_check_scales(MICA__MXFP4, block, 32, &bad), MICA_E_FORMAT);
    const float infinite = INFINITY;
    assert_ok(mica__block_check_scales(MICA__F32, (const uint8_t *)&infinite, 1, &bad));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_gives_the_reference_values),
        cmocka_unit_test(encoding_gives_the_reference_bytes),
        cmocka_unit_test(a_q4_0_block_encodes_as_worked_out_by_hand),
        cmocka_unit_test(plain_elements_convert),
        cmocka_unit_test(data_at_odd_addresses_decodes_the_same),
        cmocka_unit_test(formats_without_a_decoder_say_so_by_name),
        cmocka_unit_test(rows_that_do_not_divide_are_refused),
        cmocka_unit_test(values_that_a_block_cannot_hold_are_refused),
        cmocka_unit_test(scales_that_are_not_finite_are_found),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
