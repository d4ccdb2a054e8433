/* Strings that know where their bytes came from.
 *
 * A struct text is a slice by value: bytes and, unless one origin covers them all, runs. Bytes
 * and runs lie in a struct work and never change, so slices share them. Positions are bytes;
 * functions that count characters say so. A byte that is not UTF-8 is one character. */
#ifndef TEMPLATE_TEXT_H
#define TEMPLATE_TEXT_H

#include <string.h>

#include "template/template.h"
#include "template/work.h"

struct text {
    const char *data; /* not NUL-terminated; any bytes */
    size_t len;
    const struct origin_run *runs; /* NULL: all of it is of `origin` */
    size_t n_runs;
    size_t base;        /* runs: what to subtract from their start; else: source of a reply */
    uint32_t reply;     /* without runs */
    enum origin origin; /* without runs */
};

/* n bytes at s, borrowed, of one origin that is not a reply. */
struct text text_of(const char *s, size_t n, enum origin origin);
/* The template's own string constant. */
struct text text_literal(const char *s);
/* Bytes from..to of t, sharing them. */
struct text text_slice(struct text t, size_t from, size_t to);
/* The same bytes as ORIGIN_USER: what a computation leaves. */
struct text text_plain(struct text t);
/* Run i of t, clipped to it; false past the last. An empty text has none. */
bool text_run(const struct text *t, size_t i, struct origin_run *run);

bool text_is(struct text t, const char *s);
bool text_equal(struct text a, struct text b);
/* <0, 0, >0 in the order of code points. */
int text_compare(struct text a, struct text b);
bool text_starts(struct text t, struct text prefix);
bool text_ends(struct text t, struct text suffix);

#define TEXT_NONE SIZE_MAX
/* Where needle first begins at or after from (in 0..len); TEXT_NONE if nowhere. */
size_t text_find(struct text t, struct text needle, size_t from);
/* Where needle last begins; TEXT_NONE if nowhere. */
size_t text_find_last(struct work *w, struct text t, struct text needle);

/* Bytes of the character at `at` (< len): 1..4. */
size_t text_char_len(struct text t, size_t at);
/* Code point of the character at `at`; a byte that is not UTF-8 gives U+FFFD. */
uint32_t text_char(struct text t, size_t at, size_t *len);
size_t text_n_chars(struct text t);
/* Byte position of character i, len when there are fewer. */
size_t text_char_pos(struct text t, size_t i);

/* What Python's str.isspace accepts. */
bool char_is_space(uint32_t cp);
/* Without the characters at the start and the end that are white space (chars NULL) or occur in
 * *chars. */
struct text text_strip(struct work *w, struct text t, const struct text *chars, bool left,
                       bool right);
/* The end of the line that starts at `at` and, in *next, where the following one starts, after
 * any of the line ends of Python's str.splitlines. */
size_t text_line_end(struct text t, size_t at, size_t *next);

/* a and b one after the other; without copying a when it is the newest string. */
struct text text_concat(struct work *w, struct text a, struct text b);
/* t with every occurrence of from (at most max, if not negative) replaced. */
struct text text_replace(struct work *w, struct text t, struct text from, struct text to,
                         int64_t max);

/* A text under construction. Zero-initialise with builder_init. */
struct builder {
    struct work *w;
    char *data;
    size_t len, cap;
    struct origin_run *runs;
    size_t n_runs, cap_runs;
};

void builder_init(struct builder *b, struct work *w);
void builder_add(struct builder *b, struct text t);
void builder_add_bytes(struct builder *b, const char *s, size_t n, enum origin origin);
/* Computed text, ORIGIN_USER. */
void builder_puts(struct builder *b, const char *s);
void builder_putc(struct builder *b, char c);
void builder_put_char(struct builder *b, uint32_t cp);
/* n times the byte c, of that origin. */
void builder_fill(struct builder *b, char c, size_t n, enum origin origin);
/* The finished text; the builder is empty afterwards. */
struct text builder_take(struct builder *b);

#endif
