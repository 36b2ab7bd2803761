#!/usr/bin/env python3
# make_block_codec.py - block_codec.safetensors: blocks and the values that the `gguf` package decodes from
# them, values and the blocks that it encodes. Needs gguf (0.17 or later), numpy, safetensors from PyPI.
# SPDX-License-Identifier: MIT
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES
from safetensors.numpy import save_file

rng = np.random.default_rng(20250101)
# Where the f16 scales of a block stand.
SCALES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: []}
out = {}
for kind, offsets in SCALES.items():
    values, size = GGML_QUANT_SIZES[kind]
    n = 1024 // values
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for offset in offsets:
        scales = (rng.standard_normal(n) * 10.0 ** rng.uniform(-6, 3, n)).astype(np.float16)
        scales[0] = np.float16(6e-8)  # the smallest subnormal
        blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(n, 2)
    if kind == T.MXFP4:
        blocks[:, 0] = rng.integers(0, 250, n)
        blocks[:4, 0] = [0, 1, 2, 127]
    out[f"decode.{kind.name}.blocks"] = blocks.reshape(-1)
    out[f"decode.{kind.name}.values"] = quants.dequantize(blocks.reshape(1, -1), kind).reshape(-1).astype(np.float32)

rows = [rng.standard_normal(32) * 10.0 ** rng.uniform(-5, 3) for _ in range(24)]
rows += [np.zeros(32), np.full(32, 0.7), np.full(32, -3.0), np.arange(32) - 8.0, np.linspace(-1, 1, 32),
         np.where(np.arange(32) == 5, -1e4, 0.001), rng.integers(-4, 5, 32) * 0.5, np.abs(rng.standard_normal(32))]
x = np.concatenate(rows).astype(np.float32) + np.float32(0)
out["encode.values"] = x
for kind in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.MXFP4, T.BF16):
    out[f"encode.{kind.name}.blocks"] = quants.quantize(x.reshape(1, -1), kind).view(np.uint8).reshape(-1)
out["encode.F16.blocks"] = x.astype(np.float16).view(np.uint8)
save_file(out, sys.argv[1] if len(sys.argv) > 1 else "block_codec.safetensors")
