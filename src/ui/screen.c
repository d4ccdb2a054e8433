/* ncurses, for output alone. A frame is noted row by row, and only rows that differ from the
 * frame before reach curses: it compares cells, and most cells are where they were. */
#include "ui/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "ui/charset.h"
#include "ui/output.h"
#include "ui/signals.h"
#include "ui/tty.h"
#include "ui/wrap.h"

/* Last, since its macros have the names of half the alphabet. */
#define NCURSES_NOMACROS
#include <curses.h>
#include <term.h>
#undef columns
#undef lines
#undef buttons

/* Colours by their number among 8 and among 256; -1 is the terminal's own. */
struct paint {
    attr_t mono, attr;
    short fg8, bg8, fg256, bg256;
};

static const struct paint paints[N_INKS] = {
    [INK_TEXT] = {A_NORMAL, A_NORMAL, -1, -1, -1, -1},
    [INK_DIM] = {A_DIM, A_DIM, -1, -1, -1, -1},
    [INK_USER] = {A_BOLD, A_BOLD, -1, -1, -1, -1},
    [INK_PROMPT] = {A_BOLD, A_BOLD, COLOR_GREEN, -1, 71, -1},
    [INK_REASONING] = {A_DIM, A_DIM, -1, -1, -1, -1},
    [INK_FIGURES] = {A_DIM, A_DIM, -1, -1, -1, -1},
    [INK_NOTE] = {A_NORMAL, A_NORMAL, COLOR_CYAN, -1, 73, -1},
    [INK_WARNING] = {A_BOLD, A_NORMAL, COLOR_YELLOW, -1, 179, -1},
    [INK_ERROR] = {A_BOLD, A_NORMAL, COLOR_RED, -1, 167, -1},
    [INK_HEADING] = {A_BOLD, A_BOLD, COLOR_MAGENTA, -1, 140, -1},
    [INK_CODE] = {A_NORMAL, A_NORMAL, COLOR_CYAN, -1, 73, -1},
    [INK_QUOTE] = {A_NORMAL, A_NORMAL, COLOR_GREEN, -1, 108, -1},
    [INK_MARK] = {A_DIM, A_DIM, -1, -1, -1, -1},
    [INK_BAR] = {A_REVERSE, A_NORMAL, COLOR_BLACK, COLOR_WHITE, 250, 237},
    [INK_BAR_NAME] = {A_REVERSE | A_BOLD, A_BOLD, COLOR_BLACK, COLOR_WHITE, 255, 237},
    [INK_BAR_WARM] = {A_REVERSE, A_NORMAL, COLOR_GREEN, COLOR_WHITE, 71, 237},
    [INK_BAR_COLD] = {A_REVERSE, A_NORMAL, COLOR_BLUE, COLOR_WHITE, 179, 237},
    [INK_MATCH] = {A_UNDERLINE, A_UNDERLINE, COLOR_YELLOW, -1, 179, -1},
    [INK_MATCH_AT] = {A_REVERSE, A_NORMAL, COLOR_BLACK, COLOR_YELLOW, 16, 179},
    [INK_BOX] = {A_NORMAL, A_NORMAL, -1, -1, 252, 235},
    [INK_BOX_EDGE] = {A_NORMAL, A_NORMAL, COLOR_CYAN, -1, 73, 235},
    [INK_BOX_TITLE] = {A_BOLD, A_BOLD, -1, -1, 255, 235},
    [INK_BOX_DIM] = {A_DIM, A_DIM, -1, -1, 246, 235},
    [INK_SELECTED] = {A_REVERSE, A_REVERSE, -1, -1, 252, 235},
};

static SCREEN *screen;
static bool wants_colour, in_colour; /* in_colour: it has them, too */
static bool utf8, shown;             /* shown: not paused */
static int cursor_y, cursor_x;
static int tabs_from; /* the column they are counted from */

/* One call that draws in a row; n bytes of text follow it there, none for blanks. */
struct stroke {
    int x, edge, tabs_from;
    unsigned ink;
    size_t n;
};

/* Strokes one after another; shown is what curses has. */
struct row {
    struct buf now, shown;
};
static struct row *rows;
static int n_rows, n_columns; /* the size that they are of */

static attr_t attr; /* of the ink in use */
static int pair;
static struct buf goodbye; /* what brings a terminal back after a crash */

/* ---- colours ---- */

