/* matmul_bench.c - speed of the products with weights, per format and level.
 *
 *     matmul_bench [-t threads] [-s seconds] [-i isa] [-f format] [-n N] [-k K] [-m M] [-r] [-c]
 *
 * One row (M = 1): GB/s of stored weights read, over a set of matrices larger than the caches
 * (256 MiB; -c: over one matrix). -r: activations in f32 for quantised weights too. Many rows (M =
 * 512): billions of multiplications and additions a second over one matrix. Figures are the best of
 * several passes; formats and levels in turn, so that a slow moment of the machine does not fall on
 * one of them.
 * SPDX-License-Identifier: MIT
 */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/qweight.h"
#include "base/cpu.h"
#include "base/half.h"

typedef struct bench_format {
    const char *name;
    int32_t format;
    int bits, group;
    mica_dtype scales;
} bench_format;

static const bench_format formats[] = {
    {"Q4_0", MICA__Q4_0, 0, 0, 0},
    {"Q4_1", MICA__Q4_1, 0, 0, 0},
    {"Q5_0", MICA__Q5_0, 0, 0, 0},
    {"Q5_1", MICA__Q5_1, 0, 0, 0},
    {"Q8_0", MICA__Q8_0, 0, 0, 0},
    {"IQ4_NL", MICA__IQ4_NL, 0, 0, 0},
    {"MXFP4", MICA__MXFP4, 0, 0, 0},
    {"Q2_K", MICA__Q2_K, 0, 0, 0},
    {"Q3_K", MICA__Q3_K, 0, 0, 0},
    {"Q4_K", MICA__Q4_K, 0, 0, 0},
    {"Q5_K", MICA__Q5_K, 0, 0, 0},
    {"Q6_K", MICA__Q6_K, 0, 0, 0},
    {"IQ4_XS", MICA__IQ4_XS, 0, 0, 0},
    {"mlx4", MICA__MLX_AFFINE, 4, 64, MICA_BF16},
    {"mlx8", MICA__MLX_AFFINE, 8, 64, MICA_BF16},
    {"F32", MICA__F32, 0, 0, 0},
    {"F16", MICA__F16, 0, 0, 0},
    {"BF16", MICA__BF16, 0, 0, 0},
};
#define N_FORMATS ((int)(sizeof formats / sizeof *formats))

typedef struct options {
    int threads;
    double seconds;
    const char *isa, *format;
    int64_t n, k, m;
    int real;   /* f32 activations for quantised weights */
    int cached; /* one matrix, read again and again */
} options;

/* Wall time; with one thread the time that thread had a processor, so that other work counts less.
 */
