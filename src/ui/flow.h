/* Text on its way to a terminal: Markdown's looks as colour sequences, and words kept whole at
 * the edge.
 *
 * A line break takes the place of the blanks before a word that would cross the edge, or parts
 * ideographs there; blanks beyond the edge at the end of a line go. Nothing else is put in or
 * left out. Fenced code, but not that of a text without looks, and lines that begin with |, as
 * those of tables do, are left to the terminal, and so is a word too long for a row: what is
 * copied of them is what was written. Text may come in pieces of whole characters, and what is
 * shown does not depend on them. Near the edge the end of a word is waited for; elsewhere
 * nothing is held back but what looks need (ui/style.h). No sequence is open behind a call.
 *
 * The owner embeds it, {0} for a new text, and frees it by flow_free. Text is filtered already
 * (chat/sanitise.h). Pure: appends to a buffer. One thread at a time per flow. */
#ifndef UI_FLOW_H
#define UI_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/style.h"

struct flow {
    bool colours; /* looks are shown */
    int columns;  /* of the terminal, may change at any time; 0: it breaks rows itself */
    /* flow.c's own. */
    struct styler style;
    unsigned look;        /* of the last character, held or not */
    int x;                /* columns of the row that are taken by what came out */
    bool in_line;         /* behind the first character of a line */
    bool is_table;        /* which is | */
    bool runs;            /* a word that comes out as it comes */
    struct buf gap, word; /* blanks and the word behind them, not out yet */
    int gap_columns, word_columns;
    bool in_word;       /* word has a character, maybe of no columns, besides looks */
    unsigned held_look; /* that these begin with */
    bool is_closed;     /* … and whose sequence was closed meanwhile */
    uint32_t last;      /* the character before; 0 at the beginning of a line */
    int32_t cluster;    /* for utf8proc */
    bool last_is_wide;
};

/* A piece of a reply in Markdown; appends what can be shown of it. */
void flow_reply(struct flow *f, const char *s, size_t n, struct buf *out);
/* The reply goes on behind s[0..n), which was shown before. */
void flow_resume(struct flow *f, const char *s, size_t n);
/* A piece of a text without looks. */
void flow_plain(struct flow *f, const char *s, size_t n, struct buf *out);
/* Something else is shown before the text goes on: the words held back come out, and the next
 * row begins at the margin. Looks stay, a code block say, and what they wait for. */
void flow_pause(struct flow *f, struct buf *out);
/* All of the text was there: what was held back comes out, and *f is as new. */
void flow_end(struct flow *f, struct buf *out);
void flow_free(struct flow *f);

/* A whole text of one or more lines, looks not shown, for a terminal of so many columns. */
void flow_lines(const char *s, size_t n, int columns, struct buf *out);

#endif
