/* digest_io.c - stored weights to numbers and back, and the bytes of the files that hold them.
 *
 * The blocks are the reference encoder's (tests/data/io).
 * SPDX-License-Identifier: MIT
 */
#include "digest/digest_test.h"

#include <stdlib.h>

#include <mica/io.h>

#include "base/half.h"
#include "io/block_codec.h"
#include "io/gguf_write.h"
#include "io/mlx_codec.h"
#include "io/safetensors.h"
#include "support/check.h"
#include "support/temp_dir.h"
#include "support/weights.h"

static const mica__st_tensor *fixture_of(const mica__safetensors *fixture, int format)
{
    char name[64];
    snprintf(name, sizeof name, "decode.%s.blocks",
             mica__block_info_of((mica__block_format)format)->name);
    return mica__safetensors_find(fixture, name);
}

static int64_t values_in(const mica__st_tensor *blocks, int format)
{
    const mica__block_info *facts = mica__block_info_of((mica__block_format)format);
    return blocks->bytes / facts->bytes * facts->values;
}

static void add_blocks(digest_book *book, const mica__safetensors *fixture)
{
    for (int f = 0; f < MICA__N_FORMATS; f++) {
        const mica__st_tensor *blocks = fixture_of(fixture, f);
        const int64_t k = blocks ? values_in(blocks, f) : 0;
        float *values = malloc((size_t)k * sizeof *values + 1);
        if (blocks) {
            assert_ok(mica__block_decode((mica__block_format)f, blocks->data, k, values));
            digest_add(book, values, MICA_F32, k, "decode/%s",
                       mica__block_info_of((mica__block_format)f)->name);
        }
        free(values);
    }
}

static void add_encoders(digest_book *book)
{
    const int64_t k = 2048;
    float *x = malloc((size_t)k * sizeof *x);
    draw_activations(x, k, 81);
    for (int f = 0; f < MICA__N_FORMATS; f++) {
        const mica__block_format format = (mica__block_format)f;
        if (!mica__block_can_encode(format))
            continue;
        const int64_t bytes = mica__block_row_bytes(format, k);
        uint8_t *blocks = malloc((size_t)bytes);
        assert_ok(mica__block_encode(format, x, k, blocks));
        digest_add(book, blocks, MICA_U8, bytes, "encode/%s", mica__block_info_of(format)->name);
        free(blocks);
    }
    free(x);
}

/* Values as the dtype would hold them, as f32. */
static void round_to(mica_dtype dtype, float *x, int64_t n)
{
    for (int64_t i = 0; i < n && dtype != MICA_F32; i++)
        x[i] = dtype == MICA_F16 ? mica__f16_to_f32(mica__f32_to_f16(x[i]))
                                 : mica__bf16_to_f32(mica__f32_to_bf16(x[i]));
}

static void add_mlx(digest_book *book, mica__mlx_spec spec)
{
    enum { K = 640 };
    float x[K], back[K];
    uint8_t codes[K * 4], scales[K * 4], biases[K * 4];
    if (mica__mlx_check(&spec, K) != MICA_OK)
        fail_msg("%s", mica_last_error());
    draw_activations(x, K, 82);
    round_to(spec.dtype, x, K);
    const bool affine = spec.format == MICA__MLX_AFFINE;
    const int64_t n_codes = mica__mlx_code_bytes(&spec, K), n = mica__mlx_scale_bytes(&spec, K);
    char name[64];
    snprintf(name, sizeof name, "%s.%d.%d.%s", mica__block_info_of(spec.format)->name, spec.bits,
             spec.group_size, mica_dtype_name(spec.dtype));
    assert_ok(mica__mlx_encode(&spec, x, K, codes, scales, affine ? biases : NULL));
    digest_add(book, codes, MICA_U8, n_codes, "mlx/%s/codes", name);
    digest_add(book, scales, MICA_U8, n, "mlx/%s/scales", name);
    if (affine)
        digest_add(book, biases, MICA_U8, n, "mlx/%s/biases", name);
    assert_ok(mica__mlx_decode(&spec, codes, scales, affine ? biases : NULL, K, back));
    digest_add(book, back, MICA_F32, K, "mlx/%s/values", name);
}

