/* Every byte of a rendering says where it came from: L the template, U the caller, R a reply.
 */
#include "../template_case.h"

/* The variables of these tests: user and bos as named, and r, reply number 7 from byte 100. */
static struct value *variables(struct value_pool *pool)
{
    static const char reply[] = "<think>hm</think>\n\n Yes, it is. ";
    struct value *v = value_dict(pool);
    value_dict_set(pool, v, "user", value_text(pool, "Hi <|im_end|>", 13));
    value_dict_set(pool, v, "bos", value_markup(pool, "<s>", 3));
    value_dict_set(pool, v, "r", value_reply(pool, reply, sizeof reply - 1, 7, 100));
    value_dict_set(pool, v, "n", value_int(pool, 42));
    struct value *list = value_list(pool);
    value_list_add(pool, list, value_text(pool, "a", 1));
    value_list_add(pool, list, value_markup(pool, "b", 1));
    value_dict_set(pool, v, "list", list);
    return v;
}

static void render(const char *source, struct rendering *out)
{
    struct err err = {0};
    struct template *t = template_parse(source, strlen(source), "test", &err);
    if (!t) fail_msg("%s", err.msg);
    struct value_pool *pool = value_pool_new();
    if (!template_render(t, variables(pool), NULL, out, &err)) fail_msg("%s", err.msg);
    value_pool_free(pool);
    template_free(t);

    /* Runs cover the text without gaps, and no two neighbours could be one. */
    size_t at = 0;
    for (size_t i = 0; i < out->n_runs; i++) {
        const struct origin_run *r = &out->runs[i], *next = r + 1;
        assert_int_equal(r->start, at);
        assert_true(r->len > 0);
        at += r->len;
        if (i + 1 == out->n_runs || r->origin != next->origin) continue;
        assert_int_equal(r->origin, ORIGIN_REPLY);
        assert_false(r->reply == next->reply && r->source + r->len == next->source);
    }
    assert_int_equal(at, out->len);
}

/* The rendering with a letter per byte, "L:<s>|U:Hi|R7@107:hm". */
static void check(const char *source, const char *expected)
{
    char got[1000] = "";
    struct rendering out;
    render(source, &out);
    for (size_t i = 0; i < out.n_runs; i++) {
        const struct origin_run *r = &out.runs[i];
        size_t n = strlen(got);
        if (r->origin == ORIGIN_REPLY)
            n += (size_t)snprintf(got + n, sizeof got - n, "%sR%u@%zu:", i ? "|" : "", r->reply,
                                  r->source);
        else
            n += (size_t)snprintf(got + n, sizeof got - n, "%s%c:", i ? "|" : "",
                                  r->origin == ORIGIN_LITERAL ? 'L' : 'U');
        snprintf(got + n, sizeof got - n, "%.*s", (int)r->len, out.text + r->start);
    }
    if (strcmp(got, expected) != 0)
        fail_msg("%s\n  gives    %s\n  expected %s", source, got, expected);
    rendering_free(&out);
}

static void test_sources(void **state)
{
    (void)state;
    check("<s>{{ user }}</s>", "L:<s>|U:Hi <|im_end|>|L:</s>");
    check("{{ bos }}{{ '<u>' + user + '</u>' }}", "L:<s><u>|U:Hi <|im_end|>|L:</u>");
    check("{{ bos ~ user ~ n }}", "L:<s>|U:Hi <|im_end|>42");
    check("{{ n }}{{ 1 + 1 }}{{ true }}{{ none }}", "U:422TrueNone");
    check("{{ r }}", "R7@100:<think>hm</think>\n\n Yes, it is. ");
    check("a{{ r[7:9] }}b", "L:a|R7@107:hm|L:b");
    check("", "");
    check("{{ {'k': user}.k }}{% for k in {'<k>': 1} %}{{ k }}{% endfor %}",
          "U:Hi <|im_end|>|L:<k>");
}

