/* bandwidth.c - threads that read memory of their own over and over until the time is up.
 *
 * Nobody waits for anybody: the result is the sum of what each thread read a second, and a thread
 * that the system refuses is simply missing.
 * SPDX-License-Identifier: MIT
 */
#include "cli/bandwidth.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "cli/progress.h"

#define STRETCH_BYTES ((size_t)64 << 20) /* of a thread; less where there are many */
#define MOST_BYTES    ((size_t)512 << 20)
#define MOST_THREADS  256
#define SECONDS       0.25
#define PIECE_WORDS   ((size_t)1 << 17) /* between two looks at the clock: 1 MiB */

typedef struct reading {
    pthread_t thread;
    uint64_t *words;
    size_t n_words;
    double deadline;
    double rate;  /* bytes a second */
    uint64_t sum; /* so that the reads are not optimised away */
} reading;

static uint64_t read_words(const uint64_t *words, size_t n)
{
    uint64_t sums[8] = {0};
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sums[k] += words[i + k];
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

static void *read_until_deadline(void *user)
{
    reading *own = user;
    for (size_t i = 0; i < own->n_words; i += 512)
        own->words[i] = i + 1; /* a page of its own instead of the shared page of zeros */
    const double started = seconds_now();
    double now = started, bytes = 0;
    size_t at = 0;
    do {
        own->sum += read_words(own->words + at, PIECE_WORDS);
        bytes += 8.0 * (double)PIECE_WORDS;
        at = (at + PIECE_WORDS) % own->n_words;
        now = seconds_now();
    } while (now < own->deadline);
    own->rate = now > started ? bytes / (now - started) : 0;
    return NULL;
}

double bandwidth_measure(int threads)
{
    reading readings[MOST_THREADS];
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    size_t stretch = STRETCH_BYTES;
    if (stretch * (size_t)threads > MOST_BYTES)
        stretch = MOST_BYTES / (size_t)threads / (8 * PIECE_WORDS) * (8 * PIECE_WORDS);
    const size_t bytes = stretch * (size_t)threads;
    uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED)
        return 0;
    const double deadline = seconds_now() + SECONDS;
    int running = 0;
    for (; running < threads; running++) {
        reading *next = &readings[running];
        *next = (reading){.words = words + (size_t)running * (stretch / 8),
                          .n_words = stretch / 8,
                          .deadline = deadline};
        if (pthread_create(&next->thread, NULL, read_until_deadline, next) != 0)
            break;
    }
    double rate = 0;
    for (int i = 0; i < running; i++) {
        pthread_join(readings[i].thread, NULL);
        rate += readings[i].rate;
    }
    munmap(words, bytes);
    return rate;
}
