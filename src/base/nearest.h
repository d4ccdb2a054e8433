/* The word that was probably meant: for "did you mean" after an unknown option, key or command.
 * Pure, any thread; the words belong to the caller and must outlive the search. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *word; /* as typed */
    const char *best; /* NULL: nothing is close */
    size_t distance;
};

/* Begins a search for word; then offer every candidate. */
void nearest_begin(struct nearest *n, const char *word);
/* Keeps the candidate if it is closer than all before it, and close enough to be meant: one
 * edit per three letters, at least one, or the beginning of the candidate. */
void nearest_offer(struct nearest *n, const char *candidate);

/* Insertions, deletions, replacements and swaps of neighbours between a and b, ASCII case
 * ignored. Words longer than 63 bytes are as far apart as their lengths together. */
size_t nearest_distance(const char *a, const char *b);

#endif
