/* safetensors_test.c - what the safetensors reader accepts, gives and refuses.
 * SPDX-License-Identifier: MIT
 */
#include "unit/io/assemble.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/text_buffer.h"
#include "io/json.h"
#include "io/safetensors_part.h"
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

static mica_status open_source(const char *source, mica__safetensors **file, uint8_t **bytes)
{
    static assembled out;
    assemble(source, &out);
    *bytes = exact_copy(out.bytes, out.n);
    return mica__safetensors_open_memory(*bytes, out.n, file);
}

/* "a" is U8 [3] at an odd place before "b", F32 [1, 2]. */
#define SMALL                                                                                      \
    "j'{\"__metadata__\":{\"format\":\"mlx\",\"x\":\"\"},"                                         \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[3,11]},"                           \
    "\"a\":{\"data_offsets\":[0,3],\"shape\":[3],\"dtype\":\"U8\"}} ' "                            \
    "b1 b2 b3 w0x3f800000 w0x40000000"

static void tensors_and_metadata_come_out_as_written(void **state)
{
    (void)state;
    mica__safetensors *file;
    uint8_t *bytes;
    assert_ok(open_source(SMALL, &file, &bytes));
    assert_int_equal(mica__safetensors_n_tensors(file), 2);
    const mica__st_tensor *b = mica__safetensors_tensor_at(file, 0);
    assert_string_equal(b->name, "b");
    assert_int_equal(b->type, MICA__ST_F32);
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->shape[0], 1);
    assert_int_equal(b->shape[1], 2);
    assert_int_equal(b->bytes, 8);
    assert_true(mica__load_f32(b->data + 4) == 2.0f);
    const mica__st_tensor *a = mica__safetensors_find(file, "a");
    assert_int_equal(a->data[2], 3);
    assert_int_equal(b->offset, a->offset + 3);
    assert_null(mica__safetensors_find(file, "c"));
    assert_string_equal(mica__safetensors_metadata(file, "format"), "mlx");
    assert_string_equal(mica__safetensors_metadata(file, "x"), "");
    assert_null(mica__safetensors_metadata(file, "y"));
    assert_int_equal(mica__safetensors_n_metadata(file), 2);
    const char *key, *value;
    mica__safetensors_metadata_at(file, 0, &key, &value);
    assert_string_equal(key, "format");
    assert_string_equal(value, "mlx");
    mica__safetensors_close(file);
    free(bytes);
}

static void every_type_has_its_size_and_dtype(void **state)
{
    (void)state;
    /* From the format's list; the dtypes are MLX's. */
    static const struct {
        const char *name;
        int bytes;
        mica_dtype dtype;
    } known[] = {{"BOOL", 1, MICA_BOOL},  {"U8", 1, MICA_U8},      {"I8", 1, MICA_I8},
                 {"F8_E5M2", 1, MICA_U8}, {"F8_E4M3", 1, MICA_U8}, {"F8_E8M0", 1, MICA_U8},
                 {"I16", 2, MICA_I16},    {"U16", 2, MICA_U16},    {"F16", 2, MICA_F16},
                 {"BF16", 2, MICA_BF16},  {"I32", 4, MICA_I32},    {"U32", 4, MICA_U32},
                 {"F32", 4, MICA_F32},    {"C64", 8, MICA_C64},    {"F64", 8, MICA_F64},
                 {"I64", 8, MICA_I64},    {"U64", 8, MICA_U64}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char source[256];
        snprintf(source, sizeof source,
                 "j'{\"t\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%d]}}' z%d",
                 known[i].name, 3 * known[i].bytes, 3 * known[i].bytes);
        mica__safetensors *file;
        uint8_t *bytes;
        assert_ok(open_source(source, &file, &bytes));
        const mica__st_type type = mica__safetensors_find(file, "t")->type;
        assert_string_equal(mica__st_type_name(type), known[i].name);
        assert_int_equal(mica__st_type_dtype(type), known[i].dtype);
        mica__safetensors_close(file);
        free(bytes);
    }
    assert_int_equal(sizeof known / sizeof *known, MICA__N_ST_TYPES);
}

#define T(name, dtype, shape, begin, end)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