/* The colour of that number among 256 as red, green and blue. */
static int rgb_of(int colour)
{
    static const int steps[] = {0, 95, 135, 175, 215, 255};
    if (colour < 16) return 0;
    if (colour >= 232) return (8 + 10 * (colour - 232)) * 0x010101;
    colour -= 16;
    return steps[colour / 36] << 16 | steps[colour / 6 % 6] << 8 | steps[colour % 6];
}

static int colour_of(int among8, int among256)
{
    if (COLORS < 256) return among8;
    /* Terminals of direct colour take the colour itself for its number. */
    if (COLORS > 256 && among256 >= 0) return rgb_of(among256);
    return among256;
}

static void make_colours(void)
{
    if (!in_colour || !has_colors() || start_color() == ERR || COLOR_PAIRS <= N_INKS) {
        in_colour = false;
        return;
    }
    if (use_default_colors() == ERR) {
        /* Once colours are on, such a terminal does not get its own back. */
        in_colour = false;
        return;
    }
    for (int i = 0; i < N_INKS; i++) {
        const struct paint *l = &paints[i];
        init_extended_pair(i + 1, colour_of(l->fg8, l->fg256), colour_of(l->bg8, l->bg256));
    }
}

static void use_ink(unsigned ink)
{
    const struct paint *p = &paints[ink & (INK_BOLD - 1)];
    attr = in_colour ? p->attr : p->mono;
    if (ink & INK_BOLD) attr |= A_BOLD;
    if (ink & INK_ITALIC) attr |= A_ITALIC;
    pair = in_colour ? (int)(p - paints) + 1 : 0;
    attr_set(attr, 0, &pair);
}

/* ---- opening and closing ---- */

static void add_capability(struct buf *out, const char *name)
{
    const char *s = tigetstr(name);
    if (s && s != (char *)-1) buf_puts(out, s);
}

/* Bracketed paste is readline's own switch; it never writes here. */
static void set_paste(bool on)
{
    screen_raw(on ? "\033[?2004h" : "\033[?2004l", 8);
}

/* Without flow control and the keys that a terminal driver keeps to itself: they are
 * readline's.
 */
static void take_keys(void)
{
    struct termios t;
    cbreak();
    noecho();
    nonl();
    if (tcgetattr(STDIN_FILENO, &t) == 0) {
        t.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR);
        t.c_lflag &= ~(tcflag_t)IEXTEN;
        t.c_lflag |= NOFLSH;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &t);
    }
    def_prog_mode();
}

static bool refuse(const char *why, struct err *err)
{
    const char *name = getenv("TERM");
    char shown_name[80];
    return err_set(
        err, ERR_USER, "--tui: the terminal '%s' %s; without --tui hearth needs nothing of it",
        printable(shown_name, sizeof shown_name, name ? name : "", name ? strlen(name) : 0),
        why);
}

/* Where newterm cannot do anything with the terminal, it may end the program. */
bool screen_can_open(struct err *err)
{
    int problem;
    if (setupterm(NULL, STDOUT_FILENO, &problem) != OK)
        return refuse("of $TERM is not in terminfo", err);
    const char *place = tigetstr("cup");
    bool can = place && place != (char *)-1;
    del_curterm(cur_term);
    return can || refuse("cannot place its cursor", err);
}

bool screen_open(bool colour, struct err *err)
{
    if (!screen_can_open(err)) return false;
    utf8 = charset_is_utf8();
    tty_begin_drawing();
    screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        tty_end_drawing();
        return refuse("cannot be used", err);
    }
    /* Curses would ask whether keys wait, twice for each frame; they are read elsewhere. */
    typeahead(-1);
    wants_colour = in_colour = colour;
    make_colours();
    take_keys();
    buf_clear(&goodbye);
    add_capability(&goodbye, "sgr0");
    add_capability(&goodbye, "rmcup");
    add_capability(&goodbye, "cnorm");
    buf_puts(&goodbye, "\033[?2004l");
    tty_say_goodbye(buf_str(&goodbye), goodbye.len);
    signals_make_room(true);
    set_paste(true);
    shown = true;
    tty_end_drawing();
    return true;
}

static void leave(void)
{
    tty_begin_drawing();
    set_paste(false);
    curs_set(1);
    endwin();
    signals_make_room(false);
    tty_say_goodbye("", 0);
    shown = false;
    tty_end_drawing();
}

