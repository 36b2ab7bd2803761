/* fmatmul_body.h - float products, rounding of activations and dequantising; included once by each
 * level's file.
 *
 * The including file provides vectors of VL floats, VL = 16, 8 or 4; NV = 16 / VL of them hold the
 * 16 lanes of a dot product:
 *     vf, vi
 *     vf_loadu(p) vf_storeu(p, v) vf_set1(f) vf_zero() vf_fma(a, b, c) vf_mul(a, b) vf_add(a, b)
 *     vf_of(i) vf_bits(i) vi_bits(f)
 *     vi_set1(i) vi_sub(a, b) vi_mul(a, b) vi_and(a, b) vi_max(a, b) vi_min(a, b) vi_largest(a)
 *     vi_round(f)                  to the nearest integer, ties to even
 *     vi_codes(p) vi_store_codes(p, v)  VL unsigned bytes widened; VL integers stored as bytes
 *     vf_load_half(p) vf_load_brain(p)  VL values at any address
 *     lanes_sum(v)                 the tree over NV vectors: i + 8, + 4, + 2, + 1
 *     half_value(h)                f16 bits to float
 *     store_half(p, v)             VL floats rounded to f16
 *     TILE_ROWS, TILE_ACTS, FEW_ROWS    the largest tile; rows at once where one act is given
 *     COLUMN_VECTORS, COLUMN_ACTS       of the x B tile
 * SPDX-License-Identifier: MIT
 */

#define INLINE static inline __attribute__((always_inline))
#define NV     (16 / VL)
#define BLOCK  1024

/* --- dot products over 16 lanes --------------------------------------------------------------- */

typedef struct dot_tile {
    const uint8_t *w[8];       /* rows, of the format the body is made for */
    const float *x[6];         /* rows of activations */
    int64_t n;                 /* values, a multiple of 16 */
    const float (*w_tail)[16]; /* [rows] a last group filled up with zeros, or NULL */
    const float (*x_tail)[16]; /* [acts] */
    float *acc;                /* [acts][stride], rows beside each other */
    int64_t stride;
    int rows; /* how many of the tile's rows are wanted */
} dot_tile;

INLINE vf load_as(mica__block_format format, const uint8_t *row, int64_t i)
{
    if (format == MICA__F16)
        return vf_load_half(row + 2 * i);
    if (format == MICA__BF16)
        return vf_load_brain(row + 2 * i);
    return vf_loadu((const float *)(const void *)(row + 4 * i));
}

/* Products of vector v of each 16 values, over all of them. */
INLINE void dot_part(const dot_tile *t, const int rows, const int acts, mica__block_format format,
                     const int v, vf part[8][6][NV])
{
    vf sum[8][6];
    for (int r = 0; r < rows; r++)
        for (int a = 0; a < acts; a++)
            sum[r][a] = vf_zero();
    for (int64_t i = v * VL; i < t->n; i += 16) {
        vf x[6];
        for (int a = 0; a < acts; a++)
            x[a] = vf_loadu(t->x[a] + i);
        for (int r = 0; r < rows; r++) {
            const vf w = load_as(format, t->w[r], i);
            for (int a = 0; a < acts; a++)
                sum[r][a] = vf_fma(w, x[a], sum[r][a]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int a = 0; a < acts; a++)
            part[r][a][v] = sum[r][a];
}

/* The same for one activation row, all vectors in one pass: the weights come from memory. */
INLINE void dot_single(const dot_tile *t, const int rows, mica__block_format format,
                       vf part[8][6][NV])
{
    vf sum[8][NV];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < NV; v++)
            sum[r][v] = vf_zero();
    for (int64_t i = 0; i < t->n; i += 16)
        for (int v = 0; v < NV; v++) {
            const vf x = vf_loadu(t->x[0] + i + v * VL);
            for (int r = 0; r < rows; r++)
                sum[r][v] = vf_fma(load_as(format, t->w[r], i + v * VL), x, sum[r][v]);
        }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < NV; v++)
            part[r][0][v] = sum[r][v];
}

