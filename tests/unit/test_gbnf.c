/* Grammars in the notation of llama.cpp: which texts they have, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/philox.h"
#include "base/utf8.h"
#include "text/expr.h"
#include "text/gbnf.h"
#include "text/grammar.h"
#include "text/matcher.h"

static struct matcher *matcher_of(const char *text)
{
    struct err err;
    struct grammar *g = gbnf_grammar(text, strlen(text), &err);
    if (!g) fail_msg("%s: %s", text, err.msg);
    struct matcher *m = matcher_new(g);
    grammar_release(g);
    return m;
}

static bool is_text(struct matcher *m, const char *s, size_t n)
{
    return matcher_may_end(m, matcher_steps(m, MATCHER_START, s, n));
}

/* A grammar, the texts that it has and some that it has not, each list up to a NULL. */
struct gbnf_case {
    const char *grammar;
    const char *texts[8], *others[10];
};

static const struct gbnf_case cases[] = {
    /* Literals, and what is written in them. */
    {"root ::= \"yes\"", {"yes"}, {"", "ye", "yess", " yes", "yes\n"}},
    {"root ::= \"\"", {""}, {"a"}},
    {"root ::= \"\\x41\\u00e9\\U0001F600\\n\\r\\t\\\\\\\"\\[\\]\"",
     {"A\u00e9\U0001f600\n\r\t\\\"[]"},
     {"A"}},
    {"root ::= \"a\nb\"", {"a\nb"}, {"ab"}},
    {"root ::= \"\u00e9\" \"# not a comment\"", {"\u00e9# not a comment"}, {"\u00e9"}},
    {"root ::= \"\\xe9\"", {"\u00e9"}, {"\xe9"}},
    /* Classes. */
    {"root ::= [a-c] [xy-] [^a-c] [\\[\\]^]",
     {"a-d]", "cx\u00e9^", "by\n["},
     {"a-a]", "dxdd", "axx"}},
    {"root ::= [-a]+", {"-a", "a"}, {"", "b"}},
    {"root ::= [\\x30-\\u0039\\U0001F600-\\U0001F64F]",
     {"0", "9", "\U0001f610"},
     {"a", "\U0001f650"}},
    {"root ::= [\"#|()]*", {"", "\"#|()"}, {"a"}},
    {"root ::= [\u3041-\u309f]+", {"\u3042\u3044"}, {"\u30a2", "a"}},
    {"root ::= .",
     {"a", "\n", "\u20ac", "\U0010ffff"},
     {"", "ab", "\xed\xa0\x80", "\xff", "\xc3"}},
    {"root ::= [^]", {"a", "\n"}, {"", "ab"}},
    {"root ::= [\\uD7FF-\\uE000]", {"\ue000"}, {"\xed\xa0\x80"}},
    /* Sequences, alternatives and groups, over lines where they may be. */
    {"root ::= \"a\" | \"b\" \"c\" | ", {"a", "bc", ""}, {"b", "ac"}},
    {"root ::= | \"a\"", {"", "a"}, {"b"}},
    {"root ::= (\"a\" | \"b\") \"c\"", {"ac", "bc"}, {"a", "c"}},
    {"root ::= () \"c\" (|\"d\")", {"c", "cd"}, {""}},
    {"root ::= (\n  \"a\" # one\n  |\n  \"b\"\n)\n", {"a", "b"}, {"ab"}},
    {"root ::= \"a\" |\n  \"b\" |\n\n # more\n \"c\"", {"a", "b", "c"}, {"ab"}},
    {"root ::=\n  \"a\"\r\n\r\nb ::= \"b\"\r\n", {"a"}, {"b"}},
    {"\xef\xbb\xbf# first\n\n  root ::= x-1\n\tx-1 ::= Y2 # \"no\"\nY2::=\"a\"", {"a"}, {"x"}},
    {"a ::= root2\nroot ::= a a\nroot2 ::= \"b\"", {"bb"}, {"b"}},
    /* How often. */
    {"root ::= \"ab\"*", {"", "ab", "abab"}, {"a", "aba", "abb"}},
    {"root ::= \"a\"+ [b]? .{2}", {"axx", "abxx", "aaaaxx"}, {"xx", "ax"}},
    {"root ::= \"a\" {2} \"b\"{ 1 , 2 } \"c\"{1,} \"d\"{0} \"e\"{0,1}",
     {"aabc", "aabbcce", "aabccc"},
     {"abc", "aab", "aabbbc", "aabcd"}},
    {"root ::= \"a\"?* \"b\"", {"b", "aab"}, {"a"}},
    {"root ::= (\"a\"*)* (\"b\"? \"c\"?)+ (\"\")*", {"", "aab", "bcb", "aacc"}, {"ba"}},
    {"root ::= (x y?){2,3}\nx ::= \"a\"*\ny ::= \"b\"",
     {"", "b", "aabab", "bbb"},
     {"bbbb", "c"}},
    {"root ::= (\n\"a\"\n*\n{2})", {"", "aaa"}, {"b"}},
    /* Rules that call themselves. */
    {"root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"", "(x", "()"}},
    {"root ::= ws \"a\" root | ws \"b\"\nws ::= \" \"?", {"b", " a a b"}, {"a", "  b"}},
    {"root ::= \"a\" root | \"\"", {"", "aaa"}, {"b"}},
    /* As the ones that come with llama.cpp: sums, lists, moves of chess, JSON. */
    {"root ::= (sum \"=\" ws term \"\\n\")+\n"
     "sum ::= term ([-+*/] term)*\n"
     "term ::= name | num | \"(\" ws sum \")\" ws\n"
     "name ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n",
     {"1+2=3\n", "x = (a_1 +2) \n", "2*(3-y)/4=z\n7=7\n"},
     {"", "1+2=3", "1+=3\n", "(1=1\n", "A=1\n", "1==1\n"}},
    {"root ::= item+\n# No line ends within.\nitem ::= \"- \" "
     "[^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"",
     {"- one\n", "- one\n- \u00e9\u20ac\n"},
     {"", "- one", "- \n", "-one\n", "- a\xc2\x85\n", "- a\u2028\n"}},
    {"root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n"
     "move ::= (pawn | piece | castle) [+#]?\n"
     "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
     "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\ncastle ::= \"O-O\" \"-O\"?\n",
     {"1. e4 e5\n2. Nf3 Nc6\n", "1. d4 d5\n2. O-O exd8=Q+\n10. Nbd2 O-O-O#\n"},
     {"1. e4 e5\n", "1. e4\n2. e5 e6\n", "1. i4 e5\n2. a1 a2\n", "1. e4 e5\n2. O-OO a1\n"}},
    {"root ::= object\n"
     "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
     "object ::=\n  \"{\" ws (\n    string \":\" ws value\n    (\",\" ws string \":\" ws "
     "value)*\n"
     "  )? \"}\" ws\n"
     "array ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
     "string ::=\n  \"\\\"\" (\n    [^\"\\\\\\x7F\\x00-\\x1F] |\n"
     "    \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}) # escapes\n  )* \"\\\"\" ws\n"
     "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9]{1,3})? "
     "ws\n"
     "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
     {"{}", "{\"a\": [1, -2.5e3, {\"b\":null}]}", "{\n  \"\\u00e9\": \"\u00e9\"\n}\n"},
     {"[]", "{\"a\"}", "{\"a\":\"\n\"}", "{\"a\":1,}", "{\"a\":01}"}},
};

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct gbnf_case *c = &cases[i];
        struct matcher *m = matcher_of(c->grammar);
        for (size_t k = 0; k < 8 && c->texts[k]; k++)
            if (!is_text(m, c->texts[k], strlen(c->texts[k])))
                fail_msg("%s: not %s", c->grammar, c->texts[k]);
        for (size_t k = 0; k < 10 && c->others[k]; k++)
            if (is_text(m, c->others[k], strlen(c->others[k])))
                fail_msg("%s: %s", c->grammar, c->others[k]);
        matcher_free(m);
    }
    struct matcher *m = matcher_of("root ::= \"a\\x00\" [\\x00-\\x01]");
    assert_true(is_text(m, "a\0\0", 3));
    assert_false(is_text(m, "a", 1));
    matcher_free(m);
}

