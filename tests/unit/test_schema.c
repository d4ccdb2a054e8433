/* JSON Schemas as grammars: what is a text of one, what is not, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "../random_text.h"
#include "base/buf.h"
#include "text/grammar.h"
#include "text/matcher.h"
#include "text/schema.h"

static struct matcher *matcher_of(const char *schema)
{
    struct err err = {0};
    struct grammar *g = schema_grammar(schema, strlen(schema), &err);
    if (!g) fail_msg("%s: %s", schema, err.msg);
    struct matcher *m = matcher_new(g);
    grammar_release(g);
    return m;
}

static bool is_text(struct matcher *m, const char *text)
{
    return matcher_may_end(m, matcher_steps(m, MATCHER_START, text, strlen(text)));
}

/* A schema, the texts that it has and some that it has not, each list up to a NULL. */
struct schema_case {
    const char *schema;
    const char *texts[8], *others[10];
};

static const struct schema_case cases[] = {
    {"true",
     {"null", "-0.5e+7", "\"\"", "[]", "[1, {\"a\":[true,\nfalse]}]",
      " {\"\\u00e9\":\"\u00e9\"}"},
     {"", "nul", "01", "[1,]", "{\"a\"}", "\"\n\"", "\"\\ud800\"", "\"\xc3\"", "[}"}},
    {"{}", {"7", "\"x\""}, {"x", "1 ", "+1"}},
    {"{\"type\":\"boolean\"}", {"true", "false", " true", "\n\ntrue"}, {"null", "0", "  true"}},
    {"{\"type\":[\"null\",\"integer\"]}", {"null", "0", "-12"}, {"1.5", "\"1\"", "00"}},
    {"{\"type\":\"number\"}", {"0", "1.50", "-1e9", "12E-3"}, {".5", "1.", "1e", "--1", "NaN"}},
    {"{\"const\":{\"a\":[1,\"\u00e9\"]}}", {"{\"a\":[1,\"\u00e9\"]}"}, {"{\"a\": [1]}", "{}"}},
    {"{\"enum\":[19.99,0.1,-2.5e-7,3.0,3,{\"b\":[0.3,1e+30,\"\u00e9\"],\"a\":{}},[]]}",
     {"19.99", "0.1", "-2.5e-07", "3.0", "3", "{\"b\":[0.3,1e+30,\"\u00e9\"],\"a\":{}}", "[]"},
     {"19.989999999999998", "0.10000000000000001", "19.9", "19.990", "[,]"}},
    {"{\"type\":\"string\",\"enum\":[\"a\",\"b c\",3]}", {"\"a\"", "\"b c\""}, {"3", "\"b\""}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"\u00e9\\n\u20ac\"", "\"\\u0041\\\"\""},
     {"\"a\"", "\"abcd\"", "\"\""}},
    {"{\"pattern\":\"^[A-Z]{2}\\\\d+\\\"?$\"}",
     {"\"AB1\"", " \"ZZ007\"", "\"AB1\\\"\""},
     {"\"AB\"", "\"ab1\"", "\"AB1\"\"", "AB1"}},
    {"{\"properties\":{\"a\":{\"pattern\":\"x\"}},\"required\":[\"a\"]}",
     {"{\"a\":\"x\"}", "{\"a\": \"one x\\n\"}"},
     {"{\"a\":\"\"}", "{\"a\":\"x\\\"}"}},
    {"{\"minLength\":1}", {"\"a\"", "\"long enough\""}, {"\"\"", "1"}},
    {"{\"maxLength\":0}", {"\"\""}, {"\"a\""}},
    {"{\"format\":\"date\"}",
     {"\"2024-02-28\"", "\"0001-12-31\"", "\"1999-04-30\""},
     {"\"2024-02-30\"", "\"1999-04-31\"", "\"1999-13-01\"", "\"1999-00-01\"", "\"99-01-01\"",
      "\"0000-01-01\""}},
    {"{\"format\":\"date-time\"}",
     {"\"2024-02-28T23:59:59Z\"", "\"2024-10-01T00:00:00.125+02:00\""},
     {"\"2024-02-28T24:00:00Z\"", "\"2024-02-28 10:00:00Z\"", "\"2024-02-28T10:00:00\""}},
    {"{\"format\":\"time\"}", {"\"08:30:00-00:30\""}, {"\"8:30:00Z\"", "\"08:60:00Z\""}},
    {"{\"format\":\"uuid\"}",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567-e89b-12d3-a456-42661417400\"", "\"123e4567e89b12d3a456426614174000\""}},
    {"{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120}",
     {"-5", "-1", "0", "9", "10", "99", "100", "120"},
     {"-6", "121", "1000", "-0", "00", "1.0", "12a"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":99,\"exclusiveMaximum\":1001}",
     {"100", "999", "1000"},
     {"99", "1001", "0"}},
    {"{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":3.5}", {"1", "3"}, {"0", "4"}},
    {"{\"type\":\"integer\",\"maximum\":-7}", {"-7", "-123456"}, {"-6", "7", "0"}},
    {"{\"type\":\"integer\",\"minimum\":1000000000000000}",
     {"1000000000000000", "999999999999999999", "1000000000000000000"},
     {"999999999999999", "-1000000000000000", "1", "1000000000000000001"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":-123456789012345679,\"maximum\":-1e15}",
     {"-123456789012345678", "-1000000000000000"},
     {"-123456789012345679", "-999999999999999", "0"}},
    {"{\"maximum\":-1000000000000000}",
     {"-1000000000000000", "-1000000000000000.5", "-1000000000000000000"},
     {"-999999999999999", "-999999999999999.5", "1000000000000000"}},
    {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":1e30}",
     {"5", "1000000000000000000"},
     {"4", "1000000000000000001"}},
    {"{\"type\":\"integer\",\"minimum\":-1e30}",
     {"-1000000000000000000", "999999999999999"},
     {"-1000000000000000001", "1000000000000000"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
     {"0", "0.5", "1", "0.0"},
     {"1.5", "-0.1", "2", "1e1", "1.0"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":10}",
     {"0.001", "9.99", "1"},
     {"0", "0.000", "10", "10.5"}},
    {"{\"type\":\"number\",\"minimum\":-2,\"exclusiveMaximum\":0}",
     {"-2", "-1.5", "-0.25"},
     {"-2.5", "0", "-0", "-0.0", "1"}},
    {"{\"type\":\"array\"}", {"[]", "[1,\"a\",[]]"}, {"[", "[,]"}},
    {"{\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[1, 2,\n3]"},
     {"[]", "[1,2,3,4]", "[\"a\"]", "[1,]"}},
    {"{\"items\":{\"type\":\"null\"},\"minItems\":2}",
     {"[null,null]", "[null, null, null,null]"},
     {"[null]", "[]"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]"}, {"[1]"}},
    {"{\"type\":\"array\",\"items\":false}", {"[]"}, {"[1]"}},
    {"{\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}",
     {"[\"a\", 1]"},
     {"[\"a\"]", "[1,\"a\"]", "[\"a\",1,2]", "[]"}},
    {"{\"type\":\"array\",\"items\":[{\"const\":1}],\"additionalItems\":false}",
     {"[1]"},
     {"[2]"}},
    {"{\"type\":\"object\"}", {"{}", "{\"a\": 1, \"b\":{}}"}, {"[]", "{a:1}", "{\"a\":}"}},
    {"{\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"a\":1}"},
     {"{\"a\":\"1\"}"}},
    {"{\"type\":\"object\",\"additionalProperties\":false}", {"{}"}, {"{\"a\":1}"}},
    {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":true,\"c\":{\"const\":\"x\"}},"
     "\"required\":[\"b\"]}",
     {"{\"b\":null}", "{\"a\":1,\"b\":[]}", "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": \"x\"\n}",
      "{\"b\":1,\"c\":\"x\"}"},
     {"{}", "{\"a\":1}", "{\"b\":1,\"a\":1}", "{\"b\":1,}", "{,\"b\":1}", "{\"b\":1,\"c\":1}",
      "{\"b\":1,\"d\":1}", "{\"a\":1\"b\":1}"}},
    {"{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}}}",
     {"{}", "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
     {"{\"a\":1,\"a\":1}", "{\"b\":2,\"a\":1}"}},
    {"{\"$id\":\"x\",\"x-order\":1,\"required\":[\"k\",\"k\"]}",
     {"{\"k\":[1]}"},
     {"{}", "{\"j\":1}"}},
    {"{\"required\":[\"k\"],\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"k\":null}"},
     {"{\"k\":1}"}},
    {"{\"properties\":{\"q\\\"\u00e9\":{\"const\":0}}}",
     {"{\"q\\\"\u00e9\":0}"},
     {"{\"q\":0}"}},
    {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"boolean\"}],\"title\":\"T\",\"default\":"
     "null}",
     {"null", "true"},
     {"0"}},
    {"{\"oneOf\":[{\"const\":1},{\"const\":12}]}", {"1", "12"}, {"2", "123"}},
    {"{\"allOf\":[{\"$ref\":\"#/$defs/a~1b~0\"}],\"$defs\":{\"a/b~\":{\"const\":5}}}",
     {"5"},
     {"6"}},
    {"{\"$ref\":\"#/%24defs/a%20b%C3%A9%7e1%25/anyOf%2f1\",\"$defs\":{\"a "
     "b\u00e9/%\":{\"anyOf\":[{\"const\":5},{\"const\":6}]}}}",
     {"6"},
     {"5"}},
    {"{\"$ref\":\"#/$defs/50%\",\"$defs\":{\"50%\":{\"const\":5}}}", {"5"}, {"6"}},
    {"{\"$ref\":\"#/definitions/"
     "list\",\"definitions\":{\"list\":{\"properties\":{\"v\":{\"type\":"
     "\"integer\"},\"next\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/definitions/"
     "list\"}]}},"
     "\"required\":[\"v\",\"next\"]}}}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
     {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
    {"{\"properties\":{\"me\":{\"$ref\":\"#\"}}}",
     {"{}", "{\"me\":{\"me\":{}}}"},
     {"{\"me\":1}"}},
    {"{\"items\":{\"$ref\":\"#\"}}", {"[]", "[[[]],[]]"}, {"[1]", "[{}]"}},
    {"{\"additionalProperties\":{\"$ref\":\"#\"}}",
     {"{}", "{\"a\":{\"b\":{}}}"},
     {"{\"a\":1}"}},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"properties\":{\"b\":{\"$ref\":\"#/$defs/"
     "b\"}},"
     "\"required\":[\"b\"]},\"b\":{\"items\":{\"$ref\":\"#/$defs/a\"},\"maxItems\":1}}}",
     {"{\"b\":[]}", "{\"b\":[{\"b\":[]}]}"},
     {"{}", "{\"b\":[{}]}"}},
};

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct schema_case *c = &cases[i];
        struct matcher *m = matcher_of(c->schema);
        for (size_t k = 0; k < 8 && c->texts[k]; k++)
            if (!is_text(m, c->texts[k])) fail_msg("%s: not %s", c->schema, c->texts[k]);
        for (size_t k = 0; k < 10 && c->others[k]; k++)
            if (is_text(m, c->others[k])) fail_msg("%s: %s", c->schema, c->others[k]);
        matcher_free(m);
    }
}

static void test_refusals(void **state)
{
    static const char *const refused[][2] = {
        {"", "line 1: "},
        {"{\"type\":\"object\"", "line 1: "},
        {"{\"type\":1,\"type\":2}", "line 1: "},
        {"[]", "/: expected a schema"},
        {"false", "/: false allows nothing"},
        {"{\"type\":\"text\"}", "/: type: expected one of JSON's, found 'text'"},
        {"{\"type\":7}", "/: type: expected a name or several"},
        {"{\"type\":\"string\",\"pattern\":\"a\\\\b\"}",
         "/: pattern: character 2: a border of"},
        {"{\"pattern\":7}", "/: pattern: expected a text"},
        {"{\"pattern\":\"a\",\"maxLength\":3}", "/: a pattern and a length together"},
        {"{\"pattern\":\"a\",\"format\":\"date\"}", "/: a pattern and a format together"},
        {"{\"items\":{\"pattern\":\"(?=a)\"}}", "/items: pattern: character 1: what looks"},
        {"{\"properties\":{\"a\":{\"items\":{\"not\":{}}}}}",
         "/properties/a/items: 'not' is not supported"},
        {"{\"properties\":{\"a\":{\"colour\":1}}}", "/properties/a: 'colour' is not supported"},
        {"{\"format\":\"email\"}",
         "/: format: expected date, time, date-time or uuid, found 'email'"},
        {"{\"format\":\"date\",\"maxLength\":3}", "/: a format and a length together"},
        {"{\"minLength\":3,\"maxLength\":2}", "/: maxLength is below minLength"},
        {"{\"maxLength\":20000}", "/: maxLength: more than 10000"},
        {"{\"minItems\":-1}", "/: minItems: expected a whole number of at least 0"},
        {"{\"minItems\":2,\"maxItems\":1}", "/: maxItems is below minItems"},
        {"{\"prefixItems\":[{}],\"maxItems\":0}", "/: as many elements as prefixItems has"},
        {"{\"type\":\"number\",\"minimum\":0.5}", "/: minimum: of a number (not an integer)"},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "/: there is no integer within"},
        {"{\"minimum\":1,\"exclusiveMaximum\":1}", "/: there is no number within"},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":1000000000000000000}",
         "/: there is no integer within"},
        {"{\"minimum\":1e20}", "/: minimum: expected at most 1e18, found 1e+20"},
        {"{\"minimum\":1000000000000000128.0}",
         "/: minimum: expected at most 1e18, found 1.0000000000000001e+18"},
        {"{\"type\":\"integer\",\"minimum\":1000000000000000001}",
         "/: minimum: expected at most 1e18, found 1000000000000000001"},
        {"{\"maximum\":-1000000000000000001}",
         "/: maximum: expected at least -1e18, found -1000000000000000001"},
        {"{\"type\":\"integer\",\"exclusiveMaximum\":-2e18}",
         "/: exclusiveMaximum: expected at least -1e18, found -2e+18"},
        {"{\"minimum\":\"1\"}", "/: minimum: expected a number"},
        {"{\"enum\":[]}", "/: enum: expected a list of one value or more"},
        {"{\"enum\":\"a\"}", "/: enum: expected a list of one value or more"},
        {"{\"type\":\"string\",\"const\":1}", "/: const: expected values of the schema's type"},
        {"{\"enum\":[1],\"minimum\":0}", "/: const or enum and other words than type"},
        {"{\"anyOf\":[]}", "/: anyOf: expected schemas in an array"},
        {"{\"anyOf\":[{}],\"type\":\"object\"}", "/: anyOf and other words together"},
        {"{\"allOf\":[{},{}]}", "/: allOf: one schema in it can be kept to"},
        {"{\"$ref\":\"#/$defs/x\"}",
         "/: $ref: expected a place in this schema, found '#/$defs/x'"},
        {"{\"$ref\":\"#/$defs/0%zz\",\"$defs\":[{}]}", "found '#/$defs/0%zz'"},
        {"{\"$ref\":\"#/$defs/00\",\"$defs\":[{}]}", "found '#/$defs/00'"},
        {"{\"$ref\":\"#/$defs/ 0\",\"$defs\":[{}]}", "found '#/$defs/ 0'"},
        {"{\"$ref\":\"#/$defs/+0\",\"$defs\":[{}]}", "found '#/$defs/+0'"},
        {"{\"$ref\":\"#/$defs/a%00b\",\"$defs\":{\"a\":{}}}", "found '#/$defs/a%00b'"},
        {"{\"$ref\":\"http://x/y\"}", "/: $ref: expected a place in this schema"},
        {"{\"$ref\":\"#\"}", "it refers to itself and says nothing else"},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":"
         "\"#/$defs/a\"}]}}}",
         "it refers to itself and says nothing else"},
        {"{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#\"}},\"required\":[\"n\"]}",
         "/properties/n: no text that ends satisfies it"},
        {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}",
         "/items: no text that ends satisfies it"},
        {"{\"prefixItems\":[{},{\"$ref\":\"#\"}]}", "/: no text that ends satisfies it"},
        {"{\"required\":[\"k\"],\"additionalProperties\":{\"$ref\":\"#\"}}",
         "/k: no text that ends satisfies it"},
        {"{\"properties\":{\"a\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/a\"}]}},"
         "\"$defs\":{\"a\":{\"items\":{\"$ref\":\"#/$defs/"
         "b\"},\"minItems\":2},\"b\":{\"properties\":"
         "{\"a\":{\"$ref\":\"#/$defs/a\"}},\"required\":[\"a\"]}}}",
         "/properties/a: no text that ends satisfies it"},
        {"{\"type\":\"object\",\"unevaluatedProperties\":false}",
         "/: 'unevaluatedProperties' is not supported"},
        {"{\"properties\":{\"a\":{\"$id\":\"x\"}}}", "/properties/a: '$id' is not supported"},
        {"{\"properties\":[]}", "/: properties: expected an object"},
        {"{\"required\":\"a\"}", "/: required: expected an array"},
        {"{\"prefixItems\":{\"type\":\"null\"}}",
         "/: prefixItems: expected schemas in an array"},
        {"{\"prefixItems\":null,\"items\":[{}]}", "/: prefixItems: expected schemas"},
        {"{\"additionalProperties\":\"x\"}", "/: additionalProperties: expected a schema"},
        {"{\"properties\":{\"a\":{}},\"additionalProperties\":[]}",
         "/: additionalProperties: expected a schema"},
        {"{\"required\":[\"k\"],\"additionalProperties\":false}",
         "/: required: 'k' is no property"},
        {"{\"required\":[1]}", "/: required: expected names"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct err err = {0};
        struct grammar *g = schema_grammar(refused[i][0], strlen(refused[i][0]), &err);
        if (g) fail_msg("accepted: %s", refused[i][0]);
        assert_int_equal(err.code, ERR_FORMAT);
        if (!strstr(err.msg, refused[i][1])) fail_msg("%s: %s", refused[i][0], err.msg);
    }
}

