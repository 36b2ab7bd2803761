/* gguf_write_test.c - what the GGUF writer writes, byte by byte, and what it refuses.
 * SPDX-License-Identifier: MIT
 */
#include "unit/io/assemble.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/gguf_write.h"
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

/* Every key type, a tensor of 2 x 3 floats and one Q8_0 row. */
static mica_status write_sample(const char *path, int64_t alignment)
{
    mica__gguf_writer *w;
    MICA_TRY(mica__gguf_writer_open(path, alignment, &w));
    const mica__gguf_string words[2] = {{"a", 1}, {"", 0}};
    const int16_t numbers[3] = {1, -2, 300};
    const uint8_t truths[2] = {1, 0};
    const float floats[6] = {1, 2, 3, 4, 5, 6};
    const uint8_t block[34] = {0x00, 0x3c, 1, 2, 3};
    mica_status status = MICA_OK;
    MICA_TRY_OUT(mica__gguf_put_string(w, "general.architecture", "llama", 5));
    MICA_TRY_OUT(mica__gguf_put_integer(w, "u8", MICA__GGUF_U8, 200));
    MICA_TRY_OUT(mica__gguf_put_integer(w, "i8", MICA__GGUF_I8, -3));
    MICA_TRY_OUT(mica__gguf_put_integer(w, "u16", MICA__GGUF_U16, 65535));
    MICA_TRY_OUT(mica__gguf_put_integer(w, "i16", MICA__GGUF_I16, -300));
    MICA_TRY_OUT(mica__gguf_put_integer(w, "u32", MICA__GGUF_U32, 4294967295));
    MICA_TRY_OUT(mica__gguf_put_integer(w, "i32", MICA__GGUF_I32, -70000));
    MICA_TRY_OUT(mica__gguf_put_integer(w, "u64", MICA__GGUF_U64, INT64_MAX));
    MICA_TRY_OUT(mica__gguf_put_integer(w, "i64", MICA__GGUF_I64, -5));
    MICA_TRY_OUT(mica__gguf_put_real(w, "f32", MICA__GGUF_F32, 1.5));
    MICA_TRY_OUT(mica__gguf_put_real(w, "f64", MICA__GGUF_F64, 2.5));
    MICA_TRY_OUT(mica__gguf_put_bool(w, "bool", true));
    MICA_TRY_OUT(mica__gguf_put_strings(w, "words", words, 2));
    MICA_TRY_OUT(mica__gguf_put_array(w, "numbers", MICA__GGUF_I16, numbers, 3));
    MICA_TRY_OUT(mica__gguf_put_array(w, "truths", MICA__GGUF_BOOL, truths, 2));
    MICA_TRY_OUT(mica__gguf_declare(w, "a", MICA__F32, 2, (const int64_t[]){2, 3}));
    MICA_TRY_OUT(mica__gguf_declare(w, "b", MICA__Q8_0, 1, (const int64_t[]){32}));
    MICA_TRY_OUT(mica__gguf_write(w, floats, 10)); /* pieces need not respect elements */
    MICA_TRY_OUT(mica__gguf_write(w, (const uint8_t *)floats + 10, 14));
    MICA_TRY_OUT(mica__gguf_write(w, block, 34));
    return mica__gguf_writer_finish(w);
out:
    mica__gguf_writer_discard(w);
    return status;
}

#define SAMPLE_KEYS                                                                                \
    "\"general.architecture\" w8 \"llama\" \"u8\" w0 b200 \"i8\" w1 b-3 \"u16\" w2 h65535 "        \
    "\"i16\" w3 h-300 \"u32\" w4 w4294967295 \"i32\" w5 w-70000 "                                  \
    "\"u64\" w10 q0x7fffffffffffffff \"i64\" w11 q-5 \"f32\" w6 w0x3fc00000 "                      \
    "\"f64\" w12 q0x4004000000000000 \"bool\" w7 b1 \"words\" w9 w8 q2 \"a\" \"\" "                \
    "\"numbers\" w9 w3 q3 h1 h-2 h300 \"truths\" w9 w7 q2 b1 b0 "

#define SAMPLE_FLOATS "w0x3f800000 w0x40000000 w0x40400000 w0x40800000 w0x40a00000 w0x40c00000 "

static void assert_file_is(const char *path, const char *source)
{
    static assembled expected;
    static uint8_t bytes[ASSEMBLED_MAX];
    assemble(source, &expected);
    const size_t n = read_file(path, bytes, sizeof bytes);
    assert_int_equal(n, expected.n);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != expected.bytes[i])
            fail_msg("byte %zu is %02x, not %02x", i, bytes[i], expected.bytes[i]);
}