/* Whatever is written byte by byte is UTF-8, ends, and is never stuck. */
static void test_written_texts(void **state)
{
    struct buf text = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct matcher *m = matcher_of(cases[i].grammar);
        size_t n_whole = 0;
        for (uint64_t seed = 0; seed < 100; seed++) {
            matcher_state s = MATCHER_START;
            buf_clear(&text);
            for (uint32_t at = 0; at < 300; at++) {
                const struct philox_block dice = philox(seed, at, 0, 0, 0);
                if (matcher_may_end(m, s) &&
                    (!matcher_may_go_on(m, s) || dice.word[0] % 4 == 0))
                    break;
                uint8_t byte = (uint8_t)dice.word[2];
                matcher_state next = matcher_step(m, s, byte);
                for (int k = 0; next == MATCHER_DEAD && k < 256; k++)
                    next = matcher_step(m, s, ++byte);
                assert_true(next != MATCHER_DEAD);
                buf_putc(&text, (char)byte);
                s = next;
            }
            if (!matcher_may_end(m, s)) continue;
            n_whole++;
            assert_true(is_text(m, buf_str(&text), text.len));
            assert_true(utf8_valid(buf_str(&text), text.len));
        }
        if (n_whole == 0) fail_msg("%s: never ends", cases[i].grammar);
        matcher_free(m);
    }
    buf_free(&text);
}

