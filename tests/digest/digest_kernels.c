/* digest_kernels.c - products with stored weights, attention over a KV pool, rotary embedding:
 * what models use and the array library does not name.
 * SPDX-License-Identifier: MIT
 */
#include "digest/digest_test.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/act8.h"
#include "base/bytes.h"
#include "support/check.h"
#include "support/kernel_call.h"
#include "support/weights.h"

static void *room(int64_t bytes)
{
    void *p = malloc((size_t)bytes + 1);
    assert_non_null(p);
    memset(p, 0, (size_t)bytes);
    return p;
}

static float *drawn_rows(int64_t count, uint64_t seed)
{
    float *x = room(count * 4);
    draw_activations(x, count, seed);
    return x;
}

/* --- products with stored weights ------------------------------------------------------------- */

/* Rows of rounded activations: a faulty group's scale is a NaN, anything else numbers and codes. */
static uint8_t *round_rows(const mica__cpu *cpu, float *x, int64_t m, int64_t k, int64_t group)
{
    const int64_t bytes = mica__act8_row_bytes(k, group);
    uint8_t *rows = room(m * bytes);
    mica__quantize_rows_attrs attrs = {(int32_t)group};
    mica__operand in = OPERAND(x, MICA_F32, m, k), out = OPERAND(rows, MICA_U8, m, bytes);
    const mica__call call = {
        .attrs = &attrs, .cpu = cpu, .n_in = 1, .n_out = 1, .in = &in, .out = &out};
    assert_ok(run_kernel(MICA__OP_QUANTIZE_ROWS, &call));
    return rows;
}

static void add_rounded_rows(digest_book *book, const mica__cpu *cpu)
{
    for (int group = 32; group <= 256; group *= 2) {
        const int64_t m = 6, k = group * 5;
        float *x = drawn_rows(m * k, 11), *scales = room(m * 5 * 4);
        x[3] = INFINITY;
        x[k + 1] = NAN;
        for (int64_t i = 0; i < k; i++) {
            x[2 * k + i] *= 0x1p-120f;
            x[3 * k + i] = (float)((i * 13) % 255 - 127) * 0.5f; /* many ties */
            x[4 * k + i] = i % 2 ? -0.0f : 0.0f;
        }
        x[3 * k] = 127;
        x[5 * k] = 3.4028235e38f;
        uint8_t *rows = round_rows(cpu, x, m, k, group);
        const int64_t bytes = mica__act8_row_bytes(k, group);
        for (int64_t r = 0; r < m; r++) {
            float *from = mica__act8_scales(rows + r * bytes, k);
            memcpy(scales + 5 * r, from, 5 * 4);
            memset(from, 0, 5 * 4);
        }
        digest_add(book, scales, MICA_F32, m * 5, "quantize_rows/%d/scales", group);
        digest_add(book, rows, MICA_U8, m * bytes, "quantize_rows/%d/codes", group);
        free(x);
        free(scales);
        free(rows);
    }
}

static void add_product(digest_book *book, const mica__cpu *cpu, const weights *w, const char *name,
                        int64_t m)
{
    const int64_t n = w->attrs.n, k = w->attrs.k;
    const int64_t group = mica__act8_group(w->attrs.format, w->attrs.group);
    float *x = drawn_rows(m * k, 21), *y = room(m * n * 4);
    if (m > 2)
        x[2 * k + 5] = NAN;
    mica__operand in[4] = {OPERAND(x, MICA_F32, m, k)}, out = OPERAND(y, MICA_F32, m, n);
    mica__call call = {.attrs = &w->attrs, .cpu = cpu, .n_out = 1, .in = in, .out = &out};
    call.n_in = 1 + weights_operands(w, in + 1);
    assert_ok(run_kernel(MICA__OP_QMATMUL, &call));
    digest_add(book, y, MICA_F32, m * n, "qmatmul/%s/%d", name, (int)m);
    if (mica__act8_has_product(w->attrs.format)) {
        uint8_t *rows = round_rows(cpu, x, m, k, group);
        in[0] = OPERAND(rows, MICA_U8, m, mica__act8_row_bytes(k, group));
        assert_ok(run_kernel(MICA__OP_QMATMUL_I8, &call));
        digest_add(book, y, MICA_F32, m * n, "qmatmul_i8/%s/%d", name, (int)m);
        free(rows);
    }
    free(x);
    free(y);
}

