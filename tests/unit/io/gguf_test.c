/* gguf_test.c - what the GGUF reader accepts, gives and refuses.
 *
 * Files are assembled byte by byte here from the specification. The refused ones cover the classes
 * of ggml's published reader faults: counts, lengths, types, duplicates, shapes, sizes, offsets,
 * truncation.
 * SPDX-License-Identifier: MIT
 */
#include "unit/io/assemble.h"

#include "base/alloc.h"
#include "io/gguf_part.h"
#include "io/shown.h"
#include "support/temp_dir.h"

static char *dir;

#define HEAD(tensors, keys) "'GGUF' w3 q" #tensors " q" #keys " "
#define ARCH                "\"general.architecture\" w8 \"llama\" "

/* Two tensors behind three keys: "a" is F32 [2, 3], "b" is Q8_0 [1, 32] (34 bytes). */
#define SMALL                                                                                      \
    HEAD(2, 3)                                                                                     \
    ARCH "\"n\" w4 w7 \"list\" w9 w8 q2 \"x\" \"yz\" "                                             \
         "\"a\" w2 q3 q2 w0 q0 "                                                                   \
         "\"b\" w2 q32 q1 w8 q32 p32 "                                                             \
         "w0x3f800000 w0x40000000 w0x40400000 w0x40800000 w0x40a00000 w0x40c00000 p32 "            \
         "h0x3c00 z31 b5 p32"

static mica_status open_source(const char *source, mica__gguf **gguf, uint8_t **bytes)
{
    static assembled out;
    assemble(source, &out);
    *bytes = exact_copy(out.bytes, out.n);
    return mica__gguf_open_memory(*bytes, out.n, gguf);
}

static void assert_name(mica__gguf_string got, const char *expected)
{
    assert_int_equal(got.length, strlen(expected));
    assert_memory_equal(got.bytes, expected, strlen(expected));
}

static void keys_and_tensors_come_out_as_written(void **state)
{
    (void)state;
    mica__gguf *gguf;
    uint8_t *bytes;
    assert_ok(open_source(SMALL, &gguf, &bytes));
    assert_int_equal(mica__gguf_version(gguf), 3);
    assert_int_equal(mica__gguf_n_values(gguf), 3);
    assert_name(mica__gguf_value_at(gguf, 1)->key, "n");
    mica__gguf_string string;
    assert_ok(mica__gguf_get_string(gguf, "general.architecture", &string));
    assert_name(string, "llama");
    int64_t n;
    assert_ok(mica__gguf_get_i64(gguf, "n", &n));
    assert_int_equal(n, 7);

    assert_int_equal(mica__gguf_n_tensors(gguf), 2);
    const mica__gguf_tensor *a = mica__gguf_find_tensor(gguf, "a");
    assert_non_null(a);
    assert_int_equal(a->format, MICA__F32);
    assert_int_equal(a->n_dims, 2);
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 3);
    assert_int_equal(a->bytes, 24);
    const float expected[6] = {1, 2, 3, 4, 5, 6};
    assert_memory_equal(a->data, expected, sizeof expected);
    const mica__gguf_tensor *b = mica__gguf_tensor_at(gguf, 1);
    assert_name(b->name, "b");
    assert_int_equal(b->format, MICA__Q8_0);
    assert_int_equal(b->bytes, 34);
    assert_int_equal(b->data[33], 5);
    assert_int_equal(mica__gguf_offset(gguf, b) - mica__gguf_offset(gguf, a), 32);
    assert_null(mica__gguf_find_tensor(gguf, "c"));
    assert_null(mica__gguf_find(gguf, "c"));
    mica__gguf_close(gguf);
    free(bytes);
}

