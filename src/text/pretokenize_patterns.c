/* pretokenize_patterns.c - splitters of our own for the patterns that models use.
 *
 * Each does what its regular expression says on the pinned Unicode tables: the alternatives in the
 * order of the expression, each run greedy with the backtracking worked out by hand, so that a
 * search is linear. tests/unit/text/pretokenize_test.c compares them with PCRE2 on random text.
 * SPDX-License-Identifier: MIT
 */
#include "text/pretokenize.h"

#include <string.h>

#include "text/pattern_texts.h"
#include "text/unicode.h"

/* Character and its categories at a position; `next` is where the following one starts. */
typedef struct peek {
    uint32_t c;
    uint32_t is; /* one category bit; 0 past the end */
    int64_t next;
} peek;

static inline peek look(const char *text, int64_t n, int64_t at)
{
    if (at >= n)
        return (peek){0, 0, n};
    int length;
    const uint32_t c = mica__utf8_next(text, n, at, &length);
    return (peek){c, mica__category(c), at + length};
}

/* The end of the run of characters with these categories. */
static int64_t run_end(const char *text, int64_t n, int64_t at, uint32_t categories)
{
    for (;;) {
        const peek p = look(text, n, at);
        if (!(p.is & categories))
            return at;
        at = p.next;
    }
}

static bool is_newline(uint32_t c)
{
    return c == '\n' || c == '\r';
}

/* --- pieces that several patterns share ------------------------------------------------------- */

/* 's 't 're 've 'm 'll 'd at `at`: its end, or `at`. Ignoring case, U+017F is an s too. */
static int64_t contraction(const char *text, int64_t n, int64_t at, bool any_case)
{
    if (at + 1 >= n || text[at] != '\'')
        return at;
    const uint8_t fold = any_case ? 0x20 : 0;
    const uint8_t a = (uint8_t)text[at + 1];
    const uint8_t first = (uint8_t)(a | fold);
    if (any_case && at + 2 < n && a == 0xc5 && (uint8_t)text[at + 2] == 0xbf)
        return at + 3;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return at + 2;
    if (at + 2 >= n)
        return at;
    const uint8_t second = (uint8_t)((uint8_t)text[at + 2] | fold);
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
        (first == 'l' && second == 'l'))
        return at + 3;
    return at;
}

/* The alternatives for white space, in this order: \s*[\r\n]+ when `newlines`, \s+(?!\S), \s+.
 * text[at] is white. */
static int64_t white_end(const char *text, int64_t n, int64_t at, bool newlines)
{
    int64_t end = at, last = at, after_newline = 0;
    for (;;) {
        const peek p = look(text, n, end);
        if (!(p.is & MICA__SPACE))
            break;
        last = end;
        end = p.next;
        if (is_newline(p.c))
            after_newline = end;
    }
    if (newlines && after_newline)
        return after_newline;
    return end == n || last == at ? end : last;
}

/* --- GPT-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ --- */

static int match_gpt2(const void *pattern, const char *text, int64_t n, int64_t at, int64_t *from,
                      int64_t *to)
{
    (void)pattern;
    if (at >= n)
        return 0;
    *from = at;
    *to = contraction(text, n, at, false);
    if (*to > at)
        return 1;
    peek p = look(text, n, at);
    if (p.c == ' ') {
        const peek after = look(text, n, p.next);
        if (after.is && !(after.is & MICA__SPACE))
            p = after;
    }
    if (p.is & MICA__LETTER)
        *to = run_end(text, n, p.next, MICA__LETTER);
    else if (p.is & MICA__NUMBER)
        *to = run_end(text, n, p.next, MICA__NUMBER);
    else if (p.is & MICA__SPACE)
        *to = white_end(text, n, at, false);
    else
        *to = run_end(text, n, p.next, ~(MICA__LETTER | MICA__NUMBER | MICA__SPACE));
    return 1;
}

mica__matcher mica__gpt2_pattern(void)
{
    return (mica__matcher){match_gpt2, NULL, NULL, false};
}

/* --- the family of cl100k: contractions, [^\r\n\p{L}\p{N}]?WORD, NUMBERS,
 *      ?[^\s\p{L}\p{N}]+TAIL, white space --- */