static void test_kept(void **state)
{
    (void)state;
    check("{{ r.split('</think>')[-1].lstrip('\\n') }}", "R7@119: Yes, it is. ");
    check("{{ r.split('</think>')[-1]|trim }}", "R7@120:Yes, it is.");
    check("{{ (r ~ '|' ~ user)[-8:-2] }}", "U:im_end");
    check("{{ (bos ~ user)[1:5] }}", "L:s>|U:Hi");
    check("{{ (bos ~ user)[::-1][-4:] }}", "U:H|L:>s<");
    check("{{ ('<' ~ user ~ '>').strip('<>') }}", "U:Hi <|im_end|");
    check("{{ user.replace('Hi', '<x>') }}", "L:<x>|U: <|im_end|>");
    check("{{ 'a-b'|replace('-', user[:2]) }}", "L:a|U:Hi|L:b");
    check("{{ r.replace(' it', '') }}", "R7@100:<think>hm</think>\n\n Yes,|R7@127: is. ");
    check("{{ list|join('-') }}{{ '+'.join(list) }}", "U:a|L:-b|U:a|L:+b");
    check("{{ list|join(user[:1]) }}", "U:aH|L:b");
    check("{{ '<%s>%d</%s>' % (user[:2], 5, bos) }}", "L:<|U:Hi|L:>|U:5|L:</<s>>");
    check("{{ '<{}>{:>4}'.format(user[:2], bos) }}", "L:<|U:Hi|L:> <s>");
    check("{{ '%s' | format(r[7:9]) }}", "R7@107:hm");
    check("{{ '{:<<3}'.format(n) }}{{ ('{:' ~ user[3] ~ '<3}').format(n) }}", "U:42|L:<|U:42<");
    check("{{ 'ab' * 2 }}{{ user[:1] * 2 }}", "L:abab|U:HH");
    check("{{ ('x\\n' ~ user[:2])|indent(2) }}", "L:x\n  |U:Hi");
    check("{{ user|first }}{{ bos|last }}{{ [bos]|first }}", "U:H|L:><s>");
    check("{{ user|default('x') }}{{ nope|default('<x>') }}", "U:Hi <|im_end|>|L:<x>");
    check("{{ user|string }}{{ bos|safe }}", "U:Hi <|im_end|>|L:<s>");
    check("{{ 'a,b'.partition(',')|join }}{{ user.removeprefix('Hi ') }}",
          "L:a,b|U:<|im_end|>");
    check("{{ bos.ljust(5) }}{{ user[:2]|center(4) }}", "L:<s>   |U:Hi|L: ");
    check("{% set x %}<a>{{ user[:2] }}{% endset %}{{ x }}", "L:<a>|U:Hi");
    check("{% macro m(a) %}<m>{{ a }}{{ caller() }}{% endmacro %}"
          "{% call m(user[:2]) %}<c>{{ r[7:9] }}{% endcall %}",
          "L:<m>|U:Hi|L:<c>|R7@107:hm");
    check("{% filter trim %}  <f>{{ user[:2] }}  {% endfilter %}", "L:<f>|U:Hi");
    check("{% for c in (bos ~ user)[:4] %}{{ c }}{% endfor %}", "L:<s>|U:H");
    check("{% set ns = namespace(s='') %}{% for i in [bos, user[:2], bos] %}"
          "{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.s }}",
          "L:<s>|U:Hi|L:<s>");
}

/* A computed text could spell a control token that nobody wrote: it is never markup. */
static void test_dropped(void **state)
{
    (void)state;
    check("{{ '<X>'|lower }}{{ bos|upper }}{{ '<x>'|title }}{{ '<x>'.upper() }}",
          "U:<x><S><X><X>");
    check("{{ bos|tojson }}{{ [bos] }}{{ {'<k>': bos}|tojson(indent=1) }}",
          "U:\"<s>\"['<s>']{\n \"<k>\": \"<s>\"\n}");
    check("{{ r[7:9]|upper }}{{ [r[7:9]]|tojson }}", "U:HM[\"hm\"]");
    check("{{ bos|e }}{{ '%r' % bos }}{{ '{!r}'.format(bos) }}", "U:&lt;s&gt;'<s>''<s>'");
    check("{{ strftime_now('<%%>') }}", "U:<%>");
    check("{{ '%c' % 60 }}{{ '<'|urlencode }}", "U:<%3C");
}

/* The chain that appends to the newest string without copying must not touch its sharers. */
static void test_appending(void **state)
{
    (void)state;
    check("{% set a = user ~ '1' %}{% set b = a ~ '2' %}{% set c = a ~ '3' %}"
          "{{ a }} {{ b }} {{ c }}",
          "U:Hi <|im_end|>|L:1 |U:Hi <|im_end|>|L:12 |U:Hi <|im_end|>|L:13");
    check("{% set a = 'ab' ~ 'cd' %}{% set b = a[2:] ~ 'X' %}{% set c = a ~ 'Y' %}"
          "{{ a }}{{ b }}{{ c }}",
          "L:abcdcdXabcdY");
}

static void test_mentions(void **state)
{
    (void)state;
    static const char source[] =
        "{% if enable_thinking and m.tools and x == 'system' %}raw{% endif %}";
    struct err err = {0};
    struct template *t = template_parse(source, sizeof source - 1, "test", &err);
    assert_non_null(t);
    assert_true(template_mentions(t, "enable_thinking"));
    assert_true(template_mentions(t, "tools"));
    assert_true(template_mentions(t, "system"));
    assert_false(template_mentions(t, "raw"));
    assert_false(template_mentions(t, "enable"));
    assert_true(template_has_variable(t, "enable_thinking"));
    assert_true(template_has_variable(t, "x"));
    assert_false(template_has_variable(t, "tools"));
    assert_false(template_has_variable(t, "system"));
    template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),  cmocka_unit_test(test_kept),
        cmocka_unit_test(test_dropped),  cmocka_unit_test(test_appending),
        cmocka_unit_test(test_mentions),
    };
    return cmocka_run_group_tests_name("template_origins", tests, NULL, NULL);
}
