/* What goes wrong is said with the template's name, the line and the reason; what a hostile
 * template tries ends in an error within the limits. */
#include "../template_case.h"
#include "base/buf.h"

static void test_parse_errors(void **state)
{
    (void)state;
    check_failure("a\n{{ x", NULL, "test: line 2: {{ is not closed");
    check_failure("{% if x %}\n\n", NULL, "test: line 1: {% if %} is not closed");
    check_failure("\n\n{% endif %}", NULL, "test: line 3: unknown tag 'endif'");
    check_failure("{% do x %}", NULL, "unknown tag 'do'");
    check_failure("{% include 'x' %}", NULL, "unknown tag 'include'");
    check_failure("\n{# x", NULL, "test: line 2: {# is not closed");
    check_failure("{% raw %}{% endraw", NULL, "{% raw %} is not closed");
    check_failure("{{ 'abc }}", NULL, "a string is not closed");
    check_failure("{{ (1, 2 }}", NULL, "unexpected '}', expected ')'");
    check_failure("{{ 1 ? 2 }}", NULL, "unexpected character '?'");
    check_failure("{{ a\u200b }}", NULL, "unexpected character '\\u{200b}'");
    check_failure("{{ \u201ca\u201d }}", NULL, "unexpected character '\u201c'");
    check_failure("{{ 1 2 }}", NULL, "expected '}}', found a number");
    check_failure("{{ }}", NULL, "expected an expression");
    check_failure("{% if %}{% endif %}", NULL, "expected an expression");
    check_failure("{% for x %}{% endfor %}", NULL, "expected 'in', found '%}'");
    check_failure("{% set 1 = 2 %}", NULL, "expected a name to assign to");
    check_failure("{% set none = 2 %}", NULL, "cannot assign to none");
    check_failure("{% break %}", NULL, "need a loop");
    check_failure("{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
                  NULL, "need a loop");
    check_failure("{% macro m(a=1, b) %}{% endmacro %}", NULL, "without a default");
    check_failure("{{ x is none is none }}", NULL, "cannot be chained");
    check_failure("{{ 9223372036854775808 }}", NULL, "does not fit 64 bits");
    check_failure("{{ '\\ud800' }}", NULL, "no character");
    check_failure("{{ f(a=1, 2) }}", NULL, "a keyword argument");
    check_failure("\xff", NULL, "not UTF-8");
}