/* Adds one block of at most 1024 values to the accumulators. Lanes are independent: they may be
 * passed over one vector after the other, which leaves registers for a larger tile. */
INLINE void dot_block(const dot_tile *t, const int rows, const int acts, mica__block_format format)
{
    vf part[8][6][NV];
    if (acts == 1)
        dot_single(t, rows, format, part);
    else
        for (int v = 0; v < NV; v++)
            dot_part(t, rows, acts, format, v, part);
    for (int a = 0; a < acts; a++)
        for (int r = 0; r < rows; r++) {
            for (int v = 0; t->w_tail && v < NV; v++)
                part[r][a][v] = vf_fma(vf_loadu(t->w_tail[r] + v * VL),
                                       vf_loadu(t->x_tail[a] + v * VL), part[r][a][v]);
            const float total = lanes_sum(part[r][a]);
            if (r < t->rows)
                t->acc[a * t->stride + r] += total;
        }
}

#define DOT_FUNCTION(name, format, rows, acts)                                                     \
    static void name##_##acts(const dot_tile *t)                                                   \
    {                                                                                              \
        dot_block(t, rows, acts, format);                                                          \
    }
DOT_FUNCTION(dot_f32, MICA__F32, FEW_ROWS, 1)
DOT_FUNCTION(dot_f32, MICA__F32, TILE_ROWS, 2)
DOT_FUNCTION(dot_f32, MICA__F32, TILE_ROWS, 3)
DOT_FUNCTION(dot_f16, MICA__F16, FEW_ROWS, 1)
DOT_FUNCTION(dot_f16, MICA__F16, TILE_ROWS, 2)
DOT_FUNCTION(dot_f16, MICA__F16, TILE_ROWS, 3)
DOT_FUNCTION(dot_bf16, MICA__BF16, FEW_ROWS, 1)
DOT_FUNCTION(dot_bf16, MICA__BF16, TILE_ROWS, 2)
DOT_FUNCTION(dot_bf16, MICA__BF16, TILE_ROWS, 3)
#if TILE_ACTS == 6
DOT_FUNCTION(dot_f32, MICA__F32, TILE_ROWS, 6)
#define DOTS(name)                                                                                 \
    {                                                                                              \
        name##_1, name##_2, name##_3                                                               \
    }
static void (*const dots[3][4])(const dot_tile *) = {
    {dot_f32_1, dot_f32_2, dot_f32_3, dot_f32_6},
    {dot_f16_1, dot_f16_2, dot_f16_3},
    {dot_bf16_1, dot_bf16_2, dot_bf16_3},
};
#else
static void (*const dots[3][4])(const dot_tile *) = {
    {dot_f32_1, dot_f32_2, dot_f32_3},
    {dot_f16_1, dot_f16_2, dot_f16_3},
    {dot_bf16_1, dot_bf16_2, dot_bf16_3},
};
#endif

/* Half rows are widened while they are read when there are few activation rows; else 16 rows at a
 * time become f32 in scratch and meet all activation rows. Rows in scratch are a line longer than a
 * block, so that they do not share cache sets. */
#define FEW_ACTS     3
#define SCRATCH_ROW  (BLOCK + 16)
#define SCRATCH_ROWS 16

static size_t strip_f32_scratch(const mica__qweight *w)
{
    return w->format == MICA__F32 ? 0 : SCRATCH_ROWS * SCRATCH_ROW * sizeof(float);
}

static void dequantize(const mica__qweight *w, int64_t row, int64_t k0, int64_t n, float *out);

/* Values behind the last multiple of 16: formats with groups have none. */
static void dequantize_tail(const mica__qweight *w, int64_t row, int64_t k0, int64_t n, float *out)
{
    mica__qgroup_dequantize(w, row, k0, n, out);
}