static void add_embedding(digest_book *book, const mica__cpu *cpu, const weights *w,
                          const char *name)
{
    const int64_t k = w->attrs.k;
    int32_t ids[] = {32, 0, 7};
    float *y = room(3 * k * 4);
    mica__operand in[4] = {OPERAND(ids, MICA_I32, 3)}, out = OPERAND(y, MICA_F32, 3, k);
    mica__call call = {.attrs = &w->attrs, .cpu = cpu, .n_out = 1, .in = in, .out = &out};
    call.n_in = 1 + weights_operands(w, in + 1);
    assert_ok(run_kernel(MICA__OP_EMBED, &call));
    digest_add(book, y, MICA_F32, 3 * k, "embed/%s", name);
    free(y);
}

static void add_stored_weights(digest_book *book, const mica__cpu *cpu)
{
    static const char *const patterns[N_PATTERNS] = {"random", "largest", "tiny"};
    int32_t format;
    int bits, group;
    mica_dtype scales;
    for (int i = 0; weights_format(i, &format, &bits, &group, &scales); i++)
        for (int p = 0; p < N_PATTERNS; p++) {
            char name[64];
            snprintf(name, sizeof name, "%s.%d.%d.%s/%s",
                     mica__block_info_of((mica__block_format)format)->name, bits, group,
                     bits ? mica_dtype_name(scales) : "own", patterns[p]);
            weights w = weights_make(format, bits, group, scales, 33, p ? 512 : 1280, (pattern)p, p,
                                     40 + (uint64_t)i);
            add_product(book, cpu, &w, name, 1);
            add_product(book, cpu, &w, name, 5);
            if (p == PATTERN_RANDOM)
                add_product(book, cpu, &w, name, 17);
            add_embedding(book, cpu, &w, name);
            weights_free(&w);
        }
}

/* --- attention -------------------------------------------------------------------------------- */

typedef struct scene {
    mica__attention_attrs attrs;
    int64_t heads, n, depth, blocks;
    float *q, *k, *v, *out;
    int32_t *positions, *sequence_of, *table;
    uint8_t *pool;
} scene;

/* One sequence of `depth` tokens, its blocks in memory backwards. */
static scene make_scene(int kv_dtype, int64_t heads, int kv_heads, int head_dim, int64_t depth)
{
    scene s = {.heads = heads, .n = depth, .depth = depth, .blocks = depth / 16 + 1};
    s.attrs.kv = (mica__kv_attrs){kv_dtype, kv_heads, head_dim, head_dim, 0, 32};
    s.attrs.kv.block_bytes = 64 + mica__kv_layer_bytes(kv_dtype, kv_heads, head_dim, head_dim);
    s.attrs.scale = 0.125f;
    s.q = drawn_rows(depth * heads * head_dim, 51);
    s.k = drawn_rows(depth * kv_heads * head_dim, 52);
    s.v = drawn_rows(depth * kv_heads * head_dim, 53);
    s.out = room(depth * heads * head_dim * 4);
    s.positions = room(depth * 4);
    s.sequence_of = room(depth * 4);
    s.table = room(s.blocks * 4);
    s.pool = room(s.blocks * s.attrs.kv.block_bytes);
    for (int64_t i = 0; i < depth; i++)
        s.positions[i] = (int32_t)i;
    for (int64_t i = 0; i < s.blocks; i++)
        s.table[i] = (int32_t)(s.blocks - 1 - i);
    s.v[3 * kv_heads * head_dim + 1] = NAN; /* at position 3: seen by full attention only */
    return s;
}

static void free_scene(scene *s)
{
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->out);
    free(s->positions);
    free(s->sequence_of);
    free(s->table);
    free(s->pool);
}

static void write_kv(scene *s, const mica__cpu *cpu)
{
    const mica__kv_attrs *kv = &s->attrs.kv;
    mica__operand in[] = {
        OPERAND(s->pool, MICA_U8, s->blocks * kv->block_bytes),
        OPERAND(s->k, MICA_F32, s->n, kv->kv_heads, kv->head_dim),
        OPERAND(s->v, MICA_F32, s->n, kv->kv_heads, kv->value_dim),
        OPERAND(s->positions, MICA_I32, s->n),
        OPERAND(s->sequence_of, MICA_I32, s->n),
        OPERAND(s->table, MICA_I32, 1, s->blocks),
    };
    mica__operand out = in[0];
    const mica__call call = {.attrs = kv, .cpu = cpu, .n_in = 6, .n_out = 1, .in = in, .out = &out};
    assert_ok(run_kernel(MICA__OP_KV_WRITE, &call));
}

