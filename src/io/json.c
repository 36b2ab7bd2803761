/* json.c - a strict JSON scanner, the tree on top of it, and writing.
 *
 * One loop over the bytes with an explicit stack of open containers: input nests as deep as
 * max_depth allows and never on the C stack. The scanner checks the grammar, UTF-8 and surrogate
 * pairs itself and calls back in file order; the tree is one such receiver. Strings without escapes
 * are handed out from the input, others are decoded into a scratch buffer.
 *
 * Invariant of the tree: nodes, strings and indexes lie in chunks that only the document owns, so
 * freeing is one walk over the chunks. Objects with more than INDEX_FROM members carry their
 * members sorted by key: duplicates and look-ups cost n log n and log n whatever the keys are.
 *
 * Why no library: yajl, which was meant to be here, dereferences NULL when its allocator refuses,
 * turns half surrogate pairs into '?', and takes overlong UTF-8 and surrogates as text. With checks
 * for these, for depth, numbers and duplicates around it, nothing of it was left to use.
 * SPDX-License-Identifier: MIT
 */
#include "io/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"

#define DEFAULT_DEPTH 64
#define MAX_DEPTH     100000
#define MAX_NODES     ((int64_t)32 << 20)
#define CHUNK_BYTES   ((size_t)16 << 10)
#define INDEX_FROM    8
#define KIND          MICA_MEMORY_OTHER

/* --- the scanner ------------------------------------------------------------------------------ */

typedef struct scanner {
    const char *start;
    const char *at;
    const char *end;
    const mica__json_events *events;
    void *user;
    char *open; /* [max_depth] '{' or '[' of each open container */
    int depth;
    int max_depth;
    char *scratch; /* the decoded string */
    int64_t scratch_capacity;
} scanner;

/* Fails at a byte, saying where it is. */
static mica_status refuse(const scanner *s, const char *at, const char *what)
{
    int64_t line = 1, column = 1;
    for (const char *p = s->start; p < at; p++) {
        column++;
        if (*p == '\n') {
            line++;
            column = 1;
        }
    }
    return mica__fail(MICA_E_FORMAT, "JSON, byte %lld (line %lld, column %lld): %s",
                      (long long)(at - s->start), (long long)line, (long long)column, what);
}

static void skip_space(scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool is_digit(const scanner *s, const char *p)
{
    return p < s->end && *p >= '0' && *p <= '9';
}

static mica_status scan_number(scanner *s)
{
    const char *p = s->at;
    if (*p == '-')
        p++;
    if (!is_digit(s, p))
        return refuse(s, s->at, "a '-' that no digit follows");
    if (*p == '0' && is_digit(s, p + 1))
        return refuse(s, s->at, "a number with a leading zero");
    while (is_digit(s, p))
        p++;
    if (p < s->end && *p == '.') {
        p++;
        if (!is_digit(s, p))
            return refuse(s, p, "a decimal point that no digit follows");
        while (is_digit(s, p))
            p++;
    }
    if (p < s->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < s->end && (*p == '+' || *p == '-'))
            p++;
        if (!is_digit(s, p))
            return refuse(s, p, "an exponent without digits");
        while (is_digit(s, p))
            p++;
    }
    const char *text = s->at;
    s->at = p;
    return s->events->number ? s->events->number(s->user, text, (size_t)(p - text)) : MICA_OK;
}

/* Length of the well-formed UTF-8 sequence at p, 0 when it is none (RFC 3629: no overlong forms,
 * no surrogates, nothing above U+10FFFF). */