static void test_render_errors(void **state)
{
    (void)state;
    check_failure("\n{{ x.y }}", NULL, "test: line 2: 'x' is undefined");
    check_failure("{{ d.x.y }}", "{\"d\":{}}", "'dict object' has no attribute 'x'");
    check_failure("{{ (d|attr('x')).y }}", "{\"d\":{}}", "'dict object' has no attribute 'x'");
    check_failure("{{ 1 + 'a' }}", NULL, "unsupported operand type(s) for +: 'int' and 'str'");
    check_failure("{{ 'a' + 1 }}", NULL, "can only concatenate str (not \"int\") to str");
    check_failure("{{ x + 1 }}", NULL, "'x' is undefined");
    check_failure("{{ 1 < 'a' }}", NULL,
                  "'<' not supported between instances of 'int' and 'str'");
    check_failure("{{ [1, 'a']|sort }}", NULL, "not supported between");
    check_failure("{{ 1 in 'abc' }}", NULL, "requires string as left operand");
    check_failure("{{ 1 / 0 }}", NULL, "division by zero");
    check_failure("{{ 1 % 0 }}", NULL, "division by zero");
    check_failure("{{ 9223372036854775807 + 1 }}", NULL, "does not fit 64 bits");
    check_failure("{{ 2 ** 64 }}", NULL, "does not fit 64 bits");
    check_failure("{{ (-9223372036854775807 - 1) // -1 }}", NULL, "does not fit 64 bits");
    check_failure("{{ '99999999999999999999'|int }}", NULL, "does not fit 64 bits");
    check_failure("{% for x in 5 %}{% endfor %}", NULL, "'int' object is not iterable");
    check_failure("{% for a, b in [1] %}{% endfor %}", NULL, "cannot unpack non-iterable int");
    check_failure("{% for a, b in [(1,2,3)] %}{% endfor %}", NULL, "expected 2, got 3");
    check_failure("{{ [].append(1) }}", NULL, "'append' of 'list' object is unsafe");
    check_failure("{{ {}.update({}) }}", NULL, "'update' of 'dict' object is unsafe");
    check_failure("{% set d.x = 1 %}", "{\"d\":{}}", "non-namespace");
    check_failure("{{ 1|nope }}", NULL, "no filter named 'nope'");
    check_failure("{{ '%a' % 'é' }}", NULL, "unsupported format character 'a'");
    check_failure("{{ {'a': 'b c'}|urlencode }}", NULL, "urlencode of a dict is not supported");
    check_failure("{{ [1]|urlencode }}", NULL, "urlencode of a list is not supported");
    check_failure("{{ '{:#.3}'.format(2.0) }}", NULL, "a '#' of a float without a type");
    check_failure("{{ {'b': 1, 'a': 2}|pprint }}", NULL, "no filter named 'pprint'");
    check_failure("{{ 1 is nope }}", NULL, "no test named 'nope'");
    check_failure("{{ x() }}", NULL, "'x' is undefined");
    check_failure("{{ n() }}", "{\"n\":1}", "'int' object is not callable");
    check_failure("{{ 'a'|upper(1) }}", NULL, "upper() takes at most 0 arguments, 1 given");
    check_failure("{{ 'a'|replace('b') }}", NULL, "replace() needs 2 argument(s)");
    check_failure("{{ 'a'|indent(wide=1) }}", NULL, "indent() has no argument named 'wide'");
    check_failure("{{ 'a'|indent(1, width=1) }}", NULL, "two values for 'width'");
    check_failure("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", NULL,
                  "not more than 1 argument");
    check_failure("{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", NULL,
                  "no keyword argument 'b'");
    check_failure("{% for x in [1] %}{{ loop([1]) }}{% endfor %}", NULL, "'recursive' marker");
    check_failure("{{ '%d' % 'x' }}", NULL, "an integer is required");
    check_failure("{{ '%s %s' % 'x' }}", NULL, "not enough arguments");
    check_failure("{{ '%s' % ('x', 'y') }}", NULL, "not all arguments converted");
    check_failure("{{ '{}'.format() }}", NULL, "no argument");
    check_failure("{{ 'a'.split('') }}", NULL, "empty separator");
    check_failure("{{ 'a'.index('b') }}", NULL, "substring not found");
    check_failure("{{ 'a'[::0] }}", NULL, "slice step cannot be zero");
    check_failure("{{ {[1]: 2} }}", NULL, "unhashable type: 'list'");
    check_failure("{{ x|tojson }}", NULL, "Undefined is not JSON serializable");
    check_failure("{{ 5|length }}", NULL, "'int' has no len()");
    check_failure("{{ ([1]|map('string'))|length }}", NULL, "'generator' has no len()");
}

/* The line is that of the expression that failed, also inside macros and loops. */
static void test_lines(void **state)
{
    (void)state;
    check_failure("{% macro m(x) %}\n{{ x.a.b }}\n{% endmacro %}\n{% for i in [1] %}\n"
                  "{{ m({}) }}\n{% endfor %}",
                  NULL, "test: line 2: ");
    check_failure("{{ {\n'a': 1\n}\n.a\n+ 'x' }}", NULL, "test: line 4: ");
    check_failure("a\r\nb\r\n{{ x.y }}", NULL, "test: line 3: ");
    check_failure("{% raw %}\n\n{% endraw %}{# \n #}{{ x.y }}", NULL, "test: line 4: ");
    check_failure("{%- if true -%}\n\n  {{- x.y }}{% endif %}", NULL, "test: line 3: ");
    check_failure("{{ 1 }}\n{{ raise_exception('no') }}", NULL, "test: line 2: no");
}

