/* Byte b of element i lies at b * n_elements + i. */
#include "cache/planes.h"

#include <assert.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Elements of two bytes are the common ones; a resumed conversation waits for their way back.
 * Whole vectors of a plane's bytes, the second where `high`; each returns how many. */
#ifdef __SSE2__
static size_t get_pairs(const uint8_t *pairs, bool high, size_t n, uint8_t *out)
{
    const __m128i lows = _mm_set1_epi16(0xff);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(pairs + 2 * i));
        __m128i b = _mm_loadu_si128((const __m128i *)(pairs + 2 * i + 16));
        a = high ? _mm_srli_epi16(a, 8) : _mm_and_si128(a, lows);
        b = high ? _mm_srli_epi16(b, 8) : _mm_and_si128(b, lows);
        _mm_storeu_si128((__m128i *)(out + i), _mm_packus_epi16(a, b));
    }
    return i;
}

/* The first bytes leave zeros in the place of the second ones: that spares a read of raw. */
static size_t put_pairs(uint8_t *pairs, bool high, size_t n, const uint8_t *in)
{
    const __m128i none = _mm_setzero_si128(), lows = _mm_set1_epi16(0xff);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(in + i)),
                *to = (__m128i *)(pairs + 2 * i);
        __m128i a = _mm_unpacklo_epi8(v, none), b = _mm_unpackhi_epi8(v, none);
        if (high) {
            a = _mm_or_si128(_mm_slli_epi16(a, 8), _mm_and_si128(_mm_loadu_si128(to), lows));
            b = _mm_or_si128(_mm_slli_epi16(b, 8),
                             _mm_and_si128(_mm_loadu_si128(to + 1), lows));
        }
        _mm_storeu_si128(to, a);
        _mm_storeu_si128(to + 1, b);
    }
    return i;
}
#else
static size_t get_pairs(const uint8_t *pairs, bool high, size_t n, uint8_t *out)
{
    (void)pairs, (void)high, (void)n, (void)out;
    return 0;
}

static size_t put_pairs(uint8_t *pairs, bool high, size_t n, const uint8_t *in)
{
    (void)pairs, (void)high, (void)n, (void)in;
    return 0;
}
#endif

/* A stretch of the planes that lies in one of them, or behind all. */
struct stretch {
    size_t raw, step; /* where in the content its first byte is, and how far the next */
    size_t n;
};

/* The stretch that begins at `at` and has at most n bytes. */
static struct stretch stretch_of(const struct planes *p, size_t at, size_t n)
{
    const size_t m = p->n_bytes / p->element_bytes, whole = m * p->element_bytes;
    if (at >= whole) return (struct stretch){at, 1, n};
    const size_t b = at / m, i = at % m;
    return (struct stretch){i * p->element_bytes + b, p->element_bytes, n < m - i ? n : m - i};
}

void planes_get(const struct planes *p, const uint8_t *restrict raw, size_t at, size_t n,
                uint8_t *restrict out)
{
    assert(n <= p->n_bytes && at <= p->n_bytes - n);
    for (size_t done = 0; done < n;) {
        const struct stretch s = stretch_of(p, at + done, n - done);
        const size_t high = s.raw % 2;
        size_t i = 0;
        if (s.step == 2) i = get_pairs(raw + s.raw - high, high, s.n, out + done);
        for (; i < s.n; i++)
            out[done + i] = raw[s.raw + i * s.step];
        done += s.n;
    }
}

void planes_put(const struct planes *p, uint8_t *restrict raw, size_t at, size_t n,
                const uint8_t *restrict in)
{
    assert(n <= p->n_bytes && at <= p->n_bytes - n);
    for (size_t done = 0; done < n;) {
        const struct stretch s = stretch_of(p, at + done, n - done);
        const size_t high = s.raw % 2;
        size_t i = 0;
        if (s.step == 2) i = put_pairs(raw + s.raw - high, high, s.n, in + done);
        for (; i < s.n; i++)
            raw[s.raw + i * s.step] = in[done + i];
        done += s.n;
    }
}
