/* GBNF, read from the beginning to the end, and what rules do to each other. */
#include "text/gbnf.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/expr.h"
#include "text/scan.h"

struct rule {
    const char *name; /* in the text */
    size_t len;
    size_t line;   /* where it is, or is called first */
    uint32_t node; /* EXPR_NONE: it is not there yet */
    bool may_be_nothing;
};

struct reading {
    struct scan in;
    size_t line;
    struct expr e;
    struct rule *rules;
    size_t n_rules, cap_rules;
    int depth;
    struct err *err;
};

/* More than a person writes; searches through rules are as deep as they are. */
enum { MAX_RULES = 4096 };

static bool failed(const struct reading *r)
{
    return r->err->code != ERR_NONE;
}

/* The first refusal counts. */
#define refuse(r, where, ...)                                    \
    do {                                                         \
        if (failed(r)) break;                                    \
        err_write((r)->err, ERR_FORMAT, __VA_ARGS__);            \
        err_write_prefix((r)->err, "line %zu", (size_t)(where)); \
    } while (0)

/* ---- characters of the file ---- */

static uint32_t take(struct reading *r)
{
    const uint32_t cp = scan_take(&r->in);
    if (cp == '\n') r->line++;
    return cp;
}

/* Blanks and a comment, and with `lines` the ends of lines, too. */
static void skip_space(struct reading *r, bool lines)
{
    for (;;) {
        const uint32_t c = scan_peek(&r->in);
        if (c == '#') {
            while (r->in.at < r->in.len && r->in.s[r->in.at] != '\n')
                r->in.at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
            take(r);
        } else {
            return;
        }
    }
}

/* ---- names ---- */

static size_t name_length(const struct reading *r)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    size_t n = 0;
    while (r->in.at + n < r->in.len && r->in.s[r->in.at + n] &&
           strchr(letters, r->in.s[r->in.at + n]))
        n++;
    return n;
}

/* The number of a rule that is named here, new where nobody named it yet; SCAN_END: too many.
 */
static uint32_t rule_named(struct reading *r, size_t len)
{
    const char *name = r->in.s + r->in.at;
    r->in.at += len;
    for (size_t i = 0; i < r->n_rules; i++)
        if (r->rules[i].len == len && memcmp(r->rules[i].name, name, len) == 0)
            return (uint32_t)i;
    if (r->n_rules == MAX_RULES) {
        refuse(r, r->line, "more than %d rules", MAX_RULES);
        return SCAN_END;
    }
    MEM_GROW(r->rules, r->n_rules, r->cap_rules);
    r->rules[r->n_rules] =
        (struct rule){.name = name, .len = len, .line = r->line, .node = EXPR_NONE};
    return (uint32_t)r->n_rules++;
}

/* For %.*s: names are ASCII, and as long as a message has room for. */
#define NAME(rule) (int)((rule)->len < 100 ? (rule)->len : 100), (rule)->name

/* ---- characters of a literal or a class ---- */

/* Behind a \. */
static uint32_t escaped(struct reading *r)
{
    const size_t line = r->line;
    const uint32_t c = take(r);
    uint32_t value = SCAN_END;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '\\':
    case '"':
    case '[':
    case ']': return c;
    case 'x': value = scan_hex(&r->in, 2); break;
    case 'u': value = scan_hex(&r->in, 4); break;
    case 'U': value = scan_hex(&r->in, 8); break;
    default: refuse(r, line, "an escape (\\) that GBNF does not have");
    }
    if (value > CHARS_MAX) refuse(r, line, "an escape (\\) without its digits");
    return value;
}

/* A character of what ends with `end`, a line end too. */
static uint32_t character(struct reading *r, char end, size_t line)
{
    const uint32_t c = take(r);
    if (c == SCAN_END) refuse(r, line, "a %c is missing", end);
    return c == '\\' ? escaped(r) : c;
}

/* Behind the ". */
static uint32_t literal(struct reading *r)
{
    const size_t line = r->line;
    const uint32_t node = expr_add(&r->e, EXPR_SEQUENCE, 0, 0);
    while (!failed(r) && !scan_skip(&r->in, "\"")) {
        const uint32_t c = character(r, '"', line);
        if (c >= 0xd800 && c <= 0xdfff)
            refuse(r, line, "half of a pair of UTF-16 is no character");
        if (!failed(r)) expr_append(&r->e, node, expr_add(&r->e, EXPR_CHAR, c, 0));
    }
    return node;
}

