/* block_format.c - the table of weight formats.
 * SPDX-License-Identifier: MIT
 */
#include "core/block_format.h"

static const mica__block_info formats[MICA__N_FORMATS] = {
#define X(name, text, id, bytes, values, decoder) [name] = {text, id, bytes, values, decoder},
    MICA__BLOCK_FORMATS(X)
#undef X
        [MICA__MLX_AFFINE] = {"affine", -1, 0, 0, true},
    [MICA__MLX_MXFP4] = {"mxfp4", -1, 0, 0, true},
    [MICA__MLX_MXFP8] = {"mxfp8", -1, 0, 0, true},
    [MICA__MLX_NVFP4] = {"nvfp4", -1, 0, 0, true},
};

const mica__block_info *mica__block_info_of(mica__block_format format)
{
    return &formats[format];
}

mica__block_format mica__block_format_of_ggml(uint32_t ggml_id)
{
    for (int i = 0; i < MICA__N_FORMATS; i++)
        if (formats[i].ggml_id >= 0 && (uint32_t)formats[i].ggml_id == ggml_id)
            return (mica__block_format)i;
    return MICA__N_FORMATS;
}

int64_t mica__block_row_bytes(mica__block_format format, int64_t k)
{
    const mica__block_info *facts = &formats[format];
    int64_t bytes;
    if (!facts->values || k < 0 || k % facts->values ||
        __builtin_mul_overflow(k / facts->values, (int64_t)facts->bytes, &bytes))
        return -1;
    return bytes;
}
