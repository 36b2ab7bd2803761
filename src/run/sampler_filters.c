/* sampler_filters.c - what makes the list of candidates shorter.
 *
 * Every filter looks at the probabilities of what the one before it left, without temperature. Sums
 * run in the list's order and comparisons break ties by token, so the outcome is a function of the
 * logits. The C library's sort is not used: it may allocate.
 * SPDX-License-Identifier: MIT
 */
#include "run/sampler_filters.h"

#include "run/sample_math.h"

/* --- order ------------------------------------------------------------------------------------ */

static bool is_before(const mica__candidate *a, const mica__candidate *b)
{
    if (a->weight != b->weight)
        return a->weight > b->weight;
    if (a->logit != b->logit)
        return a->logit > b->logit;
    return a->token < b->token;
}

static void swap(mica__candidate *a, mica__candidate *b)
{
    const mica__candidate kept = *a;
    *a = *b;
    *b = kept;
}

/* Restores the heap below `at`: the last in order is on top. */
static void sift_down(mica__candidate *heap, int64_t n, int64_t at)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n)
            return;
        if (child + 1 < n && is_before(&heap[child], &heap[child + 1]))
            child++;
        if (!is_before(&heap[at], &heap[child]))
            return;
        swap(&heap[at], &heap[child]);
        at = child;
    }
}

static void make_heap(mica__candidate *heap, int64_t n)
{
    for (int64_t at = n / 2 - 1; at >= 0; at--)
        sift_down(heap, n, at);
}

void mica__candidates_sort(mica__candidate *list, int64_t n)
{
    make_heap(list, n);
    for (int64_t left = n - 1; left > 0; left--) {
        swap(&list[0], &list[left]);
        sift_down(list, left, 0);
    }
}

/* --- weights ---------------------------------------------------------------------------------- */

static float largest_logit(const mica__candidate *list, int64_t n)
{
    float largest = list[0].logit;
    for (int64_t i = 1; i < n; i++)
        if (list[i].logit > largest)
            largest = list[i].logit;
    return largest;
}

double mica__candidates_weigh(mica__candidate *list, int64_t n, double temperature)
{
    const double largest = (double)largest_logit(list, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        list[i].weight = mica__sample_exp(((double)list[i].logit - largest) / temperature);
        sum += list[i].weight;
    }
    return sum;
}

/* --- filters ---------------------------------------------------------------------------------- */

int64_t mica__filter_top_k(mica__candidate *list, int64_t n, int64_t k)
{
    if (k >= n)
        return n;
    for (int64_t i = 0; i < n; i++)
        list[i].weight = (double)list[i].logit;
    make_heap(list, k);
    for (int64_t i = k; i < n; i++)
        if (is_before(&list[i], &list[0])) {
            list[0] = list[i];
            sift_down(list, k, 0);
        }
    mica__candidates_sort(list, k);
    return k;
}

/* The shortest beginning of a sorted list whose share[] reaches `wanted`. */
static int64_t shortest_beginning(const mica__candidate *list, int64_t n, double largest,
                                  double wanted)
{
    double reached = 0;
    for (int64_t i = 0; i < n; i++) {
        reached += mica__sample_exp((double)list[i].logit - largest);
        if (reached >= wanted)
            return i + 1;
    }
    return n;
}

int64_t mica__filter_typical(mica__candidate *list, int64_t n, double p)
{
    const double sum = mica__candidates_weigh(list, n, 1);
    const double largest = (double)largest_logit(list, n), log_sum = mica__sample_log(sum);
    double entropy = 0;
    for (int64_t i = 0; i < n; i++)
        entropy += list[i].weight / sum * (log_sum - ((double)list[i].logit - largest));
    /* First come those whose information is nearest to the entropy. */
    for (int64_t i = 0; i < n; i++) {
        const double off = log_sum - ((double)list[i].logit - largest) - entropy;
        list[i].weight = off > 0 ? -off : off;
    }
    mica__candidates_sort(list, n);
    return shortest_beginning(list, n, largest, p * sum);
}

int64_t mica__filter_top_p(mica__candidate *list, int64_t n, double p)
{
    const double sum = mica__candidates_weigh(list, n, 1);
    const double largest = (double)largest_logit(list, n);
    /* All that weigh less than this together weigh less than (1 - p) sum: they need no sorting. */
    const double light = (1 - p) * sum / (double)n;
    int64_t heavy = 0;
    for (int64_t i = 0; i < n; i++)
        if (list[i].weight >= light)
            list[heavy++] = list[i];
    mica__candidates_sort(list, heavy);
    return shortest_beginning(list, heavy, largest, p * sum);
}

int64_t mica__filter_min_p(mica__candidate *list, int64_t n, double p)
{
    const double lowest = (double)largest_logit(list, n) + mica__sample_log(p);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if ((double)list[i].logit >= lowest)
            list[kept++] = list[i];
    return kept;
}

static bool is_spared(int32_t token, const int32_t *spared, int64_t n_spared)
{
    for (int64_t i = 0; i < n_spared; i++)
        if (spared[i] == token)
            return true;
    return false;
}

int64_t mica__filter_xtc(mica__candidate *list, int64_t n, double threshold, const int32_t *spared,
                         int64_t n_spared)
{
    const double least = threshold * mica__candidates_weigh(list, n, 1);
    int64_t last = -1; /* of those that reach the threshold, the last in order */
    for (int64_t i = 0; i < n; i++)
        if (list[i].weight >= least && (last < 0 || is_before(&list[last], &list[i])))
            last = i;
    if (last < 0)
        return n;
    const mica__candidate stays = list[last];
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (list[i].weight < least || list[i].token == stays.token ||
            is_spared(list[i].token, spared, n_spared))
            list[kept++] = list[i];
    return kept;
}
