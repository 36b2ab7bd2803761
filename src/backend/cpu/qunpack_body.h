/* qunpack_body.h - stored formats to panels; included once by each level's file.
 *
 * Works on VL rows at a time, a native vector: the columns of a panel that begin at lane 0, VL, ...
 * The including file provides VL (16, 8 or 4) and
 *     lanes_16_bytes(row, at, out)  16 bytes of each row as 4 vectors of [dword][VL rows]
 *     lanes_u32(row, at)            a dword of each row (any address)
 *     lanes_half(v)                 the f16 in the low half of each dword as f32
 *     lookup(v, table)              each byte (below 16) through a table of 16
 *     fifth_bits(v, j)              bits 4j .. 4j + 3 of each dword as bit 4 of its four bytes
 *     even_odd(in, n, out)          of each 8 of n bytes (a multiple of 32, readable and writable
 * up to the next of 64) the even ones, then the odd ones WIDE_FLIP                     0x80808080
 * where 8-bit codes are signed, else 0 and everything here is arithmetic on dwords that hold four
 * codes of one row.
 * SPDX-License-Identifier: MIT
 */

#define INLINE static inline __attribute__((always_inline))

typedef struct columns_of {
    lanes *code;
    lanes_f *d, *m;
    lanes_i *scale, *scale_pair, *min_pair;
} columns_of;

INLINE columns_of panel_columns(mica__qpanel *panel, int column)
{
    return (columns_of){(lanes *)panel->code + column,         (lanes_f *)panel->d + column,
                        (lanes_f *)panel->m + column,          (lanes_i *)panel->scale + column,
                        (lanes_i *)panel->scale_pair + column, (lanes_i *)panel->min_pair + column};
}

INLINE void put_codes(lanes *to, const lanes *code, int n)
{
    for (int i = 0; i < n; i++)
        to[i * PER_PANEL] = code[i];
}

#define NIBBLES 0x0f0f0f0fu

INLINE lanes low_nibbles(lanes x)
{
    return x & NIBBLES;
}

INLINE lanes high_nibbles(lanes x)
{
    return (x >> 4) & NIBBLES;
}

/* 32 codes from 16 bytes: value j in the low, j + 16 in the high nibble. */
INLINE void unpack_nibbles(mica__stream row, int64_t at, lanes out[8])
{
    lanes x[4];
    lanes_16_bytes(row, at, x);
    for (int i = 0; i < 4; i++) {
        out[i] = low_nibbles(x[i]);
        out[i + 4] = high_nibbles(x[i]);
    }
}

INLINE void unpack_bytes(mica__stream row, int64_t at, uint32_t flip, lanes out[8])
{
    lanes_16_bytes(row, at, out);
    lanes_16_bytes(row, at + 16, out + 4);
    for (int i = 0; i < 8; i++)
        out[i] = out[i] ^ flip;
}

INLINE void add_fifth_bits(lanes high, lanes out[8])
{
    for (int j = 0; j < 8; j++)
        out[j] = out[j] | fifth_bits(high, j);
}

