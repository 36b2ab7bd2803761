/* pattern_texts.h - the regular expressions that models split text with, as tokenizer.json spells
 * them.
 *
 * tokenizer_presets.c names them, pretokenize_patterns.c has a splitter of ours for each.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_PATTERN_TEXTS_H
#define MICA_TEXT_PATTERN_TEXTS_H

/* Pieces. */
#define MICA__RE_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define MICA__RE_WHITE        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MICA__RE_WORD         "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MICA__RE_MARKS        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define MICA__RE_UPPERS       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define MICA__RE_LOWERS       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define MICA__RE_CASED(end)                                                                        \
    "[^\\r\\n\\p{L}\\p{N}]?" MICA__RE_UPPERS "*" MICA__RE_LOWERS "+" end                           \
    "|[^\\r\\n\\p{L}\\p{N}]?" MICA__RE_UPPERS "+" MICA__RE_LOWERS "*" end "|"
#define MICA__RE_SLASHED " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|"

/* Whole expressions. */
#define MICA__RE_GPT2_WORDS                                                                        \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define MICA__RE_GPT2 MICA__RE_GPT2_WORDS "|\\s+"
#define MICA__RE_LLAMA3                                                                            \
    MICA__RE_CONTRACTIONS "|" MICA__RE_WORD "|\\p{N}{1,3}|" MICA__RE_MARKS "|" MICA__RE_WHITE
#define MICA__RE_QWEN2                                                                             \
    MICA__RE_CONTRACTIONS "|" MICA__RE_WORD "|\\p{N}|" MICA__RE_MARKS "|" MICA__RE_WHITE
#define MICA__RE_UFAKZEKA MICA__RE_WORD "|\\p{N}|" MICA__RE_MARKS "|" MICA__RE_WHITE
#define MICA__RE_ANY_DIGIT                                                                         \
    MICA__RE_CONTRACTIONS "|" MICA__RE_WORD "|\\p{N}+|" MICA__RE_MARKS "|" MICA__RE_WHITE
#define MICA__RE_QWEN35                                                                            \
    MICA__RE_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "                        \
                          "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" MICA__RE_WHITE
#define MICA__RE_O200K                                                                             \
    MICA__RE_CASED(MICA__RE_CONTRACTIONS "?") "\\p{N}{1,3}|" MICA__RE_SLASHED MICA__RE_WHITE
#define MICA__RE_TEKKEN MICA__RE_CASED("") "\\p{N}|" MICA__RE_SLASHED MICA__RE_WHITE
#define MICA__RE_SEED_CODER                                                                        \
    MICA__RE_CONTRACTIONS "|" MICA__RE_WORD "|\\p{N}{1}| "                                         \
                          "?[^\\s\\p{L}\\p{N}\\r\\n]+|" MICA__RE_WHITE
#define MICA__RE_BAILING                                                                           \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "                                \
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define MICA__RE_DEEPSEEK3                                                                         \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p" \
    "{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" MICA__RE_WHITE
#define MICA__RE_EXAONE_MOE                                                                        \
    MICA__RE_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "  \
                          "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define MICA__RE_TINY_AYA "\\d{1,3}(?=(?:\\d{3})*\\b)"
#define MICA__RE_CJK                                                                               \
    "[\344\270\200-\351\276\245\343\201\200-\343\202\237\343\202\240-\343\203\277]+"
#define MICA__RE_EAST                                                                              \
    "[\344\270\200-\351\276\245\340\240\200-\344\270\200\352\260\200-\355\237\277]+"
#define MICA__RE_BLOOM                                                                             \
    " ?[^(\\s|.,!?\342\200\246\343\200\202\357\274\214\343\200\201\340\245\244\333\224\330\214)]+"

/* DeepSeek's first models list the letters with case and the marks one by one. */
extern const char mica__deepseek_letters[];
extern const char mica__deepseek_marks[];

#endif
