/* operand.c - walking over operands of any strides.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/operand.h"

#include <string.h>

int64_t mica__operand_size(const mica__operand *operand)
{
    int64_t size = 1;
    for (int i = 0; i < operand->ndim; i++)
        size *= operand->shape[i];
    return size;
}

bool mica__operand_in_rows(const mica__operand *operand)
{
    const int last = operand->ndim - 1;
    return last < 0 || operand->shape[last] <= 1 || operand->strides[last] == 1;
}

void mica__walk_start(mica__walk *walk, int ndim, const int64_t *shape)
{
    memset(walk, 0, sizeof *walk);
    walk->ndim = ndim;
    walk->size = 1;
    for (int i = 0; i < ndim; i++) {
        walk->shape[i] = shape[i];
        walk->size *= shape[i];
    }
}

void mica__walk_add(mica__walk *walk, const mica__operand *operand)
{
    int64_t *strides = walk->strides[walk->n_operands++];
    const int missing = walk->ndim - operand->ndim;
    for (int i = 0; i < operand->ndim; i++)
        if (operand->shape[i] != 1)
            strides[missing + i] = operand->strides[i];
}

/* Whether axis i + 1 continues axis i in every operand. */
static bool axes_join(const mica__walk *walk, int i)
{
    for (int k = 0; k < walk->n_operands; k++)
        if (walk->strides[k][i] != walk->shape[i + 1] * walk->strides[k][i + 1])
            return false;
    return true;
}

static void drop_axis(mica__walk *walk, int axis)
{
    walk->ndim--;
    for (int i = axis; i < walk->ndim; i++) {
        walk->shape[i] = walk->shape[i + 1];
        for (int k = 0; k < walk->n_operands; k++)
            walk->strides[k][i] = walk->strides[k][i + 1];
    }
}

void mica__walk_merge(mica__walk *walk)
{
    for (int i = walk->ndim - 1; i >= 0; i--)
        if (walk->shape[i] == 1)
            drop_axis(walk, i);
    for (int i = walk->ndim - 2; i >= 0; i--)
        if (axes_join(walk, i)) {
            walk->shape[i + 1] *= walk->shape[i];
            drop_axis(walk, i);
        }
    if (!walk->ndim) {
        walk->ndim = 1;
        walk->shape[0] = 1;
        for (int k = 0; k < walk->n_operands; k++)
            walk->strides[k][0] = 1;
    }
}

void mica__cursor_set(const mica__walk *walk, mica__cursor *cursor, int64_t i)
{
    for (int axis = walk->ndim - 1; axis >= 0; axis--) {
        const int64_t extent = walk->shape[axis] > 0 ? walk->shape[axis] : 1;
        cursor->at[axis] = i % extent;
        i /= extent;
    }
}

void mica__cursor_advance(const mica__walk *walk, mica__cursor *cursor, int64_t n)
{
    int axis = walk->ndim - 1;
    cursor->at[axis] += n;
    while (axis > 0 && cursor->at[axis] >= walk->shape[axis]) {
        cursor->at[axis] = 0;
        cursor->at[--axis]++;
    }
}

int64_t mica__operand_integer(const mica__operand *operand, int64_t offset)
{
    const uint8_t *p = operand->data + offset * mica_dtype_bytes(operand->dtype);
    switch (operand->dtype) {
    case MICA_BOOL:
    case MICA_U8:
        return *p;
    case MICA_I8:
        return (int8_t)*p;
#define CASE(dtype, type)                                                                          \
    case dtype: {                                                                                  \
        type value;                                                                                \
        memcpy(&value, p, sizeof value);                                                           \
        return (int64_t)value;                                                                     \
    }
        CASE(MICA_U16, uint16_t)
        CASE(MICA_U32, uint32_t)
        CASE(MICA_U64, uint64_t)
        CASE(MICA_I16, int16_t)
        CASE(MICA_I32, int32_t)
        CASE(MICA_I64, int64_t)
#undef CASE
    default:
        return 0;
    }
}