static void the_bytes_are_those_assembled_by_hand(void **state)
{
    (void)state;
    assert_ok(write_sample(temp_path(dir, "sample.gguf"), 0));
    assert_file_is(temp_path(dir, "sample.gguf"),
                   "'GGUF' w3 q2 q15 " SAMPLE_KEYS
                   "\"a\" w2 q3 q2 w0 q0 \"b\" w1 q32 w8 q32 p32 " SAMPLE_FLOATS
                   "p32 h0x3c00 b1 b2 b3 z29 p32");
    assert_ok(write_sample(temp_path(dir, "sample.gguf"), 128));
    assert_file_is(temp_path(dir, "sample.gguf"),
                   "'GGUF' w3 q2 q16 \"general.alignment\" w4 w128 " SAMPLE_KEYS
                   "\"a\" w2 q3 q2 w0 q0 \"b\" w1 q32 w8 q128 p128 " SAMPLE_FLOATS
                   "p128 h0x3c00 b1 b2 b3 z29 p128");
    assert_ok(write_sample(temp_path(dir, "sample.gguf"), 1));
    assert_file_is(temp_path(dir, "sample.gguf"),
                   "'GGUF' w3 q2 q16 \"general.alignment\" w4 w1 " SAMPLE_KEYS
                   "\"a\" w2 q3 q2 w0 q0 \"b\" w1 q32 w8 q24 " SAMPLE_FLOATS
                   "h0x3c00 b1 b2 b3 z29");
    assert_int_equal(temp_dir_entries(dir), 1); /* no temporary file stays */
}

static void an_empty_file_is_a_header(void **state)
{
    (void)state;
    mica__gguf_writer *w;
    assert_ok(mica__gguf_writer_open(temp_path(dir, "empty.gguf"), 0, &w));
    assert_ok(mica__gguf_writer_finish(w));
    assert_file_is(temp_path(dir, "empty.gguf"), "'GGUF' w3 q0 q0 p32");
    unlink(temp_path(dir, "empty.gguf"));
}

static void what_is_written_reads_back_and_copies_equal(void **state)
{
    (void)state;
    assert_ok(write_sample(temp_path(dir, "sample.gguf"), 0));
    mica__gguf *gguf;
    assert_ok(mica__gguf_open(temp_path(dir, "sample.gguf"), true, &gguf));
    double real;
    assert_ok(mica__gguf_get_f64(gguf, "f64", &real));
    assert_true(real == 2.5);

    mica__gguf_writer *w;
    assert_ok(mica__gguf_writer_open(temp_path(dir, "copy.gguf"), 0, &w));
    for (int64_t i = 0; i < mica__gguf_n_values(gguf); i++)
        assert_ok(mica__gguf_put_value(w, mica__gguf_value_at(gguf, i)));
    char name[64];
    for (int64_t i = 0; i < mica__gguf_n_tensors(gguf); i++) {
        const mica__gguf_tensor *t = mica__gguf_tensor_at(gguf, i);
        snprintf(name, sizeof name, "%.*s", (int)t->name.length, t->name.bytes);
        assert_ok(mica__gguf_declare(w, name, t->format, t->n_dims, t->shape));
    }
    for (int64_t i = 0; i < mica__gguf_n_tensors(gguf); i++) {
        const mica__gguf_tensor *t = mica__gguf_tensor_at(gguf, i);
        assert_ok(mica__gguf_write(w, t->data, t->bytes));
    }
    assert_ok(mica__gguf_writer_finish(w));
    mica__gguf_close(gguf);
    static uint8_t first[ASSEMBLED_MAX], second[ASSEMBLED_MAX];
    const size_t n = read_file(temp_path(dir, "sample.gguf"), first, sizeof first);
    assert_int_equal(read_file(temp_path(dir, "copy.gguf"), second, sizeof second), n);
    assert_memory_equal(first, second, n);
    unlink(temp_path(dir, "copy.gguf"));
}

static void what_the_reader_would_refuse_is_not_written(void **state)
{
    (void)state;
    mica__gguf_writer *w;
    assert_status(mica__gguf_writer_open(temp_path(dir, "x.gguf"), 24, &w), MICA_E_ARGUMENT);
    assert_status(mica__gguf_writer_open(temp_path(dir, "x.gguf"), 1 << 17, &w), MICA_E_ARGUMENT);
    assert_status(mica__gguf_writer_open(temp_path(dir, "no/x.gguf"), 0, &w), MICA_E_NOT_FOUND);
    assert_ok(mica__gguf_writer_open(temp_path(dir, "x.gguf"), 0, &w));
    assert_status(mica__gguf_put_integer(w, "k", MICA__GGUF_U8, 256), MICA_E_ARGUMENT);
    assert_status(mica__gguf_put_integer(w, "k", MICA__GGUF_U64, -1), MICA_E_ARGUMENT);
    assert_status(mica__gguf_put_integer(w, "k", MICA__GGUF_I32, 1LL << 31), MICA_E_ARGUMENT);
    assert_status(mica__gguf_put_integer(w, "k", MICA__GGUF_F32, 1), MICA_E_ARGUMENT);
    assert_status(mica__gguf_put_real(w, "k", MICA__GGUF_F32, 1e39), MICA_E_ARGUMENT);
    assert_status(mica__gguf_put_real(w, "k", MICA__GGUF_I32, 1), MICA_E_ARGUMENT);
    assert_ok(mica__gguf_put_real(w, "infinite", MICA__GGUF_F32, INFINITY));
    assert_status(mica__gguf_put_string(w, "", "v", 1), MICA_E_ARGUMENT);
    assert_status(mica__gguf_put_integer(w, "general.alignment", MICA__GGUF_U32, 32),
                  MICA_E_ARGUMENT);
    assert_status(mica__gguf_put_array(w, "k", MICA__GGUF_STRING, "", 0), MICA_E_ARGUMENT);
    assert_status(mica__gguf_put_array(w, "k", MICA__GGUF_BOOL, "\2", 1), MICA_E_ARGUMENT);
    const int64_t shape[5] = {1, 1, 1, 1, 1}, zero[1] = {0}, odd[1] = {33};
    const int64_t huge[4] = {1LL << 31, 1LL << 31, 1LL << 31, 1};
    assert_status(mica__gguf_declare(w, "", MICA__F32, 1, shape), MICA_E_ARGUMENT);
    assert_status(mica__gguf_declare(w, "t", MICA__F32, 5, shape), MICA_E_ARGUMENT);
    assert_status(mica__gguf_declare(w, "t", MICA__F32, 0, shape), MICA_E_ARGUMENT);
    assert_status(mica__gguf_declare(w, "t", MICA__F32, 1, zero), MICA_E_ARGUMENT);
    assert_status(mica__gguf_declare(w, "t", MICA__Q4_0, 1, odd), MICA_E_ARGUMENT);
    assert_status(mica__gguf_declare(w, "t", MICA__F32, 4, huge), MICA_E_ARGUMENT);
    assert_status(mica__gguf_declare(w, "t", MICA__MLX_AFFINE, 1, shape), MICA_E_ARGUMENT);
    mica__gguf_writer_discard(w);
    assert_int_equal(access(temp_path(dir, "x.gguf"), F_OK), -1);
}

