/* bandwidth.c - threads that read memory of their own over and over until the time is up.
 *
 * Nobody waits for anybody: time is cut into a few readings by the clock, each thread notes what it
 * read in each while it had a processor, and the result is the best reading's sum. A thread that
 * the system refuses is simply missing.
 * SPDX-License-Identifier: MIT
 */
#include "cli/bandwidth.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include "cli/progress.h"

#define STRETCH_BYTES ((size_t)64 << 20) /* of a thread; less where there are many */
#define MOST_BYTES    ((size_t)512 << 20)
#define MOST_THREADS  256
#define READINGS      5
#define SECONDS       0.05 /* of one reading; all, first touch included, take five times that */
#define STREAMS       16
#define LINE_WORDS    ((size_t)8)
#define SKEW_WORDS    ((size_t)9 * LINE_WORDS) /* else they meet in the same cache sets */
#define PIECE_WORDS   ((size_t)1 << 13) /* of a stream, between two looks at the clock: 64 KiB */

typedef struct reading {
    pthread_t thread;
    uint64_t *words;
    size_t n_words;
    double started;
    double rates[READINGS]; /* bytes a second */
    bool read;
    uint64_t sum; /* so that the reads are not optimised away */
} reading;

/* A piece of every stream, a line of each in turn: one stream alone waits for memory's latency. */
static uint64_t read_pieces(const uint64_t *words, size_t distance)
{
    uint64_t sums[LINE_WORDS] = {0}, sum = 0;
    for (size_t i = 0; i < PIECE_WORDS; i += LINE_WORDS)
        for (size_t stream = 0; stream < STREAMS; stream++)
            for (size_t k = 0; k < LINE_WORDS; k++)
                sums[k] += words[stream * distance + i + k];
    for (size_t k = 0; k < LINE_WORDS; k++)
        sum += sums[k];
    return sum;
}

/* What this thread has computed, in seconds: while others have its processor it stands still. */
static double own_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *read_all_streams(void *user)
{
    reading *own = user;
    double bytes[READINGS] = {0}, seconds[READINGS] = {0};
    for (size_t i = 0; i < own->n_words; i += 512)
        own->words[i] = i + 1; /* a page of its own instead of the shared page of zeros */
    const size_t distance = own->n_words / STREAMS - SKEW_WORDS;
    const size_t pieces = distance / PIECE_WORDS;
    double before = own_seconds();
    for (size_t at = 0;; at = (at + 1) % pieces) {
        int slot = (int)((seconds_now() - own->started) / SECONDS);
        if (slot >= READINGS && own->read)
            break;
        own->read = true;
        slot = slot < READINGS ? slot : READINGS - 1;
        own->sum += read_pieces(own->words + at * PIECE_WORDS, distance);
        const double now = own_seconds();
        bytes[slot] += 8.0 * (double)(STREAMS * PIECE_WORDS);
        seconds[slot] += now - before;
        before = now;
    }
    for (int slot = 0; slot < READINGS; slot++)
        if (seconds[slot] > 0)
            own->rates[slot] = bytes[slot] / seconds[slot];
    return NULL;
}

/* The best moment of all threads together. */
static double best_rate(const reading *readings, int n)
{
    double best = 0;
    for (int slot = 0; slot < READINGS; slot++) {
        double rate = 0;
        for (int i = 0; i < n; i++)
            rate += readings[i].rates[slot];
        best = rate > best ? rate : best;
    }
    return best;
}

double bandwidth_measure(int threads)
{
    reading readings[MOST_THREADS];
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    size_t stretch = STRETCH_BYTES;
    if (stretch * (size_t)threads > MOST_BYTES)
        stretch = MOST_BYTES / (size_t)threads / (8 * STREAMS * PIECE_WORDS) *
                  (8 * STREAMS * PIECE_WORDS);
    const size_t bytes = stretch * (size_t)threads;
    uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED)
        return 0;
    madvise(words, bytes, MADV_HUGEPAGE); /* only a wish */
    const double started = seconds_now();
    int running = 0;
    for (; running < threads; running++) {
        reading *next = &readings[running];
        *next = (reading){.words = words + (size_t)running * (stretch / 8),
                          .n_words = stretch / 8,
                          .started = started};
        if (pthread_create(&next->thread, NULL, read_all_streams, next) != 0)
            break;
    }
    for (int i = 0; i < running; i++)
        pthread_join(readings[i].thread, NULL);
    munmap(words, bytes);
    return best_rate(readings, running);
}