/* One block of up to 16 weight rows. */
typedef struct row_block {
    const uint8_t *row[SCRATCH_ROWS]; /* where the values of the block begin */
    int64_t index[SCRATCH_ROWS];      /* which row of the matrix */
    int rows;
    int source; /* 0 f32, 1 f16, 2 bf16 */
    int64_t k0, n;
    float *acc; /* of the first activation row */
} row_block;

/* The last values of a block, filled up to 16. */
static void tail_of_rows(const mica__strip *strip, const row_block *b, int first, int rows,
                         int at_once, float tail[8][16])
{
    const int64_t even = b->n / 16 * 16;
    memset(tail, 0, (size_t)at_once * sizeof tail[0]);
    for (int i = 0; i < rows; i++)
        dequantize_tail(strip->weight, b->index[first + i], b->k0 + even, b->n - even, tail[i]);
}

/* All activation rows times the rows of a block. */
static void multiply_block(const mica__strip *strip, const row_block *b)
{
    static const int sizes[4] = {1, 2, 3, 6};
    float w_tail[8][16], x_tail[6][16];
    const int64_t even = b->n / 16 * 16;
    for (int a = 0; a < strip->n_acts;) {
        int size = 3;
        while (sizes[size] > strip->n_acts - a || !dots[b->source][size])
            size--;
        dot_tile t = {.n = even, .stride = 16 * strip->n_panels};
        for (int i = 0; i < sizes[size]; i++) {
            t.x[i] = (const float *)strip->acts[a + i] + b->k0;
            memset(x_tail[i], 0, sizeof x_tail[i]);
            memcpy(x_tail[i], t.x[i] + even, (size_t)(b->n - even) * sizeof(float));
        }
        const int at_once = size ? TILE_ROWS : FEW_ROWS;
        for (int r = 0; r < b->rows; r += at_once) {
            t.rows = b->rows - r < at_once ? b->rows - r : at_once;
            t.acc = b->acc + a * t.stride + r;
            for (int i = 0; i < at_once; i++)
                t.w[i] = b->row[i < t.rows ? r + i : r];
            if (even < b->n) {
                tail_of_rows(strip, b, r, t.rows, at_once, w_tail);
                t.w_tail = (const float(*)[16])w_tail;
                t.x_tail = (const float(*)[16])x_tail;
            }
            dots[b->source][size](&t);
        }
        a += sizes[size];
    }
}

static void strip_f32(const mica__strip *strip)
{
    const mica__qweight *w = strip->weight;
    float *values = (float *)(void *)strip->scratch;
    const bool half = w->format == MICA__F16 || w->format == MICA__BF16;
    const bool direct = w->format == MICA__F32 || (half && strip->n_acts <= FEW_ACTS);
    row_block b = {.source = !direct || w->format == MICA__F32 ? 0
                             : w->format == MICA__F16          ? 1
                                                               : 2};
    memset(strip->acc, 0, (size_t)(strip->n_acts * strip->n_panels) * 16 * sizeof(float));
    for (b.k0 = 0; b.k0 < w->k; b.k0 += BLOCK) {
        b.n = w->k - b.k0 < BLOCK ? w->k - b.k0 : BLOCK;
        for (int p = 0; p < strip->n_panels; p++) {
            const mica__panel_rows *rows = &strip->panels[p];
            b.rows = rows->to - rows->from;
            b.acc = strip->acc + 16 * p + rows->from;
            for (int r = 0; r < b.rows; r++) {
                b.index[r] = rows->first + (rows->from + r) * rows->step;
                b.row[r] = w->codes + b.index[r] * w->codes_stride + b.k0 * (half ? 2 : 4);
                if (!direct) {
                    dequantize(w, b.index[r], b.k0, b.n, values + r * SCRATCH_ROW);
                    b.row[r] = (const uint8_t *)(values + r * SCRATCH_ROW);
                }
            }
            multiply_block(strip, &b);
        }
    }
}

/* --- x B: outputs in lanes -------------------------------------------------------------------- */

#define COLUMN_BLOCK 256 /* values of k packed at once: 64 KiB */

