/* dtype.c - names and sizes of element types.
 * SPDX-License-Identifier: MIT
 */
#include <mica/dtype.h>

const char *mica_dtype_name(mica_dtype dtype)
{
    switch (dtype) {
#define X(name, text, bytes)                                                                       \
    case name:                                                                                     \
        return text;
        MICA_DTYPE_LIST(X)
#undef X
    case MICA_N_DTYPES:
        break;
    }
    return "?";
}

int64_t mica_dtype_bytes(mica_dtype dtype)
{
    switch (dtype) {
#define X(name, text, bytes)                                                                       \
    case name:                                                                                     \
        return bytes;
        MICA_DTYPE_LIST(X)
#undef X
    case MICA_N_DTYPES:
        break;
    }
    return 0;
}
