#include "template/text.h"

#include <assert.h>

#include "base/utf8.h"

struct text text_of(const char *s, size_t n, enum origin origin)
{
    assert(origin != ORIGIN_REPLY);
    return (struct text){.data = s, .len = n, .origin = origin};
}

struct text text_literal(const char *s)
{
    return text_of(s, strlen(s), ORIGIN_LITERAL);
}

struct text text_plain(struct text t)
{
    return text_of(t.data, t.len, ORIGIN_USER);
}

/* The first of the runs of t that ends after position `at` of t. */
static size_t run_at(const struct text *t, size_t at)
{
    size_t lo = 0, hi = t->n_runs;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->runs[mid].start + t->runs[mid].len <= t->base + at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct text text_slice(struct text t, size_t from, size_t to)
{
    if (to > t.len) to = t.len;
    if (from >= to) return text_of("", 0, ORIGIN_LITERAL);
    struct text s = t;
    s.data += from;
    s.len = to - from;
    s.base += from;
    if (t.runs) {
        size_t first = run_at(&t, from), last = run_at(&t, to - 1);
        s.runs = t.runs + first;
        s.n_runs = last - first + 1;
    }
    return s;
}

bool text_run(const struct text *t, size_t i, struct origin_run *run)
{
    if (!t->len) return false;
    if (!t->runs) {
        if (i) return false;
        *run = (struct origin_run){.len = t->len, .origin = t->origin};
        if (t->origin == ORIGIN_REPLY) {
            run->reply = t->reply;
            run->source = t->base;
        }
        return true;
    }
    if (i >= t->n_runs) return false;
    const struct origin_run *r = &t->runs[i];
    size_t from = r->start < t->base ? t->base : r->start;
    size_t to = r->start + r->len;
    if (to > t->base + t->len) to = t->base + t->len;
    *run = *r;
    run->start = from - t->base;
    run->len = to - from;
    if (r->origin == ORIGIN_REPLY) run->source += from - r->start;
    return true;
}

bool text_is(struct text t, const char *s)
{
    return t.len == strlen(s) && memcmp(t.data, s, t.len) == 0;
}

bool text_equal(struct text a, struct text b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

int text_compare(struct text a, struct text b)
{
    /* UTF-8 orders as its code points do. */
    int c = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

bool text_starts(struct text t, struct text prefix)
{
    return t.len >= prefix.len && memcmp(t.data, prefix.data, prefix.len) == 0;
}

bool text_ends(struct text t, struct text suffix)
{
    return t.len >= suffix.len &&
           memcmp(t.data + t.len - suffix.len, suffix.data, suffix.len) == 0;
}

size_t text_find(struct text t, struct text needle, size_t from)
{
    if (from > t.len || needle.len > t.len - from) return TEXT_NONE;
    if (!needle.len) return from;
    /* glibc's memmem is linear in the worst case (two-way), so no needle is a trap. */
    const char *hit = memmem(t.data + from, t.len - from, needle.data, needle.len);
    return hit ? (size_t)(hit - t.data) : TEXT_NONE;
}

size_t text_find_last(struct work *w, struct text t, struct text needle)
{
    if (needle.len > t.len) return TEXT_NONE;
    for (size_t at = t.len - needle.len;; at--) {
        if (memcmp(t.data + at, needle.data, needle.len) == 0) return at;
        if (!at) return TEXT_NONE;
        work_burn(w, needle.len / 64 + ((at & 15) == 0));
    }
}

uint32_t text_char(struct text t, size_t at, size_t *len)
{
    unsigned char c = (unsigned char)t.data[at];
    if (c < 0x80) {
        *len = 1;
        return c;
    }
    uint32_t cp;
    int n = utf8_decode(t.data + at, t.len - at, &cp);
    *len = n > 0 ? (size_t)n : 1;
    return n > 0 ? cp : 0xFFFD;
}

size_t text_char_len(struct text t, size_t at)
{
    size_t len;
    text_char(t, at, &len);
    return len;
}

size_t text_n_chars(struct text t)
{
    size_t n = 0;
    for (size_t at = 0; at < t.len; at += text_char_len(t, at))
        n++;
    return n;
}

size_t text_char_pos(struct text t, size_t i)
{
    size_t at = 0;
    while (i > 0 && at < t.len) {
        at += text_char_len(t, at);
        i--;
    }
    return at;
}

bool char_is_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x1F);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static bool strips(struct work *w, struct text t, size_t at, size_t len, uint32_t cp,
                   const struct text *chars)
{
    if (!chars) return char_is_space(cp);
    work_burn(w, chars->len / 16 + 1);
    for (size_t i = 0; i < chars->len;) {
        size_t n = text_char_len(*chars, i);
        if (n == len && memcmp(chars->data + i, t.data + at, n) == 0) return true;
        i += n;
    }
    return false;
}

struct text text_strip(struct work *w, struct text t, const struct text *chars, bool left,
                       bool right)
{
    size_t from = 0, to = t.len, len;
    while (left && from < to) {
        uint32_t cp = text_char(t, from, &len);
        if (!strips(w, t, from, len, cp, chars)) break;
        from += len;
    }
    while (right && to > from) {
        /* Back over continuation bytes to where a character may start. */
        size_t at = to - 1;
        while (at > from && to - at < 4 && ((unsigned char)t.data[at] & 0xC0) == 0x80)
            at--;
        uint32_t cp = text_char(text_slice(t, 0, to), at, &len);
        if (at + len != to) { /* a stray byte */
            at = to - 1;
            len = 1;
            cp = 0xFFFD;
        }
        if (!strips(w, t, at, len, cp, chars)) break;
        to = at;
    }
    work_burn_bytes(w, t.len - (to - from));
    return text_slice(t, from, to);
}

size_t text_line_end(struct text t, size_t at, size_t *next)
{
    while (at < t.len) {
        size_t len;
        uint32_t cp = text_char(t, at, &len);
        if (cp == '\r' && at + 1 < t.len && t.data[at + 1] == '\n') {
            *next = at + 2;
            return at;
        }
        if ((cp >= '\n' && cp <= '\r') || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 ||
            cp == 0x2028 || cp == 0x2029) {
            *next = at + len;
            return at;
        }
        at += len;
    }
    *next = at;
    return at;
}

/* ---- Building ---- */

void builder_init(struct builder *b, struct work *w)
{
    *b = (struct builder){.w = w};
}

static void builder_reserve(struct builder *b, size_t n)
{
    if (b->cap - b->len >= n) return;
    struct work *w = b->w;
    if (n > w->max_string_bytes - b->len)
        work_fail(w, "the text grows beyond %zu bytes", w->max_string_bytes);
    size_t want = b->cap * 2 < b->len + n ? b->len + n : b->cap * 2;
    if (want < 64) want = 64;
    if (want > w->max_string_bytes) want = w->max_string_bytes;
    if (b->data && work_bytes_extend(w, b->data + b->cap, want - b->cap)) {
        b->cap = want;
        return;
    }
    char *data = work_bytes(w, want);
    if (b->len) memcpy(data, b->data, b->len);
    b->data = data;
    b->cap = want;
}

static bool continues(const struct origin_run *a, const struct origin_run *b)
{
    if (a->origin != b->origin) return false;
    return a->origin != ORIGIN_REPLY ||
           (a->reply == b->reply && a->source + a->len == b->source);
}

static void builder_add_run(struct builder *b, struct origin_run run)
{
    if (b->n_runs && continues(&b->runs[b->n_runs - 1], &run)) {
        b->runs[b->n_runs - 1].len += run.len;
        return;
    }
    if (b->n_runs == b->cap_runs) {
        size_t cap = b->cap_runs ? b->cap_runs * 2 : 4;
        b->runs = work_grow(b->w, b->runs, b->n_runs, cap, sizeof *b->runs);
        b->cap_runs = cap;
    }
    b->runs[b->n_runs++] = run;
}

void builder_add(struct builder *b, struct text t)
{
    if (!t.len) return;
    builder_reserve(b, t.len);
    memcpy(b->data + b->len, t.data, t.len);
    struct origin_run run;
    for (size_t i = 0; text_run(&t, i, &run); i++) {
        run.start += b->len;
        builder_add_run(b, run);
    }
    b->len += t.len;
    work_burn(b->w, t.len / 256 + 1);
}

void builder_add_bytes(struct builder *b, const char *s, size_t n, enum origin origin)
{
    builder_add(b, text_of(s, n, origin));
}

void builder_puts(struct builder *b, const char *s)
{
    builder_add_bytes(b, s, strlen(s), ORIGIN_USER);
}

void builder_putc(struct builder *b, char c)
{
    builder_add_bytes(b, &c, 1, ORIGIN_USER);
}

void builder_put_char(struct builder *b, uint32_t cp)
{
    char s[4];
    int n = utf8_encode(cp, s);
    builder_add_bytes(b, s, (size_t)n, ORIGIN_USER);
}

void builder_fill(struct builder *b, char c, size_t n, enum origin origin)
{
    if (!n) return;
    builder_reserve(b, n);
    memset(b->data + b->len, c, n);
    builder_add_run(b, (struct origin_run){.start = b->len, .len = n, .origin = origin});
    b->len += n;
    work_burn(b->w, n / 256 + 1);
}

struct text builder_take(struct builder *b)
{
    struct text t = text_of("", 0, ORIGIN_LITERAL);
    if (b->data) work_bytes_return(b->w, b->data + b->len, b->data + b->cap);
    if (b->len) {
        t = (struct text){.data = b->data, .len = b->len, .runs = b->runs, .n_runs = b->n_runs};
        if (b->n_runs == 1) {
            t.runs = NULL;
            t.n_runs = 0;
            t.origin = b->runs[0].origin;
            t.reply = b->runs[0].reply;
            t.base = b->runs[0].source;
        }
    }
    builder_init(b, b->w);
    return t;
}

struct text text_concat(struct work *w, struct text a, struct text b)
{
    if (!a.len) return b;
    if (!b.len) return a;
    if (b.len > w->max_string_bytes - a.len)
        work_fail(w, "a string of more than %zu bytes", w->max_string_bytes);

    struct builder out;
    builder_init(&out, w);
    struct origin_run run;
    for (size_t i = 0; text_run(&a, i, &run); i++)
        builder_add_run(&out, run);
    work_burn(w, out.n_runs / 4);
    if (work_bytes_extend(w, a.data + a.len, b.len)) {
        /* The byte after a is ours now and nobody else's: a and its slices stay as they are. */
        out.data = (char *)(uintptr_t)a.data;
        out.cap = a.len + b.len;
    } else {
        builder_reserve(&out, a.len + b.len);
        memcpy(out.data, a.data, a.len);
        work_burn(w, a.len / 256);
    }
    out.len = a.len;
    builder_add(&out, b);
    return builder_take(&out);
}

struct text text_replace(struct work *w, struct text t, struct text from, struct text to,
                         int64_t max)
{
    struct builder b;
    builder_init(&b, w);
    work_burn_bytes(w, t.len);
    size_t done = 0, at = 0;
    while (max != 0) {
        size_t hit = text_find(t, from, at);
        if (hit == TEXT_NONE) break;
        builder_add(&b, text_slice(t, done, hit));
        builder_add(&b, to);
        work_burn(w, 1);
        done = hit + from.len;
        at = done;
        if (!from.len) { /* before every character and at the end */
            if (hit == t.len) break;
            at = hit + text_char_len(t, hit);
        }
        if (max > 0) max--;
    }
    if (!done && !b.len) return t;
    builder_add(&b, text_slice(t, done, t.len));
    return builder_take(&b);
}
