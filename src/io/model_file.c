/* model_file.c - include/mica/io.h's reading half, over weights.h: keys, tensors, values.
 *
 * A handle is an open set of weights and nothing besides, so looking costs no memory but the index
 * that opening made.
 * SPDX-License-Identifier: MIT
 */
#include <mica/io.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/half.h"
#include "io/block_codec.h"
#include "io/mlx_codec.h"
#include "io/shown.h"
#include "io/weights.h"

/* Values decoded at a time: a multiple of every block. */
#define CHUNK 1024

struct mica_file {
    mica__weights *weights;
};

mica_status mica_file_open(const char *path, bool no_mmap, mica_file **file)
{
    *file = NULL;
    if (!path)
        MICA_FAIL(MICA_E_ARGUMENT, "file_open: no path");
    mica_file *made = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *made);
    if (!made)
        return MICA_E_MEMORY;
    const mica_status status = mica__weights_open(path, !no_mmap, &made->weights);
    if (status != MICA_OK) {
        mica__free(made);
        return status;
    }
    *file = made;
    return MICA_OK;
}

void mica_file_close(mica_file *file)
{
    if (!file)
        return;
    mica__weights_close(file->weights);
    mica__free(file);
}

const char *mica_file_format(const mica_file *file)
{
    return mica__weights_gguf(file->weights) ? "GGUF" : "safetensors";
}

int mica_file_version(const mica_file *file)
{
    const mica__gguf *gguf = mica__weights_gguf(file->weights);
    return gguf ? mica__gguf_version(gguf) : 0;
}

int mica_file_n_parts(const mica_file *file)
{
    const mica__gguf *gguf = mica__weights_gguf(file->weights);
    return gguf ? mica__gguf_n_shards(gguf)
                : mica__safetensors_n_shards(mica__weights_safetensors(file->weights));
}

const char *mica_file_part(const mica_file *file, int part)
{
    const mica__gguf *gguf = mica__weights_gguf(file->weights);
    if (part < 0 || part >= mica_file_n_parts(file))
        return NULL;
    return gguf ? mica__gguf_path(gguf, part)
                : mica__safetensors_path(mica__weights_safetensors(file->weights), part);
}

const char *mica_file_folder(const mica_file *file)
{
    return mica__weights_folder(file->weights);
}

/* --- keys ------------------------------------------------------------------------------------- */

static const char *type_name(mica__gguf_type type)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return names[type];
}

static mica_file_kind kind_of(mica__gguf_type type)
{
    switch (type) {
    case MICA__GGUF_F32:
    case MICA__GGUF_F64:
        return MICA_FILE_REAL;
    case MICA__GGUF_BOOL:
        return MICA_FILE_BOOL;
    case MICA__GGUF_STRING:
        return MICA_FILE_STRING;
    default:
        return MICA_FILE_INTEGER;
    }
}

int64_t mica_file_n_keys(const mica_file *file)
{
    const mica__gguf *gguf = mica__weights_gguf(file->weights);
    return gguf ? mica__gguf_n_values(gguf)
                : mica__safetensors_n_metadata(mica__weights_safetensors(file->weights));
}

mica_file_key mica_file_key_at(const mica_file *file, int64_t i)
{
    const mica__gguf *gguf = mica__weights_gguf(file->weights);
    if (!gguf) {
        const char *key, *value;
        mica__safetensors_metadata_at(mica__weights_safetensors(file->weights), i, &key, &value);
        return (mica_file_key){.name = key,
                               .name_length = (int64_t)strlen(key),
                               .type = "string",
                               .kind = MICA_FILE_STRING,
                               .n = 1};
    }
    const mica__gguf_value *value = mica__gguf_value_at(gguf, i);
    const bool array = value->type == MICA__GGUF_ARRAY;
    const mica__gguf_type type = array ? value->element_type : value->type;
    return (mica_file_key){.name = value->key.bytes,
                           .name_length = value->key.length,
                           .type = type_name(type),
                           .kind = kind_of(type),
                           .is_array = array,
                           .n = array ? value->n : 1};
}

int64_t mica_file_find_key(const mica_file *file, const char *name)
{
    const int64_t n = mica_file_n_keys(file), length = (int64_t)strlen(name);
    for (int64_t i = 0; i < n; i++) {
        const mica_file_key key = mica_file_key_at(file, i);
        if (key.name_length == length && memcmp(key.name, name, (size_t)length) == 0)
            return i;
    }
    return -1;
}

/* Strings have no index: they are walked from the first on. */
static void read_strings(const mica__gguf_value *array, int64_t first, int64_t n,
                         mica_file_value *values)
{
    mica__gguf_string string;
    int64_t at = 0;
    for (int64_t i = 0; i < first + n && mica__gguf_strings_next(array, &at, &string); i++)
        if (i >= first)
            values[i - first] = (mica_file_value){
                .kind = MICA_FILE_STRING, .string = string.bytes, .length = string.length};
}