static uint32_t set_node(struct reading *r, struct chars *set, size_t line)
{
    const uint32_t node = expr_add_set(&r->e, set);
    if (node == EXPR_NONE) refuse(r, line, "a class that no character is of");
    return node;
}

/* Behind the [. */
static uint32_t class(struct reading *r)
{
    const size_t line = r->line;
    struct chars set = {0};
    const bool is_other = scan_skip(&r->in, "^");
    while (!failed(r) && !scan_skip(&r->in, "]")) {
        const uint32_t lo = character(r, ']', line);
        uint32_t hi = lo;
        if (scan_is_next(&r->in, "-") && !scan_is_next(&r->in, "-]")) {
            scan_skip(&r->in, "-");
            hi = character(r, ']', line);
        }
        if (lo > hi) refuse(r, line, "a range whose end is before its beginning");
        if (!failed(r)) chars_add(&set, lo, hi);
    }
    chars_tidy(&set);
    if (is_other) chars_complement(&set);
    if (!failed(r)) return set_node(r, &set, line);
    chars_free(&set);
    return EXPR_NONE;
}

static uint32_t any_character(struct reading *r)
{
    struct chars set = {0};
    chars_add(&set, 0, CHARS_MAX);
    return set_node(r, &set, r->line);
}

/* ---- how often ---- */

static uint32_t number(struct reading *r)
{
    skip_space(r, true);
    const uint32_t n = scan_number(&r->in, EXPR_MAX_COUNT);
    skip_space(r, true);
    return n;
}

static bool quantifier(struct reading *r, uint32_t *lo, uint32_t *hi)
{
    const size_t line = r->line;
    *lo = 0;
    *hi = EXPR_NO_END;
    if (scan_skip(&r->in, "*")) return true;
    if (scan_skip(&r->in, "+")) return *lo = 1, true;
    if (scan_skip(&r->in, "?")) return *hi = 1, true;
    if (!scan_skip(&r->in, "{")) return false;
    *lo = *hi = number(r);
    if (scan_skip(&r->in, ",")) *hi = number(r); /* none: SCAN_END is EXPR_NO_END */
    if (*lo == SCAN_END || !scan_skip(&r->in, "}"))
        refuse(r, line, "expected a count, as {2}, {2,} or {2,5}");
    else if (*lo > EXPR_MAX_COUNT || (*hi > EXPR_MAX_COUNT && *hi != EXPR_NO_END))
        refuse(r, line, "more than %d cannot be counted out", EXPR_MAX_COUNT);
    else if (*lo > *hi)
        refuse(r, line, "the most is below the least");
    return !failed(r);
}

/* ---- rules ---- */

static uint32_t alternatives(struct reading *r);

/* Behind the (. */
static uint32_t group(struct reading *r)
{
    const size_t line = r->line;
    if (++r->depth > EXPR_MAX_DEPTH)
        refuse(r, line, "groups in groups beyond %d", EXPR_MAX_DEPTH);
    skip_space(r, true);
    const uint32_t node = failed(r) ? EXPR_NONE : alternatives(r);
    r->depth--;
    if (!scan_skip(&r->in, ")")) refuse(r, line, "a ) is missing");
    return node;
}

/* One thing, without how often; EXPR_NONE: what comes is none, or is refused. */
static uint32_t thing(struct reading *r)
{
    if (scan_skip(&r->in, "\"")) return literal(r);
    if (scan_skip(&r->in, "[")) return class(r);
    if (scan_skip(&r->in, "(")) return group(r);
    if (scan_skip(&r->in, ".")) return any_character(r);
    if (scan_is_next(&r->in, "<") || scan_is_next(&r->in, "!"))
        refuse(r, r->line, "tokens (<...>) cannot be kept to, only characters");
    else if (scan_peek(&r->in) == '*' || scan_peek(&r->in) == '+' || scan_peek(&r->in) == '?' ||
             scan_peek(&r->in) == '{')
        refuse(r, r->line, "there is nothing to repeat before the %c", (char)scan_peek(&r->in));
    const size_t len = name_length(r);
    if (failed(r) || len == 0) return EXPR_NONE;
    const uint32_t rule = rule_named(r, len);
    return rule == SCAN_END ? EXPR_NONE : expr_add(&r->e, EXPR_RULE, rule, 0);
}

