/* Little-endian reads and writes at any alignment. Pure; the caller has checked the bounds. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "hearth reads GGUF in place and needs a little-endian machine"
#endif

static inline uint16_t bytes_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t bytes_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t bytes_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void bytes_put_u16(void *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void bytes_put_u32(void *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void bytes_put_u64(void *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline float bytes_f32(const void *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