/* Rows [0, n_k) of up to 64 columns as f32, filled up with zeros. */
static void pack_columns(const mica__columns *c, int64_t k0, int64_t n_k, float *packed)
{
    const int64_t bytes = c->format == MICA__F32 ? 4 : 2;
    for (int64_t k = 0; k < n_k; k++) {
        const uint8_t *row = c->b + (k0 + k) * c->stride_bytes;
        float *out = packed + k * MICA__STRIP_ROWS;
        int j = 0;
        for (; j + VL <= c->n; j += VL)
            vf_storeu(out + j, load_as(c->format, row, j));
        if (j < c->n) {
            uint8_t rest[64] = {0};
            memcpy(rest, row + j * bytes, (size_t)((c->n - j) * bytes));
            vf_storeu(out + j, load_as(c->format, rest, 0));
        }
    }
}

/* acc += x[k] b[k] in order of k, for COLUMN_VECTORS vectors of outputs. */
INLINE void column_tile(const float *const *x, int64_t k0, int64_t n_k, const float *packed,
                        float *acc, const int acts)
{
    vf sum[COLUMN_ACTS][COLUMN_VECTORS];
    for (int a = 0; a < acts; a++)
        for (int v = 0; v < COLUMN_VECTORS; v++)
            sum[a][v] = vf_loadu(acc + a * MICA__STRIP_ROWS + v * VL);
    for (int64_t k = 0; k < n_k; k++) {
        vf b[COLUMN_VECTORS];
        for (int v = 0; v < COLUMN_VECTORS; v++)
            b[v] = vf_loadu(packed + k * MICA__STRIP_ROWS + v * VL);
        for (int a = 0; a < acts; a++) {
            const vf one = vf_set1(x[a][k0 + k]);
            for (int v = 0; v < COLUMN_VECTORS; v++)
                sum[a][v] = vf_fma(one, b[v], sum[a][v]);
        }
    }
    for (int a = 0; a < acts; a++)
        for (int v = 0; v < COLUMN_VECTORS; v++)
            vf_storeu(acc + a * MICA__STRIP_ROWS + v * VL, sum[a][v]);
}

static void column_tile_1(const float *const *x, int64_t k0, int64_t n_k, const float *packed,
                          float *acc)
{
    column_tile(x, k0, n_k, packed, acc, 1);
}

static void column_tile_most(const float *const *x, int64_t k0, int64_t n_k, const float *packed,
                             float *acc)
{
    column_tile(x, k0, n_k, packed, acc, COLUMN_ACTS);
}

static void columns(const mica__columns *c)
{
    float *packed = (float *)(void *)c->scratch;
    memset(c->acc, 0, (size_t)c->n_acts * MICA__STRIP_ROWS * sizeof(float));
    for (int64_t k0 = 0; k0 < c->k; k0 += COLUMN_BLOCK) {
        const int64_t n_k = c->k - k0 < COLUMN_BLOCK ? c->k - k0 : COLUMN_BLOCK;
        pack_columns(c, k0, n_k, packed);
        for (int a = 0; a < c->n_acts;) {
            const bool most = c->n_acts - a >= COLUMN_ACTS;
            for (int j = 0; j < c->n; j += COLUMN_VECTORS * VL)
                (most ? column_tile_most : column_tile_1)((const float *const *)c->acts + a, k0,
                                                          n_k, packed + j,
                                                          c->acc + a * MICA__STRIP_ROWS + j);
            a += most ? COLUMN_ACTS : 1;
        }
    }
}

/* --- rounding activations --------------------------------------------------------------------- */