static mica_status read_scalar(const mica__gguf_value *array, int64_t i, mica_file_value *value)
{
    *value = (mica_file_value){.kind = kind_of(array->element_type)};
    if (value->kind == MICA_FILE_REAL)
        return mica__gguf_element_f64(array, i, &value->real);
    if (mica__gguf_element_i64(array, i, &value->integer) != MICA_OK) {
        value->kind = MICA_FILE_REAL; /* u64 beyond int64 */
        value->real = (double)mica__load_u64(array->data + 8 * i);
        return MICA_OK;
    }
    value->real = (double)value->integer;
    return MICA_OK;
}

static mica_status check_stretch(const char *what, int64_t first, int64_t n, int64_t size)
{
    if (first < 0 || n < 0 || first > size || n > size - first)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "%s: values %lld and the %lld after it are not all among its %lld", what,
                  (long long)first, (long long)n, (long long)size);
    return MICA_OK;
}

mica_status mica_file_read_key(const mica_file *file, int64_t key, int64_t first, int64_t n,
                               mica_file_value *values)
{
    const mica__gguf *gguf = mica__weights_gguf(file->weights);
    if (key < 0 || key >= mica_file_n_keys(file))
        MICA_FAIL(MICA_E_ARGUMENT, "there is no key number %lld", (long long)key);
    MICA_TRY(check_stretch("the key", first, n, mica_file_key_at(file, key).n));
    if (n == 0)
        return MICA_OK;
    if (!gguf) {
        const char *name, *text;
        mica__safetensors_metadata_at(mica__weights_safetensors(file->weights), key, &name, &text);
        *values = (mica_file_value){
            .kind = MICA_FILE_STRING, .string = text, .length = (int64_t)strlen(text)};
        return MICA_OK;
    }
    mica__gguf_value array = *mica__gguf_value_at(gguf, key);
    if (array.type != MICA__GGUF_ARRAY) {
        array.element_type = array.type;
        array.type = MICA__GGUF_ARRAY;
        array.n = 1;
    }
    if (array.element_type == MICA__GGUF_STRING) {
        read_strings(&array, first, n, values);
        return MICA_OK;
    }
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(read_scalar(&array, first + i, &values[i]));
    return MICA_OK;
}

/* --- tensors ---------------------------------------------------------------------------------- */

int64_t mica_file_n_tensors(const mica_file *file)
{
    return mica__weights_n(file->weights);
}

static int64_t n_values_of(const mica__weight *weight)
{
    int64_t n = 1;
    for (int d = 0; d < weight->n_dims; d++)
        n *= weight->shape[d];
    return n;
}

mica_file_tensor mica_file_tensor_at(const mica_file *file, int64_t i)
{
    const mica__weight *weight = mica__weights_at(file->weights, i);
    mica_file_tensor tensor = {.name = weight->name,
                               .type = weight->type,
                               .n_dims = weight->n_dims,
                               .n_values = n_values_of(weight),
                               .bytes = weight->bytes,
                               .part = weight->file,
                               .offset = mica__weights_offset(file->weights, weight)};
    memcpy(tensor.shape, weight->shape, sizeof tensor.shape);
    return tensor;
}

int64_t mica_file_find_tensor(const mica_file *file, const char *name)
{
    const mica__weight *found = mica__weights_find(file->weights, name);
    for (int64_t i = 0; found && i < mica__weights_n(file->weights); i++)
        if (mica__weights_at(file->weights, i) == found)
            return i;
    return -1;
}

/* --- values ----------------------------------------------------------------------------------- */

/* Small floats of safetensors by their code. */
static double small_float(mica__st_type type, uint8_t code)
{
    if (type == MICA__ST_F8_E4M3)
        return (double)mica__e4m3_to_f32(code);
    if (type == MICA__ST_F8_E5M2)
        return (double)mica__f16_to_f32((uint16_t)(code << 8));
    return code == 255 ? NAN : ldexp(1, code - 127);
}

static bool is_small_float(mica__st_type type)
{
    return type == MICA__ST_F8_E4M3 || type == MICA__ST_F8_E5M2 || type == MICA__ST_F8_E8M0;
}