/* How often, which may be said of the thing before several times. */
static uint32_t repeated(struct reading *r, uint32_t node)
{
    uint32_t lo, hi;
    const size_t line = r->line;
    int n = 0;
    for (skip_space(r, r->depth > 0); !failed(r) && quantifier(r, &lo, &hi);
         skip_space(r, r->depth > 0)) {
        if (++n > 3) refuse(r, line, "more than three times how often");
        node = expr_repeat(&r->e, node, lo, hi);
    }
    return node;
}

static uint32_t sequence(struct reading *r)
{
    const uint32_t node = expr_add(&r->e, EXPR_SEQUENCE, 0, 0);
    for (uint32_t one; !failed(r) && (one = thing(r)) != EXPR_NONE;) {
        one = repeated(r, one);
        expr_append(&r->e, node, one);
    }
    return node;
}

static uint32_t alternatives(struct reading *r)
{
    const uint32_t node = expr_add(&r->e, EXPR_EITHER, 0, 0);
    for (;;) {
        expr_append(&r->e, node, sequence(r));
        if (failed(r) || !scan_skip(&r->in, "|")) return node;
        skip_space(r, true);
    }
}

/* name ::= alternatives, and the end of a line. */
static void read_rule(struct reading *r)
{
    const size_t len = name_length(r), line = r->line;
    if (len == 0) refuse(r, line, "expected a rule, as root ::= \"yes\" | \"no\"");
    const uint32_t i = failed(r) ? SCAN_END : rule_named(r, len);
    if (i == SCAN_END) return;
    skip_space(r, false);
    if (!scan_skip(&r->in, "::="))
        refuse(r, line, "expected ::= behind '%.*s'", NAME(&r->rules[i]));
    if (r->rules[i].node != EXPR_NONE)
        refuse(r, line, "the rule '%.*s' is there twice", NAME(&r->rules[i]));
    skip_space(r, true);
    if (failed(r)) return;
    const uint32_t node = alternatives(r);
    r->rules[i].node = node;
    r->rules[i].line = line;
    uint32_t cp;
    if (failed(r) || r->in.at == r->in.len || scan_is_next(&r->in, "\n")) return;
    const int n = utf8_decode(r->in.s + r->in.at, r->in.len - r->in.at, &cp);
    refuse(r, r->line, "in the rule '%.*s': expected the end of the line, found '%.*s'",
           NAME(&r->rules[i]), n, r->in.s + r->in.at);
}

/* ---- what rules do to each other ---- */

/* Whether a node may be nothing, as far as is known of the rules. */
static bool may_be_nothing(const struct reading *r, uint32_t node)
{
    const struct expr_node *n = &r->e.nodes[node];
    bool all = true, any = false;
    for (uint32_t i = n->first; i != EXPR_NONE; i = r->e.nodes[i].after) {
        const bool one = may_be_nothing(r, i);
        all &= one;
        any |= one;
    }
    switch ((enum expr_kind)n->kind) {
    case EXPR_CHAR:
    case EXPR_SET: return false;
    case EXPR_SEQUENCE: return all;
    case EXPR_EITHER: return any;
    case EXPR_REPEAT: return n->lo == 0 || any;
    case EXPR_RULE: return r->rules[n->lo].may_be_nothing;
    }
    return false;
}

/* What is known of rules, until nothing new is; from the last on, for those are mostly what the
 * first are made of. */
static void find_nothings(struct reading *r)
{
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (size_t i = r->n_rules; i > 0; i--) {
            struct rule *rule = &r->rules[i - 1];
            if (rule->may_be_nothing || !may_be_nothing(r, rule->node)) continue;
            rule->may_be_nothing = true;
            is_new = true;
        }
    }
}

/* Which rules a rule may call before its first byte: those of all rules one behind the other,
 * each rule's from first[rule] to first[rule + 1]. */
struct edges {
    uint32_t *to;
    size_t n, cap;
    size_t *first;  /* [n_rules + 1] */
    uint8_t *marks; /* [n_rules] */
};

static void add_edges(const struct reading *r, struct edges *e, uint32_t node)
{
    const struct expr_node *n = &r->e.nodes[node];
    if (n->kind == EXPR_RULE) {
        MEM_GROW(e->to, e->n, e->cap);
        e->to[e->n++] = n->lo;
    }
    for (uint32_t i = n->first; i != EXPR_NONE; i = r->e.nodes[i].after) {
        add_edges(r, e, i);
        if (n->kind == EXPR_SEQUENCE && !may_be_nothing(r, i)) break;
    }
}

