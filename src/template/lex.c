#include "template/lex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "template/case.h"

/* Brackets may nest this deep inside one tag; the parser allows less. */
#define MAX_BRACKETS 4096

struct lexer {
    struct work *w;
    struct text src;
    size_t at;
    bool line_starting; /* the last tag ended with a line break, or nothing came yet */
    struct token *tokens;
    size_t n, cap;
};

static struct token *push(struct lexer *lx, enum token_type type)
{
    if (lx->n == lx->cap) {
        size_t cap = lx->cap ? lx->cap * 2 : 64;
        lx->tokens = work_grow(lx->w, lx->tokens, lx->n, cap, sizeof *lx->tokens);
        lx->cap = cap;
    }
    struct token *t = &lx->tokens[lx->n++];
    *t = (struct token){.type = type, .line = lx->w->line};
    return t;
}

/* The byte at `at`, -1 beyond the end. */
static int char_at(const struct lexer *lx, size_t at)
{
    return at < lx->src.len ? (unsigned char)lx->src.data[at] : -1;
}

static bool looking_at(const struct lexer *lx, const char *s)
{
    return text_starts(text_slice(lx->src, lx->at, lx->src.len), text_literal(s));
}

static void advance_to(struct lexer *lx, size_t to)
{
    for (; lx->at < to; lx->at++)
        lx->w->line += lx->src.data[lx->at] == '\n';
}

/* The first position from `at` on that is not white space. */
static size_t after_space(const struct lexer *lx, size_t at)
{
    size_t len;
    while (at < lx->src.len && char_is_space(text_char(lx->src, at, &len)))
        at += len;
    return at;
}

/* Whether a tag ends at `at` with `end` ("%}"), optionally signed; then *after is what follows.
 */
static bool ends_at(const struct lexer *lx, size_t at, const char *end, bool plus,
                    size_t *after)
{
    int sign = char_at(lx, at);
    if (sign == '-' || (plus && sign == '+')) at++;
    *after = at + 2;
    return char_at(lx, at) == end[0] && char_at(lx, at + 1) == end[1];
}

/* If a tag ends here, passes its end and the white space that it removes. */
static bool tag_end(struct lexer *lx, const char *end, bool plus, bool trim_newline)
{
    size_t after;
    int sign = char_at(lx, lx->at);
    if (!ends_at(lx, lx->at, end, plus, &after)) return false;
    if (sign == '-')
        after = after_space(lx, after);
    else if (sign != '+' && trim_newline && char_at(lx, after) == '\n')
        after++;
    advance_to(lx, after);
    lx->line_starting = lx->src.data[after - 1] == '\n';
    return true;
}

/* Emits text from..to, less what the tag after it strips: sign is the character after the tag's
 * opening, strip whether the tag is one that lstrip_blocks applies to. */
static void push_data(struct lexer *lx, size_t from, size_t to, int sign, bool strip)
{
    struct text t = text_slice(lx->src, from, to);
    if (sign == '-') {
        t = text_strip(lx->w, t, NULL, false, true);
    } else if (sign != '+' && strip) {
        size_t line = t.len;
        while (line > 0 && t.data[line - 1] != '\n')
            line--;
        bool blank = text_strip(lx->w, text_slice(t, line, t.len), NULL, true, false).len == 0;
        if ((line > 0 || lx->line_starting) && blank) t = text_slice(t, 0, line);
    }
    if (t.len) push(lx, TOKEN_DATA)->text = t;
    advance_to(lx, to);
}

/* ---- Inside tags ---- */

