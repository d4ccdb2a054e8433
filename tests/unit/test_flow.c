/* Text on its way to a terminal: rows end between words, nothing else changes, whatever the
 * pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../soak.h"
#include "base/buf.h"
#include "base/philox.h"
#include "ui/flow.h"

/* Raw without sequences, none of which is open at the end. */
static void bare(const struct buf *raw, struct buf *out)
{
    buf_clear(out);
    bool is_open = false;
    for (size_t i = 0; i < raw->len; i++) {
        if (raw->data[i] == '\033') {
            is_open = strncmp(raw->data + i, "\033[0m", 4) != 0;
            while (raw->data[i] != 'm')
                i++;
            continue;
        }
        buf_putc(out, raw->data[i]);
    }
    assert_false(is_open);
}

/* What comes of a text that is given in pieces of `piece` characters, sequences left out. */
static void shown(const char *s, size_t n, int columns, size_t piece, struct buf *out)
{
    struct flow flow = {.colours = true, .columns = columns};
    struct buf raw = {0};
    for (size_t i = 0, end; i < n; i = end) {
        end = i;
        for (size_t k = 0; k < piece && end < n; k++)
            do
                end++;
            while (end < n && (s[end] & 0xc0) == 0x80);
        flow_reply(&flow, s + i, end - i, &raw);
    }
    flow_end(&flow, &raw);
    flow_free(&flow);
    bare(&raw, out);
    buf_free(&raw);
}

static void comes(const char *s, int columns, const char *want)
{
    struct buf out = {0};
    for (size_t piece = 1; piece < 40; piece += piece < 4 ? 1 : 9) {
        shown(s, strlen(s), columns, piece, &out);
        assert_string_equal(buf_str(&out), want);
    }
    buf_free(&out);
}

static void words(void **unused)
{
    (void)unused;
    comes("", 10, "");
    comes("one two three", 13, "one two three");
    comes("one two three", 12, "one two\nthree");
    comes("one two three", 7, "one two\nthree");
    comes("one two\nthree\n", 7, "one two\nthree\n");
    /* the blanks go; those before a line break stay where there is room */
    comes("one   two  three  \nx", 12, "one   two\nthree  \nx");
    comes("one two     \nx", 7, "one two\nx");
    comes("one   two", 9, "one   two");
    comes("one   two", 8, "one\ntwo");
    comes("  one two", 6, "  one\ntwo");
    /* an accent takes no column, an ideograph two */
    comes("e\u0301e\u0301 e\u0301e\u0301", 5, "e\u0301e\u0301 e\u0301e\u0301");
    comes("123456 \u0301 abcdef", 10, "123456 \u0301\nabcdef");
    comes("ab \u65e5\u672c", 5, "ab \u65e5\n\u672c");
    comes("\u65e5\u672c\u8a9e\u3067\u3059\u3002\u6b21", 6,
          "\u65e5\u672c\u8a9e\n\u3067\u3059\u3002\n\u6b21");
    /* a letter with an accent is no place to break, the side of an ideograph is one */
    comes("one na\u00efve", 7, "one\nna\u00efve");
    comes("abc\u65e5", 4, "abc\n\u65e5");
    comes("\u65e5\u672c\u0301abc", 6, "\u65e5\u672c\u0301\nabc");
    /* a tab ends at the next eighth column */
    comes("ab\tc", 9, "ab\tc");
    comes("ab\tcd", 9, "ab\ncd");
    comes("123456789\tabcdefgh", 24, "123456789\tabcdefgh");
    comes("123456789\tabcdefgh", 23, "123456789\nabcdefgh");
    /* marks of Markdown are part of their words */
    comes("one **two** `three`", 11, "one **two**\n`three`");
    comes("- item one\n- item two", 8, "- item\none\n- item\ntwo");
}

static void left_alone(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "averyveryverylongword",
        "```c\nint a = b + c + d + e;\n```",
        "| a | b b b b b | c |\n|---|---|---|",
        "            ```\nint a;\n```",
        ">>>>>>>>>> ```\n>>>>>>>>>>    a\n",
        "    ",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        comes(texts[i], 10, texts[i]);
    /* where rows are nobody's business */
    comes("one two three four five six", 0, "one two three four five six");
    /* a word longer than a row goes on from a row of its own, unbroken */
    comes("a averyveryverylongword b", 10, "a\naveryveryverylongword b");
    comes("```\na b c d e f g\n```\na b c d e f g", 5,
          "```\na b c d e f g\n```\na b c\nd e f\ng");
}

/* Far from the edge a character is shown at once; near it, once its word is known to fit. */
static void streaming(void **unused)
{
    (void)unused;
    struct flow flow = {.columns = 40};
    struct buf out = {0};
    flow_plain(&flow, "a few wor", 9, &out);
    assert_string_equal(buf_str(&out), "a few wor");
    flow_plain(&flow, "ds and then some more mo", 24, &out);
    assert_string_equal(buf_str(&out), "a few words and then some more");
    flow_plain(&flow, "re o", 4, &out);
    assert_string_equal(buf_str(&out), "a few words and then some more more");
    flow_plain(&flow, "f this", 6, &out);
    assert_string_equal(buf_str(&out), "a few words and then some more more of\nthis");
    flow_end(&flow, &out);
    buf_clear(&out);
    /* a terminal that becomes narrower loses no blank between words */
    flow.columns = 40;
    flow_plain(&flow, "a few words and then some mo", 28, &out);
    flow.columns = 20;
    flow_plain(&flow, "re words", 8, &out);
    flow_end(&flow, &out);
    assert_string_equal(buf_str(&out), "a few words and then some\nmore words");
    buf_clear(&out);
    /* and breaks the row that it is in, which goes on in the next: here 15 of 20 columns */
    flow.columns = 40;
    flow_plain(&flow, "\n1234567890123456789012345", 26, &out);
    flow.columns = 20;
    flow_plain(&flow, "6789012345 abcdef", 17, &out);
    flow_end(&flow, &out);
    assert_string_equal(buf_str(&out), "\n12345678901234567890123456789012345\nabcdef");
    flow_free(&flow);
    buf_free(&out);
}

