/* json_fuzz.c - any bytes as JSON: the tree and the stream agree, and what is written reads back.
 * SPDX-License-Identifier: MIT
 */
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Visits every node without recursion: siblings, then down the first child that has children. */
static void visit(const mica__json *node, int depth)
{
    for (; node; node = node->next) {
        mica__text out = {.kind = MICA_MEMORY_OTHER};
        if (node->type == MICA__JSON_STRING) {
            mica__json_doc *again;
            mica__json_write_string(&out, node->string, (size_t)node->length);
            if (out.status != MICA_OK ||
                mica__json_parse(out.bytes, (size_t)out.length, 0, &again) != MICA_OK)
                abort();
            const mica__json *root = mica__json_root(again);
            if (root->length != node->length ||
                memcmp(root->string, node->string, (size_t)node->length) != 0)
                abort();
            mica__json_free(again);
        } else if (node->type == MICA__JSON_REAL) {
            mica__json_doc *again;
            mica__json_write_number(&out, node->number);
            if (out.status != MICA_OK ||
                mica__json_parse(out.bytes, (size_t)out.length, 0, &again) != MICA_OK ||
                mica__json_root(again)->number != node->number)
                abort();
            mica__json_free(again);
        }
        mica__text_free(&out);
        if (node->first && depth < 64)
            visit(node->first, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const mica__json_events none = {0};
    mica__json_doc *doc;
    const mica_status tree = mica__json_parse((const char *)data, n, 0, &doc);
    const mica_status stream = mica__json_stream((const char *)data, n, 0, &none, NULL);
    if (tree == MICA_OK && stream != MICA_OK)
        abort();
    visit(mica__json_root(doc), 0);
    mica__json_free(doc);
    return 0;
}
