/* model_file_test.c - model files looked into through the public header, and tensors written.
 * SPDX-License-Identifier: MIT
 */
#include "unit/io/assemble.h"

#include <math.h>

#include <mica/io.h>

#include "base/alloc.h"
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

/* Two blocks of Q8_0: scale 1 (0x3c00) with codes 1, 2, 0...; scale 2 (0x4000) with code -1 at its
 * end. Then F16 1 and an infinity. Keys of most types. */
#define HEAD                                                                                       \
    "'GGUF' w3 q2 q6 \"k.u64\" w10 q0xffffffffffffffff \"k.f64\" w12 q0x3ff8000000000000 "         \
    "\"k.yes\" w7 b1 \"k.words\" w9 w8 q2 \"ab\" \"\" \"k.list\" w9 w0 q3 b1 b2 b255 "             \
    "\"k.name\" w8 \"x\" "                                                                         \
    "\"q\" w2 q32 q2 w8 q0 \"h\" w1 q2 w1 q96 p32 "
#define BLOCKS "h0x3c00 b1 b2 z30 h0x4000 z31 b0xff p32 "
#define HALVES "h0x3c00 h0x7c00"

static const char *write_sample(void)
{
    static assembled file;
    assemble(HEAD BLOCKS HALVES, &file);
    return temp_write(dir, "sample.gguf", file.bytes, file.n);
}

static void keys_are_listed_with_their_types(void **state)
{
    (void)state;
    mica_file *file;
    assert_ok(mica_file_open(write_sample(), false, &file));
    assert_string_equal(mica_file_format(file), "GGUF");
    assert_int_equal(mica_file_version(file), 3);
    assert_int_equal(mica_file_n_parts(file), 1);
    assert_null(mica_file_part(file, 1));
    assert_int_equal(mica_file_n_keys(file), 6);
    const mica_file_key list = mica_file_key_at(file, 4);
    assert_memory_equal(list.name, "k.list", 6);
    assert_string_equal(list.type, "u8");
    assert_true(list.is_array && list.n == 3 && list.kind == MICA_FILE_INTEGER);
    assert_int_equal(mica_file_find_key(file, "k.words"), 3);
    assert_int_equal(mica_file_find_key(file, "k.word"), -1);
    mica_file_close(file);
}

static void values_come_with_their_kinds(void **state)
{
    (void)state;
    mica_file *file;
    mica_file_value values[3];
    assert_ok(mica_file_open(write_sample(), true, &file));
    assert_ok(mica_file_read_key(file, 0, 0, 1, values));
    assert_true(values[0].kind == MICA_FILE_REAL && values[0].real == 18446744073709551615.0);
    assert_ok(mica_file_read_key(file, 1, 0, 1, values));
    assert_true(values[0].kind == MICA_FILE_REAL && values[0].real == 1.5);
    assert_ok(mica_file_read_key(file, 2, 0, 1, values));
    assert_true(values[0].kind == MICA_FILE_BOOL && values[0].integer == 1);
    assert_ok(mica_file_read_key(file, 3, 0, 2, values));
    assert_memory_equal(values[0].string, "ab", 2);
    assert_true(values[0].length == 2 && values[1].length == 0);
    assert_ok(mica_file_read_key(file, 3, 1, 1, values));
    assert_int_equal(values[0].length, 0);
    assert_ok(mica_file_read_key(file, 4, 1, 2, values));
    assert_true(values[0].integer == 2 && values[1].integer == 255 && values[1].real == 255);
    assert_ok(mica_file_read_key(file, 4, 3, 0, values));
    assert_status(mica_file_read_key(file, 4, 3, 1, values), MICA_E_ARGUMENT);
    assert_status(mica_file_read_key(file, 4, -1, 1, values), MICA_E_ARGUMENT);
    assert_status(mica_file_read_key(file, 4, INT64_MAX, 1, values), MICA_E_ARGUMENT);
    assert_status(mica_file_read_key(file, 6, 0, 1, values), MICA_E_ARGUMENT);
    mica_file_close(file);
}

