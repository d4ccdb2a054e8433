/* A machine over a window of the text: at its head stands either the beginning of a line, or
 * something inside one. Each step decides about some bytes at the head, or asks for more. A
 * step sees at most STYLE_HELD_MAX bytes, always the same ones however the text was cut, and
 * decides early only what more bytes cannot change: so the looks do not depend on the pieces.
 */
#include "ui/style.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

/* What a step looks at. */
struct window {
    const char *s;
    size_t n;
    bool all; /* nothing that comes later may change what is decided */
    void (*emit)(void *user, const char *s, size_t n, unsigned look);
    void *user;
};

/* What a step found at the head: how many bytes, 0 if more must be seen. */
enum { MORE = 0 };

static size_t put(struct styler *st, const struct window *w, size_t at, size_t n, unsigned look)
{
    if (n == 0) return at;
    size_t known = st->n_known < n ? st->n_known : n;
    st->n_known -= known;
    if (n > known) w->emit(w->user, w->s + at + known, n - known, look);
    st->before = w->s[at + n - 1];
    return at + n;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t blanks(const struct window *w, size_t at)
{
    while (at < w->n && is_blank(w->s[at]))
        at++;
    return at;
}

static size_t run_of(const struct window *w, size_t at, char c)
{
    while (at < w->n && w->s[at] == c)
        at++;
    return at;
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Whether the byte at `at` cannot be judged yet. */
static bool unseen(const struct window *w, size_t at)
{
    return at >= w->n && !w->all;
}

/* The line ends at `at`, for all that can be seen. */
static bool ends(const struct window *w, size_t at)
{
    return at >= w->n || w->s[at] == '\n';
}

/* --- The beginning of a line -------------------------------------------------------------- */

static size_t new_line(struct styler *st, const struct window *w)
{
    put(st, w, 0, 1, 0);
    st->in_line = false;
    st->line = 0;
    st->n_quotes = 0;
    st->strong = st->emphasis = 0;
    st->n_code = 0;
    st->before = 0;
    return 1;
}

/* "> " at `at`. */
static size_t quote(struct styler *st, const struct window *w, size_t at)
{
    if (unseen(w, at + 1)) return MORE;
    put(st, w, 0, at, 0);
    size_t n = !ends(w, at + 1) && w->s[at + 1] == ' ' ? 2 : 1;
    put(st, w, at, n, LOOK_MARK | LOOK_QUOTE);
    st->n_quotes++;
    st->line |= LOOK_QUOTE;
    return at + n;
}

/* A line inside a code block: its closing fence, or code. */
static size_t code_line(struct styler *st, const struct window *w)
{
    size_t at = blanks(w, 0), end = run_of(w, at, st->fence), rest = blanks(w, end);
    bool closes = end - at >= st->n_fence && ends(w, rest);
    /* The rest may yet make it a fence, or make it none. */
    if (unseen(w, rest)) return MORE;
    st->in_line = true;
    if (!closes) return put(st, w, 0, at, st->line | LOOK_BLOCK);
    st->fence = 0;
    put(st, w, 0, at, st->line);
    return put(st, w, at, rest - at, st->line | LOOK_BLOCK | LOOK_MARK);
}

/* An opening fence with its language at `at`, which is held until its line ends: behind
 * backticks another backtick makes it inline code. 0 and *none if it is no fence. */
static size_t open_fence(struct styler *st, const struct window *w, size_t at, bool *none)
{
    char c = w->s[at];
    size_t end = run_of(w, at, c), name = blanks(w, end), stop = name;
    while (!ends(w, stop) && !(c == '`' && w->s[stop] == '`'))
        stop++;
    *none = (end < w->n && end - at < 3) || (stop < w->n && w->s[stop] == '`') ||
            (w->all && (end - at < 3 || stop == STYLE_HELD_MAX));
    if (*none || unseen(w, stop)) return MORE;
    st->fence = c;
    st->n_fence = end - at;
    st->n_outside = st->n_quotes;
    st->in_line = true;
    put(st, w, 0, at, st->line);
    put(st, w, at, name - at, st->line | LOOK_BLOCK | LOOK_MARK);
    return put(st, w, name, stop - name, st->line | LOOK_BLOCK | LOOK_LANGUAGE);
}

/* "## " at `at`. 0 and *none if it is no heading. */
static size_t heading(struct styler *st, const struct window *w, size_t at, bool *none)
{
    size_t end = run_of(w, at, '#');
    *none = end - at > 6 || (!ends(w, end) && !is_blank(w->s[end]));
    if (*none || unseen(w, end)) return MORE;
    st->line |= LOOK_HEADING;
    st->in_line = true;
    put(st, w, 0, at, st->line);
    return put(st, w, at, end - at, st->line | LOOK_MARK);
}

/* "---", "* * *": three or more of one mark and nothing else on the line. */
static size_t rule(struct styler *st, const struct window *w, size_t at, bool *none)
{
    char c = w->s[at];
    size_t n = 0, end = at;
    while (end < w->n && (w->s[end] == c || is_blank(w->s[end])))
        n += w->s[end++] == c;
    *none = !ends(w, end) || (n < 3 && !unseen(w, end)) || end == STYLE_HELD_MAX;
    if (*none || unseen(w, end)) return MORE;
    st->in_line = true;
    put(st, w, 0, at, st->line);
    return put(st, w, at, end - at, st->line | LOOK_MARK);
}

/* "- ", "12. " at `at`. */
static size_t bullet(struct styler *st, const struct window *w, size_t at, bool *none)
{
    size_t end = at;
    while (end < w->n && w->s[end] >= '0' && w->s[end] <= '9' && end - at < 9)
        end++;
    bool numbered = end > at;
    *none = false;
    if (unseen(w, end)) return MORE;
    *none = ends(w, end) || !is_one_of(w->s[end], numbered ? ".)" : "-*+");
    if (*none || unseen(w, end + 1)) return MORE;
    *none = ends(w, end + 1) || !is_blank(w->s[end + 1]);
    if (*none) return MORE;
    put(st, w, 0, at, st->line);
    put(st, w, at, end + 1 - at, st->line | LOOK_BULLET);
    return put(st, w, end + 1, 1, st->line);
}

static size_t line_start(struct styler *st, const struct window *w)
{
    static size_t (*const kinds[])(struct styler *, const struct window *, size_t,
                                   bool *) = {open_fence, heading, rule, bullet};
    static const char *const marks[] = {"`~", "#", "-*_", "-*+0123456789"};
    size_t at = blanks(w, 0);
    if (unseen(w, at)) return MORE;
    bool quotes = at < w->n && w->s[at] == '>';
    if (st->fence && st->n_quotes < st->n_outside && !quotes) st->fence = 0;
    if (quotes && (!st->fence || st->n_quotes < st->n_outside)) return quote(st, w, at);
    if (st->fence) return code_line(st, w);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !ends(w, at); i++) {
        if (!is_one_of(w->s[at], marks[i])) continue;
        bool none;
        size_t n = kinds[i](st, w, at, &none);
        if (!none) return n;
    }
    st->in_line = true;
    return put(st, w, 0, at, st->line);
}

/* --- Inside a line ------------------------------------------------------------------------ */

static unsigned look_now(const struct styler *st)
{
    return st->line | (st->strong ? LOOK_STRONG : 0) | (st->emphasis ? LOOK_EMPHASIS : 0) |
           (st->n_code ? LOOK_CODE : 0);
}

/* What comes before one of `stops`: whole characters. */
static size_t plain(struct styler *st, const struct window *w, const char *stops, unsigned look)
{
    size_t n = 0;
    while (n < w->n && !is_one_of(w->s[n], stops))
        n++;
    if (n == w->n && !(w->all && n < STYLE_HELD_MAX)) {
        size_t tail = utf8_partial_tail(w->s, n);
        if (tail < n || !w->all) n -= tail;
    }
    return put(st, w, 0, n, look);
}

/* Backticks that open inline code, or the ones inside it. */
static size_t backticks(struct styler *st, const struct window *w)
{
    size_t n = run_of(w, 0, '`');
    if (unseen(w, n)) return MORE;
    unsigned look = look_now(st) | LOOK_CODE;
    if (st->n_code && st->n_code != n) return put(st, w, 0, n, look);
    st->n_code = st->n_code ? 0 : n;
    return put(st, w, 0, n, look | LOOK_MARK);
}

/* A mark that stands for the end of emphasis: not behind a blank; an underscore not inside a
 * word. next is what follows it, 0 at the end. */
static bool can_close(char before, char mark, char next)
{
    return before && !is_blank(before) && (mark == '*' || !is_alnum(next));
}

static bool can_open(char before, char next)
{
    return next && !is_blank(next) && next != '\n' && !is_alnum(before);
}

/* Whether the single mark at the head has another half on its line, as far as can be seen: a
 * star is often no mark at all. 1: yes, 0: no, -1: more must be seen. */
static int has_half(const struct window *w)
{
    char mark = w->s[0];
    for (size_t i = 1; !ends(w, i);) {
        if (w->s[i] != mark) {
            i += w->s[i] == '\\' && !ends(w, i + 1) ? 2 : 1;
            continue;
        }
        size_t end = run_of(w, i, mark);
        if (unseen(w, end)) return -1;
        char next = end < w->n ? w->s[end] : 0;
        if ((end - i == 1 || end - i == 3) && can_close(w->s[i - 1], mark, next)) return 1;
        i = end;
    }
    return memchr(w->s, '\n', w->n) || w->all ? 0 : -1;
}

/* Stars or underscores: one is emphasis, two are strong, three are both. */
static size_t stars(struct styler *st, const struct window *w)
{
    char c = w->s[0];
    size_t n = run_of(w, 0, c);
    if (unseen(w, n)) return MORE;
    char next = n < w->n ? w->s[n] : 0;
    bool one = n == 1 || n == 3, two = n == 2 || n == 3;
    unsigned look = look_now(st);
    if (n <= 3 && can_close(st->before, c, next) && (!one || st->emphasis == c) &&
        (!two || st->strong == c)) {
        if (one) st->emphasis = 0;
        if (two) st->strong = 0;
        return put(st, w, 0, n, look | LOOK_MARK);
    }
    bool opens =
        n <= 3 && can_open(st->before, next) && !(one && st->emphasis) && !(two && st->strong);
    int half = opens && n == 1 ? has_half(w) : 1;
    if (half < 0) return MORE;
    if (!opens || !half) return put(st, w, 0, n, look);
    if (one) st->emphasis = c;
    if (two) st->strong = c;
    return put(st, w, 0, n, look_now(st) | LOOK_MARK);
}

static bool is_punctuation(char c)
{
    return c > ' ' && c < 0x7f && !is_alnum(c);
}

static size_t in_line(struct styler *st, const struct window *w)
{
    char c = w->s[0];
    if (c == '\n') return new_line(st, w);
    if (st->fence) return plain(st, w, "\n", st->line | LOOK_BLOCK);
    if (c == '`') return backticks(st, w);
    if (st->n_code) return plain(st, w, "\n`", look_now(st));
    if (c == '*' || c == '_') return stars(st, w);
    if (c != '\\') return plain(st, w, "\n`*_\\", look_now(st));
    if (unseen(w, 1)) return MORE;
    return put(st, w, 0, w->n > 1 && is_punctuation(w->s[1]) ? 2 : 1, look_now(st));
}

/* --- The machine -------------------------------------------------------------------------- */

/* Takes steps over s[0..n); returns how many bytes were decided about. */
static size_t advance(struct styler *st, struct window *w, const char *s, size_t n, bool last)
{
    size_t at = 0;
    while (at < n) {
        w->s = s + at;
        w->n = n - at < STYLE_HELD_MAX ? n - at : STYLE_HELD_MAX;
        w->all = last || w->n == STYLE_HELD_MAX;
        bool was_in_line = st->in_line;
        size_t used = was_in_line ? in_line(st, w) : line_start(st, w);
        /* A line that begins with nothing of note goes on as any line. */
        if (used == 0 && st->in_line == was_in_line) break;
        at += used;
    }
    return at;
}

void style_text(struct styler *st, const char *s, size_t n,
                void (*emit)(void *user, const char *s, size_t n, unsigned look), void *user)
{
    struct window w = {.emit = emit, .user = user};
    while (st->n_held > 0 && n > 0) {
        size_t room = STYLE_HELD_MAX - st->n_held, some = n < room ? n : room;
        memcpy(st->held + st->n_held, s, some);
        st->n_held += some;
        s += some;
        n -= some;
        size_t used = advance(st, &w, st->held, st->n_held, false);
        memmove(st->held, st->held + used, st->n_held - used);
        st->n_held -= used;
    }
    size_t used = advance(st, &w, s, n, false);
    if (used == n) return;
    st->n_held = n - used;
    memcpy(st->held, s + used, st->n_held);
}

static void emit_nothing(void *user, const char *s, size_t n, unsigned look)
{
    (void)user, (void)s, (void)n, (void)look;
}

void style_resume(struct styler *st, const char *s, size_t n)
{
    *st = (struct styler){0};
    style_text(st, s, n, emit_nothing, NULL);
    st->n_known = st->n_held;
}

void style_end(struct styler *st,
               void (*emit)(void *user, const char *s, size_t n, unsigned look), void *user)
{
    struct window w = {.emit = emit, .user = user};
    advance(st, &w, st->held, st->n_held, true);
    st->n_held = 0;
}

/* --- As sequences ------------------------------------------------------------------------- */

void style_sgr_on(unsigned look, struct buf *out)
{
    /* No backgrounds, and colours that can be read on black and on white. */
    static const struct {
        unsigned look;
        const char *code;
    } codes[] = {{LOOK_HEADING, "1;35"}, {LOOK_STRONG, "1"},   {LOOK_EMPHASIS, "3"},
                 {LOOK_CODE, "36"},      {LOOK_BLOCK, "36"},   {LOOK_QUOTE, "32"},
                 {LOOK_BULLET, "1"},     {LOOK_LANGUAGE, "1"}, {LOOK_MARK, "2"}};
    const char *before = "\033[";
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (!(look & codes[i].look)) continue;
        buf_puts(out, before);
        buf_puts(out, codes[i].code);
        before = ";";
    }
    if (*before == ';') buf_putc(out, 'm');
}

/* --- As places ---------------------------------------------------------------------------- */

static void emit_span(void *user, const char *s, size_t n, unsigned look)
{
    struct style_spans *out = user;
    struct style_span *last = out->n ? &out->items[out->n - 1] : NULL;
    size_t start = last ? last->start + last->len : 0;
    (void)s;
    if (last && last->look == look) {
        last->len += n;
        return;
    }
    MEM_GROW(out->items, out->n, out->cap);
    out->items[out->n++] = (struct style_span){start, n, look};
}

void style_spans(struct styler *st, const char *s, size_t n, struct style_spans *out)
{
    style_text(st, s, n, emit_span, out);
}

void style_spans_end(struct styler *st, struct style_spans *out)
{
    style_end(st, emit_span, out);
}