/* Whatever is written byte by byte, it is JSON, and so is what any schema lets through. */
static void test_all_texts_are_json(void **state)
{
    struct buf text = {0};
    size_t n_whole = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct matcher *m = matcher_of(cases[i].schema);
        for (uint64_t seed = 0; seed < 200; seed++) {
            if (!random_text(m, seed, 4000, &text)) continue;
            n_whole++;
            json_error_t at;
            json_t *value = json_loadb(text.data, text.len, JSON_DECODE_ANY, &at);
            /* jansson wants no NUL in a key; a name that is said twice is the last of both. */
            if (!value && !strstr(at.text, "NUL")) fail_msg("%s: %s", buf_str(&text), at.text);
            json_decref(value);
        }
        matcher_free(m);
    }
    assert_true(n_whole > 4000);
    buf_free(&text);
}

static void test_any(void **state)
{
    (void)state;
    struct grammar *g = schema_any();
    struct matcher *m = matcher_new(g);
    assert_ptr_equal(matcher_grammar(m), g);
    grammar_release(g);
    assert_true(is_text(m, "{\"a\":[1,2,{}]}"));
    assert_true(is_text(m, "[]"));
    assert_false(is_text(m, "1"));
    assert_false(is_text(m, "\"a\""));
    matcher_free(m);
}