static void every_key_type_reads_with_its_range(void **state)
{
    (void)state;
    mica__gguf *gguf;
    uint8_t *bytes;
    assert_ok(open_source(HEAD(0, 13) "\"u8\" w0 b200 \"i8\" w1 b-3 \"u16\" w2 h65535 \"i16\" w3 "
                                      "h-300 \"u32\" w4 w4294967295 \"i32\" w5 w-70000 "
                                      "\"f32\" w6 w0x3fc00000 \"bool\" w7 b1 \"str\" w8 \"hi\" "
                                      "\"u64\" w10 q0xffffffffffffffff \"i64\" w11 q-5 "
                                      "\"f64\" w12 q0x4004000000000000 "
                                      "\"bools\" w9 w7 q3 b0 b1 b1",
                          &gguf, &bytes));
    static const struct {
        const char *key;
        int64_t value;
    } integers[] = {{"u8", 200},          {"i8", -3},      {"u16", 65535}, {"i16", -300},
                    {"u32", 4294967295u}, {"i32", -70000}, {"i64", -5}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        int64_t integer;
        double real;
        assert_ok(mica__gguf_get_i64(gguf, integers[i].key, &integer));
        assert_int_equal(integer, integers[i].value);
        assert_ok(mica__gguf_get_f64(gguf, integers[i].key, &real));
        assert_true(real == (double)integers[i].value);
    }
    int64_t integer;
    double real;
    bool truth;
    mica__gguf_string string;
    assert_status(mica__gguf_get_i64(gguf, "u64", &integer), MICA_E_FORMAT);
    assert_ok(mica__gguf_get_f64(gguf, "u64", &real));
    assert_true(real == 0x1p64);
    assert_ok(mica__gguf_get_f64(gguf, "f32", &real));
    assert_true(real == 1.5);
    assert_ok(mica__gguf_get_f64(gguf, "f64", &real));
    assert_true(real == 2.5);
    assert_ok(mica__gguf_get_bool(gguf, "bool", &truth));
    assert_true(truth);
    assert_status(mica__gguf_get_bool(gguf, "u8", &truth), MICA_E_FORMAT);
    assert_status(mica__gguf_get_i64(gguf, "bool", &integer), MICA_E_FORMAT);
    assert_status(mica__gguf_get_i64(gguf, "f32", &integer), MICA_E_FORMAT);
    assert_status(mica__gguf_get_string(gguf, "u8", &string), MICA_E_FORMAT);
    assert_status(mica__gguf_get_i64(gguf, "bools", &integer), MICA_E_FORMAT);
    assert_status(mica__gguf_get_i64(gguf, "none", &integer), MICA_E_NOT_FOUND);
    assert_ok(mica__gguf_element_i64(mica__gguf_find(gguf, "bools"), 2, &integer));
    assert_int_equal(integer, 1);
    assert_status(mica__gguf_element_i64(mica__gguf_find(gguf, "bools"), 3, &integer),
                  MICA_E_FORMAT);
    assert_status(mica__gguf_element_i64(mica__gguf_find(gguf, "u8"), 0, &integer), MICA_E_FORMAT);
    mica__gguf_close(gguf);
    free(bytes);
}

static void strings_of_an_array_are_walked_to_the_end(void **state)
{
    (void)state;
    mica__gguf *gguf;
    uint8_t *bytes;
    assert_ok(open_source(HEAD(0, 3) "\"s\" w9 w8 q3 \"one\" \"\" \"three\" \"e\" w9 w8 q0 "
                                     "\"i\" w9 w5 q2 w-1 w9",
                          &gguf, &bytes));
    static const char *const expected[] = {"one", "", "three"};
    mica__gguf_string string;
    int64_t at = 0;
    for (int i = 0; i < 3; i++) {
        assert_true(mica__gguf_strings_next(mica__gguf_find(gguf, "s"), &at, &string));
        assert_name(string, expected[i]);
    }
    assert_false(mica__gguf_strings_next(mica__gguf_find(gguf, "s"), &at, &string));
    at = 0;
    assert_false(mica__gguf_strings_next(mica__gguf_find(gguf, "e"), &at, &string));
    at = 0;
    assert_false(mica__gguf_strings_next(mica__gguf_find(gguf, "i"), &at, &string));
    int64_t integer;
    double real;
    assert_ok(mica__gguf_element_i64(mica__gguf_find(gguf, "i"), 0, &integer));
    assert_int_equal(integer, -1);
    assert_ok(mica__gguf_element_f64(mica__gguf_find(gguf, "i"), 1, &real));
    assert_true(real == 9.0);
    assert_status(mica__gguf_element_f64(mica__gguf_find(gguf, "s"), 0, &real), MICA_E_FORMAT);
    mica__gguf_close(gguf);
    free(bytes);
}

