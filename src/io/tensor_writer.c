/* tensor_writer.c - include/mica/io.h's writing half: the streaming writer of safetensors_write.h
 * under public dtypes.
 * SPDX-License-Identifier: MIT
 */
#include <mica/io.h>

#include "io/safetensors_write.h"

/* The type that loads as this dtype; the small floats, which load as bytes, are none. */
static mica__st_type type_of(mica_dtype dtype)
{
    for (int type = 0; type < MICA__N_ST_TYPES; type++)
        if (mica__st_type_dtype((mica__st_type)type) == dtype &&
            (dtype != MICA_U8 || type == MICA__ST_U8))
            return (mica__st_type)type;
    return MICA__N_ST_TYPES;
}

mica_status mica_tensor_writer_open(const char *path, mica_tensor_writer **writer)
{
    *writer = NULL;
    if (!path)
        MICA_FAIL(MICA_E_ARGUMENT, "tensor_writer_open: no path");
    return mica__st_writer_open(path, writer);
}

mica_status mica_tensor_writer_metadata(mica_tensor_writer *writer, const char *key,
                                        const char *value)
{
    return mica__st_put_metadata(writer, key, value);
}

mica_status mica_tensor_writer_declare(mica_tensor_writer *writer, const char *name,
                                       mica_dtype dtype, int n_dims, const int64_t *shape)
{
    const mica__st_type type = type_of(dtype);
    if (type == MICA__N_ST_TYPES)
        MICA_FAIL(MICA_E_ARGUMENT, "tensor %s: %d is no dtype", name, (int)dtype);
    return mica__st_declare(writer, name, type, n_dims, shape);
}

mica_status mica_tensor_writer_write(mica_tensor_writer *writer, const void *bytes, int64_t n)
{
    return mica__st_write(writer, bytes, n);
}

mica_status mica_tensor_writer_finish(mica_tensor_writer *writer)
{
    return mica__st_writer_finish(writer);
}

void mica_tensor_writer_discard(mica_tensor_writer *writer)
{
    mica__st_writer_discard(writer);
}
