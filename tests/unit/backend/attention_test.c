/* attention_test.c - kv_write and paged attention against a double-precision reference.
 *
 * The reference rounds K and V by the written rule (in double, from the format's definition) and
 * then evaluates softmax(q k) v exactly; the bound is derived from the operations' condition.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "core/op.h"
#include "support/kernel_call.h"

/* One step over a pool: several sequences with scattered blocks and ragged tokens. */
typedef struct scene {
    mica__attention_attrs attrs;
    int heads;
    int64_t n_tokens, n_sequences, table_blocks, n_blocks;
    int32_t *positions, *sequence_of, *table;
    float *q, *k, *v, *out;
    uint8_t *pool;
    double *keys[4], *values[4]; /* reference of each sequence: [position][kv head][dim] */
    int64_t depth;               /* positions that the reference can hold */
} scene;

static random_source source = {20240607};

static void make_scene(scene *s, int kv_dtype, int heads, int kv_heads, int head_dim, int value_dim,
                       int64_t n_sequences, int64_t depth)
{
    memset(s, 0, sizeof *s);
    s->heads = heads;
    s->attrs.kv = (mica__kv_attrs){kv_dtype, kv_heads, head_dim, value_dim, 0, 0};
    const int64_t layer = mica__kv_layer_bytes(kv_dtype, kv_heads, head_dim, value_dim);
    assert_true(layer > 0);
    s->attrs.kv.layer_offset = 48;
    s->attrs.kv.block_bytes = layer + 112;
    s->attrs.scale = 1.0f / sqrtf((float)head_dim);
    s->n_sequences = n_sequences;
    s->depth = depth;
    s->table_blocks = depth / 16 + 3;
    s->n_blocks = n_sequences * s->table_blocks + 5;
    s->pool = malloc((size_t)(s->n_blocks * s->attrs.kv.block_bytes));
    memset(s->pool, 0xff, (size_t)(s->n_blocks * s->attrs.kv.block_bytes)); /* NaN everywhere */
    s->table = malloc((size_t)(n_sequences * s->table_blocks) * sizeof *s->table);
    for (int64_t i = 0; i < n_sequences * s->table_blocks; i++) {
        const int64_t j = random_u32(&source) % (uint64_t)(i + 1);
        s->table[i] = s->table[j];
        s->table[j] = (int32_t)(i + 3);
    }
    for (int64_t i = 0; i < n_sequences; i++) /* nothing behind the last token is looked up */
        s->table[(i + 1) * s->table_blocks - 1] = s->table[(i + 1) * s->table_blocks - 2] = -1;
    assert_in_range(n_sequences, 1, 4);
    for (int64_t i = 0; i < n_sequences; i++) {
        s->keys[i] = calloc((size_t)(depth * kv_heads * head_dim), sizeof **s->keys);
        s->values[i] = calloc((size_t)(depth * kv_heads * value_dim), sizeof **s->values);
    }
}

static void free_step(scene *s)
{
    free(s->positions);
    free(s->sequence_of);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->out);
    s->positions = s->sequence_of = NULL;
    s->q = s->k = s->v = s->out = NULL;
}

static void free_scene(scene *s)
{
    free_step(s);
    for (int64_t i = 0; i < s->n_sequences; i++) {
        free(s->keys[i]);
        free(s->values[i]);
    }
    free(s->pool);
    free(s->table);
}

/* What one group of values becomes, from the definition of each KV type. */
static void rounded_group(int kv_dtype, const float *x, int n, double *to)
{
    float extreme = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    const float scale = mica__f16_to_f32(
        mica__f32_to_f16(kv_dtype == MICA__KV_Q8 ? fabsf(extreme) / 127.0f : extreme / -8.0f));
    for (int i = 0; i < n; i++) {
        double code = scale != 0 ? nearbyint((double)(x[i] / scale)) : 0;
        if (kv_dtype == MICA__KV_Q8)
            code = code > 127 ? 127 : code < -127 ? -127 : code;
        else
            code = code > 7 ? 7 : code < -8 ? -8 : code;
        to[i] = code * (double)scale;
    }
}