static void quantize_group(const float *x, int64_t group, int8_t *codes, float *scale,
                           int16_t *sums)
{
    vi most = vi_set1(0);
    for (int64_t i = 0; i < group; i += VL)
        most = vi_max(most, vi_and(vi_bits(vf_loadu(x + i)), vi_set1(0x7fffffff)));
    const float amax = mica__f32_from_bits((uint32_t)vi_largest(most));
    const bool finite = amax <= 3.40282347e38f;
    const bool any = finite && amax >= MICA__ACT8_MIN;
    *scale = !finite ? NAN : any ? amax / 127.0f : 0.0f;
    if (!any) {
        memset(codes, 0, (size_t)group);
        memset(sums, 0, (size_t)(group / 16) * sizeof *sums);
        return;
    }
    const vf inverse = vf_set1(127.0f / amax);
    for (int64_t i = 0; i < group; i += 16) {
        vi total = vi_set1(0);
        for (int v = 0; v < NV; v++) {
            vi code = vi_round(vf_mul(vf_loadu(x + i + v * VL), inverse));
            code = vi_max(vi_min(code, vi_set1(127)), vi_set1(-127));
            vi_store_codes(codes + i + v * VL, code);
            total = vi_add(total, code);
        }
        sums[i / 16] = (int16_t)vi_sum(total);
    }
}

static void quantize_row(const float *x, int64_t k, int64_t group, uint8_t *row)
{
    const int64_t codes_bytes = mica__act8_codes_bytes(k);
    const int64_t scales_bytes = mica__act8_scales_bytes(k, group);
    const int64_t sums_bytes = mica__act8_row_bytes(k, group) - codes_bytes - scales_bytes;
    int8_t *codes = (int8_t *)row;
    float *scales = mica__act8_scales(row, k);
    int16_t *sums = mica__act8_sums(row, k, group);
    memset(row + k, 0, (size_t)(codes_bytes - k));
    memset(scales + k / group, 0, (size_t)(scales_bytes - k / group * 4));
    memset(sums + k / 16, 0, (size_t)(sums_bytes - k / 16 * 2));
    for (int64_t g = 0; g < k / group; g++)
        quantize_group(x + g * group, group, codes + g * group, &scales[g], sums + g * group / 16);
}

/* --- dequantising ----------------------------------------------------------------------------- */

typedef uint8_t bytes16 __attribute__((vector_size(16)));

INLINE bytes16 load_16(const uint8_t *at)
{
    bytes16 v;
    memcpy(&v, at, sizeof v);
    return v;
}

INLINE void store_16(uint8_t *at, bytes16 v)
{
    memcpy(at, &v, sizeof v);
}

/* 16 codes that share everything: d ((q - offset) scale), or with `addend` added in one rounding.
 */
INLINE void emit_16(const uint8_t *q, int offset, int scale, float d, const float *addend,
                    float *out)
{
    for (int v = 0; v < NV; v++) {
        vi code = vi_sub(vi_codes(q + v * VL), vi_set1(offset));
        if (scale != 1)
            code = vi_mul(code, vi_set1(scale));
        const vf value = vf_of(code);
        vf_storeu(out + v * VL,
                  addend ? vf_fma(value, vf_set1(d), vf_set1(*addend)) : vf_mul(value, vf_set1(d)));
    }
}

static void nibbles_of(const uint8_t *b, uint8_t *q)
{
    const bytes16 x = load_16(b);
    store_16(q, x & 15);
    store_16(q + 16, x >> 4);
}

static void add_fifth(const uint8_t *b, uint8_t *q)
{
    for (int i = 0; i < 4; i++) {
        /* Bit j of the byte to byte j, as 16. */
        uint64_t v = (uint64_t)b[i] * 0x0101010101010101u & 0x8040201008040201u;
        v = (v + 0x7f7f7f7f7f7f7f7fu) >> 3 & 0x1010101010101010u;
        mica__store_u64(q + 8 * i, mica__load_u64(q + 8 * i) | v);
    }
}

static void through_table(const int8_t *table, int add, uint8_t *q, int n)
{
    for (int i = 0; i < n; i++)
        q[i] = (uint8_t)(table[q[i]] + add);
}