static void tensors_are_dequantised_from_any_place(void **state)
{
    (void)state;
    mica_file *file;
    double values[64];
    assert_ok(mica_file_open(write_sample(), false, &file));
    assert_int_equal(mica_file_n_tensors(file), 2);
    const mica_file_tensor q = mica_file_tensor_at(file, 0);
    assert_string_equal(q.type, "Q8_0");
    assert_true(q.n_dims == 2 && q.shape[0] == 2 && q.shape[1] == 32 && q.n_values == 64);
    assert_int_equal(q.bytes, 68);
    assert_int_equal(mica_file_find_tensor(file, "h"), 1);
    assert_int_equal(mica_file_find_tensor(file, "x"), -1);
    assert_ok(mica_file_read_tensor(file, 0, 0, 64, values));
    for (int i = 0; i < 64; i++)
        assert_true(values[i] == (i == 0 ? 1 : i == 1 ? 2 : i == 63 ? -2 : 0));
    assert_ok(mica_file_read_tensor(file, 0, 1, 1, values));
    assert_true(values[0] == 2);
    assert_ok(mica_file_read_tensor(file, 0, 31, 33, values));
    assert_true(values[32] == -2);
    assert_ok(mica_file_read_tensor(file, 0, 64, 0, values));
    assert_status(mica_file_read_tensor(file, 0, 63, 2, values), MICA_E_ARGUMENT);
    assert_status(mica_file_read_tensor(file, 2, 0, 1, values), MICA_E_ARGUMENT);
    assert_ok(mica_file_read_tensor(file, 1, 0, 2, values));
    assert_true(values[0] == 1 && isinf(values[1]));
    mica_file_close(file);
}

static void scales_and_floats_are_checked(void **state)
{
    (void)state;
    static assembled bytes;
    mica_file *file;
    assert_ok(mica_file_open(write_sample(), false, &file));
    assert_ok(mica_file_check_tensor(file, 0));
    assert_status(mica_file_check_tensor(file, 1), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "tensor h: value 1 is infinite"));
    mica_file_close(file);
    assemble(HEAD "h0x3c00 z32 h0x7e00 z32 p32 " HALVES, &bytes);
    assert_ok(mica_file_open(temp_write(dir, "bad.gguf", bytes.bytes, bytes.n), false, &file));
    assert_status(mica_file_check_tensor(file, 0), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "tensor q: block 1"));
    mica_file_close(file);
}