static void rounded_row(int kv_dtype, const float *x, int dim, double *to)
{
    const int group = dim < 32 ? dim : 32;
    for (int d = 0; d < dim; d += group) {
        const int n = dim - d < group ? dim - d : group;
        if (kv_dtype >= MICA__KV_Q8) {
            rounded_group(kv_dtype, x + d, n, to + d);
            continue;
        }
        for (int i = d; i < d + n; i++)
            to[i] = kv_dtype == MICA__KV_F32   ? (double)x[i]
                    : kv_dtype == MICA__KV_F16 ? (double)mica__f16_to_f32(mica__f32_to_f16(x[i]))
                                               : (double)mica__bf16_to_f32(mica__f32_to_bf16(x[i]));
    }
}

/* Fills a step of n tokens with given sequences and positions, and the reference with its K, V. */
static void make_step(scene *s, int64_t n, const int32_t *sequence_of, const int32_t *positions)
{
    const mica__kv_attrs *kv = &s->attrs.kv;
    free_step(s);
    s->n_tokens = n;
    s->positions = malloc((size_t)n * sizeof *s->positions);
    s->sequence_of = malloc((size_t)n * sizeof *s->sequence_of);
    memcpy(s->positions, positions, (size_t)n * sizeof *positions);
    memcpy(s->sequence_of, sequence_of, (size_t)n * sizeof *sequence_of);
    const int64_t nq = n * s->heads * kv->head_dim, nk = n * kv->kv_heads * kv->head_dim;
    const int64_t nv = n * kv->kv_heads * kv->value_dim;
    s->q = malloc((size_t)nq * 4);
    s->k = malloc((size_t)nk * 4);
    s->v = malloc((size_t)nv * 4);
    s->out = malloc((size_t)(n * s->heads * kv->value_dim) * 4);
    for (int64_t i = 0; i < nq; i++)
        s->q[i] = random_normal(&source);
    for (int64_t i = 0; i < nk; i++)
        s->k[i] = random_normal(&source);
    for (int64_t i = 0; i < nv; i++)
        s->v[i] = random_normal(&source);
    for (int64_t t = 0; t < n; t++)
        for (int h = 0; h < kv->kv_heads; h++) {
            const int64_t row = (int64_t)positions[t] * kv->kv_heads + h;
            rounded_row(kv->kv_dtype, s->k + (t * kv->kv_heads + h) * kv->head_dim, kv->head_dim,
                        s->keys[sequence_of[t]] + row * kv->head_dim);
            rounded_row(kv->kv_dtype, s->v + (t * kv->kv_heads + h) * kv->value_dim, kv->value_dim,
                        s->values[sequence_of[t]] + row * kv->value_dim);
        }
}

static mica_status write_step(scene *s, const mica__cpu *cpu)
{
    const mica__kv_attrs *kv = &s->attrs.kv;
    mica__operand in[] = {
        OPERAND(s->pool, MICA_U8, s->n_blocks * kv->block_bytes),
        OPERAND(s->k, MICA_F32, s->n_tokens, kv->kv_heads, kv->head_dim),
        OPERAND(s->v, MICA_F32, s->n_tokens, kv->kv_heads, kv->value_dim),
        OPERAND(s->positions, MICA_I32, s->n_tokens),
        OPERAND(s->sequence_of, MICA_I32, s->n_tokens),
        OPERAND(s->table, MICA_I32, s->n_sequences, s->table_blocks),
    };
    mica__operand out = in[0];
    const mica__call call = {.attrs = kv, .cpu = cpu, .n_in = 6, .n_out = 1, .in = in, .out = &out};
    return run_kernel(MICA__OP_KV_WRITE, &call);
}