static double now(const options *o)
{
    struct timespec t;
    clock_gettime(o->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static mica__operand matrix(void *data, mica_dtype dtype, int64_t rows, int64_t columns)
{
    mica__operand o = {.data = data, .dtype = dtype, .ndim = 2};
    o.shape[0] = rows;
    o.shape[1] = columns;
    o.strides[0] = columns;
    o.strides[1] = 1;
    return o;
}

static void *take(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
    if (!p) {
        fprintf(stderr, "matmul_bench: out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

/* Random bytes whose half scales are small finite numbers. */
static void fill(const bench_format *f, uint8_t *data, size_t bytes)
{
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(data + i, &state, 8);
    }
    if (f->format == MICA__F32 || f->format == MICA__F16 || f->format == MICA__BF16) {
        const bool half = f->format == MICA__F16;
        const uint32_t mask = f->format == MICA__F32 ? 0x00ffffffu
                              : half                 ? 0x03ff03ffu
                                                     : 0x007f007fu;
        const uint32_t top = f->format == MICA__F32 ? 0x3e000000u
                             : half                 ? 0x38003800u
                                                    : 0x3e803e80u;
        for (size_t i = 0; i + 4 <= bytes; i += 4) {
            uint32_t v;
            memcpy(&v, data + i, 4);
            v = (v & mask) | top;
            memcpy(data + i, &v, 4);
        }
        return;
    }
    const mica__block_info *facts = mica__block_info_of((mica__block_format)f->format);
    for (size_t i = 0; f->format == MICA__MXFP4 && i < bytes; i += 17)
        data[i] = (uint8_t)(110 + data[i] % 16);
    for (size_t i = 0;
         f->format != MICA__MXFP4 && facts->bytes && i + (size_t)facts->bytes <= bytes;
         i += (size_t)facts->bytes) {
        data[i + 1] &= 0x3b; /* wherever halves stand: exponents below 2^0 */
        if (facts->bytes > 3)
            data[i + 3] &= 0x3b;
        data[i + (size_t)facts->bytes - 1] &= 0x3b;
        if (facts->bytes == 84)
            data[i + 81] &= 0x3b;
    }
}

typedef struct job {
    const mica__kernel *kernel;
    mica__call *calls;
    int n_calls;
    int64_t tasks;
    atomic_long next; /* over calls x tasks */
    size_t scratch_bytes;
    pthread_barrier_t *barrier;
    atomic_bool stop;
} job;

static void run_tasks(job *j, void *scratch)
{
    for (;;) {
        const int64_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->tasks * j->n_calls)
            return;
        j->kernel->run(&j->calls[i / j->tasks], j->kernel->n_stages - 1, i % j->tasks, scratch);
    }
}

static void *worker(void *user)
{
    job *j = user;
    void *scratch = take(j->scratch_bytes + 64);
    for (;;) {
        pthread_barrier_wait(j->barrier);
        if (atomic_load(&j->stop))
            break;
        run_tasks(j, scratch);
        pthread_barrier_wait(j->barrier);
    }
    free(scratch);
    return NULL;
}

/* Best seconds of one pass over all calls. */
static double best_pass(job *j, const options *o)
{
    pthread_barrier_t barrier;
    pthread_t threads[64];
    pthread_barrier_init(&barrier, NULL, (unsigned)o->threads);
    j->barrier = &barrier;
    atomic_store(&j->stop, false);
    for (int i = 1; i < o->threads; i++)
        if (pthread_create(&threads[i], NULL, worker, j))
            exit(1);
    void *scratch = take(j->scratch_bytes + 64);
    double best = 1e30, total = 0;
    for (int pass = 0; pass < 3 || (total < o->seconds && pass < 1000); pass++) {
        atomic_store(&j->next, 0);
        pthread_barrier_wait(&barrier);
        const double start = now(o);
        run_tasks(j, scratch);
        pthread_barrier_wait(&barrier);
        const double t = now(o) - start;
        total += t;
        best = t < best ? t : best;
    }
    atomic_store(&j->stop, true);
    pthread_barrier_wait(&barrier);
    for (int i = 1; i < o->threads; i++)
        pthread_join(threads[i], NULL);
    free(scratch);
    pthread_barrier_destroy(&barrier);
    return best;
}

/* Operands of one matrix whose stored bytes begin at data; returns how many inputs. */
static int weight_inputs(const bench_format *f, int64_t n, int64_t k, uint8_t *data,
                         mica__operand *in, int64_t *bytes)
{
    if (!f->bits) {
        const int64_t row = mica__block_row_bytes((mica__block_format)f->format, k);
        in[0] = matrix(data, MICA_U8, n, row);
        in[0].unaligned = true;
        *bytes = n * row;
        return 1;
    }
    const int64_t words = k * f->bits / 32, groups = k / f->group;
    const int64_t scale = mica_dtype_bytes(f->scales);
    in[0] = matrix(data, MICA_U32, n, words);
    in[1] = matrix(data + n * words * 4, f->scales, n, groups);
    in[2] = matrix(data + n * words * 4 + n * groups * scale, f->scales, n, groups);
    in[0].unaligned = in[1].unaligned = in[2].unaligned = true;
    *bytes = n * words * 4 + 2 * n * groups * scale;
    return 3;
}

static void bench(const bench_format *f, const options *o, int64_t m, const mica__cpu *cpu)
{
    const bool i8 = !o->real && mica__act8_has_product(f->format);
    const mica__kernel *kernel = i8 ? &mica__kernel_qmatmul_i8 : &mica__kernel_qmatmul;
    mica__qweight_attrs attrs = {f->format, f->bits, f->group, 0, o->n, o->k};
    mica__operand probe[3];
    int64_t bytes;
    weight_inputs(f, o->n, o->k, NULL, probe, &bytes);
    const int n_calls = m <= 16 && !o->cached ? (int)((256 << 20) / bytes) + 1 : 1;
    uint8_t *data = take((size_t)(bytes * n_calls));
    fill(f, data, (size_t)(bytes * n_calls));
    for (int i = 0; f->bits && i < n_calls; i++) { /* scales and biases of one size */
        const int64_t codes = o->n * o->k * f->bits / 8;
        for (int64_t b = codes; b < bytes; b += 2)
            memcpy(data + i * bytes + b, &(uint16_t){0x3c12}, 2);
    }
    const int64_t group = mica__act8_group(f->format, f->group);
    const int64_t act_bytes = i8 ? mica__act8_row_bytes(o->k, group) : o->k * 4;
    uint8_t *acts = take((size_t)(m * act_bytes));
    float *x = take((size_t)(m * o->k) * 4);
    for (int64_t i = 0; i < m * o->k; i++)
        x[i] = (float)((i * 7919) % 255 - 127) / 64.0f;
    if (i8) {
        mica__quantize_rows_attrs q = {(int32_t)group};
        mica__operand in = matrix(x, MICA_F32, m, o->k), out = matrix(acts, MICA_U8, m, act_bytes);
        mica__call call = {.attrs = &q, .cpu = cpu, .n_in = 1, .n_out = 1, .in = &in, .out = &out};
        for (int64_t t = 0; t < mica__kernel_quantize_rows.n_tasks(&call, 0); t++)
            mica__kernel_quantize_rows.run(&call, 0, t, NULL);
    }
    float *y = take((size_t)(m * o->n) * 4);
    mica__call *calls = take((size_t)n_calls * sizeof *calls);
    mica__operand *ins = take((size_t)n_calls * 4 * sizeof *ins);
    mica__operand out = matrix(y, MICA_F32, m, o->n);
    for (int i = 0; i < n_calls; i++) {
        ins[4 * i] = i8 ? matrix(acts, MICA_U8, m, act_bytes) : matrix(x, MICA_F32, m, o->k);
        const int n_in = weight_inputs(f, o->n, o->k, data + i * bytes, ins + 4 * i + 1, &bytes);
        calls[i] = (mica__call){
            .attrs = &attrs, .cpu = cpu, .n_in = 1 + n_in, .n_out = 1, .in = ins + 4 * i};
        calls[i].out = &out;
    }
    job j = {.kernel = kernel, .calls = calls, .n_calls = n_calls};
    j.tasks = kernel->n_tasks(&calls[0], 0);
    j.scratch_bytes = kernel->scratch_bytes(&calls[0]);
    const double seconds = best_pass(&j, o);
    if (m <= 16)
        printf("%-8s M=%-4d %7.2f GB/s\n", f->name, (int)m,
               (double)(bytes * n_calls) / seconds / 1e9);
    else
        printf("%-8s M=%-4d %7.1f GOPS\n", f->name, (int)m,
               2.0 * (double)m * (double)o->n * (double)o->k / seconds / 1e9);
    fflush(stdout);
    free(data);
    free(acts);
    free(x);
    free(y);
    free(calls);
    free(ins);
}

int main(int argc, char **argv)
{
    options o = {.threads = 1, .seconds = 0.3, .n = 2048, .k = 2048};
    for (int c; (c = getopt(argc, argv, "t:s:i:f:n:k:m:rc")) != -1;) {
        switch (c) {
        case 't':
            o.threads = atoi(optarg);
            break;
        case 's':
            o.seconds = atof(optarg);
            break;
        case 'i':
            o.isa = optarg;
            break;
        case 'f':
            o.format = optarg;
            break;
        case 'n':
            o.n = atoll(optarg);
            break;
        case 'k':
            o.k = atoll(optarg);
            break;
        case 'm':
            o.m = atoll(optarg);
            break;
        case 'c':
            o.cached = 1;
            break;
        case 'r':
            o.real = 1;
            break;
        default:
            fprintf(stderr, "usage: matmul_bench [-t threads] [-s seconds] [-i isa] [-f format] "
                            "[-n N] [-k K] [-m M] [-r] [-c]\n");
            return 2;
        }
    }
    if (o.threads < 1 || o.threads > 64 || o.n < 1 || o.k < 32 || o.k % 32)
        return 2;
    mica__cpu cpu = *mica__cpu_host();
    if (o.isa && mica__cpu_cap(o.isa, &cpu)) {
        fprintf(stderr, "matmul_bench: %s\n", mica_last_error());
        return 2;
    }
    for (int i = 0; i < N_FORMATS; i++) {
        const mica__block_info *facts = mica__block_info_of((mica__block_format)formats[i].format);
        const int64_t step = facts->values ? facts->values : formats[i].group;
        if ((o.format && strcmp(o.format, formats[i].name)) || o.k % step)
            continue;
        if (o.m) {
            bench(&formats[i], &o, o.m, &cpu);
            continue;
        }
        bench(&formats[i], &o, 1, &cpu);
        bench(&formats[i], &o, 512, &cpu);
    }
    return 0;
}
