/* What has been said, as rows of a screen: blocks of text, wrapped for a width, with places
 * that outlive a change of it, folding and search.
 *
 * A block is a message, a reply's reasoning, or a note of hearth's. Text is appended to the
 * last one as it comes; only its last row is wrapped again. The owner has passed everything
 * through the filter (chat/sanitise.h). Pure: no I/O, no screen. One thread at a time. */
#ifndef UI_SCROLLBACK_H
#define UI_SCROLLBACK_H

#include <stdbool.h>
#include <stddef.h>

enum block_kind {
    BLOCK_USER,
    BLOCK_REASONING,
    BLOCK_REPLY,
    BLOCK_FIGURES, /* of the reply above */
    BLOCK_COMMAND, /* as it was typed; what follows says what came of it */
    BLOCK_NOTE,
    BLOCK_LITERAL, /* the same, its rows full, its blanks kept */
    BLOCK_WARNING,
    BLOCK_ERROR,
};

/* SCROLLBACK_NO_MESSAGE: the block is a note. */
#define SCROLLBACK_NO_MESSAGE ((size_t)-1)

struct scrollback;

struct scrollback *scrollback_new(void);
void scrollback_free(struct scrollback *s); /* NULL is fine */

/* ---- text ---- */

/* Begins a block that belongs to a message, or to none. Reasoning begins as others were last
 * folded by scrollback_fold, and is shown while it comes. A reply's message may have a block
 * already, say where it was told to go on: the looks go on, too. */
void scrollback_add(struct scrollback *s, enum block_kind kind, size_t message);
/* Appends to the last block; line breaks at a block's beginning are left out. */
void scrollback_append(struct scrollback *s, const char *text, size_t n);
/* Both at once. */
void scrollback_put(struct scrollback *s, enum block_kind kind, size_t message,
                    const char *text, size_t n);
/* Removes all blocks from the nth on. */
void scrollback_cut(struct scrollback *s, size_t n);

struct scrollback_block {
    enum block_kind kind;
    size_t message;
    bool is_folded;
    const char *text; /* until the next change */
    size_t len;
};
size_t scrollback_n_blocks(const struct scrollback *s);
struct scrollback_block scrollback_block(const struct scrollback *s, size_t i);

/* ---- folding ---- */

/* Folds the reasoning of every block, and of those to come, or shows it. */
void scrollback_fold(struct scrollback *s, bool folded);
bool scrollback_folds(const struct scrollback *s);
/* The reasoning that came last is complete: it is folded if reasoning is. */
void scrollback_end_reasoning(struct scrollback *s);

/* ---- rows ---- */

/* The columns of the screen, at least 4; before rows are asked for. */
void scrollback_set_width(struct scrollback *s, int columns);
size_t scrollback_n_rows(struct scrollback *s);

struct scrollback_row {
    size_t block;   /* of a gap the one below it */
    bool is_gap;    /* an empty row between two blocks */
    bool is_first;  /* of its block */
    bool is_folded; /* stands for a reasoning that is not shown: n_words of it */
    size_t n_words;
    enum block_kind kind;
    size_t at;        /* where in the block's text */
    const char *text; /* len bytes, without a line break, until the next change */
    size_t len;
    int margin; /* columns to leave free on its left */
};
/* Row i of scrollback_n_rows. */
struct scrollback_row scrollback_row(struct scrollback *s, size_t i);

/* A place in the text, which stays where it is when the width changes. */
struct scrollback_place {
    size_t block, at;
    bool is_gap; /* the empty row above the block */
};
struct scrollback_place scrollback_place(struct scrollback *s, size_t row);
size_t scrollback_row_of(struct scrollback *s, struct scrollback_place place);

/* ---- looks ---- */

struct style_span;
/* The looks of a reply's text as Markdown (ui/style.h), in order and without gaps; NULL and 0
 * for a block that is none. Until the next change. */
const struct style_span *scrollback_spans(struct scrollback *s, size_t block, size_t *n);

/* ---- search ---- */

/* Finds the nearest occurrence of words after or (backwards) before a place, going on at the
 * other end; false if there is none. Small letters match capitals, capitals only themselves; a
 * letter and its accent match the character that is both, and the other way round.
 * A folded block that holds it is unfolded. */
bool scrollback_find(struct scrollback *s, const char *words, bool backwards,
                     struct scrollback_place from, struct scrollback_place *found);
/* What was unfolded for it since this was called last stays so, or is folded again. */
void scrollback_end_find(struct scrollback *s, bool folds);
/* The bytes of s[0..n) that match words there; 0: they do not. Pure. */
size_t scrollback_matches(const char *s, size_t n, const char *words);

#endif