/* One block of 32 values. */
static void dequantize_32(mica__block_format format, const uint8_t *b, float *out)
{
    uint8_t q[32];
    int offset = 0;
    float d = half_value(mica__load_u16(b)), m = 0;
    switch (format) {
    case MICA__Q4_0:
        nibbles_of(b + 2, q);
        offset = 8;
        break;
    case MICA__Q4_1:
        nibbles_of(b + 4, q);
        break;
    case MICA__Q5_0:
        nibbles_of(b + 6, q);
        add_fifth(b + 2, q);
        offset = 16;
        break;
    case MICA__Q5_1:
        nibbles_of(b + 8, q);
        add_fifth(b + 4, q);
        break;
    case MICA__Q8_0:
        store_16(q, load_16(b + 2) ^ 0x80);
        store_16(q + 16, load_16(b + 18) ^ 0x80);
        offset = 128;
        break;
    case MICA__IQ4_NL:
        nibbles_of(b + 2, q);
        through_table(mica__iq4_values, 128, q, 32);
        offset = 128;
        break;
    default: /* MXFP4 */
        d = mica__half_e8m0(b[0]);
        nibbles_of(b + 1, q);
        through_table(mica__e2m1_doubled, 12, q, 32);
        offset = 12;
        break;
    }
    const bool has_min = format == MICA__Q4_1 || format == MICA__Q5_1;
    if (has_min)
        m = half_value(mica__load_u16(b + 2));
    for (int i = 0; i < 32; i += 16)
        emit_16(q + i, offset, 1, d, has_min ? &m : NULL, out + i);
}