static void test_refusals(void **state)
{
    static const char *const refused[][2] = {
        {"", "line 1: there is no rule 'root'"},
        {"# nothing\n", "line 1: there is no rule 'root'"},
        {"a ::= \"x\"", "line 1: there is no rule 'root'"},
        {"root ::= \"x\"\n\n\"y\"", "line 3: expected a rule, as root ::="},
        {"root = \"x\"", "line 1: expected ::= behind 'root'"},
        {"root_2 ::= \"x\"", "line 1: expected ::= behind 'root'"},
        {"root ::= \"x\"\nroot ::= \"y\"", "line 2: the rule 'root' is there twice"},
        {"root ::= a\n# b\na ::= \"x\" | bc\n", "line 3: there is no rule 'bc'"},
        {"root ::= \"a\" )",
         "line 1: in the rule 'root': expected the end of the line, found ')'"},
        {"root ::= \"a\" \u00e9",
         "line 1: in the rule 'root': expected the end of the line, found '\u00e9'"},
        {"root ::= a \n b ::= \"x\" :",
         "line 2: in the rule 'b': expected the end of the line"},
        {"root ::= (\"a\"\n\n", "line 1: a ) is missing"},
        {"root ::= (\"a\"\nb ::= \"x\")", "line 1: a ) is missing"},
        {"\nroot ::= \"a\n\n", "line 2: a \" is missing"},
        {"root ::= [a", "line 1: a ] is missing"},
        {"root ::= [a-", "line 1: a ] is missing"},
        {"root ::= [\\", "line 1: "},
        {"root ::= []", "line 1: a class that no character is of"},
        {"root ::= [^\\x00-\\U0010FFFF]", "line 1: a class that no character is of"},
        {"root ::= [\\uD800-\\uDFFF]", "line 1: a class that no character is of"},
        {"root ::= [z-a]", "line 1: a range whose end is before its beginning"},
        {"root ::= \"\\q\"", "line 1: an escape (\\) that GBNF does not have"},
        {"root ::= \"\\d\"", "line 1: an escape (\\) that GBNF does not have"},
        {"root ::= \"\\x4\"", "line 1: an escape (\\) without its digits"},
        {"root ::= \"\\u12\"", "line 1: an escape (\\) without its digits"},
        {"root ::= \"\\U00110000\"", "line 1: an escape (\\) without its digits"},
        {"root ::= \"\\uD800\"", "line 1: half of a pair of UTF-16 is no character"},
        {"root ::= *", "line 1: there is nothing to repeat before the *"},
        {"root ::= \"a\" |\n +", "line 2: there is nothing to repeat before the +"},
        {"root ::= ({2})", "line 1: there is nothing to repeat before the {"},
        {"root ::= \"a\"{}", "line 1: expected a count, as {2}"},
        {"root ::= \"a\"{,3}", "line 1: expected a count, as {2}"},
        {"root ::= \"a\"{1;3}", "line 1: expected a count, as {2}"},
        {"root ::= \"a\"{3,2}", "line 1: the most is below the least"},
        {"root ::= \"a\"{10001}", "line 1: more than 10000 cannot be counted out"},
        {"root ::= \"a\"????", "line 1: more than three times how often"},
        {"root ::= \"a\"\nthought ::= <think> .*", "line 2: tokens (<...>) cannot be kept to"},
        {"root ::= <[1000]>", "line 1: tokens (<...>) cannot be kept to"},
        {"root ::= !<[7]>*", "line 1: tokens (<...>) cannot be kept to"},
        {"root ::= sum\nsum ::= sum \"+\" num | num\nnum ::= [0-9]",
         "line 2: the rule 'sum' begins with itself"},
        {"root ::= a\na ::= ws b\nb ::= \"x\"? a\nws ::= [ ]*",
         "line 2: the rule 'a' begins with itself"},
        {"root ::= root", "line 1: the rule 'root' begins with itself"},
        {"root ::= (root?)* \"x\"", "line 1: the rule 'root' begins with itself"},
        {"root ::= \"a\" root", "line 1: the rule 'root' never ends"},
        {"root ::= \"a\" | \"b\" x\nx ::= \"c\" y{2}\ny ::= \"d\" x",
         "line 2: the rule 'x' never ends"},
        {"root ::= \"\xff\"", "it is not UTF-8"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct err err;
        if (gbnf_grammar(refused[i][0], strlen(refused[i][0]), &err))
            fail_msg("accepted: %s", refused[i][0]);
        assert_int_equal(err.code, ERR_FORMAT);
        if (strncmp(err.msg, refused[i][1], strlen(refused[i][1])) != 0)
            fail_msg("%s: %s", refused[i][0], err.msg);
    }
}

static bool is_refused(const struct buf *text, const char *what)
{
    struct err err;
    struct grammar *g = gbnf_grammar(text->data, text->len, &err);
    const bool is = !g && strstr(err.msg, what);
    grammar_release(g);
    return is;
}

/* Rules of which each begins with the next one, and ends behind it. */
static void write_chain(struct buf *out, size_t n)
{
    buf_clear(out);
    buf_puts(out, "root ::= a0");
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "\na%zu ::= a%zu \"x\"", i, i + 1);
    buf_printf(out, "\na%zu ::= \"y\"", n);
}

