/* gguf_fuzz.c - any bytes as a GGUF file: what opens can be read to its last byte.
 * SPDX-License-Identifier: MIT
 */
#include <stdlib.h>
#include <string.h>

#include "io/block_codec.h"
#include "io/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile uint64_t sum; /* keeps the reads */

static void touch(const void *bytes, int64_t n)
{
    const uint8_t *at = bytes;
    if (n > 0)
        sum += at[0] + (uint64_t)at[n / 2] + at[n - 1];
}

static void read_value(const mica__gguf *gguf, const mica__gguf_value *value)
{
    int64_t integer, at = 0;
    double real;
    mica__gguf_string string;
    touch(value->key.bytes, value->key.length);
    touch(value->data, value->bytes);
    if (value->type == MICA__GGUF_ARRAY && value->n > 0) {
        mica__gguf_element_i64(value, 0, &integer);
        mica__gguf_element_i64(value, value->n - 1, &integer);
        mica__gguf_element_f64(value, value->n - 1, &real);
    }
    int64_t n_strings = 0;
    while (mica__gguf_strings_next(value, &at, &string)) {
        touch(string.bytes, string.length);
        n_strings++;
    }
    if (value->type == MICA__GGUF_ARRAY && value->element_type == MICA__GGUF_STRING &&
        n_strings != value->n)
        abort();
    if (memchr(value->key.bytes, 0, (size_t)value->key.length))
        return; /* cannot be looked up as a C string */
    char *key = malloc((size_t)value->key.length + 1);
    if (!key)
        abort();
    memcpy(key, value->key.bytes, (size_t)value->key.length);
    key[value->key.length] = '\0';
    if (mica__gguf_find(gguf, key) != value)
        abort();
    bool truth;
    mica__gguf_get_i64(gguf, key, &integer);
    mica__gguf_get_f64(gguf, key, &real);
    mica__gguf_get_bool(gguf, key, &truth);
    if (mica__gguf_get_string(gguf, key, &string) == MICA_OK)
        touch(string.bytes, string.length);
    free(key);
}

static void read_tensor(const mica__gguf *gguf, const mica__gguf_tensor *tensor, size_t n)
{
    char name[64];
    float row[4096];
    touch(tensor->data, tensor->bytes);
    const int64_t offset = mica__gguf_offset(gguf, tensor);
    if (offset < 24 || tensor->bytes < 1 || offset + tensor->bytes > (int64_t)n)
        abort();
    memcpy(name, tensor->name.bytes, (size_t)tensor->name.length);
    name[tensor->name.length] = '\0';
    if (mica__gguf_find_tensor(gguf, name) != tensor)
        abort();
    const int64_t k = tensor->n_dims ? tensor->shape[tensor->n_dims - 1] : 1;
    if (k <= 4096)
        mica__block_decode(tensor->format, tensor->data, k, row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    mica__gguf *gguf;
    if (mica__gguf_open_memory(data, n, &gguf) != MICA_OK)
        return 0;
    for (int64_t i = 0; i < mica__gguf_n_values(gguf); i++)
        read_value(gguf, mica__gguf_value_at(gguf, i));
    for (int64_t i = 0; i < mica__gguf_n_tensors(gguf); i++)
        read_tensor(gguf, mica__gguf_tensor_at(gguf, i), n);
    mica__gguf_close(gguf);
    return 0;
}