/* IQ4 values + 128 and twice the E2M1 values + 12: unsigned. */
static const uint8_t iq4_table[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                      129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t e2m1_table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

INLINE void through_table(const uint8_t *table, uint32_t flip, lanes out[8])
{
    for (int i = 0; i < 8; i++)
        out[i] = lookup(out[i], table) ^ flip;
}

INLINE lanes_f low_half(lanes x)
{
    return lanes_half(x & 0xffffu);
}

INLINE lanes_f high_half(lanes x)
{
    return lanes_half(x >> 16);
}

INLINE lanes_f lanes_half_e8m0(lanes e)
{
    /* 2^(e - 128): the two smallest are subnormal. */
    const lanes normal = (e - 1) << 23;
    const lanes subnormal = (e * 0x200000u) + 0x200000u; /* e = 0, 1 */
    const lanes small = (lanes)(e < 2);
    return (lanes_f)((normal & ~small) | (subnormal & small));
}

/* --- GGUF, groups of 32 ----------------------------------------------------------------------- */

INLINE void unpack_32(mica__block_format format, mica__stream row, int64_t at, lanes code[8],
                      lanes_f *d, lanes_f *m)
{
    const lanes head = lanes_u32(row, at);
    *d = low_half(head);
    switch (format) {
    case MICA__Q4_0:
        unpack_nibbles(row, at + 2, code);
        break;
    case MICA__Q4_1:
        *m = high_half(head);
        unpack_nibbles(row, at + 4, code);
        break;
    case MICA__Q5_0:
        unpack_nibbles(row, at + 6, code);
        add_fifth_bits(lanes_u32(row, at + 2), code);
        break;
    case MICA__Q5_1:
        *m = high_half(head);
        unpack_nibbles(row, at + 8, code);
        add_fifth_bits(lanes_u32(row, at + 4), code);
        break;
    case MICA__Q8_0:
        unpack_bytes(row, at + 2, 0x80808080u ^ WIDE_FLIP, code);
        break;
    case MICA__IQ4_NL:
        unpack_nibbles(row, at + 2, code);
        through_table(iq4_table, WIDE_FLIP, code);
        break;
    default: /* MXFP4 */
        *d = lanes_half_e8m0(head & 0xffu);
        unpack_nibbles(row, at + 1, code);
        through_table(e2m1_table, 0, code);
        break;
    }
}

INLINE void unpack_block_32(mica__block_format format, mica__stream row, int64_t at, int64_t i,
                            const columns_of *to)
{
    lanes code[8];
    unpack_32(format, row, at, code, &to->d[i * PER_PANEL], &to->m[i * PER_PANEL]);
    put_codes(to->code + 8 * i * PER_PANEL, code, 8);
}

/* --- GGUF, super-blocks ----------------------------------------------------------------------- */

/* Byte i of each dword, zero-extended. */
INLINE lanes_i byte_of(lanes x, int i)
{
    return (lanes_i)((x >> (8 * i)) & 0xffu);
}

/* Scales and minima (bytes of vectors: sub-blocks 4i .. 4i + 3) as the tile wants them. */
INLINE void spread_scales(const lanes *bytes, int n, uint32_t offset, uint32_t keep, lanes_i *scale)
{
    for (int i = 0; i < n; i++)
        scale[i * PER_PANEL] = (lanes_i)(((lanes)byte_of(bytes[i / 4], i % 4) - offset) & keep);
}

INLINE void spread_pairs(const lanes *bytes, int n, lanes_i *pair)
{
    for (int i = 0; i < n / 2; i++)
        pair[i * PER_PANEL] =
            byte_of(bytes[i / 2], i % 2 * 2) | byte_of(bytes[i / 2], i % 2 * 2 + 1) << 16;
}

/* The first 16 bytes of Q4_K and Q5_K: d, dmin and the 6-bit scales and minima of 8 sub-blocks. */
INLINE void unpack_head_k(mica__stream row, int64_t at, int64_t block, const columns_of *to)
{
    lanes head[4], scales[2], mins[2];
    lanes_16_bytes(row, at, head);
    to->d[block * PER_PANEL] = low_half(head[0]);
    to->m[block * PER_PANEL] = high_half(head[0]);
    scales[0] = head[1] & 0x3f3f3f3fu;
    mins[0] = head[2] & 0x3f3f3f3fu;
    scales[1] = (head[3] & NIBBLES) | ((head[1] >> 2) & 0x30303030u);
    mins[1] = ((head[3] >> 4) & NIBBLES) | ((head[2] >> 2) & 0x30303030u);
    spread_scales(scales, 8, 0, 0xffffu, to->scale + 8 * block * PER_PANEL);
    spread_pairs(scales, 8, to->scale_pair + 4 * block * PER_PANEL);
    spread_pairs(mins, 8, to->min_pair + 4 * block * PER_PANEL);
}

INLINE void unpack_q4_k(mica__stream row, int64_t at, int64_t block, const columns_of *to)
{
    unpack_head_k(row, at, block, to);
    lanes *code = to->code + 64 * block * PER_PANEL;
    for (int i = 0; i < 8; i++) {
        lanes x[4];
        lanes_16_bytes(row, at + 16 + 16 * i, x);
        for (int j = 0; j < 4; j++) {
            code[(i / 2 * 16 + i % 2 * 4 + j) * PER_PANEL] = low_nibbles(x[j]);
            code[(i / 2 * 16 + i % 2 * 4 + j + 8) * PER_PANEL] = high_nibbles(x[j]);
        }
    }
}

INLINE void unpack_q5_k(mica__stream row, int64_t at, int64_t block, const columns_of *to)
{
    unpack_head_k(row, at, block, to);
    lanes *code = to->code + 64 * block * PER_PANEL;
    lanes fifth[8];
    lanes_16_bytes(row, at + 16, fifth);
    lanes_16_bytes(row, at + 32, fifth + 4);
    for (int i = 0; i < 8; i++) {
        lanes x[4];
        lanes_16_bytes(row, at + 48 + 16 * i, x);
        for (int j = 0; j < 4; j++) {
            const lanes bits = fifth[i % 2 * 4 + j];
            lanes *out = code + (i / 2 * 16 + i % 2 * 4 + j) * PER_PANEL;
            out[0] = low_nibbles(x[j]) | (((bits >> (i / 2 * 2)) & 0x01010101u) << 4);
            out[8 * PER_PANEL] =
                high_nibbles(x[j]) | (((bits >> (i / 2 * 2 + 1)) & 0x01010101u) << 4);
        }
    }
}

INLINE void unpack_q6_k(mica__stream row, int64_t at, int64_t block, const columns_of *to)
{
    lanes x[16], high[8], scales[4];
    lanes_16_bytes(row, at + 192, scales);
    for (int i = 0; i < 16; i++) /* signed bytes */
        to->scale[(16 * block + i) * PER_PANEL] =
            (lanes_i)(scales[i / 4] << (24 - 8 * (i % 4))) >> 24;
    to->d[block * PER_PANEL] = high_half(lanes_u32(row, at + 206));
    for (int half = 0; half < 2; half++) {
        lanes *code = to->code + (64 * block + 32 * half) * PER_PANEL;
        for (int i = 0; i < 4; i++)
            lanes_16_bytes(row, at + 64 * half + 16 * i, x + 4 * i);
        lanes_16_bytes(row, at + 128 + 32 * half, high);
        lanes_16_bytes(row, at + 144 + 32 * half, high + 4);
        for (int i = 0; i < 8; i++) {
            const lanes h = high[i];
            code[i * PER_PANEL] = low_nibbles(x[i]) | ((h << 4) & 0x30303030u);
            code[(i + 8) * PER_PANEL] = low_nibbles(x[i + 8]) | ((h << 2) & 0x30303030u);
            code[(i + 16) * PER_PANEL] = high_nibbles(x[i]) | (h & 0x30303030u);
            code[(i + 24) * PER_PANEL] = high_nibbles(x[i + 8]) | ((h >> 2) & 0x30303030u);
        }
    }
}

/* The 2-bit codes of Q2_K and Q3_K, 32 bytes for 128 values, and third bits where there are. */
INLINE void unpack_two_bits(mica__stream row, int64_t at, const lanes *third, lanes *code)
{
    for (int half = 0; half < 2; half++) {
        lanes x[8];
        lanes_16_bytes(row, at + 32 * half, x);
        lanes_16_bytes(row, at + 32 * half + 16, x + 4);
        for (int part = 0; part < 4; part++)
            for (int i = 0; i < 8; i++) {
                lanes q = (x[i] >> (2 * part)) & 0x03030303u;
                if (third)
                    q |= ((third[i] >> (4 * half + part)) & 0x01010101u) << 2;
                code[(32 * half + 8 * part + i) * PER_PANEL] = q;
            }
    }
}

INLINE void unpack_q2_k(mica__stream row, int64_t at, int64_t block, const columns_of *to)
{
    lanes head[4], scales[4], mins[4];
    const lanes d = lanes_u32(row, at + 80);
    to->d[block * PER_PANEL] = low_half(d);
    to->m[block * PER_PANEL] = high_half(d);
    lanes_16_bytes(row, at, head);
    for (int i = 0; i < 4; i++) {
        scales[i] = low_nibbles(head[i]);
        mins[i] = high_nibbles(head[i]);
    }
    spread_scales(scales, 16, 0, 0xffffu, to->scale + 16 * block * PER_PANEL);
    spread_pairs(mins, 16, to->min_pair + 8 * block * PER_PANEL);
    unpack_two_bits(row, at + 16, NULL, to->code + 64 * block * PER_PANEL);
}

INLINE void unpack_q3_k(mica__stream row, int64_t at, int64_t block, const columns_of *to)
{
    lanes third[8], scales[4];
    const lanes a = lanes_u32(row, at + 96), b = lanes_u32(row, at + 100);
    const lanes c = lanes_u32(row, at + 104);
    to->d[block * PER_PANEL] = high_half(lanes_u32(row, at + 106));
    scales[0] = low_nibbles(a) | ((c << 4) & 0x30303030u);
    scales[1] = low_nibbles(b) | ((c << 2) & 0x30303030u);
    scales[2] = high_nibbles(a) | (c & 0x30303030u);
    scales[3] = high_nibbles(b) | ((c >> 2) & 0x30303030u);
    spread_scales(scales, 16, 32, 0xffffu, to->scale + 16 * block * PER_PANEL);
    lanes_16_bytes(row, at, third);
    lanes_16_bytes(row, at + 16, third + 4);
    unpack_two_bits(row, at + 32, third, to->code + 64 * block * PER_PANEL);
}

INLINE void unpack_iq4_xs(mica__stream row, int64_t at, int64_t block, const columns_of *to)
{
    const lanes head = lanes_u32(row, at), low = lanes_u32(row, at + 4);
    to->d[block * PER_PANEL] = low_half(head);
    for (int j = 0; j < 8; j++) {
        const lanes bits = ((low >> (4 * j)) & 15u) | (((head >> (16 + 2 * j)) & 3u) << 4);
        to->scale[(8 * block + j) * PER_PANEL] = (lanes_i)(bits - 32u);
        lanes code[8];
        unpack_nibbles(row, at + 8 + 16 * j, code);
        through_table(iq4_table, WIDE_FLIP, code);
        put_codes(to->code + (64 * block + 8 * j) * PER_PANEL, code, 8);
    }
}

/* --- MLX -------------------------------------------------------------------------------------- */

/* 32 codes of `bits` bits from a dense stream that begins at `at`, a multiple of 4 bytes long. */
INLINE void unpack_stream(mica__stream row, int64_t at, int bits, lanes code[8])
{
    lanes word[9];
    for (int i = 0; i < bits; i++)
        word[i] = lanes_u32(row, at + 4 * i);
    word[bits] = word[0];
    const uint32_t mask = (1u << bits) - 1;
    for (int j = 0; j < 8; j++) {
        const int first = 4 * bits * j, shift = first % 32;
        lanes t = word[first / 32] >> shift;
        if (shift + 4 * bits > 32)
            t |= word[first / 32 + 1] << (32 - shift);
        code[j] = (t & mask) | ((t << (8 - bits)) & (mask << 8)) |
                  ((t << (2 * (8 - bits))) & (mask << 16)) |
                  ((t << (3 * (8 - bits))) & (mask << 24));
    }
}

/* Two nibbles a byte, the low one first: of 8 values those with even numbers, then the odd ones.
 * Activations stand in the same order (even_odd). */
INLINE void unpack_nibble_stream(mica__stream row, int64_t at, lanes code[8])
{
    lanes x[4];
    lanes_16_bytes(row, at, x);
    for (int i = 0; i < 4; i++) {
        code[2 * i] = low_nibbles(x[i]);
        code[2 * i + 1] = high_nibbles(x[i]);
    }
}

/* Group i of 32 codes. */
INLINE void unpack_mlx_32(int bits, bool minifloat, mica__stream row, int64_t i, lanes *to)
{
    lanes code[8];
    const int64_t at = i * 4 * bits;
    if (bits == 4)
        unpack_nibble_stream(row, at, code);
    else if (bits == 8)
        unpack_bytes(row, at, WIDE_FLIP, code);
    else
        unpack_stream(row, at, bits, code);
    if (minifloat)
        through_table(e2m1_table, 0, code);
    put_codes(to + 8 * i * PER_PANEL, code, 8);
}

#define UNPACK_MLX_CASE(bits, minifloat)                                                           \
    for (int64_t i = 0; i < n / 32; i++)                                                           \
        unpack_mlx_32(bits, minifloat, row, i, to);                                                \
    break;

static void unpack_mlx_codes(int bits, bool minifloat, mica__stream row, int64_t n, lanes *to)
{
    switch (minifloat ? 0 : bits) {
    case 0:
        UNPACK_MLX_CASE(4, true)
    case 2:
        UNPACK_MLX_CASE(2, false)
    case 3:
        UNPACK_MLX_CASE(3, false)
    case 4:
        UNPACK_MLX_CASE(4, false)
    case 5:
        UNPACK_MLX_CASE(5, false)
    case 6:
        UNPACK_MLX_CASE(6, false)
    default:
        UNPACK_MLX_CASE(8, false)
    }
}

INLINE lanes_f mlx_scale(mica_dtype dtype, lanes bits)
{
    return dtype == MICA_F16 ? lanes_half(bits) : (lanes_f)(bits << 16);
}

/* A u16 or u8 of each row, nothing beside it read. */
INLINE lanes lanes_narrow(mica__stream row, int64_t at, int bytes)
{
    uint32_t v[VL];
    lanes out;
    for (int i = 0; i < VL; i++) {
        const uint8_t *p = row.base + i * row.step + at;
        v[i] = bytes == 2 ? mica__load_u16(p) : *p;
    }
    memcpy(&out, v, sizeof out);
    return out;
}

/* n scales or biases of each row; those of 16 bits two at a time. */
static void unpack_mlx_scales(mica_dtype dtype, mica__stream row, int64_t n, lanes_f *out)
{
    if (dtype == MICA_F32) {
        for (int64_t g = 0; g < n; g++)
            out[g * PER_PANEL] = (lanes_f)lanes_u32(row, 4 * g);
        return;
    }
    for (int64_t g = 0; g + 1 < n; g += 2) {
        const lanes two = lanes_u32(row, 2 * g);
        out[g * PER_PANEL] = mlx_scale(dtype, two & 0xffffu);
        out[(g + 1) * PER_PANEL] = mlx_scale(dtype, two >> 16);
    }
    if (n % 2)
        out[(n - 1) * PER_PANEL] = mlx_scale(dtype, lanes_narrow(row, 2 * (n - 1), 2));
}

static void unpack_mlx(const mica__qweight *w, const mica__qlanes *from, int64_t n,
                       const columns_of *to)
{
    const bool affine = w->format == MICA__MLX_AFFINE;
    const int64_t groups = n / w->group;
    unpack_mlx_codes(w->bits, !affine, from->codes, n, to->code);
    if (affine) {
        unpack_mlx_scales(w->scales_dtype, from->scales, groups, to->d);
        unpack_mlx_scales(w->scales_dtype, from->biases, groups, to->m);
        return;
    }
    for (int64_t g = 0; g < groups; g++)
        to->d[g * PER_PANEL] = lanes_half_e8m0(lanes_narrow(from->scales, g, 1));
}

/* --- any format ------------------------------------------------------------------------------- */

#define UNPACK_32_CASE(format)                                                                     \
    case format:                                                                                   \
        for (int64_t i = 0; i < n / 32; i++)                                                       \
            unpack_block_32(format, from->codes, i *bytes, i, to);                                 \
        break;
#define UNPACK_256_CASE(format, unpack)                                                            \
    case format:                                                                                   \
        for (int64_t i = 0; i < n / 256; i++)                                                      \
            unpack(from->codes, i *bytes, i, to);                                                  \
        break;

/* The n values of VL rows that begin where `from` points. */
static void unpack_columns(const mica__qweight *w, const mica__qlanes *from, int64_t n,
                           const columns_of *to)
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
        unpack_mlx(w, from, n, to);
        break;
    }
}

INLINE mica__stream rows_from(mica__stream row, int first)
{
    return (mica__stream){row.base + first * row.step, row.step};
}

/* The n values of 16 rows. */
static void unpack_panel(const mica__qweight *w, const mica__qlanes *rows, int64_t n,
                         mica__qpanel *panel)
{
    for (int i = 0; i < PER_PANEL; i++) {
        const columns_of to = panel_columns(panel, i);
        mica__qlanes from = {.codes = rows_from(rows->codes, i * VL)};
        if (rows->scales.base)
            from.scales = rows_from(rows->scales, i * VL);
        if (rows->biases.base)
            from.biases = rows_from(rows->biases, i * VL);
        unpack_columns(w, &from, n, &to);
    }
}