/* Tokens [first, first + n) in memory planned for more tokens and blocks. */
static mica_status attend_planned(scene *s, const mica__cpu *cpu, int64_t first, int64_t n,
                                  int64_t most_tokens, int64_t most_blocks)
{
    const mica__kv_attrs *kv = &s->attrs.kv;
    mica__operand in[] = {
        OPERAND(s->q + first * s->heads * kv->head_dim, MICA_F32, n, s->heads, kv->head_dim),
        OPERAND(s->pool, MICA_U8, s->n_blocks * kv->block_bytes),
        OPERAND(s->positions + first, MICA_I32, n),
        OPERAND(s->sequence_of + first, MICA_I32, n),
        OPERAND(s->table, MICA_I32, s->n_sequences, s->table_blocks),
    };
    mica__operand out =
        OPERAND(s->out + first * s->heads * kv->value_dim, MICA_F32, n, s->heads, kv->value_dim);
    const mica__call call = {
        .attrs = &s->attrs, .cpu = cpu, .n_in = 5, .n_out = 1, .in = in, .out = &out};
    mica__operand bounds[5], out_bound = out;
    memcpy(bounds, in, sizeof bounds);
    bounds[0].shape[0] = bounds[2].shape[0] = bounds[3].shape[0] = out_bound.shape[0] = most_tokens;
    bounds[4].shape[1] = most_blocks;
    mica__call planned = call;
    planned.in = bounds;
    planned.out = &out_bound;
    return run_kernel_planned(MICA__OP_ATTENTION, &planned, &call);
}

static mica_status attend_part(scene *s, const mica__cpu *cpu, int64_t first, int64_t n)
{
    return attend_planned(s, cpu, first, n, n, s->table_blocks);
}

static mica_status attend(scene *s, const mica__cpu *cpu)
{
    memset(s->out, 0xff, (size_t)(s->n_tokens * s->heads * s->attrs.kv.value_dim) * 4);
    return attend_part(s, cpu, 0, s->n_tokens);
}

/* One query row in double. The bound: scores carry an error of about (dim + 8) half ulps of the sum
 * of |q k|, which moves each weight by a factor e^error; the sums add (n + 8) half ulps. */
static void check_row(const scene *s, int64_t t, int h)
{
    const mica__kv_attrs *kv = &s->attrs.kv;
    const int64_t p = s->positions[t], n = p + 1;
    const int head = h / (s->heads / kv->kv_heads);
    const double *keys = s->keys[s->sequence_of[t]], *values = s->values[s->sequence_of[t]];
    const float *q = s->q + (t * s->heads + h) * kv->head_dim;
    const int64_t from =
        s->attrs.window > 0 && p - s->attrs.window + 1 > 0 ? p - s->attrs.window + 1 : 0;
    double *scores = malloc((size_t)n * sizeof *scores), top = -INFINITY, error = 0, sum = 0;
    for (int64_t j = from; j < n; j++) {
        double dot = 0, magnitude = 0;
        for (int d = 0; d < kv->head_dim; d++) {
            dot += (double)q[d] * keys[(j * kv->kv_heads + head) * kv->head_dim + d];
            magnitude += fabs((double)q[d] * keys[(j * kv->kv_heads + head) * kv->head_dim + d]);
        }
        scores[j] = dot * (double)s->attrs.scale;
        if (s->attrs.soft_cap != 0)
            scores[j] = (double)s->attrs.soft_cap * tanh(scores[j] / (double)s->attrs.soft_cap);
        top = fmax(top, scores[j]);
        error =
            fmax(error, (kv->head_dim + 8) * 0x1p-24 * magnitude * (double)fabsf(s->attrs.scale));
    }
    for (int64_t j = from; j < n; j++)
        sum += scores[j] = exp(scores[j] - top);
    for (int d = 0; d < kv->value_dim; d++) {
        double want = 0, magnitude = 0;
        for (int64_t j = from; j < n; j++) {
            const double v = values[(j * kv->kv_heads + head) * kv->value_dim + d];
            want += scores[j] / sum * v;
            magnitude += scores[j] / sum * fabs(v);
        }
        const double bound = magnitude * (2 * error + 200 * 0x1p-24);
        const float got = s->out[(t * s->heads + h) * kv->value_dim + d];
        if (!(fabs((double)got - want) <= bound))
            fail_msg("kv type %d, token %lld head %d value %d: %.9g, want %.9g +- %.2g",
                     kv->kv_dtype, (long long)t, h, d, (double)got, want, bound);
    }
    free(scores);
}