/* A schema of n references, each to the next one, the last to a number; in an array: the
 * elements of one whose last element is the next one. */
static void write_chain(struct buf *out, size_t n, bool in_array)
{
    buf_clear(out);
    buf_puts(out, "{\"$ref\":\"#/$defs/0\",\"$defs\":{");
    for (size_t i = 0; i < n; i++)
        buf_printf(out,
                   in_array ? "\"%zu\":{\"anyOf\":[{\"$ref\":\"#/$defs/%zu\"},{\"prefixItems\":"
                              "[{\"const\":%zu}]}]},"
                            : "\"%zu\":{\"$ref\":\"#/$defs/%zu\"},",
                   i, i + 1, i);
    buf_printf(out, "\"%zu\":{\"type\":\"integer\"}}}", n);
}

static void put_times(struct buf *b, const char *text, size_t n)
{
    while (n-- > 0)
        buf_puts(b, text);
}

/* What ends with what it refers to is no deeper than it; more than anybody needs is refused. */
static void test_chains(void **state)
{
    (void)state;
    struct buf schema = {0};
    for (int in_array = 0; in_array < 2; in_array++) {
        write_chain(&schema, 2 * MATCHER_MAX_DEPTH, in_array);
        struct matcher *m = matcher_of(buf_str(&schema));
        assert_true(is_text(m, "17"));
        assert_true(is_text(m, "[200]") == in_array);
        matcher_free(m);
    }
    buf_clear(&schema); /* as many rules beside each other */
    buf_puts(&schema, "{\"anyOf\":[");
    put_times(&schema, "{\"items\":{}},", GRAMMAR_MAX_RULES);
    buf_puts(&schema, "{}]}");
    struct err err = {0};
    assert_null(schema_grammar(schema.data, schema.len, &err));
    assert_non_null(strstr(err.msg, "the schema is too large"));
    buf_free(&schema);
}

