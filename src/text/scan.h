/* A place in a notation that a person wrote, from its beginning to its end: what patterns and
 * grammars are read with.
 *
 * The owner embeds it; the text is borrowed and valid UTF-8. Pure, one thread at a time. It
 * knows no notation and refuses nothing: who reads says what is wrong, and where. */
#ifndef TEXT_SCAN_H
#define TEXT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scan {
    const char *s;
    size_t len, at; /* bytes */
};

/* No character: the text has ended. No number either. */
#define SCAN_END UINT32_MAX

/* The character that comes next, and the same taken. */
uint32_t scan_peek(const struct scan *in);
uint32_t scan_take(struct scan *in);

/* Whether these bytes come next; scan_skip takes them then. */
bool scan_is_next(const struct scan *in, const char *s);
bool scan_skip(struct scan *in, const char *s);

/* The value of a hexadecimal digit; -1: it is none. */
int scan_digit(uint32_t c);
/* n hexadecimal digits, 8 at most, as a number; SCAN_END: there are not so many. */
uint32_t scan_hex(struct scan *in, int n);
/* The digits that come next as a number, of which those beyond most are most + 1 or more;
 * SCAN_END: there are none. */
uint32_t scan_number(struct scan *in, uint32_t most);

#endif
