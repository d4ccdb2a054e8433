/* One character at a time: it runs on, waits for the rest of its word, or ends one. */
#include "ui/flow.h"

#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"
#include "ui/wrap.h"

/* A word that begins with so much room before the edge comes out as it comes. Few are longer;
 * the terminal breaks those. */
enum { ROOM = 24 };

/* ---- columns ---- */

/* Behind a character of so many columns in column x, as a terminal counts that breaks rows. */
static int behind(const struct flow *f, int x, int columns)
{
    if (f->columns == 0) return 0;
    x = x > f->columns ? x % f->columns : x; /* it has become narrower */
    return x + columns > f->columns ? columns : x + columns;
}

static int blank_columns(char c, int at)
{
    return c == '\t' ? WRAP_TAB - at % WRAP_TAB : 1;
}

/* ---- what is held ---- */

static bool holds(const struct flow *f)
{
    return f->gap.len > 0 || f->word.len > 0;
}

static void hold(struct flow *f, struct buf *held, const char *s, size_t n)
{
    if (!holds(f)) f->held_look = f->look;
    buf_append(held, s, n);
}

static void open_again(struct flow *f, struct buf *out)
{
    if (f->is_closed) style_sgr_on(f->held_look, out);
    f->is_closed = false;
}

static void drop_gap(struct flow *f)
{
    buf_clear(&f->gap);
    f->gap_columns = 0;
}

static void release_word(struct flow *f, struct buf *out)
{
    buf_append(out, buf_str(&f->word), f->word.len);
    f->x = behind(f, f->x, f->word_columns);
    buf_clear(&f->word);
    f->word_columns = 0;
    f->in_word = false;
}

static void put_gap(struct flow *f, struct buf *out)
{
    buf_append(out, buf_str(&f->gap), f->gap.len);
    f->x = behind(f, f->x, f->gap_columns);
    drop_gap(f);
}

/* The word that is held goes to a row of its own, and runs. */
static void break_row(struct flow *f, struct buf *out)
{
    open_again(f, out);
    buf_putc(out, '\n');
    f->x = 0;
    drop_gap(f);
    release_word(f, out);
    f->runs = true;
}

static void release(struct flow *f, struct buf *out)
{
    bool fits = f->x + f->gap_columns + f->word_columns <= f->columns;
    if (!fits && f->in_word) {
        break_row(f, out);
        return;
    }
    open_again(f, out);
    /* Blanks beyond the edge would begin a row of their own. */
    if (fits) put_gap(f, out);
    drop_gap(f);
    release_word(f, out);
}

/* ---- characters ---- */

static void end_line(struct flow *f, struct buf *out)
{
    release(f, out);
    buf_putc(out, '\n');
    f->x = 0;
    f->in_line = f->is_table = f->runs = f->last_is_wide = false;
    f->last = 0;
    f->cluster = 0;
}

static void put_blank(struct flow *f, char c, struct buf *out)
{
    if (f->in_word) release(f, out);
    f->runs = false;
    hold(f, &f->gap, &c, 1);
    f->gap_columns += blank_columns(c, f->x + f->gap_columns);
}

/* A word begins behind the gap. */
static void begin_word(struct flow *f, struct buf *out)
{
    bool is_first = f->x == 0; /* nothing is gained by a row of its own */
    f->runs = is_first || f->x + f->gap_columns + ROOM <= f->columns;
    if (!f->runs) return;
    open_again(f, out);
    put_gap(f, out);
    release_word(f, out);
}

/* Whether a row may end before this character, where no blank stands: ideographs have none. */
static bool may_part(struct flow *f, uint32_t cp, const char *s, size_t n, int columns)
{
    if (cp < 0x80 && f->last < 0x80) return false;
    utf8proc_int32_t state = f->cluster;
    bool parts = f->last == 0 || utf8proc_grapheme_break_stateful((utf8proc_int32_t)f->last,
                                                                  (utf8proc_int32_t)cp, &state);
    f->cluster = state;
    return parts && (columns > 1 || f->last_is_wide) && !wrap_closes(s, n);
}

