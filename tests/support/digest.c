/* digest.c - see digest.h.
 * SPDX-License-Identifier: MIT
 */
#include "support/digest.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "support/check.h"

#define NAME_BYTES 96
#define MOST_TOLD  20

typedef struct line {
    char name[NAME_BYTES];
    uint64_t digest;
    int64_t seen; /* number of the last pass that gave it */
} line;

struct digest_book {
    char path[1024];
    const char *show, *label;
    bool write, failed;
    line *lines;
    int64_t n, capacity, next; /* next: where a name is looked for first */
    int64_t pass, wrong;
};

static line *append(digest_book *book, const char *name, uint64_t digest)
{
    if (book->n == book->capacity) {
        book->capacity = book->capacity ? 2 * book->capacity : 512;
        book->lines = realloc(book->lines, (size_t)book->capacity * sizeof *book->lines);
        assert_non_null(book->lines);
    }
    line *one = &book->lines[book->n++];
    *one = (line){.digest = digest};
    snprintf(one->name, sizeof one->name, "%s", name);
    return one;
}

digest_book *digest_book_open(const char *name, bool write, const char *show)
{
    digest_book *book = calloc(1, sizeof *book);
    assert_non_null(book);
    book->show = show;
    book->write = write;
    snprintf(book->path, sizeof book->path, "%s/tests/data/digests/%s.txt", MICA_SOURCE_DIR, name);
    FILE *file = write ? NULL : fopen(book->path, "r");
    if (!write && !file)
        fail_msg("%s cannot be read", book->path);
    char text[256], key[NAME_BYTES];
    unsigned long long digest;
    while (file && fgets(text, sizeof text, file))
        if (*text != '#' && sscanf(text, "%95s %llx", key, &digest) == 2)
            append(book, key, digest);
    if (file)
        fclose(file);
    return book;
}

void digest_pass(digest_book *book, const char *label)
{
    book->label = label;
    book->pass++;
    book->next = book->wrong = 0;
}

/* Results come in the order of the file. */
static line *find(digest_book *book, const char *name)
{
    for (int64_t i = 0; i < book->n; i++) {
        line *one = &book->lines[(book->next + i) % book->n];
        if (!strcmp(one->name, name)) {
            book->next = one - book->lines + 1;
            return one;
        }
    }
    return NULL;
}

/* The element's bytes as a number, a NaN as one pattern; a complex number's parts one by one. */
static uint64_t element(const uint8_t *at, mica_dtype dtype, int64_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)bytes);
    if (dtype == MICA_F16 && isnan(mica__f16_to_f32((uint16_t)bits)))
        return 0x7e00;
    if (dtype == MICA_BF16 && isnan(mica__bf16_to_f32((uint16_t)bits)))
        return 0x7fc0;
    if (dtype == MICA_F32 && (bits & 0x7fffffff) > 0x7f800000)
        return 0x7fc00000;
    if (dtype == MICA_F64 && (bits & INT64_MAX) > 0x7ff0000000000000)
        return 0x7ff8000000000000;
    return bits;
}

static void tell(const digest_book *book, const char *name, const char *format, uint64_t got,
                 uint64_t want)
{
    if (book->wrong > MOST_TOLD)
        return;
    print_message("%s: %s ", book->label, name);
    print_message(format, (unsigned long long)got, (unsigned long long)want);
}

void digest_add(digest_book *book, const void *values, mica_dtype dtype, int64_t n,
                const char *format, ...)
{
    char name[NAME_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    if (dtype == MICA_C64) {
        dtype = MICA_F32;
        n *= 2;
    }
    const int64_t bytes = mica_dtype_bytes(dtype);
    const bool show = book->show && !strcmp(book->show, name);
    uint64_t digest = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = element((const uint8_t *)values + i * bytes, dtype, bytes);
        for (int64_t b = 0; b < bytes; b++)
            digest = (digest ^ (bits >> 8 * b & 255)) * 0x100000001b3u;
        if (show)
            print_message("%s %s[%lld] %0*llx\n", book->label, name, (long long)i, (int)(2 * bytes),
                          (unsigned long long)bits);
    }
    line *one = find(book, name);
    if (!one && book->write && book->pass == 1)
        one = append(book, name, digest);
    if (!one || one->digest != digest || one->seen == book->pass)
        book->wrong++;
    if (!one)
        tell(book, name, "is not in the file (%016llx)\n", digest, 0);
    else if (one->seen == book->pass)
        tell(book, name, "comes twice\n", 0, 0);
    else if (one->digest != digest)
        tell(book, name, "has the digest %016llx instead of %016llx\n", digest, one->digest);
    if (one)
        one->seen = book->pass;
}

int64_t digest_pass_end(digest_book *book)
{
    for (int64_t i = 0; i < book->n; i++)
        if (book->lines[i].seen != book->pass) {
            book->wrong++;
            tell(book, book->lines[i].name, "did not come up\n", 0, 0);
        }
    book->failed |= book->wrong > 0;
    return book->wrong;
}

bool digest_book_close(digest_book *book)
{
    const bool write = book->write && !book->failed;
    FILE *file = write ? fopen(book->path, "w") : NULL;
    bool written = !write || file;
    if (file) {
        written =
            fprintf(file, "# Digests of results, written by digest_test (tests/digest).\n") > 0;
        for (int64_t i = 0; i < book->n && written; i++)
            written = fprintf(file, "%s %016llx\n", book->lines[i].name,
                              (unsigned long long)book->lines[i].digest) > 0;
        written = !fclose(file) && written;
    }
    free(book->lines);
    free(book);
    return written;
}
