/* The transcript as rows: blocks, what is appended, folding, another width, search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/philox.h"
#include "ui/scrollback.h"
#include "ui/style.h"

static struct scrollback *s;

static int begin(void **state)
{
    (void)state;
    s = scrollback_new();
    scrollback_set_width(s, 12);
    return 0;
}

static int end(void **state)
{
    (void)state;
    scrollback_free(s);
    return 0;
}

static void put(enum block_kind kind, size_t message, const char *text)
{
    scrollback_put(s, kind, message, text, strlen(text));
}

static void append(const char *text)
{
    scrollback_append(s, text, strlen(text));
}

/* All rows, a bar behind each, blanks for margins, "=n" for a folded one. */
static void rows_are(const char *want)
{
    struct buf got = {0};
    size_t n = scrollback_n_rows(s);
    for (size_t i = 0; i < n; i++) {
        struct scrollback_row row = scrollback_row(s, i);
        for (int k = 0; k < row.margin && !row.is_folded; k++)
            buf_putc(&got, ' ');
        if (row.is_folded) buf_printf(&got, "=%zu", row.n_words);
        buf_append(&got, row.text, row.len);
        buf_putc(&got, '|');
    }
    assert_string_equal(buf_str(&got), want);
    buf_free(&got);
}

static void blocks(void **state)
{
    (void)state;
    rows_are("");
    put(BLOCK_USER, 0, "What is a page?");
    put(BLOCK_REPLY, 1, "A page holds 64 tokens.\n\nThat is all.\n");
    put(BLOCK_FIGURES, 1, "64 cached");
    rows_are("  What is a|  page?||A page holds|64 tokens.||That is all.|  64 cached|");
    scrollback_cut(s, 0);
    put(BLOCK_LITERAL, SCROLLBACK_NO_MESSAGE, "twelve columns  and  \n  so on\n\nx");
    rows_are("twelve colum|ns  and  |  so on||x|");
    scrollback_cut(s, 0);
    put(BLOCK_USER, 0, "What is a page?");
    put(BLOCK_REPLY, 1, "A page holds 64 tokens.\n\nThat is all.\n");
    put(BLOCK_FIGURES, 1, "64 cached");
    put(BLOCK_COMMAND, SCROLLBACK_NO_MESSAGE, "/x");
    put(BLOCK_ERROR, SCROLLBACK_NO_MESSAGE, "no");
    put(BLOCK_NOTE, SCROLLBACK_NO_MESSAGE, "yes");
    rows_are("  What is a|  page?||A page holds|64 tokens.||That is all.|  64 cached||  /x|"
             "no|yes|");
    scrollback_cut(s, 2);
    assert_int_equal(scrollback_n_blocks(s), 2);
    rows_are("  What is a|  page?||A page holds|64 tokens.||That is all.|");
    assert_int_equal(scrollback_block(s, 1).message, 1);
    assert_true(scrollback_row(s, 3).is_first);
    assert_false(scrollback_row(s, 4).is_first);
    assert_true(scrollback_row(s, 2).is_gap);
}

static void pieces(void **state)
{
    (void)state;
    scrollback_add(s, BLOCK_REPLY, 0);
    rows_are("|");
    append("\n\n");
    rows_are("|");
    append("one");
    rows_are("one|");
    append(" two three four");
    rows_are("one two|three four|");
    append("\n");
    rows_are("one two|three four|");
    append("\n- e");
    rows_are("one two|three four||- e|");
    append("\xcc\x81");
    rows_are("one two|three four||- e\xcc\x81|");
}

/* A tone mark makes the letter that it joins wide, and before a wide one a row may end: the row
 * above, which ended earlier for want of that, is cut anew. */
static void pieces_that_widen(void **state)
{
    (void)state;
    scrollback_add(s, BLOCK_REPLY, 0);
    append("\u30c8"
           "abcdefghij");
    rows_are("\u30c8"
             "abcdefghij|");
    append("k");
    rows_are("\u30c8|"
             "abcdefghijk|");
    append("\u302e");
    rows_are("\u30c8"
             "abcdefghij|k\u302e|");
    append("lm");
    rows_are("\u30c8"
             "abcdefghij|k\u302elm|");
}