static int utf8_length(const char *p, const char *end)
{
    const unsigned char *u = (const unsigned char *)p;
    const int64_t left = end - p;
    if (u[0] < 0x80)
        return 1;
    if (u[0] < 0xc2 || u[0] > 0xf4)
        return 0;
    const int n = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    if (left < n)
        return 0;
    for (int i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
        (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
        return 0;
    return n;
}

static bool plain_ascii(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Whether all eight bytes are plain ASCII: no quote, backslash, control byte or byte >= 0x80. */
static bool plain_eight(const char *p)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t w;
    memcpy(&w, p, sizeof w);
    const uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
    const uint64_t hit =
        w | ((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
    return !(hit & high);
}

/* Steps over characters that need no decoding. */
static mica_status skip_plain(scanner *s)
{
    for (;;) {
        while (s->end - s->at >= 8 && plain_eight(s->at))
            s->at += 8;
        while (s->at < s->end && plain_ascii((unsigned char)*s->at))
            s->at++;
        if (s->at == s->end || *s->at == '"' || *s->at == '\\')
            return MICA_OK;
        if ((unsigned char)*s->at < 0x20)
            return refuse(s, s->at, "a control character in a string (it must be escaped)");
        const int n = utf8_length(s->at, s->end);
        if (!n)
            return refuse(s, s->at, "bytes that are not UTF-8 in a string");
        s->at += n;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The four hexadecimal digits after \u; -1 when they are not there. */
static int hex_four(const scanner *s, const char *p)
{
    int value = 0;
    if (s->end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static int put_utf8(char *to, int code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3f));
        to[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3f));
    to[2] = (char)(0x80 | (code >> 6 & 0x3f));
    to[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* Decodes the escape at s->at (a backslash) into `to` (at most 4 bytes) and steps over it. */
static mica_status scan_escape(scanner *s, char *to, int *n)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *p = s->at + 1;
    if (p == s->end)
        return refuse(s, s->at, "the text ends inside a string");
    if (*p != 'u') {
        const char *found = *p ? strchr(letters, *p) : NULL;
        if (!found)
            return refuse(s, s->at, "an unknown escape in a string");
        to[0] = values[found - letters];
        *n = 1;
        s->at += 2;
        return MICA_OK;
    }
    int code = hex_four(s, p + 1);
    if (code < 0)
        return refuse(s, s->at, "\\u without four hexadecimal digits");
    p += 5;
    if (code >= 0xd800 && code < 0xe000) {
        const int low = code < 0xdc00 && s->end - p >= 6 && p[0] == '\\' && p[1] == 'u'
                            ? hex_four(s, p + 2)
                            : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse(s, s->at, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    }
    *n = put_utf8(to, code);
    s->at = p;
    return MICA_OK;
}

/* Copies [from, at) behind the first *used bytes of the scratch buffer, with room for 4 more. */
static mica_status keep(scanner *s, const char *from, int64_t *used)
{
    const int64_t n = s->at - from;
    MICA_TRY(mica__grow(KIND, (void **)&s->scratch, 1, *used + n + 4, &s->scratch_capacity));
    memcpy(s->scratch + *used, from, (size_t)n);
    *used += n;
    return MICA_OK;
}

/* Scans the string at s->at (its opening quote). The bytes stay valid until the next string. */
static mica_status scan_string(scanner *s, const char **bytes, size_t *n)
{
    const char *quote = s->at++, *from = s->at;
    int64_t used = 0;
    bool decoded = false;
    for (;;) {
        MICA_TRY(skip_plain(s));
        if (s->at == s->end)
            return refuse(s, quote, "a string that is not closed");
        if (*s->at == '"')
            break;
        MICA_TRY(keep(s, from, &used));
        int escaped = 0;
        MICA_TRY(scan_escape(s, s->scratch + used, &escaped));
        used += escaped;
        from = s->at;
        decoded = true;
    }
    if (decoded) {
        MICA_TRY(keep(s, from, &used));
        *bytes = s->scratch;
        *n = (size_t)used;
    } else {
        *bytes = from;
        *n = (size_t)(s->at - from);
    }
    s->at++;
    return MICA_OK;
}

static mica_status scan_word(scanner *s, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return refuse(s, s->at, "no JSON value starts like this");
    s->at += n;
    return MICA_OK;
}

static mica_status open_container(scanner *s)
{
    if (s->depth == s->max_depth) {
        char what[64];
        snprintf(what, sizeof what, "nesting deeper than %d", s->max_depth);
        return refuse(s, s->at, what);
    }
    const char c = *s->at++;
    s->open[s->depth++] = c;
    mica_status (*event)(void *) = c == '{' ? s->events->start_object : s->events->start_array;
    return event ? event(s->user) : MICA_OK;
}

static mica_status close_container(scanner *s)
{
    s->at++;
    const char c = s->open[--s->depth];
    mica_status (*event)(void *) = c == '{' ? s->events->end_object : s->events->end_array;
    return event ? event(s->user) : MICA_OK;
}

static mica_status scan_key(scanner *s)
{
    const char *bytes;
    size_t n;
    if (s->at == s->end || *s->at != '"')
        return refuse(s, s->at, "expected a key in double quotes");
    MICA_TRY(scan_string(s, &bytes, &n));
    if (s->events->key)
        MICA_TRY(s->events->key(s->user, bytes, n));
    skip_space(s);
    if (s->at == s->end || *s->at != ':')
        return refuse(s, s->at, "expected ':' after a key");
    s->at++;
    skip_space(s);
    return MICA_OK;
}

/* One value, or the start of one: *opened says that a container was entered. */
static mica_status scan_value(scanner *s, bool *opened)
{
    *opened = false;
    if (s->at == s->end)
        return refuse(s, s->at, "the text ends where a value should be");
    switch (*s->at) {
    case '{':
    case '[':
        *opened = true;
        return open_container(s);
    case '"': {
        const char *bytes;
        size_t n;
        MICA_TRY(scan_string(s, &bytes, &n));
        return s->events->string ? s->events->string(s->user, bytes, n) : MICA_OK;
    }
    case 't':
        MICA_TRY(scan_word(s, "true"));
        return s->events->boolean ? s->events->boolean(s->user, true) : MICA_OK;
    case 'f':
        MICA_TRY(scan_word(s, "false"));
        return s->events->boolean ? s->events->boolean(s->user, false) : MICA_OK;
    case 'n':
        MICA_TRY(scan_word(s, "null"));
        return s->events->null ? s->events->null(s->user) : MICA_OK;
    default:
        if (*s->at == '-' || is_digit(s, s->at))
            return scan_number(s);
        return refuse(s, s->at, "no JSON value starts like this");
    }
}

/* After a value: closes containers until another value is due. *more says whether one is. */
static mica_status after_value(scanner *s, bool *more)
{
    while (s->depth > 0) {
        const char kind = s->open[s->depth - 1];
        skip_space(s);
        if (s->at < s->end && *s->at == ',') {
            s->at++;
            skip_space(s);
            *more = true;
            return kind == '{' ? scan_key(s) : MICA_OK;
        }
        if (s->at == s->end || *s->at != (kind == '{' ? '}' : ']'))
            return refuse(s, s->at,
                          kind == '{' ? "expected ',' or '}' in an object"
                                      : "expected ',' or ']' in an array");
        MICA_TRY(close_container(s));
    }
    *more = false;
    return MICA_OK;
}

static mica_status scan_document(scanner *s)
{
    if (s->end - s->at >= 3 && memcmp(s->at, "\xef\xbb\xbf", 3) == 0)
        return refuse(s, s->at, "a byte order mark (save the file as UTF-8 without one)");
    skip_space(s);
    for (bool more = true; more;) {
        bool opened;
        MICA_TRY(scan_value(s, &opened));
        if (opened) {
            const char kind = s->open[s->depth - 1];
            skip_space(s);
            if (s->at == s->end || *s->at != (kind == '{' ? '}' : ']')) {
                if (kind == '{')
                    MICA_TRY(scan_key(s));
                continue;
            }
            MICA_TRY(close_container(s));
        }
        MICA_TRY(after_value(s, &more));
    }
    skip_space(s);
    return s->at == s->end ? MICA_OK : refuse(s, s->at, "bytes after the end of the document");
}

/* Scans bytes[0, n) for whoever has set events and user in *s. */
static mica_status scan(scanner *s, const char *bytes, size_t n, int max_depth)
{
    char small[DEFAULT_DEPTH];
    if (max_depth > MAX_DEPTH)
        MICA_FAIL(MICA_E_ARGUMENT, "a JSON depth limit of %d is over %d", max_depth, MAX_DEPTH);
    s->max_depth = max_depth > 0 ? max_depth : DEFAULT_DEPTH;
    s->start = s->at = n ? bytes : "";
    s->end = s->start + n;
    s->open = s->max_depth <= DEFAULT_DEPTH ? small : mica__alloc(KIND, (size_t)s->max_depth);
    if (!s->open)
        return MICA_E_MEMORY;
    const mica_status status = scan_document(s);
    if (s->open != small)
        mica__free(s->open);
    s->open = NULL;
    mica__free(s->scratch);
    return status;
}

mica_status mica__json_stream(const char *bytes, size_t n, int max_depth,
                              const mica__json_events *events, void *user)
{
    scanner s = {.events = events, .user = user};
    return scan(&s, bytes, n, max_depth);
}

/* --- the tree --------------------------------------------------------------------------------- */

typedef struct chunk {
    struct chunk *next;
    size_t used;
    size_t size; /* of the payload behind this header */
} chunk;

/* Every container node is one of these, so that an object can find its index. */
typedef struct container {
    mica__json node;
    const mica__json **sorted; /* [node.n] members by key, or NULL for few */
    mica__json *last;
    struct container *parent;
} container;

struct mica__json_doc {
    chunk *chunks;
    mica__json *root;
};

typedef struct builder {
    const scanner *scanner; /* says where a refused value is */
    mica__json_doc *doc;
    container *open;
    const char *key;
    int64_t key_length;
    int64_t n_nodes;
} builder;

static void *doc_take(mica__json_doc *doc, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    chunk *c = doc->chunks;
    if (!c || c->size - c->used < bytes) {
        const size_t size = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
        chunk *fresh = mica__alloc(KIND, sizeof(chunk) + 16 + size);
        if (!fresh)
            return NULL;
        *fresh = (chunk){.size = size};
        if (c && size != CHUNK_BYTES) { /* a block of its own goes behind the one being filled */
            fresh->next = c->next;
            c->next = fresh;
        } else {
            fresh->next = c;
            doc->chunks = fresh;
        }
        c = fresh;
    }
    void *memory = (char *)c + (sizeof(chunk) + 15) / 16 * 16 + c->used;
    c->used += bytes;
    return memory;
}

static const char *doc_string(mica__json_doc *doc, const char *bytes, size_t n)
{
    char *copy = doc_take(doc, n + 1);
    if (copy) {
        if (n)
            memcpy(copy, bytes, n);
        copy[n] = '\0';
    }
    return copy;
}

/* Adds a node to the open container, with the pending key. */
static mica_status add_node(builder *b, mica__json_type type, mica__json **added)
{
    const bool holds = type == MICA__JSON_ARRAY || type == MICA__JSON_OBJECT;
    if (++b->n_nodes > MAX_NODES)
        return refuse(b->scanner, b->scanner->at, "too many values in one document");
    const size_t bytes = holds ? sizeof(container) : sizeof(mica__json);
    mica__json *node = doc_take(b->doc, bytes);
    if (!node)
        return MICA_E_MEMORY;
    memset(node, 0, bytes);
    node->type = type;
    node->key = b->key;
    node->key_length = b->key_length;
    b->key = NULL;
    b->key_length = 0;
    if (b->open) {
        if (b->open->last)
            b->open->last->next = node;
        else
            b->open->node.first = node;
        b->open->last = node;
        b->open->node.n++;
    } else {
        b->doc->root = node;
    }
    *added = node;
    return MICA_OK;
}

static mica_status on_null(void *user)
{
    mica__json *node;
    return add_node(user, MICA__JSON_NULL, &node);
}

static mica_status on_boolean(void *user, bool value)
{
    mica__json *node;
    MICA_TRY(add_node(user, MICA__JSON_BOOL, &node));
    node->boolean = value;
    return MICA_OK;
}

static mica_status on_number(void *user, const char *text, size_t n)
{
    mica__json *node;
    MICA_TRY(add_node(user, MICA__JSON_REAL, &node));
    if (mica__parse_i64(text, n, &node->integer)) {
        node->type = MICA__JSON_INTEGER;
        node->number = (double)node->integer;
        return MICA_OK;
    }
    node->integer = 0;
    if (!mica__parse_f64(text, n, &node->number))
        return refuse(((builder *)user)->scanner, text, "a number beyond the range of a double");
    return MICA_OK;
}

static mica_status on_string(void *user, const char *bytes, size_t n)
{
    builder *b = user;
    mica__json *node;
    MICA_TRY(add_node(b, MICA__JSON_STRING, &node));
    node->string = doc_string(b->doc, bytes, n);
    node->length = (int64_t)n;
    return node->string ? MICA_OK : MICA_E_MEMORY;
}

static mica_status on_key(void *user, const char *bytes, size_t n)
{
    builder *b = user;
    b->key = doc_string(b->doc, bytes, n);
    b->key_length = (int64_t)n;
    return b->key ? MICA_OK : MICA_E_MEMORY;
}

static mica_status enter(builder *b, mica__json_type type)
{
    mica__json *node;
    MICA_TRY(add_node(b, type, &node));
    container *entered = (container *)(void *)node;
    entered->parent = b->open;
    b->open = entered;
    return MICA_OK;
}

static mica_status on_start_object(void *user)
{
    return enter(user, MICA__JSON_OBJECT);
}

static mica_status on_start_array(void *user)
{
    return enter(user, MICA__JSON_ARRAY);
}

static mica_status on_end_array(void *user)
{
    builder *b = user;
    b->open = b->open->parent;
    return MICA_OK;
}

/* Any total order of keys will do: by length, then by bytes. */
static int compare_key(const mica__json *member, const char *key, int64_t n)
{
    if (member->key_length != n)
        return member->key_length < n ? -1 : 1;
    return memcmp(member->key, key, (size_t)n);
}

static void sift_down(const mica__json **items, int64_t at, int64_t n)
{
    const mica__json *moved = items[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n &&
            compare_key(items[child], items[child + 1]->key, items[child + 1]->key_length) < 0)
            child++;
        if (compare_key(moved, items[child]->key, items[child]->key_length) >= 0)
            break;
        items[at] = items[child];
    }
    items[at] = moved;
}

/* Heap sort: n log n for any input, no memory. */
static void sort_by_key(const mica__json **items, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        sift_down(items, i, n);
    for (int64_t last = n - 1; last > 0; last--) {
        const mica__json *largest = items[0];
        items[0] = items[last];
        items[last] = largest;
        sift_down(items, 0, last);
    }
}

static mica_status refuse_duplicate(const builder *b, const mica__json *member)
{
    char what[160];
    const int shown = member->key_length < 100 ? (int)member->key_length : 100;
    snprintf(what, sizeof what, "the object that ends here has the key \"%.*s\" twice", shown,
             member->key);
    return refuse(b->scanner, b->scanner->at - 1, what);
}

static mica_status on_end_object(void *user)
{
    builder *b = user;
    container *c = b->open;
    b->open = c->parent;
    if (c->node.n <= INDEX_FROM) {
        for (const mica__json *m = c->node.first; m; m = m->next)
            for (const mica__json *other = m->next; other; other = other->next)
                if (compare_key(m, other->key, other->key_length) == 0)
                    return refuse_duplicate(b, m);
        return MICA_OK;
    }
    c->sorted = doc_take(b->doc, (size_t)c->node.n * sizeof *c->sorted);
    if (!c->sorted)
        return MICA_E_MEMORY;
    int64_t n = 0;
    for (const mica__json *m = c->node.first; m; m = m->next)
        c->sorted[n++] = m;
    sort_by_key(c->sorted, n);
    for (int64_t i = 1; i < n; i++)
        if (compare_key(c->sorted[i - 1], c->sorted[i]->key, c->sorted[i]->key_length) == 0)
            return refuse_duplicate(b, c->sorted[i]);
    return MICA_OK;
}

mica_status mica__json_parse(const char *bytes, size_t n, int max_depth, mica__json_doc **doc)
{
    static const mica__json_events events = {
        .null = on_null,
        .boolean = on_boolean,
        .number = on_number,
        .string = on_string,
        .key = on_key,
        .start_object = on_start_object,
        .end_object = on_end_object,
        .start_array = on_start_array,
        .end_array = on_end_array,
    };
    *doc = NULL;
    builder b = {.doc = mica__alloc_zero(KIND, 1, sizeof(mica__json_doc))};
    if (!b.doc)
        return MICA_E_MEMORY;
    scanner s = {.events = &events, .user = &b};
    b.scanner = &s;
    const mica_status status = scan(&s, bytes, n, max_depth);
    if (status != MICA_OK) {
        mica__json_free(b.doc);
        return status;
    }
    *doc = b.doc;
    return MICA_OK;
}

const mica__json *mica__json_root(const mica__json_doc *doc)
{
    return doc ? doc->root : NULL;
}

void mica__json_free(mica__json_doc *doc)
{
    if (!doc)
        return;
    for (chunk *c = doc->chunks, *next; c; c = next) {
        next = c->next;
        mica__free(c);
    }
    mica__free(doc);
}

const mica__json *mica__json_get(const mica__json *object, const char *key)
{
    if (!object || object->type != MICA__JSON_OBJECT)
        return NULL;
    const int64_t n = (int64_t)strlen(key);
    const container *c = (const container *)(const void *)object;
    if (!c->sorted) {
        for (const mica__json *m = object->first; m; m = m->next)
            if (compare_key(m, key, n) == 0)
                return m;
        return NULL;
    }
    for (int64_t low = 0, high = object->n; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        const int order = compare_key(c->sorted[middle], key, n);
        if (order == 0)
            return c->sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

static mica_status read_all(int file, const char *path, int64_t max_bytes, char **bytes, size_t *n)
{
    struct stat facts;
    if (fstat(file, &facts) != 0)
        MICA_FAIL(MICA_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode))
        MICA_FAIL(MICA_E_IO, "%s: not a regular file", path);
    if (facts.st_size > max_bytes)
        MICA_FAIL(MICA_E_FORMAT, "%s: %lld bytes are over the bound of %lld for this file", path,
                  (long long)facts.st_size, (long long)max_bytes);
    char *memory = mica__alloc(KIND, (size_t)facts.st_size);
    if (!memory)
        return MICA_E_MEMORY;
    size_t have = 0;
    while (have < (size_t)facts.st_size) {
        const ssize_t got = read(file, memory + have, (size_t)facts.st_size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            mica__free(memory);
            MICA_FAIL(MICA_E_IO, "%s: %s", path, strerror(errno));
        }
        if (got == 0)
            break;
        have += (size_t)got;
    }
    *bytes = memory;
    *n = have;
    return MICA_OK;
}

mica_status mica__json_read(const char *path, int64_t max_bytes, mica__json_doc **doc)
{
    *doc = NULL;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        MICA_FAIL(errno == ENOENT ? MICA_E_NOT_FOUND : MICA_E_IO, "%s: %s", path, strerror(errno));
    char *bytes = NULL;
    size_t n = 0;
    mica_status status = read_all(file, path, max_bytes, &bytes, &n);
    close(file);
    if (status != MICA_OK)
        return status;
    status = mica__json_parse(bytes, n, 0, doc);
    mica__free(bytes);
    return status == MICA_OK ? status : mica__fail_at(status, "%s", path);
}

/* --- writing ---------------------------------------------------------------------------------- */

mica_status mica__json_write_string(mica__text *out, const char *bytes, size_t n)
{
    static const char short_for[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *end = bytes + n, *from = bytes, *p = bytes;
    mica__text_add_char(out, '"');
    while (p < end) {
        const int length = plain_ascii((unsigned char)*p) ? 1 : utf8_length(p, end);
        const bool escape = length == 1 && !plain_ascii((unsigned char)*p) && *p != 0x7f;
        if (length && !escape) {
            p += length;
            continue;
        }
        mica__text_add(out, from, (size_t)(p - from));
        const char *found = length && *p ? strchr(short_for, *p) : NULL;
        if (!length)
            mica__text_add_string(out, "\xef\xbf\xbd");
        else if (found)
            mica__text_format(out, "\\%c", letters[found - short_for]);
        else
            mica__text_format(out, "\\u%04x", (unsigned)(unsigned char)*p);
        from = ++p;
    }
    mica__text_add(out, from, (size_t)(p - from));
    return mica__text_add_char(out, '"');
}

mica_status mica__json_write_number(mica__text *out, double value)
{
    char text[MICA__F64_TEXT_BYTES];
    if (value - value != 0)
        return mica__text_add_string(out, "null");
    return mica__text_add(out, text, (size_t)mica__format_f64(text, value));
}