static void test_raise_exception(void **state)
{
    (void)state;
    struct err err = {0};
    struct rendering out;
    assert_false(
        render_case("{{ raise_exception('roles must alternate') }}", NULL, NULL, &out, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(err.msg, "test: line 1: roles must alternate");
    assert_false(render_case("{{ 1 / 0 }}", NULL, NULL, &out, &err));
    assert_int_equal(err.code, ERR_FORMAT);
}

static void test_json(void **state)
{
    (void)state;
    check_failure("x", "{\"a\":}", "variables: line 1, column ");
    check_failure("x", "[1]", "variables: expected a JSON object of variables, found a list");
    check_rendering("{{ d }}", "{\"d\":{\"z\":1,\"a\":[true,null,1.0,-2],\"z\":3}}",
                    "{'z': 3, 'a': [True, None, 1.0, -2]}");
    check_rendering("{{ s|length }}", "{\"s\":\"a\\u0000b\"}", "3");
}

static void test_clock(void **state)
{
    (void)state;
    check_rendering("{{ strftime_now('%d %b %Y') }}", NULL, "04 Jul 2025");
    check_rendering("{{ strftime_now('%A, %B %-d %H:%M:%S %j %y %% [%Z%z] %p %I %f') }}", NULL,
                    "Friday, July 4 12:34:56 185 25 % [] PM 12 000000");
    struct err err = {0};
    struct rendering out;
    const struct template_options clock = {.fuel = 0};
    assert_true(render_case("{{ strftime_now('%Y') }}", NULL, &clock, &out, &err));
    assert_true(atoi(out.text) >= 2025);
    rendering_free(&out);
}

/* ---- Limits ---- */

static void repeat(struct buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_puts(b, s);
}

static void check_nested(const char *before, const char *open, const char *middle,
                         const char *close, size_t n, const char *what)
{
    struct buf b = {0};
    buf_puts(&b, before);
    repeat(&b, open, n);
    buf_puts(&b, middle);
    repeat(&b, close, n);
    if (*before == '{' && before[1] == '{') buf_puts(&b, " }}");
    check_failure(buf_str(&b), NULL, what);
    buf_free(&b);
}

static void test_nesting(void **state)
{
    (void)state;
    check_nested("{{ ", "(", "1", ")", 100000, "nested too deeply");
    check_nested("{{ ", "[", "1", "]", 2000, "nested too deeply");
    check_nested("{{ ", "not ", "1", "", 100000, "nested too deeply");
    check_nested("{{ ", "-", "1", "", 100000, "nested too deeply");
    check_nested("{{ ", "1 + ", "1", "", 100000, "nested too deeply");
    check_nested("{{ ", "1 if 1 else ", "1", "", 50000, "nested too deeply");
    check_nested("{{ 1", "|abs", "", "", 100000, "nested too deeply");
    check_nested("{{ x", ".y", "", "", 100000, "nested too deeply");
    check_nested("{{ x", "()", "", "", 100000, "nested too deeply");
    check_nested("", "{% if 1 %}", "", "{% endif %}", 40000, "nested too deeply");
    check_nested("", "{% for x in [1] %}", "", "{% endfor %}", 5000, "nested too deeply");
    check_nested("{% set ", "(", "x", ")", 50000, "nested too deeply");
    check_failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", NULL, "nested too deeply");
    check_failure("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", NULL,
                  "nested too deeply");
    check_failure("{% macro m() %}{% call m() %}x{% endcall %}{{ caller() }}{% endmacro %}"
                  "{{ m() }}",
                  NULL, "nested too deeply");
    check_failure("{{ 'a'|map(*(['map'] * 90000 + ['upper']))|list }}", NULL,
                  "nested too deeply");
    /* What real templates need is far within. */
    struct buf b = {0};
    repeat(&b, "{% if 1 %}", 100);
    buf_puts(&b, "{{ ");
    repeat(&b, "(", 50);
    repeat(&b, "1+", 200);
    buf_puts(&b, "0");
    repeat(&b, ")", 50);
    buf_puts(&b, " }}");
    repeat(&b, "{% endif %}", 100);
    check_rendering(buf_str(&b), NULL, "200");
    buf_free(&b);
}

#define LOOP "{% for i in range(100000) %}{% for j in range(1000) %}"
#define END "{% endfor %}{% endfor %}"

static void test_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *source, *what;
    } cases[] = {
        {"{{ range(10**9) }}", "more than 100000 items"},
        {LOOP END, "memory"},
        {LOOP "{% set x = 'a' ~ i %}" END, "memory"},
        {"{% set r = range(1000) %}{% for i in range(100000) %}{% for j in r %}{% endfor %}"
         "{% endfor %}",
         "steps"},
        {"{% macro a(n) %}{% if n < 60 %}{{ a(n+1) }}{{ a(n+1) }}{% endif %}{% endmacro %}"
         "{{ a(0) }}",
         "memory"},
        {"{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}"
         "{% endfor %}",
         "a string of more than"},
        {"{{ 'a' * 10**9 }}", "a string of more than"},
        {"{{ [1] * 10**12 }}", "memory"},
        {"{% set x = 'a' * 100000 %}{{ ([x] * 100000)|join(x) }}", "grows beyond"},
        {"{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}", "grows beyond"},
        {"{{ 'a\nb'|indent(10**9) }}", "too many spaces"},
        {"{{ 'a'|tojson(indent=10**12) }}", "too wide"},
        {"{{ 'a'|center(10**12) }}{{ 'a'.ljust(10**12) }}", "too many"},
        {"{{ '%999999999d' % 1 }}", "more than 1000000"},
        {"{{ '{:999999999}'.format(1) }}", "more than 1000000"},
        {"{{ [1]|slice(10**12)|list }}", "memory"},
        {"{{ [1]|batch(10**12, 'x')|list }}", "memory"},
        {"{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}", "nested too deeply"},
        {"{% set ns = namespace() %}{% set ns.l = [ns] %}{{ ns.l|string }}",
         "nested too deeply"},
        {"{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}"
         "{% endfor %}{{ ns.l|tojson }}",
         "nested too deeply"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}"
         "{% endfor %}{{ ns.l }}",
         "steps"},
        {"{% set ns = namespace(l=(1,)) %}{% for i in range(99) %}{% set ns.l = (ns.l, ns.l) %}"
         "{% endfor %}{{ {ns.l: 1} }}",
         "steps"},
        {"{% set h = 'a' * 1000000 %}{% set n = 'b' ~ 'a' * 200 %}{% for i in range(100000) %}"
         "{% if n in h %}{% endif %}{% endfor %}",
         "steps"},
        {"{% set h = 'a' * 1000000 %}{{ h.rsplit('b' * 100000)|length }}", "steps"},
        {"{{ ('a' * 1000000).strip('b' * 1000000 ~ 'a') }}", "steps"},
        {"{% set h = 'a' * 1000000 %}{% set k = h ~ 'b' %}{% for i in range(100000) %}"
         "{% if k == h ~ 'c' %}{% endif %}{% endfor %}",
         "memory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_failure(cases[i].source, NULL, cases[i].what);
}

/* What looks through a long string again and again pays for every time. */
static void test_long_strings(void **state)
{
    (void)state;
    enum { COMPARING = 300000, LOOKING_UP = 7000000 };
    static const struct {
        const char *body;
        uint64_t fuel;
    } cases[] = {
        {"ay.startswith(az)", COMPARING},   {"ay.startswith((az, az))", COMPARING},
        {"ya.endswith(za)", COMPARING},     {"ay.removeprefix(az)", COMPARING},
        {"ya.removesuffix(za)", COMPARING}, {"ay.replace(az, '')", COMPARING},
        {"ay.zfill(1)", COMPARING},         {"ay|center(1)", COMPARING},
        {"names[ay]", COMPARING},           {"key % one", COMPARING},
        {"loop.changed(**two)", COMPARING}, {"a is lower", COMPARING},
        {"a.islower()", LOOKING_UP},        {"a.isalnum()", LOOKING_UP},
        {"a|wordcount", LOOKING_UP},        {"ay.strip('123456789abcdex')", LOOKING_UP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[600];
        const struct template_options o = {.fuel = cases[i].fuel};
        struct rendering out;
        struct err err = {0};
        snprintf(source, sizeof source,
                 "{%% set a = ('x' * 1000) * 1000 %%}{%% set ay = a ~ 'y' %%}"
                 "{%% set az = a ~ 'z' %%}{%% set ya = 'y' ~ a %%}{%% set za = 'z' ~ a %%}"
                 "{%% set key = '%%(' ~ ay ~ ')s' %%}{%% set one = {ay: ''} %%}"
                 "{%% set two = {ay: 1, az: 2} %%}{%% set names = namespace(**one) %%}"
                 "{%% for i in range(100) %%}{%% set x = %s %%}{%% endfor %%}",
                 cases[i].body);
        if (render_case(source, NULL, &o, &out, &err)) fail_msg("%s renders", source);
        if (!strstr(err.msg, "too many steps")) fail_msg("%s\n  %s", source, err.msg);
    }
}

/* So does a name that is looked for in many small scopes. */
static void test_many_scopes(void **state)
{
    (void)state;
    enum { N = 300, COPIES = 100 };
    const struct template_options o = {.fuel = 10000};
    struct rendering out;
    struct err err = {0};
    char source[N * 60 + COPIES * 16] = "";
    for (int i = 0; i < N; i++)
        strcat(source, "{% with a = 1, b = 2, c = 3, d = 4 %}");
    for (int i = 0; i < COPIES; i++)
        strcat(source, "{{ nowhere }}");
    for (int i = 0; i < N; i++)
        strcat(source, "{% endwith %}");
    if (render_case(source, NULL, &o, &out, &err)) fail_msg("renders");
    if (!strstr(err.msg, "too many steps")) fail_msg("%s", err.msg);
}

static void test_given_limits(void **state)
{
    (void)state;
    struct err err = {0};
    struct rendering out;
    struct template_options o = {.fuel = 100};
    assert_false(
        render_case("{% for i in range(50) %}{{ i }}{% endfor %}", NULL, &o, &out, &err));
    assert_non_null(strstr(err.msg, "too many steps"));
    o = (struct template_options){.max_output_bytes = 10};
    assert_true(render_case("0123456789", NULL, &o, &out, &err));
    rendering_free(&out);
    assert_false(render_case("0123456789a", NULL, &o, &out, &err));
    assert_non_null(strstr(err.msg, "beyond 10 bytes"));
    o = (struct template_options){.max_depth = 5};
    assert_false(render_case("{{ [[[[[[1]]]]]] }}", NULL, &o, &out, &err));
    assert_non_null(strstr(err.msg, "more than 5 levels"));
    o = (struct template_options){.max_memory_bytes = 100000};
    assert_false(render_case("{{ range(5000)|list|length }}", NULL, &o, &out, &err));
    assert_non_null(strstr(err.msg, "memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_errors), cmocka_unit_test(test_render_errors),
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_raise_exception),
        cmocka_unit_test(test_json),         cmocka_unit_test(test_clock),
        cmocka_unit_test(test_nesting),      cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_long_strings), cmocka_unit_test(test_many_scopes),
        cmocka_unit_test(test_given_limits),
    };
    return cmocka_run_group_tests_name("template_errors", tests, NULL, NULL);
}