/* What is larger or deeper than anybody writes is refused, and nothing below it. */
static void test_bounds(void **state)
{
    struct buf text = {0};
    (void)state;
    write_chain(&text, GRAMMAR_MAX_CHAIN);
    struct matcher *m = matcher_of(buf_str(&text));
    assert_true(matcher_may_go_on(m, MATCHER_START));
    matcher_free(m);
    write_chain(&text, GRAMMAR_MAX_CHAIN + 1);
    assert_true(is_refused(&text, "more than 64 rules begin with each other"));
    write_chain(&text, 4095);
    assert_true(is_refused(&text, "more than 4096 rules"));
    for (size_t depth = EXPR_MAX_DEPTH; depth <= EXPR_MAX_DEPTH + 1; depth++) {
        buf_clear(&text);
        buf_puts(&text, "root ::= ");
        for (size_t i = 0; i < depth; i++)
            buf_putc(&text, '(');
        buf_puts(&text, "\"a\"");
        for (size_t i = 0; i < depth; i++)
            buf_puts(&text, ")*");
        if (depth > EXPR_MAX_DEPTH) {
            assert_true(is_refused(&text, "line 1: groups in groups beyond 100"));
        } else {
            m = matcher_of(buf_str(&text));
            assert_true(is_text(m, "aaa", 3));
            matcher_free(m);
        }
    }
    buf_clear(&text);
    buf_puts(&text, "root ::= ");
    for (size_t i = 0; i < 110; i++)
        buf_puts(&text, "[ab]{10000} ");
    assert_true(is_refused(&text, "the grammar is too large"));
    buf_free(&text);
}

/* A list that calls itself at its end is as long as it likes. */
static void test_long_list(void **state)
{
    (void)state;
    struct matcher *m = matcher_of("root ::= item root | item\nitem ::= \"- \" [a-z]+ \"\\n\"");
    struct buf text = {0};
    for (size_t i = 0; i < 1000; i++)
        buf_puts(&text, "- abc\n");
    assert_true(is_text(m, text.data, text.len));
    assert_true(matcher_n_states(m) < 10);
    buf_free(&text);
    matcher_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),     cmocka_unit_test(test_written_texts),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_long_list),
    };
    return cmocka_run_group_tests_name("gbnf", tests, NULL, NULL);
}
