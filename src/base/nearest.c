#include "base/nearest.h"

#include <string.h>

#include "base/ascii.h"

enum { MAX_WORD = 63 };

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

size_t nearest_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > MAX_WORD || nb > MAX_WORD) return na + nb;

    size_t rows[3][MAX_WORD + 1]; /* of the table: this one and the two before it */
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            char x = ascii_lower(a[i - 1]), y = ascii_lower(b[j - 1]);
            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == ascii_lower(b[j - 2]) && ascii_lower(a[i - 2]) == y &&
                above2[j - 2] + 1 < row[j])
                row[j] = above2[j - 2] + 1;
        }
    }
    return rows[na % 3][nb];
}

void nearest_begin(struct nearest *n, const char *word)
{
    *n = (struct nearest){.word = word};
}

void nearest_offer(struct nearest *n, const char *candidate)
{
    size_t len = strlen(n->word), distance = nearest_distance(n->word, candidate);
    size_t allowed = len < 6 ? 1 : len / 3;
    if (distance > allowed) {
        /* The beginning of a word is a weaker match than a slip of the finger. */
        if (len < 3 || !ascii_same_n(n->word, candidate, len)) return;
        distance = allowed + 1;
    }
    if (n->best && distance >= n->distance) return;
    n->best = candidate;
    n->distance = distance;
}