static void looks_at_the_edge(void **unused)
{
    (void)unused;
    struct flow flow = {.colours = true, .columns = 16};
    struct buf out = {0};
    /* the look of a held word comes out with it, and none is open before */
    flow_reply(&flow, "one two **thr", 13, &out);
    assert_string_equal(buf_str(&out), "one two");
    flow_reply(&flow, "ee** x", 6, &out);
    flow_end(&flow, &out);
    assert_string_equal(buf_str(&out), "one two\n\033[1;2m**\033[0m\033[1mthr\033[0m\033[1mee"
                                       "\033[0m\033[1;2m**\033[0m x");
    buf_clear(&out);
    flow_reply(&flow, "**one two thr", 13, &out);
    assert_string_equal(buf_str(&out), "\033[1;2m**\033[0m\033[1mone two\033[0m");
    flow_reply(&flow, "ee**", 4, &out);
    flow_end(&flow, &out);
    assert_string_equal(buf_str(&out),
                        "\033[1;2m**\033[0m\033[1mone two\033[0m\033[1m\nthr\033[0m\033[1mee"
                        "\033[0m\033[1;2m**\033[0m");
    flow_free(&flow);
    buf_free(&out);
}

/* A message stands between two pieces of a reply. */
static void pauses(void **unused)
{
    (void)unused;
    static const struct {
        const char *before, *after, *want;
    } cases[] = {
        {"```\nint a = b", " + c + d + e;\n```\na b c d e f g",
         "```\nint a = b|\n + c + d + e;\n```\na b c d\ne f g"},
        {"```", "c\nint a = b + c + d;\n```\na b c d e f g",
         "|\n```c\nint a = b + c + d;\n```\na b c d\ne f g"},
        {"| a | b", " | c c c c |\na b c d e", "| a | b|\n | c c c c |\na b c d\ne"},
        {"one two th", "ree four", "one two\nth|\nree four"},
        {"a **b", "** c d e f", "a **b|\n** c d e\nf"},
    };
    struct buf out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int colours = 0; colours < 2; colours++) {
            struct flow flow = {.colours = colours, .columns = 8};
            struct buf raw = {0};
            flow_reply(&flow, cases[i].before, strlen(cases[i].before), &raw);
            flow_pause(&flow, &raw);
            buf_puts(&raw, "|\n");
            flow_reply(&flow, cases[i].after, strlen(cases[i].after), &raw);
            flow_end(&flow, &raw);
            flow_free(&flow);
            bare(&raw, &out);
            assert_string_equal(buf_str(&out), cases[i].want);
            buf_free(&raw);
        }
    buf_free(&out);
}

static void lines(void **unused)
{
    (void)unused;
    struct buf out = {0};
    flow_lines("a line of words", 15, 9, &out);
    assert_string_equal(buf_str(&out), "a line of\nwords");
    buf_clear(&out);
    flow_lines("three lines\n```\nof code, say\n```", 33, 9, &out);
    assert_string_equal(buf_str(&out), "three\nlines\n```\nof code, say\n```");
    buf_free(&out);
}

/* Whether b is a with line breaks for some of its blanks, and no others changed. */
static bool is_broken(const char *a, const char *b)
{
    while (*a || *b) {
        if (*a == *b) {
            a++, b++;
        } else if (*b == '\n') {
            /* where there are no blanks, ideographs part */
            b++;
            a += strspn(a, " \t");
            if (*a == '\n') a++;
        } else if (*a == ' ' || *a == '\t') {
            /* blanks beyond the edge */
            a += strspn(a, " \t");
            if (*a && *a != '\n') return false;
        } else {
            return false;
        }
    }
    return true;
}

static void random_texts(void **unused)
{
    (void)unused;
    static const char *const parts[] = {
        "a",  "word", " ", " ", "  ",  "\n", "**", "`",       "\t",          "日",
        "。", "本語", "é", "|", "```", "- ", "> ", "e\u0301", "👩‍💻", "averylongword",
        "x ", " y",   "#", "*"};
    const int n_texts = 3000 * (int)soak();
    struct buf text = {0}, whole = {0}, out = {0};
    for (int i = 0; i < n_texts; i++) {
        struct philox_block r = {{0}};
        buf_clear(&text);
        for (uint32_t k = 0; k < 5 + (uint32_t)(i % 60); k++) {
            r = philox((uint64_t)i, k, 0, 0, PHILOX_BENCH);
            buf_puts(&text, parts[r.word[0] % (sizeof parts / sizeof *parts)]);
        }
        int columns = 4 + (int)(r.word[1] % 60);
        shown(text.data, text.len, columns, text.len, &whole);
        shown(text.data, text.len, columns, 1, &out);
        assert_string_equal(buf_str(&out), buf_str(&whole));
        shown(text.data, text.len, columns, 2 + r.word[2] % 5, &out);
        assert_string_equal(buf_str(&out), buf_str(&whole));
        if (!is_broken(buf_str(&text), buf_str(&whole)))
            fail_msg("%d columns:\n%s\nbecame\n%s", columns, buf_str(&text), buf_str(&whole));
    }
    buf_free(&text);
    buf_free(&whole);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),        cmocka_unit_test(left_alone),
        cmocka_unit_test(streaming),    cmocka_unit_test(looks_at_the_edge),
        cmocka_unit_test(pauses),       cmocka_unit_test(lines),
        cmocka_unit_test(random_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
