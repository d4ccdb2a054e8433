/* How Markdown looks: byte by byte, for every way to cut the text in pieces; and nothing of it
 * is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../soak.h"
#include "base/philox.h"
#include "base/utf8.h"
#include "ui/flow.h"
#include "ui/style.h"

/* A letter per byte: what is looked for first wins, and M stands for a mark of anything. */
static char letter(unsigned look)
{
    static const struct {
        unsigned look;
        char letter;
    } letters[] = {{LOOK_MARK, 'M'},
                   {LOOK_BULLET, 'L'},
                   {LOOK_LANGUAGE, 'N'},
                   {LOOK_BLOCK, 'B'},
                   {LOOK_CODE, 'C'},
                   {LOOK_STRONG | LOOK_EMPHASIS, 'X'},
                   {LOOK_HEADING, 'H'},
                   {LOOK_STRONG, 'S'},
                   {LOOK_EMPHASIS, 'E'},
                   {LOOK_QUOTE, 'Q'},
                   {0, '.'}};
    size_t i = 0;
    while ((look & letters[i].look) != letters[i].look)
        i++;
    return letters[i].letter;
}

struct seen {
    struct buf text, looks;
};

static void see(void *user, const char *s, size_t n, unsigned look)
{
    struct seen *seen = user;
    assert_true(n > 0);
    buf_append(&seen->text, s, n);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n') assert_int_equal(look, 0);
        buf_putc(&seen->looks, s[i] == '\n' ? '\n' : letter(look));
    }
}

/* In pieces of this size, the first of `first` bytes. */
static struct seen looks_of(const char *text, size_t n, size_t first, size_t piece)
{
    struct seen seen = {0};
    struct styler st = {0};
    for (size_t at = 0; at < n;) {
        size_t some = at == 0 && first ? first : piece;
        if (some > n - at) some = n - at;
        style_text(&st, text + at, some, see, &seen);
        at += some;
    }
    style_end(&st, see, &seen);
    assert_int_equal(st.n_held, 0);
    return seen;
}

static void seen_free(struct seen *seen)
{
    buf_free(&seen->text);
    buf_free(&seen->looks);
}

static void same(const char *text, size_t n, const char *want, size_t first, size_t piece)
{
    struct seen seen = looks_of(text, n, first, piece);
    assert_int_equal(seen.text.len, n);
    if (n) assert_memory_equal(buf_str(&seen.text), text, n);
    assert_string_equal(buf_str(&seen.looks), want);
    seen_free(&seen);
}

static void check(const char *text, const char *want)
{
    size_t n = strlen(text);
    assert_int_equal(strlen(want), n);
    for (size_t piece = 1; piece <= n + 1; piece++)
        same(text, n, want, 0, piece);
    for (size_t first = 1; first < n; first++)
        same(text, n, want, first, n);
}

static void headings(void **unused)
{
    (void)unused;
    check("# One\ntext\n", "MHHHH\n....\n");
    check("###### Six", "MMMMMMHHHH");
    check("####### seven", ".............");
    check("   ###### Six", "HHHMMMMMMHHHH");
    check("#tag", "....");
    check("#", "M");
    check("  ## two `code` **strong**", "HHMMHHHHHMCCCCMHMMHHHHHHMM");
    check("a # b", ".....");
}

static void emphasis(void **unused)
{
    (void)unused;
    check("a *b* c", "..MEM..");
    check("a **b** c", "..MMSMM..");
    check("***all***", "MMMXXXMMM");
    check("**a *b* c**", "MMSSMXMSSMM");
    check("*a **b** c*", "MEEMMXMMEEM");
    check("_b_ __s__ sna_ke_case", "MEM.MMSMM............");
    check("这是**重点**内容", "......MMSSSSSSMM......");
    check("\"*quoted*\" (*too*)", ".MEEEEEEM..."
                                  "MEEEM.");
    check("**cut by the line\nnext", "MMSSSSSSSSSSSSSSS\n....");
}

static void not_emphasis(void **unused)
{
    (void)unused;
    check("2 * 3 * 4", ".........");
    check("2*3*4 a**b", "..........");
    check("a *pointer", "..........");
    check("a *pointer\n* b", "..........\nL..");
    check("x = *p;\ny = *q;", ".......\n.......");
    check("**** four", ".........");
    check("\\*not\\* *is\\*n't", "................");
    check("a_b_c _d", "........");
    check("* a* b", "L.....");
}

