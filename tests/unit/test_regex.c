/* Patterns: which texts they match, as others found it, as themselves and in a string of JSON.
 */
#include <locale.h>
#include <regex.h>
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
#include "text/regex.h"
#include "text/schema.h"

struct sized {
    const char *data;
    size_t len;
};

/* What re.search of Python 3 found with re.ASCII: an x for each of the texts that the pattern
 * matches. Where the notations differ, the pattern was put in Python's words: $ as \Z, . and \s
 * as the characters that ECMA-262 says. */
static const struct sized texts[] = {
    {"", 0},
    {"a", 1},
    {"b", 1},
    {"c", 1},
    {"ab", 2},
    {"ba", 2},
    {"abc", 3},
    {"aa", 2},
    {"aaa", 3},
    {"aaaa", 4},
    {"aaaaaaaa", 8},
    {"abab", 4},
    {"ababab", 6},
    {"aab", 3},
    {"bbb", 3},
    {"bc", 2},
    {"ac", 2},
    {"-", 1},
    {"a-c", 3},
    {"]", 1},
    {"^", 1},
    {"a^", 2},
    {".", 1},
    {"1", 1},
    {"12", 2},
    {"1.5", 3},
    {"007", 3},
    {"A", 1},
    {"AB12", 4},
    {"_", 1},
    {" ", 1},
    {"\011", 1},
    {"\012", 1},
    {"\015", 1},
    {"\015\012", 2},
    {"\011\012", 2},
    {"\000", 1},
    {"\010", 1},
    {"\013", 1},
    {"\037", 1},
    {"\177", 1},
    {"\"", 1},
    {"\\", 1},
    {"\"\\", 2},
    {"a/b", 3},
    {"\302\240", 2},
    {"\342\200\250", 3},
    {"\357\273\277", 3},
    {"\303\251", 2},
    {"\303\274", 2},
    {"\342\202\254", 3},
    {"\360\237\230\200", 4},
    {"\360\237\231\217", 4},
    {"\364\217\277\277", 4},
    {"\357\277\277", 3},
    {"2024-02-28", 10},
    {"#00fF7a", 7},
    {"me@x.org", 8},
    {"(555) 123-4567", 14},
    {"555-1234", 8},
    {"x1", 2},
    {"ax1b", 4},
    {"d", 1},
    {"a}", 2},
    {"a]", 2},
    {"$^*+?()[]{}|", 12},
    {"a\012b", 3},
    {"one two", 7},
};