static void alignment_one_gives_data_at_odd_addresses(void **state)
{
    (void)state;
    mica__gguf *gguf;
    uint8_t *bytes;
    assert_ok(open_source(HEAD(2, 1) "\"general.alignment\" w4 w1 \"a\" w1 q3 w24 q0 "
                                     "\"b\" w1 q1 w0 q3 b1 b2 b3 w0x3f800000",
                          &gguf, &bytes));
    const mica__gguf_tensor *a = mica__gguf_tensor_at(gguf, 0), *b = mica__gguf_tensor_at(gguf, 1);
    assert_int_equal(b->data - a->data, 3);
    assert_int_equal(b->data[3], 0x3f);
    mica__gguf_close(gguf);
    free(bytes);
}

static void accepted_odd_ones_open(void **state)
{
    (void)state;
    static const char *const sources[] = {
        HEAD(0, 0),                                              /* nothing at all */
        "'GGUF' w2 q0 q1 " ARCH,                                 /* version 2 */
        HEAD(1, 0) "\"s\" w0 w0 q0 p32 w7",                      /* a scalar */
        HEAD(1, 0) "\"t\" w4 q1 q1 q1 q5 w26 q0 p32 z20",        /* four dimensions */
        HEAD(1, 0) "\"t\" w1 q1 w0 q0 p32 w7 'behind the data'", /* bytes after the data */
        HEAD(0, 1) "\"general.alignment\" w4 w65536",            /* the largest alignment */
        HEAD(1, 0) "\"t\" w1 q256 w16 q0 p32 z66",               /* a codebook type */
        HEAD(0, 1) "\"split.count\" w2 h1",                      /* a split into one */
        HEAD(1,
             1) "\"general.alignment\" w4 w8 \"t\" w1 q1 w24 q0 p8 b1", /* no padding at the end */
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        mica__gguf *gguf;
        uint8_t *bytes;
        assert_ok(open_source(sources[i], &gguf, &bytes));
        mica__gguf_close(gguf);
        free(bytes);
    }
}