static void lex_number(struct lexer *lx)
{
    char digits[400];
    size_t n = 0, at = lx->at, len = lx->src.len;
    const char *s = lx->src.data;
    int base = 10;
    bool real = false, after_dot = lx->at > 0 && s[lx->at - 1] == '.';
    if (s[at] == '0' && at + 1 < len) {
        int c = s[at + 1] | 0x20;
        base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
        if (base != 10) at += 2;
    }
    for (; at < len; at++) {
        int c = (unsigned char)s[at], low = c | 0x20;
        int next = at + 1 < len ? (unsigned char)s[at + 1] : 0;
        bool digit = (c >= '0' && c <= '9') || (base == 16 && low >= 'a' && low <= 'f');
        if (c == '_' && n) continue;
        if (base == 10 && !after_dot && !real && c == '.' && next >= '0' && next <= '9') {
            real = true;
        } else if (base == 10 && !after_dot && low == 'e' && n) {
            size_t sign = next == '+' || next == '-';
            int first = at + 1 + sign < len ? s[at + 1 + sign] : 0;
            if (first < '0' || first > '9' || memchr(digits, 'e', n)) break;
            real = true;
            if (sign && n < sizeof digits - 2) {
                digits[n++] = 'e';
                c = next;
                at++;
            } else {
                c = 'e';
            }
        } else if (!digit) {
            break;
        }
        if (n >= sizeof digits - 2) work_fail(lx->w, "a number of too many digits");
        digits[n++] = (char)c;
    }
    digits[n] = 0;

    struct token *t = push(lx, real ? TOKEN_FLOAT : TOKEN_INTEGER);
    char *end = digits;
    errno = 0;
    if (real)
        t->real = strtod(digits, &end);
    else
        t->integer = strtoll(digits, &end, base);
    if (!n || *end) work_fail(lx->w, "malformed number");
    if (!real && errno == ERANGE)
        work_fail(lx->w, "the number %s does not fit 64 bits", digits);
    lx->at = at;
}

/* Where the name that begins at `at` ends; at: there is none. */
static size_t name_end(const struct lexer *lx, size_t at)
{
    size_t len;
    while (at < lx->src.len && char_is_name(text_char(lx->src, at, &len)))
        at += len;
    return at;
}

/* Reads up to max hexadecimal (or octal) digits at *at; -1 if there are too few. */
static int64_t read_digits(struct text s, size_t *at, size_t min, size_t max, int base)
{
    int64_t value = 0;
    size_t n = 0;
    for (; n < max && *at < s.len; n++, (*at)++) {
        int c = s.data[*at], low = c | 0x20;
        int digit = c >= '0' && c <= '9'       ? c - '0'
                    : low >= 'a' && low <= 'f' ? low - 'a' + 10
                                               : 99;
        if (digit >= base) break;
        value = value * base + digit;
    }
    return n < min ? -1 : value;
}

/* One escape, s.data[*at] being the character after the backslash. */
static void unescape(struct lexer *lx, struct builder *b, struct text s, size_t *at)
{
    static const char names[] = "\\'\"abfnrtv", codes[] = "\\'\"\a\b\f\n\r\t\v";
    char c = s.data[*at];
    const char *found = c ? strchr(names, c) : NULL;
    if (found) {
        builder_add_bytes(b, &codes[found - names], 1, ORIGIN_LITERAL);
        (*at)++;
        return;
    }
    if (c == '\n') { /* a line continued */
        (*at)++;
        return;
    }
    int64_t cp;
    if (c == 'x' || c == 'u' || c == 'U') {
        size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        (*at)++;
        cp = read_digits(s, at, n, n, 16);
        if (cp >= 0xD800 && cp < 0xDC00 && *at + 1 < s.len && s.data[*at] == '\\' &&
            s.data[*at + 1] == 'u') {
            size_t second = *at + 2;
            int64_t low = read_digits(s, &second, 4, 4, 16);
            if (low >= 0xDC00 && low < 0xE000) {
                cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
                *at = second;
            }
        }
    } else if (c >= '0' && c <= '7') {
        cp = read_digits(s, at, 1, 3, 8);
    } else if (c == 'N') {
        work_fail(lx->w, "\\N escapes are not supported");
    } else { /* not an escape: the backslash stays */
        builder_add_bytes(b, "\\", 1, ORIGIN_LITERAL);
        return;
    }
    if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
        work_fail(lx->w, "a \\%c escape that is no character", c);
    char utf8[4];
    int n = utf8_encode((uint32_t)cp, utf8);
    builder_add_bytes(b, utf8, (size_t)n, ORIGIN_LITERAL);
}

