/* philox.h - random bits as a pure function of a key and a counter.
 *
 * Philox4x32-10. Reference: Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as 1, 2, 3
 * (SC 2011), section 4.3. No state: what is drawn for a token depends on nothing but its request's
 * seed, its choice and its position.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_PHILOX_H
#define MICA_RUN_PHILOX_H

#include <stdint.h>

typedef struct mica__philox_bits {
    uint32_t word[4];
} mica__philox_bits;

static inline mica__philox_bits mica__philox(uint64_t key, mica__philox_bits counter)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53u * counter.word[0];
        const uint64_t b = (uint64_t)0xcd9e8d57u * counter.word[2];
        counter.word[0] = (uint32_t)(b >> 32) ^ counter.word[1] ^ k0;
        counter.word[1] = (uint32_t)b;
        counter.word[2] = (uint32_t)(a >> 32) ^ counter.word[3] ^ k1;
        counter.word[3] = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return counter;
}

/* A double in [0, 1), a multiple of 2^-53. */
static inline double mica__philox_unit(uint32_t high, uint32_t low)
{
    return (double)((uint64_t)high << 21 | low >> 11) * 0x1p-53;
}

#endif
