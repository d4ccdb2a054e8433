/* A frame of the full-screen view, from top to bottom. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/readable.h"
#include "chat/chat.h"
#include "chat/view.h"
#include "ui/bar.h"
#include "ui/input_box.h"
#include "ui/screen.h"
#include "ui/status.h"
#include "ui/style.h"
#include "ui/tui_impl.h"
#include "ui/wrap.h"

enum { MIN_ROWS = 5, MIN_COLUMNS = 20, MAX_CHOICE_ROWS = 6 };
/* The figures of a running reply are shown so often. */
enum { FIGURES_MS = 250 };

/* ---- the view ---- */

static size_t first_row(struct tui *t)
{
    size_t n = scrollback_n_rows(t->rows);
    size_t last = n > t->view.n_rows ? n - t->view.n_rows : 0;
    if (t->view.follows) return last;
    size_t first = scrollback_row_of(t->rows, t->view.top);
    return first < last ? first : last;
}

struct scrollback_place tui_view_end(struct tui *t)
{
    size_t below = first_row(t) + t->view.n_rows;
    if (below < scrollback_n_rows(t->rows)) return scrollback_place(t->rows, below);
    return (struct scrollback_place){.block = SIZE_MAX};
}

void tui_scroll(struct tui *t, long rows)
{
    size_t n = scrollback_n_rows(t->rows);
    long last = n > t->view.n_rows ? (long)(n - t->view.n_rows) : 0;
    long to = (long)first_row(t) + rows;
    if (to < 0) to = 0;
    t->view.follows = to >= last;
    if (!t->view.follows) t->view.top = scrollback_place(t->rows, (size_t)to);
    t->frame.is_due = true;
}

void tui_show_place(struct tui *t, struct scrollback_place place)
{
    size_t row = scrollback_row_of(t->rows, place), first = first_row(t);
    if (row < first || row >= first + t->view.n_rows) {
        /* A third from the top, so that what comes before can be read. */
        size_t above = t->view.n_rows / 3;
        tui_scroll(t, (long)(row > above ? row - above : 0) - (long)first);
    }
    t->frame.is_due = true;
}

/* ---- the transcript ---- */

static unsigned ink_of(enum block_kind kind)
{
    static const enum ink inks[] = {
        [BLOCK_USER] = INK_USER,    [BLOCK_REASONING] = INK_REASONING,
        [BLOCK_REPLY] = INK_TEXT,   [BLOCK_FIGURES] = INK_FIGURES,
        [BLOCK_COMMAND] = INK_DIM,  [BLOCK_NOTE] = INK_NOTE,
        [BLOCK_LITERAL] = INK_NOTE, [BLOCK_WARNING] = INK_WARNING,
        [BLOCK_ERROR] = INK_ERROR,
    };
    return inks[kind];
}

/* The mark in the margin of a block's first row. */
static void draw_margin(int y, const struct scrollback_row *row)
{
    if (row->kind == BLOCK_REASONING) {
        const char *bar = screen_is_utf8() ? "\u2502" : "|";
        screen_puts(y, 0, 1, INK_DIM, bar);
    } else if (row->is_first && (row->kind == BLOCK_USER || row->kind == BLOCK_COMMAND)) {
        screen_puts(y, 0, 1, row->kind == BLOCK_USER ? INK_PROMPT : INK_DIM, ">");
    }
}

static void draw_folded(int y, size_t n_words)
{
    struct buf text = {0};
    char words[READABLE_BYTES];
    buf_printf(&text, "%s thought, %s (F5 shows %s)", screen_is_utf8() ? "\u25b8" : "+",
               readable_count(words, n_words, "word"), n_words == 1 ? "it" : "them");
    screen_puts(y, 0, screen_columns(), INK_REASONING, buf_str(&text));
    buf_free(&text);
}

/* Widens [*from, *to) of a block's text, which is within the row, to whole clusters. */
static void widen(const struct scrollback_row *row, size_t *from, size_t *to)
{
    int ignored;
    size_t at = 0, n = 0;
    for (; row->at + at < *to; at += n) {
        n = wrap_cluster(row->text + at, row->len - at, &ignored);
        if (row->at + at + n > *from && row->at + at < *from) *from = row->at + at;
    }
    *to = row->at + at;
}

/* Draws the match of n bytes at `at` over a row, as far as it is there: it may have begun on
 * the row before. */
