/* Sizes, counts and times in words. */
#include "base/readable.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/utf8.h"

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

const char *readable_number(char out[READABLE_BYTES], uint64_t n)
{
    char digits[24];
    const int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    char *to = out;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

const char *readable_count(char out[READABLE_BYTES], uint64_t n, const char *noun)
{
    char number[READABLE_BYTES];
    snprintf(out, READABLE_BYTES, "%.27s %.18s%s", readable_number(number, n), noun,
             n == 1 ? "" : "s");
    return out;
}

const char *readable_count_column(char out[READABLE_BYTES], uint64_t n, const char *noun)
{
    char number[READABLE_BYTES];
    snprintf(out, READABLE_BYTES, "%3.27s %.18s%s", readable_number(number, n), noun,
             n == 1 ? " " : "s");
    return out;
}

void readable_column(struct buf *out, const char *text, int columns)
{
    const size_t n = strlen(text);
    uint32_t cp;
    for (size_t i = 0; i < n;) {
        const int len = utf8_decode(text + i, n - i, &cp);
        columns -= len > 0 ? utf8_width(cp) : 1;
        i += len > 0 ? (size_t)len : 1;
    }
    buf_puts(out, text);
    buf_printf(out, "%*s", columns > 0 ? columns : 0, "");
}

const char *readable_time(char out[READABLE_BYTES], int64_t seconds)
{
    const time_t t = (time_t)seconds;
    struct tm tm;
    if (!localtime_r(&t, &tm) || !strftime(out, READABLE_BYTES, "%Y-%m-%d %H:%M", &tm))
        snprintf(out, READABLE_BYTES, "%" PRId64, seconds);
    return out;
}
