/* qunpack_body.h - stored formats to panels; included once by each level's file.
 *
 * The including file provides
 *     lanes_16_bytes(row, at, out)  16 bytes of each row as 4 vectors of [dword][16 rows]
 *     lanes_u32(row, at)            a dword of each row (any address)
 *     lanes_u16(row, at)            two bytes of each row, zero-extended, nothing else is read
 *     lanes_half(v)                 the f16 in the low half of each dword as f32
 *     lookup(v, table)              each byte (below 16) through a table of 16
 *     fifth_bits(v, j)              bits 4j .. 4j + 3 of each dword as bit 4 of its four bytes
 *     even_odd(in, n, out)          of each 8 of n bytes (a multiple of 32, readable and writable
 * up to the next of 64) the even ones, then the odd ones WIDE_FLIP                     0x80808080
 * where 8-bit codes are signed, else 0 and everything here is arithmetic on dwords that hold four
 * codes of one row. SPDX-License-Identifier: MIT
 */

#define INLINE static inline __attribute__((always_inline))

typedef mica__v64 v64;
typedef mica__v64i v64i;
typedef mica__v64f v64f;

#define NIBBLES 0x0f0f0f0fu

INLINE v64 low_nibbles(v64 x)
{
    return x & NIBBLES;
}

INLINE v64 high_nibbles(v64 x)
{
    return (x >> 4) & NIBBLES;
}

/* 32 codes from 16 bytes: value j in the low, j + 16 in the high nibble. */
INLINE void unpack_nibbles(mica__stream row, int64_t at, v64 *out)
{
    v64 x[4];
    lanes_16_bytes(row, at, x);
    for (int i = 0; i < 4; i++) {
        out[i] = low_nibbles(x[i]);
        out[i + 4] = high_nibbles(x[i]);
    }
}

INLINE void unpack_bytes(mica__stream row, int64_t at, uint32_t flip, v64 *out)
{
    lanes_16_bytes(row, at, out);
    lanes_16_bytes(row, at + 16, out + 4);
    for (int i = 0; i < 8; i++)
        out[i] = out[i] ^ flip;
}

INLINE void add_fifth_bits(v64 high, v64 *out)
{
    for (int j = 0; j < 8; j++)
        out[j] = out[j] | fifth_bits(high, j);
}

