/* digest_test.h - the sections of digest_test: each computes one book's results at one level.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_DIGEST_TEST_H
#define MICA_TESTS_DIGEST_TEST_H

#include "base/cpu.h"
#include "support/digest.h"

/* isa is what MICA_ISA would say, cpu the processor capped by it. */
void digest_core(digest_book *book, const mica__cpu *cpu, const char *isa);
void digest_kernels(digest_book *book, const mica__cpu *cpu, const char *isa);
void digest_io(digest_book *book, const mica__cpu *cpu, const char *isa);
void digest_text(digest_book *book, const mica__cpu *cpu, const char *isa);
void digest_models(digest_book *book, const mica__cpu *cpu, const char *isa);

/* n elements of a dtype: first the values where operations have corners, then half random bits,
 * half moderate numbers. Freed by free. */
void *drawn_elements(mica_dtype dtype, int64_t n, uint64_t seed);

#endif