static void draw_match(int y, const struct scrollback_row *row, const char *text, size_t at,
                       size_t n, enum ink ink)
{
    const size_t end = row->at + row->len;
    size_t from = at > row->at ? at : row->at, to = at + n < end ? at + n : end;
    if (from >= to) return;
    widen(row, &from, &to);
    int x = row->margin + wrap_width(row->text, from - row->at, 0);
    screen_text(y, x, screen_columns() - x, ink, text + from, to - from);
}

/* What the search has found; the match that the view stands at comes last, for others may
 * overlap it. */
static void draw_matches(struct tui *t, int y, const struct scrollback_row *row)
{
    const struct tui_search *s = &t->search;
    const char *words = buf_str(&s->words);
    struct scrollback_block b = scrollback_block(t->rows, row->block);
    size_t reach = 4 * s->words.len, end = row->at + row->len;
    for (size_t i = row->at > reach ? row->at - reach : 0; i < end; i++) {
        size_t n = scrollback_matches(b.text + i, b.len - i, words);
        if (n > 0) draw_match(y, row, b.text, i, n, INK_MATCH);
    }
    const size_t at = s->found.at;
    if (!s->was_found || s->found.block != row->block || at >= b.len) return;
    draw_match(y, row, b.text, at, scrollback_matches(b.text + at, b.len - at, words),
               INK_MATCH_AT);
}

static unsigned ink_of_look(unsigned look)
{
    unsigned ink = INK_TEXT;
    if (look & LOOK_MARK)
        ink = INK_MARK;
    else if (look & (LOOK_CODE | LOOK_BLOCK))
        ink = INK_CODE;
    else if (look & LOOK_HEADING)
        ink = INK_HEADING;
    else if (look & LOOK_QUOTE)
        ink = INK_QUOTE;
    if (look & (LOOK_STRONG | LOOK_BULLET | LOOK_LANGUAGE)) ink |= INK_BOLD;
    if (look & LOOK_EMPHASIS) ink |= INK_ITALIC;
    return ink;
}