static void every_element_type_of_safetensors_is_read(void **state)
{
    (void)state;
    static assembled bytes;
    static const struct {
        const char *type, *data;
        double value;
    } cases[] = {{"BOOL", "b1", 1},
                 {"U8", "b200", 200},
                 {"I8", "b200", -56},
                 {"U16", "h65535", 65535},
                 {"I16", "h65535", -1},
                 {"U32", "w0xffffffff", 4294967295.0},
                 {"I32", "w0xffffffff", -1},
                 {"U64", "q3", 3},
                 {"I64", "q-3", -3},
                 {"F16", "h0xc000", -2},
                 {"BF16", "h0x3fc0", 1.5},
                 {"F32", "w0x40490fdb", 3.1415927410125732},
                 {"F64", "q0x400921fb54442d18", 3.141592653589793},
                 {"F8_E4M3", "b0x38", 1},
                 {"F8_E5M2", "b0x3c", 1},
                 {"F8_E8M0", "b0x80", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[512];
        int n_bytes = 8;
        n_bytes = cases[i].data[0] == 'b' ? 1 : cases[i].data[0] == 'h' ? 2 : n_bytes;
        n_bytes = cases[i].data[0] == 'w' ? 4 : n_bytes;
        snprintf(source, sizeof source,
                 "j'{\"x\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,%d]}}' %s",
                 cases[i].type, n_bytes, cases[i].data);
        assemble(source, &bytes);
        mica_file *file;
        double value = 0;
        assert_ok(
            mica_file_open(temp_write(dir, "one.safetensors", bytes.bytes, bytes.n), false, &file));
        assert_ok(mica_file_read_tensor(file, 0, 0, 1, &value));
        if (value != cases[i].value)
            fail_msg("%s is %.17g, not %.17g", cases[i].type, value, cases[i].value);
        assert_ok(mica_file_check_tensor(file, 0));
        mica_file_close(file);
    }
    assemble("j'{\"x\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}' q0", &bytes);
    mica_file *file;
    double value;
    assert_ok(mica_file_open(temp_write(dir, "c.safetensors", bytes.bytes, bytes.n), false, &file));
    assert_status(mica_file_read_tensor(file, 0, 0, 1, &value), MICA_E_UNSUPPORTED);
    mica_file_close(file);
}

/* --- writing ---------------------------------------------------------------------------------- */

static mica_status write_file(const char *path)
{
    mica_tensor_writer *writer;
    const float values[3] = {1, -2, 3};
    const int64_t shape[2] = {1, 3};
    MICA_TRY(mica_tensor_writer_open(path, &writer));
    mica_status status = mica_tensor_writer_metadata(writer, "format", "mica");
    if (status == MICA_OK)
        status = mica_tensor_writer_declare(writer, "x", MICA_F32, 2, shape);
    if (status == MICA_OK)
        status = mica_tensor_writer_declare(writer, "y", MICA_U8, 1, shape);
    if (status == MICA_OK)
        status = mica_tensor_writer_write(writer, values, 8);
    if (status == MICA_OK)
        status = mica_tensor_writer_write(writer, values + 2, 4);
    if (status == MICA_OK)
        status = mica_tensor_writer_write(writer, "\7", 1);
    if (status == MICA_OK)
        return mica_tensor_writer_finish(writer);
    mica_tensor_writer_discard(writer);
    return status;
}

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    const char *path = temp_path(dir, "written.safetensors");
    mica_file *file;
    double values[3];
    mica_file_value value;
    assert_ok(write_file(path));
    assert_ok(mica_file_open(path, false, &file));
    assert_string_equal(mica_file_format(file), "safetensors");
    assert_int_equal(mica_file_version(file), 0);
    assert_ok(mica_file_read_key(file, mica_file_find_key(file, "format"), 0, 1, &value));
    assert_memory_equal(value.string, "mica", 4);
    assert_ok(mica_file_read_tensor(file, mica_file_find_tensor(file, "x"), 0, 3, values));
    assert_true(values[0] == 1 && values[1] == -2 && values[2] == 3);
    const mica_file_tensor y = mica_file_tensor_at(file, mica_file_find_tensor(file, "y"));
    assert_string_equal(y.type, "U8");
    mica_file_close(file);
}

static void a_dtype_outside_the_list_is_refused(void **state)
{
    (void)state;
    mica_tensor_writer *writer;
    const int64_t shape[1] = {1};
    assert_ok(mica_tensor_writer_open(temp_path(dir, "none.safetensors"), &writer));
    assert_status(mica_tensor_writer_declare(writer, "x", MICA_N_DTYPES, 1, shape),
                  MICA_E_ARGUMENT);
    mica_tensor_writer_discard(writer);
    assert_status(mica_tensor_writer_open(NULL, &writer), MICA_E_ARGUMENT);
    assert_null(writer);
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    mica_memory_usage before, after;
    char path[4096];
    snprintf(path, sizeof path, "%s", write_sample());
    mica_memory_read(&before);
    for (int64_t n = 1;; n++) {
        mica_file *file;
        mica__fault_after(n, false);
        const mica_status status = mica_file_open(path, false, &file);
        mica__fault_after(0, false);
        if (status == MICA_OK) {
            mica_file_close(file);
            break;
        }
        assert_null(file);
        mica_memory_read(&after);
        assert_int_equal(after.active, before.active);
    }
    mica_memory_read(&after);
    assert_int_equal(after.active, before.active);
    assert_int_equal(after.mapped, before.mapped);
    mica_file_close(NULL);
    mica_tensor_writer_discard(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_listed_with_their_types),
        cmocka_unit_test(values_come_with_their_kinds),
        cmocka_unit_test(tensors_are_dequantised_from_any_place),
        cmocka_unit_test(scales_and_floats_are_checked),
        cmocka_unit_test(every_element_type_of_safetensors_is_read),
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(a_dtype_outside_the_list_is_refused),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
