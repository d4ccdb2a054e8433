/* Figures as a person reads them: sizes, counts and times. Each writes to out and returns that.
 * Pure but for the time zone, any thread. */
#ifndef BASE_READABLE_H
#define BASE_READABLE_H

#include <stdint.h>

struct buf;

/* The largest number with its commas, and a noun of up to 18 bytes. */
enum { READABLE_BYTES = 48 };

/* Three figures, or a whole number: "812 bytes", "9.5 MiB", "22.3 GiB", "1000 MiB"; units are
 * powers of 1024. */
const char *readable_size(char out[READABLE_BYTES], uint64_t n_bytes);

/* "1,234,567". */
const char *readable_number(char out[READABLE_BYTES], uint64_t n);
/* "1 file", "2,000 files": a noun whose plural takes an s. */
const char *readable_count(char out[READABLE_BYTES], uint64_t n, const char *noun);
/* The same for the column of a table: "  1 file ", " 12 files". */
const char *readable_count_column(char out[READABLE_BYTES], uint64_t n, const char *noun);

/* Appends a text in a column of a table: with blanks up to so many columns of a terminal. */
void readable_column(struct buf *out, const char *text, int columns);

/* "2026-11-21 14:07" in local time, of seconds since 1970; the number itself where the calendar
 * ends. */
const char *readable_time(char out[READABLE_BYTES], int64_t seconds);

#endif
