#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/philox.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "chat/sanitise.h"

/* The filter gives `expected`, whatever the pieces. */
static void check_bytes(const char *text, size_t n, const char *expected)
{
    for (size_t piece = 1; piece <= n + 1; piece++) {
        struct sanitiser f = {0};
        struct buf out = {0};
        for (size_t at = 0; at < n; at += piece)
            sanitise(&f, text + at, piece < n - at ? piece : n - at, &out);
        sanitise_end(&f, &out);
        assert_string_equal(buf_str(&out), expected);
        assert_int_equal(out.len, strlen(expected));
        buf_free(&out);
    }
}

static void check(const char *text, const char *expected)
{
    check_bytes(text, strlen(text), expected);
}

static void test_plain(void **unused)
{
    (void)unused;
    check("", "");
    check("Hello, world.\n\tindented", "Hello, world.\n\tindented");
    check("naïve Straße 日本語 ok", "naïve Straße 日本語 ok");
    check("e\xcc\x81 combining", "e\xcc\x81 combining");
    check("line\r\nnext", "line\nnext");
}

static void test_controls(void **unused)
{
    (void)unused;
    check("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m");
    check("\x1b]0;title\x07", "\\x1b]0;title\\x07");
    check("a\rb\r", "a\\rb\\r");
    check("\x7f\x08\x0b\x0c\x0e", "\\x7f\\x08\\x0b\\x0c\\x0e");
    check_bytes("a\0b", 3, "a\\x00b");
    check("\xc2\x9b"
          "31m",
          "\\u{9b}31m");
    check("\u202eevil\u202c", "\\u{202e}evil\\u{202c}");
    check("\u2066x\u2069\u200e\u200f\u061c", "\\u{2066}x\\u{2069}\\u{200e}\\u{200f}\\u{61c}");
    check("a\u200bb\ufeff\u2060", "a\\u{200b}b\\u{feff}\\u{2060}");
    /* Nobody sees them either: text could be hidden in them. */
    check("a\U000e0080\U000e01f0\U000e0fff", "a\\u{e0080}\\u{e01f0}\\u{e0fff}");
    check("a\ufff0\U0001bca0\U0001d173\u17b4", "a\\u{fff0}\\u{1bca0}\\u{1d173}\\u{17b4}");
    check("a\u115f\u1160\u3164\uffa0", "a\\u{115f}\\u{1160}\\u{3164}\\u{ffa0}");
    check("\u2028\u2029", "\\u{2028}\\u{2029}");
    check("\xef\xbf\xbe\xef\xb7\x90", "\\u{fffe}\\u{fdd0}");
}

static void test_joiners(void **unused)
{
    (void)unused;
    check("👩\u200d💻", "👩\u200d💻");
    check("👩🏽\u200d🚀", "👩🏽\u200d🚀");
    check("🏳\ufe0f\u200d🌈", "🏳\ufe0f\u200d🌈");
    check("❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥");
    check("می\u200cخواهم", "می\u200cخواهم");
    check("क्\u200dष", "क्\u200dष");
    check("a\u200db", "a\\u{200d}b");
    check("👩\u200d", "👩\\u{200d}");
    check("👩\u200d\u200d💻", "👩\\u{200d}\\u{200d}💻");
    check("\u200d💻", "\\u{200d}💻");
    check("👩\u200c💻", "👩\\u{200c}💻");
    check("م\u200ca", "م\\u{200c}a");
}

/* Whether a joiner between a text and a character is let through. */
static bool joins(const char *before, const char *joiner, uint32_t after)
{
    char c[4];
    struct buf in = {0}, out = {0};
    buf_printf(&in, "%s%s", before, joiner);
    buf_append(&in, c, (size_t)utf8_encode(after, c));
    sanitise_all(in.data, in.len, &out);
    const bool is_there = strstr(buf_str(&out), joiner) != NULL;
    buf_free(&in);
    buf_free(&out);
    return is_there;
}

