/* qtile_body.h - panels times activation rows; included once by each level's file.
 *
 * The including file provides vectors of VL outputs, VL = 16, 8 or 4, and
 *     vi, vf                        integer and float vectors
 *     vi_load(p) vi_loadu(p) vi_storeu(p, v) vi_set1(i) vi_add(a, b) vi_mul(a, b)
 *     vi_dot(acc, w, a)             acc + sums of 4 products: w unsigned codes, a signed
 *     vi_dot_wide(acc, w, a)        the same for 8-bit codes (flipped to signed where WIDE_FLIP)
 *     vi_dot_pairs(acc, a, b)       acc + sums of 2 products of i16
 *     vf_load(p) vf_store(p, v) vf_storeu(p, v) vf_set1(f) vf_zero() vf_fma(a, b, c) vf_mul(a, b)
 *     vf_of(i) vf_bits(i)           conversion, reinterpretation
 *     MAX_ACTS                      activation rows of the largest tile: 2, 4 or 6
 *     WIDE_COLUMNS                  1: tiles of two panels pay
 *
 * A tile is `acts` activation rows times `columns` vectors of outputs; both are constants wherever
 * the bodies are instantiated. Columns of one or two panels that stand one after the other.
 * SPDX-License-Identifier: MIT
 */

#define MAX_COLUMNS   (2 * PER_PANEL)
#define MAGIC         12582912.0f /* 1.5 * 2^23: an integer below 2^22 added to its bits */
#define MAGIC_BITS    0x4b400000
#define ACT_DWORD(at) vi_set1((int32_t)mica__load_u32(at))

/* Column c of a vector field of the first of two neighbouring panels. */
INLINE const uint8_t *column_at(const void *field, int c)
{
    return (const uint8_t *)field + (size_t)(c / PER_PANEL) * sizeof(mica__qpanel) +
           (size_t)(c % PER_PANEL) * (VL * 4);
}

typedef struct tile {
    const mica__qpanel *panel;
    const mica__qact *act; /* [acts] */
    int64_t n;             /* values of the stretch */
    int shift;             /* values of a group: 1 << shift */
    float *acc;            /* first output of the first row; rows are stride apart */
    int64_t stride;
} tile;

/* The integer sums of 32 or 16 values: 8 or 4 dot steps. */
#define DOT_STEPS(count, first, dot)                                                               \
    for (int j = 0; j < (count); j++) {                                                            \
        vi w[MAX_COLUMNS];                                                                         \
        for (int c = 0; c < columns; c++)                                                          \
            w[c] = vi_load(column_at(t->panel->code[(first) + j], c));                             \
        for (int a = 0; a < acts; a++) {                                                           \
            const vi x = ACT_DWORD(t->act[a].codes + ((first) + j) * 4);                           \
            for (int c = 0; c < columns; c++)                                                      \
                isum[a][c] = dot(isum[a][c], w[c], x);                                             \
        }                                                                                          \
    }

/* Groups with one scale: acc = fma(sa, fma(d, isum, +0), acc), or with a bias. magic: start values
 * carry MAGIC_BITS and d has at most 22 significant bits. */
INLINE void tile_groups(const tile *t, const int columns, const int acts, const int shift,
                        const bool magic, const bool wide, const bool bias)
{
    vf acc[MAX_ACTS][MAX_COLUMNS];
    for (int a = 0; a < acts; a++)
        for (int c = 0; c < columns; c++)
            acc[a][c] = vf_load(t->acc + a * t->stride + c * VL);
    const int64_t steps = (int64_t)1 << (shift - 5), groups = t->n >> shift;
    for (int64_t g = 0; g < groups; g++) {
        vi isum[MAX_ACTS][MAX_COLUMNS];
        for (int a = 0; a < acts; a++)
            for (int c = 0; c < columns; c++)
                isum[a][c] = vi_set1(t->act[a].start[0][g]);
        for (int64_t s = 0; s < steps; s++) {
            const int64_t first = (g * steps + s) * 8;
            if (wide)
                DOT_STEPS(8, first, vi_dot_wide)
            else
                DOT_STEPS(8, first, vi_dot)
        }
        for (int c = 0; c < columns; c++) {
            const vf d = vf_load(column_at(t->panel->d[g], c));
            const vf back = vf_mul(d, vf_set1(-MAGIC));
            for (int a = 0; a < acts; a++) {
                vf term = magic ? vf_fma(vf_bits(isum[a][c]), d, back)
                                : vf_fma(vf_of(isum[a][c]), d, vf_zero());
                if (bias)
                    term = vf_fma(vf_load(column_at(t->panel->m[g], c)), vf_set1(t->act[a].asum[g]),
                                  term);
                acc[a][c] = vf_fma(vf_set1(t->act[a].scales[g]), term, acc[a][c]);
            }
        }
    }
    for (int a = 0; a < acts; a++)
        for (int c = 0; c < columns; c++)
            vf_store(t->acc + a * t->stride + c * VL, acc[a][c]);
}

