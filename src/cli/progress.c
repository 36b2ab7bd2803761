/* progress.c - the bar on standard error.
 * SPDX-License-Identifier: MIT
 */
#include "cli/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BAR_CELLS 30

static struct {
    bool allowed;
    bool drawn;
    const char *label; /* NULL: no bar */
    int64_t total;
    double started, last;
} bar;

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void progress_allow(bool allow)
{
    bar.allowed = allow && isatty(STDERR_FILENO);
}

void progress_begin(const char *label, int64_t total)
{
    progress_end();
    bar.label = label;
    bar.total = total > 0 ? total : 1;
    bar.started = bar.last = seconds_now();
}

void progress_update(int64_t done)
{
    if (!bar.allowed || !bar.label)
        return;
    const double now = seconds_now();
    if (now - bar.started < 1 || (bar.drawn && now - bar.last < 0.1))
        return;
    bar.last = now;
    bar.drawn = true;
    if (done > bar.total)
        done = bar.total;
    char cells[BAR_CELLS + 1];
    const int full = (int)(done * BAR_CELLS / bar.total);
    for (int i = 0; i < BAR_CELLS; i++)
        cells[i] = i < full ? '#' : '.';
    cells[BAR_CELLS] = '\0';
    fprintf(stderr, "\r\033[K%s [%s] %lld/%lld", bar.label, cells, (long long)done,
            (long long)bar.total);
    if (done > 0 && done < bar.total)
        fprintf(stderr, ", %.0f s left",
                (now - bar.started) * (double)(bar.total - done) / (double)done);
    fflush(stderr);
}

void progress_hide(void)
{
    if (bar.drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    bar.drawn = false;
}

void progress_end(void)
{
    progress_hide();
    bar.label = NULL;
}