typedef struct family {
    uint32_t letters;       /* a word's characters */
    int digits;             /* longest run of numbers, 0: any */
    const char *tail;       /* what may follow a run of punctuation, any number of times */
    bool contractions;      /* (?i:'s|...) comes first */
    bool cased;             /* words break before capitals, as o200k has it */
    bool suffix;            /* a contraction may end a cased word */
    bool short_punctuation; /* newlines do not belong to a run of punctuation */
} family;

static const family llama3 = {MICA__LETTER, 3, "\r\n", true, false, false, false};
static const family qwen2 = {MICA__LETTER, 1, "\r\n", true, false, false, false};
static const family any_digits = {MICA__LETTER, 0, "\r\n", true, false, false, false};
static const family qwen35 = {MICA__LETTER | MICA__MARK, 1, "\r\n", true, false, false, false};
static const family plain_qwen2 = {MICA__LETTER, 1, "\r\n", false, false, false, false};
static const family seed_coder = {MICA__LETTER, 1, "", true, false, false, true};
static const family o200k = {MICA__LETTER | MICA__MARK, 3, "\r\n/", false, true, true, false};
static const family tekken = {MICA__LETTER | MICA__MARK, 1, "\r\n/", false, true, false, false};

#define UPPER                                                                                      \
    (MICA__BIT(MICA__LU) | MICA__BIT(MICA__LT) | MICA__BIT(MICA__LM) | MICA__BIT(MICA__LO) |       \
     MICA__MARK)
#define LOWER (MICA__BIT(MICA__LL) | MICA__BIT(MICA__LM) | MICA__BIT(MICA__LO) | MICA__MARK)

/* UPPER*LOWER+ from `at`, its end or -1. The run of UPPER gives characters back until one of them
 * is LOWER too; nothing behind that one is. */
static int64_t mixed_word(const char *text, int64_t n, int64_t at)
{
    int64_t end = at, both = -1;
    for (;;) {
        const peek p = look(text, n, end);
        if (!(p.is & UPPER))
            break;
        end = p.next;
        if (p.is & LOWER)
            both = end;
    }
    const int64_t lower = run_end(text, n, end, LOWER);
    return lower > end ? lower : both;
}

/* UPPER+LOWER* from `at`, its end or -1. */
static int64_t upper_word(const char *text, int64_t n, int64_t at)
{
    const int64_t end = run_end(text, n, at, UPPER);
    return end > at ? run_end(text, n, end, LOWER) : -1;
}

static int64_t cased_word(const family *f, const char *text, int64_t n, int64_t at, peek first)
{
    const bool prefix = !(first.is & (MICA__LETTER | MICA__NUMBER)) && !is_newline(first.c);
    int64_t end = prefix ? mixed_word(text, n, first.next) : -1;
    if (end < 0)
        end = mixed_word(text, n, at);
    if (end < 0 && prefix)
        end = upper_word(text, n, first.next);
    if (end < 0)
        end = upper_word(text, n, at);
    return end >= 0 && f->suffix ? contraction(text, n, end, true) : end;
}

static int64_t plain_word(const family *f, const char *text, int64_t n, int64_t at, peek first)
{
    if (first.is & MICA__LETTER)
        return run_end(text, n, first.next, f->letters);
    if (!(first.is & MICA__NUMBER) && !is_newline(first.c)) {
        const int64_t end = run_end(text, n, first.next, f->letters);
        if (end > first.next)
            return end;
    }
    const int64_t end = run_end(text, n, at, f->letters);
    return end > at ? end : -1;
}

static int64_t number_end(const char *text, int64_t n, int64_t at, int most)
{
    for (int i = 0; most == 0 || i < most; i++) {
        const peek p = look(text, n, at);
        if (!(p.is & MICA__NUMBER))
            break;
        at = p.next;
    }
    return at;
}

/* ?[^\s\p{L}\p{N}]+ and the tail, its end or -1; marks count as letters where words take them. */
static int64_t punctuation_end(const family *f, const char *text, int64_t n, peek first, int64_t at)
{
    const uint32_t letters = f->cased ? MICA__LETTER : f->letters;
    const uint32_t others = ~(letters | MICA__NUMBER | MICA__SPACE);
    const int64_t start = first.c == ' ' ? first.next : at;
    int64_t end = run_end(text, n, start, others);
    if (end == start)
        return -1;
    while (end < n && text[end] && strchr(f->tail, text[end]))
        end++;
    return end;
}

