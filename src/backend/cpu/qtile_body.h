/* qtile_body.h - panels times activation rows; included once by each level's file.
 *
 * The including file provides vectors of VL outputs, VL = 16, 8 or 4, and
 *     vi, vf                        integer and float vectors
 *     vi_load(p) vi_loadu(p) vi_store(p, v) vi_set1(i) vi_add(a, b) vi_mul(a, b)
 *     vi_dot(acc, w, a)             acc + sums of 4 products: w unsigned codes, a signed
 *     vi_dot_wide(acc, w, a)        the same for 8-bit codes (flipped to signed where WIDE_FLIP)
 *     vi_dot_pairs(acc, a, b)       acc + sums of 2 products of i16
 *     vf_load(p) vf_store(p, v) vf_set1(f) vf_zero() vf_fma(a, b, c) vf_mul(a, b)
 *     vf_of(i) vf_bits(i)           conversion, reinterpretation
 *     MAX_ACTS                      activation rows of the largest tile: 2, 4 or 6
 *     WIDE_COLUMNS                  1: tiles of two panels pay
 *
 * A tile is `acts` activation rows times `columns` vectors of outputs; both are constants wherever
 * the bodies are instantiated. Columns of one or two panels that stand one after the other.
 * SPDX-License-Identifier: MIT
 */

#define PER_PANEL     (16 / VL)
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
    int64_t group;
    float *acc; /* first output of the first row; rows are stride apart */
    int64_t stride;
} tile;

/* The integer sums of 32 or 16 values: 8 or 4 dot steps. */
#define DOT_STEPS(count, first, dot)                                                               \
    for (int j = 0; j < (count); j++) {                                                            \
        vi w[MAX_COLUMNS];                                                                         \
        for (int c = 0; c < columns; c++)                                                          \
            w[c] = vi_load(column_at(&t->panel->code[(first) + j], c));                            \
        for (int a = 0; a < acts; a++) {                                                           \
            const vi x = ACT_DWORD(t->act[a].codes + ((first) + j) * 4);                           \
            for (int c = 0; c < columns; c++)                                                      \
                isum[a][c] = dot(isum[a][c], w[c], x);                                             \
        }                                                                                          \
    }

/* Groups with one scale: acc = fma(sa, fma(d, isum, +0), acc), or with a bias. magic: start values
 * carry MAGIC_BITS and d has at most 22 significant bits. */
