/* sampler_filters.h - what makes the list of candidates shorter.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_SAMPLER_FILTERS_H
#define MICA_RUN_SAMPLER_FILTERS_H

#include "run/sampler.h"

/* Puts the candidates in order: weight falling, then logit falling, then token rising. In place,
 * O(n log n) always. */
void mica__candidates_sort(mica__candidate *list, int64_t n);

/* Each keeps some of list[0, n), n >= 1, in list[0, result), at least one. The order of what stays
 * depends on the input alone. */
int64_t mica__filter_top_k(mica__candidate *list, int64_t n, int64_t k);
int64_t mica__filter_typical(mica__candidate *list, int64_t n, double p);
int64_t mica__filter_top_p(mica__candidate *list, int64_t n, double p);
int64_t mica__filter_min_p(mica__candidate *list, int64_t n, double p);
int64_t mica__filter_xtc(mica__candidate *list, int64_t n, double threshold, const int32_t *spared,
                         int64_t n_spared);

/* Sets weight = exp((logit - largest) / temperature); returns the sum in the list's order. */
double mica__candidates_weigh(mica__candidate *list, int64_t n, double temperature);

#endif