/* Each breaks one rule; the message must say which. */
static const struct {
    const char *source;
    mica_status status;
    const char *message;
} refused[] = {
    {"", MICA_E_FORMAT, "ends inside the header"},
    {"'GGU'", MICA_E_FORMAT, "ends inside the header"},
    {"'GGUX' w3 q0 q0", MICA_E_FORMAT, "not a GGUF file"},
    {"'lmgg' w1 q0 q0", MICA_E_UNSUPPORTED, "before GGUF"},
    {"'tjgg' w3 q0 q0", MICA_E_UNSUPPORTED, "before GGUF"},
    {"'FUGG' w0x03000000 q0 q0", MICA_E_UNSUPPORTED, "big-endian"},
    {"'GGUF' w0x03000000 q0 q0", MICA_E_UNSUPPORTED, "big-endian"},
    {"'GGUF' w0 q0 q0", MICA_E_UNSUPPORTED, "version 0"},
    {"'GGUF' w1 w0 w0", MICA_E_UNSUPPORTED, "version 1"},
    {"'GGUF' w4 q0 q0", MICA_E_UNSUPPORTED, "version 4"},
    {"'GGUF' w3 q0 w0", MICA_E_FORMAT, "ends inside the number of keys"},
    {HEAD(1, 0), MICA_E_FORMAT, "number of tensors is 1"},
    {HEAD(0, 1), MICA_E_FORMAT, "number of keys is 1"},
    {HEAD(0xffffffffffffffff, 0), MICA_E_FORMAT, "number of tensors"},
    {HEAD(0, 0x8000000000000000), MICA_E_FORMAT, "number of keys"},
    {HEAD(0, 0x0492492492492493) ARCH, MICA_E_FORMAT, "number of keys"}, /* times 56 is small */
    {HEAD(0, 1) "\"\" w4 w1 z8", MICA_E_FORMAT, "has 0 bytes"},
    {HEAD(0, 1) "q0xffffffffffffffff 'a' w4 w1", MICA_E_FORMAT, "claims 18446744073709551615"},
    {HEAD(0, 1) "q100 'a' w4 w1 z8", MICA_E_FORMAT, "claims 100 bytes"},
    {HEAD(0, 1) "\"a\" w13 q0", MICA_E_FORMAT, "unknown type 13"},
    {HEAD(0, 1) "\"a\" w-1 q0", MICA_E_FORMAT, "unknown type 4294967295"},
    {HEAD(0, 1) "\"a\" w8 q0x7fffffffffffffff 'x'", MICA_E_FORMAT, "claims 9223372036854775807"},
    {HEAD(0, 1) "\"a\" w7 b2 z8", MICA_E_FORMAT, "neither 0 nor 1"},
    {HEAD(0, 1) "\"a\" w9 w7 q3 b0 b1 b77", MICA_E_FORMAT, "neither 0 nor 1"},
    {HEAD(0, 1) "\"a\" w9 w9 q0 w0 q0", MICA_E_UNSUPPORTED, "array of arrays"},
    {HEAD(0, 1) "\"a\" w9 w99 q0", MICA_E_FORMAT, "unknown type 99"},
    {HEAD(0, 1) "\"a\" w9 w4 q3 w0 w0", MICA_E_FORMAT, "claims 3 elements"},
    {HEAD(0, 1) "\"a\" w9 w10 q0x2000000000000001 q0", MICA_E_FORMAT, "elements"}, /* wraps to 8 */
    {HEAD(0, 1) "\"a\" w9 w0 q0x40000001 q0", MICA_E_FORMAT, "elements"},
    {HEAD(0, 1) "\"a\" w9 w8 q2 \"x\" q9 'y'", MICA_E_FORMAT, "string of an array"},
    {HEAD(0, 1) "\"a\" w9 w8 q1000000000 z64", MICA_E_FORMAT, "claims 1000000000 elements"},
    {HEAD(0, 2) "\"a\" w4 w1 \"a\" w8 \"x\"", MICA_E_FORMAT, "\"a\" occurs twice"},
    {HEAD(0, 1) "\"general.alignment\" w4 w0", MICA_E_FORMAT, "general.alignment is 0"},
    {HEAD(0, 1) "\"general.alignment\" w4 w24", MICA_E_FORMAT, "general.alignment is 24"},
    {HEAD(0, 1) "\"general.alignment\" w4 w131072", MICA_E_FORMAT, "general.alignment is 131072"},
    {HEAD(0, 1) "\"general.alignment\" w10 q32", MICA_E_FORMAT, "must be a uint32"},
    {HEAD(0, 1) "\"general.alignment\" w8 \"32\"", MICA_E_FORMAT, "must be a uint32"},
    {HEAD(1, 0) "\"\" w1 q1 w0 q0 p32 w0", MICA_E_FORMAT, "tensor name"},
    {HEAD(1, 0) "\"0123456789012345678901234567890123456789012345678901234567890123\" w1 q1 w0 q0 "
                "p32 w0",
     MICA_E_FORMAT, "has 64 bytes"},
    {HEAD(1, 0) "q3 'a' b0 'b' w1 q1 w0 q0 p32 w0", MICA_E_FORMAT, "without NUL"},
    {HEAD(1, 0) "\"t\" w5 q1 q1 q1 q1 q1 w0 q0 p32 w0", MICA_E_FORMAT, "5 dimensions"},
    {HEAD(1, 0) "\"t\" w-1 q1 q1 w0 q0 p32 w0", MICA_E_FORMAT, "4294967295 dimensions"},
    {HEAD(1, 0) "\"t\" w1 q-1 w0 q0 p32 w0", MICA_E_FORMAT, "is -1"},
    {HEAD(1, 0) "\"t\" w2 q4 q0 w0 q0 p32 w0", MICA_E_FORMAT, "dimension 1 is 0"},
    {HEAD(1, 0) "\"t\" w4 q65536 q65536 q65536 q65536 w24 q0 p32 w0", MICA_E_FORMAT, "2^63"},
    {HEAD(1, 0) "\"t\" w2 q0x4000000000000000 q1 w0 q0 p32 w0", MICA_E_FORMAT, "2^63"},
    {HEAD(1, 0) "\"t\" w2 q4294967296 q1073741824 w28 q0 p32 w0", MICA_E_FORMAT, "2^63"},
    {HEAD(1, 0) "\"t\" w1 q0x7fffffffffffffff w24 q0 p32 w0", MICA_E_FORMAT, "2^63"},
    {HEAD(1, 0) "\"t\" w1 q0x7fffffffffffff00 w24 q0 p32 w0", MICA_E_FORMAT, "needs"},
    {HEAD(1, 0) "\"t\" w1 q33 w8 q0 p32 z68", MICA_E_FORMAT, "do not divide into Q8_0 blocks"},
    {HEAD(1, 0) "\"t\" w0 w2 q0 p32 z68", MICA_E_FORMAT, "do not divide into Q4_0 blocks"},
    {HEAD(1, 0) "\"t\" w2 q32 q8 w12 q0 p32 z144", MICA_E_FORMAT, "do not divide into Q4_K blocks"},
    {HEAD(1, 0) "\"t\" w1 q32 w4 q0 p32 z68", MICA_E_UNSUPPORTED, "Q4_2"},
    {HEAD(1, 0) "\"t\" w1 q32 w5 q0 p32 z68", MICA_E_UNSUPPORTED, "Q4_3"},
    {HEAD(1, 0) "\"t\" w1 q32 w31 q0 p32 z68", MICA_E_UNSUPPORTED, "Q4_0_4_4"},
    {HEAD(1, 0) "\"t\" w1 q32 w33 q0 p32 z68", MICA_E_UNSUPPORTED, "Q4_0_8_8"},
    {HEAD(1, 0) "\"t\" w1 q32 w36 q0 p32 z68", MICA_E_UNSUPPORTED, "IQ4_NL_4_4"},
    {HEAD(1, 0) "\"t\" w1 q32 w1000 q0 p32 z68", MICA_E_UNSUPPORTED, "unknown type 1000"},
    {HEAD(1, 0) "\"t\" w1 q32 w-1 q0 p32 z68", MICA_E_UNSUPPORTED, "unknown type 4294967295"},
    {HEAD(1, 0) "\"t\" w1 q1 w0 q32 p32 z64", MICA_E_FORMAT, "offset 32"},
    {HEAD(1, 0) "\"t\" w1 q1 w0 q1 p32 z64", MICA_E_FORMAT, "offset 1"},
    {HEAD(1, 0) "\"t\" w1 q1 w0 q-32 p32 z64", MICA_E_FORMAT, "offset 18446744073709551584"},
    {HEAD(2, 0) "\"a\" w1 q1 w0 q0 \"b\" w1 q1 w0 q0 p32 z64", MICA_E_FORMAT, "comes offset 32"},
    {HEAD(2, 0) "\"a\" w1 q1 w0 q0 \"b\" w1 q1 w0 q64 p32 z99", MICA_E_FORMAT, "comes offset 32"},
    {HEAD(2, 0) "\"a\" w1 q1 w0 q0 \"b\" w1 q1 w0 q4 p32 z64", MICA_E_FORMAT, "comes offset 32"},
    {HEAD(2, 0) "\"a\" w1 q1 w0 q0 \"a\" w1 q1 w0 q32 p32 z64", MICA_E_FORMAT, "occurs twice"},
    {HEAD(1, 0) "\"t\" w1 q8 w0 q0 p32 z31", MICA_E_FORMAT, "needs 32 bytes"},
    {HEAD(1, 0) "\"t\" w1 q1 w0 q0", MICA_E_FORMAT, "needs 4 bytes"},
    {HEAD(1, 1) "\"general.alignment\" w4 w65536 \"t\" w1 q1 w0 q0 z32", MICA_E_FORMAT, "needs 4"},
    {HEAD(0, 1) "\"split.count\" w2 h3", MICA_E_UNSUPPORTED, "3 files"},
    {HEAD(0, 1) "\"split.count\" w8 \"3\"", MICA_E_FORMAT, "split.count must be an integer"},
    {HEAD(0, 1) "\"split.count\" w5 w-3", MICA_E_UNSUPPORTED, "-3 files"},
};