enum { NEW, OPEN, DONE };

/* A rule that begins with itself, as one does that this one begins with; SCAN_END: none. */
static uint32_t find_ring(struct edges *e, uint32_t rule)
{
    e->marks[rule] = OPEN;
    uint32_t found = SCAN_END;
    for (size_t i = e->first[rule]; found == SCAN_END && i < e->first[rule + 1]; i++) {
        const uint32_t to = e->to[i];
        if (e->marks[to] == OPEN)
            found = to;
        else if (e->marks[to] == NEW)
            found = find_ring(e, to);
    }
    e->marks[rule] = DONE;
    return found;
}

static void refuse_rings(struct reading *r)
{
    struct edges e = {0};
    e.first = mem_zalloc(r->n_rules + 1, sizeof *e.first);
    e.marks = mem_zalloc(r->n_rules, sizeof *e.marks);
    for (size_t i = 0; i < r->n_rules; i++) {
        add_edges(r, &e, r->rules[i].node);
        e.first[i + 1] = e.n;
    }
    for (uint32_t i = 0; i < r->n_rules && !failed(r); i++) {
        const uint32_t ring = e.marks[i] == NEW ? find_ring(&e, i) : SCAN_END;
        if (ring != SCAN_END)
            refuse(r, r->rules[ring].line, "the rule '%.*s' begins with itself",
                   NAME(&r->rules[ring]));
    }
    free(e.to);
    free(e.first);
    free(e.marks);
}

static void check_rules(struct reading *r)
{
    for (size_t i = 0; i < r->n_rules; i++)
        if (r->rules[i].node == EXPR_NONE)
            refuse(r, r->rules[i].line, "there is no rule '%.*s'", NAME(&r->rules[i]));
    if (failed(r)) return;
    find_nothings(r);
    refuse_rings(r);
}

/* ---- the whole ---- */

/* The rule root is the first, wherever it stands. */
static void read_rules(struct reading *r)
{
    r->rules = mem_zalloc(1, sizeof *r->rules);
    r->cap_rules = r->n_rules = 1;
    r->rules[0] = (struct rule){.name = "root", .len = 4, .line = 1, .node = EXPR_NONE};
    r->in.at = utf8_mark(r->in.s, r->in.len);
    for (skip_space(r, true); !failed(r) && r->in.at < r->in.len; skip_space(r, true))
        read_rule(r);
    if (!failed(r)) check_rules(r);
}

/* Those of the text come first; what never ends calls one of them that does not, either. */
static void refuse_endless(struct reading *r, const struct grammar *g)
{
    const uint32_t i = grammar_endless_rule(g, 0);
    if (i < r->n_rules)
        refuse(r, r->rules[i].line, "the rule '%.*s' never ends", NAME(&r->rules[i]));
}

static struct grammar *write_rules(struct reading *r)
{
    struct grammar *g = grammar_new();
    uint32_t *numbers = mem_zalloc(r->n_rules, sizeof *numbers);
    for (size_t i = 0; i < r->n_rules; i++)
        numbers[i] = grammar_rule(g);
    for (size_t i = 0; i < r->n_rules; i++)
        grammar_begin(
            g, numbers[i],
            expr_place(&r->e, r->rules[i].node, g, numbers, chars_place, GRAMMAR_END));
    free(numbers);
    if (grammar_finish(g))
        refuse_endless(r, g);
    else
        err_write(r->err, ERR_FORMAT,
                  "the grammar is too large, or more than %d rules begin with each other",
                  GRAMMAR_MAX_CHAIN);
    if (!failed(r)) return g;
    grammar_release(g);
    return NULL;
}

struct grammar *gbnf_grammar(const char *text, size_t len, struct err *err)
{
    *err = (struct err){0};
    if (!utf8_valid(text, len)) {
        err_write(err, ERR_FORMAT, "it is not UTF-8");
        return NULL;
    }
    struct reading r = {.in = {.s = text, .len = len}, .line = 1, .err = err};
    read_rules(&r);
    struct grammar *g = failed(&r) ? NULL : write_rules(&r);
    free(r.rules);
    expr_free(&r.e);
    return g;
}
