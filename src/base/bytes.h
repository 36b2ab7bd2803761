/* bytes.h - little-endian values at any address.
 *
 * File data starts at odd offsets, so nothing outside kernels dereferences a typed pointer into a
 * mapped file: it loads through these helpers, which compile to plain moves.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_BYTES_H
#define MICA_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "mica runs on little-endian machines"
#endif

static inline uint16_t mica__load_u16(const void *at)
{
    uint16_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline uint32_t mica__load_u32(const void *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline uint64_t mica__load_u64(const void *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline float mica__load_f32(const void *at)
{
    float v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline double mica__load_f64(const void *at)
{
    double v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline void mica__store_u16(void *at, uint16_t v)
{
    memcpy(at, &v, sizeof v);
}

static inline void mica__store_u32(void *at, uint32_t v)
{
    memcpy(at, &v, sizeof v);
}

static inline void mica__store_u64(void *at, uint64_t v)
{
    memcpy(at, &v, sizeof v);
}

static inline void mica__store_f32(void *at, float v)
{
    memcpy(at, &v, sizeof v);
}

#endif