/* The rows of an item stand below its text, not below its mark. */
static void items(void **state)
{
    (void)state;
    scrollback_add(s, BLOCK_REPLY, 0);
    append("- one two three four five\n");
    rows_are("- one two|  three four|  five|");
    append(" 2) six seven eight\nnine ten eleven\n");
    rows_are("- one two|  three four|  five| 2) six|    seven|    eight|nine ten|eleven|");
    scrollback_cut(s, 0);
    /* What is none, and a mark that would take too much of a row. */
    put(BLOCK_REPLY, 0, "-- one two three\n2.5 is a number\n      - one two");
    rows_are("-- one two|three|2.5 is a|number|      - one|two|");
    scrollback_cut(s, 0);
    put(BLOCK_USER, 0, "- one two three");
    rows_are("  - one two|  three|");
}

/* Puts a piece of message 1; returns its block. */
static size_t put_reply(const char *text, size_t n)
{
    scrollback_put(s, BLOCK_REPLY, 1, text, n);
    return scrollback_n_blocks(s) - 1;
}

/* The look of each of a block's n bytes, which every row asks for. */
static void looks_of_block(size_t block, unsigned *looks, size_t n)
{
    size_t n_spans, at = 0;
    scrollback_spans(s, block, &n_spans);
    const struct style_span *spans = scrollback_spans(s, block, &n_spans);
    for (size_t i = 0; i < n_spans; i++) {
        assert_int_equal(spans[i].start, at);
        for (size_t k = 0; k < spans[i].len; k++)
            looks[at++] = spans[i].look;
    }
    assert_int_equal(at, n);
}

/* Whatever the pieces and whoever looks meanwhile, the rows are those of the whole text. */
static void pieces_of_any_size(void **state)
{
    (void)state;
    static const char *const words[] = {
        "a ", "word ", "\n", "\n\n", "longer-than-a-row ", "\xe6\xbc\xa2", "e\xcc\x81",
        "  ", "\t",    "- ", "\n1. "};
    for (uint32_t round = 0; round < 300; round++) {
        struct buf text = {0};
        for (uint32_t i = 0; i < 30; i++)
            buf_puts(&text, words[philox(1, round, i, 0, PHILOX_BENCH).word[0] % 11]);
        scrollback_cut(s, 0);
        scrollback_add(s, BLOCK_REPLY, 0);
        for (size_t at = 0, n; at < text.len; at += n) {
            n = 1 + philox(1, round, (uint32_t)at, 1, PHILOX_BENCH).word[0] % 8;
            while (at + n < text.len && (text.data[at + n] & 0xc0) == 0x80)
                n++;
            if (n > text.len - at) n = text.len - at;
            scrollback_append(s, text.data + at, n);
            scrollback_n_rows(s);
        }
        struct scrollback *whole = scrollback_new();
        scrollback_set_width(whole, 12);
        scrollback_put(whole, BLOCK_REPLY, 0, text.data, text.len);
        assert_int_equal(scrollback_n_rows(s), scrollback_n_rows(whole));
        for (size_t i = 0; i < scrollback_n_rows(s); i++) {
            struct scrollback_row a = scrollback_row(s, i), b = scrollback_row(whole, i);
            assert_int_equal(a.at, b.at);
            assert_int_equal(a.len, b.len);
            assert_int_equal(a.margin, b.margin);
        }
        scrollback_free(whole);
        buf_free(&text);
    }
}

