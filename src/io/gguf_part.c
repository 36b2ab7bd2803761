/* gguf_part.c - the GGUF parser: one file's header against its size.
 *
 * Layout (GGUF specification, versions 2 and 3, little-endian): "GGUF", u32 version, i64 number of
 * tensors, i64 number of keys; the keys (string, u32 type, value); the tensor infos (string name,
 * u32 number of dimensions, i64 each with the row length first, u32 type, u64 offset from the start
 * of the data); padding to the alignment; the data, packed in the order of the infos with padding
 * between. A string is a u64 length and bytes; an array a u32 element type, a u64 count and the
 * elements.
 *
 * Everything is read through one cursor that knows how many bytes are left, so no count from the
 * file is trusted: a count is refused when the least space its items take is more than what is
 * left.
 * SPDX-License-Identifier: MIT
 */
#include "io/gguf_part.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "io/shown.h"

#define MAX_KEY       65535
#define MAX_NAME      63
#define MAX_DIMS      4
#define MAX_ELEMENTS  ((uint64_t)1 << 30)
#define MAX_ALIGNMENT 65536

/* Least bytes of a key (length, one byte, type, value) and of a tensor info. */
#define LEAST_KEY    (8 + 1 + 4 + 1)
#define LEAST_TENSOR (8 + 1 + 4 + 4 + 8)

typedef struct cursor {
    const uint8_t *bytes;
    int64_t n;
    int64_t at;
} cursor;

/* --- reading ---------------------------------------------------------------------------------- */

static int64_t left(const cursor *c)
{
    return c->n - c->at;
}

/* n bytes, or a failure that says what they were for. */
static mica_status take(cursor *c, int64_t n, const char *what, const uint8_t **bytes)
{
    if (n > left(c))
        MICA_FAIL(MICA_E_FORMAT,
                  "the file ends inside %s: byte %lld, %lld bytes wanted and %lld there (cut off "
                  "while copying?)",
                  what, (long long)c->at, (long long)n, (long long)left(c));
    *bytes = c->bytes + c->at;
    c->at += n;
    return MICA_OK;
}

static mica_status take_u32(cursor *c, const char *what, uint32_t *value)
{
    const uint8_t *at = NULL;
    MICA_TRY(take(c, 4, what, &at));
    *value = mica__load_u32(at);
    return MICA_OK;
}

static mica_status take_u64(cursor *c, const char *what, uint64_t *value)
{
    const uint8_t *at = NULL;
    MICA_TRY(take(c, 8, what, &at));
    *value = mica__load_u64(at);
    return MICA_OK;
}

static mica_status take_string(cursor *c, const char *what, mica__gguf_string *string)
{
    const int64_t start = c->at;
    uint64_t length = 0;
    MICA_TRY(take_u64(c, what, &length));
    if (length > (uint64_t)left(c))
        MICA_FAIL(MICA_E_FORMAT,
                  "%s at byte %lld claims %llu bytes, the file has %lld left (cut off while "
                  "copying?)",
                  what, (long long)start, (unsigned long long)length, (long long)left(c));
    string->bytes = (const char *)c->bytes + c->at;
    string->length = (int64_t)length;
    c->at += (int64_t)length;
    return MICA_OK;
}

int mica__gguf_scalar_bytes(uint32_t type)
{
    switch (type) {
    case MICA__GGUF_U8:
    case MICA__GGUF_I8:
    case MICA__GGUF_BOOL:
        return 1;
    case MICA__GGUF_U16:
    case MICA__GGUF_I16:
        return 2;
    case MICA__GGUF_U32:
    case MICA__GGUF_I32:
    case MICA__GGUF_F32:
        return 4;
    case MICA__GGUF_U64:
    case MICA__GGUF_I64:
    case MICA__GGUF_F64:
        return 8;
    default:
        return 0;
    }
}

/* --- header ----------------------------------------------------------------------------------- */