/* The scripts and pictographs that use joiners, to the character. */
static void test_joining_ranges(void **unused)
{
    (void)unused;
    static const uint32_t scripts[][2] = {{0x620, 0xdff},   {0x1000, 0x109f}, {0x1780, 0x18af},
                                          {0xa840, 0xa8ff}, {0xfb50, 0xfdcf}, {0xfe70, 0xfefc}};
    static const uint32_t emoji[][2] = {{0x1f000, 0x1faff}, {0x2190, 0x2bff}, {0x20e3, 0x20e3},
                                        {0xa9, 0xa9},       {0xae, 0xae},     {0x3030, 0x3030},
                                        {0x303d, 0x303d}};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const uint32_t first = scripts[i][0], last = scripts[i][1];
        assert_true(joins("م", "\u200c", first) && joins("م", "\u200d", last));
        assert_false(joins("م", "\u200d", first - 1) || joins("م", "\u200c", last + 1));
    }
    assert_true(joins("م", "\u200c", 0x8ff) && joins("م", "\u200c", 0x900));
    for (size_t i = 0; i < sizeof emoji / sizeof *emoji; i++) {
        const uint32_t first = emoji[i][0], last = emoji[i][1];
        assert_true(joins("👩", "\u200d", first) && joins("👩", "\u200d", last));
        assert_false(joins("👩", "\u200d", first - 1) || joins("👩", "\u200d", last + 1));
    }
}

static void test_selectors(void **unused)
{
    (void)unused;
    check("❤\ufe0f 1\ufe0f\u20e3 ☎\ufe0e", "❤\ufe0f 1\ufe0f\u20e3 ☎\ufe0e");
    check("葛\U000e0101", "葛\U000e0101");
    check("\u3400\U000e0100\u9fff\U000e0100", "\u3400\U000e0100\u9fff\U000e0100");
    check("\uf900\U000e0100\U00020000\U000e0100", "\uf900\U000e0100\U00020000\U000e0100");
    check("\u33ff\U000e0100\ua000\U000e0100", "\u33ff\\u{e0100}\ua000\\u{e0100}");
    check("!\ufe0f", "!\ufe0f");
    check("\ufe0fa", "\\u{fe0f}a");
    check("a \ufe0f\n\ufe00", "a \\u{fe0f}\n\\u{fe00}");
    check("\u1820\u180b\u1824", "\u1820\u180b\u1824");
    check("a\u180b \u180d", "a\\u{180b} \\u{180d}");
    check("\u1820\u180d\u1820\u180e\u180a", "\u1820\u180d\u1820\\u{180e}\u180a");
    check("\xff\ufe0f", "\\xff\\u{fe0f}");
    check("\u1820\u180b\u180c\u180f", "\u1820\u180b\\u{180c}\\u{180f}");
    /* A byte for each selector: text that nobody sees. */
    check("😀\ufe01\ufe02\ufe03", "😀\ufe01\\u{fe02}\\u{fe03}");
    check("a\U000e0101\U000e01ef", "a\\u{e0101}\\u{e01ef}");
}

static void test_tags(void **unused)
{
    (void)unused;
    const char *england =
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f";
    check(england, england);
    char twice[64];
    snprintf(twice, sizeof twice, "%s%s", england, england);
    check(twice, twice);
    check("\U0001f3f4\U000e0020\U000e001f", "\U0001f3f4\U000e0020\\u{e001f}");
    check("a\U000e0067", "a\\u{e0067}");
    /* More tags than a flag has are hidden text. */
    check("\U0001f3f4\U000e0061\U000e0061\U000e0061\U000e0061\U000e0061\U000e0061\U000e0061"
          "\U000e0061",
          "\U0001f3f4\U000e0061\U000e0061\U000e0061\U000e0061\U000e0061\U000e0061\U000e0061\\u{"
          "e0061}");
}