INLINE void tile_groups(const tile *t, const int columns, const int acts, const int64_t steps,
                        const bool magic, const bool wide, const bool bias)
{
    vf acc[MAX_ACTS][MAX_COLUMNS];
    for (int a = 0; a < acts; a++)
        for (int c = 0; c < columns; c++)
            acc[a][c] = vf_load(t->acc + a * t->stride + c * VL);
    for (int64_t g = 0; g < t->n / 32 / steps; g++) {
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
            const vf d = vf_load(column_at(&t->panel->d[g], c));
            const vf back = vf_mul(d, vf_set1(-MAGIC));
            for (int a = 0; a < acts; a++) {
                vf term = magic ? vf_fma(vf_bits(isum[a][c]), d, back)
                                : vf_fma(vf_of(isum[a][c]), d, vf_zero());
                if (bias)
                    term = vf_fma(vf_load(column_at(&t->panel->m[g], c)),
                                  vf_set1(t->act[a].asum[g]), term);
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
                lifted, vi_load(column_at(&t->panel->scale_pair[block * pairs + i], c)), asum);
        if (kind.has_min)
            mins = vi_dot_pairs(mins, vi_load(column_at(&t->panel->min_pair[block * pairs + i], c)),
                                asum);
    }
    if (kind.lift)
        sum = vi_add(sum, vi_mul(lifted, vi_set1(kind.lift)));
    const vf d = vf_load(column_at(&t->panel->d[block], c));
    vf term;
    if (kind.has_min) {
        const vf m = vf_load(column_at(&t->panel->m[block], c));
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
                const vi scale = vi_load(column_at(&t->panel->scale[value / kind.sub], c));
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
        tile_groups(t, columns, acts, 1, true, false, false);
        break;
    case TILE_SCALE_WIDE:
        tile_groups(t, columns, acts, 1, true, true, false);
        break;
    case TILE_SCALE_ANY:
        tile_groups(t, columns, acts, 1, false, false, false);
        break;
    case TILE_BIAS_32:
        tile_groups(t, columns, acts, 1, false, false, true);
        break;
    case TILE_BIAS:
        tile_groups(t, columns, acts, t->group / 32, false, false, true);
        break;
    case TILE_BIAS_WIDE:
        tile_groups(t, columns, acts, t->group / 32, false, true, true);
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

/* --- what a format asks of a tile --- */

typedef struct plan {
    tile_kind kind;
    int offset;    /* what every stored code has too much, in the panel's representation */
    int32_t start; /* added to each start value */
} plan;

static plan plan_of(const mica__qweight *w)
{
    const int wide = WIDE_FLIP ? 0 : 128; /* offset of 8-bit codes whose value is signed */
    switch (w->format) {
    case MICA__Q4_0:
        return (plan){TILE_SCALE, 8, MAGIC_BITS};
    case MICA__Q5_0:
        return (plan){TILE_SCALE, 16, MAGIC_BITS};
    case MICA__Q8_0:
    case MICA__IQ4_NL:
        return (plan){TILE_SCALE_WIDE, wide, MAGIC_BITS};
    case MICA__MXFP4:
    case MICA__MLX_MXFP4:
        return (plan){TILE_SCALE_ANY, 12, 0};
    case MICA__Q2_K:
        return (plan){TILE_Q2_K, 0, 0};
    case MICA__Q3_K:
        return (plan){TILE_Q3_K, 4, 0};
    case MICA__Q4_K:
        return (plan){TILE_Q4_K, 8, 0};
    case MICA__Q5_K:
        return (plan){TILE_Q5_K, 16, 0};
    case MICA__Q6_K:
        return (plan){TILE_Q6_K, 32, 0};
    case MICA__IQ4_XS:
        return (plan){TILE_IQ4_XS, wide, 0};
    case MICA__MLX_AFFINE:
        if (w->bits == 8)
            return (plan){TILE_BIAS_WIDE, wide - 128, 0};
        return (plan){TILE_BIAS, 0, 0};
    default: /* Q4_1, Q5_1 */
        return (plan){TILE_BIAS_32, 0, 0};
    }
}

/* Sums of the two halves of 32 codes times two small factors, plus a constant, for a stretch. */
INLINE void weigh_sums(const int16_t (*sums)[2], int64_t n, int first, int second, int32_t start,
                       int32_t *out)
{
    const vi factors = vi_set1((int32_t)((uint32_t)(first & 0xffff) | (uint32_t)second << 16));
    int32_t rest[VL] __attribute__((aligned(64)));
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vi_store(out + i, vi_dot_pairs(vi_set1(start), vi_loadu(sums + i), factors));
    for (int64_t j = i; j < n; j++)
        memcpy(&rest[j - i], sums[j], 4);
    if (i < n)
        vi_store(out + i, vi_dot_pairs(vi_set1(start), vi_loadu(rest), factors));
}

/* Prepares one activation row for values [k0, k0 + n). */
static void prepare_act(const mica__qweight *w, const plan *p, const uint8_t *row, int64_t k0,
                        int64_t n, int8_t *moved, mica__qact *act)
{
    const int16_t(*sums)[2] =
        (const int16_t(*)[2])mica__act8_sums((uint8_t *)row, w->k, w->group) + k0 / 32;
    act->codes = (const int8_t *)row + k0;
    if (w->bits == 4) {
        even_odd(act->codes, n, moved);
        act->codes = moved;
    }
    act->scales = mica__act8_scales((uint8_t *)row, w->k) + k0 / w->group;
    if (w->group == 256 && super_kinds[p->kind].step == 16) {
        weigh_sums(sums, n / 32, -p->offset, 0, p->start, act->start[0]);
        weigh_sums(sums, n / 32, 0, -p->offset, p->start, act->start[1]);
    } else {
        weigh_sums(sums, n / 32, -p->offset, -p->offset, p->start, act->start[0]);
    }
    if (w->form == MICA__FORM_BIAS) {
        int32_t whole[MICA__PANEL_GROUPS] __attribute__((aligned(64)));
        const int64_t steps = w->group / 32;
        weigh_sums(sums, n / 32, 1, 1, 0, whole);
        for (int64_t i = 0; i < n / 32 / steps; i++) {
            int32_t sum = whole[i * steps];
            for (int64_t s = 1; s < steps; s++)
                sum += whole[i * steps + s];
            act->asum[i] = (float)sum;
            act->start[0][i] = p->start - p->offset * sum;
        }
    }
    if (w->form == MICA__FORM_SUPER_MIN && w->sub == 16)
        memcpy(act->pair, sums, (size_t)(n / 32) * 4);
    if (w->form == MICA__FORM_SUPER_MIN && w->sub == 32)
        for (int64_t i = 0; i < n / 64; i++) {
            const int first = sums[2 * i][0] + sums[2 * i][1];
            const int second = sums[2 * i + 1][0] + sums[2 * i + 1][1];
            act->pair[i] = (int32_t)((uint32_t)(first & 0xffff) | (uint32_t)second << 16);
        }
}

/* --- strips --- */

/* The longest stretch of codes in bytes (8 bits a value and a scale of 2 bytes for each 32), and of
 * scales. */
#define COPY_CODES  (MICA__PANEL_VALUES * 34 / 32)
#define COPY_SCALES (MICA__PANEL_GROUPS * 4)

typedef struct strip_scratch {
    mica__qpanel panel[MICA__STRIP_ROWS / 16];
    mica__qact act[MAX_ACTS];
    int8_t moved[MAX_ACTS][MICA__PANEL_VALUES]; /* activation codes in another order */
    /* A stretch of fewer than 16 rows, for matrices that have no more. */
    uint8_t codes[16][COPY_CODES];
    uint8_t scales[16][COPY_SCALES];
    uint8_t biases[16][COPY_SCALES];
} strip_scratch;

static size_t strip_i8_scratch(const mica__qweight *w)
{
    (void)w;
    return sizeof(strip_scratch);
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

/* Where values [k0, k0 + n) of a panel's rows stand. */
static mica__qlanes lanes_of(const mica__qweight *w, const mica__panel_rows *rows, int64_t k0,
                             int64_t n, strip_scratch *scratch)
{
    const mica__block_info *facts = mica__block_info_of(w->format);
    const int64_t scale = mica_dtype_bytes(w->scales_dtype);
    const int64_t first = facts->values ? k0 / facts->values * facts->bytes : k0 * w->bits / 8;
    mica__qlanes lanes = {stream_of(w->codes, w->codes_stride, rows, first),
                          stream_of(w->scales, w->scales_stride, rows, k0 / w->group * scale),
                          stream_of(w->biases, w->biases_stride, rows, k0 / w->group * scale)};
    if (rows->to == 16)
        return lanes;
    const int64_t bytes = facts->values ? n / facts->values * facts->bytes : n * w->bits / 8;
    lanes.codes = copied(lanes.codes, rows->to, bytes, scratch->codes[0], COPY_CODES);
    if (w->scales)
        lanes.scales =
            copied(lanes.scales, rows->to, n / w->group * scale, scratch->scales[0], COPY_SCALES);
    if (w->biases)
        lanes.biases =
            copied(lanes.biases, rows->to, n / w->group * scale, scratch->biases[0], COPY_SCALES);
    return lanes;
}

/* `panels` unpacked panels, whose accumulators begin at acc, times all activation rows. */
static void multiply_stretch(const mica__strip *strip, const plan *p, int panels, float *acc,
                             int64_t k0, int64_t n, strip_scratch *scratch)
{
    static const int sizes[4] = {1, 2, 4, 6};
    const mica__qweight *w = strip->weight;
    const int64_t stride = 16 * strip->n_panels;
    for (int a = 0; a < strip->n_acts;) {
        int size = 3;
        while (sizes[size] > strip->n_acts - a || sizes[size] > MAX_ACTS)
            size--;
        for (int i = 0; i < sizes[size]; i++)
            prepare_act(w, p, strip->acts[a + i], k0, n, scratch->moved[i], &scratch->act[i]);
        tile t = {.act = scratch->act, .n = n, .group = w->group, .stride = stride};
        for (int panel = 0; panel < panels;) {
            const int two = WIDE_COLUMNS && panel + 1 < panels;
            t.panel = &scratch->panel[panel];
            t.acc = acc + a * stride + panel * 16;
            tiles[p->kind][two][size](&t);
            panel += 1 + two;
        }
        a += sizes[size];
    }
}

/* Panels are taken together where there are many activation rows, to read those less often; one by
 * one where there are few, to stay in the first cache. */
static void strip_i8(const mica__strip *strip)
{
    const mica__qweight *w = strip->weight;
    const plan p = plan_of(w);
    strip_scratch *scratch = (strip_scratch *)(void *)strip->scratch;
    memset(strip->acc, 0, (size_t)(strip->n_acts * strip->n_panels) * 16 * sizeof(float));
    if (strip->panels[0].to < 16)
        memset(scratch->codes, 0,
               sizeof scratch->codes + sizeof scratch->scales + sizeof scratch->biases);
    const int together = strip->n_acts <= MICA__PANEL_FEW_ACTS ? 1 : strip->n_panels;
    for (int first = 0; first < strip->n_panels; first += together)
        for (int64_t k0 = 0; k0 < w->k; k0 += MICA__PANEL_VALUES) {
            const int64_t n = w->k - k0 < MICA__PANEL_VALUES ? w->k - k0 : MICA__PANEL_VALUES;
            for (int i = 0; i < together; i++) {
                const mica__qlanes lanes = lanes_of(w, &strip->panels[first + i], k0, n, scratch);
                unpack_panel(w, &lanes, n, &scratch->panel[i]);
            }
            multiply_stretch(strip, &p, together, strip->acc + 16 * first, k0, n, scratch);
        }
}