/* IQ4 values + 128 and twice the E2M1 values + 12: unsigned. */
static const uint8_t iq4_table[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                      129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t e2m1_table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

INLINE void through_table(const uint8_t *table, uint32_t flip, v64 *out)
{
    for (int i = 0; i < 8; i++)
        out[i] = lookup(out[i], table) ^ flip;
}

INLINE v64f low_half(v64 x)
{
    return lanes_half(x & 0xffffu);
}

INLINE v64f high_half(v64 x)
{
    return lanes_half(x >> 16);
}

INLINE v64f lanes_half_e8m0(v64 e)
{
    /* 2^(e - 128): the two smallest are subnormal. */
    const v64 normal = (e - 1) << 23;
    const v64 subnormal = (e * 0x200000u) + 0x200000u; /* e = 0, 1 */
    const v64 small = (v64)(e < 2);
    return (v64f)((normal & ~small) | (subnormal & small));
}

/* --- GGUF, groups of 32 --- */

INLINE void unpack_32(mica__block_format format, mica__stream row, int64_t at, v64 *code, v64f *d,
                      v64f *m)
{
    switch (format) {
    case MICA__Q4_0:
        *d = low_half(lanes_u32(row, at));
        unpack_nibbles(row, at + 2, code);
        break;
    case MICA__Q4_1: {
        const v64 scales = lanes_u32(row, at);
        *d = low_half(scales);
        *m = high_half(scales);
        unpack_nibbles(row, at + 4, code);
        break;
    }
    case MICA__Q5_0:
        *d = low_half(lanes_u32(row, at));
        unpack_nibbles(row, at + 6, code);
        add_fifth_bits(lanes_u32(row, at + 2), code);
        break;
    case MICA__Q5_1: {
        const v64 scales = lanes_u32(row, at);
        *d = low_half(scales);
        *m = high_half(scales);
        unpack_nibbles(row, at + 8, code);
        add_fifth_bits(lanes_u32(row, at + 4), code);
        break;
    }
    case MICA__Q8_0:
        *d = low_half(lanes_u32(row, at));
        unpack_bytes(row, at + 2, 0x80808080u ^ WIDE_FLIP, code);
        break;
    case MICA__IQ4_NL:
        *d = low_half(lanes_u32(row, at));
        unpack_nibbles(row, at + 2, code);
        through_table(iq4_table, WIDE_FLIP, code);
        break;
    default: /* MXFP4 */
        *d = lanes_half_e8m0(lanes_u32(row, at) & 0xffu);
        unpack_nibbles(row, at + 1, code);
        through_table(e2m1_table, 0, code);
        break;
    }
}

/* --- GGUF, super-blocks --- */

/* Byte i of each dword, zero-extended or as a signed number. */
INLINE v64i byte_of(v64 x, int i)
{
    return (v64i)((x >> (8 * i)) & 0xffu);
}

/* Scales and minima (bytes of four vectors: sub-blocks 4i .. 4i + 3) as the tile wants them. */
INLINE void spread_scales(const v64 *bytes, int n, uint32_t offset, uint32_t keep, v64i *scale)
{
    for (int i = 0; i < n; i++)
        scale[i] = (v64i)((((v64)byte_of(bytes[i / 4], i % 4)) - offset) & keep);
}

INLINE void spread_pairs(const v64 *bytes, int n, v64i *pair)
{
    for (int i = 0; i < n / 2; i++)
        pair[i] = byte_of(bytes[i / 2], i % 2 * 2) | byte_of(bytes[i / 2], i % 2 * 2 + 1) << 16;
}

/* The first 16 bytes of Q4_K and Q5_K: d, dmin and the 6-bit scales and minima of 8 sub-blocks. */
INLINE void unpack_head_k(mica__stream row, int64_t at, int block, mica__qpanel *panel)
{
    v64 head[4], scales[2], mins[2];
    lanes_16_bytes(row, at, head);
    panel->d[block] = low_half(head[0]);
    panel->m[block] = high_half(head[0]);
    scales[0] = head[1] & 0x3f3f3f3fu;
    mins[0] = head[2] & 0x3f3f3f3fu;
    scales[1] = (head[3] & NIBBLES) | ((head[1] >> 2) & 0x30303030u);
    mins[1] = ((head[3] >> 4) & NIBBLES) | ((head[2] >> 2) & 0x30303030u);
    spread_scales(scales, 8, 0, 0xffffu, panel->scale + 8 * block);
    spread_pairs(scales, 8, panel->scale_pair + 4 * block);
    spread_pairs(mins, 8, panel->min_pair + 4 * block);
}

INLINE void unpack_q4_k(mica__stream row, int64_t at, int block, mica__qpanel *panel)
{
    unpack_head_k(row, at, block, panel);
    v64 *code = panel->code + 64 * block;
    for (int i = 0; i < 8; i++) {
        v64 x[4];
        lanes_16_bytes(row, at + 16 + 16 * i, x);
        for (int j = 0; j < 4; j++) {
            code[i / 2 * 16 + i % 2 * 4 + j] = low_nibbles(x[j]);
            code[i / 2 * 16 + i % 2 * 4 + j + 8] = high_nibbles(x[j]);
        }
    }
}

INLINE void unpack_q5_k(mica__stream row, int64_t at, int block, mica__qpanel *panel)
{
    unpack_head_k(row, at, block, panel);
    v64 *code = panel->code + 64 * block;
    v64 fifth[8];
    lanes_16_bytes(row, at + 16, fifth);
    lanes_16_bytes(row, at + 32, fifth + 4);
    for (int i = 0; i < 8; i++) {
        v64 x[4];
        lanes_16_bytes(row, at + 48 + 16 * i, x);
        for (int j = 0; j < 4; j++) {
            const v64 bits = fifth[i % 2 * 4 + j];
            v64 *out = code + i / 2 * 16 + i % 2 * 4 + j;
            out[0] = low_nibbles(x[j]) | (((bits >> (i / 2 * 2)) & 0x01010101u) << 4);
            out[8] = high_nibbles(x[j]) | (((bits >> (i / 2 * 2 + 1)) & 0x01010101u) << 4);
        }
    }
}

INLINE void unpack_q6_k(mica__stream row, int64_t at, int block, mica__qpanel *panel)
{
    v64 x[16], high[8], scales[4];
    lanes_16_bytes(row, at + 192, scales);
    for (int i = 0; i < 16; i++) /* signed bytes */
        panel->scale[16 * block + i] = (v64i)(scales[i / 4] << (24 - 8 * (i % 4))) >> 24;
    panel->d[block] = high_half(lanes_u32(row, at + 206));
    for (int half = 0; half < 2; half++) {
        v64 *code = panel->code + 64 * block + 32 * half;
        for (int i = 0; i < 4; i++)
            lanes_16_bytes(row, at + 64 * half + 16 * i, x + 4 * i);
        lanes_16_bytes(row, at + 128 + 32 * half, high);
        lanes_16_bytes(row, at + 144 + 32 * half, high + 4);
        for (int i = 0; i < 8; i++) {
            code[i] = low_nibbles(x[i]) | ((high[i] << 4) & 0x30303030u);
            code[i + 8] = low_nibbles(x[i + 8]) | ((high[i] << 2) & 0x30303030u);
            code[i + 16] = high_nibbles(x[i]) | (high[i] & 0x30303030u);
            code[i + 24] = high_nibbles(x[i + 8]) | ((high[i] >> 2) & 0x30303030u);
        }
    }
}

/* The 2-bit codes of Q2_K and Q3_K: 32 bytes for 128 values. */
INLINE void unpack_two_bits(mica__stream row, int64_t at, v64 *code)
{
    for (int half = 0; half < 2; half++) {
        v64 x[8];
        lanes_16_bytes(row, at + 32 * half, x);
        lanes_16_bytes(row, at + 32 * half + 16, x + 4);
        for (int part = 0; part < 4; part++)
            for (int i = 0; i < 8; i++)
                code[32 * half + 8 * part + i] = (x[i] >> (2 * part)) & 0x03030303u;
    }
}

INLINE void unpack_q2_k(mica__stream row, int64_t at, int block, mica__qpanel *panel)
{
    v64 head[4], scales[4], mins[4];
    const v64 d = lanes_u32(row, at + 80);
    panel->d[block] = low_half(d);
    panel->m[block] = high_half(d);
    lanes_16_bytes(row, at, head);
    for (int i = 0; i < 4; i++) {
        scales[i] = low_nibbles(head[i]);
        mins[i] = high_nibbles(head[i]);
    }
    spread_scales(scales, 16, 0, 0xffffu, panel->scale + 16 * block);
    spread_pairs(mins, 16, panel->min_pair + 8 * block);
    unpack_two_bits(row, at + 16, panel->code + 64 * block);
}

INLINE void unpack_q3_k(mica__stream row, int64_t at, int block, mica__qpanel *panel)
{
    v64 third[8], scales[4];
    v64 *code = panel->code + 64 * block;
    const v64 a = lanes_u32(row, at + 96), b = lanes_u32(row, at + 100);
    const v64 c = lanes_u32(row, at + 104);
    panel->d[block] = high_half(lanes_u32(row, at + 106));
    scales[0] = low_nibbles(a) | ((c << 4) & 0x30303030u);
    scales[1] = low_nibbles(b) | ((c << 2) & 0x30303030u);
    scales[2] = high_nibbles(a) | (c & 0x30303030u);
    scales[3] = high_nibbles(b) | ((c >> 2) & 0x30303030u);
    spread_scales(scales, 16, 32, 0xffffu, panel->scale + 16 * block);
    unpack_two_bits(row, at + 32, code);
    lanes_16_bytes(row, at, third);
    lanes_16_bytes(row, at + 16, third + 4);
    for (int part = 0; part < 8; part++)
        for (int i = 0; i < 8; i++)
            code[8 * part + i] |= ((third[i] >> part) & 0x01010101u) << 2;
}

INLINE void unpack_iq4_xs(mica__stream row, int64_t at, int block, mica__qpanel *panel)
{
    const v64 head = lanes_u32(row, at), low = lanes_u32(row, at + 4);
    panel->d[block] = low_half(head);
    for (int j = 0; j < 8; j++) {
        const v64 bits = ((low >> (4 * j)) & 15u) | (((head >> (16 + 2 * j)) & 3u) << 4);
        panel->scale[8 * block + j] = (v64i)(bits - 32u);
        v64 *code = panel->code + 64 * block + 8 * j;
        unpack_nibbles(row, at + 8 + 16 * j, code);
        through_table(iq4_table, WIDE_FLIP, code);
    }
}

/* --- MLX --- */

/* 32 codes of `bits` bits from a dense stream that begins at `at`, a multiple of 4 bytes long. */
INLINE void unpack_stream(mica__stream row, int64_t at, int bits, v64 *code)
{
    v64 word[9];
    for (int i = 0; i < bits; i++)
        word[i] = lanes_u32(row, at + 4 * i);
    word[bits] = word[0];
    const uint32_t mask = (1u << bits) - 1;
    for (int j = 0; j < 8; j++) {
        const int first = 4 * bits * j, shift = first % 32;
        v64 t = word[first / 32] >> shift;
        if (shift + 4 * bits > 32)
            t |= word[first / 32 + 1] << (32 - shift);
        code[j] = (t & mask) | ((t << (8 - bits)) & (mask << 8)) |
                  ((t << (2 * (8 - bits))) & (mask << 16)) |
                  ((t << (3 * (8 - bits))) & (mask << 24));
    }
}

/* Two nibbles a byte, the low one first: of 8 values those with even numbers, then the odd ones.
 * Activations stand in the same order (even_odd). */
INLINE void unpack_nibble_stream(mica__stream row, int64_t at, v64 *code)
{
    v64 x[4];
    lanes_16_bytes(row, at, x);
    for (int i = 0; i < 4; i++) {
        code[2 * i] = low_nibbles(x[i]);
        code[2 * i + 1] = high_nibbles(x[i]);
    }
}

INLINE void unpack_mlx_codes(const mica__qweight *w, mica__stream row, int64_t at, v64 *code)
{
    switch (w->bits) {
    case 2:
        unpack_stream(row, at, 2, code);
        break;
    case 3:
        unpack_stream(row, at, 3, code);
        break;
    case 4:
        unpack_nibble_stream(row, at, code);
        break;
    case 5:
        unpack_stream(row, at, 5, code);
        break;
    case 6:
        unpack_stream(row, at, 6, code);
        break;
    default:
        unpack_bytes(row, at, WIDE_FLIP, code);
        break;
    }
}

INLINE v64f mlx_scale(mica_dtype dtype, v64 bits)
{
    return dtype == MICA_F16 ? lanes_half(bits) : (v64f)(bits << 16);
}

/* n scales or biases of each row; those of 16 bits two at a time. */
INLINE void unpack_mlx_scales(mica_dtype dtype, mica__stream row, int64_t n, v64f *out)
{
    if (dtype == MICA_F32) {
        for (int64_t g = 0; g < n; g++)
            out[g] = (v64f)lanes_u32(row, 4 * g);
        return;
    }
    for (int64_t g = 0; g + 1 < n; g += 2) {
        const v64 two = lanes_u32(row, 2 * g);
        out[g] = mlx_scale(dtype, two & 0xffffu);
        out[g + 1] = mlx_scale(dtype, two >> 16);
    }
    if (n % 2)
        out[n - 1] = mlx_scale(dtype, lanes_u16(row, 2 * (n - 1)));
}

INLINE v64 lanes_u8(mica__stream row, int64_t at)
{
    v64 x = {0};
    for (int i = 0; i < 16; i++)
        x[i] = row.base[i * row.step + at];
    return x;
}

static void unpack_mlx(const mica__qweight *w, const mica__qlanes *lanes, int64_t n,
                       mica__qpanel *panel)
{
    const bool affine = w->format == MICA__MLX_AFFINE;
    for (int64_t i = 0; i < n / 32; i++) {
        v64 *code = panel->code + 8 * i;
        unpack_mlx_codes(w, lanes->codes, i * 4 * w->bits, code);
        if (!affine)
            through_table(e2m1_table, 0, code);
    }
    const int64_t groups = n / w->group;
    if (affine) {
        unpack_mlx_scales(w->scales_dtype, lanes->scales, groups, panel->d);
        unpack_mlx_scales(w->scales_dtype, lanes->biases, groups, panel->m);
        return;
    }
    for (int64_t g = 0; g < groups; g++)
        panel->d[g] = lanes_half_e8m0(lanes_u8(lanes->scales, g));
}

/* --- any format --- */

#define UNPACK_32_CASE(format)                                                                     \
    case format:                                                                                   \
        for (int64_t i = 0; i < n / 32; i++)                                                       \
            unpack_32(format, lanes->codes, i *bytes, panel->code + 8 * i, &panel->d[i],           \
                      &panel->m[i]);                                                               \
        break;
#define UNPACK_256_CASE(format, unpack)                                                            \
    case format:                                                                                   \
        for (int64_t i = 0; i < n / 256; i++)                                                      \
            unpack(lanes->codes, i *bytes, (int)i, panel);                                         \
        break;

/* The n values that begin where the lanes point. */
static void unpack_panel(const mica__qweight *w, const mica__qlanes *lanes, int64_t n,
                         mica__qpanel *panel)
{
    const int64_t bytes = mica__block_info_of(w->format)->bytes;
    switch (w->format) {
        UNPACK_32_CASE(MICA__Q4_0)
        UNPACK_32_CASE(MICA__Q4_1)
        UNPACK_32_CASE(MICA__Q5_0)
        UNPACK_32_CASE(MICA__Q5_1)
        UNPACK_32_CASE(MICA__Q8_0)
        UNPACK_32_CASE(MICA__IQ4_NL)
        UNPACK_32_CASE(MICA__MXFP4)
        UNPACK_256_CASE(MICA__Q2_K, unpack_q2_k)
        UNPACK_256_CASE(MICA__Q3_K, unpack_q3_k)
        UNPACK_256_CASE(MICA__Q4_K, unpack_q4_k)
        UNPACK_256_CASE(MICA__Q5_K, unpack_q5_k)
        UNPACK_256_CASE(MICA__Q6_K, unpack_q6_k)
        UNPACK_256_CASE(MICA__IQ4_XS, unpack_iq4_xs)
    default:
        unpack_mlx(w, lanes, n, panel);
        break;
    }
}