static void accepted_odd_ones_open(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "j'{}'",                                 /* no tensors */
        "j'{}      '",                           /* padded */
        "j'{\"__metadata__\":null}'",            /* as MLX writes */
        "j'{\"__metadata__\":{}}'",              /* empty metadata */
        "j'{" T("t", "F32", "[]", 0, 4) "}' z4", /* a scalar */
        "j'{" T("t", "F32", "[0]", 0, 0) "}'",   /* no elements */
        "j'{" T("e", "F32", "[3,0]", 4, 4) "," T("t", "F32", "[1]", 0, 4) "}' z4",
        "j'{" T("e", "F32", "[0]", 0, 0) "," T("t", "F32", "[1]", 0, 4) "}' z4",
        "j'{" T("t", "U8", "[9223372036854775807,0]", 0, 0) "}'",
        "j'{" T("t", "U8", "[1,1,1,1,1,1,1,1,1,1,1,1]", 0, 1) "}' b1",
        "j'{" T("\\u00e9\\n", "U8", "[1]", 0, 1) "}' b1", /* escapes in a name */
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        mica__safetensors *file;
        uint8_t *bytes;
        assert_ok(open_source(sources[i], &file, &bytes));
        mica__safetensors_close(file);
        free(bytes);
    }
}

/* Each breaks one rule; the message must say which. */
static const struct {
    const char *source;
    mica_status status;
    const char *message;
} refused[] = {
    {"", MICA_E_FORMAT, "0 bytes"},
    {"w2 h0 b0", MICA_E_FORMAT, "7 bytes"},
    {"q0", MICA_E_FORMAT, "no '{'"},
    {"q2 '{'", MICA_E_FORMAT, "a header of 2 bytes"},
    {"q0xffffffffffffffff '{}'", MICA_E_FORMAT, "18446744073709551615"},
    {"q0x7ffffffffffffff8 '{}'", MICA_E_FORMAT, "9223372036854775800"},
    {"q0xffff '{}'", MICA_E_FORMAT, "65535"},
    {"q100000001 '{}'", MICA_E_FORMAT, "100000001"},
    {"j'[]'", MICA_E_FORMAT, "no '{'"},
    {"j' {}'", MICA_E_FORMAT, "no '{'"},
    {"j'{'", MICA_E_FORMAT, "header"},
    {"j'{}}'", MICA_E_FORMAT, "header"},
    {"q3 '{}' b0", MICA_E_FORMAT, "header"},
    {"j'{\"a\":}'", MICA_E_FORMAT, "header"},
    {"q9 '{\"' b0xff '\":{}}' ", MICA_E_FORMAT, "header"}, /* no UTF-8 */
    {"j'{\"a\":1}'", MICA_E_FORMAT, "a number where none belongs"},
    {"j'{\"a\":null}'", MICA_E_FORMAT, "a null where none belongs"},
    {"j'{\"a\":[]}'", MICA_E_FORMAT, "a list where none belongs"},
    {"j'{\"a\":\"F32\"}'", MICA_E_FORMAT, "a string where none belongs"},
    {"j'{\"a\":{}}'", MICA_E_FORMAT, "must all be there"},
    {"j'{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}' b1", MICA_E_FORMAT, "must all be there"},
    {"j'{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}' b1", MICA_E_FORMAT, "must all be"},
    {"j'{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}' b1", MICA_E_FORMAT, "must all be there"},
    {"j'{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}' b1", MICA_E_FORMAT,
     "a field other than"},
    {"j'{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}'", MICA_E_FORMAT, "a field occurs twice"},
    {"j'{\"a\":{\"dtype\":8}}'", MICA_E_FORMAT, "a number where none belongs"},
    {"j'{\"a\":{\"dtype\":{}}}'", MICA_E_FORMAT, "an object where none belongs"},
    {"j'{\"a\":{\"shape\":\"3\"}}'", MICA_E_FORMAT, "a string where none belongs"},
    {"j'{\"a\":{\"shape\":[[1]]}}'", MICA_E_FORMAT, "a list where none belongs"},
    {"j'{\"a\":{\"shape\":[true]}}'", MICA_E_FORMAT, "a true where none belongs"},
    {"j'{" T("a", "F128", "[1]", 0, 16) "}' z16", MICA_E_UNSUPPORTED, "unknown dtype \"F128\""},
    {"j'{" T("a", "f32", "[1]", 0, 4) "}' z4", MICA_E_UNSUPPORTED, "unknown dtype \"f32\""},
    {"j'{" T("a", "U8", "[-1]", 0, 1) "}' b1", MICA_E_FORMAT, "whole numbers"},
    {"j'{" T("a", "U8", "[1.0]", 0, 1) "}' b1", MICA_E_FORMAT, "whole numbers"},
    {"j'{" T("a", "U8", "[1e0]", 0, 1) "}' b1", MICA_E_FORMAT, "whole numbers"},
    {"j'{" T("a", "U8", "[9223372036854775808]", 0, 1) "}' b1", MICA_E_FORMAT, "whole numbers"},
    {"j'{" T("a", "U8", "[1]", -1, 0) "}' b1", MICA_E_FORMAT, "whole numbers"},
    {"j'{" T("a", "U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1]", 0, 1) "}' b1", MICA_E_FORMAT, "than 12"},
    {"j'{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}' b1", MICA_E_FORMAT,
     "two numbers"},
    {"j'{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}' b1", MICA_E_FORMAT,
     "two numbers"},
    {"j'{" T("a", "U8", "[2]", 0, 1) "}' b1", MICA_E_FORMAT, "do not span the 2 bytes"},
    {"j'{" T("a", "U8", "[0]", 1, 0) "}' b1", MICA_E_FORMAT, "[1, 0] do not span"},
    {"j'{" T("a", "F64", "[1152921504606846976]", 0, 0) "}'", MICA_E_FORMAT, "2^63"}, /* wraps */
    {"j'{" T("a", "U8", "[4294967296,4294967296]", 0, 0) "}'", MICA_E_FORMAT, "2^63"},
    {"j'{" T("a", "U8", "[2]", 0, 2) "}' b1", MICA_E_FORMAT, "ends at byte 2 of the data"},
    {"j'{" T("a", "U8", "[9223372036854775807]", 0, 9223372036854775807) "}' b1", MICA_E_FORMAT,
     "ends at byte 9223372036854775807"},
    {"j'{" T("a", "U8", "[1]", 0, 1) "}' b1 b2", MICA_E_FORMAT, "last 1 bytes"},
    {"j'{}' b1", MICA_E_FORMAT, "last 1 bytes"},
    {"j'{" T("a", "U8", "[1]", 1, 2) "}' b1 b2", MICA_E_FORMAT, "a hole"},
    {"j'{" T("a", "U8", "[1]", 0, 1) "," T("b", "U8", "[1]", 2, 3) "}' z3", MICA_E_FORMAT,
     "a hole"},
    {"j'{" T("a", "U8", "[2]", 0, 2) "," T("b", "U8", "[2]", 1, 3) "}' z3", MICA_E_FORMAT,
     "they overlap"},
    {"j'{" T("a", "U8", "[2]", 0, 2) "," T("b", "U8", "[2]", 0, 2) "}' z2", MICA_E_FORMAT,
     "they overlap"},
    {"j'{" T("a", "U8", "[2]", 0, 2) "," T("b", "U8", "[0]", 1, 1) "}' z2", MICA_E_FORMAT,
     "they overlap"},
    {"j'{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}' z2", MICA_E_FORMAT,
     "\"a\" occurs twice"},
    {"j'{" T("a", "U8", "[1]", 0, 1) "," T("\\u0061", "U8", "[1]", 1, 2) "}' z2", MICA_E_FORMAT,
     "\"a\" occurs twice"},
    {"j'{" T("a\\u0000b", "U8", "[1]", 0, 1) "}' b1", MICA_E_FORMAT, "NUL"},
    {"j'{\"__metadata__\":{\"a\":1}}'", MICA_E_FORMAT, "a number where none belongs"},
    {"j'{\"__metadata__\":{\"a\":{}}}'", MICA_E_FORMAT, "an object where none belongs"},
    {"j'{\"__metadata__\":\"a\"}'", MICA_E_FORMAT, "a string where none belongs"},
    {"j'{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}'", MICA_E_FORMAT, "\"a\" occurs twice"},
    {"j'{\"__metadata__\":{},\"__metadata__\":{}}'", MICA_E_FORMAT, "__metadata__ occurs twice"},
    {"j'{\"a\":{\"shape\":[[[[[[[[[[[[]]]]]]]]]]]]}}'", MICA_E_FORMAT, "a list where none"},
};