static mica_status read_magic(cursor *c)
{
    const uint8_t *magic = NULL;
    MICA_TRY(take(c, 4, "the header", &magic));
    if (memcmp(magic, "FUGG", 4) == 0)
        MICA_FAIL(MICA_E_UNSUPPORTED, "a big-endian GGUF file: get the little-endian one");
    static const char *const old[] = {"lmgg", "tjgg", "fmgg", "algg"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (memcmp(magic, old[i], 4) == 0)
            MICA_FAIL(MICA_E_UNSUPPORTED,
                      "a GGML file from before GGUF: convert the original model to GGUF");
    if (memcmp(magic, "GGUF", 4) != 0)
        MICA_FAIL(MICA_E_FORMAT, "not a GGUF file: it begins with bytes %02x %02x %02x %02x",
                  magic[0], magic[1], magic[2], magic[3]);
    return MICA_OK;
}

static mica_status read_version(cursor *c, int *version)
{
    uint32_t value = 0;
    MICA_TRY(take_u32(c, "the version", &value));
    if (value != 0 && (value & 0xffff) == 0)
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "a big-endian GGUF file (version reads 0x%08x): get the little-endian one",
                  value);
    if (value != 2 && value != 3)
        MICA_FAIL(MICA_E_UNSUPPORTED, "GGUF version %u: versions 2 and 3 are read%s", value,
                  value < 2 ? ", convert the original model again" : "");
    *version = (int)value;
    return MICA_OK;
}

static mica_status read_count(cursor *c, const char *what, int64_t least, int64_t *count)
{
    uint64_t value = 0;
    MICA_TRY(take_u64(c, what, &value));
    /* Both counts stand before the items, so the second one is 8 bytes nearer to them. */
    if (value > (uint64_t)(left(c) / least))
        MICA_FAIL(MICA_E_FORMAT, "%s is %llu, more than fits in a file of %lld bytes", what,
                  (unsigned long long)value, (long long)c->n);
    *count = (int64_t)value;
    return MICA_OK;
}

static mica_status add_name(mica__map *map, const char *what, mica__gguf_string name, int64_t i)
{
    bool added = false;
    char shown[MICA__SHOWN_BYTES];
    MICA_TRY(mica__map_insert_new(map, name.bytes, (size_t)name.length, i, &added, NULL));
    if (!added)
        MICA_FAIL(MICA_E_FORMAT, "the %s \"%s\" occurs twice", what,
                  mica__shown(shown, name.bytes, name.length));
    return MICA_OK;
}

/* --- keys ------------------------------------------------------------------------------------- */

static mica_status check_bools(mica__gguf_type type, const mica__gguf_value *value)
{
    for (int64_t i = 0; type == MICA__GGUF_BOOL && i < value->n; i++)
        if (value->data[i] > 1)
            MICA_FAIL(MICA_E_FORMAT, "a truth value is %d, neither 0 nor 1", value->data[i]);
    return MICA_OK;
}

static mica_status read_array(cursor *c, mica__gguf_value *value)
{
    uint32_t type = 0;
    uint64_t n = 0;
    MICA_TRY(take_u32(c, "the element type of an array", &type));
    MICA_TRY(take_u64(c, "the length of an array", &n));
    if (type == MICA__GGUF_ARRAY)
        MICA_FAIL(MICA_E_UNSUPPORTED, "an array of arrays");
    const int size = type == MICA__GGUF_STRING ? 8 : mica__gguf_scalar_bytes(type);
    if (!size)
        MICA_FAIL(MICA_E_FORMAT, "an array of the unknown type %u", type);
    if (n > MAX_ELEMENTS || (int64_t)n > left(c) / size)
        MICA_FAIL(MICA_E_FORMAT, "an array claims %llu elements, the file has %lld bytes left",
                  (unsigned long long)n, (long long)left(c));
    value->element_type = (mica__gguf_type)type;
    value->n = (int64_t)n;
    value->data = c->bytes + c->at;
    mica__gguf_string skipped = {0};
    if (type == MICA__GGUF_STRING) {
        for (int64_t i = 0; i < value->n; i++)
            MICA_TRY(take_string(c, "a string of an array", &skipped));
        return MICA_OK;
    }
    MICA_TRY(take(c, (int64_t)n * size, "an array", &value->data));
    return check_bools(value->element_type, value);
}