static void folding(void **state)
{
    (void)state;
    scrollback_fold(s, true);
    put(BLOCK_REASONING, 1, "Let me see now");
    rows_are("  Let me see|  now|");
    scrollback_end_reasoning(s);
    put(BLOCK_REPLY, 1, "Yes.");
    rows_are("=4||Yes.|");
    scrollback_fold(s, false);
    rows_are("  Let me see|  now||Yes.|");
    put(BLOCK_REASONING, 2, "Hm");
    scrollback_end_reasoning(s);
    rows_are("  Let me see|  now||Yes.||  Hm|");
    scrollback_fold(s, true);
    rows_are("=4||Yes.||=1|");
}

/* A reply that goes on in a second block looks as if it stood in one, wherever it was cut. */
static void looks_go_on(void **state)
{
    (void)state;
    static const char text[] = "a\n```c\nx *y; /* **z** */\n\n```\n*b* c\n\n# d\n";
    const size_t n = sizeof text - 1;
    unsigned want[sizeof text], got[sizeof text];
    looks_of_block(put_reply(text, n), want, n);
    for (size_t cut = 1; cut < n; cut++) {
        scrollback_cut(s, 0);
        looks_of_block(put_reply(text, cut), got, cut);
        put(BLOCK_NOTE, SCROLLBACK_NO_MESSAGE, "```");
        size_t gone = strspn(text + cut, "\n");
        looks_of_block(put_reply(text + cut, n - cut), got + cut + gone, n - cut - gone);
        for (size_t i = cut + gone; i < n; i++)
            assert_int_equal(got[i], want[i]);
    }
    scrollback_cut(s, 0);
    put_reply("```\nx", 5);
    scrollback_put(s, BLOCK_REPLY, 2, "*b*", 3);
    looks_of_block(1, got, 3);
    assert_int_equal(got[1], LOOK_EMPHASIS);
}

static void another_width(void **state)
{
    (void)state;
    put(BLOCK_USER, 0, "one two three four");
    put(BLOCK_REPLY, 1, "five six seven eight nine ten");
    rows_are("  one two|  three four||five six|seven eight|nine ten|");
    struct scrollback_place seven = scrollback_place(s, 4), four = scrollback_place(s, 1);
    assert_int_equal(seven.block, 1);
    assert_int_equal(seven.at, 9);
    scrollback_set_width(s, 40);
    rows_are("  one two three four||five six seven eight nine ten|");
    assert_int_equal(scrollback_row_of(s, seven), 2);
    assert_int_equal(scrollback_row_of(s, four), 0);
    scrollback_set_width(s, 6);
    rows_are("  one|  two|  thre|  e|  four||five|six|seven|eight|nine|ten|");
    assert_int_equal(scrollback_row_of(s, seven), 8);
    for (size_t i = 0; i < scrollback_n_rows(s); i++)
        assert_int_equal(scrollback_row_of(s, scrollback_place(s, i)), i);
    assert_int_equal(scrollback_row_of(s, (struct scrollback_place){9, 0, false}), 12);
}

static bool found(const char *words, bool backwards, size_t block, size_t at)
{
    static struct scrollback_place place;
    if (block != SIZE_MAX) place = (struct scrollback_place){block, at, false};
    if (!scrollback_find(s, words, backwards, place, &place)) return false;
    return true;
}

static void is_found(const char *words, bool backwards, struct scrollback_place from,
                     size_t block, size_t at)
{
    struct scrollback_place place;
    assert_true(scrollback_find(s, words, backwards, from, &place));
    assert_int_equal(place.block, block);
    assert_int_equal(place.at, at);
}