static int match_family(const void *pattern, const char *text, int64_t n, int64_t at, int64_t *from,
                        int64_t *to)
{
    const family *f = pattern;
    if (at >= n)
        return 0;
    *from = at;
    if (f->contractions) {
        *to = contraction(text, n, at, true);
        if (*to > at)
            return 1;
    }
    const peek first = look(text, n, at);
    *to = f->cased ? cased_word(f, text, n, at, first) : plain_word(f, text, n, at, first);
    if (*to > at)
        return 1;
    if (first.is & MICA__NUMBER) {
        *to = number_end(text, n, at, f->digits);
        return 1;
    }
    *to = punctuation_end(f, text, n, first, at);
    if (*to < 0)
        *to = white_end(text, n, at, true);
    return 1;
}

/* --- DeepSeek V3: [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
 *      ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+; some characters belong to none --- */

static bool is_ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_ascii_punctuation(uint32_t c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/* The end of the match that starts at `at`, or -1. */
static int64_t deepseek_at(const char *text, int64_t n, int64_t at)
{
    const uint32_t marks = MICA__PUNCTUATION | MICA__SYMBOL;
    const peek first = look(text, n, at);
    if (is_ascii_punctuation(first.c) && at + 1 < n && is_ascii_letter(text[at + 1])) {
        int64_t end = at + 2;
        while (end < n && is_ascii_letter(text[end]))
            end++;
        return end;
    }
    if (!(first.is & (MICA__LETTER | marks)) && !is_newline(first.c)) {
        const int64_t end = run_end(text, n, first.next, MICA__LETTER | MICA__MARK);
        if (end > first.next)
            return end;
    }
    if (first.is & (MICA__LETTER | MICA__MARK))
        return run_end(text, n, first.next, MICA__LETTER | MICA__MARK);
    const int64_t start = first.c == ' ' ? first.next : at;
    int64_t end = run_end(text, n, start, marks);
    if (end > start) {
        while (end < n && is_newline((uint8_t)text[end]))
            end++;
        return end;
    }
    return first.is & MICA__SPACE ? white_end(text, n, at, true) : -1;
}

static int match_deepseek_v3(const void *pattern, const char *text, int64_t n, int64_t at,
                             int64_t *from, int64_t *to)
{
    (void)pattern;
    while (at < n) {
        *from = at;
        *to = deepseek_at(text, n, at);
        if (*to >= 0)
            return 1;
        at = look(text, n, at).next;
    }
    return 0;
}

/* --- runs of one class: [class]{least,most}, with a white character or a space before it --- */

typedef struct range {
    uint32_t first, last;
} range;

typedef struct run {
    uint32_t categories;
    const range *ranges; /* ascending */
    int n_ranges;
    int least, most; /* most 0: any */
    bool negated;
    enum { NOTHING_BEFORE, SPACE_BEFORE, WHITE_BEFORE } before;
} run;

static bool in_class(const run *r, peek p)
{
    if (!p.is)
        return false;
    bool in = (p.is & r->categories) != 0;
    int low = 0, high = r->n_ranges;
    while (!in && low < high) {
        const int middle = (low + high) / 2;
        if (p.c > r->ranges[middle].last)
            low = middle + 1;
        else if (p.c < r->ranges[middle].first)
            high = middle;
        else
            in = true;
    }
    return in != r->negated;
}

/* Takes the run that starts at `at`: its end; *count its characters. */
static int64_t take_run(const run *r, const char *text, int64_t n, int64_t at, int *count)
{
    for (*count = 0; r->most == 0 || *count < r->most; ++*count) {
        const peek p = look(text, n, at);
        if (!in_class(r, p))
            break;
        at = p.next;
    }
    return at;
}

static int match_run(const void *pattern, const char *text, int64_t n, int64_t at, int64_t *from,
                     int64_t *to)
{
    const run *r = pattern;
    int count;
    while (at < n) {
        const peek p = look(text, n, at);
        const bool before = (r->before == SPACE_BEFORE && p.c == ' ') ||
                            (r->before == WHITE_BEFORE && (p.is & MICA__SPACE));
        *from = at;
        if (before) {
            *to = take_run(r, text, n, p.next, &count);
            if (count >= r->least)
                return 1;
        }
        *to = take_run(r, text, n, at, &count);
        if (count >= r->least)
            return 1;
        at = *to > p.next ? *to : p.next;
    }
    return 0;
}

/* \s+$, where $ is before a line end or at the end of the text: from a run of white space it takes
 * all when the text ends there, else what stands before its last line end. */
static int match_trailing_white(const void *pattern, const char *text, int64_t n, int64_t at,
                                int64_t *from, int64_t *to)
{
    (void)pattern;
    while (at < n) {
        int64_t end = at, last_line_end = at;
        peek p = look(text, n, at);
        const int64_t next = p.next;
        for (; p.is & MICA__SPACE; p = look(text, n, end)) {
            if (p.c == '\n')
                last_line_end = end;
            end = p.next;
        }
        *from = at;
        *to = end == n ? n : last_line_end;
        if (*to > at && end > at)
            return 1;
        at = end > next ? end : next;
    }
    return 0;
}

#define RANGES(list) list, (int)(sizeof(list) / sizeof((list)[0]))

static const range newlines[] = {{'\n', '\n'}, {'\r', '\r'}};
static const range ascii_digits[] = {{'0', '9'}};
static const range ascii_marks[] = {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
/* $ + < = > ^ | ~ and, in falcon's, the grave accent */
static const range falcon_marks[] = {{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'},
                                     {'`', '`'}, {'|', '|'}, {'~', '~'}};
static const range default_marks[] = {{'$', '$'}, {'+', '+'}, {'<', '>'},
                                      {'^', '^'}, {'|', '|'}, {'~', '~'}};
static const range east_asian[] = {{0x800, 0x9fa5}, {0xac00, 0xd7ff}};
static const range kana_and_han[] = {{0x3040, 0x30ff}, {0x4e00, 0x9fa5}};
static const range deepseek_marks[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201f},
                                       {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}};
static const range bloom_marks[] = {{'!', '!'},       {'(', ')'},       {',', ','},
                                    {'.', '.'},       {'?', '?'},       {'|', '|'},
                                    {0x60c, 0x60c},   {0x6d4, 0x6d4},   {0x964, 0x964},
                                    {0x2026, 0x2026}, {0x3001, 0x3002}, {0xff0c, 0xff0c}};

/* The letters with case, as DeepSeek's first models list them. */
static const range deepseek_letters[] = {
    {0x41, 0x5a},       {0x61, 0x7a},       {0xb5, 0xb5},       {0xc0, 0xd6},
    {0xd8, 0xf6},       {0xf8, 0x1ba},      {0x1bc, 0x1bf},     {0x1c4, 0x293},
    {0x295, 0x2af},     {0x370, 0x373},     {0x376, 0x377},     {0x37b, 0x37d},
    {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},     {0x38c, 0x38c},
    {0x38e, 0x3a1},     {0x3a3, 0x3f5},     {0x3f7, 0x481},     {0x48a, 0x52f},
    {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},
    {0x1c90, 0x1cba},   {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},
    {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},   {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},
    {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},   {0x1f5b, 0x1f5b},
    {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},
    {0x1fd6, 0x1fdb},   {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210a, 0x2113},   {0x2115, 0x2115},
    {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
    {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
    {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},
    {0x2c7e, 0x2ce4},   {0x2ceb, 0x2cee},   {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},
    {0xa680, 0xa69b},   {0xa722, 0xa76f},   {0xa771, 0xa787},   {0xa78b, 0xa78e},
    {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},   {0xff21, 0xff3a},
    {0xff41, 0xff5a},   {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943}};

static const run one_number = {MICA__NUMBER, NULL, 0, 1, 1, false, NOTHING_BEFORE};
static const run three_numbers = {MICA__NUMBER, NULL, 0, 1, 3, false, NOTHING_BEFORE};
static const run numbers = {MICA__NUMBER, NULL, 0, 1, 0, false, NOTHING_BEFORE};
static const run three_digits = {0, RANGES(ascii_digits), 3, 3, false, NOTHING_BEFORE};
static const run one_newline = {0, RANGES(newlines), 1, 1, false, NOTHING_BEFORE};
static const run white_letters = {MICA__LETTER, NULL, 0, 1, 0, false, WHITE_BEFORE};
static const run white_punctuation = {MICA__PUNCTUATION, NULL, 0, 1, 0, false, WHITE_BEFORE};
static const run east_asian_run = {0, RANGES(east_asian), 1, 0, false, NOTHING_BEFORE};
static const run kana_and_han_run = {0, RANGES(kana_and_han), 1, 0, false, NOTHING_BEFORE};
static const run deepseek_letter_run = {0, RANGES(deepseek_letters), 1, 0, false, WHITE_BEFORE};
static const run deepseek_mark_run = {0, RANGES(deepseek_marks), 1, 0, false, WHITE_BEFORE};
static const run falcon_run = {MICA__PUNCTUATION, RANGES(falcon_marks), 1, 0, false,
                               NOTHING_BEFORE};
static const run default_run = {MICA__PUNCTUATION, RANGES(default_marks), 1, 0, false,
                                NOTHING_BEFORE};
static const run bloom_run = {MICA__SPACE, RANGES(bloom_marks), 1, 0, true, SPACE_BEFORE};
static const run not_white = {MICA__SPACE, NULL, 0, 1, 0, true, NOTHING_BEFORE};
static const run one_mark = {MICA__PUNCTUATION, RANGES(ascii_marks), 1, 1, false, NOTHING_BEFORE};
static const run one_white = {MICA__SPACE, NULL, 0, 1, 1, false, NOTHING_BEFORE};

mica__matcher mica__digit_pattern(bool individual)
{
    return (mica__matcher){match_run, individual ? &one_number : &numbers, NULL, false};
}

mica__matcher mica__punctuation_pattern(void)
{
    return (mica__matcher){match_run, &one_mark, NULL, false};
}

mica__matcher mica__whitespace_pattern(void)
{
    return (mica__matcher){match_run, &one_white, NULL, false};
}

/* --- expressions and their splitters ---------------------------------------------------------- */

const char mica__deepseek_letters[] =
    "\\s?[A-Za-z\302\265\303\200-\303\226\303\230-\303\266\303\270-\306\272\306\274-\306\277\307"
    "\204-\312\223\312\225-\312\257\315\260-\315\263\315\266\315\267\315\273-\315\275\315\277\316"
    "\206\316\210-\316\212\316\214\316\216-\316\241\316\243-\317\265\317\267-\322\201\322\212-"
    "\324\257\324\261-\325\226\341\202\240-\341\203\205\341\216\240-\341\217\265\341\217\270-\341"
    "\217\275\341\262\220-\341\262\272\341\262\275-\341\262\277\341\264\200-\341\264\253\341\265"
    "\253-\341\265\267\341\265\271-\341\266\232\341\270\200-\341\274\225\341\274\230-\341\274\235"
    "\341\274\240-\341\275\205\341\275\210-\341\275\215\341\275\220-\341\275\227\341\275\231\341"
    "\275\233\341\275\235\341\275\237-\341\275\275\341\276\200-\341\276\264\341\276\266-\341\276"
    "\274\341\276\276\341\277\202-\341\277\204\341\277\206-\341\277\214\341\277\220-\341\277\223"
    "\341\277\226-\341\277\233\341\277\240-\341\277\254\341\277\262-\341\277\264\341\277\266-\341"
    "\277\274\342\204\202\342\204\207\342\204\212-\342\204\223\342\204\225\342\204\231-\342\204"
    "\235\342\204\244\342\204\246\342\204\250\342\204\252-\342\204\255\342\204\257-\342\204\264"
    "\342\204\271\342\204\274-\342\204\277\342\205\205-\342\205\211\342\205\216\342\206\203\342"
    "\206\204\342\260\200-\342\261\273\342\261\276-\342\263\244\342\263\253-\342\263\256\342\263"
    "\262\342\263\263\352\231\200-\352\231\255\352\232\200-\352\232\233\352\234\242-\352\235\257"
    "\352\235\261-\352\236\207\352\236\213-\352\236\216\352\255\260-\352\256\277\357\254\200-\357"
    "\254\206\357\254\223-\357\254\227\357\274\241-\357\274\272\357\275\201-\357\275\232\360\220"
    "\220\200-\360\220\221\217\360\220\222\260-\360\220\223\223\360\220\223\230-\360\220\223\273"
    "\360\220\262\200-\360\220\262\262\360\220\263\200-\360\220\263\262\360\221\242\240-\360\221"
    "\243\237\360\236\244\200-\360\236\245\203]+";
const char mica__deepseek_marks[] =
    "\\s?[!-/:-~\357\274\201-\357\274\217\357\274\232-\357\275\236\342\200\230-\342\200\237\343"
    "\200\200-\343\200\202]+";

static const struct {
    const char *regex;
    mica__match match;
    const void *pattern;
} known[] = {
    {MICA__RE_GPT2, match_gpt2, NULL},
    /* A white character left over is a piece of its own too. */
    {MICA__RE_GPT2_WORDS, match_gpt2, NULL},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", match_gpt2,
     NULL},
    {MICA__RE_LLAMA3, match_family, &llama3},
    {MICA__RE_QWEN2, match_family, &qwen2},
    {MICA__RE_ANY_DIGIT, match_family, &any_digits},
    {MICA__RE_UFAKZEKA, match_family, &plain_qwen2},
    {MICA__RE_QWEN35, match_family, &qwen35},
    {MICA__RE_BAILING, match_family, &qwen2},
    {MICA__RE_SEED_CODER, match_family, &seed_coder},
    {MICA__RE_O200K, match_family, &o200k},
    {MICA__RE_TEKKEN, match_family, &tekken},
    {MICA__RE_DEEPSEEK3, match_deepseek_v3, NULL},
    {"\\p{N}", match_run, &one_number},
    {"\\p{N}{1,3}", match_run, &three_numbers},
    {"\\p{N}+", match_run, &numbers},
    {"[0-9][0-9][0-9]", match_run, &three_digits},
    {"[\\r\\n]", match_run, &one_newline},
    {"\\s?\\p{L}+", match_run, &white_letters},
    {"\\s?\\p{P}+", match_run, &white_punctuation},
    {"\\s+$", match_trailing_white, NULL},
    {MICA__RE_EAST, match_run, &east_asian_run},
    {MICA__RE_CJK, match_run, &kana_and_han_run},
    {mica__deepseek_marks, match_run, &deepseek_mark_run},
    {mica__deepseek_letters, match_run, &deepseek_letter_run},
    {"[\\p{P}\\$\\+<=>\\^~\\|`]+", match_run, &falcon_run},
    {"[\\p{P}\\$\\+<=>\\^~\\|]+", match_run, &default_run},
    {MICA__RE_BLOOM, match_run, &bloom_run},
    {"\\S+", match_run, &not_white},
};

/* Compares two expressions; a line end may be written as itself or as an escape. */
static bool same_expression(const char *a, const char *b)
{
    for (;;) {
        char x = *a, y = *b;
        if (x == '\\' && (a[1] == 'r' || a[1] == 'n'))
            x = *++a == 'r' ? '\r' : '\n';
        else if (x == '\\' && y == '\\') {
            if (*++a != *++b)
                return false;
            if (!*a)
                return true;
            a++;
            b++;
            continue;
        }
        if (y == '\\' && (b[1] == 'r' || b[1] == 'n'))
            y = *++b == 'r' ? '\r' : '\n';
        if (x != y)
            return false;
        if (!x)
            return true;
        a++;
        b++;
    }
}

bool mica__known_pattern(const char *regex, mica__matcher *matcher)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (same_expression(regex, known[i].regex)) {
            *matcher = (mica__matcher){known[i].match, known[i].pattern, NULL, false};
            return true;
        }
    return false;
}

mica_status mica__regex_pattern(const char *regex, mica__matcher *matcher)
{
    return mica__known_pattern(regex, matcher) ? MICA_OK : mica__pcre_pattern(regex, matcher);
}

/* --- literal text ----------------------------------------------------------------------------- */

typedef struct literal {
    int64_t n;
    char text[];
} literal;

static int match_literal(const void *pattern, const char *text, int64_t n, int64_t at,
                         int64_t *from, int64_t *to)
{
    const literal *l = pattern;
    const char *found = memmem(text + at, (size_t)(n - at), l->text, (size_t)l->n);
    if (!found)
        return 0;
    *from = found - text;
    *to = *from + l->n;
    return 1;
}

mica_status mica__literal_pattern(const char *text, int64_t n, mica__matcher *matcher)
{
    if (n == 0)
        MICA_FAIL(MICA_E_FORMAT, "a pattern of no characters");
    literal *l = mica__alloc(MICA_MEMORY_TEXT, sizeof *l + (size_t)n);
    if (!l)
        return MICA_E_MEMORY;
    l->n = n;
    memcpy(l->text, text, (size_t)n);
    *matcher = (mica__matcher){match_literal, l, mica__free, false};
    return MICA_OK;
}
