/* Sixteen at a time, as vectors of the compiler's own. */
#include "backend/logits.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 4, VECS = 4, STEP = LANES * VECS };

typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef int64_t l2 __attribute__((vector_size(16)));

static inline f4 load(const float *p)
{
    f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline f4 all(float x)
{
    return (f4){x, x, x, x};
}

static inline bool any(i4 mask)
{
    const l2 m = (l2)mask;
    return (m[0] | m[1]) != 0;
}

bool logits_max(const float *x, size_t n, float *max)
{
    f4 m[VECS];
    i4 good = {-1, -1, -1, -1};
    for (int j = 0; j < VECS; j++)
        m[j] = all(-INFINITY);
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        for (int j = 0; j < VECS; j++) {
            const f4 v = load(x + i + LANES * j);
            const i4 larger = v > m[j];
            good &= v < all(INFINITY);
            m[j] = (f4)(((i4)v & larger) | ((i4)m[j] & ~larger));
        }
    }
    bool ok = !any(~good);
    float most = -INFINITY;
    for (int j = 0; j < STEP; j++)
        most = m[j / LANES][j % LANES] > most ? m[j / LANES][j % LANES] : most;
    for (; i < n; i++) {
        ok = ok && x[i] < INFINITY;
        most = x[i] > most ? x[i] : most;
    }
    *max = most;
    return ok;
}

size_t logits_next(const float *x, size_t from, size_t n, float least)
{
    const f4 bar = all(least);
    size_t i = from;
    for (; i + STEP <= n; i += STEP) {
        const i4 a = (load(x + i) >= bar) | (load(x + i + LANES) >= bar);
        const i4 b = (load(x + i + 2 * LANES) >= bar) | (load(x + i + 3 * LANES) >= bar);
        if (any(a | b)) break;
    }
    while (i < n && !(x[i] >= least))
        i++;
    return i;
}
