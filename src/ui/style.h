/* How a reply in Markdown looks: which of its bytes are a heading, emphasis, code and so on.
 *
 * Every byte of the source is kept, in its order, so that what is copied off the screen is what
 * the model wrote. The text may come in pieces of any size; the looks do not depend on them.
 * What must be seen to be judged (a line that may be a fence, a * that may stand for itself) is
 * held back, 128 bytes at most. Tables, links and HTML are left as they are. Text is borrowed
 * for the call; it should be filtered already (chat/sanitise.h). Pure; knows no terminal and no
 * chat. One thread at a time per styler. */
#ifndef UI_STYLE_H
#define UI_STYLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* The look of a byte: any of these together; a line break has none. */
enum look {
    LOOK_HEADING = 1 << 0,
    LOOK_STRONG = 1 << 1,
    LOOK_EMPHASIS = 1 << 2,
    LOOK_CODE = 1 << 3,     /* between backticks */
    LOOK_BLOCK = 1 << 4,    /* between fences */
    LOOK_LANGUAGE = 1 << 5, /* what an opening fence names */
    LOOK_QUOTE = 1 << 6,
    LOOK_BULLET = 1 << 7, /* "-" or "1." of a list item */
    LOOK_MARK = 1 << 8,   /* the marks themselves: #, **, `, >, fences, rules */
};

enum { STYLE_HELD_MAX = 128 };

/* {0} at the beginning of a text; the owner embeds it. Its fields are style.c's own. */
struct styler {
    char held[STYLE_HELD_MAX];
    size_t n_held;
    bool in_line;          /* behind what can begin a line */
    unsigned line;         /* the look of the whole line */
    unsigned n_quotes;     /* > that this line began with */
    char fence;            /* of the code block that is open; 0: none */
    size_t n_fence;        /* … how many of them it takes to close it */
    unsigned n_outside;    /* … and > before each of its lines */
    char strong, emphasis; /* the mark that opened it; 0: closed */
    size_t n_code;         /* backticks that opened inline code */
    char before;           /* the last byte of the line so far; 0: none */
    size_t n_known;        /* bytes to come, held ones first, that are not emitted */
};

/* Calls emit for runs of s[0..n) and of what was held, in order, each of one look and of whole
 * characters. */
void style_text(struct styler *st, const char *s, size_t n,
                void (*emit)(void *user, const char *s, size_t n, unsigned look), void *user);
/* Begins *st behind s[0..n), whole characters that were shown before: what follows looks as if
 * it had come with them, and nothing of them is emitted again. */
void style_resume(struct styler *st, const char *s, size_t n);
/* What is held comes out as if the text ended here; set *st to {0} before another text. */
void style_end(struct styler *st,
               void (*emit)(void *user, const char *s, size_t n, unsigned look), void *user);

/* Appends the sequence that begins a look: "" for none. "\033[0m" ends it. */
void style_sgr_on(unsigned look, struct buf *out);

/* The same as places in the text. */
struct style_span {
    size_t start, len; /* bytes of the whole text */
    unsigned look;
};
struct style_spans {
    struct style_span *items; /* in order, without gaps; neighbours differ */
    size_t n, cap;
};
/* {0} is an empty list; free(items). */
void style_spans(struct styler *st, const char *s, size_t n, struct style_spans *out);
void style_spans_end(struct styler *st, struct style_spans *out);

#endif