/* A rule that ends with itself goes on for ever; one that comes back is as deep as it was
 * called; and rules that begin with each other are not more than a matcher comes back from. */
static void test_ends_of_rules(void **state)
{
    (void)state;
    for (size_t n = 1; n <= GRAMMAR_MAX_CHAIN + 1; n++) {
        struct grammar *g = grammar_new();
        for (size_t i = 0; i <= n; i++)
            grammar_rule(g);
        for (uint32_t i = 0; i < n; i++)
            grammar_begin(g, i, grammar_call(g, i + 1, grammar_byte(g, ')', ')', GRAMMAR_END)));
        const grammar_place again = grammar_call(g, (uint32_t)n, GRAMMAR_END);
        grammar_begin(g, (uint32_t)n,
                      grammar_either(g, GRAMMAR_END, grammar_byte(g, 'x', 'x', again)));
        assert_true(grammar_finish(g) == (n <= GRAMMAR_MAX_CHAIN));
        if (n <= GRAMMAR_MAX_CHAIN) {
            struct matcher *m = matcher_new(g);
            matcher_state s = MATCHER_START;
            for (size_t i = 0; i < 10 * MATCHER_MAX_DEPTH; i++)
                s = matcher_step(m, s, 'x');
            for (size_t i = 0; i < n; i++)
                s = matcher_step(m, s, ')');
            assert_true(matcher_may_end(m, s) && !matcher_may_go_on(m, s));
            matcher_free(m);
        }
        grammar_release(g);
    }
}

