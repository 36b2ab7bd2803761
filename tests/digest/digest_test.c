/* digest_test.c - the same results on every machine and at every feature level, to the bit.
 *
 *     digest_test SECTION               compares with tests/data/digests/SECTION.txt
 *     digest_test SECTION --write       writes that file, if all levels of this machine agree
 *     digest_test SECTION --show NAME   prints the elements of one result at each level
 *     digest_test SECTION --isa LEVEL   at one level only, as MICA_ISA names it
 *
 * The files in the tree were written on x86-64. After a change of what docs/numerics.md promises
 * they are written again and looked through with git diff: only what was meant to change may have.
 * SPDX-License-Identifier: MIT
 */
#include "digest/digest_test.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "support/check.h"
#include "support/weights.h"

static const struct {
    const char *name;
    void (*compute)(digest_book *book, const mica__cpu *cpu, const char *isa);
    bool once; /* no kernels: one level is all */
} sections[] = {
    {"core", digest_core, false},     {"kernels", digest_kernels, false}, {"io", digest_io, true},
    {"models", digest_models, false}, {"text", digest_text, true},
};

/* What MICA_ISA can say on this architecture, best first. */
#if defined(__x86_64__)
static const char *const isas[] = {"avx512", "avx512-vnni",  "avx512-vnni-avxvnni",
                                   "avx2",   "avx2-avxvnni", "scalar"};
#elif defined(__aarch64__)
static const char *const isas[] = {"neon", "neon-dotprod", "scalar"};
#else
static const char *const isas[] = {"scalar"};
#endif
#define N_ISAS ((int)(sizeof isas / sizeof *isas))

static int section;
static bool write_file;
static const char *show, *only;
static digest_book *book;

static int open_book(void **state)
{
    (void)state;
    book = digest_book_open(sections[section].name, write_file, show);
    return 0;
}

static int close_book(void **state)
{
    (void)state;
    return digest_book_close(book) ? 0 : -1;
}

static void digests_agree(void **state)
{
    const char *isa = *state;
    mica__cpu cpu = *mica__cpu_host();
    if (mica__cpu_cap(isa, &cpu) != MICA_OK)
        skip(); /* this machine lacks the level */
    digest_pass(book, isa);
    sections[section].compute(book, &cpu, isa);
    const int64_t wrong = digest_pass_end(book);
    if (wrong)
        fail_msg("%lld results differ", (long long)wrong);
}

/* --- elements --------------------------------------------------------------------------------- */

static uint64_t bits_of(mica_dtype dtype, double value)
{
    const float single = (float)value;
    uint32_t word;
    uint64_t wide;
    memcpy(&word, &single, sizeof word);
    memcpy(&wide, &value, sizeof wide);
    switch (dtype) {
    case MICA_F16:
        return mica__f32_to_f16(single);
    case MICA_BF16:
        return mica__f32_to_bf16(single);
    case MICA_F32:
        return word;
    case MICA_F64:
        return wide;
    default:
        return (uint64_t)(int64_t)value;
    }
}

static bool is_float(mica_dtype dtype)
{
    return dtype == MICA_F16 || dtype == MICA_BF16 || dtype == MICA_F32 || dtype == MICA_F64;
}

void *drawn_elements(mica_dtype dtype, int64_t n, uint64_t seed)
{
    static const double corners[] = {
        0,      -0.0,    1,      -1,     0.5,     -0.5,   2.5,     3.5,     -2.5,  127,
        128,    -128,    -129,   255,    256,     32767,  32768,   65504,   65519, 65520,
        0x1p31, -0x1p31, 0x1p32, 0x1p63, -0x1p63, 0x1p64, 3e38,    -3e38,   1e-38, 1e-45,
        6e-8,   1e-5,    88.7,   -103.9, 1e5,     1e30,   0x1p-14, 0x1p-24, 1e300, 1e-310};
    static const double unlike_numbers[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
    const mica_dtype part = dtype == MICA_C64 ? MICA_F32 : dtype;
    const int64_t bytes = mica_dtype_bytes(part), n_parts = dtype == MICA_C64 ? 2 * n : n;
    const int64_t n_corners = sizeof corners / sizeof *corners;
    uint8_t *out = malloc((size_t)(n_parts * bytes) + 1);
    assert_non_null(out);
    for (int64_t i = 0; i < n_parts; i++) {
        uint64_t bits = draw(&seed);
        if (dtype == MICA_BOOL)
            bits &= 1;
        else if (is_float(part) && i < n_corners)
            bits = bits_of(part, corners[(i + (int64_t)(seed % 7)) % n_corners]);
        else if (is_float(part) && i < n_corners + 3)
            bits = bits_of(part, unlike_numbers[i - n_corners]);
        else if (is_float(part) && i % 2)
            bits = bits_of(part, draw_signed(&seed) * 8);
        else if (!is_float(part) && i % 3 == 0)
            bits = (uint64_t)(int64_t)(draw_signed(&seed) * 100);
        memcpy(out + i * bytes, &bits, (size_t)bytes);
    }
    return out;
}

/* --- the program ------------------------------------------------------------------------------ */

static int usage(void)
{
    fprintf(stderr, "usage: digest_test core|kernels|io|models|text "
                    "[--write] [--show NAME] [--isa LEVEL]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const int n_sections = sizeof sections / sizeof *sections;
    while (section < n_sections && (argc < 2 || strcmp(argv[1], sections[section].name) != 0))
        section++;
    if (section == n_sections)
        return usage();
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--write"))
            write_file = true;
        else if (!strcmp(argv[i], "--show") && i + 1 < argc)
            show = argv[++i];
        else if (!strcmp(argv[i], "--isa") && i + 1 < argc)
            only = argv[++i];
        else
            return usage();
    }
    struct CMUnitTest tests[N_ISAS] = {{0}};
    size_t n = 0;
    for (int i = 0; i < N_ISAS && !sections[section].once; i++)
        if (!only || !strcmp(only, isas[i]))
            tests[n++] = (struct CMUnitTest){isas[i], digests_agree, NULL, NULL, (void *)isas[i]};
    if (sections[section].once)
        tests[n++] = (struct CMUnitTest){"any level", digests_agree, NULL, NULL, (void *)"scalar"};
    if (!n)
        return usage();
    return _cmocka_run_group_tests(sections[section].name, tests, n, open_book, close_book);
}