/* How a super-block is summed. step: values of one integer sum, which fits 16 bits where `narrow`;
 * there the sums may lack `lift` times the sum of the activations, added for whole sub-blocks. */
typedef struct super_kind {
    int step, sub;
    bool narrow, wide, has_min;
    int lift;
} super_kind;

/* The last step of a super-block, for one tile position. */
INLINE void super_term(const tile *t, const super_kind kind, int64_t block, int a, int c, vi sum)
{
    const int pairs = 128 / kind.sub;
    vi lifted = vi_set1(0), mins = vi_set1(0);
    for (int i = 0; i < pairs && (kind.lift || kind.has_min); i++) {
        const vi asum = vi_set1(t->act[a].pair[block * pairs + i]);
        if (kind.lift)
            lifted = vi_dot_pairs(
                lifted, vi_load(column_at(t->panel->scale_pair[block * pairs + i], c)), asum);
        if (kind.has_min)
            mins = vi_dot_pairs(mins, vi_load(column_at(t->panel->min_pair[block * pairs + i], c)),
                                asum);
    }
    if (kind.lift)
        sum = vi_add(sum, vi_mul(lifted, vi_set1(kind.lift)));
    const vf d = vf_load(column_at(t->panel->d[block], c));
    vf term;
    if (kind.has_min) {
        const vf m = vf_load(column_at(t->panel->m[block], c));
        term = vf_fma(d, vf_of(sum), vf_negative(vf_mul(m, vf_of(mins))));
    } else {
        term = vf_fma(d, vf_of(sum), vf_zero());
    }
    float *acc = t->acc + a * t->stride + c * VL;
    vf_store(acc, vf_fma(vf_set1(t->act[a].scales[block]), term, vf_load(acc)));
}

INLINE void tile_super(const tile *t, const int columns, const int acts, const super_kind kind)
{
    for (int64_t block = 0; block < t->n / 256; block++) {
        vi sum[MAX_ACTS][MAX_COLUMNS];
        for (int a = 0; a < acts; a++)
            for (int c = 0; c < columns; c++)
                sum[a][c] = vi_set1(0);
        for (int s = 0; s < 256 / kind.step; s++) {
            const int64_t value = block * 256 + s * kind.step;
            vi isum[MAX_ACTS][MAX_COLUMNS];
            for (int a = 0; a < acts; a++)
                for (int c = 0; c < columns; c++)
                    isum[a][c] = vi_set1(t->act[a].start[value / 16 % 2][value / 32]);
            if (kind.wide)
                DOT_STEPS(kind.step / 4, value / 4, vi_dot_wide)
            else
                DOT_STEPS(kind.step / 4, value / 4, vi_dot)
            for (int c = 0; c < columns; c++) {
                const vi scale = vi_load(column_at(t->panel->scale[value / kind.sub], c));
                for (int a = 0; a < acts; a++)
                    sum[a][c] = kind.narrow ? vi_dot_pairs(sum[a][c], isum[a][c], scale)
                                            : vi_add(sum[a][c], vi_mul(isum[a][c], scale));
            }
        }
        for (int a = 0; a < acts; a++)
            for (int c = 0; c < columns; c++)
                super_term(t, kind, block, a, c, sum[a][c]);
    }
}

/* The bodies there are. */
typedef enum tile_kind {
    TILE_SCALE, /* f16 scales */
    TILE_SCALE_WIDE,
    TILE_SCALE_ANY, /* scales of any range */
    TILE_BIAS_32,   /* groups of 32 */
    TILE_BIAS,
    TILE_BIAS_WIDE,
    TILE_Q2_K,
    TILE_Q3_K,
    TILE_Q4_K,
    TILE_Q5_K,
    TILE_Q6_K,
    TILE_IQ4_XS,
    N_TILE_KINDS
} tile_kind;

