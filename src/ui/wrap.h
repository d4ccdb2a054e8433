/* Text cut into rows of a screen: grapheme clusters, their columns, and where a row ends. Pure;
 * any thread.
 *
 * A cluster is what a reader takes for one character (UAX 29); a row never cuts one. Columns
 * are counted as terminals count them, by the sum over the code points of a cluster: wide ones
 * take two, combining ones none. Text is valid UTF-8, lines end in '\n', a tab leads to the
 * next multiple of WRAP_TAB. */
#ifndef UI_WRAP_H
#define UI_WRAP_H

#include <stdbool.h>
#include <stddef.h>

enum { WRAP_TAB = 8 };

/* The cluster at s (n > 0 bytes follow): its bytes; *columns is set to 1 or more, of a tab to
 * 1, of '\n' to 0. */
size_t wrap_cluster(const char *s, size_t n, int *columns);

/* Columns of a text without line breaks that begins at column `at`. */
int wrap_width(const char *s, size_t n, int at);

/* How much of s[0..n) fits into `columns`, in whole clusters; *used (may be NULL) is set to the
 * columns it takes. */
size_t wrap_fit(const char *s, size_t n, int columns, int *used);

/* Whether s (n > 0 bytes follow) is a full stop or a closing bracket of ideographs, which stays
 * with what it ends. */
bool wrap_closes(const char *s, size_t n);

struct wrap_row {
    size_t len;  /* bytes that are shown; blanks at the end of a broken row are not */
    size_t next; /* bytes until the next row begins; 0: never */
    size_t seen; /* bytes that had a say in it, whole clusters */
};

/* The row that begins at s and has `columns`, at least 1. It ends with a line break, which is
 * part of next but not of len, or where the next word would not fit, or, for a word longer than
 * a row, between two clusters. */
struct wrap_row wrap_row(const char *s, size_t n, int columns);
/* The same without regard to words, and blanks count: for a line that is being edited. */
struct wrap_row wrap_row_exact(const char *s, size_t n, int columns);

#endif