/* As deep as the matcher goes, and no deeper; a state that is dead stays it. */
static void test_depth(void **state)
{
    (void)state;
    struct matcher *m = matcher_of("true");
    matcher_state s = MATCHER_START;
    size_t depth = 0;
    for (matcher_state next; (next = matcher_step(m, s, '[')) != MATCHER_DEAD; depth++)
        s = next;
    assert_in_range(depth, MATCHER_MAX_DEPTH - 4, MATCHER_MAX_DEPTH);
    for (size_t i = 0; i < depth; i++)
        s = matcher_step(m, s, ']');
    assert_true(matcher_may_end(m, s));
    assert_false(matcher_may_go_on(m, s));
    assert_int_equal(matcher_step(m, MATCHER_DEAD, 'x'), MATCHER_DEAD);
    assert_false(matcher_may_end(m, MATCHER_DEAD));
    assert_false(matcher_may_go_on(m, MATCHER_DEAD));
    matcher_free(m);
}

/* References that lead into what is around them, each a level further in: all of it is looked
 * at once more for each, one in another. */
static void test_nested_references(void **state)
{
    (void)state;
    enum { DEPTH = 900, N_REFERENCES = 120 };
    struct err err = {0};
    struct buf schema = {0};
    buf_puts(&schema, "{\"$ref\":\"#/$defs/D\",\"$defs\":{\"D\":");
    put_times(&schema, "{\"anyOf\":[", DEPTH);
    for (size_t i = 1; i < N_REFERENCES; i++) {
        buf_puts(&schema, "{\"$ref\":\"#/$defs/D");
        put_times(&schema, "/anyOf/0", i);
        buf_puts(&schema, "\"},");
    }
    buf_puts(&schema, "{}");
    put_times(&schema, "]}", DEPTH);
    buf_puts(&schema, "}}");
    assert_null(schema_grammar(schema.data, schema.len, &err));
    assert_non_null(strstr(err.msg, "schemas in schemas beyond 1000"));
    buf_free(&schema);
}

/* The same bytes come to the same state by whatever way, so states are few. */
static void test_states(void **state)
{
    (void)state;
    struct matcher *m = matcher_of("{\"type\":\"array\",\"items\":{\"type\":\"string\"}}");
    struct buf text = {0};
    buf_puts(&text, "[\"a\"");
    matcher_steps(m, MATCHER_START, text.data, text.len);
    for (int i = 0; i < 1000; i++)
        buf_puts(&text, ", \"more of it, \\u0041\"");
    matcher_steps(m, MATCHER_START, text.data, text.len);
    assert_true(matcher_n_states(m) < 40);
    buf_free(&text);
    matcher_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_any),
        cmocka_unit_test(test_all_texts_are_json),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_nested_references),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_ends_of_rules),
    };
    return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