static const struct {
    const char *pattern, *texts;
} patterns[] = {
    {"", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
    {"^$", "x..................................................................."},
    {"a", ".x..xxxxxxxxxx..x.x..x......................x...........x....x.xx.x."},
    {"^a", ".x..x.xxxxxxxx..x.x..x......................x................x.xx.x."},
    {"a$", ".x...x.xxxx.............................................x..........."},
    {"^a$", ".x.................................................................."},
    {"^abc$", "......x............................................................."},
    {"^a|b$", ".xx.x.xxxxxxxxx.x.x..x......................x................x.xx.x."},
    {"^(a|b)$", ".xx................................................................."},
    {"^(?:a|b)c?$", ".xx............xx..................................................."},
    {"^(ab|a)(bc|c)?$", ".x..x.x.........x..................................................."},
    {"^a*$", "xx.....xxxx........................................................."},
    {"^a+$", ".x.....xxxx........................................................."},
    {"^a?b$", "..x.x..............................................................."},
    {"^a{3}$", "........x..........................................................."},
    {"^a{2,}$", ".......xxxx........................................................."},
    {"^a{1,3}$", ".x.....xx..........................................................."},
    {"^(ab){2,3}$", "...........xx......................................................."},
    {"^a{0}$", "x..................................................................."},
    {"^(a*)*$", "xx.....xxxx........................................................."},
    {"^(a*b?){2,4}$", "xxx.xx.xxxxxxxx....................................................."},
    {"^(a|b*)+$", "xxx.xx.xxxxxxxx....................................................."},
    {"^(?:)*a$", ".x.................................................................."},
    {"^a+?b*?c?\?$", ".x..x.xxxxx..x..x..................................................."},
    {"^a{1,2}?$", ".x.....x............................................................"},
    {"^[abc]+$", ".xxxxxxxxxxxxxxxx..................................................."},
    {"^[a-c]$", ".xxx................................................................"},
    {"^[^a-c]$", ".................x.xx.xx...x.xxxxx..xxxxxxx..xxxxxxxxxx.......x....."},
    {"^[^]$", ".xxx.............x.xx.xx...x.xxxxx..xxxxxxx..xxxxxxxxxx.......x....."},
    {"^[-a]+$", ".x.....xxxx......x.................................................."},
    {"^[a\\-c]+$", ".x.x...xxxx.....xxx................................................."},
    {"^[\\]^]+$", "...................xx..............................................."},
    {"^[a^]+$", ".x.....xxxx.........xx.............................................."},
    {"^.$", ".xxx.............x.xx.xx...x.xxx....xxxxxxx..x.xxxxxxxx.......x....."},
    {"^..$", "....xx.x.......xx....x..x..................x................x..xx..."},
    {"^.*$", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx....xxxxxxxxxx.xxxxxxxxxxxxxxxxxxx.x"},
    {"^\\d+$", ".......................xx.x........................................."},
    {"^\\D+$", ".xxxxxxxxxxxxxxxxxxxxxx....x.xxxxxxxxxxxxxxxxxxxxxxxxxx..x....xxxxxx"},
    {"^\\w+$", ".xxxxxxxxxxxxxxxx......xx.xxxx..............................xxx....."},
    {"^\\W+$", ".................x.xx.x.......xxxxxxxxxxxxxx.xxxxxxxxxx..........x.."},
    {"^\\s+$", "..............................xxxxxx..x......xxx...................."},
    {"^\\S+$", ".xxxxxxxxxxxxxxxxxxxxxxxxxxxxx......xx.xxxxxx...xxxxxxxxxx.xxxxxxx.."},
    {"^[\\d.]+$", "......................xxxxx........................................."},
    {"^[\\W\\d]+$", ".................x.xx.xxxxx...xxxxxxxxxxxxxx.xxxxxxxxxxx..xx.....x.."},
    {"^[^\\s\\d]+$", ".xxxxxxxxxxxxxxxxxxxxxx....x.x......xx.xxxxxx...xxxxxxx..x....xxxx.."},
    {"^\\.$", "......................x............................................."},
    {"^a\\/b$", "............................................x......................."},
    {"^\\\\$", "..........................................x........................."},
    {"^\"$", ".........................................x.........................."},
    {"^[\"\\\\]+$", ".........................................xxx........................"},
    {"^\\n$", "................................x..................................."},
    {"^\\t?\\r?\\n$", "................................x.xx................................"},
    {"^\\x41$", "...........................x........................................"},
    {"^\\u0041$", "...........................x........................................"},
    {"^\\u{1f600}$", "...................................................x................"},
    {"^\\ud83d\\ude00$",
     "...................................................x................"},
    {"^[\\u{1f600}-\\u{1f64f}]$",
     "...................................................xx..............."},
    {"^\\cJ$", "................................x..................................."},
    {"^\\0$", "....................................x..............................."},
    {"^[\\b]$", ".....................................x.............................."},
    {"^[\\x00-\\x1f]+$",
     "...............................xxxxxxxxx............................"},
    {"^[^\\x00-\\x1f]+$",
     ".xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.........xxxxxxxxxxxxxxxxxxxxxxxxxx.x"},
    {"^\303\251$", "................................................x..................."},
    {"^[\303\240-\303\274]+$",
     "................................................xx.................."},
    {"^[\303\251\342\202\254]$",
     "................................................x.x................."},
    {"^[A-Z]{2}\\d{2}$",
     "............................x......................................."},
    {"^\\d{4}-\\d{2}-\\d{2}$",
     ".......................................................x............"},
    {"^#[0-9a-fA-F]{6}$",
     "........................................................x..........."},
    {"^[^@]+@[^@]+\\.[a-z]{2,}$",
     ".........................................................x.........."},
    {"^(\\(\\d{3}\\))? ?\\d{3}-\\d{4}$",
     "..........................................................xx........"},
    {"^(0|[1-9]\\d*)(\\.\\d+)?$",
     ".......................xxx.........................................."},
    {"x\\d", "............................................................xx......"},
    {"^a|^b|c$|d", ".xxxxxxxxxxxxxxxx.x..x......................x................xxxx.x."},
    {"()", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
    {"^(|a)$", "xx.................................................................."},
    {"|a", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
    {"^a}$", "...............................................................x...."},
    {"^a]$", "................................................................x..."},
    {"^(((((a)))))$", ".x.................................................................."},
    {"^(?:(?:a{2}){2}){2}$",
     "..........x........................................................."},
    {"^\\$\\^\\*\\+\\?\\(\\)\\[\\]\\{\\}\\|$",
     ".................................................................x.."},
};

enum {
    N_TEXTS = sizeof texts / sizeof *texts,
    N_PATTERNS = sizeof patterns / sizeof *patterns
};

static struct matcher *plain_of(const char *pattern)
{
    struct err err;
    struct grammar *g = grammar_new();
    grammar_place at;
    grammar_rule(g);
    if (!regex_place(g, pattern, strlen(pattern), chars_place, GRAMMAR_END, &at, &err))
        fail_msg("%s: %s", pattern, err.msg);
    grammar_begin(g, 0, at);
    assert_true(grammar_finish(g));
    struct matcher *m = matcher_new(g);
    grammar_release(g);
    return m;
}

static struct grammar *schema_of(const char *pattern, struct err *err)
{
    json_t *schema = json_pack("{ss}", "pattern", pattern);
    char *text = json_dumps(schema, 0);
    struct grammar *g = schema_grammar(text, strlen(text), err);
    free(text);
    json_decref(schema);
    return g;
}

static struct matcher *in_json_of(const char *pattern)
{
    struct err err;
    struct grammar *g = schema_of(pattern, &err);
    if (!g) fail_msg("%s: %s", pattern, err.msg);
    struct matcher *m = matcher_new(g);
    grammar_release(g);
    return m;
}

static bool is_text(struct matcher *m, const char *s, size_t n)
{
    return matcher_may_end(m, matcher_steps(m, MATCHER_START, s, n));
}

/* The one way that each character is written. */
static void write_json(struct buf *out, const char *s, size_t n)
{
    static const char letters[] = "\"\"\\\\\nn\rr\tt\bb\ff";
    buf_clear(out);
    buf_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)s[i];
        const char *found = NULL;
        for (const char *p = letters; *p && !found; p += 2)
            if (*p == (char)c) found = p + 1;
        if (found)
            buf_printf(out, "\\%c", *found);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else
            buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

static void test_matches(void **state)
{
    struct buf json = {0};
    (void)state;
    assert_in_range(N_PATTERNS, 40, 1000);
    for (size_t i = 0; i < N_PATTERNS; i++) {
        struct matcher *plain = plain_of(patterns[i].pattern);
        struct matcher *in_json = in_json_of(patterns[i].pattern);
        assert_int_equal(strlen(patterns[i].texts), N_TEXTS);
        for (size_t k = 0; k < N_TEXTS; k++) {
            const bool want = patterns[i].texts[k] == 'x';
            write_json(&json, texts[k].data, texts[k].len);
            if (is_text(plain, texts[k].data, texts[k].len) != want ||
                is_text(in_json, json.data, json.len) != want)
                fail_msg("%s: %s", patterns[i].pattern, buf_str(&json));
        }
        matcher_free(plain);
        matcher_free(in_json);
    }
    buf_free(&json);
}

/* Characters that can be written otherwise in JSON are written one way, and nothing broken. */
static void test_one_way(void **state)
{
    static const char *const others[] = {
        "\"\\u0041\"", "\"\\/\"",   "\"\\u000a\"", "\"\\u0022\"",
        "\"\\u001F\"", "\"\x7f\"",  "\"\n\"",      "\"\\x\"",
        "\"\"\"",      "\"\\\"",    "\"\\u00\"",   "\"\\u00e9\"",
        "\"\xc3\"",    "\"\\u07\"", "\"\\ud800\"", "\"\xed\xa0\x80\"",
        "a",           "",
    };
    (void)state;
    struct matcher *m = in_json_of("^[^]$");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_text(m, others[i], strlen(others[i]))) fail_msg("%s", others[i]);
    assert_true(is_text(m, "\"/\"", 3));
    assert_true(is_text(m, "\"\\u001f\"", 8));
    matcher_free(m);
}

/* Whether POSIX means the same by it in any place of the world. */
static bool is_posix(const char *pattern)
{
    static const char *const ours[] = {"\\", ".",  "(?", "[^]", "??",
                                       "+?", "*?", "}?", "()",  "(|"};
    bool same = *pattern && *pattern != '|';
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        same &= !strstr(pattern, ours[i]);
    for (const char *p = pattern; *p; p++)
        same &= (uint8_t)*p < 0x80;
    return same;
}

/* What is written byte by byte is JSON, says what the pattern matches, and so another program
 * finds it. */
static void test_written_texts(void **state)
{
    struct buf json = {0}, again = {0};
    size_t n_whole = 0, n_posix = 0;
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    for (size_t i = 0; i < N_PATTERNS; i++) {
        const bool has_posix = is_posix(patterns[i].pattern);
        struct matcher *plain = plain_of(patterns[i].pattern);
        struct matcher *in_json = in_json_of(patterns[i].pattern);
        regex_t posix;
        if (has_posix)
            assert_int_equal(regcomp(&posix, patterns[i].pattern, REG_EXTENDED | REG_NOSUB), 0);
        for (uint64_t seed = 0; seed < 100; seed++) {
            if (!random_text(in_json, seed, 400, &json)) continue;
            n_whole++;
            json_error_t at;
            json_t *value =
                json_loadb(json.data, json.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &at);
            if (!value) fail_msg("%s: %s: %s", patterns[i].pattern, buf_str(&json), at.text);
            const char *text = json_string_value(value);
            const size_t len = json_string_length(value);
            write_json(&again, text, len);
            const size_t skipped = strcspn(json.data, "\"");
            assert_int_equal(json.len - skipped, again.len);
            assert_memory_equal(json.data + skipped, again.data, again.len);
            if (!is_text(plain, text, len)) fail_msg("%s: %s", patterns[i].pattern, json.data);
            if (has_posix && strlen(text) == len) {
                n_posix++;
                if (regexec(&posix, text, 0, NULL, 0) != 0)
                    fail_msg("%s: %s", patterns[i].pattern, json.data);
            }
            json_decref(value);
        }
        if (has_posix) regfree(&posix);
        matcher_free(plain);
        matcher_free(in_json);
    }
    assert_true(n_whole > 6000 && n_posix > 2000);
    buf_free(&json);
    buf_free(&again);
}

static void test_refusals(void **state)
{
    static const char *const refused[][2] = {
        {"(?=a)", "character 1: what looks ahead or behind cannot be kept to"},
        {"a(?!b)", "character 2: what looks ahead or behind"},
        {"(?<=a)b", "character 1: what looks ahead or behind"},
        {"(?<!a)b", "character 1: what looks ahead or behind"},
        {"(?<year>\\d)", "character 1: a group with a name is not supported"},
        {"(?i)a", "character 1: '(?' without a colon"},
        {"(a)\\1", "character 4: a reference to a group (\\1) cannot be kept to"},
        {"\\k<a>", "character 1: a reference by name"},
        {"\\bword", "character 1: a border of a word (\\b) cannot be kept to"},
        {"\u00e9\\B", "character 2: a border of a word (\\B)"},
        {"\\p{L}", "character 1: a property of Unicode (\\p)"},
        {"[\\P{L}]", "character 2: a property of Unicode (\\P)"},
        {"a^b", "character 2: ^ can be kept to at an end of the pattern only"},
        {"(^a)", "character 2: ^ can be kept to"},
        {"a$b", "character 2: $ can be kept to"},
        {"(a$|b)", "character 3: $ can be kept to"},
        {"$$", "character 1: $ can be kept to"},
        {"^^", "character 2: ^ can be kept to"},
        {"*", "character 1: there is nothing to repeat"},
        {"^*", "character 2: there is nothing to repeat"},
        {"a**", "character 3: there is nothing to repeat"},
        {"a|+", "character 3: there is nothing to repeat"},
        {"(?:+)", "character 4: there is nothing to repeat"},
        {"{", "character 1: a { that is no count is written as \\{"},
        {"a{", "character 2: expected a count, as {2}, {2,} or {2,5}"},
        {"a{,3}", "character 2: expected a count"},
        {"a{1;2}", "character 2: expected a count"},
        {"a{3,2}", "character 2: the most is below the least"},
        {"a{10001}", "character 2: more than 10000 cannot be counted out"},
        {"a{1,99999999999}", "character 2: more than 10000 cannot be counted out"},
        {"(a", "character 1: a group without its )"},
        {"a)", "character 2: a ) without its group"},
        {"[a", "character 1: a class without its ]"},
        {"[", "character 1: a class without its ]"},
        {"a[]", "character 2: a class that no character is of"},
        {"[^\\s\\S]", "character 1: a class that no character is of"},
        {"[z-a]", "character 2: a range that is none"},
        {"[\\d-x]", "character 2: a range that is none"},
        {"[a-\\w]", "character 2: a range that is none"},
        {"\\", "character 1: a \\ with nothing behind it"},
        {"\\q", "character 1: an escape that is none of a character"},
        {"\\x4", "character 1: an escape that is none"},
        {"\\u00", "character 1: an escape that is none"},
        {"\\ud800", "character 1: an escape that is none"},
        {"\\ud800\\u0041", "character 1: an escape that is none"},
        {"\\u{110000}", "character 1: an escape that is none"},
        {"\\u{}", "character 1: an escape that is none"},
        {"\\u{41", "character 1: an escape that is none"},
        {"\\c1", "character 1: an escape that is none"},
        {"\\01", "character 1: an escape that is none"},
        {"[\\c]", "character 2: an escape that is none"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct err err = {0};
        struct buf want = {0};
        if (schema_of(refused[i][0], &err)) fail_msg("accepted: %s", refused[i][0]);
        assert_int_equal(err.code, ERR_FORMAT);
        buf_printf(&want, "/: pattern: %s", refused[i][1]);
        if (strncmp(err.msg, buf_str(&want), want.len) != 0)
            fail_msg("%s: %s", refused[i][0], err.msg);
        buf_free(&want);
    }
}

static void nest(struct buf *out, size_t depth)
{
    buf_clear(out);
    buf_putc(out, '^');
    for (size_t i = 0; i < depth; i++)
        buf_putc(out, '(');
    buf_putc(out, 'a');
    for (size_t i = 0; i < depth; i++)
        buf_putc(out, ')');
    buf_putc(out, '$');
}

/* As much as can be counted out is, and what is more is told. */
static void test_bounds(void **state)
{
    struct buf text = {0};
    struct err err;
    (void)state;
    struct matcher *m = plain_of("^([ab]{100}){100}$");
    for (size_t i = 0; i < 10000; i++)
        buf_putc(&text, i % 3 ? 'a' : 'b');
    assert_true(is_text(m, text.data, text.len));
    assert_false(is_text(m, text.data, text.len - 1));
    matcher_free(m);
    m = plain_of("^\\w{0,10000}$");
    assert_true(is_text(m, text.data, text.len));
    buf_putc(&text, 'a');
    assert_false(is_text(m, text.data, text.len));
    matcher_free(m);
    nest(&text, EXPR_MAX_DEPTH);
    m = plain_of(buf_str(&text));
    assert_true(is_text(m, "a", 1));
    matcher_free(m);
    nest(&text, EXPR_MAX_DEPTH + 1);
    assert_null(schema_of(buf_str(&text), &err));
    assert_non_null(strstr(err.msg, "groups in groups beyond 100"));
    buf_clear(&text);
    for (size_t i = 0; i < 110; i++)
        buf_puts(&text, "[ab]{10000}");
    assert_null(schema_of(buf_str(&text), &err));
    assert_non_null(strstr(err.msg, "too large"));
    buf_free(&text);
}

/* Where a text could be anywhere, memory ends before the text does. */
static void test_many_places(void **state)
{
    static const char *const nested[] = {
        "^((a?){0,10000}){0,10000}$",
        "^(a{0,10000}){0,10000}$",
        "^((((a*b?){0,99}){0,99}){0,99}a){0,99}$",
    };
    (void)state;
    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++) {
        struct matcher *m = plain_of(nested[i]);
        matcher_state s = MATCHER_START;
        for (size_t k = 0; k < 100; k++)
            s = matcher_step(m, s, 'a');
        assert_true(matcher_may_go_on(m, s));
        matcher_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches),       cmocka_unit_test(test_one_way),
        cmocka_unit_test(test_written_texts), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bounds),        cmocka_unit_test(test_many_places),
    };
    return cmocka_run_group_tests_name("regex", tests, NULL, NULL);
}
