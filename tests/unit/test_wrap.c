/* Rows of text: clusters and their columns, where rows end, and that nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/philox.h"
#include "ui/wrap.h"

static void cluster_is(const char *s, size_t len, int columns)
{
    int got;
    assert_int_equal(wrap_cluster(s, strlen(s), &got), len);
    assert_int_equal(got, columns);
}

static void clusters(void **state)
{
    (void)state;
    cluster_is("ab", 1, 1);
    cluster_is("\n", 1, 0);
    cluster_is("a\n", 1, 1);
    /* e and an acute accent; the same on a wide character; many of them */
    cluster_is("e\u0301x", 3, 1);
    cluster_is("\u6f22\u0301x", 5, 2);
    cluster_is("e\u0301\u0302\u0303\u0304\u0305\u0306x", 13, 1);
    /* an accent that has nothing to stand on still takes a column */
    cluster_is("\u0301", 2, 1);
    cluster_is("\u6f22\u5b57", 3, 2);
    cluster_is("\uff21", 3, 2);
    cluster_is("\U0001f600x", 4, 2);
    /* a family, a flag, a thumb with a skin: one each; columns as terminals add them up */
    cluster_is("\U0001f469\u200d\U0001f469\u200d\U0001f467x", 18, 6);
    cluster_is("\U0001f1e9\U0001f1ea\U0001f1eb", 8, 2);
    cluster_is("\U0001f44d\U0001f3fdx", 8, 4);
    cluster_is("\u2764\ufe0fx", 6, 1);
    /* Hangul by its parts, Devanagari with a spacing mark */
    cluster_is("\u1112\u1161\u11abx", 9, 2);
    cluster_is("\u0915\u093fx", 6, 2);
    /* bytes that are no UTF-8 do not stop it */
    cluster_is("\xff\xff", 1, 1);
    cluster_is("a\xcc", 1, 1);
    cluster_is("e\u0301\xff", 3, 1);
    cluster_is("\U0001f1e9\xff", 4, 1);
}

/* The rows of a text, with a bar at the end of each. */
static void rows_are(const char *s, int columns, const char *want)
{
    struct buf got = {0};
    size_t n = strlen(s);
    for (size_t at = 0;;) {
        struct wrap_row row = wrap_row(s + at, n - at, columns);
        buf_append(&got, s + at, row.len);
        buf_putc(&got, '|');
        if (row.next == 0) break;
        at += row.next;
    }
    assert_string_equal(buf_str(&got), want);
    buf_free(&got);
}

static void by_words(void **state)
{
    (void)state;
    rows_are("", 10, "|");
    rows_are("one two three", 20, "one two three|");
    rows_are("one two three", 13, "one two three|");
    rows_are("one two three", 12, "one two|three|");
    rows_are("one two three", 7, "one two|three|");
    rows_are("one two three", 6, "one|two|three|");
    rows_are("one\ntwo\n", 10, "one|two||");
    rows_are("\n\na", 10, "||a|");
    /* blanks at the edge belong to no row, those at the beginning of a line to the first */
    rows_are("one    two", 5, "one|two|");
    rows_are("  one two", 7, "  one|two|");
    rows_are("one ", 3, "one |");
    rows_are("one \ntwo", 3, "one |two|");
    /* a word longer than a row is cut, from where it begins */
    rows_are("abcdefghij", 4, "abcd|efgh|ij|");
    rows_are("a bcdefghij", 4, "a|bcde|fghi|j|");
    rows_are("    abcdef", 3, "|abc|def|");
    rows_are("ab\tcd", 10, "ab\tcd|");
    rows_are("ab\tcd", 9, "ab|cd|");
}