static const super_kind super_kinds[N_TILE_KINDS] = {
    [TILE_Q2_K] = {16, 16, true, false, true, 0},   [TILE_Q3_K] = {16, 16, true, false, false, 0},
    [TILE_Q4_K] = {32, 32, true, false, true, 8},   [TILE_Q5_K] = {16, 32, true, false, true, 16},
    [TILE_Q6_K] = {16, 16, false, false, false, 0}, [TILE_IQ4_XS] = {32, 32, false, true, false, 0},
};

INLINE void tile_of(tile_kind kind, const tile *t, const int columns, const int acts)
{
    switch (kind) {
    case TILE_SCALE:
        tile_groups(t, columns, acts, 5, true, false, false);
        break;
    case TILE_SCALE_WIDE:
        tile_groups(t, columns, acts, 5, true, true, false);
        break;
    case TILE_SCALE_ANY:
        tile_groups(t, columns, acts, 5, false, false, false);
        break;
    case TILE_BIAS_32:
        tile_groups(t, columns, acts, 5, false, false, true);
        break;
    case TILE_BIAS:
        tile_groups(t, columns, acts, t->shift, false, false, true);
        break;
    case TILE_BIAS_WIDE:
        tile_groups(t, columns, acts, t->shift, false, true, true);
        break;
    default:
        tile_super(t, columns, acts, super_kinds[kind]);
        break;
    }
}

/* One function for each body and tile size. */
#define TILE_FUNCTION(kind, columns, acts)                                                         \
    static void kind##_##columns##_##acts(const tile *t)                                           \
    {                                                                                              \
        tile_of(kind, t, (columns)*PER_PANEL, acts);                                               \
    }
#if WIDE_COLUMNS
#define TILE_FUNCTIONS(kind)                                                                       \
    TILE_FUNCTION(kind, 1, 1)                                                                      \
    TILE_FUNCTION(kind, 1, 2)                                                                      \
    TILE_FUNCTION(kind, 1, 4)                                                                      \
    TILE_FUNCTION(kind, 1, 6)                                                                      \
    TILE_FUNCTION(kind, 2, 1)                                                                      \
    TILE_FUNCTION(kind, 2, 2)                                                                      \
    TILE_FUNCTION(kind, 2, 4)                                                                      \
    TILE_FUNCTION(kind, 2, 6)