static void code(void **unused)
{
    (void)unused;
    check("say `*a*` now", "....MCCCM....");
    check("``a`b``", "MMCCCMM");
    check("`open\nnext", "MCCCC\n....");
    check("**`a`**", "MMMCMMM");
}

static void fences(void **unused)
{
    (void)unused;
    check("```c\nint *a; // **b**\n```\n*c*", "MMMN\nBBBBBBBBBBBBBBBB\nMMM\nMEM");
    check("~~~~\n~~~\n```\n~~~~  \nx", "MMMM\nBBB\nBBB\nMMMMMM\n.");
    check("```\n# no\n", "MMM\nBBBB\n");
    check("```\n   ``\nx", "MMM\nBBBBB\nB"); /* two do not close three */
    check("1. a\n   ```sh\n   ls\n   ```\nb", "LL..\n...MMMNN\nBBBBB\n...MMM\n.");
    check("```two words\nx\n```", "MMMNNNNNNNNN\nB\nMMM");
    check("```inline``` text", "MMMCCCCCCMMM.....");
    check("``\nx", "MM\n.");
    check("```\n```x\n````\nb", "MMM\nBBBB\nMMMM\n.");
}

static void blocks(void **unused)
{
    (void)unused;
    check("- a\n* b\n+ c\n12. d\n3) e", "L..\nL..\nL..\nLLL..\nLL..");
    check("  - *a*\n-b\n1.c", "..L.MEM\n..\n...");
    check("---\n* * *\n___\n--\n- - a", "MMM\nMMMMM\nMMM\n..\nL.L..");
    check("> a **b**\n>c\nd", "MMQQMMSMM\nMQ\n.");
    check("> ```c\n> x\n> ```\ny", "MMMMMN\nMMB\nMMMMM\n.");
    check("> ```c\nout *a*", "MMMMMN\n....MEM");
    check("> > deep", "MMMMQQQQ");
    check("| a | b |\n|---|---|\n| 1 | 2 |", ".........\n.........\n.........");
    check("\n\n\na", "\n\n\n.");
    check("", "");
}

/* What is held is bounded: what takes more than that is taken for text. */
static void long_things(void **unused)
{
    (void)unused;
    struct buf text = {0}, want = {0};
    buf_puts(&text, "a *");
    buf_puts(&want, "...");
    for (int i = 0; i < 200; i++) {
        buf_puts(&text, "é");
        buf_puts(&want, "..");
    }
    buf_puts(&text, "*\n");
    buf_puts(&want, ".\n");
    for (int i = 0; i < 300; i++)
        buf_putc(&text, '-'), buf_putc(&want, '.');
    check(buf_str(&text), buf_str(&want));
    buf_free(&text);
    buf_free(&want);
}

/* The bytes of a text with sequences, without them; each sequence is one of ours, and none is
 * open at a line break or at the end. */
static void strip(const struct buf *sgr, struct buf *out)
{
    bool open = false;
    for (size_t i = 0; i < sgr->len; i++) {
        char c = sgr->data[i];
        if (c != '\033') {
            if (c == '\n') assert_false(open);
            buf_putc(out, c);
            continue;
        }
        assert_int_equal(sgr->data[++i], '[');
        open = strncmp(sgr->data + i, "[0m", 3) != 0;
        while (sgr->data[++i] != 'm')
            assert_true(strchr("0123456789;", sgr->data[i]) != NULL);
    }
    assert_false(open);
}

static void sequences(void **unused)
{
    (void)unused;
    struct flow flow = {.colours = true};
    struct buf out = {0};
    flow_reply(&flow, "a **b", 5, &out);
    assert_string_equal(buf_str(&out), "a \033[1;2m**\033[0m\033[1mb\033[0m");
    buf_clear(&out);
    flow_reply(&flow, "** c\n", 5, &out);
    flow_end(&flow, &out);
    assert_string_equal(buf_str(&out), "\033[1;2m**\033[0m c\n");
    buf_clear(&out);
    flow_free(&flow);
    style_sgr_on(0, &out);
    assert_int_equal(out.len, 0);
    buf_free(&out);
}