static void test_bad_utf8(void **unused)
{
    (void)unused;
    check("a\xff\xfe"
          "b",
          "a\\xff\\xfe"
          "b");
    check("\xe2\x82", "\\xe2\\x82");
    check("\xc0\xaf", "\\xc0\\xaf");
    check("\xed\xa0\x80", "\\xed\\xa0\\x80");
    check("\xf0\x9f\x91\x1b", "\\xf0\\x9f\\x91\\x1b");
}

/* Random bytes, with a liking for the dangerous ones: what comes out is safe and the same for
 * any pieces. */
static void test_random(void **unused)
{
    (void)unused;
    static const char *const liked[] = {"\x1b", "\u200d", "👩",     "\u202e",     "\r",
                                        "\n",   "\xe2",   "\x80",  "\U000e0061", "\U0001f3f4",
                                        "a",    "م",      "\u200c"};
    const size_t n_liked = sizeof liked / sizeof *liked;
    for (uint32_t round = 0; round < 2000; round++) {
        struct buf in = {0}, whole = {0}, parts = {0};
        for (uint32_t i = 0; i < 24; i++) {
            uint32_t x = philox(11, round, i, 0, PHILOX_BENCH).word[0];
            if (x & 1)
                buf_puts(&in, liked[(x >> 1) % n_liked]);
            else
                buf_putc(&in, (char)(x >> 8));
        }
        sanitise_all(in.data, in.len, &whole);
        struct sanitiser f = {0};
        for (size_t at = 0, i = 0; at < in.len; i++) {
            size_t n = 1 + philox(12, round, (uint32_t)i, 0, PHILOX_BENCH).word[0] % 5;
            if (n > in.len - at) n = in.len - at;
            sanitise(&f, in.data + at, n, &parts);
            at += n;
        }
        sanitise_end(&f, &parts);
        assert_string_equal(buf_str(&whole), buf_str(&parts));
        for (size_t at = 0; at < whole.len;) {
            uint32_t cp = 0;
            int len = utf8_decode(whole.data + at, whole.len - at, &cp);
            assert_true(len > 0);
            bool joiner = cp == 0x200c || cp == 0x200d || (cp >= 0xe0020 && cp <= 0xe007f);
            assert_true(cp == '\n' || cp == '\t' || joiner || printable_char(cp));
            at += (size_t)len;
        }
        buf_free(&in);
        buf_free(&whole);
        buf_free(&parts);
    }
}

/* What is known to have hurt terminals, and its kin: safe, and the same however it is cut. */
static void test_corpus(void **unused)
{
    (void)unused;
    static const char folder[] = "tests/fuzz/corpus/sanitise";
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t n_files = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        struct buf path = {0}, in = {0}, whole = {0};
        struct err err;
        buf_printf(&path, "%s/%s", folder, e->d_name);
        assert_true(file_read(path.data, 1 << 20, &in, &err));
        sanitise_all(in.data, in.len, &whole);
        for (size_t i = 0; i < whole.len; i++) {
            const unsigned char c = (unsigned char)whole.data[i];
            assert_true((c >= ' ' && c != 0x7f) || c == '\n' || c == '\t');
        }
        assert_true(utf8_valid(buf_str(&whole), whole.len));
        check_bytes(in.data, in.len, buf_str(&whole));
        for (size_t cut = 1; cut < in.len; cut++) {
            struct sanitiser f = {0};
            struct buf parts = {0};
            sanitise(&f, in.data, cut, &parts);
            sanitise(&f, in.data + cut, in.len - cut, &parts);
            sanitise_end(&f, &parts);
            assert_string_equal(buf_str(&parts), buf_str(&whole));
            buf_free(&parts);
        }
        buf_free(&path);
        buf_free(&in);
        buf_free(&whole);
        n_files++;
    }
    closedir(dir);
    assert_true(n_files >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),     cmocka_unit_test(test_controls),
        cmocka_unit_test(test_joiners),   cmocka_unit_test(test_joining_ranges),
        cmocka_unit_test(test_selectors), cmocka_unit_test(test_tags),
        cmocka_unit_test(test_bad_utf8),  cmocka_unit_test(test_random),
        cmocka_unit_test(test_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