static void broken_files_are_refused_by_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        mica__gguf *gguf = (mica__gguf *)1;
        uint8_t *bytes;
        const mica_status status = open_source(refused[i].source, &gguf, &bytes);
        if (status != refused[i].status || !strstr(mica_last_error(), refused[i].message))
            fail_msg("case %zu (%s): %s, \"%s\"", i, refused[i].message, mica_status_name(status),
                     mica_last_error());
        assert_null(gguf);
        free(bytes);
    }
}

static void names_in_messages_are_short_and_printable(void **state)
{
    (void)state;
    char shown[MICA__SHOWN_BYTES];
    assert_string_equal(mica__shown(shown, "a\n\x1b[31m\xc3\xa9", 9), "a??[31m??");
    char lots[1000];
    memset(lots, 'x', sizeof lots);
    assert_int_equal(strlen(mica__shown(shown, lots, sizeof lots)), 63);
    mica__gguf *gguf;
    uint8_t *bytes;
    assert_status(open_source(HEAD(0, 1) "\"a\x1b\" w77", &gguf, &bytes), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "\"a?\""));
    free(bytes);
}

static void a_part_keeps_where_its_data_begins(void **state)
{
    (void)state;
    static assembled out;
    assemble(SMALL, &out);
    mica__gguf_part part;
    assert_ok(mica__gguf_part_parse(out.bytes, (int64_t)out.n, &part));
    assert_int_equal(part.alignment, 32);
    assert_int_equal(part.data_start, part.tensors[0].data - out.bytes);
    assert_int_equal(part.data_start % 32, 0);
    mica__gguf_part_free(&part);
    assert_int_equal(mica__gguf_scalar_bytes(MICA__GGUF_F64), 8);
    assert_int_equal(mica__gguf_scalar_bytes(MICA__GGUF_STRING), 0);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    static assembled whole;
    assemble(SMALL, &whole);
    for (size_t n = 0; n <= whole.n; n++) {
        uint8_t *bytes = exact_copy(whole.bytes, n);
        mica__gguf *gguf;
        const mica_status status = mica__gguf_open_memory(bytes, n, &gguf);
        /* Only the padding after the last tensor may be missing. */
        assert_int_equal(status, n < whole.n - 30 ? MICA_E_FORMAT : MICA_OK);
        mica__gguf_close(gguf);
        free(bytes);
    }
}