/* The span that holds a byte. */
static size_t span_at(const struct style_span *spans, size_t n, size_t at)
{
    size_t low = 0, high = n;
    while (high > low + 1) {
        size_t middle = (low + high) / 2;
        if (spans[middle].start <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A row of a reply, each run in its look. */
static void draw_styled(struct tui *t, int y, const struct scrollback_row *row)
{
    size_t n, end = row->at + row->len;
    const struct style_span *spans = scrollback_spans(t->rows, row->block, &n);
    int x = row->margin;
    for (size_t i = span_at(spans, n, row->at); i < n && spans[i].start < end; i++) {
        size_t from = spans[i].start > row->at ? spans[i].start : row->at;
        size_t to = spans[i].start + spans[i].len < end ? spans[i].start + spans[i].len : end;
        x = screen_text(y, x, screen_columns() - x, ink_of_look(spans[i].look),
                        row->text + (from - row->at), to - from);
    }
}

static void draw_row(struct tui *t, int y, size_t i)
{
    struct scrollback_row row = scrollback_row(t->rows, i);
    if (row.is_gap) return;
    if (row.is_folded) {
        draw_folded(y, row.n_words);
        return;
    }
    draw_margin(y, &row);
    screen_tabs(row.margin);
    if (row.kind == BLOCK_REPLY)
        draw_styled(t, y, &row);
    else
        screen_text(y, row.margin, screen_columns() - row.margin, ink_of(row.kind), row.text,
                    row.len);
    if (t->search.words.len > 0) draw_matches(t, y, &row);
    screen_tabs(0);
}

static void draw_transcript(struct tui *t, int height)
{
    scrollback_set_width(t->rows, screen_columns());
    t->view.n_rows = (size_t)height;
    size_t n = scrollback_n_rows(t->rows), first = first_row(t);
    for (int y = 0; y < height && first + (size_t)y < n; y++)
        draw_row(t, y, first + (size_t)y);
}

/* ---- the line ---- */

/* A row of the line: where it begins, and what of it. */
struct line_row {
    size_t at, len;
};

/* What the line is made of as it is shown: control characters as ^X, which readline lets in by
 * quoting; readline's markers of what has no width are left out. */
static void add_shown(struct buf *out, const char *s, size_t n, size_t cursor, size_t *at)
{
    bool invisible = false;
    for (size_t i = 0; i < n; i++) {
        if (i == cursor) *at = out->len;
        char c = s[i];
        if (c == '\001' || c == '\002')
            invisible = c == '\001';
        else if (invisible)
            continue;
        else if (((unsigned char)c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            buf_printf(out, "^%c", c ^ 0x40);
        else
            buf_putc(out, c);
    }
    if (cursor >= n) *at = out->len;
}

struct line_box {
    struct buf text;
    size_t n_prompt; /* bytes of the prompt in it */
    struct line_row *rows;
    size_t n, cap;
    size_t cursor_row;
    int cursor_x;
};

static void lay_line(struct line_box *box, int columns)
{
    struct input_view in = input_view();
    size_t cursor = 0, ignored;
    add_shown(&box->text, in.prompt, strlen(in.prompt), SIZE_MAX, &ignored);
    box->n_prompt = box->text.len;
    add_shown(&box->text, in.text, in.len, in.cursor, &cursor);
    const char *s = buf_str(&box->text);
    for (size_t at = 0;;) {
        struct wrap_row row = wrap_row_exact(s + at, box->text.len - at, columns);
        MEM_GROW(box->rows, box->n, box->cap);
        box->rows[box->n++] = (struct line_row){at, row.len};
        if (cursor >= at) box->cursor_row = box->n - 1;
        if (row.next == 0) break;
        at += row.next;
    }
    const struct line_row *row = &box->rows[box->cursor_row];
    box->cursor_x = wrap_width(s + row->at, cursor - row->at, 0);
    /* Behind a full row. */
    if (box->cursor_x >= columns) {
        MEM_GROW(box->rows, box->n, box->cap);
        if (box->cursor_row + 1 == box->n)
            box->rows[box->n++] = (struct line_row){box->text.len, 0};
        box->cursor_row++;
        box->cursor_x = 0;
    }
}

static void draw_line(struct tui *t, const struct line_box *box, int y, int height)
{
    size_t first =
        box->cursor_row + 1 > (size_t)height ? box->cursor_row + 1 - (size_t)height : 0;
    if (first + (size_t)height > box->n) first = box->n - (size_t)height;
    const char *s = buf_str(&box->text);
    for (int i = 0; i < height; i++) {
        const struct line_row *row = &box->rows[first + (size_t)i];
        screen_text(y + i, 0, screen_columns(), INK_TEXT, s + row->at, row->len);
        if (first + (size_t)i == 0 && box->n_prompt <= row->len)
            screen_text(y, 0, screen_columns(), INK_PROMPT, s, box->n_prompt);
    }
    if (t->mode == MODE_LINE) screen_cursor(y + (int)(box->cursor_row - first), box->cursor_x);
}

/* The words to search for, with the cursor behind them. */
static void draw_search(struct tui *t, int y)
{
    int x = screen_puts(y, 0, screen_columns(), INK_PROMPT, "/");
    x = screen_text(y, x, screen_columns() - x - 1, INK_TEXT, buf_str(&t->search.words),
                    t->search.words.len);
    screen_cursor(y, x);
}

/* ---- choices of TAB ---- */

/* In columns, above the line, where there is room for so many rows; returns those taken. */
static int draw_choices(int bottom, int room, bool measure)
{
    const char *all = input_choices();
    int n = 0, widest = 1;
    for (const char *s = all; *s; s += strcspn(s, "\n") + 1) {
        int width = wrap_width(s, strcspn(s, "\n"), 0);
        if (width > widest) widest = width;
        n++;
    }
    if (n == 0) return 0;
    int per_row = screen_columns() / (widest + 2);
    if (per_row < 1) per_row = 1;
    int rows = (n + per_row - 1) / per_row, shown = rows;
    if (shown > MAX_CHOICE_ROWS) shown = MAX_CHOICE_ROWS;
    if (shown > room) shown = room;
    if (measure) return shown;
    int i = 0;
    for (const char *s = all; *s && i < shown * per_row; s += strcspn(s, "\n") + 1, i++) {
        const int y = bottom - shown + i / per_row, x = i % per_row * (widest + 2);
        const int columns = screen_columns() - x;
        if (rows > shown && i == shown * per_row - 1)
            screen_puts(y, x, 1, INK_NOTE, screen_is_utf8() ? "\u2026" : "~");
        else
            screen_cut(y, x, columns < widest ? columns : widest, INK_NOTE, s,
                       strcspn(s, "\n"));
    }
    return shown;
}

/* ---- the bar ---- */

/* While a reply comes its figures change with each token; nobody reads them so fast, and they
 * are most of what a frame writes. What was there at the first look came in no time that is
 * known. */
static void look_at_figures(struct tui *t)
{
    struct tui_figures *f = &t->figures;
    const double now = clock_ms();
    if (t->reply.is_coming && f->from_ms > 0 && now - f->ms < FIGURES_MS) return;
    f->ms = now;
    f->chat = chat_status(t->chat);
    f->rate = t->reply.rate;
    if (!t->reply.is_coming) return;
    if (f->from_ms > 0) {
        f->rate = ((double)f->chat.n_drawn - f->n_from) * 1000 / (now - f->from_ms);
    } else {
        f->from_ms = now;
        f->n_from = f->chat.n_drawn;
    }
}

/* As many of the keys as have room, the way back always among them. */
static const char *keys_of_transcript(int room)
{
    static const char *const texts[] = {
        "transcript: / searches, n goes on, r reasoning, ? help, q back",
        "transcript: / searches, n goes on, ? help, q back",
        "transcript: / searches, ? help, q back",
        "transcript: ? help, q back",
        "? help, q back",
        "q back"};
    size_t i = 0;
    while (i + 1 < sizeof texts / sizeof *texts && (int)strlen(texts[i]) > room)
        i++;
    return texts[i];
}

/* What the bar tells of the last key, NULL: nothing. */
static const char *notice(const struct tui *t)
{
    enum chat_state state = chat_state(t->chat);
    if (t->was_refused && state == CHAT_LOADING) return "not while a model is loading";
    if (t->was_refused && state == CHAT_BUSY) return "not while this runs: Ctrl-C stops it";
    return t->notice;
}

static void draw_bar(struct tui *t, int y)
{
    struct buf activity = {0}, hint = {0};
    look_at_figures(t);
    struct bar bar = {.chat = t->figures.chat,
                      .rate = t->figures.rate,
                      .n_drafted = t->reply.n_drafted,
                      .n_accepted = t->reply.n_accepted};
    size_t n = scrollback_n_rows(t->rows), below = first_row(t) + t->view.n_rows;
    const bool is_behind = !t->view.follows && below < n;
    if (input_n_waiting() > 0)
        buf_printf(&hint, "%zu waiting", input_n_waiting());
    else if (is_behind)
        buf_printf(&hint, "%zu more%s, End", n - below, screen_columns() < 60 ? "" : " rows");
    else if (t->mode == MODE_LINE)
        buf_puts(&hint, "F1 help");
    if (notice(t))
        buf_puts(&activity, notice(t));
    else if (t->work.runs)
        /* Of a prompt the meter is the bar. */
        status_progress(&activity, t->work.phase == FACE_LOAD ? screen_columns() - 4 : 60,
                        t->work.phase, t->work.done, t->work.total, t->work.cached,
                        clock_ms() - t->work.began_ms);
    else if (t->mode == MODE_TRANSCRIPT)
        buf_puts(&activity, keys_of_transcript(screen_columns() - 4 - (int)hint.len));
    else if (t->is_loading)
        buf_puts(&activity, "loading the model");
    bar.activity = buf_str(&activity);
    bar.hint = buf_str(&hint);
    bar.needs_hint = input_n_waiting() > 0 || is_behind;
    bar_draw(y, &bar);
    buf_free(&activity);
    buf_free(&hint);
}

/* ---- the frame ---- */

static void draw_too_small(void)
{
    screen_puts(0, 0, screen_columns(), INK_TEXT, "too small for");
    screen_puts(1, 0, screen_columns(), INK_TEXT, "hearth --tui");
}

static void draw_all(struct tui *t)
{
    const int rows = screen_rows();
    struct line_box box = {0};
    lay_line(&box, screen_columns());
    int most = rows / 3 > 1 ? rows / 3 : 1;
    int height = box.n < (size_t)most ? (int)box.n : most;
    if (t->mode == MODE_SEARCH) height = 1;
    const int bar = rows - height - 1, above = bar - draw_choices(0, bar, true);
    draw_transcript(t, above);
    draw_choices(bar, bar, false);
    draw_bar(t, bar);
    if (t->mode == MODE_SEARCH)
        draw_search(t, rows - 1);
    else
        draw_line(t, &box, rows - height, height);
    if (t->mode == MODE_DIALOG) {
        tui_fit_dialog(t);
        dialog_draw(&t->dialog, above);
    }
    buf_free(&box.text);
    free(box.rows);
}

void tui_draw(struct tui *t)
{
    screen_clear();
    if (screen_rows() < MIN_ROWS || screen_columns() < MIN_COLUMNS)
        draw_too_small();
    else
        draw_all(t);
    screen_show(t->frame.is_whole);
    t->frame.is_due = t->frame.is_whole = false;
    t->frame.drawn_ms = clock_ms();
}