static void check_all(const scene *s)
{
    for (int64_t t = 0; t < s->n_tokens; t++)
        for (int h = 0; h < s->heads; h++)
            check_row(s, t, h);
}

/* Tokens [from, to) of one sequence. */
static void span_step(scene *s, int sequence, int32_t from, int32_t to)
{
    int32_t *positions = malloc((size_t)(to - from) * 4),
            *sequences = malloc((size_t)(to - from) * 4);
    for (int32_t p = from; p < to; p++) {
        positions[p - from] = p;
        sequences[p - from] = sequence;
    }
    make_step(s, to - from, sequences, positions);
    free(positions);
    free(sequences);
}

static float *copy_out(const scene *s)
{
    const size_t bytes = (size_t)(s->n_tokens * s->heads * s->attrs.kv.value_dim) * 4;
    float *copy = malloc(bytes);
    memcpy(copy, s->out, bytes);
    return copy;
}

/* Runs the written step at every level, compares with scalar and with tokens taken one by one. */
static void run_everywhere(scene *s)
{
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    const int64_t row = s->heads * s->attrs.kv.value_dim;
    uint8_t *before = malloc((size_t)(s->n_blocks * s->attrs.kv.block_bytes));
    uint8_t *scalar_pool = malloc((size_t)(s->n_blocks * s->attrs.kv.block_bytes));
    memcpy(before, s->pool, (size_t)(s->n_blocks * s->attrs.kv.block_bytes));
    float *scalar = NULL;
    for (int i = 0; i < n_levels; i++) {
        memcpy(s->pool, before, (size_t)(s->n_blocks * s->attrs.kv.block_bytes));
        assert_ok(write_step(s, levels[i]));
        if (i == 0)
            memcpy(scalar_pool, s->pool, (size_t)(s->n_blocks * s->attrs.kv.block_bytes));
        assert_memory_equal(s->pool, scalar_pool, (size_t)(s->n_blocks * s->attrs.kv.block_bytes));
        assert_ok(attend(s, levels[i]));
        if (i == 0)
            scalar = copy_out(s);
        assert_same_floats(s->out, scalar, s->n_tokens * row,
                           mica__cpu_level_name(levels[i]->level));
        memset(s->out, 0xff, (size_t)(s->n_tokens * row) * 4);
        for (int64_t t = 0, n; t < s->n_tokens; t += n) {
            n = t % 3 == 0 ? 1 : s->n_tokens - t < 7 ? s->n_tokens - t : 7;
            assert_ok(attend_part(s, levels[i], t, n));
        }
        assert_same_floats(s->out, scalar, s->n_tokens * row, "in parts");
    }
    free(scalar);
    free(scalar_pool);
    free(before);
    check_all(s);
}

static void every_type_and_head_size_matches_the_reference(void **state)
{
    (void)state;
    static const struct {
        int heads, kv_heads, head_dim, value_dim;
    } shapes[] = {{4, 2, 64, 64}, {3, 1, 80, 80},   {8, 2, 128, 96}, {1, 1, 16, 16}, {5, 5, 24, 24},
                  {2, 1, 40, 72}, {7, 1, 256, 256}, {6, 2, 8, 8},    {71, 1, 16, 16}};
    for (int kv_dtype = 0; kv_dtype < MICA__N_KV_DTYPES; kv_dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            if (mica__kv_layer_bytes(kv_dtype, 1, shapes[i].head_dim, shapes[i].value_dim) < 0)
                continue;
            scene s;
            make_scene(&s, kv_dtype, shapes[i].heads, shapes[i].kv_heads, shapes[i].head_dim,
                       shapes[i].value_dim, 2, 40);
            span_step(&s, 0, 0, 19);
            run_everywhere(&s);
            const int32_t sequences[] = {0, 1, 1, 1, 0}, positions[] = {19, 0, 1, 2, 20};
            make_step(&s, 5, sequences, positions);
            run_everywhere(&s);
            free_scene(&s);
        }
}