static void every_flipped_byte_is_survived(void **state)
{
    (void)state;
    static assembled whole;
    assemble(SMALL, &whole);
    for (size_t i = 0; i < whole.n; i++)
        for (int flip = 1; flip < 256; flip = flip * 2 + (flip == 128 ? 1 : 0)) {
            uint8_t *bytes = exact_copy(whole.bytes, whole.n);
            bytes[i] ^= (uint8_t)flip;
            mica__gguf *gguf;
            if (mica__gguf_open_memory(bytes, whole.n, &gguf) == MICA_OK)
                for (int64_t t = 0; t < mica__gguf_n_tensors(gguf); t++) {
                    const mica__gguf_tensor *tensor = mica__gguf_tensor_at(gguf, t);
                    volatile uint8_t last = tensor->data[tensor->bytes - 1];
                    (void)last;
                }
            mica__gguf_close(gguf);
            free(bytes);
        }
}

static void many_equal_and_similar_keys_take_no_quadratic_time(void **state)
{
    (void)state;
    /* 100,000 keys of 100 bytes that differ in their last digits only: quadratic comparing would
     * read a terabyte. */
    enum { N = 100000, KEY = 100, ENTRY = 8 + KEY + 4 + 1 };
    uint8_t *bytes = calloc(24 + (size_t)N * ENTRY, 1);
    assert_non_null(bytes);
    memcpy(bytes, "GGUF\3", 5);
    const uint64_t n = N;
    memcpy(bytes + 16, &n, 8);
    for (int i = 0; i < N; i++) {
        uint8_t *at = bytes + 24 + (size_t)i * ENTRY;
        at[0] = KEY;
        char key[KEY + 1];
        snprintf(key, sizeof key, "%0*d", KEY, i * 7919 % N);
        memcpy(at + 8, key, KEY);
    }
    mica__gguf *gguf;
    assert_ok(mica__gguf_open_memory(bytes, 24 + (size_t)N * ENTRY, &gguf));
    mica__gguf_close(gguf);
    memcpy(bytes + 24 + 8, bytes + 24 + (size_t)(N - 1) * ENTRY + 8, KEY);
    assert_status(mica__gguf_open_memory(bytes, 24 + (size_t)N * ENTRY, &gguf), MICA_E_FORMAT);
    free(bytes);
}