static void search(void **state)
{
    (void)state;
    assert_false(found("a", true, 0, 0));
    put(BLOCK_USER, 0, "A page of a book");
    put(BLOCK_REASONING, 1, "page? \xc3\x84rger");
    put(BLOCK_REPLY, 1, "Pages and pages");
    const struct scrollback_place at_end = {.block = SIZE_MAX};
    is_found("page", true, at_end, 2, 10);
    is_found("page", true, (struct scrollback_place){2, 10, false}, 2, 0);
    is_found("page", true, (struct scrollback_place){2, 0, false}, 1, 0);
    is_found("page", true, (struct scrollback_place){1, 0, false}, 0, 2);
    is_found("page", true, (struct scrollback_place){0, 2, false}, 2, 10);
    is_found("page", false, (struct scrollback_place){0, 2, false}, 1, 0);
    is_found("page", false, (struct scrollback_place){2, 10, false}, 0, 2);
    /* capitals find capitals, small letters both */
    is_found("Page", true, at_end, 2, 0);
    is_found("\xc3\xa4rger", true, at_end, 1, 6);
    is_found("pages and", false, at_end, 2, 0);
    assert_false(found("paged", true, 2, 0));
    assert_false(found("", true, 2, 0));
    assert_false(found("\xff", true, 2, 0));
    /* the only one is found again; a folded one is shown */
    is_found("book", true, (struct scrollback_place){0, 12, false}, 0, 12);
    scrollback_fold(s, true);
    is_found("\xc3\x84", true, at_end, 1, 6);
    assert_false(scrollback_block(s, 1).is_folded);
    /* … until that search is given up; one that the user has gone to stays */
    scrollback_end_find(s, true);
    assert_true(scrollback_block(s, 1).is_folded);
    is_found("\xc3\x84", true, at_end, 1, 6);
    scrollback_end_find(s, false);
    scrollback_end_find(s, true);
    assert_false(scrollback_block(s, 1).is_folded);
    assert_int_equal(scrollback_matches("Stra\xc3\x9f"
                                        "e",
                                        7, "stra"),
                     4);
    assert_int_equal(scrollback_matches("Str", 3, "stra"), 0);
}

/* A letter and an accent are the character that is both; one that has more is another. */
static void search_for_accents(void **state)
{
    (void)state;
    static const char whole[] = "\xc3\x89t\xc3\xa9", apart[] = "E\xcc\x81te\xcc\x81";
    assert_int_equal(scrollback_matches(whole, 5, "\xc3\xa9t\xc3\xa9"), 5);
    assert_int_equal(scrollback_matches(whole, 5, "e\xcc\x81te\xcc\x81"), 5);
    assert_int_equal(scrollback_matches(apart, 7, "\xc3\xa9t\xc3\xa9"), 7);
    assert_int_equal(scrollback_matches(apart, 7, "\xc3\x89t"), 4);
    assert_int_equal(scrollback_matches(apart, 7, "e\xcc\x81te"), 5);
    assert_int_equal(scrollback_matches(whole, 5, "\xc3\xa9te"), 0);
    assert_int_equal(scrollback_matches(whole, 5, "ete"), 0);
    assert_int_equal(scrollback_matches(apart, 2, "\xc3\xa9"), 0);
    /* U+1EC7 in three ways, and a syllable of Hangul */
    assert_int_equal(scrollback_matches("\xe1\xbb\x87", 3, "\xe1\xba\xb9\xcc\x82"), 3);
    assert_int_equal(scrollback_matches("e\xcc\xa3\xcc\x82", 5, "\xe1\xbb\x87"), 5);
    assert_int_equal(
        scrollback_matches("\xed\x95\x9c", 3, "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), 3);
    /* one that small letters have always found as a whole */
    assert_int_equal(scrollback_matches("\xc4\xb0", 2, "i"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks, begin, end),
        cmocka_unit_test_setup_teardown(pieces, begin, end),
        cmocka_unit_test_setup_teardown(pieces_that_widen, begin, end),
        cmocka_unit_test_setup_teardown(items, begin, end),
        cmocka_unit_test_setup_teardown(pieces_of_any_size, begin, end),
        cmocka_unit_test_setup_teardown(folding, begin, end),
        cmocka_unit_test_setup_teardown(looks_go_on, begin, end),
        cmocka_unit_test_setup_teardown(another_width, begin, end),
        cmocka_unit_test_setup_teardown(search, begin, end),
        cmocka_unit_test_setup_teardown(search_for_accents, begin, end),
    };
    return cmocka_run_group_tests_name("scrollback", tests, NULL, NULL);
}
