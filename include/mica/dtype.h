/* dtype.h - the element types of arrays, MLX's fourteen.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_DTYPE_H
#define MICA_DTYPE_H

#include <mica/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* At most this many dimensions. */
#define MICA_MAX_DIMS 12

/* Every dtype: enumerator, name, bytes. The order is MLX's. */
#define MICA_DTYPE_LIST(X)                                                                         \
    X(MICA_BOOL, "bool", 1)                                                                        \
    X(MICA_U8, "uint8", 1)                                                                         \
    X(MICA_U16, "uint16", 2)                                                                       \
    X(MICA_U32, "uint32", 4)                                                                       \
    X(MICA_U64, "uint64", 8)                                                                       \
    X(MICA_I8, "int8", 1)                                                                          \
    X(MICA_I16, "int16", 2)                                                                        \
    X(MICA_I32, "int32", 4)                                                                        \
    X(MICA_I64, "int64", 8)                                                                        \
    X(MICA_F16, "float16", 2)                                                                      \
    X(MICA_F32, "float32", 4)                                                                      \
    X(MICA_F64, "float64", 8)                                                                      \
    X(MICA_BF16, "bfloat16", 2)                                                                    \
    X(MICA_C64, "complex64", 8)

typedef enum mica_dtype {
#define X(name, text, bytes) name,
    MICA_DTYPE_LIST(X)
#undef X
        MICA_N_DTYPES
} mica_dtype;

/* "float32", or "?" outside the list. Static storage. */
MICA_API const char *mica_dtype_name(mica_dtype dtype);

/* Bytes of one element; 0 outside the list. */
MICA_API int64_t mica_dtype_bytes(mica_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