/* --- files ------------------------------------------------------------------------------------ */

static void write_assembled(const char *name, const char *source)
{
    static assembled out;
    assemble(source, &out);
    temp_write(dir, name, out.bytes, out.n);
}

#define PART(no, count, total, tensor)                                                             \
    HEAD(1, 3)                                                                                     \
    "\"split.no\" w2 h" #no " \"split.count\" w2 h" #count " \"split.tensors.count\" w5 w" #total  \
    " \"" #tensor "\" w1 q1 w0 q0 p32 w" #no " p32"

static void a_split_model_opens_from_any_part(void **state)
{
    (void)state;
    write_assembled("m-00001-of-00003.gguf", PART(0, 3, 3, a));
    write_assembled("m-00002-of-00003.gguf", PART(1, 3, 3, b));
    write_assembled("m-00003-of-00003.gguf", PART(2, 3, 3, c));
    static const char *const names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                        "m-00003-of-00003.gguf"};
    for (int from = 0; from < 3; from++)
        for (int use_map = 0; use_map < 2; use_map++) {
            mica__gguf *gguf;
            assert_ok(mica__gguf_open(temp_path(dir, names[from]), use_map, &gguf));
            assert_int_equal(mica__gguf_n_shards(gguf), 3);
            assert_int_equal(mica__gguf_n_tensors(gguf), 3);
            const mica__gguf_tensor *c = mica__gguf_find_tensor(gguf, "c");
            assert_int_equal(c->shard, 2);
            assert_int_equal(c->data[0], 2);
            assert_non_null(strstr(mica__gguf_path(gguf, c->shard), names[2]));
            assert_int_equal(mica__gguf_offset(gguf, c) % 32, 0);
            int64_t number;
            assert_ok(mica__gguf_get_i64(gguf, "split.no", &number));
            assert_int_equal(number, 0);
            mica__gguf_close(gguf);
        }
}

static void assert_split_refused(const char *name, mica_status status, const char *message)
{
    mica__gguf *gguf;
    assert_status(mica__gguf_open(temp_path(dir, name), true, &gguf), status);
    if (!strstr(mica_last_error(), message))
        fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), message);
}

static void parts_that_do_not_belong_together_are_refused(void **state)
{
    (void)state;
    write_assembled("x-00001-of-00002.gguf", PART(0, 2, 2, a));
    assert_split_refused("x-00001-of-00002.gguf", MICA_E_NOT_FOUND, "part 2 of 2");
    write_assembled("x-00002-of-00002.gguf", PART(0, 2, 2, b));
    assert_split_refused("x-00001-of-00002.gguf", MICA_E_FORMAT, "split.no is 0");
    write_assembled("x-00002-of-00002.gguf", PART(1, 3, 2, b));
    assert_split_refused("x-00001-of-00002.gguf", MICA_E_FORMAT, "split.count is 3");
    write_assembled("x-00002-of-00002.gguf", PART(1, 2, 3, b));
    assert_split_refused("x-00001-of-00002.gguf", MICA_E_FORMAT, "split.tensors.count is 3");
    write_assembled("x-00002-of-00002.gguf", PART(1, 2, 2, a));
    assert_split_refused("x-00001-of-00002.gguf", MICA_E_FORMAT, "\"a\" is in an earlier part");
    write_assembled("x-00002-of-00002.gguf", HEAD(1, 0) "\"b\" w1 q1 w0 q0 p32 w1");
    assert_split_refused("x-00001-of-00002.gguf", MICA_E_FORMAT, "split.no is -1");
    write_assembled("x-00002-of-00002.gguf", "'GGUF' w3 q1");
    assert_split_refused("x-00001-of-00002.gguf", MICA_E_FORMAT, "x-00002-of-00002.gguf");
    write_assembled("other.gguf", PART(0, 2, 2, a));
    assert_split_refused("other.gguf", MICA_E_FORMAT, "give it its name back");
    write_assembled("y-00001-of-00004.gguf", PART(0, 2, 2, a));
    assert_split_refused("y-00001-of-00004.gguf", MICA_E_FORMAT, "the name says 4 files");
    write_assembled("z-00001-of-00002.gguf", HEAD(0, 0));
    assert_split_refused("z-00001-of-00002.gguf", MICA_E_FORMAT, "split.count says 1");
    assert_split_refused("missing.gguf", MICA_E_NOT_FOUND, "missing.gguf");
}