static void wrong_order_is_refused(void **state)
{
    (void)state;
    const int64_t shape[1] = {2};
    const float data[3] = {0};
    mica__gguf_writer *w;
    assert_ok(mica__gguf_writer_open(temp_path(dir, "x.gguf"), 0, &w));
    assert_ok(mica__gguf_declare(w, "t", MICA__F32, 1, shape));
    assert_status(mica__gguf_put_bool(w, "k", true), MICA_E_STATE);
    assert_ok(mica__gguf_write(w, data, 8));
    assert_status(mica__gguf_declare(w, "u", MICA__F32, 1, shape), MICA_E_STATE);
    assert_status(mica__gguf_write(w, data, 1), MICA_E_STATE);
    mica__gguf_writer_discard(w);

    assert_ok(mica__gguf_writer_open(temp_path(dir, "x.gguf"), 0, &w));
    assert_ok(mica__gguf_declare(w, "tensor", MICA__F32, 1, shape));
    assert_ok(mica__gguf_write(w, data, 7));
    assert_status(mica__gguf_writer_finish(w), MICA_E_STATE);
    assert_non_null(strstr(mica_last_error(), "\"tensor\" lacks 1 of its 8"));

    assert_ok(mica__gguf_writer_open(temp_path(dir, "x.gguf"), 0, &w));
    assert_ok(mica__gguf_put_bool(w, "k", true));
    assert_ok(mica__gguf_put_bool(w, "k", true));
    assert_status(mica__gguf_writer_finish(w), MICA_E_ARGUMENT);

    assert_ok(mica__gguf_writer_open(temp_path(dir, "x.gguf"), 0, &w));
    assert_ok(mica__gguf_declare(w, "t", MICA__F32, 1, shape));
    assert_ok(mica__gguf_declare(w, "t", MICA__F32, 1, shape));
    assert_status(mica__gguf_write(w, data, 8), MICA_E_ARGUMENT);
    mica__gguf_writer_discard(w);
    assert_int_equal(access(temp_path(dir, "x.gguf"), F_OK), -1);
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    temp_write_text(dir, "kept.gguf", "old");
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 300;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const mica_status status = write_sample(temp_path(dir, "kept.gguf"), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, MICA_E_IO);
    uint8_t bytes[8];
    assert_int_equal(read_file(temp_path(dir, "kept.gguf"), bytes, sizeof bytes), 3);
    assert_memory_equal(bytes, "old", 3);
    unlink(temp_path(dir, "kept.gguf"));
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    mica_memory_usage before, after;
    mica_memory_read(&before);
    const int entries = temp_dir_entries(dir);
    int64_t n = 1;
    for (;; n++) {
        mica__fault_after(n, false);
        const mica_status status = write_sample(temp_path(dir, "fault.gguf"), 64);
        mica__fault_after(0, false);
        mica_memory_read(&after);
        assert_int_equal(after.active, before.active);
        if (status == MICA_OK)
            break;
        assert_int_equal(status, MICA_E_MEMORY);
        assert_int_equal(temp_dir_entries(dir), entries);
    }
    assert_true(n > 5);
    unlink(temp_path(dir, "fault.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_assembled_by_hand),
        cmocka_unit_test(an_empty_file_is_a_header),
        cmocka_unit_test(what_is_written_reads_back_and_copies_equal),
        cmocka_unit_test(what_the_reader_would_refuse_is_not_written),
        cmocka_unit_test(wrong_order_is_refused),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
