/* The first stop string in a text, and how much of its end might still become one. */
#include "engine/stop.h"

#include <string.h>

bool stop_find(const char *const *stop, size_t n_stop, const char *text, size_t len,
               size_t from, size_t *at)
{
    size_t best_end = len + 1, best = 0;
    for (size_t i = 0; i < n_stop; i++) {
        size_t n = strlen(stop[i]);
        if (n == 0 || n > len) continue; /* an empty text may be NULL, as memmem's may not */
        size_t start = from >= n ? from - n + 1 : 0;
        const char *hit = memmem(text + start, len - start, stop[i], n);
        if (!hit) continue;
        size_t begin = (size_t)(hit - text), end = begin + n;
        if (end < best_end || (end == best_end && begin < best)) best_end = end, best = begin;
    }
    if (best_end > len) return false;
    *at = best;
    return true;
}

size_t stop_held(const char *const *stop, size_t n_stop, const char *text, size_t len)
{
    size_t held = 0;
    for (size_t i = 0; i < n_stop; i++) {
        size_t n = strlen(stop[i]);
        size_t most = n == 0 ? 0 : n - 1 < len ? n - 1 : len;
        for (size_t k = most; k > held; k--)
            if (memcmp(text + len - k, stop[i], k) == 0) held = k;
    }
    return held;
}