static int64_t bytes_in_use(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active + usage.mapped;
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    write_assembled("f-00001-of-00002.gguf", PART(0, 2, 2, a));
    write_assembled("f-00002-of-00002.gguf", PART(1, 2, 2, b));
    const int64_t before = bytes_in_use();
    for (int use_map = 0; use_map < 2; use_map++) {
        int64_t n = 1;
        for (;; n++) {
            mica__gguf *gguf;
            mica__fault_after(n, false);
            const mica_status status =
                mica__gguf_open(temp_path(dir, "f-00001-of-00002.gguf"), use_map, &gguf);
            mica__fault_after(0, false);
            mica__gguf_close(gguf);
            assert_int_equal(bytes_in_use(), before);
            if (status == MICA_OK)
                break;
            assert_int_equal(status, MICA_E_MEMORY);
            assert_null(gguf);
        }
        assert_true(n > 8);
    }
}

/* --- files made by others --------------------------------------------------------------------- */

static void outside_files_open_with_their_values_or_are_refused(void **state)
{
    (void)state;
    const char *path = shared_path("data/weights/gguf/weight-inspect_tiny.gguf");
    if (!path)
        skip();
    mica__gguf *gguf;
    assert_status(mica__gguf_open(path, true, &gguf), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "test.weight.0"));
    assert_ok(
        mica__gguf_open(shared_path("data/weights/gguf/weight-inspect_empty.gguf"), true, &gguf));
    mica__gguf_string string;
    assert_ok(mica__gguf_get_string(gguf, "general.architecture", &string));
    assert_name(string, "llama");
    assert_int_equal(mica__gguf_n_tensors(gguf), 0);
    mica__gguf_close(gguf);

    assert_ok(mica__gguf_open(shared_path("golden/ops/io/mlx.gguf"), true, &gguf));
    int64_t integer;
    double real;
    assert_ok(mica__gguf_get_f64(gguf, "golden.f", &real));
    assert_true(real == 0.5);
    assert_ok(mica__gguf_element_i64(mica__gguf_find(gguf, "golden.list"), 2, &integer));
    assert_int_equal(integer, 3);
    int64_t at = 0;
    assert_true(mica__gguf_strings_next(mica__gguf_find(gguf, "golden.words"), &at, &string));
    assert_true(mica__gguf_strings_next(mica__gguf_find(gguf, "golden.words"), &at, &string));
    assert_name(string, "bc");
    const mica__gguf_tensor *i32 = mica__gguf_find_tensor(gguf, "i32");
    assert_int_equal(i32->format, MICA__I32);
    assert_int_equal(i32->n_dims, 3);
    const uint8_t first[4] = {0x51, 0, 0, 0}; /* read off a hex dump */
    assert_memory_equal(i32->data, first, 4);
    mica__gguf_close(gguf);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_tensors_come_out_as_written),
        cmocka_unit_test(every_key_type_reads_with_its_range),
        cmocka_unit_test(strings_of_an_array_are_walked_to_the_end),
        cmocka_unit_test(alignment_one_gives_data_at_odd_addresses),
        cmocka_unit_test(accepted_odd_ones_open),
        cmocka_unit_test(broken_files_are_refused_by_what_is_wrong),
        cmocka_unit_test(names_in_messages_are_short_and_printable),
        cmocka_unit_test(a_part_keeps_where_its_data_begins),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_byte_is_survived),
        cmocka_unit_test(many_equal_and_similar_keys_take_no_quadratic_time),
        cmocka_unit_test(a_split_model_opens_from_any_part),
        cmocka_unit_test(parts_that_do_not_belong_together_are_refused),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
        cmocka_unit_test(outside_files_open_with_their_values_or_are_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
