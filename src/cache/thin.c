/* The one whose neighbours lie closest, measured by their age, goes. */
#include "cache/thin.h"

#include <assert.h>

size_t thin_victim(const uint64_t *at, size_t n, size_t n_newest)
{
    assert(n_newest > 0 && n > n_newest + 1);
    size_t victim = 1;
    double least = 0;
    for (size_t i = 1; i < n - n_newest; i++) {
        double gap = (double)(at[i + 1] - at[i - 1]), age = (double)(at[n - 1] - at[i]);
        double share = gap / age;
        if (i == 1 || share < least) victim = i, least = share;
    }
    return victim;
}