/* The codes of a super-block as unsigned bytes; returns what they have too much. */
static int super_codes(mica__block_format format, const uint8_t *b, uint8_t *q)
{
    const bool two = format == MICA__Q2_K || format == MICA__Q3_K;
    const uint8_t *low = b + (format == MICA__Q2_K   ? 16
                              : format == MICA__Q3_K ? 32
                              : format == MICA__Q4_K ? 16
                              : format == MICA__Q5_K ? 48
                              : format == MICA__Q6_K ? 0
                                                     : 8);
    for (int i = 0; two && i < 256; i += 16)
        store_16(q + i, load_16(low + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3);
    for (int i = 0; !two && i < 128; i += 16) {
        const bytes16 x = load_16(low + i);
        /* Where the low and the high nibbles of these 16 bytes go. */
        const int at = format == MICA__Q6_K     ? i / 64 * 128 + i % 64
                       : format == MICA__IQ4_XS ? i * 2
                                                : i / 32 * 64 + i % 32;
        const int apart = format == MICA__Q6_K ? 64 : format == MICA__IQ4_XS ? 16 : 32;
        store_16(q + at, x & 15);
        store_16(q + at + apart, x >> 4);
    }
    for (int i = 0; i < 256; i += 16) {
        const bytes16 x = load_16(q + i);
        if (format == MICA__Q3_K)
            store_16(q + i, x | (load_16(b + i % 32) >> (i / 32) & 1) << 2);
        if (format == MICA__Q5_K)
            store_16(q + i, x | (load_16(b + 16 + i % 32) >> (i / 32) & 1) << 4);
        if (format == MICA__Q6_K)
            store_16(q + i, x | (load_16(b + 128 + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3)
                                    << 4);
    }
    if (format == MICA__IQ4_XS)
        through_table(mica__iq4_values, 128, q, 256);
    return format == MICA__Q3_K ? 4 : format == MICA__Q6_K ? 32 : format == MICA__IQ4_XS ? 128 : 0;
}

static void dequantize_256(const mica__qweight *w, int64_t row, int64_t block, float *out)
{
    mica__qgroup g;
    uint8_t q[256];
    const int bytes = mica__block_info_of(w->format)->bytes;
    const uint8_t *b = w->codes + row * w->codes_stride + block * bytes;
    mica__qgroup_scales(w->format, b, &g);
    const int offset = super_codes(w->format, b, q);
    for (int i = 0; i < 256; i += 16) {
        const int sub = i / w->sub;
        const float minimum = -(g.m * (float)g.min[sub]);
        emit_16(q + i, offset, g.scale[sub], g.d, w->form == MICA__FORM_SUPER_MIN ? &minimum : NULL,
                out + i);
    }
}

/* n codes of `bits` bits, n a multiple of 32. */
static void stream_codes(const uint8_t *b, int bits, int64_t n, uint8_t *q)
{
    if (bits == 8) {
        memcpy(q, b, (size_t)n);
        return;
    }
    const uint64_t mask = (1u << bits) - 1;
    for (int64_t i = 0; i < n; i += 8, b += bits, q += 8) {
        uint64_t v = 0;
        memcpy(&v, b, (size_t)bits);
        for (int j = 0; j < 8; j++)
            q[j] = (uint8_t)(v >> (bits * j) & mask);
    }
}

static void dequantize_mlx(const mica__qweight *w, int64_t row, int64_t g, float *out)
{
    uint8_t q[128];
    const uint8_t *scales = w->scales + row * w->scales_stride;
    stream_codes(w->codes + row * w->codes_stride + g * w->group * w->bits / 8, w->bits, w->group,
                 q);
    if (w->format == MICA__MLX_AFFINE) {
        const float d = mica__mlx_scale(w->scales_dtype, scales, g);
        const float m = mica__mlx_scale(w->scales_dtype, w->biases + row * w->biases_stride, g);
        for (int i = 0; i < w->group; i += 16)
            emit_16(q + i, 0, 1, d, &m, out + i);
        return;
    }
    through_table(mica__e2m1_doubled, 12, q, 32);
    for (int i = 0; i < 32; i += 16)
        emit_16(q + i, 12, 1, mica__half_e8m0(scales[g]), NULL, out + i);
}

static void to_f32(mica_dtype dtype, const uint8_t *in, int64_t n, float *out)
{
    const mica__block_format format = dtype == MICA_F16 ? MICA__F16 : MICA__BF16;
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_storeu(out + i, load_as(format, in, i));
    for (; i < n; i++)
        out[i] = dtype == MICA_F16 ? half_value(mica__load_u16(in + 2 * i))
                                   : mica__bf16_to_f32(mica__load_u16(in + 2 * i));
}

static void from_f32(mica_dtype dtype, const float *in, int64_t n, uint8_t *out)
{
    int64_t i = 0;
    for (; dtype == MICA_F16 && i + VL <= n; i += VL)
        store_half(out + 2 * i, vf_loadu(in + i));
    for (; i < n; i++)
        mica__store_u16(out + 2 * i,
                        dtype == MICA_F16 ? mica__f32_to_f16(in[i]) : mica__f32_to_bf16(in[i]));
}

static void dequantize(const mica__qweight *w, int64_t row, int64_t k0, int64_t n, float *out)
{
    const uint8_t *b = w->codes + row * w->codes_stride;
    const mica__block_info *facts = mica__block_info_of(w->format);
    if (w->format == MICA__F16 || w->format == MICA__BF16)
        to_f32(w->format == MICA__F16 ? MICA_F16 : MICA_BF16, b + 2 * k0, n, out);
    else if (w->form == MICA__FORM_NONE)
        mica__qgroup_dequantize(w, row, k0, n, out);
    else if (facts->values == 256)
        for (int64_t i = 0; i < n; i += 256)
            dequantize_256(w, row, (k0 + i) / 256, out + i);
    else if (facts->values == 32)
        for (int64_t i = 0; i < n; i += 32)
            dequantize_32(w->format, b + (k0 + i) / 32 * facts->bytes, out + i);
    else
        for (int64_t i = 0; i < n; i += w->group)
            dequantize_mlx(w, row, (k0 + i) / w->group, out + i);
}

#define FLOAT_LEVEL                                                                                \
    {                                                                                              \
        .quantize_row = quantize_row, .dequantize = dequantize, .strip = strip_f32,                \
        .strip_scratch = strip_f32_scratch, .columns = columns,                                    \
        .columns_scratch = COLUMN_BLOCK * MICA__STRIP_ROWS * sizeof(float), .to_f32 = to_f32,      \
        .from_f32 = from_f32                                                                       \
    }