static void forget_rows(void)
{
    for (int y = 0; y < n_rows; y++) {
        buf_free(&rows[y].now);
        buf_free(&rows[y].shown);
    }
    free(rows);
    rows = NULL;
    n_rows = 0;
}

void screen_set_colour(bool colour)
{
    if (!screen || colour == wants_colour) return;
    wants_colour = in_colour = colour;
    make_colours();
    /* The same strokes look otherwise now. */
    forget_rows();
    clearok(curscr, TRUE);
}

void screen_close(void)
{
    if (!screen) return;
    if (shown) leave();
    delscreen(screen);
    del_curterm(cur_term);
    screen = NULL;
    forget_rows();
    buf_free(&goodbye);
}

void screen_pause(void)
{
    if (screen && shown) leave();
}

void screen_resume(void)
{
    if (!screen || shown) return;
    tty_begin_drawing();
    shown = true;
    reset_prog_mode();
    tty_say_goodbye(buf_str(&goodbye), goodbye.len);
    signals_make_room(true);
    set_paste(true);
    screen_resize();
    clearok(curscr, TRUE);
    tty_end_drawing();
}

void screen_resize(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return;
    if (size.ws_row == LINES && size.ws_col == COLS) return;
    resizeterm(size.ws_row, size.ws_col);
    /* Curses has cut what it had, also where the next size is the one of the frame before. */
    forget_rows();
}

int screen_rows(void)
{
    return LINES;
}

int screen_columns(void)
{
    return COLS;
}

bool screen_is_utf8(void)
{
    return utf8;
}

/* ---- drawing ---- */

void screen_clear(void)
{
    if (n_rows != LINES || n_columns != COLS) {
        forget_rows();
        erase();
        n_rows = LINES;
        n_columns = COLS;
        rows = mem_zalloc((size_t)n_rows, sizeof *rows);
    }
    for (int y = 0; y < n_rows; y++)
        buf_clear(&rows[y].now);
    cursor_y = -1;
    tabs_from = 0;
}

/* What makes one picture of several, as a family of three: joiners, which picture a sign is,
 * and the colour of a skin. Terminals differ in the columns of such a picture, and curses,
 * which goes by those of the parts, would no longer know where it writes. So the parts stand
 * beside each other, a colour as blanks. */
static bool is_joiner(uint32_t cp, bool is_picture)
{
    return cp == 0xfe0f || (cp == 0x200d && is_picture);
}

static bool is_skin(uint32_t cp)
{
    return cp >= 0x1f3fb && cp <= 0x1f3ff;
}

/* The code points of a cluster as they are drawn, at most 63; *width is the columns of all.
 * Returns how many; 0: not to be drawn. */
static int cluster_parts(const char *s, size_t n, wchar_t *all, int *width)
{
    int n_all = 0;
    bool is_picture = false;
    *width = 0;
    for (size_t i = 0; i < n && n_all < 62;) {
        uint32_t cp;
        int len = utf8_decode(s + i, n - i, &cp);
        if (len <= 0) break;
        int w =
            printable_char(cp) || (cp >= 0x200b && cp <= 0x200d) ? wcwidth((wchar_t)cp) : -1;
        if (w < 0) return 0;
        is_picture |= w > 1 || cp == 0xfe0f;
        i += (size_t)len;
        if (n_all > 0 && is_joiner(cp, is_picture)) continue;
        if (*width == 0 && w == 0 && n_all == 0) all[n_all++] = L' ', *width = 1;
        *width += w;
        if (n_all > 0 && is_skin(cp))
            for (; w > 0; w--)
                all[n_all++] = L' ';
        else
            all[n_all++] = (wchar_t)cp;
    }
    return n_all;
}

/* A cluster as cells: a code point with columns, and those without that belong to it. Curses
 * and the terminal go by the widths of the C library; where it disagrees with ours, a stand-in
 * keeps the columns right. */
static void put_cluster(const char *s, size_t n, int columns)
{
    wchar_t cell[CCHARW_MAX + 1], all[64];
    int width, n_all = cluster_parts(s, n, all, &width);
    if (n_all == 0 || width != columns) {
        all[0] = utf8 ? L'\ufffd' : L'?';
        n_all = 1;
        for (int i = 1; i < columns; i++)
            all[n_all++] = L' ';
    }
    for (int i = 0; i < n_all;) {
        int k = 0;
        do {
            if (k < CCHARW_MAX) cell[k++] = all[i];
            i++;
        } while (i < n_all && wcwidth(all[i]) == 0);
        cell[k] = L'\0';
        cchar_t c;
        if (setcchar(&c, cell, attr, 0, &pair) == OK) add_wch(&c);
    }
}