static void put_char(struct flow *f, uint32_t cp, const char *s, size_t n, struct buf *out)
{
    int columns = utf8_width(cp);
    bool parts = may_part(f, cp, s, n, columns);
    if (parts && f->in_word) release(f, out);
    if (!f->in_word && (parts || !f->runs)) begin_word(f, out);
    if (columns > 0) f->last_is_wide = columns > 1;
    if (f->runs) {
        buf_append(out, s, n);
        f->x = behind(f, f->x, columns);
        return;
    }
    hold(f, &f->word, s, n);
    f->in_word = true;
    f->word_columns += columns;
    if (f->x + f->gap_columns + f->word_columns > f->columns) break_row(f, out);
}

/* Blanks before something exact are as exact, beyond the edge, too. */
static void release_exact(struct flow *f, struct buf *out)
{
    open_again(f, out);
    put_gap(f, out);
    release_word(f, out);
}

/* As it is: the terminal breaks it where it must. */
static void put_exact(struct flow *f, uint32_t cp, const char *s, size_t n, struct buf *out)
{
    if (f->in_word)
        release(f, out);
    else
        release_exact(f, out);
    const int columns = *s == '\t' ? blank_columns('\t', f->x) : utf8_width(cp);
    buf_append(out, s, n);
    f->x = behind(f, f->x, columns);
    f->runs = true;
}

/* s[0..n): of one look; those of a code block are exact. */
static void put(struct flow *f, const char *s, size_t n, bool exact, struct buf *out)
{
    if (f->columns == 0) {
        buf_append(out, s, n);
        return;
    }
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp = 0;
        int got = utf8_decode(s + i, n - i, &cp);
        len = got > 0 ? (size_t)got : 1;
        if (s[i] == '\n') {
            end_line(f, out);
            continue;
        }
        if (!f->in_line) f->is_table = s[i] == '|';
        f->in_line = true;
        if (exact || f->is_table)
            put_exact(f, cp, s + i, len, out);
        else if (s[i] == ' ' || s[i] == '\t')
            put_blank(f, s[i], out);
        else
            put_char(f, cp, s + i, len, out);
        f->last = cp;
    }
}

/* ---- looks ---- */

struct emission {
    struct flow *flow;
    struct buf *out;
};

static void switch_to(struct emission *e, unsigned look)
{
    struct flow *f = e->flow;
    if (!f->colours || look == f->look) return;
    /* The codes take no column. While a word is held they wait with it. */
    struct buf *to = holds(f) ? &f->word : e->out;
    if (f->look) buf_puts(to, "\033[0m");
    style_sgr_on(look, to);
    f->look = look;
}

static void emit(void *user, const char *s, size_t n, unsigned look)
{
    struct emission *e = user;
    switch_to(e, look);
    put(e->flow, s, n, look & LOOK_BLOCK, e->out);
}

/* Of what came out; what is held ends without a look by itself. */
static void close_look(struct emission *e)
{
    struct flow *f = e->flow;
    switch_to(e, 0);
    if (!holds(f) || !f->held_look || f->is_closed) return;
    buf_puts(e->out, "\033[0m");
    f->is_closed = true;
}

void flow_reply(struct flow *f, const char *s, size_t n, struct buf *out)
{
    struct emission e = {f, out};
    style_text(&f->style, s, n, emit, &e);
    close_look(&e);
}

void flow_resume(struct flow *f, const char *s, size_t n)
{
    style_resume(&f->style, s, n);
}

void flow_plain(struct flow *f, const char *s, size_t n, struct buf *out)
{
    put(f, s, n, false, out);
}

void flow_pause(struct flow *f, struct buf *out)
{
    struct emission e = {f, out};
    switch_to(&e, 0);
    release(f, out);
    f->is_closed = f->runs = f->last_is_wide = false;
    f->x = 0;
    f->last = 0;
    f->cluster = 0;
}

void flow_end(struct flow *f, struct buf *out)
{
    struct emission e = {f, out};
    style_end(&f->style, emit, &e);
    flow_pause(f, out);
    struct flow next = {.colours = f->colours, .columns = f->columns};
    next.gap = f->gap;
    next.word = f->word;
    *f = next;
}

void flow_free(struct flow *f)
{
    buf_free(&f->gap);
    buf_free(&f->word);
}

void flow_lines(const char *s, size_t n, int columns, struct buf *out)
{
    struct flow f = {.columns = columns};
    flow_reply(&f, s, n, out);
    flow_end(&f, out);
    flow_free(&f);
}