#define TILE_ROW(kind)                                                                             \
    {                                                                                              \
        {kind##_1_1, kind##_1_2, kind##_1_4, kind##_1_6},                                          \
        {                                                                                          \
            kind##_2_1, kind##_2_2, kind##_2_4, kind##_2_6                                         \
        }                                                                                          \
    }
#elif MAX_ACTS == 4
#define TILE_FUNCTIONS(kind)                                                                       \
    TILE_FUNCTION(kind, 1, 1) TILE_FUNCTION(kind, 1, 2) TILE_FUNCTION(kind, 1, 4)
#define TILE_ROW(kind)                                                                             \
    {                                                                                              \
        {                                                                                          \
            kind##_1_1, kind##_1_2, kind##_1_4                                                     \
        }                                                                                          \
    }
#else
#define TILE_FUNCTIONS(kind) TILE_FUNCTION(kind, 1, 1) TILE_FUNCTION(kind, 1, 2)
#define TILE_ROW(kind)                                                                             \
    {                                                                                              \
        {                                                                                          \
            kind##_1_1, kind##_1_2                                                                 \
        }                                                                                          \
    }
#endif

TILE_FUNCTIONS(TILE_SCALE)
TILE_FUNCTIONS(TILE_SCALE_WIDE)
TILE_FUNCTIONS(TILE_SCALE_ANY)
TILE_FUNCTIONS(TILE_BIAS_32)
TILE_FUNCTIONS(TILE_BIAS)
TILE_FUNCTIONS(TILE_BIAS_WIDE)
TILE_FUNCTIONS(TILE_Q2_K)
TILE_FUNCTIONS(TILE_Q3_K)
TILE_FUNCTIONS(TILE_Q4_K)
TILE_FUNCTIONS(TILE_Q5_K)
TILE_FUNCTIONS(TILE_Q6_K)
TILE_FUNCTIONS(TILE_IQ4_XS)

static void (*const tiles[N_TILE_KINDS][2][4])(const tile *) = {
    [TILE_SCALE] = TILE_ROW(TILE_SCALE),         [TILE_SCALE_WIDE] = TILE_ROW(TILE_SCALE_WIDE),
    [TILE_SCALE_ANY] = TILE_ROW(TILE_SCALE_ANY), [TILE_BIAS_32] = TILE_ROW(TILE_BIAS_32),
    [TILE_BIAS] = TILE_ROW(TILE_BIAS),           [TILE_BIAS_WIDE] = TILE_ROW(TILE_BIAS_WIDE),
    [TILE_Q2_K] = TILE_ROW(TILE_Q2_K),           [TILE_Q3_K] = TILE_ROW(TILE_Q3_K),
    [TILE_Q4_K] = TILE_ROW(TILE_Q4_K),           [TILE_Q5_K] = TILE_ROW(TILE_Q5_K),
    [TILE_Q6_K] = TILE_ROW(TILE_Q6_K),           [TILE_IQ4_XS] = TILE_ROW(TILE_IQ4_XS),
};

/* --- what a format asks of a tile ------------------------------------------------------------- */

typedef struct plan {
    tile_kind kind;
    int offset;    /* what every stored code has too much, in the panel's representation */
    int32_t start; /* added to each start value */
    int shift;     /* values of a group: 1 << shift */
    int64_t scales_at, sums_at;    /* bytes from the start of an act8 row */
    int64_t code_step, scale_step; /* bytes of 256 values of a weight row */
} plan;

static plan kind_of(const mica__qweight *w)
{
    const int wide = WIDE_FLIP ? 0 : 128; /* offset of 8-bit codes whose value is signed */
    switch (w->format) {
    case MICA__Q4_0:
        return (plan){.kind = TILE_SCALE, .offset = 8, .start = MAGIC_BITS};
    case MICA__Q5_0:
        return (plan){.kind = TILE_SCALE, .offset = 16, .start = MAGIC_BITS};
    case MICA__Q8_0:
    case MICA__IQ4_NL:
        return (plan){.kind = TILE_SCALE_WIDE, .offset = wide, .start = MAGIC_BITS};
    case MICA__MXFP4:
    case MICA__MLX_MXFP4:
        return (plan){.kind = TILE_SCALE_ANY, .offset = 12, .start = 0};
    case MICA__Q2_K:
        return (plan){.kind = TILE_Q2_K, .offset = 0, .start = 0};
    case MICA__Q3_K:
        return (plan){.kind = TILE_Q3_K, .offset = 4, .start = 0};
    case MICA__Q4_K:
        return (plan){.kind = TILE_Q4_K, .offset = 8, .start = 0};
    case MICA__Q5_K:
        return (plan){.kind = TILE_Q5_K, .offset = 16, .start = 0};
    case MICA__Q6_K:
        return (plan){.kind = TILE_Q6_K, .offset = 32, .start = 0};
    case MICA__IQ4_XS:
        return (plan){.kind = TILE_IQ4_XS, .offset = wide, .start = 0};
    case MICA__MLX_AFFINE:
        if (w->bits == 8)
            return (plan){.kind = TILE_BIAS_WIDE, .offset = wide - 128, .start = 0};
        return (plan){.kind = TILE_BIAS, .offset = 0, .start = 0};
    default: /* Q4_1, Q5_1 */
        return (plan){.kind = TILE_BIAS_32, .offset = 0, .start = 0};
    }
}

static plan plan_of(const mica__qweight *w)
{
    plan p = kind_of(w);
    p.shift = __builtin_ctz((unsigned)w->group);
    p.scales_at = mica__act8_codes_bytes(w->k);
    p.sums_at = p.scales_at + mica__act8_scales_bytes(w->k, w->group);
    const mica__block_info *facts = mica__block_info_of(w->format);
    p.code_step = facts->values ? 256 / facts->values * facts->bytes : 256 * w->bits / 8;
    p.scale_step = (256 >> p.shift) * mica_dtype_bytes(w->scales_dtype);
    return p;
}

/* Sums of the two halves of 32 codes times two small factors, plus a constant, for a stretch. */
INLINE void weigh_sums(const int16_t (*sums)[2], int64_t n, int first, int second, int32_t start,
                       int32_t *out)
{
    const vi factors = vi_set1((int32_t)((uint32_t)(first & 0xffff) | (uint32_t)second << 16));
    int32_t rest[VL] __attribute__((aligned(64)));
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vi_storeu(out + i, vi_dot_pairs(vi_set1(start), vi_loadu(sums + i), factors));
    for (int64_t j = i; j < n; j++)
        memcpy(&rest[j - i], sums[j], 4);
    if (i < n)
        vi_storeu(out + i, vi_dot_pairs(vi_set1(start), vi_loadu(rest), factors));
}

/* Sums of whole groups of at least 32 codes as floats, and start values from them. */
static void prepare_groups(const plan *p, const int16_t (*sums)[2], int64_t n,
                           const mica__qact *act)
{
    int32_t whole[MICA__PANEL_GROUPS] __attribute__((aligned(64)));
    const int steps = 1 << (p->shift - 5);
    weigh_sums(sums, n, 1, 1, 0, whole);
    for (int64_t i = 0; steps > 1 && i < n / steps; i++) {
        int32_t sum = 0;
        for (int s = 0; s < steps; s++)
            sum += whole[(i << (p->shift - 5)) + s];
        whole[i] = sum;
    }
    for (int64_t i = 0; i < (n + VL - 1) / VL * VL; i += VL) {
        const vi sum = vi_load(whole + i);
        vf_storeu(act->asum + i, vf_of(sum));
        vi_storeu(act->start[0] + i, vi_mul(sum, vi_set1(-p->offset)));
    }
}

/* Sums of neighbouring groups of 32 codes as pairs. */
static void prepare_pairs(const int16_t (*sums)[2], int64_t n, const mica__qact *act)
{
    int32_t whole[MICA__PANEL_GROUPS] __attribute__((aligned(64)));
    weigh_sums(sums, n, 1, 1, 0, whole);
    for (int64_t i = 0; i < n / 2; i++) {
        const uint64_t two = mica__load_u64(whole + 2 * i);
        act->pair[i] = (int32_t)((uint32_t)(two & 0xffff) | (uint32_t)(two >> 32) << 16);
    }
}

/* The same row from `k` values further on. */
INLINE mica__qact act_at(const plan *p, const mica__qact *act, int64_t k)
{
    mica__qact at = *act;
    const int64_t group = k >> p->shift, step = p->shift == 8 ? k >> 5 : group;
    at.codes += k;
    at.scales += group;
    at.start[0] += step;
    at.start[1] += step;
    at.asum += group;
    at.pair += super_kinds[p->kind].sub == 32 ? k >> 6 : k >> 5;
    at.moved += k;
    return at;
}

/* Prepares n <= MICA__PANEL_VALUES values; sums are those of their codes. */
static void prepare_stretch(const mica__qweight *w, const plan *p, const int16_t (*sums)[2],
                            int64_t n, const mica__qact *act)
{
    if (w->form == MICA__FORM_BIAS) {
        prepare_groups(p, sums, n / 32, act);
    } else if (p->shift == 8 && super_kinds[p->kind].step == 16) {
        weigh_sums(sums, n / 32, -p->offset, 0, p->start, act->start[0]);
        weigh_sums(sums, n / 32, 0, -p->offset, p->start, act->start[1]);
    } else {
        weigh_sums(sums, n / 32, -p->offset, -p->offset, p->start, act->start[0]);
    }
    if (w->form == MICA__FORM_SUPER_MIN && w->sub == 16)
        memcpy(act->pair, sums, (size_t)(n / 32) * 4);
    if (w->form == MICA__FORM_SUPER_MIN && w->sub == 32)
        prepare_pairs(sums, n / 32, act);
    if (w->bits == 4)
        even_odd(act->codes, n, act->moved);
}

/* Values [k0, k0 + n) of a row; the arrays of *act are its own already. */
static void prepare_act(const mica__qweight *w, const plan *p, const uint8_t *row, int64_t k0,
                        int64_t n, mica__qact *act)
{
    const int16_t(*sums)[2] = (const int16_t(*)[2])(const void *)(row + p->sums_at) + k0 / 32;
    act->scales = (const float *)(const void *)(row + p->scales_at) + (k0 >> p->shift);
    act->codes = (const int8_t *)row + k0;
    for (int64_t k = 0; k < n; k += MICA__PANEL_VALUES) {
        const mica__qact at = act_at(p, act, k);
        prepare_stretch(w, p, sums + k / 32,
                        n - k < MICA__PANEL_VALUES ? n - k : MICA__PANEL_VALUES, &at);
    }
    if (w->bits == 4)
        act->codes = act->moved;
}

/* --- strips ----------------------------------------------------------------------------------- */

/* The longest stretch of codes in bytes (8 bits a value and a scale of 2 bytes for each 32), and of
 * scales. */
#define COPY_CODES  (MICA__PANEL_VALUES * 34 / 32)
#define COPY_SCALES (MICA__PANEL_GROUPS * 4)

/* With few activation rows panels are multiplied one by one, FEW_VALUES at a time. */
#define FEW_ACTS   MICA__STRIP_FEW_ACTS
#define FEW_VALUES 256
#define ACTS       (MAX_ACTS > FEW_ACTS ? MAX_ACTS : FEW_ACTS)

static const int tile_acts[4] = {1, 2, 4, 6};

typedef struct strip_scratch {
    mica__qpanel panel[MICA__STRIP_ROWS / 16];
    mica__qact act[ACTS];
    /* A stretch of fewer than 16 rows, for matrices that have no more. */
    uint8_t codes[16][COPY_CODES];
    uint8_t scales[16][COPY_SCALES];
    uint8_t biases[16][COPY_SCALES];
} strip_scratch;

/* Values of one of the arrays of a mica__qact over k values, and bytes of all. Vector stores may
 * pass the end of what they mean. */
INLINE int64_t act_span(int64_t k)
{
    return (k / 32 + 31) / 16 * 16;
}

INLINE int64_t act_bytes(int64_t k)
{
    return 4 * 4 * act_span(k) + (k + 63) / 64 * 64;
}

static size_t strip_i8_scratch(const mica__qweight *w)
{
    const int64_t stretch = w->k < MICA__PANEL_VALUES ? w->k : MICA__PANEL_VALUES;
    const int64_t few = FEW_ACTS * act_bytes(w->k), many = ACTS * act_bytes(stretch);
    return (sizeof(strip_scratch) + 63) / 64 * 64 + (size_t)(few > many ? few : many);
}

/* Gives the first n rows of scratch->act their arrays, each for k values. */
static void place_acts(strip_scratch *scratch, int n, int64_t k)
{
    uint8_t *at = (uint8_t *)scratch + (sizeof *scratch + 63) / 64 * 64;
    for (int a = 0; a < n; a++, at += act_bytes(k)) {
        int32_t *arrays = (int32_t *)(void *)at;
        scratch->act[a].start[0] = arrays;
        scratch->act[a].start[1] = arrays + act_span(k);
        scratch->act[a].asum = (float *)(void *)(arrays + 2 * act_span(k));
        scratch->act[a].pair = arrays + 3 * act_span(k);
        scratch->act[a].moved = (int8_t *)(arrays + 4 * act_span(k));
    }
}

static mica__stream stream_of(const uint8_t *first, int64_t stride, const mica__panel_rows *rows,
                              int64_t at)
{
    if (!first)
        return (mica__stream){0};
    return (mica__stream){first + rows->first * stride + at, rows->step * stride};
}

static mica__stream copied(mica__stream from, int n, int64_t bytes, uint8_t *to, int64_t step)
{
    for (int i = 0; i < n; i++)
        memcpy(to + i * step, from.base + i * from.step, (size_t)bytes);
    return (mica__stream){to, step};
}

/* Where values [k0, k0 + n) of a panel's rows stand; k0 is a multiple of 256. */
static mica__qlanes lanes_of(const mica__qweight *w, const plan *p, const mica__panel_rows *rows,
                             int64_t k0, int64_t n, strip_scratch *scratch)
{
    const int64_t code = (k0 >> 8) * p->code_step, scale = (k0 >> 8) * p->scale_step;
    mica__qlanes at = {stream_of(w->codes, w->codes_stride, rows, code),
                       stream_of(w->scales, w->scales_stride, rows, scale),
                       stream_of(w->biases, w->biases_stride, rows, scale)};
    if (rows->to == 16)
        return at;
    const int64_t codes = n * p->code_step / 256, scales = n * p->scale_step / 256;
    at.codes = copied(at.codes, rows->to, codes, scratch->codes[0], COPY_CODES);
    if (w->scales)
        at.scales = copied(at.scales, rows->to, scales, scratch->scales[0], COPY_SCALES);
    if (w->biases)
        at.biases = copied(at.biases, rows->to, scales, scratch->biases[0], COPY_SCALES);
    return at;
}

/* A tile's prepared activation rows times unpacked panels whose accumulators begin at acc; returns
 * how many rows that were. */
static int multiply_acts(const mica__strip *strip, const plan *p, int panels, float *acc, int size,
                         const mica__qact *act, int64_t n, const strip_scratch *scratch)
{
    tile t = {.act = act, .n = n, .shift = p->shift, .stride = 16 * strip->n_panels};
    for (int panel = 0; panel < panels;) {
        const int two = WIDE_COLUMNS && panel + 1 < panels;
        t.panel = &scratch->panel[panel];
        t.acc = acc + panel * 16;
        tiles[p->kind][two][size](&t);
        panel += 1 + two;
    }
    return tile_acts[size];
}

/* The largest tile for `left` activation rows, as an index into tile_acts. */
static int tile_size(int left)
{
    int size = 3;
    while (tile_acts[size] > left || tile_acts[size] > MAX_ACTS)
        size--;
    return size;
}

static void unpack_rows(const mica__strip *strip, const plan *p, int panel, int64_t k0, int64_t n,
                        strip_scratch *scratch, mica__qpanel *to)
{
    const mica__qlanes from = lanes_of(strip->weight, p, &strip->panels[panel], k0, n, scratch);
    unpack_panel(strip->weight, &from, n, to);
}

/* Few activation rows are prepared once. Then each panel passes through the first cache in short
 * pieces, so that rows are read as streams from end to end. */
static void few_acts(const mica__strip *strip, const plan *p, strip_scratch *scratch)
{
    const mica__qweight *w = strip->weight;
    mica__qact at[FEW_ACTS];
    place_acts(scratch, strip->n_acts, w->k);
    for (int a = 0; a < strip->n_acts; a++)
        prepare_act(w, p, strip->acts[a], 0, w->k, &scratch->act[a]);
    for (int panel = 0; panel < strip->n_panels; panel++)
        for (int64_t k0 = 0; k0 < w->k; k0 += FEW_VALUES) {
            const int64_t n = w->k - k0 < FEW_VALUES ? w->k - k0 : FEW_VALUES;
            unpack_rows(strip, p, panel, k0, n, scratch, &scratch->panel[0]);
            for (int a = 0; a < strip->n_acts; a++)
                at[a] = act_at(p, &scratch->act[a], k0);
            for (int a = 0; a < strip->n_acts;)
                a += multiply_acts(strip, p, 1, strip->acc + (a * strip->n_panels + panel) * 16,
                                   tile_size(strip->n_acts - a), &at[a], n, scratch);
        }
}

/* For many, all panels are unpacked first, so that each row is prepared once. */
static void many_acts(const mica__strip *strip, const plan *p, strip_scratch *scratch)
{
    const mica__qweight *w = strip->weight;
    place_acts(scratch, ACTS, w->k < MICA__PANEL_VALUES ? w->k : MICA__PANEL_VALUES);
    for (int64_t k0 = 0; k0 < w->k; k0 += MICA__PANEL_VALUES) {
        const int64_t n = w->k - k0 < MICA__PANEL_VALUES ? w->k - k0 : MICA__PANEL_VALUES;
        for (int panel = 0; panel < strip->n_panels; panel++)
            unpack_rows(strip, p, panel, k0, n, scratch, &scratch->panel[panel]);
        for (int a = 0; a < strip->n_acts;) {
            const int size = tile_size(strip->n_acts - a);
            for (int i = 0; i < tile_acts[size]; i++)
                prepare_act(w, p, strip->acts[a + i], k0, n, &scratch->act[i]);
            a += multiply_acts(strip, p, strip->n_panels, strip->acc + a * 16 * strip->n_panels,
                               size, scratch->act, n, scratch);
        }
    }
}

static void strip_i8(const mica__strip *strip)
{
    const plan p = plan_of(strip->weight);
    strip_scratch *scratch = (strip_scratch *)(void *)strip->scratch;
    memset(strip->acc, 0, (size_t)(strip->n_acts * strip->n_panels) * 16 * sizeof(float));
    if (strip->panels[0].to < 16)
        memset(scratch->codes, 0,
               sizeof scratch->codes + sizeof scratch->scales + sizeof scratch->biases);
    (strip->n_acts <= FEW_ACTS ? few_acts : many_acts)(strip, &p, scratch);
}
