/* Sizes and times in words. */
#include "base/readable.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

const char *readable_size(char out[READABLE_BYTES], uint64_t n_bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (n_bytes < 1024) {
        snprintf(out, READABLE_BYTES, "%d byte%s", (int)n_bytes, n_bytes == 1 ? "" : "s");
        return out;
    }
    double x = (double)n_bytes / 1024;
    int unit = 0;
    for (; x >= 1023.5; unit++)
        x /= 1024;
    snprintf(out, READABLE_BYTES, x < 999.5 ? "%.3g %s" : "%.0f %s", x, units[unit]);
    return out;
}

const char *readable_time(char out[READABLE_BYTES], int64_t seconds)
{
    const time_t t = (time_t)seconds;
    struct tm tm;
    if (!localtime_r(&t, &tm) || !strftime(out, READABLE_BYTES, "%Y-%m-%d %H:%M", &tm))
        snprintf(out, READABLE_BYTES, "%" PRId64, seconds);
    return out;
}