static void wide_text(void **state)
{
    (void)state;
    /* ideographs may part anywhere, but a full stop does not begin a row */
    rows_are("\u6f22\u5b57\u6f22\u5b57", 4, "\u6f22\u5b57|\u6f22\u5b57|");
    rows_are("\u6f22\u5b57\u6f22\u5b57", 5, "\u6f22\u5b57|\u6f22\u5b57|");
    rows_are("\u6f22\u5b57\u3002\u6f22", 4, "\u6f22|\u5b57\u3002|\u6f22|");
    rows_are("ab\u6f22\u5b57", 5, "ab\u6f22|\u5b57|");
    for (const char *c = "\u3001\u3002\uff0c\uff0e\uff1a\uff1b\uff01\uff1f\u300d\u300f\uff09";
         *c; c += 3)
        assert_true(wrap_closes(c, 3) && !wrap_closes(c, 2));
    for (const char *c = "\u300c\u300e\uff08\u6f22\u3042"; *c; c += 3)
        assert_false(wrap_closes(c, 3));
    /* a cluster is never cut, nor does an accent make a word longer */
    rows_are("e\u0301e\u0301e\u0301", 2, "e\u0301e\u0301|e\u0301|");
    rows_are("\U0001f600\U0001f600", 3, "\U0001f600|\U0001f600|");
    /* wider than the row: alone in it */
    rows_are("\u6f22\u5b57", 1, "\u6f22|\u5b57|");
}

static void measures(void **state)
{
    (void)state;
    int used;
    assert_int_equal(wrap_width("ab\u6f22", 5, 0), 4);
    assert_int_equal(wrap_width("\tx", 2, 0), 9);
    assert_int_equal(wrap_width("\tx", 2, 7), 2);
    assert_int_equal(wrap_fit("ab\u6f22\u5b57", 8, 5, &used), 5);
    assert_int_equal(used, 4);
    assert_int_equal(wrap_fit("e\u0301e\u0301", 6, 1, NULL), 3);
    assert_int_equal(wrap_fit("ab\tcd", 5, 9, &used), 4);
    assert_int_equal(wrap_fit("ab\tcd", 5, 7, &used), 2);
    struct wrap_row row = wrap_row_exact("ab  cd", 6, 3);
    assert_int_equal(row.len, 3);
    assert_int_equal(row.next, 3);
    row = wrap_row_exact("ab\ncd", 5, 3);
    assert_int_equal(row.len, 2);
    assert_int_equal(row.next, 3);
}

/* Random text in rows: every byte but blanks and line breaks is in one row, no row is wider
 * than it may be, and rows begin where clusters do. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static const char *const parts[] = {"a",           "bc",      " ",
                                        "  ",          "\n",      "\t",
                                        "\u6f22",      "e\u0301", "\U0001f600",
                                        "long-word",   "\u0301",  "\U0001f469\u200d\U0001f467",
                                        "\u0915\u093f"};
    enum { N_PARTS = sizeof parts / sizeof *parts };
    for (uint32_t round = 0; round < 2000; round++) {
        struct buf text = {0};
        for (uint32_t i = 0; i < 40; i++)
            buf_puts(&text, parts[philox(1, round, i, 0, PHILOX_BENCH).word[0] % N_PARTS]);
        int columns = 1 + (int)(philox(1, round, 0, 1, PHILOX_BENCH).word[0] % 20);
        const char *s = buf_str(&text);
        for (size_t at = 0; at < text.len;) {
            struct wrap_row row = wrap_row(s + at, text.len - at, columns);
            size_t end = row.next ? row.next : text.len - at, fits;
            assert_true(row.len <= end);
            /* What had no say in it may be anything, or nothing. */
            const struct wrap_row cut = wrap_row(s + at, row.seen, columns);
            assert_true(cut.len == row.len && cut.next == row.next);
            for (size_t i = row.len; i < end; i++)
                assert_non_null(strchr(" \t\n", s[at + i]));
            for (fits = row.len; fits > 0 && strchr(" \t", s[at + fits - 1]); fits--)
                ;
            int first;
            size_t one = wrap_cluster(s + at, text.len - at, &first);
            assert_true(fits <= one || wrap_width(s + at, fits, 0) <= columns);
            if (row.next == 0) break;
            at += row.next;
        }
        buf_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clusters),        cmocka_unit_test(by_words),
        cmocka_unit_test(wide_text),       cmocka_unit_test(measures),
        cmocka_unit_test(nothing_is_lost),
    };
    return cmocka_run_group_tests_name("wrap", tests, NULL, NULL);
}