static void broken_files_are_refused_by_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        mica__safetensors *file = (mica__safetensors *)1;
        uint8_t *bytes;
        const mica_status status = open_source(refused[i].source, &file, &bytes);
        if (status != refused[i].status || !strstr(mica_last_error(), refused[i].message))
            fail_msg("case %zu (%s): %s, \"%s\"", i, refused[i].message, mica_status_name(status),
                     mica_last_error());
        assert_null(file);
        free(bytes);
    }
}

static void a_part_that_fails_holds_nothing(void **state)
{
    (void)state;
    static assembled out;
    mica__st_part part;
    assemble("j'{\"a\":{}}'", &out);
    assert_status(mica__st_part_parse(out.bytes, (int64_t)out.n, &part), MICA_E_FORMAT);
    assert_null(part.tensors);
    assert_null(part.strings.bytes);
    assemble(SMALL, &out);
    assert_ok(mica__st_part_parse(out.bytes, (int64_t)out.n, &part));
    assert_int_equal(part.n_tensors, 2);
    mica__st_part_free(&part);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    static assembled whole;
    assemble(SMALL, &whole);
    for (size_t n = 0; n <= whole.n; n++) {
        uint8_t *bytes = exact_copy(whole.bytes, n);
        mica__safetensors *file;
        assert_status(mica__safetensors_open_memory(bytes, n, &file),
                      n < whole.n ? MICA_E_FORMAT : MICA_OK);
        mica__safetensors_close(file);
        free(bytes);
    }
}

