/* What templates mean: one row per point of the language, with the text that Jinja 3.1 in the
 * set-up of transformers renders. */
#include "../template_case.h"

static const char variables[] =
    "{\"n\":7,"
    "\"f\":2.5,"
    "\"s\":\"  Hello, World  \","
    "\"u\":\"Grüße 日本語\","
    "\"l\":[3, 1, 2],"
    "\"names\":[\"bob\", \"Alice\", \"carol\", \"alice\"],"
    "\"d\":{\"b\": 2, \"a\": 1, \"C\": 3},"
    "\"people\":[{\"name\": \"Ann\", \"age\": 30, \"city\": {\"n\": \"X\"}}, {\"name\": "
    "\"bob\", \"age\": 25, \"city\": {\"n\": \"Y\"}}, {\"name\": \"Cy\", \"age\": 30, "
    "\"city\": {\"n\": \"X\"}}],"
    "\"tree\":[{\"v\": 1, \"c\": [{\"v\": 2, \"c\": []}, {\"v\": 3, \"c\": [{\"v\": 4, \"c\": "
    "[]}]}]}],"
    "\"nothing\":{},"
    "\"odd\":{\"items\": 1, \"get\": 2},"
    "\"lines\":\"a\\nb\\n\\nc\","
    "\"mixed\":[1, \"a\", 2.0, null, true],"
    "\"q\":\"it's \\\"q\\\" \\\\ \\n\"}";

struct example {
    const char *source, *expected;
};

static void check_all(const struct example *examples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_rendering(examples[i].source, variables, examples[i].expected);
}