static mica_status read_value(cursor *c, mica__gguf_value *value)
{
    uint32_t type = 0;
    MICA_TRY(take_u32(c, "the type of a key", &type));
    value->type = (mica__gguf_type)type;
    value->n = 1;
    if (type == MICA__GGUF_ARRAY)
        return read_array(c, value);
    if (type == MICA__GGUF_STRING) {
        mica__gguf_string string = {0};
        value->data = c->bytes + c->at;
        return take_string(c, "a string", &string);
    }
    if (!mica__gguf_scalar_bytes(type))
        MICA_FAIL(MICA_E_FORMAT, "unknown type %u", type);
    MICA_TRY(take(c, mica__gguf_scalar_bytes(type), "a value", &value->data));
    return check_bools(value->type, value);
}

static mica_status read_key(cursor *c, mica__gguf_value *value)
{
    const int64_t start = c->at;
    char shown[MICA__SHOWN_BYTES];
    MICA_TRY(take_string(c, "a key", &value->key));
    mica__shown(shown, value->key.bytes, value->key.length);
    if (value->key.length == 0 || value->key.length > MAX_KEY)
        MICA_FAIL(MICA_E_FORMAT, "the key at byte %lld has %lld bytes: 1 to %d are allowed",
                  (long long)start, (long long)value->key.length, MAX_KEY);
    const mica_status status = read_value(c, value);
    if (status != MICA_OK)
        return mica__fail_at(status, "key \"%s\" (byte %lld)", shown, (long long)start);
    value->bytes = c->bytes + c->at - value->data;
    return MICA_OK;
}

static mica_status read_keys(cursor *c, mica__gguf_part *part)
{
    part->values =
        mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)part->n_values, sizeof *part->values);
    if (!part->values)
        return MICA_E_MEMORY;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &part->keys));
    for (int64_t i = 0; i < part->n_values; i++) {
        mica__gguf_value *value = &part->values[i];
        MICA_TRY(read_key(c, value));
        MICA_TRY(add_name(part->keys, "key", value->key, i));
    }
    return MICA_OK;
}

static mica_status read_alignment(mica__gguf_part *part)
{
    const mica__gguf_value *value = mica__gguf_part_find(part, "general.alignment");
    part->alignment = 32;
    if (!value)
        return MICA_OK;
    if (value->type != MICA__GGUF_U32)
        MICA_FAIL(MICA_E_FORMAT, "general.alignment must be a uint32 (type %d is there)",
                  (int)value->type);
    const uint32_t alignment = mica__load_u32(value->data);
    if (alignment == 0 || (alignment & (alignment - 1)) || alignment > MAX_ALIGNMENT)
        MICA_FAIL(MICA_E_FORMAT, "general.alignment is %u: a power of two of at most %d is allowed",
                  alignment, MAX_ALIGNMENT);
    part->alignment = alignment;
    return MICA_OK;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static const char *removed_type(uint32_t id)
{
    switch (id) {
    case 4:
        return "Q4_2";
    case 5:
        return "Q4_3";
    case 31:
        return "Q4_0_4_4";
    case 32:
        return "Q4_0_4_8";
    case 33:
        return "Q4_0_8_8";
    case 36:
        return "IQ4_NL_4_4";
    case 37:
        return "IQ4_NL_4_8";
    case 38:
        return "IQ4_NL_8_8";
    default:
        return NULL;
    }
}

static mica_status read_format(cursor *c, mica__gguf_tensor *tensor)
{
    uint32_t id = 0;
    MICA_TRY(take_u32(c, "the type of a tensor", &id));
    tensor->format = mica__block_format_of_ggml(id);
    if (tensor->format != MICA__N_FORMATS)
        return MICA_OK;
    if (removed_type(id))
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "type %s (%u), which the format has dropped: convert the model to Q4_0 again",
                  removed_type(id), id);
    MICA_FAIL(MICA_E_UNSUPPORTED, "unknown type %u (a newer format than this mica knows?)", id);
}