void screen_tabs(int x)
{
    tabs_from = x;
}

/* Draws a text, or only measures it; returns the column behind it. */
static int put_text(const struct stroke *t, const char *s, bool draws)
{
    int x = t->x;
    for (size_t i = 0; i < t->n;) {
        int wide;
        size_t len = wrap_cluster(s + i, t->n - i, &wide);
        if (s[i] == '\t') {
            int to = x + WRAP_TAB - (x - t->tabs_from) % WRAP_TAB;
            for (; x < to && x < t->edge; x++)
                if (draws) addch(' ');
        } else {
            if (x + wide > t->edge) break;
            if (draws && len == 1 && s[i] >= 0x20 && s[i] < 0x7f)
                addch((chtype)s[i]);
            else if (draws)
                put_cluster(s + i, len, wide);
            x += wide;
        }
        i += len;
    }
    return x;
}

static void note(int y, const struct stroke *t, const char *s)
{
    buf_append(&rows[y].now, (const char *)t, sizeof *t);
    buf_append(&rows[y].now, s, t->n);
}

int screen_text(int y, int x, int columns, unsigned ink, const char *s, size_t n)
{
    if (y < 0 || y >= n_rows || x < 0 || x >= n_columns) return x;
    struct stroke t;
    memset(&t, 0, sizeof t); /* rows are compared as bytes */
    t.x = x;
    t.edge = columns > n_columns - x ? n_columns : x + columns;
    t.tabs_from = tabs_from;
    t.ink = ink;
    t.n = n;
    if (n > 0) note(y, &t, s);
    return put_text(&t, s, false);
}

int screen_puts(int y, int x, int columns, unsigned ink, const char *s)
{
    return screen_text(y, x, columns, ink, s, strlen(s));
}

int screen_cut(int y, int x, int columns, unsigned ink, const char *s, size_t n)
{
    const bool fits = wrap_width(s, n, 0) <= columns;
    x = screen_text(y, x, fits ? columns : columns - 1, ink, s, n);
    return fits ? x : screen_puts(y, x, 1, ink, utf8 ? "\u2026" : "~");
}

void screen_fill(int y, int x, int columns, unsigned ink)
{
    if (y < 0 || y >= n_rows || x < 0 || x >= n_columns || columns <= 0) return;
    struct stroke t;
    memset(&t, 0, sizeof t);
    t.x = x;
    t.edge = columns > n_columns - x ? n_columns : x + columns;
    t.ink = ink;
    note(y, &t, "");
}

static void draw_row(int y)
{
    const struct buf *now = &rows[y].now;
    struct stroke t;
    move(y, 0);
    clrtoeol();
    for (size_t at = 0; at < now->len; at += sizeof t + t.n) {
        memcpy(&t, now->data + at, sizeof t);
        use_ink(t.ink);
        move(y, t.x);
        if (t.n > 0) {
            put_text(&t, now->data + at + sizeof t, true);
            continue;
        }
        for (int x = t.x; x < t.edge; x++)
            addch(' ');
    }
}

/* Hands the rows to curses that are not what it has. */
static void draw_rows(void)
{
    for (int y = 0; y < n_rows; y++) {
        struct row *row = &rows[y];
        if (row->now.len == row->shown.len &&
            memcmp(buf_str(&row->now), buf_str(&row->shown), row->now.len) == 0)
            continue;
        draw_row(y);
        struct buf other = row->shown;
        row->shown = row->now;
        row->now = other;
    }
}

void screen_cursor(int y, int x)
{
    cursor_y = y;
    cursor_x = x;
}

void screen_show(bool all)
{
    if (!screen || !shown) return;
    tty_begin_drawing();
    draw_rows();
    bool visible = cursor_y >= 0 && cursor_y < LINES && cursor_x < COLS;
    if (all) clearok(curscr, TRUE);
    curs_set(visible);
    if (visible) move(cursor_y, cursor_x);
    refresh();
    tty_end_drawing();
}

void screen_raw(const char *bytes, size_t n)
{
    fflush(stdout);
    output_write(STDOUT_FILENO, bytes, n);
}
