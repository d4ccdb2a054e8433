/* Rows of text. Most text is ASCII, for which nothing is looked up. */
#include "ui/wrap.h"

#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

size_t wrap_cluster(const char *s, size_t n, int *columns)
{
    /* Nothing joins a '\n', and what follows ASCII can only join it if it is not ASCII itself.
     */
    if (is_ascii(s[0]) && (n == 1 || s[0] == '\n' || is_ascii(s[1]))) {
        *columns = s[0] != '\n';
        return 1;
    }
    uint32_t cp, next;
    size_t i = 0;
    int width = 0, state = 0;
    for (int len; i < n; i += (size_t)len) {
        len = utf8_decode(s + i, n - i, &next);
        if (len <= 0) { /* not ours to judge: one column for a byte */
            if (i == 0) i = width = 1;
            break;
        }
        if (i > 0 && utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp,
                                                      (utf8proc_int32_t)next, &state))
            break;
        cp = next;
        width += utf8_width(cp);
    }
    *columns = width > 0 ? width : 1;
    return i;
}

/* Columns that the cluster s[0..len) takes at column `at`. */
static int columns_at(const char *s, int columns, int at)
{
    return s[0] == '\t' ? WRAP_TAB - at % WRAP_TAB : columns;
}

int wrap_width(const char *s, size_t n, int at)
{
    int x = at, columns;
    for (size_t i = 0, len; i < n; i += len) {
        len = wrap_cluster(s + i, n - i, &columns);
        x += columns_at(s + i, columns, x);
    }
    return x - at;
}

size_t wrap_fit(const char *s, size_t n, int columns, int *used)
{
    int x = 0, wide;
    size_t i = 0;
    for (size_t len; i < n; i += len) {
        len = wrap_cluster(s + i, n - i, &wide);
        wide = columns_at(s + i, wide, x);
        if (x + wide > columns) break;
        x += wide;
    }
    if (used) *used = x;
    return i;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool wrap_closes(const char *s, size_t n)
{
    static const char *const closing = "\u3001\u3002\uff0c\uff0e\uff1a\uff1b\uff01\uff1f"
                                       "\u300d\u300f\uff09";
    for (const char *c = closing; *c && n >= 3; c += 3)
        if (memcmp(s, c, 3) == 0) return true;
    return false;
}

static struct wrap_row row(const char *s, size_t n, int columns, bool by_words)
{
    size_t i = 0, len, end = 0, next = 0; /* the last place where the row may end */
    bool before_wide = false, before_blank = true;
    int x = 0, wide;
    for (; i < n; i += len) {
        len = wrap_cluster(s + i, n - i, &wide);
        if (s[i] == '\n') return (struct wrap_row){i, i + 1, i + 1};
        bool is_wide = wide > 1;
        wide = columns_at(s + i, wide, x);
        if (by_words && len == 1 && is_blank(s[i])) {
            /* Blanks may stand beyond the edge, where nobody sees them. */
            if (!before_blank) end = i;
            next = i + 1;
            x += wide;
            before_blank = true;
            continue;
        }
        /* Ideographs stand without blanks. */
        if (by_words && !before_blank && (is_wide || before_wide) && !wrap_closes(s + i, n - i))
            end = next = i;
        if (x + wide > columns && i > 0) {
            if (end > 0) return (struct wrap_row){end, next, i + len};
            /* A word longer than a row is cut, unless only blanks stand before it. */
            return (struct wrap_row){next == i ? 0 : i, i, i + len};
        }
        x += wide;
        before_wide = is_wide;
        before_blank = false;
    }
    return (struct wrap_row){n, 0, n};
}

struct wrap_row wrap_row(const char *s, size_t n, int columns)
{
    return row(s, n, columns, true);
}

struct wrap_row wrap_row_exact(const char *s, size_t n, int columns)
{
    return row(s, n, columns, false);
}