static void every_flipped_byte_is_survived(void **state)
{
    (void)state;
    static assembled whole;
    assemble(SMALL, &whole);
    for (size_t i = 0; i < whole.n; i++)
        for (int flip = 1; flip < 256; flip *= 2) {
            uint8_t *bytes = exact_copy(whole.bytes, whole.n);
            bytes[i] ^= (uint8_t)flip;
            mica__safetensors *file;
            if (mica__safetensors_open_memory(bytes, whole.n, &file) == MICA_OK)
                for (int64_t t = 0; t < mica__safetensors_n_tensors(file); t++) {
                    const mica__st_tensor *tensor = mica__safetensors_tensor_at(file, t);
                    volatile uint8_t last = tensor->bytes ? tensor->data[tensor->bytes - 1] : 0;
                    (void)last;
                }
            mica__safetensors_close(file);
            free(bytes);
        }
}

static void many_tensors_in_any_order_take_no_quadratic_time(void **state)
{
    (void)state;
    enum { N = 50000 };
    mica__text header = {.kind = MICA_MEMORY_OTHER};
    mica__text_add_char(&header, '{');
    for (int i = 0; i < N; i++) {
        const int at = (int)((int64_t)i * 7919 % N);
        mica__text_format(
            &header, "%s\"layer.%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
            i ? "," : "", i, at, at + 1);
    }
    assert_ok(mica__text_add_char(&header, '}'));
    const size_t n = 8 + (size_t)header.length + N;
    uint8_t *bytes = calloc(n, 1);
    assert_non_null(bytes);
    mica__store_u64(bytes, (uint64_t)header.length);
    memcpy(bytes + 8, header.bytes, (size_t)header.length);
    mica__safetensors *file;
    assert_ok(mica__safetensors_open_memory(bytes, n, &file));
    const mica__st_tensor *tensor = mica__safetensors_find(file, "layer.3");
    assert_int_equal(tensor->offset, 8 + header.length + 3 * 7919);
    mica__safetensors_close(file);
    mica__text_free(&header);
    free(bytes);
}

/* --- sharded ---------------------------------------------------------------------------------- */

static const char *put(const char *name, const char *source)
{
    static assembled out;
    assemble(source, &out);
    return temp_write(dir, name, out.bytes, out.n);
}

