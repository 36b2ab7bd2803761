/* safetensors_fuzz.c - any bytes as a safetensors file: what opens can be read to its last byte,
 * and its tensors cover the data.
 * SPDX-License-Identifier: MIT
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile uint64_t sum; /* keeps the reads */

static int64_t read_tensor(const mica__safetensors *file, const mica__st_tensor *tensor)
{
    int64_t elements = 1;
    for (int i = 0; i < tensor->n_dims; i++)
        elements = tensor->shape[i] && elements ? elements * tensor->shape[i] : 0;
    if (mica__safetensors_find(file, tensor->name) != tensor ||
        elements * mica__st_type_bytes(tensor->type) != tensor->bytes)
        abort();
    if (tensor->bytes)
        sum += tensor->data[0] + (uint64_t)tensor->data[tensor->bytes - 1];
    return tensor->bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    mica__safetensors *file;
    if (mica__safetensors_open_memory(data, n, &file) != MICA_OK)
        return 0;
    int64_t covered = 8 + (int64_t)mica__load_u64(data);
    for (int64_t i = 0; i < mica__safetensors_n_tensors(file); i++)
        covered += read_tensor(file, mica__safetensors_tensor_at(file, i));
    if (covered != (int64_t)n)
        abort();
    for (int64_t i = 0; i < mica__safetensors_n_metadata(file); i++) {
        const char *key, *value;
        mica__safetensors_metadata_at(file, i, &key, &value);
        if (mica__safetensors_metadata(file, key) != value)
            abort();
        sum += strlen(value);
    }
    mica__safetensors_close(file);
    return 0;
}