/* Rows [first, first + n) attend; returns how many floats that gave. */
static int64_t attend(scene *s, const mica__cpu *cpu, int64_t first, int64_t n)
{
    const mica__kv_attrs *kv = &s->attrs.kv;
    mica__operand in[] = {
        OPERAND(s->q + first * s->heads * kv->head_dim, MICA_F32, n, s->heads, kv->head_dim),
        OPERAND(s->pool, MICA_U8, s->blocks * kv->block_bytes),
        OPERAND(s->positions + first, MICA_I32, n),
        OPERAND(s->sequence_of + first, MICA_I32, n),
        OPERAND(s->table, MICA_I32, 1, s->blocks),
    };
    mica__operand out = OPERAND(s->out, MICA_F32, n, s->heads, kv->value_dim);
    const mica__call call = {
        .attrs = &s->attrs, .cpu = cpu, .n_in = 5, .n_out = 1, .in = in, .out = &out};
    assert_ok(run_kernel(MICA__OP_ATTENTION, &call));
    return n * s->heads * kv->value_dim;
}

static void add_scene(digest_book *book, const mica__cpu *cpu, int kv_dtype, int shape)
{
    static const char *const kv_names[MICA__N_KV_DTYPES] = {"f32", "bf16", "f16", "q8", "q4"};
    static const struct {
        int64_t heads;
        int kv_heads, head_dim;
        int64_t depth;
    } shapes[] = {{4, 2, 64, 90}, {5, 5, 24, 40}, {3, 1, 80, 70}, {2, 1, 32, 1100}};
    const int head_dim = shapes[shape].head_dim, kv_heads = shapes[shape].kv_heads;
    if (mica__kv_layer_bytes(kv_dtype, kv_heads, head_dim, head_dim) < 0)
        return;
    scene s = make_scene(kv_dtype, shapes[shape].heads, kv_heads, head_dim, shapes[shape].depth);
    const char *name = kv_names[kv_dtype];
    const int64_t last = s.depth - 6;
    write_kv(&s, cpu);
    digest_add(book, s.out, MICA_F32, attend(&s, cpu, last, 6), "attention/%s/%d", name, head_dim);
    s.attrs.window = 37;
    digest_add(book, s.out, MICA_F32, attend(&s, cpu, last, 6), "attention/%s/%d/window", name,
               head_dim);
    s.attrs.soft_cap = 3;
    digest_add(book, s.out, MICA_F32, attend(&s, cpu, 0, 30), "attention/%s/%d/soft_cap", name,
               head_dim);
    free_scene(&s);
}

/* --- rotary embedding ------------------------------------------------------------------------- */

static void add_rotations(digest_book *book, const mica__cpu *cpu)
{
    enum { T = 9, H = 3, D = 70, N = 29 };
    int32_t positions[T] = {0, 1, 2, 77, 1000, 4095, 131071, 1000000, 2147483647};
    float freqs[N], table[T * 2 * N], out[T * H * D];
    for (int i = 0; i < N; i++)
        freqs[i] = i ? freqs[i - 1] * 0.7f : 1;
    mica__rope_table_attrs table_attrs = {1.25f};
    mica__operand table_in[] = {OPERAND(positions, MICA_I32, T), OPERAND(freqs, MICA_F32, N)};
    mica__operand table_out = OPERAND(table, MICA_F32, T, 2, N);
    const mica__call make = {.attrs = &table_attrs,
                             .cpu = cpu,
                             .n_in = 2,
                             .n_out = 1,
                             .in = table_in,
                             .out = &table_out};
    assert_ok(run_kernel(MICA__OP_ROPE_TABLE, &make));
    digest_add(book, table, MICA_F32, T * 2 * N, "rope_table");
    float *x = drawn_rows(T * H * D, 61);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        mica__rope_attrs attrs = {interleaved};
        mica__operand in[] = {OPERAND(x, MICA_F32, T, H, D), table_out};
        mica__operand to = OPERAND(out, MICA_F32, T, H, D);
        const mica__call call = {
            .attrs = &attrs, .cpu = cpu, .n_in = 2, .n_out = 1, .in = in, .out = &to};
        assert_ok(run_kernel(MICA__OP_ROPE, &call));
        digest_add(book, out, MICA_F32, T * H * D, "rope/%s", interleaved ? "interleaved" : "half");
    }
    free(x);
}

void digest_kernels(digest_book *book, const mica__cpu *cpu, const char *isa)
{
    (void)isa;
    add_rounded_rows(book, cpu);
    add_stored_weights(book, cpu);
    for (int kv_dtype = 0; kv_dtype < MICA__N_KV_DTYPES; kv_dtype++)
        for (int shape = 0; shape < 4; shape++)
            add_scene(book, cpu, kv_dtype, shape);
    add_rotations(book, cpu);
}