static mica_status open_index(const char *text, mica__safetensors **file)
{
    temp_write_text(dir, "model.safetensors.index.json", text);
    return mica__safetensors_open(temp_path(dir, "model.safetensors.index.json"), true, file);
}

#define MAP(entries) "{\"metadata\":{\"total_size\":2},\"weight_map\":{" entries "}}"

static void a_sharded_model_is_one_set_of_tensors(void **state)
{
    (void)state;
    put("m-1.safetensors",
        "j'{" T("a", "U8", "[1]", 0, 1) "," T("c", "U8", "[1]", 1, 2) "}' b1 b3");
    put("m-2.safetensors", "j'{" T("b", "U8", "[1]", 0, 1) "}' b2");
    mica__safetensors *file;
    assert_ok(open_index(MAP("\"b\":\"m-2.safetensors\",\"a\":\"m-1.safetensors\","
                             "\"c\":\"m-1.safetensors\""),
                         &file));
    assert_int_equal(mica__safetensors_n_shards(file), 2);
    assert_int_equal(mica__safetensors_n_tensors(file), 3);
    assert_int_equal(mica__safetensors_find(file, "a")->data[0], 1);
    assert_int_equal(mica__safetensors_find(file, "b")->data[0], 2);
    assert_int_equal(mica__safetensors_find(file, "c")->data[0], 3);
    const mica__st_tensor *b = mica__safetensors_find(file, "b");
    assert_non_null(strstr(mica__safetensors_path(file, b->shard), "m-2.safetensors"));
    assert_null(mica__safetensors_find(file, "d"));
    mica__safetensors_close(file);
}

