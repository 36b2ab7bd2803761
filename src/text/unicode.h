/* unicode.h - properties of characters and the normal forms, from pinned tables.
 *
 * The tables are Unicode 16.0 as tools/gen_unicode wrote them: two stages give a character's kind,
 * a third its property byte, which holds the general category and three flags.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_UNICODE_H
#define MICA_TEXT_UNICODE_H

#include "base/text_buffer.h"
#include "text/utf8.h"

/* General categories in the order of the tables; CONTROL_SPACE are the white controls (Cc). */
enum {
    MICA__CN,
    MICA__LU,
    MICA__LL,
    MICA__LT,
    MICA__LM,
    MICA__LO,
    MICA__MN,
    MICA__MC,
    MICA__ME,
    MICA__ND,
    MICA__NL,
    MICA__NO,
    MICA__PC,
    MICA__PD,
    MICA__PS,
    MICA__PE,
    MICA__PI,
    MICA__PF,
    MICA__PO,
    MICA__SM,
    MICA__SC,
    MICA__SK,
    MICA__SO,
    MICA__ZS,
    MICA__ZL,
    MICA__ZP,
    MICA__CC,
    MICA__CF,
    MICA__CS,
    MICA__CO,
    MICA__CONTROL_SPACE
};

/* Sets of categories, one bit each. */
#define MICA__BIT(category) (1u << (category))
#define MICA__LETTER        (0x1fu << MICA__LU)
#define MICA__MARK          (0x7u << MICA__MN)
#define MICA__NUMBER        (0x7u << MICA__ND)
#define MICA__PUNCTUATION   (0x7fu << MICA__PC)
#define MICA__SYMBOL        (0xfu << MICA__SM)
#define MICA__SPACE         (0x7u << MICA__ZS | MICA__BIT(MICA__CONTROL_SPACE))

#define MICA__NOT_NFC  0x20u /* changed by NFC, or may move or join what stands before it */
#define MICA__NOT_NFKC 0x40u
#define MICA__WORD     0x80u /* letters, marks, decimal digits, connectors, joiners: \w */

typedef struct mica__combining {
    uint32_t first, last;
    uint8_t class;
} mica__combining;

typedef struct mica__decomposition {
    uint32_t c;
    uint16_t at; /* in its table's pool */
    uint8_t length;
} mica__decomposition;

typedef struct mica__composition {
    uint32_t first, second, composed;
} mica__composition;

extern const uint16_t mica__unicode_stage1[];
extern const char mica__unicode_stage2[][129];
extern const uint8_t mica__unicode_kinds[];
extern const mica__combining mica__unicode_combining[];
extern const uint32_t mica__unicode_canonical_pool[];
extern const uint32_t mica__unicode_compatible_pool[];
extern const mica__decomposition mica__unicode_canonical[];
extern const mica__decomposition mica__unicode_compatible[]; /* where it differs from canonical */
extern const mica__composition mica__unicode_composition[];
extern const int mica__unicode_n_combining;
extern const int mica__unicode_n_canonical;
extern const int mica__unicode_n_compatible;
extern const int mica__unicode_n_composition;

/* The property byte; MICA__BAD_CHAR is an unassigned character. */
static inline unsigned mica__unicode(uint32_t c)
{
    if (c >= 0x110000u)
        return MICA__CN;
    const char kind = mica__unicode_stage2[mica__unicode_stage1[c >> 7]][c & 127u];
    return mica__unicode_kinds[(unsigned char)kind];
}

/* The category as a set of one. */
static inline uint32_t mica__category(uint32_t c)
{
    return 1u << (mica__unicode(c) & 31u);
}

static inline bool mica__is(uint32_t c, uint32_t categories)
{
    return (mica__category(c) & categories) != 0;
}

typedef enum mica__normal_form { MICA__NFC, MICA__NFD, MICA__NFKC, MICA__NFKD } mica__normal_form;

/* Whether the text is certainly in that form already (false: it may be). */
bool mica__is_normal(mica__normal_form form, const char *text, int64_t n);

/* Appends the normal form of text[0, n). Bytes that are no UTF-8 pass unchanged and join with
 * nothing. Linear in n. Unicode Standard Annex #15. */
mica_status mica__normalize(mica__normal_form form, const char *text, int64_t n, mica__text *out);

#endif
