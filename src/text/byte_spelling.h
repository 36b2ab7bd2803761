/* byte_spelling.h - how byte-level vocabularies spell bytes as printable characters.
 *
 * GPT-2's rule: the printable characters of Latin-1 stand for themselves, the other 68 bytes, in
 * order, for U+0100 and on.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_BYTE_SPELLING_H
#define MICA_TEXT_BYTE_SPELLING_H

#include <stdbool.h>
#include <stdint.h>

#define MICA__SPELLED_WORD 1024 /* longest word that is looked up as a whole, in bytes */

/* Spells n bytes into out[0, 2 n); returns the bytes written. */
int64_t mica__spell_bytes(const char *bytes, int64_t n, char *out);

/* The byte that character c spells, or -1. */
int mica__spelled_byte(uint32_t c);

/* Undoes the spelling of text[0, n) into out[0, n) and sets *length; false when a character of it
 * spells no byte. */
bool mica__unspell_bytes(const char *text, int64_t n, char *out, int64_t *length);

#endif