static void indices_that_are_wrong_are_refused(void **state)
{
    (void)state;
    put("m-1.safetensors", "j'{" T("a", "U8", "[1]", 0, 1) "}' b1");
    put("m-2.safetensors", "j'{" T("b", "U8", "[1]", 0, 1) "," T("c", "U8", "[1]", 1, 2) "}' z2");
    put("m-3.safetensors", "j'{" T("a", "U8", "[1]", 0, 1) "}' b9");
    put("sub/m-4.safetensors", "j'{" T("a", "U8", "[1]", 0, 1) "}' b9");
    static const struct {
        const char *text;
        mica_status status;
        const char *message;
    } wrong[] = {
        {"", MICA_E_FORMAT, "model.safetensors.index.json"},
        {"[]", MICA_E_FORMAT, "no object \"weight_map\""},
        {"{\"weight_map\":[]}", MICA_E_FORMAT, "no object \"weight_map\""},
        {MAP(""), MICA_E_FORMAT, "names 0 files"},
        {MAP("\"a\":1"), MICA_E_FORMAT, "only plain file names"},
        {MAP("\"a\":\"\""), MICA_E_FORMAT, "only plain file names"},
        {MAP("\"a\":\"m-1.bin\""), MICA_E_FORMAT, "only plain file names"},
        {MAP("\"a\":\"sub/m-4.safetensors\""), MICA_E_FORMAT, "only plain file names"},
        {MAP("\"a\":\"../m-1.safetensors\""), MICA_E_FORMAT, "only plain file names"},
        {MAP("\"a\":\"/etc/m-1.safetensors\""), MICA_E_FORMAT, "only plain file names"},
        {MAP("\"a\":\"..\\\\m-1.safetensors\""), MICA_E_FORMAT, "only plain file names"},
        {MAP("\"a\":\"m-1.safetensors\\u0000.safetensors\""), MICA_E_FORMAT, "only plain file"},
        {MAP("\"a\":\".safetensors\""), MICA_E_FORMAT, "only plain file names"},
        {MAP("\"a\":\"m-1.safetensors\",\"a\":\"m-1.safetensors\""), MICA_E_FORMAT, "\"a\""},
        {MAP("\"a\":\"m-9.safetensors\""), MICA_E_NOT_FOUND, "m-9.safetensors"},
        {MAP("\"z\":\"m-1.safetensors\""), MICA_E_FORMAT, "\"z\" is not in m-1.safetensors"},
        {MAP("\"a\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"c\":\"m-2.safetensors\""),
         MICA_E_FORMAT, "\"b\" is not in m-1.safetensors"},
        {MAP("\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\""), MICA_E_FORMAT, "\"c\" of "},
        {MAP("\"a\":\"m-1.safetensors\",\"x\":\"m-3.safetensors\""), MICA_E_FORMAT,
         "in more than one file"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mica__safetensors *file;
        const mica_status status = open_index(wrong[i].text, &file);
        if (status != wrong[i].status || !strstr(mica_last_error(), wrong[i].message))
            fail_msg("case %zu (%s): %s, \"%s\"", i, wrong[i].message, mica_status_name(status),
                     mica_last_error());
        assert_null(file);
    }
    /* A symbolic link to a plain file is how caches of models are laid out, and stays allowed. */
    assert_int_equal(symlink("sub/m-4.safetensors", temp_path(dir, "m-5.safetensors")), 0);
    mica__safetensors *file;
    assert_ok(open_index(MAP("\"a\":\"m-5.safetensors\""), &file));
    mica__safetensors_close(file);
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    put("m-1.safetensors", SMALL);
    put("m-2.safetensors", "j'{" T("c", "U8", "[1]", 0, 1) "}' b2");
    temp_write_text(dir, "model.safetensors.index.json",
                    MAP("\"a\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\","
                        "\"c\":\"m-2.safetensors\""));
    mica_memory_usage before, after;
    mica_memory_read(&before);
    for (int use_map = 0; use_map < 2; use_map++) {
        int64_t n = 1;
        for (;; n++) {
            mica__safetensors *file;
            mica__fault_after(n, false);
            const mica_status status = mica__safetensors_open(
                temp_path(dir, "model.safetensors.index.json"), use_map, &file);
            mica__fault_after(0, false);
            mica__safetensors_close(file);
            mica_memory_read(&after);
            assert_int_equal(after.active, before.active);
            assert_int_equal(after.mapped, before.mapped);
            if (status == MICA_OK)
                break;
            assert_int_equal(status, MICA_E_MEMORY);
            assert_null(file);
        }
        assert_true(n > 20);
    }
}

/* --- files made by others --------------------------------------------------------------------- */

static const mica__st_tensor *first_of(const char *relative, mica__safetensors **file)
{
    assert_ok(mica__safetensors_open(shared_path(relative), true, file));
    return mica__safetensors_tensor_at(*file, 0);
}

static void outside_files_open_with_their_values_or_are_refused(void **state)
{
    (void)state;
    if (!shared_path("data/weights/safetensors"))
        skip();
    mica__safetensors *file;
    assert_status(
        mica__safetensors_open(
            shared_path(
                "data/weights/safetensors/malformed_safetensors_abuse_attempt_1.safetensors"),
            true, &file),
        MICA_E_FORMAT);
    assert_status(
        mica__safetensors_open(
            shared_path("data/weights/safetensors/weight-inspect_tiny.safetensors"), true, &file),
        MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "last 5 bytes"));

    /* Values as numpy and the safetensors package read them. */
    const mica__st_tensor *t =
        first_of("data/weights/safetensors/swift_tensor-1d-int32.safetensors", &file);
    assert_string_equal(t->name, "embedding");
    assert_int_equal(t->type, MICA__ST_I32);
    assert_int_equal(mica__load_u32(t->data + 8), 3);
    mica__safetensors_close(file);
    t = first_of("data/weights/safetensors/swift_tensor-2d-float64.safetensors", &file);
    assert_int_equal(t->type, MICA__ST_F64);
    assert_int_equal(t->shape[1], 3);
    assert_true(mica__load_f64(t->data + 40) == 26.0);
    mica__safetensors_close(file);
    t = first_of("data/weights/safetensors/swift_tensor-3d-float32.safetensors", &file);
    assert_true(mica__load_f32(t->data) == 22.0f && mica__load_f32(t->data + 44) == 3.0f);
    mica__safetensors_close(file);
    t = first_of("data/weights/safetensors/swift_tensor-4d-float32.safetensors", &file);
    assert_int_equal(t->n_dims, 4);
    assert_true(mica__load_f32(t->data) == 11.0f && mica__load_f32(t->data + 68) == 19.0f);
    mica__safetensors_close(file);
    first_of("data/weights/safetensors/mlx-c_arrays.safetensors", &file);
    assert_string_equal(mica__safetensors_metadata(file, "format"), "mlx");
    assert_true(mica__load_f32(mica__safetensors_find(file, "b")->data) == 2.0f);
    mica__safetensors_close(file);
    first_of("data/weights/safetensors/burn_multi_layer.safetensors", &file);
    assert_int_equal(mica__safetensors_n_tensors(file), 9);
    t = mica__safetensors_find(file, "conv1.weight");
    assert_int_equal(t->shape[3], 3);
    assert_true(mica__load_f32(t->data) == 0x1.962b5e0000000p-4f);
    mica__safetensors_close(file);
    first_of("data/weights/safetensors/silero_vad_16k.safetensors", &file);
    assert_int_equal(mica__safetensors_n_tensors(file), 15);
    t = mica__safetensors_find(file, "conv1.weight");
    assert_int_equal(t->shape[1], 129);
    assert_true(mica__load_f32(t->data + t->bytes - 4) == 0x1.c0a3560000000p-7f);
    mica__safetensors_close(file);
}