static mica_status read_shape(cursor *c, mica__gguf_tensor *tensor)
{
    uint32_t n_dims = 0;
    MICA_TRY(take_u32(c, "the number of dimensions", &n_dims));
    if (n_dims > MAX_DIMS)
        MICA_FAIL(MICA_E_FORMAT, "%u dimensions: at most %d are allowed", n_dims, MAX_DIMS);
    tensor->n_dims = (int)n_dims;
    for (int i = 0; i < MAX_DIMS; i++)
        tensor->shape[i] = 1;
    for (int i = tensor->n_dims - 1; i >= 0; i--) {
        uint64_t size = 0;
        MICA_TRY(take_u64(c, "a dimension", &size));
        if (size == 0 || size > INT64_MAX)
            MICA_FAIL(MICA_E_FORMAT, "dimension %d is %lld: sizes must be positive",
                      tensor->n_dims - 1 - i, (long long)size);
        tensor->shape[i] = (int64_t)size;
    }
    return MICA_OK;
}

static mica_status measure(mica__gguf_tensor *tensor)
{
    const int64_t row = tensor->n_dims ? tensor->shape[tensor->n_dims - 1] : 1;
    const mica__block_info *facts = mica__block_info_of(tensor->format);
    int64_t elements = 1;
    for (int i = 0; i < tensor->n_dims; i++)
        if (!mica__mul_i64(elements, tensor->shape[i], &elements))
            MICA_FAIL(MICA_E_FORMAT, "its dimensions multiply to more than 2^63");
    if (row % facts->values)
        MICA_FAIL(MICA_E_FORMAT, "rows of %lld values do not divide into %s blocks of %d",
                  (long long)row, facts->name, facts->values);
    tensor->bytes = mica__block_row_bytes(tensor->format, row);
    if (tensor->bytes < 0 || !mica__mul_i64(tensor->bytes, elements / row, &tensor->bytes))
        MICA_FAIL(MICA_E_FORMAT, "its bytes are more than 2^63");
    return MICA_OK;
}

/* Offsets count up from 0 without holes but the padding; *expected moves on. */
static mica_status read_offset(cursor *c, const mica__gguf_part *part,
                               const mica__gguf_tensor *tensor, int64_t *expected)
{
    uint64_t offset = 0;
    MICA_TRY(take_u64(c, "the offset of a tensor", &offset));
    if (offset != (uint64_t)*expected)
        MICA_FAIL(MICA_E_FORMAT,
                  "its data is said to be at offset %llu, but after the tensors before it, aligned "
                  "to %lld, comes offset %lld",
                  (unsigned long long)offset, (long long)part->alignment, (long long)*expected);
    int64_t end;
    if (!mica__add_i64(*expected, tensor->bytes, &end) ||
        !mica__add_i64(end, part->alignment - 1, &end))
        MICA_FAIL(MICA_E_FORMAT, "its data would end beyond 2^63");
    *expected = end & ~(part->alignment - 1);
    return MICA_OK;
}

static mica_status read_tensor_body(cursor *c, const mica__gguf_part *part,
                                    mica__gguf_tensor *tensor, int64_t *expected)
{
    MICA_TRY(read_shape(c, tensor));
    MICA_TRY(read_format(c, tensor));
    MICA_TRY(measure(tensor));
    return read_offset(c, part, tensor, expected);
}

