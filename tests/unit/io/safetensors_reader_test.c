/* safetensors_reader_test.c - a file read in pieces gives what the file holds, with only its header
 * in memory.
 * SPDX-License-Identifier: MIT
 */
#include "unit/io/assemble.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "io/safetensors_reader.h"
#include "support/temp_dir.h"

/* "a" is U8 [3] before "b", F32 [1, 2]. */
#define SMALL                                                                                      \
    "j'{\"__metadata__\":{\"x\":\"y\"},"                                                           \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[3,11]},"                           \
    "\"a\":{\"data_offsets\":[0,3],\"shape\":[3],\"dtype\":\"U8\"}} ' "                            \
    "b1 b2 b3 w0x3f800000 w0x40000000"

static int set_up(void **state)
{
    *state = temp_dir_new();
    return 0;
}

static int tear_down(void **state)
{
    temp_dir_remove(*state);
    return 0;
}

static const char *write_small(const char *dir, size_t n_missing)
{
    static assembled out;
    assemble(SMALL, &out);
    return temp_write(dir, "small.safetensors", out.bytes, out.n - n_missing);
}

static void tensors_are_read_where_they_stand(void **state)
{
    mica__st_reader *reader;
    float values[2];
    uint8_t bytes[2];
    assert_ok(mica__st_reader_open(write_small(*state, 0), 4096, &reader));
    assert_int_equal(mica__st_reader_n_tensors(reader), 2);
    assert_string_equal(mica__st_reader_metadata(reader, "x"), "y");
    assert_null(mica__st_reader_metadata(reader, "y"));
    assert_null(mica__st_reader_find(reader, "c"));
    const mica__st_tensor *a = mica__st_reader_find(reader, "a");
    const mica__st_tensor *b = mica__st_reader_find(reader, "b");
    assert_int_equal(b->shape[1], 2);
    assert_null(b->data);
    assert_ok(mica__st_reader_read(reader, b, 0, values, 8));
    assert_true(values[0] == 1 && values[1] == 2);
    assert_ok(mica__st_reader_read(reader, a, 1, bytes, 2));
    assert_int_equal(bytes[0], 2);
    assert_int_equal(bytes[1], 3);
    assert_ok(mica__st_reader_read(reader, a, 3, bytes, 0));
    assert_status(mica__st_reader_read(reader, a, 2, bytes, 2), MICA_E_ARGUMENT);
    assert_status(mica__st_reader_read(reader, a, -1, bytes, 1), MICA_E_ARGUMENT);
    assert_status(mica__st_reader_read(reader, a, 0, bytes, -1), MICA_E_ARGUMENT);
    mica__st_reader_close(reader);
    mica__st_reader_close(NULL);
}

static void what_is_no_whole_file_is_refused(void **state)
{
    mica__st_reader *reader;
    static assembled out;
    assemble(SMALL, &out);
    for (size_t missing = 1; missing <= out.n; missing++) {
        assert_status(mica__st_reader_open(write_small(*state, missing), 4096, &reader),
                      MICA_E_FORMAT);
        assert_null(reader);
    }
    assert_status(mica__st_reader_open(write_small(*state, 0), 32, &reader), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "at most 32"));
    assert_status(mica__st_reader_open(temp_path(*state, "none"), 4096, &reader), MICA_E_NOT_FOUND);
    assert_status(mica__st_reader_open(*state, 4096, &reader), MICA_E_IO);
}

static void refused_memory_leaks_nothing(void **state)
{
    mica__st_reader *reader = NULL;
    mica_memory_usage before, after;
    char path[4096];
    snprintf(path, sizeof path, "%s", write_small(*state, 0));
    mica_memory_read(&before);
    for (int64_t n = 1; !reader; n++) {
        mica__fault_after(n, false);
        const mica_status status = mica__st_reader_open(path, 4096, &reader);
        mica__fault_after(0, false);
        mica_memory_read(&after);
        assert_true(status == MICA_OK || status == MICA_E_MEMORY);
        assert_true(status == MICA_OK || after.active == before.active);
    }
    mica__st_reader_close(reader);
    mica_memory_read(&after);
    assert_int_equal(after.active, before.active);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_are_read_where_they_stand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_whole_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_memory_leaks_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
