/* digest.h - results as 64-bit digests in a text file, to compare machines and feature levels.
 *
 * A book is a file of lines "name digest". A pass computes every result once, at one feature level;
 * each must have the digest that the file gives to its name, and each name of the file must come
 * up. When a book is being written, its first pass makes the lines and later passes must agree.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_DIGEST_H
#define MICA_TESTS_DIGEST_H

#include <mica/dtype.h>

typedef struct digest_book digest_book;

/* Opens tests/data/digests/<name>.txt: to compare with it, or to write it anew. show: name of a
 * result whose elements every pass prints, or NULL. Fails the test when it cannot be read. */
digest_book *digest_book_open(const char *name, bool write, const char *show);

/* Begins a pass; label names it in messages. */
void digest_pass(digest_book *book, const char *label);

/* Takes a result of n elements: FNV-1a over the little-endian bytes, every NaN as the same one,
 * since docs/numerics.md promises no sign or payload. The name follows printf and has no spaces. */
void digest_add(digest_book *book, const void *values, mica_dtype dtype, int64_t n,
                const char *name, ...) __attribute__((format(printf, 5, 6)));

/* Ends a pass: how many results differ from the book or are missing. Says which. */
int64_t digest_pass_end(digest_book *book);

/* Writes the file if that was asked for and all passes agreed, and frees the book. False when it
 * cannot be written. */
bool digest_book_close(digest_book *book);

#endif
