#include "chat/sanitise.h"

#include <stdbool.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"

enum {
    CR = 0x0d,
    BLACK_FLAG = 0x1f3f4,
    TAG_FIRST = 0xe0020,
    TAG_END = 0xe007f,
    /* A flag of a region has at most six tags and their end; more would be hidden text. */
    MAX_TAGS = 7,
};

static void put_raw(struct buf *out, uint32_t cp)
{
    char s[4];
    buf_append(out, s, (size_t)utf8_encode(cp, s));
}

static void put_escaped(struct buf *out, uint32_t cp)
{
    char s[4], escape[16];
    if (printable_char(cp)) /* elsewhere, but not here */
        buf_printf(out, "\\u{%x}", (unsigned)cp);
    else
        buf_puts(out, printable(escape, sizeof escape, s, (size_t)utf8_encode(cp, s)));
}

/* Decides about what waits, now that `after` follows (0: nothing does). */
static void release(struct sanitiser *f, uint32_t after, struct buf *out)
{
    uint32_t cp = f->held;
    f->held = 0;
    if (cp == 0 || (cp == CR && after == '\n')) return;
    if (cp != CR && printable_joins(f->last, cp, after)) {
        put_raw(out, cp);
    } else {
        put_escaped(out, cp);
        f->last = '\\';
    }
}

/* Tags are let through after a black flag only, and only so many. */
static bool is_flag_tag(struct sanitiser *f, uint32_t cp)
{
    if (cp < TAG_FIRST || cp > TAG_END) return false;
    if (f->last == BLACK_FLAG)
        f->n_tags = 0;
    else if (f->last < TAG_FIRST || f->last >= TAG_END)
        return false;
    return ++f->n_tags <= MAX_TAGS;
}

static bool is_mongolian_selector(uint32_t cp)
{
    return (cp >= 0x180b && cp <= 0x180d) || cp == 0x180f;
}

static bool is_selector(uint32_t cp)
{
    return (cp >= 0xfe00 && cp <= 0xfe0f) || (cp >= 0xe0100 && cp <= 0xe01ef) ||
           is_mongolian_selector(cp);
}

static bool is_ideograph(uint32_t cp)
{
    return (cp >= 0x3400 && cp <= 0x9fff) || (cp >= 0xf900 && cp <= 0xfaff) ||
           (cp >= 0x20000 && cp <= 0x3ffff);
}

/* One variation selector stands behind the character that it selects a form of; those of the
 * supplement only behind ideographs, Mongolian's behind its letters. More would be hidden text.
 */
static bool is_selecting(uint32_t before, uint32_t cp)
{
    if (is_mongolian_selector(cp)) return before >= 0x1820 && before <= 0x18aa;
    if (cp > 0xfe0f) return is_ideograph(before);
    return before > ' ' && before != '\\' && !is_selector(before) && before != 0x3000;
}

static bool lets_through(struct sanitiser *f, uint32_t cp)
{
    if (is_selector(cp)) return is_selecting(f->last, cp);
    return cp == '\n' || cp == '\t' || printable_char(cp) || is_flag_tag(f, cp);
}

static void add_char(struct sanitiser *f, uint32_t cp, struct buf *out)
{
    release(f, cp, out);
    if (cp == CR || printable_is_joiner(cp)) {
        f->held = cp;
        return;
    }
    bool let = lets_through(f, cp);
    f->last = let ? cp : '\\';
    if (let)
        put_raw(out, cp);
    else
        put_escaped(out, cp);
}

static void add_bad_byte(struct sanitiser *f, char byte, struct buf *out)
{
    char escape[16];
    release(f, 0, out);
    f->last = '\\';
    buf_puts(out, printable(escape, sizeof escape, &byte, 1));
}

/* As much of s[0..n) as can be decoded; returns what was used. last: nothing follows. */
static size_t decode(struct sanitiser *f, const char *s, size_t n, bool last, struct buf *out)
{
    size_t i = 0;
    while (i < n) {
        uint32_t cp = 0;
        int len = utf8_decode(s + i, n - i, &cp);
        if (len < 0 && !last) break;
        if (len > 0)
            add_char(f, cp, out);
        else
            add_bad_byte(f, s[i], out);
        i += len > 0 ? (size_t)len : 1;
    }
    return i;
}

void sanitise(struct sanitiser *f, const char *s, size_t n, struct buf *out)
{
    while (f->n_tail > 0 && n > 0) {
        f->tail[f->n_tail++] = *s++;
        n--;
        size_t used = decode(f, f->tail, f->n_tail, false, out);
        memmove(f->tail, f->tail + used, f->n_tail - used);
        f->n_tail -= used;
    }
    size_t used = decode(f, s, n, false, out);
    if (used == n) return;
    f->n_tail = n - used;
    memcpy(f->tail, s + used, f->n_tail);
}

void sanitise_end(struct sanitiser *f, struct buf *out)
{
    decode(f, f->tail, f->n_tail, true, out);
    release(f, 0, out);
    *f = (struct sanitiser){0};
}

void sanitise_all(const char *s, size_t n, struct buf *out)
{
    struct sanitiser f = {0};
    sanitise(&f, s, n, out);
    sanitise_end(&f, out);
}