static void add_mlx_formats(digest_book *book)
{
    static const int bits[] = {2, 3, 4, 5, 6, 8};
    static const mica_dtype dtypes[] = {MICA_F16, MICA_BF16, MICA_F32};
    for (int b = 0; b < 6; b++)
        for (int group = 32; group <= 128; group *= 2)
            for (int d = 0; d < 3; d++)
                add_mlx(book, (mica__mlx_spec){MICA__MLX_AFFINE, bits[b], group, dtypes[d], 0});
    add_mlx(book, (mica__mlx_spec){MICA__MLX_MXFP4, 4, 32, MICA_BF16, 0});
    add_mlx(book, (mica__mlx_spec){MICA__MLX_MXFP8, 8, 32, MICA_BF16, 0});
    add_mlx(book, (mica__mlx_spec){MICA__MLX_NVFP4, 4, 16, MICA_BF16, 0});
    float fp8[256];
    for (int i = 0; i < 256; i++)
        fp8[i] = mica__e4m3_to_f32((uint8_t)i);
    digest_add(book, fp8, MICA_F32, 256, "mlx/e4m3");
}

/* --- whole files ------------------------------------------------------------------------------ */

static void write_gguf(const char *path, const mica__safetensors *fixture)
{
    mica__gguf_writer *writer;
    assert_ok(mica__gguf_writer_open(path, 0, &writer));
    assert_ok(mica__gguf_put_string(writer, "general.architecture", "llama", 5));
    assert_ok(mica__gguf_put_real(writer, "some.real", MICA__GGUF_F32, 0.1));
    for (int pass = 0; pass < 2; pass++)
        for (int f = 0; f < MICA__N_FORMATS; f++) {
            const mica__st_tensor *blocks = fixture_of(fixture, f);
            const char *name = mica__block_info_of((mica__block_format)f)->name;
            if (!blocks)
                continue;
            const int64_t k = values_in(blocks, f);
            assert_ok(pass ? mica__gguf_write(writer, blocks->data, blocks->bytes)
                           : mica__gguf_declare(writer, name, (mica__block_format)f, 1, &k));
        }
    assert_ok(mica__gguf_writer_finish(writer));
}

static void add_file_bytes(digest_book *book, const char *path, const char *name)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long n = ftell(file);
    rewind(file);
    uint8_t *bytes = malloc((size_t)n + 1);
    assert_int_equal(fread(bytes, 1, (size_t)n, file), n);
    fclose(file);
    digest_add(book, bytes, MICA_U8, n, "file/%s", name);
    free(bytes);
}

/* Every tensor of a file, read as numbers. */
static void add_tensors(digest_book *book, const char *path, const char *name)
{
    mica_file *file;
    assert_ok(mica_file_open(path, false, &file));
    for (int64_t i = 0; i < mica_file_n_tensors(file); i++) {
        const mica_file_tensor tensor = mica_file_tensor_at(file, i);
        double *values = malloc((size_t)tensor.n_values * sizeof *values + 1);
        assert_ok(mica_file_read_tensor(file, i, 0, tensor.n_values, values));
        digest_add(book, values, MICA_F64, tensor.n_values, "%s/%s", name, tensor.name);
        free(values);
    }
    mica_file_close(file);
}

void digest_io(digest_book *book, const mica__cpu *cpu, const char *isa)
{
    (void)cpu;
    (void)isa;
    const char *path = MICA_SOURCE_DIR "/tests/data/io/block_codec.safetensors";
    mica__safetensors *fixture;
    assert_ok(mica__safetensors_open(path, true, &fixture));
    char *dir = temp_dir_new(), gguf[4096];
    snprintf(gguf, sizeof gguf, "%s/all.gguf", dir);
    add_blocks(book, fixture);
    add_encoders(book);
    add_mlx_formats(book);
    write_gguf(gguf, fixture);
    add_file_bytes(book, gguf, "gguf");
    add_tensors(book, gguf, "gguf");
    add_tensors(book, path, "safetensors");
    mica__safetensors_close(fixture);
    temp_dir_remove(dir);
}