static void check_load_case(const mica__json *one, const mica__safetensors *golden)
{
    const mica__json *params = mica__json_get(one, "params");
    char relative[256];
    snprintf(relative, sizeof relative, "golden/ops/%s", mica__json_get(params, "file")->string);
    mica__safetensors *file;
    const mica_status status = mica__safetensors_open(shared_path(relative), true, &file);
    if (mica__json_get(one, "error")) {
        assert_int_equal(status, MICA_E_FORMAT);
        return;
    }
    assert_ok(status);
    const mica__json *output = mica__json_get(one, "outputs")->first;
    for (const mica__json *name = mica__json_get(params, "names")->first; name;
         name = name->next, output = output->next) {
        const mica__st_tensor *got = mica__safetensors_find(file, name->string);
        const mica__st_tensor *want = mica__safetensors_find(golden, output->string);
        assert_non_null(got);
        assert_int_equal(mica__st_type_dtype(got->type), mica__st_type_dtype(want->type));
        assert_int_equal(got->n_dims, want->n_dims);
        assert_memory_equal(got->shape, want->shape, sizeof got->shape);
        assert_int_equal(got->bytes, want->bytes);
        assert_memory_equal(got->data, want->data, (size_t)want->bytes);
    }
    const mica__json *metadata = mica__json_get(params, "metadata");
    for (const mica__json *item = metadata ? metadata->first : NULL; item; item = item->next)
        assert_string_equal(mica__safetensors_metadata(file, item->key), item->string);
    mica__safetensors_close(file);
}

static void golden_load_cases_hold(void **state)
{
    (void)state;
    if (!shared_path("golden/ops/io.json"))
        skip();
    mica__json_doc *manifest;
    mica__safetensors *golden;
    assert_ok(mica__json_read(shared_path("golden/ops/io.json"), 1 << 20, &manifest));
    assert_ok(mica__safetensors_open(shared_path("golden/ops/io.safetensors"), true, &golden));
    int n = 0;
    const mica__json *one = mica__json_get(mica__json_root(manifest), "cases")->first;
    for (; one; one = one->next)
        if (strcmp(mica__json_get(mica__json_get(one, "params"), "format")->string,
                   "safetensors") == 0) {
            check_load_case(one, golden);
            n++;
        }
    assert_int_equal(n, 6);
    mica__safetensors_close(golden);
    mica__json_free(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_and_metadata_come_out_as_written),
        cmocka_unit_test(every_type_has_its_size_and_dtype),
        cmocka_unit_test(accepted_odd_ones_open),
        cmocka_unit_test(broken_files_are_refused_by_what_is_wrong),
        cmocka_unit_test(a_part_that_fails_holds_nothing),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_byte_is_survived),
        cmocka_unit_test(many_tensors_in_any_order_take_no_quadratic_time),
        cmocka_unit_test(a_sharded_model_is_one_set_of_tensors),
        cmocka_unit_test(indices_that_are_wrong_are_refused),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
        cmocka_unit_test(outside_files_open_with_their_values_or_are_refused),
        cmocka_unit_test(golden_load_cases_hold),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
