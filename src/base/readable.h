/* Figures as a person reads them: sizes and times. Pure but for the time zone, any thread. */
#ifndef BASE_READABLE_H
#define BASE_READABLE_H

#include <stdint.h>

enum { READABLE_BYTES = 24 };

/* Three figures, or a whole number: "812 bytes", "9.5 MiB", "22.3 GiB", "1000 MiB"; units are
 * powers of 1024. Writes it to out and returns that. */
const char *readable_size(char out[READABLE_BYTES], uint64_t n_bytes);

/* "2026-11-21 14:07" in local time, of seconds since 1970; the number itself where the calendar
 * ends. Writes it to out and returns it. */
const char *readable_time(char out[READABLE_BYTES], int64_t seconds);

#endif