static void chunk_borders_are_seen_exactly(void **state)
{
    (void)state;
    scene s;
    make_scene(&s, MICA__KV_F16, 2, 1, 24, 24, 1, 200);
    span_step(&s, 0, 0, 62);
    run_everywhere(&s);
    for (int32_t p = 62; p <= 66; p++) {
        span_step(&s, 0, p, p + 1);
        run_everywhere(&s);
    }
    span_step(&s, 0, 67, 130);
    run_everywhere(&s);
    free_scene(&s);
}

static void windows_hide_what_lies_behind_and_its_blocks_may_be_gone(void **state)
{
    (void)state;
    static const int64_t windows[] = {1, 5, 16, 63, 64, 65, 100};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        scene s;
        make_scene(&s, w % 2 ? MICA__KV_F32 : MICA__KV_Q8, 3, 1, 16, 16, 1, 220);
        s.attrs.window = windows[w];
        span_step(&s, 0, 0, 140);
        run_everywhere(&s);
        for (int64_t block = 0; block * 16 + 16 <= 140 - windows[w] + 1; block++)
            s.table[block] = -1;
        span_step(&s, 0, 140, 156);
        run_everywhere(&s);
        free_scene(&s);
    }
}

static void soft_cap_bends_the_scores(void **state)
{
    (void)state;
    scene s;
    make_scene(&s, MICA__KV_BF16, 4, 2, 48, 48, 1, 100);
    s.attrs.soft_cap = 1.5f;
    s.attrs.scale = 0.7f;
    span_step(&s, 0, 0, 90);
    run_everywhere(&s);
    free_scene(&s);
}

static void long_contexts_fold_spans_the_same_way_split_or_not(void **state)
{
    (void)state;
    scene s;
    make_scene(&s, MICA__KV_F16, 2, 1, 16, 16, 2, 2600);
    for (int32_t p = 0; p < 2280; p += 456)
        for (int sequence = 0; sequence < 2; sequence++) {
            span_step(&s, sequence, p, p + 456);
            const mica__cpu *levels[MICA__N_CPU_LEVELS];
            const int n_levels = kernel_levels(levels);
            assert_ok(write_step(&s, levels[n_levels - 1]));
        }
    int32_t sequences[36], positions[36];
    for (int i = 0; i < 36; i++) {
        sequences[i] = i >= 18;
        positions[i] = 2280 + i % 18;
    }
    make_step(&s, 36, sequences, positions);
    run_everywhere(&s);
    free_scene(&s);
}

/* Programs are planned once for the largest step; every smaller one runs in that memory. */
static void memory_planned_for_the_largest_step_serves_smaller_ones(void **state)
{
    (void)state;
    scene s;
    make_scene(&s, MICA__KV_F16, 2, 1, 16, 16, 2, 2200);
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int32_t p = 0; p < 2200; p += 440) {
        span_step(&s, 0, p, p + 440);
        assert_ok(write_step(&s, levels[n_levels - 1]));
    }
    static const int64_t bounds[] = {5, 70, 512, 4096};
    for (int i = 0; i < 4; i++)
        for (int64_t n = 1; n <= bounds[i] && n <= 40; n += 13) {
            span_step(&s, 0, (int32_t)(2200 - n), 2200);
            assert_ok(write_step(&s, levels[0]));
            memset(s.out, 0xff, (size_t)(n * 32) * 4);
            assert_ok(attend_planned(&s, levels[0], 0, n, bounds[i], s.table_blocks * 8));
            check_all(&s);
        }
    free_scene(&s);
}