/* The element types that no block decoder knows, and F64, which one would round. */
static mica_status read_element(const mica__weight *weight, int64_t i, double *value)
{
    const uint8_t *at = weight->data;
    switch (weight->dtype) {
    case MICA_BOOL:
        *value = at[i] != 0;
        return MICA_OK;
    case MICA_U8:
        *value = is_small_float(weight->st_type) ? small_float(weight->st_type, at[i]) : at[i];
        return MICA_OK;
    case MICA_I8:
        *value = (int8_t)at[i];
        return MICA_OK;
    case MICA_U16:
        *value = mica__load_u16(at + 2 * i);
        return MICA_OK;
    case MICA_I16:
        *value = (int16_t)mica__load_u16(at + 2 * i);
        return MICA_OK;
    case MICA_U32:
        *value = mica__load_u32(at + 4 * i);
        return MICA_OK;
    case MICA_I32:
        *value = (int32_t)mica__load_u32(at + 4 * i);
        return MICA_OK;
    case MICA_U64:
        *value = (double)mica__load_u64(at + 8 * i);
        return MICA_OK;
    case MICA_I64:
        *value = (double)(int64_t)mica__load_u64(at + 8 * i);
        return MICA_OK;
    case MICA_F64:
        *value = mica__load_f64(at + 8 * i);
        return MICA_OK;
    default:
        MICA_FAIL(MICA_E_UNSUPPORTED, "tensor %s: values of type %s cannot be shown yet",
                  weight->name, weight->type);
    }
}

static bool is_decoded(const mica__weight *weight)
{
    return weight->format < MICA__N_FORMATS && weight->format != MICA__F64 &&
           mica__block_info_of(weight->format)->has_decoder;
}

/* Values [first, first + n) of a stored row of blocks, n at most CHUNK: the blocks around them are
 * decoded. */
static mica_status decode_some(const mica__weight *weight, int64_t first, int64_t n, double *values)
{
    const mica__block_info *info = mica__block_info_of(weight->format);
    float decoded[CHUNK + 512];
    const int64_t block = first / info->values, skip = first - block * info->values;
    const int64_t k = (skip + n + info->values - 1) / info->values * info->values;
    MICA_TRY(mica__block_decode(weight->format, weight->data + block * info->bytes, k, decoded));
    for (int64_t i = 0; i < n; i++)
        values[i] = (double)decoded[skip + i];
    return MICA_OK;
}

static mica_status read_values(const mica__weight *weight, int64_t first, int64_t n, double *values)
{
    if (!is_decoded(weight)) {
        for (int64_t i = 0; i < n; i++)
            MICA_TRY(read_element(weight, first + i, &values[i]));
        return MICA_OK;
    }
    for (int64_t done = 0; done < n; done += CHUNK)
        MICA_TRY(
            decode_some(weight, first + done, n - done < CHUNK ? n - done : CHUNK, values + done));
    return MICA_OK;
}

static mica_status tensor_of(const mica_file *file, int64_t i, const mica__weight **weight)
{
    if (i < 0 || i >= mica__weights_n(file->weights))
        MICA_FAIL(MICA_E_ARGUMENT, "there is no tensor number %lld", (long long)i);
    *weight = mica__weights_at(file->weights, i);
    return MICA_OK;
}

mica_status mica_file_read_tensor(const mica_file *file, int64_t tensor, int64_t first, int64_t n,
                                  double *values)
{
    const mica__weight *weight = NULL;
    MICA_TRY(tensor_of(file, tensor, &weight));
    MICA_TRY(check_stretch(weight->name, first, n, n_values_of(weight)));
    return read_values(weight, first, n, values);
}

/* --- checking --------------------------------------------------------------------------------- */

static bool is_float(const mica__weight *weight)
{
    return is_small_float(weight->st_type) || weight->dtype == MICA_F16 ||
           weight->dtype == MICA_BF16 || weight->dtype == MICA_F32 || weight->dtype == MICA_F64;
}

static mica_status check_values(const mica__weight *weight)
{
    double values[CHUNK];
    const int64_t n = n_values_of(weight);
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t some = n - done < CHUNK ? n - done : CHUNK;
        MICA_TRY(read_values(weight, done, some, values));
        for (int64_t i = 0; i < some; i++)
            if (!isfinite(values[i]))
                MICA_FAIL(MICA_E_FORMAT, "tensor %s: value %lld is %s", weight->name,
                          (long long)(done + i), isnan(values[i]) ? "not a number" : "infinite");
    }
    return MICA_OK;
}

mica_status mica_file_check_tensor(const mica_file *file, int64_t tensor)
{
    const mica__weight *weight = NULL;
    int64_t bad;
    MICA_TRY(tensor_of(file, tensor, &weight));
    if (is_float(weight))
        return check_values(weight);
    if (weight->format >= MICA__N_FORMATS || weight->bytes == 0)
        return MICA_OK;
    if (mica__block_check_scales(weight->format, weight->data, n_values_of(weight), &bad) !=
        MICA_OK)
        MICA_FAIL(MICA_E_FORMAT, "tensor %s: block %lld has a scale or minimum that is not finite",
                  weight->name, (long long)bad);
    return MICA_OK;
}
