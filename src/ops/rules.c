/* rules.c - finds the rules of an op.
 * SPDX-License-Identifier: MIT
 */
#include "core/graph.h"

#include <pthread.h>
#include <stdlib.h>

static const mica__rules *by_op[MICA__N_OPS];

static void fill(void)
{
    static const mica__rules *const families[] = {
        mica__elementwise_rules, mica__create_rules, mica__shape_rules, mica__reduce_rules,
        mica__index_rules,       mica__matmul_rules, mica__fast_rules,
    };
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const mica__rules *rules = families[f]; rules->doc; rules++)
            by_op[rules->op] = rules;
}

const mica__rules *mica__rules_of(mica__op op)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    return by_op[op];
}