static void lex_string(struct lexer *lx, char quote)
{
    size_t from = lx->at + 1, to = from;
    bool escapes = false;
    while (to < lx->src.len && lx->src.data[to] != quote) {
        if (lx->src.data[to] == '\\') {
            escapes = true;
            to++;
        }
        to++;
    }
    if (to >= lx->src.len) work_fail(lx->w, "a string is not closed");
    struct text s = text_slice(lx->src, from, to);
    struct token *t = push(lx, TOKEN_STRING);
    if (escapes) {
        struct builder b;
        builder_init(&b, lx->w);
        size_t done = 0;
        for (size_t at = 0; at < s.len;) {
            if (s.data[at] != '\\') {
                at++;
                continue;
            }
            builder_add(&b, text_slice(s, done, at));
            at++;
            unescape(lx, &b, s, &at);
            done = at;
        }
        builder_add(&b, text_slice(s, done, s.len));
        s = builder_take(&b);
    }
    t->text = s;
    advance_to(lx, to + 1);
}

static int lex_operator(struct lexer *lx)
{
    static const struct {
        char text[3];
        int op;
    } pairs[] = {{"==", OP_EQ}, {"!=", OP_NE},  {"<=", OP_LE},
                 {">=", OP_GE}, {"**", OP_POW}, {"//", OP_FLOORDIV}};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (looking_at(lx, pairs[i].text)) {
            lx->at += 2;
            return pairs[i].op;
        }
    int c = char_at(lx, lx->at);
    if (c <= 0 || !strchr("+-/*%~[](){}><=.:|,;", c)) {
        struct text rest = text_slice(lx->src, lx->at, lx->src.len);
        work_fail(lx->w, "unexpected character '%.*s'", (int)text_char_len(rest, 0), rest.data);
    }
    lx->at++;
    return c;
}

/* The tokens up to the end of a tag. */
static void lex_tag(struct lexer *lx, bool block)
{
    char open[MAX_BRACKETS];
    size_t n_open = 0;
    unsigned first_line = lx->w->line;
    for (;;) {
        if (n_open == 0 && tag_end(lx, block ? "%}" : "}}", block, block)) break;
        int c = char_at(lx, lx->at);
        if (c < 0) {
            lx->w->line = first_line;
            work_fail(lx->w, "%s is not closed", block ? "{%" : "{{");
        }
        size_t len, to;
        if (char_is_space(text_char(lx->src, lx->at, &len))) {
            advance_to(lx, after_space(lx, lx->at));
        } else if (c >= '0' && c <= '9') {
            lex_number(lx);
        } else if ((to = name_end(lx, lx->at)) > lx->at) {
            push(lx, TOKEN_NAME)->text = text_slice(lx->src, lx->at, to);
            lx->at = to;
        } else if (c == '\'' || c == '"') {
            lex_string(lx, (char)c);
        } else {
            int op = lex_operator(lx);
            if (op == '(' || op == '[' || op == '{') {
                if (n_open == MAX_BRACKETS) work_fail(lx->w, "brackets nested too deeply");
                open[n_open++] = op == '(' ? ')' : op == '[' ? ']' : '}';
            } else if (op == ')' || op == ']' || op == '}') {
                if (!n_open) work_fail(lx->w, "unexpected '%c'", op);
                if (open[--n_open] != op)
                    work_fail(lx->w, "unexpected '%c', expected '%c'", op, open[n_open]);
            }
            push(lx, TOKEN_OPERATOR)->op = op;
        }
    }
    push(lx, block ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END);
}

/* ---- Between tags ---- */