static void places(void **unused)
{
    (void)unused;
    const char *text = "a **b**\nc";
    struct styler st = {0};
    struct style_spans spans = {0};
    for (size_t i = 0; text[i]; i++)
        style_spans(&st, text + i, 1, &spans);
    style_spans_end(&st, &spans);
    static const struct style_span want[] = {{0, 2, 0},
                                             {2, 2, LOOK_STRONG | LOOK_MARK},
                                             {4, 1, LOOK_STRONG},
                                             {5, 2, LOOK_STRONG | LOOK_MARK},
                                             {7, 2, 0}};
    assert_int_equal(spans.n, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(spans.items[i].start, want[i].start);
        assert_int_equal(spans.items[i].len, want[i].len);
        assert_int_equal(spans.items[i].look, want[i].look);
    }
    free(spans.items);
}

/* The text goes on behind its first `known` bytes as if it had never stopped. */
static void resumes(const char *text, size_t n, size_t known, const char *want)
{
    struct seen seen = {0};
    struct styler st;
    style_resume(&st, text, known);
    style_text(&st, text + known, n - known, see, &seen);
    style_end(&st, see, &seen);
    assert_int_equal(seen.text.len, n - known);
    assert_memory_equal(buf_str(&seen.text), text + known, n - known);
    assert_string_equal(buf_str(&seen.looks), want + known);
    seen_free(&seen);
}

static void going_on(void **unused)
{
    (void)unused;
    static const char code[] = "a\n```c\nint *a;\n# x\n```\n*c*";
    static const char looks[] = ".\nMMMN\nBBBBBBB\nBBB\nMMM\nMEM";
    for (size_t known = 0; known < sizeof code; known++)
        resumes(code, sizeof code - 1, known, looks);
}

/* Texts of marks and a few letters: whatever the pieces, the same looks and every byte. */
static void random_texts(void **unused)
{
    (void)unused;
    static const char *const parts[] = {"*",   "**", "_",  "`",   "```", "#",  "# ", ">",
                                        "> ",  "- ", "1.", " ",   " ",   "\n", "\n", "a",
                                        "b7",  "é",  "日", "~~~", "\\",  "|",  "-",  "    ",
                                        "___", "x",  "c ", "**a", "\t",  ". "};
    int n_texts = 3000 * (int)soak();
    struct buf text = {0}, sgr = {0}, bare = {0};
    for (int i = 0; i < n_texts; i++) {
        struct philox_block r = {{0}};
        buf_clear(&text);
        for (uint32_t k = 0; k < 10 + (uint32_t)(i % 60); k++) {
            r = philox((uint64_t)i, k, 0, 0, PHILOX_BENCH);
            buf_puts(&text, parts[r.word[0] % (sizeof parts / sizeof *parts)]);
        }
        struct seen whole = looks_of(text.data, text.len, 0, text.len);
        same(text.data, text.len, buf_str(&whole.looks), 0, 1);
        same(text.data, text.len, buf_str(&whole.looks), r.word[1] % text.len,
             1 + r.word[2] % 9);
        size_t known = r.word[3] % text.len;
        while (known > 0 && (text.data[known] & 0xc0) == 0x80)
            known--;
        resumes(text.data, text.len, known, buf_str(&whole.looks));
        buf_clear(&sgr);
        buf_clear(&bare);
        struct flow flow = {.colours = true};
        flow_reply(&flow, text.data, text.len, &sgr);
        flow_end(&flow, &sgr);
        flow_free(&flow);
        strip(&sgr, &bare);
        assert_string_equal(buf_str(&bare), buf_str(&text));
        assert_true(utf8_valid(buf_str(&sgr), sgr.len));
        seen_free(&whole);
    }
    buf_free(&text);
    buf_free(&sgr);
    buf_free(&bare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headings),     cmocka_unit_test(emphasis),
        cmocka_unit_test(not_emphasis), cmocka_unit_test(code),
        cmocka_unit_test(fences),       cmocka_unit_test(blocks),
        cmocka_unit_test(long_things),  cmocka_unit_test(sequences),
        cmocka_unit_test(places),       cmocka_unit_test(going_on),
        cmocka_unit_test(random_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