static mica_status read_tensor(cursor *c, const mica__gguf_part *part, mica__gguf_tensor *tensor,
                               int64_t *expected)
{
    const int64_t start = c->at;
    MICA_TRY(take_string(c, "the name of a tensor", &tensor->name));
    if (tensor->name.length == 0 || tensor->name.length > MAX_NAME ||
        memchr(tensor->name.bytes, 0, (size_t)tensor->name.length))
        MICA_FAIL(MICA_E_FORMAT,
                  "the tensor name at byte %lld has %lld bytes: 1 to %d without NUL are allowed",
                  (long long)start, (long long)tensor->name.length, MAX_NAME);
    const mica_status status = read_tensor_body(c, part, tensor, expected);
    char shown[MICA__SHOWN_BYTES];
    if (status != MICA_OK)
        return mica__fail_at(status, "tensor \"%s\" (byte %lld)",
                             mica__shown(shown, tensor->name.bytes, tensor->name.length),
                             (long long)start);
    return MICA_OK;
}

static mica_status read_tensors(cursor *c, mica__gguf_part *part)
{
    part->tensors =
        mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)part->n_tensors, sizeof *part->tensors);
    if (!part->tensors)
        return MICA_E_MEMORY;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &part->names));
    int64_t expected = 0;
    for (int64_t i = 0; i < part->n_tensors; i++) {
        mica__gguf_tensor *tensor = &part->tensors[i];
        MICA_TRY(read_tensor(c, part, tensor, &expected));
        MICA_TRY(add_name(part->names, "tensor name", tensor->name, i));
    }
    return MICA_OK;
}

/* Tensors are packed, so each one's place follows from the sizes before it. */
static mica_status place_tensors(const cursor *c, mica__gguf_part *part)
{
    int64_t at;
    if (!mica__add_i64(c->at, part->alignment - 1, &at))
        MICA_FAIL(MICA_E_FORMAT, "the header is too long");
    at &= ~(part->alignment - 1);
    part->data_start = at;
    for (int64_t i = 0; i < part->n_tensors; i++) {
        mica__gguf_tensor *tensor = &part->tensors[i];
        char shown[MICA__SHOWN_BYTES];
        if (at > c->n || tensor->bytes > c->n - at)
            MICA_FAIL(
                MICA_E_FORMAT,
                "tensor \"%s\" needs %lld bytes from byte %lld on, the file has %lld (cut off "
                "while copying?)",
                mica__shown(shown, tensor->name.bytes, tensor->name.length),
                (long long)tensor->bytes, (long long)at, (long long)c->n);
        tensor->data = c->bytes + at;
        at = (at + tensor->bytes + part->alignment - 1) & ~(part->alignment - 1);
    }
    return MICA_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static mica_status parse(cursor *c, mica__gguf_part *part)
{
    MICA_TRY(read_magic(c));
    MICA_TRY(read_version(c, &part->version));
    MICA_TRY(read_count(c, "the number of tensors", LEAST_TENSOR, &part->n_tensors));
    MICA_TRY(read_count(c, "the number of keys", LEAST_KEY, &part->n_values));
    MICA_TRY(read_keys(c, part));
    MICA_TRY(read_alignment(part));
    MICA_TRY(read_tensors(c, part));
    return place_tensors(c, part);
}

mica_status mica__gguf_part_parse(const uint8_t *bytes, int64_t n, mica__gguf_part *part)
{
    cursor c = {.bytes = bytes, .n = n};
    *part = (mica__gguf_part){.bytes = bytes, .n_bytes = n};
    const mica_status status = parse(&c, part);
    if (status != MICA_OK)
        mica__gguf_part_free(part);
    return status;
}

void mica__gguf_part_free(mica__gguf_part *part)
{
    mica__free(part->values);
    mica__free(part->tensors);
    mica__map_free(part->keys);
    mica__map_free(part->names);
    *part = (mica__gguf_part){0};
}

const mica__gguf_value *mica__gguf_part_find(const mica__gguf_part *part, const char *key)
{
    int64_t i;
    return mica__map_find(part->keys, key, strlen(key), &i) ? &part->values[i] : NULL;
}
