#include "ui/dialog.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ui/screen.h"
#include "ui/wrap.h"

void dialog_free(struct dialog *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->rows[i].text);
        free(d->rows[i].line);
    }
    free(d->rows);
    *d = (struct dialog){0};
}

void dialog_begin(struct dialog *d, const char *title, bool chooses)
{
    dialog_free(d);
    d->title = title;
    d->chooses = chooses;
    d->foot = chooses ? "Enter chooses, q closes" : "q closes";
}

void dialog_add(struct dialog *d, const char *text, const char *line)
{
    MEM_GROW(d->rows, d->n, d->cap);
    d->rows[d->n++] = (struct dialog_row){mem_strdup(text), line ? mem_strdup(line) : NULL};
}

const char *dialog_choice(const struct dialog *d)
{
    return d->chooses && d->selected < d->n ? d->rows[d->selected].line : NULL;
}

/* ---- size ---- */

/* Rows between the edges. */
static size_t rows_shown(const struct dialog *d, int height)
{
    size_t room = height > 4 ? (size_t)height - 4 : 1;
    return d->n < room ? d->n : room;
}

static int inner_width(const struct dialog *d)
{
    int widest = wrap_width(d->title, strlen(d->title), 0) + 4, foot = (int)strlen(d->foot) + 4;
    if (foot > widest) widest = foot;
    for (size_t i = 0; i < d->n; i++) {
        int width = wrap_width(d->rows[i].text, strlen(d->rows[i].text), 0);
        if (width > widest) widest = width;
    }
    int room = screen_columns() - DIALOG_FRAME;
    return widest < room ? widest : room;
}

/* ---- keys ---- */

static void move_by(struct dialog *d, long by)
{
    size_t *at = d->chooses ? &d->selected : &d->top;
    /* The rows at the end of what it may reach: of a dialog to read the screen is full. */
    const size_t n_last = d->chooses || d->n_shown == 0 ? 1 : d->n_shown;
    long to = (long)*at + by, last = d->n > n_last ? (long)(d->n - n_last) : 0;
    *at = (size_t)(to < 0 ? 0 : to > last ? last : to);
}

void dialog_act(struct dialog *d, enum action action)
{
    const long page = screen_rows() > 12 ? screen_rows() - 10 : 2;
    switch (action) {
    case ACTION_LINE_UP: move_by(d, -1); break;
    case ACTION_LINE_DOWN: move_by(d, 1); break;
    case ACTION_PAGE_UP: move_by(d, -page); break;
    case ACTION_PAGE_DOWN: move_by(d, page); break;
    case ACTION_TOP: move_by(d, -(long)d->n); break;
    case ACTION_BOTTOM: move_by(d, (long)d->n); break;
    default: break;
    }
}

/* ---- drawing ---- */

/* A horizontal edge with a text in it. */
static void draw_edge(int y, int x, int width, bool upper, const char *text)
{
    const bool plain = !screen_is_utf8();
    const char *line = plain ? "-" : "\u2500";
    const char *left = plain ? "+" : upper ? "\u250c" : "\u2514";
    const char *right = plain ? "+" : upper ? "\u2510" : "\u2518";
    screen_puts(y, x, 1, INK_BOX_EDGE, left);
    for (int i = 1; i < width - 1; i++)
        screen_puts(y, x + i, 1, INK_BOX_EDGE, line);
    screen_puts(y, x + width - 1, 1, INK_BOX_EDGE, right);
    if (!*text) return;
    screen_puts(y, x + 2, 1, INK_BOX, " ");
    int end = screen_puts(y, x + 3, width - 6, upper ? INK_BOX_TITLE : INK_BOX_DIM, text);
    screen_puts(y, end, 1, INK_BOX, " ");
}

static void draw_row(const struct dialog *d, size_t i, int y, int x, int width)
{
    const char *side = screen_is_utf8() ? "\u2502" : "|";
    unsigned ink = d->chooses && i == d->selected ? INK_SELECTED : INK_BOX;
    screen_puts(y, x, 1, INK_BOX_EDGE, side);
    screen_fill(y, x + 1, width - 2, ink);
    const char *text = i < d->n ? d->rows[i].text : "";
    screen_cut(y, x + 2, width - 4, ink, text, strlen(text));
    screen_puts(y, x + width - 1, 1, INK_BOX_EDGE, side);
}

void dialog_draw(struct dialog *d, int height)
{
    size_t n = rows_shown(d, height);
    int width = inner_width(d) + 4, x = (screen_columns() - width) / 2;
    int y = (height - (int)n - 2) / 2;
    if (y < 0) y = 0;
    if (d->chooses && d->selected < d->top) d->top = d->selected;
    if (d->chooses && n > 0 && d->selected >= d->top + n) d->top = d->selected - n + 1;
    if (d->top + n > d->n) d->top = d->n - n;
    d->n_shown = n;
    /* What is beneath keeps a column off, so that its letters do not run into the edges. */
    for (int i = 0; i < (int)n + 2; i++)
        screen_fill(y + i, x - 1, width + 2, INK_TEXT);
    draw_edge(y, x, width, true, d->title);
    for (size_t i = 0; i < n; i++)
        draw_row(d, d->top + i, y + 1 + (int)i, x, width);
    bool scrolls = n < d->n && !d->chooses;
    draw_edge(y + 1 + (int)n, x, width, false, scrolls ? "PgDn scrolls, q closes" : d->foot);
}
