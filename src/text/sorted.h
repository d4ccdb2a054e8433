/* Tokens in the order of the bytes of their texts: those that begin alike are neighbours, and
 * each byte of a text narrows down which are left.
 *
 * Immutable after open: any thread may read. It knows the vocabulary only by what it is given,
 * which must be the one that it was opened with. */
#ifndef TEXT_SORTED_H
#define TEXT_SORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vocab;

struct sorted {
    int32_t *ids;
    /* Of each byte the place of the first that begins with it or one above. */
    uint32_t begin[256 + 1];
};

/* The tokens of v that have a text and that takes says yes to. Free with sorted_close. */
void sorted_open(struct sorted *s, const struct vocab *v,
                 bool (*takes)(const struct vocab *v, int32_t id));
void sorted_close(struct sorted *s); /* {0} is fine */

/* The tokens ids[lo..hi) that are left; the one that is no longer than the bytes so far, if
 * there is one, is the first. None are left: lo == hi. */
struct sorted_range {
    uint32_t lo, hi;
};

struct sorted_range sorted_begin(const struct sorted *s, uint8_t byte);
/* Those of a range, all longer than `at` bytes and alike in these, whose next is `byte`. */
struct sorted_range sorted_narrow(const struct sorted *s, const struct vocab *v,
                                  struct sorted_range r, size_t at, uint8_t byte);

#endif
