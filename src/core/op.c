/* op.c - facts of operations, from ops.def.
 * SPDX-License-Identifier: MIT
 */
#include "core/op.h"

#define UNARY  MICA__CLASS_UNARY
#define BINARY MICA__CLASS_BINARY
#define REDUCE MICA__CLASS_REDUCE
#define VIEW   MICA__CLASS_VIEW
#define CUSTOM MICA__CLASS_CUSTOM

static const mica__op_facts facts[MICA__N_OPS] = {
#define MICA__OP(id, name, class, arity, attrs) [id] = {name, class, arity, sizeof(attrs)},
#include "core/ops.def"
#undef MICA__OP
};

const mica__op_facts *mica__op_facts_of(mica__op op)
{
    return &facts[op];
}

int32_t mica__act8_group(int32_t format, int32_t mlx_group)
{
    const mica__block_info *info = mica__block_info_of((mica__block_format)format);
    if (!info->values)
        return mlx_group;
    return info->values == 256 ? 256 : 32;
}

bool mica__act8_has_product(int32_t format)
{
    if (format == MICA__MLX_AFFINE || format == MICA__MLX_MXFP4)
        return true;
    if (format < 0 || format >= MICA__MLX_AFFINE)
        return false;
    const mica__block_info *info = mica__block_info_of((mica__block_format)format);
    return info->has_decoder && info->values > 1;
}

int64_t mica__kv_layer_bytes(int32_t kv_dtype, int32_t kv_heads, int32_t head_dim,
                             int32_t value_dim)
{
    const int64_t bits[] = {32, 16, 16, 8, 4};
    if (kv_dtype < 0 || kv_dtype > 4 || kv_heads < 1 || head_dim < 1 || value_dim < 1)
        return -1;
    int64_t bytes = 0;
    const int32_t dims[] = {head_dim, value_dim};
    for (int i = 0; i < 2; i++) {
        bytes += 16 * dims[i] * bits[kv_dtype] / 8;
        if (kv_dtype >= 3) {
            const int32_t group = dims[i] < 32 ? dims[i] : 32;
            if (dims[i] % group || group % 8)
                return -1;
            bytes += (int64_t)16 * 2 * (dims[i] / group);
        }
    }
    return bytes * kv_heads;
}