static void lex_comment(struct lexer *lx)
{
    unsigned first_line = lx->w->line;
    while (!tag_end(lx, "#}", true, true)) {
        if (lx->at >= lx->src.len) {
            lx->w->line = first_line;
            work_fail(lx->w, "{# is not closed");
        }
        advance_to(lx, lx->at + 1);
    }
}

/* Whether the tag `{%[sign] word` starts at `at`; then *after is where its end is due. */
static bool word_tag(const struct lexer *lx, size_t at, const char *word, size_t *after)
{
    int sign = char_at(lx, at + 2);
    at = after_space(lx, at + (sign == '-' || sign == '+' ? 3 : 2));
    if (!text_starts(text_slice(lx->src, at, lx->src.len), text_literal(word))) return false;
    *after = after_space(lx, at + strlen(word));
    return true;
}

/* If a raw block starts here, passes it and emits its text. */
static bool lex_raw(struct lexer *lx)
{
    size_t end, after;
    if (!word_tag(lx, lx->at, "raw", &end) || !ends_at(lx, end, "%}", false, &after))
        return false;
    unsigned first_line = lx->w->line;
    advance_to(lx, end);
    tag_end(lx, "%}", false, false);
    for (size_t at = lx->at; (at = text_find(lx->src, text_literal("{%"), at)) != TEXT_NONE;
         at++) {
        if (!word_tag(lx, at, "endraw", &end) || !ends_at(lx, end, "%}", true, &after))
            continue;
        push_data(lx, lx->at, at, char_at(lx, at + 2), true);
        advance_to(lx, end);
        return tag_end(lx, "%}", true, true);
    }
    lx->w->line = first_line;
    work_fail(lx->w, "{%% raw %%} is not closed");
}

struct token *lex(struct work *w, const char *source, size_t n)
{
    struct lexer lx = {
        .w = w, .src = text_of(source, n, ORIGIN_LITERAL), .line_starting = true};
    while (lx.at < n) {
        size_t tag = lx.at;
        while (tag < n &&
               !(source[tag] == '{' && tag + 1 < n &&
                 (source[tag + 1] == '{' || source[tag + 1] == '%' || source[tag + 1] == '#')))
            tag++;
        char kind = tag < n ? source[tag + 1] : 0;
        int sign = tag + 2 < n ? source[tag + 2] : 0;
        push_data(&lx, lx.at, tag, kind ? sign : '+', kind != '{');
        if (!kind) break;
        if (kind == '%' && lex_raw(&lx)) continue;
        if (kind != '#') push(&lx, kind == '{' ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN);
        lx.at += sign == '-' || sign == '+' ? 3 : 2;
        if (kind == '#')
            lex_comment(&lx);
        else
            lex_tag(&lx, kind == '%');
    }
    push(&lx, TOKEN_EOF);
    return lx.tokens;
}

const char *token_describe(struct work *w, const struct token *t)
{
    char *s = work_alloc(w, 64);
    switch (t->type) {
    case TOKEN_EOF: return "the end of the template";
    case TOKEN_DATA: return "text";
    case TOKEN_VARIABLE_BEGIN: return "'{{'";
    case TOKEN_VARIABLE_END: return "'}}'";
    case TOKEN_BLOCK_BEGIN: return "'{%'";
    case TOKEN_BLOCK_END: return "'%}'";
    case TOKEN_NAME:
        snprintf(s, 64, "'%.*s'", (int)(t->text.len < 40 ? t->text.len : 40), t->text.data);
        return s;
    case TOKEN_STRING: return "a string";
    case TOKEN_INTEGER:
    case TOKEN_FLOAT: return "a number";
    case TOKEN_OPERATOR: break;
    }
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "**", "//"};
    if (t->op >= OP_EQ)
        snprintf(s, 64, "'%s'", pairs[t->op - OP_EQ]);
    else
        snprintf(s, 64, "'%c'", t->op);
    return s;
}
