/* Strings as numbers, the way Python's int() and float() read them. Pure but for scratch in w;
 * any thread with a struct work of its own. */
#ifndef TEMPLATE_NUMBER_H
#define TEMPLATE_NUMBER_H

#include "template/text.h"

enum number_parse { NUMBER_OK, NUMBER_BAD, NUMBER_TOO_BIG };

/* int(t, base), base 2..36 or 0: white space around, a sign, underscores between digits and the
 * base's prefix are fine. */
enum number_parse number_parse_int(struct work *w, struct text t, int base, int64_t *out);
/* float(t); false if it is none. */
bool number_parse_real(struct work *w, struct text t, double *out);

#endif