static void codes_attend_as_the_floats_they_stand_for(void **state)
{
    (void)state;
    for (int kv_dtype = MICA__KV_Q8; kv_dtype <= MICA__KV_Q4; kv_dtype++) {
        scene coded, plain;
        make_scene(&coded, kv_dtype, 4, 2, 64, 64, 1, 100);
        span_step(&coded, 0, 0, 90);
        const mica__cpu *levels[MICA__N_CPU_LEVELS];
        kernel_levels(levels);
        assert_ok(write_step(&coded, levels[0]));
        assert_ok(attend(&coded, levels[0]));
        make_scene(&plain, MICA__KV_F32, 4, 2, 64, 64, 1, 100);
        span_step(&plain, 0, 0, 90);
        for (int64_t i = 0; i < 90 * 2 * 64; i++) {
            plain.k[i] = (float)coded.keys[0][i];
            plain.v[i] = (float)coded.values[0][i];
        }
        memcpy(plain.q, coded.q, 90 * 4 * 64 * 4);
        assert_ok(write_step(&plain, levels[0]));
        assert_ok(attend(&plain, levels[0]));
        assert_same_floats(coded.out, plain.out, 90 * 4 * 64, "codes");
        free_scene(&coded);
        free_scene(&plain);
    }
}

static void keys_and_values_that_are_not_finite_show(void **state)
{
    (void)state;
    for (int kv_dtype = 0; kv_dtype < MICA__N_KV_DTYPES; kv_dtype++) {
        scene s;
        make_scene(&s, kv_dtype, 2, 1, 32, 32, 1, 64);
        span_step(&s, 0, 0, 20);
        const mica__cpu *levels[MICA__N_CPU_LEVELS];
        const int n_levels = kernel_levels(levels);
        s.v[10 * 32 + 7] = NAN;
        for (int i = 0; i < n_levels; i++) {
            assert_ok(write_step(&s, levels[i]));
            assert_ok(attend(&s, levels[i]));
            for (int t = 0; t < 20; t++)
                assert_int_equal(isnan(s.out[t * 64 + 7]) != 0, t >= 10);
        }
        free_scene(&s);
    }
}

static void wrong_indices_are_refused(void **state)
{
    (void)state;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    kernel_levels(levels);
    scene s;
    make_scene(&s, MICA__KV_F16, 4, 2, 64, 64, 2, 100);
    span_step(&s, 0, 0, 40);
    assert_ok(write_step(&s, levels[0]));
    const int32_t kept = s.table[1];
    static const int32_t wrong_blocks[] = {-1, INT32_MIN, 0x7fffffff};
    for (int i = 0; i < 4; i++) {
        s.table[1] = i < 3 ? wrong_blocks[i] : (int32_t)s.n_blocks;
        assert_status(attend(&s, levels[0]), MICA_E_ARGUMENT);
        assert_status(write_step(&s, levels[0]), MICA_E_ARGUMENT);
    }
    assert_non_null(strstr(mica_last_error(), "block"));
    s.table[1] = kept;
    static const int32_t wrong[] = {-1, 2, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        s.sequence_of[5] = wrong[i];
        assert_status(attend(&s, levels[0]), MICA_E_ARGUMENT);
        assert_status(write_step(&s, levels[0]), MICA_E_ARGUMENT);
        s.sequence_of[5] = 0;
        s.positions[5] = i == 1 ? (int32_t)s.table_blocks * 16 : wrong[i];
        assert_status(attend(&s, levels[0]), MICA_E_ARGUMENT);
        assert_status(write_step(&s, levels[0]), MICA_E_ARGUMENT);
        s.positions[5] = 5;
    }
    assert_ok(attend(&s, levels[0]));
    s.attrs.kv.layer_offset = s.attrs.kv.block_bytes;
    assert_status(attend(&s, levels[0]), MICA_E_ARGUMENT);
    free_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_head_size_matches_the_reference),
        cmocka_unit_test(chunk_borders_are_seen_exactly),
        cmocka_unit_test(windows_hide_what_lies_behind_and_its_blocks_may_be_gone),
        cmocka_unit_test(soft_cap_bends_the_scores),
        cmocka_unit_test(long_contexts_fold_spans_the_same_way_split_or_not),
        cmocka_unit_test(memory_planned_for_the_largest_step_serves_smaller_ones),
        cmocka_unit_test(codes_attend_as_the_floats_they_stand_for),
        cmocka_unit_test(keys_and_values_that_are_not_finite_show),
        cmocka_unit_test(wrong_indices_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
