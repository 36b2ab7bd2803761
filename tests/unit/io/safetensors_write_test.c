/* safetensors_write_test.c - what the safetensors writer writes, byte by byte, and what it refuses.
 * SPDX-License-Identifier: MIT
 */
#include "unit/io/assemble.h"

#include <unistd.h>

#include "base/alloc.h"
#include "io/safetensors_write.h"
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

static mica_status write_sample(const char *path)
{
    mica__st_writer *w;
    const uint8_t data[7] = {1, 2, 3, 0, 0, 0x80, 0x3f};
    mica_status status = MICA_OK;
    MICA_TRY(mica__st_writer_open(path, &w));
    MICA_TRY_OUT(mica__st_put_metadata(w, "format", "pt"));
    MICA_TRY_OUT(mica__st_put_metadata(w, "quote", "\""));
    MICA_TRY_OUT(mica__st_declare(w, "a", MICA__ST_U8, 1, (const int64_t[]){3}));
    MICA_TRY_OUT(mica__st_declare(w, "e", MICA__ST_F32, 2, (const int64_t[]){0, 4}));
    MICA_TRY_OUT(mica__st_declare(w, "s", MICA__ST_F32, 0, NULL));
    MICA_TRY_OUT(mica__st_write(w, data, 5)); /* pieces need not respect tensors */
    MICA_TRY_OUT(mica__st_write(w, data + 5, 2));
    return mica__st_writer_finish(w);
out:
    mica__st_writer_discard(w);
    return status;
}

static void assert_file_is(const char *path, const char *source)
{
    static assembled expected;
    static uint8_t bytes[ASSEMBLED_MAX];
    assemble(source, &expected);
    const size_t n = read_file(path, bytes, sizeof bytes);
    for (size_t i = 0; i < n && i < expected.n; i++)
        if (bytes[i] != expected.bytes[i])
            fail_msg("byte %zu is %02x, not %02x", i, bytes[i], expected.bytes[i]);
    assert_int_equal(n, expected.n);
}

static void the_bytes_are_those_assembled_by_hand(void **state)
{
    (void)state;
    const char *path = temp_path(dir, "written.safetensors");
    assert_ok(write_sample(path));
    /* 212 characters of header, padded to 216. */
    assert_file_is(path, "j'{\"__metadata__\":{\"format\":\"pt\",\"quote\":\"\\\"\"},"
                         "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                         "\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[3,3]},"
                         "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[3,7]}}    ' "
                         "b1 b2 b3 w0x3f800000");
    mica__safetensors *file;
    assert_ok(mica__safetensors_open(path, true, &file));
    assert_string_equal(mica__safetensors_metadata(file, "quote"), "\"");
    assert_int_equal(mica__safetensors_find(file, "e")->shape[1], 4);
    mica__safetensors_close(file);
    unlink(path);
}

static void files_without_tensors_or_metadata_are_valid(void **state)
{
    (void)state;
    const char *path = temp_path(dir, "empty.safetensors");
    mica__st_writer *w;
    assert_ok(mica__st_writer_open(path, &w));
    assert_ok(mica__st_writer_finish(w));
    assert_file_is(path, "j'{}      '");
    assert_ok(mica__st_writer_open(path, &w));
    assert_ok(mica__st_put_metadata(w, "k", "v"));
    assert_ok(mica__st_writer_finish(w));
    assert_file_is(path, "j'{\"__metadata__\":{\"k\":\"v\"}}      '");
    assert_ok(mica__st_writer_open(path, &w));
    assert_ok(mica__st_declare(w, "t", MICA__ST_U8, 1, (const int64_t[]){0}));
    assert_ok(mica__st_writer_finish(w));
    assert_file_is(path, "j'{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}   '");
    unlink(path);
}

static void what_the_reader_would_refuse_is_not_written(void **state)
{
    (void)state;
    const char *path = temp_path(dir, "x.safetensors");
    const int64_t shape[13] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t negative[1] = {-1}, huge[2] = {1LL << 40, 1LL << 40};
    mica__st_writer *w;
    assert_ok(mica__st_writer_open(path, &w));
    assert_status(mica__st_declare(w, "__metadata__", MICA__ST_U8, 1, shape), MICA_E_ARGUMENT);
    assert_status(mica__st_declare(w, "t", MICA__ST_U8, 13, shape), MICA_E_ARGUMENT);
    assert_status(mica__st_declare(w, "t", MICA__ST_U8, 1, negative), MICA_E_ARGUMENT);
    assert_status(mica__st_declare(w, "t", MICA__ST_U8, 2, huge), MICA_E_ARGUMENT);
    mica__st_writer_discard(w);
    assert_ok(mica__st_writer_open(path, &w));
    assert_status(mica__st_declare(w, "\xff", MICA__ST_U8, 1, shape), MICA_E_ARGUMENT);
    mica__st_writer_discard(w);
    assert_ok(mica__st_writer_open(path, &w));
    assert_ok(mica__st_declare(w, "t", MICA__ST_U8, 1, shape));
    assert_status(mica__st_put_metadata(w, "k", "v"), MICA_E_STATE);
    assert_ok(mica__st_declare(w, "t", MICA__ST_U8, 1, shape));
    assert_status(mica__st_write(w, "ab", 2), MICA_E_ARGUMENT); /* the name twice */
    mica__st_writer_discard(w);
    assert_ok(mica__st_writer_open(path, &w));
    assert_ok(mica__st_put_metadata(w, "k", "v"));
    assert_ok(mica__st_put_metadata(w, "k", "v"));
    assert_status(mica__st_writer_finish(w), MICA_E_ARGUMENT);
    assert_ok(mica__st_writer_open(path, &w));
    assert_ok(mica__st_declare(w, "t", MICA__ST_U8, 1, shape));
    assert_status(mica__st_write(w, "ab", 2), MICA_E_STATE);
    assert_status(mica__st_declare(w, "u", MICA__ST_U8, 1, shape), MICA_E_STATE);
    assert_status(mica__st_writer_finish(w), MICA_E_STATE); /* the byte is missing */
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(temp_dir_entries(dir), 0);
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    mica_memory_usage before, after;
    mica_memory_read(&before);
    int64_t n = 1;
    for (;; n++) {
        mica__fault_after(n, false);
        const mica_status status = write_sample(temp_path(dir, "fault.safetensors"));
        mica__fault_after(0, false);
        mica_memory_read(&after);
        assert_int_equal(after.active, before.active);
        if (status == MICA_OK)
            break;
        assert_int_equal(status, MICA_E_MEMORY);
        assert_int_equal(temp_dir_entries(dir), 0);
    }
    assert_true(n > 5);
    unlink(temp_path(dir, "fault.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_assembled_by_hand),
        cmocka_unit_test(files_without_tensors_or_metadata_are_valid),
        cmocka_unit_test(what_the_reader_would_refuse_is_not_written),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