static void test_arithmetic(void **state)
{
    static const struct example examples[] = {
        {"{{ 1 + 2 * 3 - 4 }} {{ 4 / 2 }}", "3 2.0"},
        {"{{ 7 // 2 }} {{ -7 // 2 }} {{ 7.5 // 2 }}", "3 -4 3.0"},
        {"{{ -7 % 3 }} {{ 7 % -3 }} {{ -7.5 % 2 }}", "2 -2 0.5"},
        {"{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}", "1024 0.5 64 4"},
        {"{{ 1 // 0.1 }} {{ 6 // 0.1 }} {{ 1 % 0.1 }} {{ -1 // 0.3 }} {{ -0.5 // 1e300 }} {{ "
         "1e16 "
         "// 3 }}",
         "9.0 59.0 0.09999999999999995 -4.0 -1.0 3333333333333333.0"},
        {"{{ 4.0 % -2 }} {{ -4.0 % 2 }} {{ 0.0 // -2 }} {{ 0.0 // 2 }} {{ 7 // 1e400 }} {{ 7 "
         "% 1e400 }}",
         "-0.0 0.0 -0.0 0.0 0.0 7.0"},
        {"{{ true + 1 }} {{ -true }} {{ 1.0 * 2 }}", "2 -1 2.0"},
        {"{{ -n|abs }} {{ +n }} {{ - 3 - -3 }}", "7 7 0"},
        {"{{ 9223372036854775807 }} {{ -9223372036854775807 }}",
         "9223372036854775807 -9223372036854775807"},
        {"{{ 10_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_0.5 }}", "10000 31 5 15 10.5"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_floats(void **state)
{
    static const struct example examples[] = {
        {"{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 100.0 }}",
         "0.30000000000000004 0.3333333333333333 100.0"},
        {"{{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 1e22 }} {{ 123456789012345680.0 }}",
         "1000.0 1.5e-07 1e+16 1e+22 1.2345678901234568e+17"},
        {"{{ 0.0001 }} {{ 0.00001 }} {{ -0.0 }} {{ 1e400 }}", "0.0001 1e-05 -0.0 inf"},
        {"{{ 2.5|round }} {{ 3.5|round }} {{ 2.345|round(2) }} {{ 42|round }} {{ "
         "1234|round(-2) }}",
         "2.0 4.0 2.35 42 1200"},
        {"{{ -0.5|round(0, 'ceil') }} {{ -0.0|round(0, 'floor') }}", "0.0 0.0"},
        {"{{ 2.1|round(0, 'ceil') }} {{ 2.9|round(0, 'floor') }}", "3.0 2.0"},
        {"{{ 3.7|int }} {{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ '42.9'|int }} {{ "
         "'ff'|int(0, 16) }} {{ none|int }}",
         "3 42 0 5 42 255 0"},
        {"{{ '1_0'|int }} {{ '0x_1f'|int(0, 16) }} {{ '1_0.2_5'|float }} {{ '1e1_0'|float }}",
         "10 31 10.25 10000000000.0"},
        {"{{ '-_1'|int }} {{ '_1'|int }} {{ '1_'|int }} {{ '1__0'|int }} {{ '1_.5'|float }} "
         "{{ '1._5'|float }} {{ '1e_5'|float }} {{ '1_e5'|float }} {{ '1e_5'|int }}",
         "0 0 0 0 0.0 0.0 0.0 0.0 0"},
        {"{{ '0_x1f'|int(0, 16) }} {{ '-0_X1'|int(0, 16) }} {{ '0_b1'|int(0, 2) }} {{ "
         "'0_o17'|int(5, 8) }} {{ '0_x1'|int(5, 0) }} {{ '٠_x1'|int(5, 16) }}",
         "0 0 0 5 5 5"},
        {"{{ '-0x_1f'|int(0, 16) }} {{ '0o_17'|int(0, 8) }} {{ '0_b1'|int(0, 16) }} {{ "
         "'0_x'|int(0, 36) }} {{ '0_1'|int(0, 16) }} {{ '0b_1_1'|int(0, 2) }}",
         "-31 15 177 33 1 3"},
        {"{{ '3.5'|float }} {{ 'x'|float }} {{ '1e3'|float }} {{ '0x10'|float }} {{ ' 7 '|int "
         "}}",
         "3.5 0.0 1000.0 0.0 7"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_printing(void **state)
{
    static const struct example examples[] = {
        {"{{ none }} {{ true }} {{ false }} {{ undefinedvar }}|", "None True False |"},
        {"{{ d }} {{ l }} {{ (1,) }} {{ () }} {{ {} }}",
         "{'b': 2, 'a': 1, 'C': 3} [3, 1, 2] (1,) () {}"},
        {"{{ [q] }} {{ [\"it's\"] }} {{ ['\\x07\\u200b\\u00a0é'] }}",
         "['it\\'s \"q\" \\\\ \\n'] [\"it's\"] ['\\x07\\u200b\\xa0é']"},
        {"{{ [none, true, 1.0, 'x'] }} {{ {'a': [1, {'b': none}]} }}",
         "[None, True, 1.0, 'x'] {'a': [1, {'b': None}]}"},
        {"{{ range(3) }} {{ range(0, 5, 2) }} {{ d.keys() }} {{ d.items() }}",
         "range(0, 3) range(0, 5, 2) dict_keys(['b', 'a', 'C']) dict_items([('b', 2), ('a', "
         "1), ('C', 3)])"},
        {"{{ 'a' ~ 1 ~ none ~ true ~ 2.0 ~ undefinedvar ~ [1, 'x'] }}",
         "a1NoneTrue2.0[1, 'x']"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_comparing(void **state)
{
    static const struct example examples[] = {
        {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 in [1,2] == false }}", "True False False"},
        {"{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 1 }} {{ none == none }} {{ undefinedvar == "
         "none }}",
         "True True False True False"},
        {"{{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ (1,2) == [1,2] }}", "True True False"},
        {"{{ {'a':1,'b':2} == {'b':2,'a':1} }} {{ {1: 'x'}[1.0] }} {{ {(1,2): 3}[(1,2)] }}",
         "True x 3"},
        {"{{ 'a' in 'abc' }} {{ 1 in [1,2] }} {{ 'a' in d }} {{ 'zz' not in d }} {{ 1 in "
         "undefinedvar }}",
         "True True True True False"},
        {"{{ 0 or 'x' }} {{ 0 and 1 }} {{ '' or none }} {{ not 1 in [1] }}", "x 0 None False"},
        {"{{ 'x' if true else 'y' }} {{ 'x' if false }}| {{ 'a' if 0 else 'b' if 0 else 'c' }}",
         "x | c"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_slices(void **state)
{
    static const struct example examples[] = {
        {"{{ l[0] }} {{ l[-1] }} {{ l[5] }}| {{ l[1:] }} {{ l[::-1] }} {{ l[:2] }} {{ l[5:1] "
         "}}",
         "3 2 | [1, 2] [2, 1, 3] [3, 1] []"},
        {"{{ 'hello'[1:3] }} {{ 'hello'[::2] }} {{ 'hello'[-1:0:-2] }} {{ 'hello'[-100:100] }}",
         "el hlo ol hello"},
        {"{{ u[1:9] }} {{ u[::-1] }} {{ u[-1] }} {{ u[-3:] }} {{ u|length }}",
         "rüße 日本語 語本日 eßürG 語 日本語 9"},
        {"{{ (1,2,3)[1:] }} {{ range(10)[2:5]|list }} {{ l.0 }} {{ people.0.name }}",
         "(2, 3) [2, 3, 4] 3 Ann"},
        {"{{ range(5)[1:] }} {{ range(0, 9, 2)[:-1] }} {{ range(5)[::-2] }} {{ range(3)[2:1] "
         "}} "
         "{{ range(5)[::9] }} {{ range(4)[1:3] == range(1, 3) }} {{ range(4)[1:3] == [1, 2] }}",
         "range(1, 5) range(0, 8, 2) range(4, -1, -2) range(2, 1) range(0, 5, 9) True False"},
        {"{{ d.nope is defined }} {{ d['nope'] is defined }} {{ none.x is defined }} {{ 5['x'] "
         "is defined }}",
         "False False False False"},
        {"{{ odd.items is callable }} {{ odd['items'] }} {{ odd.get('get') }}", "True 1 2"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_string_methods(void **state)
{
    static const struct example examples[] = {
        {"{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ "
         "'xyaxy'.strip('xy') }}",
         "Hello, World|Hello, World  |  Hello, World|a|a"},
        {"{{ s.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ "
         "''.split(',') }} {{ ''.split() }}",
         "['Hello,', 'World'] ['a', 'b', '', 'c'] ['a', 'b,c'] [''] []"},
        {"{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.split(none, 1) }} {{ ' a b c "
         "'.rsplit(none, 1) }}",
         "['a,b', 'c'] ['a', 'b c '] [' a b', 'c']"},
        {"{{ 'Hello'.startswith('He') }} {{ 'Hello'.startswith(('x','H')) }} {{ "
         "'Hello'.endswith('lo') }} {{ 'Hello'.startswith('l', 2) }}",
         "True True True True"},
        {"{{ 'abc'.find('', 3) }}{{ 'abc'.find('', 9) }}{{ 'abc'.rfind('', 3) }}{{ "
         "'abc'.find('', 2, 1) }}{{ 'aéa'.find('a', 1) }}{{ 'abc'.find('c', -1) }}",
         "3-13-122"},
        {"{{ 'abc'.count('', 3) }}{{ 'abc'.count('', 9) }}{{ 'abab'.count('ab', 1, none) }}",
         "101"},
        {"{{ 'abc'.startswith('', 3) }} {{ 'abc'.startswith('', 9) }} {{ 'abc'.endswith('', 5) "
         "}} {{ 'abc'.startswith(('b', ''), 4) }} {{ 'abc'.endswith('b', -9, 2) }}",
         "True False False False True"},
        {"{{ u.find('日') }} {{ u.find('zz') }} {{ u.rfind('ß') }} {{ 'abcabc'.find('c', 3) }} "
         "{{ 'aaa'.count('a') }} {{ 'abc'.count('') }}",
         "6 -1 3 5 3 4"},
        {"{{ \"they're x1y\".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'aB'.swapcase() }} "
         "{{ 'Straße'.upper() }} {{ 'ÀÉ'.lower() }}",
         "They'Re X1Y Hello world Ab STRASSE àé"},
        {"{{ 'ßa ǆx'.title() }} {{ 'ßA'.capitalize() }} {{ 'ǆ'.upper() }} {{ 'ß'.swapcase() }}",
         "Ssa ǅx Ssa Ǆ SS"},
        {"{{ 'ﬁn \u0149 \u0390'.upper() }} {{ 'ﬁn ﬃ \u1fb3 \u1fb2'.title() }} {{ 'Straße "
         "\u1e9e ﬁ \u0130'.casefold() }} {{ '\u2177 \u24d0 \u01c5'.swapcase() }}",
         "FIN \u02bcN \u0399\u0308\u0301 Fin Ffi \u1fbc \u1fba\u0345 strasse ss fi i\u0307 "
         "\u2167 \u24b6 \u01c5"},
        {"{{ 'ΟΔΟΣ ΣΑΣ. ΑΣ\u00adΑ Σ Α:Σ'.lower() }} {{ 'ΟΔΟΣ'.capitalize() }} {{ 'ΟΔΟΣ "
         "ΑΣ'|title }} {{ '\u0130'.lower() }}",
         "οδος σας. ασ\u00adα σ α:ς Οδος Οδος Ασ i\u0307"},
        {"{{ '\u00b2'.isdigit() }} {{ '\u00b2'.isdecimal() }} {{ '\u00bd'.isdigit() }} {{ "
         "'\u00bd\u2167'.isnumeric() }} {{ 'x\u00b2'.isalnum() }} {{ '\u0663'.isdecimal() }} "
         "{{ '\u01c5'.isupper() }} {{ '\u2177'.islower() }}",
         "True False False True True True False True"},
        {"{{ '\uff11\uff12'|int + '-\u0663_\u096a'|int }} {{ '\u0967\u0968.\uff15'|float }} {{ "
         "'\u00b2'|int(7) }}",
         "-22 12.5 7"},
        {"{{ 'a-b-c'.replace('-', '+', 1) }} {{ 'abc'.replace('', '-') }} {{ "
         "'abc'.replace('b', '') }}",
         "a+b-c -a-b-c- ac"},
        {"{{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'a\\n'.splitlines() }} {{ "
         "'a\\nb'.splitlines(true) }}",
         "['a', 'b', 'c'] ['a'] ['a\\n', 'b']"},
        {"{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ "
         "'a.b.c'.partition('.') }} {{ 'abc'.rpartition('x') }}",
         "bc ab ('a', '.', 'b.c') ('', '', 'abc')"},
        {"{{ 'ab'.ljust(4) }}|{{ 'ab'.rjust(4, '*') }}|{{ 'ab'.center(5) }}|{{ 'abc'.center(6, "
         "'-') }}|{{ '-5'.zfill(4) }}",
         "ab  |**ab|  ab |-abc--|-005"},
        {"{% set w = -9223372036854775807 - 1 %}{{ 'ab'.ljust(w) ~ 'ab'.center(w) ~ "
         "'ab'|center(w) ~ 'ab'.zfill(w) }}",
         "abababab"},
        {"{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} "
         "{{ ''.isalpha() }}",
         "True True True True False"},
        {"{{ ', '.join(['a','b']) }} {{ '-'.join(d) }} {{ 'x'.join('abc') }}",
         "a, b b-a-C axbxc"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_formatting(void **state)
{
    static const struct example examples[] = {
        {"{{ '%s is %d and %.2f' % ('a', 3, 2.5) }} {{ '%s' % 'x' }} {{ '%(a)s' % d }} {{ '%r' "
         "% 'x' }} {{ '%%' % () }}",
         "a is 3 and 2.50 x 1 'x' %"},
        {"{{ '%5s|%-5s|%05d|%x|%+d|% d' % ('r', 'l', 42, 255, 3, 4) }} {{ '%e' % 12345.678 }} "
         "{{ '%g' % 0.00001 }}",
         "    r|l    |00042|ff|+3| 4 1.234568e+04 1e-05"},
        {"{{ '%.c|%3.c|%.1s' % ('é', 42, 'éa') }}", "é|  *|é"},
        {"{{ '%s %s'|format('a', 'b') }} {{ '%(x)s'|format(x=1) }}", "a b 1"},
        {"{{ '{} {}'.format('a', 1) }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=5) }} "
         "{{ '{{}}'.format() }}",
         "a 1 ba 5 {}"},
        {"{{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('a','b','c',42,3.14159,1234567) }} "
         "{{ '{!r}'.format('x') }} {{ '{:*^9}'.format('mid') }}",
         "    a|b    |  c  |00042|3.14|1,234,567 'x' ***mid***"},
        {"{{ '%.3d|%8.3x|%#06x|%#010o|%#.0f' % (-5, 255, 10, 8, 2) }}",
         "-005|     0ff|0x000a|0o00000010|2."},
        {"{{ '{:.3}|{:.3}|{:.3}|{:.1}|{:.17}'.format(3.0, 12.0, 123.0, 0.0, 1e16) }}",
         "3.0|12.0|1.23e+02|0e+00|1e+16"},
        {"{{ '{:5}|{:05}|{:<05}|{:#010b}|{:010,}|{:_x}|{:n}'.format(true, 'ab', 5, -5, 255, "
         "1234567, 0.5) }}",
         "    1|ab000|50000|-0b0000101|00,000,255|12_d687|0.5"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_text_filters(void **state)
{
    static const struct example examples[] = {
        {"{{ s|trim }} {{ 'xyaxy'|trim('xy') }} {{ undefinedvar|trim }}| {{ 5|trim }}",
         "Hello, World a | 5"},
        {"{{ \"they're bill's\"|title }} {{ 'foo-bar (baz)'|title }} {{ 'HELLO'|capitalize }} "
         "{{ 'Straße'|upper }}",
         "They're Bill's Foo-Bar (Baz) Hello STRASSE"},
        {"{{ 'ßa ǆx'|title }} {{ 'ßA'|capitalize }}", "SSa Ǆx Ssa"},
        {"{{ 'aaa'|replace('a', 'b', 2) }} {{ 'a b c'|wordcount }} {{ '<a>&'|e }} {{ 5|string "
         "+ 'a' }}",
         "bba 3 &lt;a&gt;&amp; 5a"},
        {"{{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, false, true) }}|{{ "
         "lines|indent('> ', first=true) }}",
         "a\n    b\n\n    c|  a\n  b\n\n  c|a\n  b\n  \n  c|> a\n> b\n\n> c"},
        {"{{ 'a\\n'|indent }}|{{ ''|indent }}|", "a\n||"},
        {"{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ "
         "'foo bar baz qux'|truncate(11) }}",
         "foo... foo ba... foo bar baz qux"},
        {"{{ ['a', 1, none]|join(', ') }} {{ people|join(', ', attribute='name') }} {{ "
         "'abc'|join('-') }}",
         "a, 1, None Ann, bob, Cy a-b-c"},
        {"{{ undefinedvar|default('x') }} {{ none|default('x') }} {{ ''|default('x', true) }} "
         "{{ 0|d('y', boolean=true) }}",
         "x None x y"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_lists(void **state)
{
    static const struct example examples[] = {
        {"{{ l|sort }} {{ names|sort }} {{ names|sort(reverse=true) }} {{ "
         "names|sort(case_sensitive=true) }}",
         "[1, 2, 3] ['Alice', 'alice', 'bob', 'carol'] ['carol', 'bob', 'Alice', 'alice'] "
         "['Alice', 'alice', 'bob', 'carol']"},
        {"{{ [none, none]|sort }} {{ "
         "people|sort(attribute='nope,age')|map(attribute='name')|list "
         "}} {{ people|sort(attribute='city.q')|map(attribute='name')|join }}",
         "[None, None] ['bob', 'Ann', 'Cy'] AnnbobCy"},
        {"{{ people|sort(attribute='age')|map(attribute='name')|list }} {{ "
         "people|sort(attribute='age,name', reverse=true)|map(attribute='name')|join(',') }}",
         "['bob', 'Ann', 'Cy'] Cy,Ann,bob"},
        {"{{ names|unique|list }} {{ l|min }} {{ l|max }} {{ names|min }} {{ l|sum }} {{ "
         "people|sum(attribute='age') }} {{ [[1],[2]]|sum(start=[]) }}",
         "['bob', 'Alice', 'carol'] 1 3 Alice 6 85 [1, 2]"},
        {"{{ l|map('string')|list }} {{ people|map(attribute='zip', default='-')|list }} {{ "
         "people|map(attribute='city.n')|list }} {{ [[1,2],[3]]|map('first')|list }}",
         "['3', '1', '2'] ['-', '-', '-'] ['X', 'Y', 'X'] [1, 3]"},
        {"{{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ mixed|select|list }} {{ "
         "mixed|select('string')|list }}",
         "[3, 1] [2] [1, 'a', 2.0, True] ['a']"},
        {"{{ people|selectattr('age', '>', 26)|map(attribute='name')|list }} {{ "
         "people|rejectattr('age', 'equalto', 30)|map(attribute='name')|list }} {{ "
         "people|selectattr('zip')|list }}",
         "['Ann', 'Cy'] ['bob'] []"},
        {"{{ l|first }} {{ l|last }} {{ []|first }}| {{ 'abc'|first }} {{ l|reverse|list }} {{ "
         "'abc'|reverse }} {{ d|list }} {{ d|last }}",
         "3 2 | a [2, 1, 3] cba ['b', 'a', 'C'] C"},
        {"{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ [1,2,3,4,5,6,7]|slice(3)|list }}",
         "[[3, 1], [2]] [[3, 1], [2, 'x']] [[1, 2, 3], [4, 5], [6, 7]]"},
        {"{{ [1, 2, 3]|slice(2, 'x')|list }} {{ [1, 2]|slice(2, 'x')|list }}",
         "[[1, 2], [3, 'x']] [[1, 'x'], [2, 'x']]"},
        {"{% for g in people|groupby('age') %}{{ g.grouper }}:{{ "
         "g.list|map(attribute='name')|join(',') }};{% endfor %}",
         "25:bob;30:Ann,Cy;"},
        {"{% for k, v in people|groupby('city.n') %}{{ k }}={{ v|length }} {% endfor %}",
         "X=2 Y=1 "},
        {"{{ [1] + [2] }} {{ [0] * 3 }} {{ l.index(1) }} {{ l.count(3) }}",
         "[1, 2] [0, 0, 0] 1 1"},
        {"{% if l|select('gt', 100) %}a generator is true{% endif %}{% set g = l|map('string') "
         "%}{{ g|join }}/{{ g|join }}",
         "a generator is true312/"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_dicts(void **state)
{
    static const struct example examples[] = {
        {"{{ d.items()|list }} {{ d.values()|list }} {{ d|length }} {{ d|items|list }}",
         "[('b', 2), ('a', 1), ('C', 3)] [2, 1, 3] 3 [('b', 2), ('a', 1), ('C', 3)]"},
        {"{{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ {}|length }}",
         "1 None 5 0"},
        {"{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(false, 'value', true) }}",
         "[('a', 1), ('b', 2), ('C', 3)] [('C', 3), ('a', 1), ('b', 2)] [('C', 3), ('b', 2), "
         "('a', 1)]"},
        {"{{ nothing|dictsort }}", "[]"}, /* alone, before anything has taken memory */
        {"{{ dict(a=1, b=2) }} {{ dict([('x', 1)], y=2) }} {{ dict(d, z=9) }} {{ {'a': 1, 'a': "
         "2} }}",
         "{'a': 1, 'b': 2} {'x': 1, 'y': 2} {'b': 2, 'a': 1, 'C': 3, 'z': 9} {'a': 2}"},
        {"{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}{% for k in d %}{{ k }}{% "
         "endfor %}",
         "b=2 a=1 C=3 baC"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_json(void **state)
{
    static const struct example examples[] = {
        {"{{ d|tojson }} {{ mixed|tojson }} {{ q|tojson }} {{ u|tojson }} {{ "
         "'<a>&\\x7f\\x1f'|tojson }}",
         "{\"b\": 2, \"a\": 1, \"C\": 3} [1, \"a\", 2.0, null, true] \"it's \\\"q\\\" \\\\ "
         "\\n\" \"Grüße 日本語\" \"<a>&\177\\u001f\""},
        {"{{ d|tojson(indent=2) }} {{ [[], {}]|tojson(indent=1) }} {{ []|tojson(indent=2) }}",
         "{\n  \"b\": 2,\n  \"a\": 1,\n  \"C\": 3\n} [\n [],\n {}\n] []"},
        {"{{ u|tojson(ensure_ascii=true) }} {{ '😀'|tojson(true) }} {{ d|tojson(sort_keys=true) "
         "}} {{ d|tojson(separators=(',', ':')) }}",
         "\"Gr\\u00fc\\u00dfe \\u65e5\\u672c\\u8a9e\" \"\\ud83d\\ude00\" {\"C\": 3, \"a\": 1, "
         "\"b\": 2} {\"b\":2,\"a\":1,\"C\":3}"},
        {"{{ {1: 2, none: 3, true: 4, 1.5: 6}|tojson }} {{ (1, 2)|tojson }} {{ 1e20|tojson }} "
         "{{ 1e400|tojson }}",
         "{\"1\": 4, \"null\": 3, \"1.5\": 6} [1, 2] 1e+20 Infinity"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_loops(void **state)
{
    static const struct example examples[] = {
        {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ "
         "loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
         "1032TrueFalse3 2121FalseFalse3 3210FalseTrue3 "},
        {"{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('a', "
         "'b') }}{{ loop.changed(x) }} {% endfor %}",
         "<3>1 aTrue 3<1>2 bTrue 1<2> aTrue "},
        {"{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% "
         "endfor %}",
         "1/2:3 2/2:2 "},
        {"{% for x in [] %}{% else %}empty{% endfor %} {% for x in undefinedvar %}{% else "
         "%}undefined{% endfor %}",
         "empty undefined"},
        {"{% for x in [1,2,3,4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% "
         "break %}{% endif %}{{ x }}{% endfor %}",
         "13"},
        {"{% for n in tree recursive %}{{ n.v }}[{{ loop.depth }}{% if n.c %}({{ loop(n.c) "
         "}}){% endif %}]{% endfor %}",
         "1[1(2[2]3[2(4[3])])]"},
        {"{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for c in u "
         "%}{{ c }}.{% endfor %}",
         "123 G.r.ü.ß.e. .日.本.語."},
        {"{% for x in [1,2] %}{% set outer = loop %}{% for y in [1,2] %}{{ outer.index }}{{ "
         "loop.index }} {% endfor %}{% endfor %}",
         "11 12 21 22 "},
        {"{% set ns = namespace(seen=false) %}{% for x in l if not ns.seen %}{{ x }}{% set "
         "ns.seen = x == 1 %}{% endfor %}",
         "31"},
        {"{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current "
         "}} {% set j = joiner('|') %}{{ j() }}a{{ j() }}b",
         "abab a|b"},
        {"{{ range(1, 10, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }}",
         "[1, 4, 7] [5, 3, 1] []"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_scopes(void **state)
{
    static const struct example examples[] = {
        {"{% set x = 1 %}{% for i in l %}{{ x }}{% set x = x + 1 %}{% endfor %}{{ x }}",
         "1111"},
        {"{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ "
         "ns.x }} {{ ns.zz is defined }} {{ ns['x'] }}",
         "7 False 7"},
        {"{% if true %}{% set v = 1 %}{% endif %}{{ v }}{% for i in [1] %}{% set w = 2 %}{% "
         "endfor %}{{ w }}|",
         "1|"},
        {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, e) = [3, 4] %}{{ c }}{{ e }}", "1234"},
        {"{% set x %}hello {{ n }}{% endset %}{{ x }} {% set y | upper | replace('L', '_') "
         "%}hello{% endset %}{{ y }}",
         "hello 7 HE__O"},
        {"{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}| {% set a = 5 %}{% with a "
         "= 2, b = a %}{{ b }}{% endwith %}",
         "17| 5"},
        {"{% filter upper %}hello{% endfilter %} {% filter replace('a', 'b')|upper %}aXa{% "
         "endfilter %}",
         "HELLO BXB"},
        {"{% generation %}text{% set x = 1 %}{% endgeneration %}{{ x }}|", "text|"},
        {"{% block a %}in{% endblock %}{% block b %}x{% endblock b %}", "inx"},
        {"{% block b %}{{ n }}{% endblock %}{% set n = 1 %}{{ n }}", "71"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

/* A block sees the variables of the rendering, a scoped one what is around it. */
static void test_blocks(void **state)
{
    static const struct example examples[] = {
        {"{% for i in l %}{% block b %}{{ i }}{{ loop }}{% endblock %}{% endfor %}|", "|"},
        {"{% with n = 1 %}{% block b %}{{ n }}{% endblock %}{% endwith %}", "7"},
        {"{% for i in l %}{% set n = i %}{% block b %}{{ n }}{% endblock %}{% endfor %}",
         "777"},
        {"{% macro m(n) %}{% block b %}{{ n }}{% endblock %}{% endmacro %}{{ m(3) }}", "7"},
        {"{% macro m() %}{{ caller(4) }}{% endmacro %}{% call(n) m() %}{% block b %}{{ n }}"
         "{% endblock %}{% endcall %}",
         "7"},
        {"{% filter upper %}{% set u = 'a' %}{% block b %}{{ u }}{% endblock %}{% endfilter %}",
         "GRÜSSE 日本語"},
        {"{% for i in l %}{% block b scoped %}{{ i }}{{ loop.index }}{% endblock %}{% endfor "
         "%}",
         "311223"},
        {"{% macro m(n) %}{% block b scoped %}{{ n }}{% endblock %}{% endmacro %}{{ m(3) }}",
         "3"},
        {"{% for i in l %}{% block b scoped %}{% set k = 8 %}{% block c %}{{ i }}{{ k }}{% "
         "endblock %}{% endblock %}{% endfor %}",
         "312"},
        {"{% macro m(n) %}{% block b %}{{ n }}{% endblock %}{% endmacro %}{% for n in l %}{% "
         "block c scoped %}{{ m(3) }}{% endblock %}{% endfor %}",
         "777"},
        {"{% set n, z = 1, 2 %}{% for n in l %}{% block b %}{{ n }}{{ z }}{% endblock %}{% "
         "endfor %}",
         "121212"},
        {"{% block b %}{% set n = 1 %}{% block c %}{{ n }}{% endblock %}{{ n }}{% endblock %}"
         "{{ n }}",
         "717"},
        {"{% if n %}{% set z = 1 %}{% endif %}{% macro m(a) %}<{{ a }}{{ n }}>{% endmacro %}{% "
         "for n in l %}{% block b %}{{ m(z) }}{% endblock %}{% endfor %}",
         "<17><17><17>"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

/* Whose a name is, its own body's or the rendering's, shows in the text and not only when it is
 * set. */
static void test_levels(void **state)
{
    static const struct example examples[] = {
        {"{% for i in [1, 2] %}[{{ a }}]{% endfor %}{% set a = 2 %}{{ a }}", "[][]2"},
        {"{{ a }}{% for i in [1, 2] %}[{{ a }}]{% endfor %}{% set a = 2 %}{{ a }}", "5[5][5]2"},
        {"{% for i in [1, 2] %}[{{ a }}]{% endfor %}{% if i %}{% set a = 2 %}{% endif %}{{ a "
         "}}",
         "[5][5]5"},
        {"{% if true %}{% for i in [1] %}[{{ a }}]{% endfor %}{% endif %}{% set a, b = 2, 3 "
         "%}{{ a }}",
         "[]2"},
        {"{% macro m() %}[{{ a }}]{% endmacro %}{{ m() }}{% set a = a %}{{ m() }}", "[5][5]"},
        {"{% macro m() %}[{{ a }}]{% endmacro %}{{ m() }}{% set a %}x{% endset %}{{ m() }}",
         "[][x]"},
        {"{% for i in [1, 2] %}{% with %}[{{ a }}]{% endwith %}{% set a = i %}{{ a }}{% endfor "
         "%}{% filter upper %}{{ a }}{% endfilter %}",
         "[]1[]25"},
        {"{% for i in [1, 2] %}{% with %}[{{ a }}]{% endwith %}{% set a = i %}{{ a }}{% endfor "
         "%}{{ a }}",
         "[5]1[5]25"},
        {"{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}{{ a is defined }}{% "
         "endcall %}{% macro a() %}{% endmacro %}",
         "<False>"},
        {"{% set t %}{{ a }}{% endset %}{% for i in [1] if a %}{% else %}{% set a = 2 %}{{ a "
         "}}{% endfor %}[{{ t }}]",
         "[5]"},
        {"{% for a in [1, 2] %}{% with %}{{ a }}{% endwith %}{% set a = 7 %}{{ a }}{% endfor "
         "%}",
         "1727"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check_rendering(examples[i].source, "{\"a\":5}", examples[i].expected);
}

static void test_macros(void **state)
{
    static const struct example examples[] = {
        {"{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro "
         "%}{{ m(1) }} {{ m(1, 3, 4, 5, x=6) }} {{ m(b=1, a=2) }}",
         "121(){} 134(5,){'x': 6} 212(){}"},
        {"{% macro m(a) %}[{{ caller(a) }}]{% endmacro %}{% call(x) m(5) %}<{{ x }}{{ n }}>{% "
         "endcall %}",
         "[<57>]"},
        {"{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) "
         "}} {{ f }} {{ f.name }}",
         "54321 <Macro 'f'> f"},
        {"{% macro f() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ f() }}", "L"},
        {"{% for i in [1,2] %}{% macro g() %}{{ i }}{{ loop.index }}{% endmacro %}{{ g() }}{% "
         "endfor %}",
         "1122"},
        {"{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': "
         "4}) }}{{ m(1, *[2]) }}",
         "123412"},
        {"{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(kwargs=2) }}", "12"},
        {"{% macro m(varargs=3) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(b=1) }}",
         "3{'b': 1}"},
        {"{% macro m() %}{{ caller(4) }}{% endmacro %}{% call(varargs) m() %}{{ varargs }}{% "
         "endcall %}",
         "4"},
        {"{% set x = 5 %}{% macro m() %}{{ x }}{% set x = 6 %}{{ x }}{% endmacro %}{{ m() }}{{ "
         "x }}",
         "565"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_tests(void **state)
{
    static const struct example examples[] = {
        {"{{ n is divisibleby 7 }} {{ n is divisibleby(7) }} {{ n is odd }} {{ n is not even "
         "}} {{ not n is odd }}",
         "True True True True False"},
        {"{{ 'a' is string }} {{ d is mapping }} {{ l is sequence }} {{ d is sequence }} {{ "
         "'a' is iterable }} {{ range is callable }}",
         "True True True True True True"},
        {"{{ 5 is number }} {{ true is integer }} {{ 2.0 is float }} {{ true is boolean }} {{ "
         "1 is true }} {{ none is none }}",
         "True False True True False True"},
        {"{{ undefinedvar is undefined }} {{ undefinedvar is none }} {{ undefinedvar is "
         "iterable }} {{ undefinedvar is sequence }}",
         "True False True True"},
        {"{{ 'ab' is lower }} {{ 'AB' is upper }} {{ 3 is in l }} {{ 1 is lt 2 }} {{ 1 is "
         "ge(1) }} {{ 'upper' is filter }}",
         "True True True True True True"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_undefined(void **state)
{
    static const struct example examples[] = {
        {"{{ undefinedvar }}|{{ undefinedvar ~ 'x' }} {{ undefinedvar|length }} {{ "
         "undefinedvar|list }} {{ undefinedvar|join(',') }}|",
         "|x 0 [] |"},
        {"{{ undefinedvar or 'x' }} {{ not undefinedvar }} {{ undefinedvar == other }} {{ "
         "undefinedvar != 1 }} {{ [undefinedvar] }}",
         "x True True True [Undefined]"},
        {"{{ 'abc'.nope }}|{{ l.append }}|{{ l.append is defined }}|{{ people[9] }}|{{ "
         "d.nope|default('q') }}",
         "||False||q"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_trim_and_lstrip(void **state)
{
    static const struct example examples[] = {
        {"a\n  {% if true %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
        {"a {% if true %} b {% endif %} c\n", "a  b  c"},
        {"  {{ 1 }}\n  {{ 2 }}\n", "  1\n  2"},
        {"{# c #}\nx\n   {# c #}\ny", "x\ny"},
        {"{% if true %}\n\nx\n{% endif %}\n\ny", "\nx\n\ny"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_signs(void **state)
{
    static const struct example examples[] = {
        {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
        {"a\n  {%+ if true %}b{% endif +%}\nc", "a\n  b\nc"},
        {"x {{- 1 -}} y", "x1y"},
        {"a {#- c -#} b", "ab"},
        {"x\n   {{- 1 }}\n{{ 2 -}}\n  y", "x1\n2y"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_raw(void **state)
{
    static const struct example examples[] = {
        {"{% raw %}{{ x }} {% if %} {# c #}{% endraw %}", "{{ x }} {% if %} {# c #}"},
        {"a {% raw -%}   b   {%- endraw %} c", "a b c"},
        {"   {% raw %}\n r\n   {% endraw %}\nw", "\n r\nw"},
        {"{%- raw %} {{ x }} {% endraw -%}  z", " {{ x }} z"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_line_ends(void **state)
{
    static const struct example examples[] = {
        {"a\r\nb\rc\n", "a\nb\nc"},
        {"a\n\n", "a\n"},
        {"{{ \"x\\ny\" }}\r\n", "x\ny"},
        {"{% if true %}\r\nx{% endif %}", "x"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

static void test_literals(void **state)
{
    static const struct example examples[] = {
        {"{% set été_2 = n %}{{ été_2\u00a0}}{% if\u3000n\u2003%}a{%\u00a0endif\u00a0%}", "7a"},
        {"{{ \"a\\tb\\x41\\u00e9\\101\\'\\\"\\\\ \\d\" }}", "a\tbAéA'\"\\ \\d"},
        {"{{ \"a\" 'b' \"c\" }}", "abc"},
        {"{{ \"}}\" }} {{ '{% x %}' }} {{ {'a': {'b': 1}} }}", "}} {% x %} {'a': {'b': 1}}"},
        {"{{ [1, 2,] }} {{ {'a': 1,} }} {{ (1, 2,) }}", "[1, 2] {'a': 1} (1, 2)"},
        {"{{ \"a\\\nb\" }}", "ab"},
    };
    (void)state;
    check_all(examples, sizeof examples / sizeof *examples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_printing),
        cmocka_unit_test(test_comparing),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_string_methods),
        cmocka_unit_test(test_formatting),
        cmocka_unit_test(test_text_filters),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_dicts),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_macros),
        cmocka_unit_test(test_tests),
        cmocka_unit_test(test_undefined),
        cmocka_unit_test(test_trim_and_lstrip),
        cmocka_unit_test(test_signs),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_literals),
    };
    return cmocka_run_group_tests_name("template_language", tests, NULL, NULL);
}
