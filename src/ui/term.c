#include "ui/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "config/options.h"
#include "ui/flow.h"
#include "ui/output.h"
#include "ui/terminfo.h"

static bool dumb(void)
{
    const char *name = getenv("TERM");
    return !name || !*name || strcmp(name, "dumb") == 0;
}

static bool colour_wanted(const struct options *o, int fd, bool is_tty)
{
    if (o->plain || o->color == COLOR_NEVER) return false;
    if (o->color == COLOR_ALWAYS) return true;
    const char *no = getenv("NO_COLOR");
    return is_tty && !dumb() && !(no && *no) && !terminfo_is_colourless(fd);
}

struct term term_of(int fd, const struct options *o)
{
    bool is_tty = isatty(fd);
    return (struct term){
        .fd = fd,
        .is_tty = is_tty,
        .colour = colour_wanted(o, fd, is_tty),
        .escapes = is_tty && !dumb(),
        .redraw = is_tty && !dumb() && !o->plain && !o->accessible,
        .words = is_tty && !dumb() && !o->accessible && o->wrap,
    };
}

const char *term_on(const struct term *t, enum style style)
{
    static const char *const on[] = {
        [STYLE_DIM] = "\033[2m",       [STYLE_LABEL] = "\033[2;3m",
        [STYLE_PROMPT] = "\033[1;32m", [STYLE_WARNING] = "\033[33m",
        [STYLE_ERROR] = "\033[31m",
    };
    return t->colour ? on[style] : "";
}

const char *term_off(const struct term *t)
{
    return t->colour ? "\033[0m" : "";
}

int term_width(const struct term *t)
{
    struct winsize size;
    if (ioctl(t->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return t->is_tty ? 80 : 1000;
}

int term_flow_width(const struct term *t)
{
    return t->words ? term_width(t) : 0;
}

void term_line(const struct term *t, const char *text, struct buf *out)
{
    if (t->words)
        flow_lines(text, strlen(text), term_width(t), out);
    else
        buf_puts(out, text);
}

void term_message(const struct term *t, enum style style, const char *text)
{
    struct buf named = {0}, out = {0};
    buf_printf(&named, "hearth: %s", text);
    buf_puts(&out, term_on(t, style));
    term_line(t, buf_str(&named), &out);
    buf_printf(&out, "%s\n", term_off(t));
    output_write(t->fd, out.data, out.len);
    buf_free(&named);
    buf_free(&out);
}

void term_harmless(struct buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(s + i, n - i, &cp);
        if (len > 0 && (cp == '\n' || cp == '\t' || printable_char(cp)))
            buf_append(out, s + i, (size_t)len);
        else
            buf_puts(out, "\xef\xbf\xbd");
        i += len > 0 ? (size_t)len : utf8_bad_len(s + i, n - i);
    }
}
