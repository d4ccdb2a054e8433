/* Every character there and back, every lead and second byte, and what is cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"

/* The next character that has an encoding; 0: there is none. */
static uint32_t next_char(uint32_t cp)
{
    cp = cp == 0xd7ff ? 0xe000 : cp + 1;
    return cp <= 0x10ffff ? cp : 0;
}

static void test_every_character(void **state)
{
    (void)state;
    for (uint32_t cp = 1, got; cp; cp = next_char(cp)) {
        char s[4];
        const int len = utf8_encode(cp, s);
        assert_int_equal(len, 1 + (cp >= 0x80) + (cp >= 0x800) + (cp >= 0x10000));
        assert_int_equal(utf8_decode(s, (size_t)len, &got), len);
        assert_int_equal(got, cp);
        for (int n = 1; n < len; n++) {
            assert_int_equal(utf8_decode(s, (size_t)n, &got), -1);
            assert_int_equal(utf8_bad_len(s, (size_t)n), n);
            assert_int_equal(utf8_partial_tail(s, (size_t)n), n);
        }
        assert_int_equal(utf8_partial_tail(s, (size_t)len), 0);
    }
}

/* Two bytes begin a character if one of all begins with them, and go on with 80..bf alone. */
static void test_every_beginning(void **state)
{
    (void)state;
    static const unsigned char after[] = {0x7f, 0x80, 0xbf, 0xc0};
    static unsigned char len_of[256][256]; /* of the characters that begin so */
    for (uint32_t cp = 0x80; cp; cp = next_char(cp)) {
        char s[4];
        const int len = utf8_encode(cp, s);
        len_of[(unsigned char)s[0]][(unsigned char)s[1]] = (unsigned char)len;
    }
    for (int a = 0x80; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            const int len = len_of[a][b];
            for (size_t c = 0; c < 4; c++) {
                for (size_t d = 0; d < 4; d++) {
                    const unsigned char s[4] = {(unsigned char)a, (unsigned char)b, after[c],
                                                after[d]};
                    const bool third = c == 1 || c == 2, fourth = d == 1 || d == 2;
                    const bool is_good = len && (len < 3 || third) && (len < 4 || fourth);
                    uint32_t cp;
                    assert_int_equal(utf8_decode((const char *)s, 4, &cp), is_good ? len : 0);
                    if (is_good) continue;
                    assert_int_equal(utf8_bad_len((const char *)s, 4), !len    ? 1
                                                                       : third ? 3
                                                                               : 2);
                }
            }
        }
    }
}

static void test_width(void **state)
{
    (void)state;
    static const struct {
        uint32_t cp;
        int width;
    } cases[] = {{0, 0},      {0x1f, 0},   {' ', 1},    {'~', 1},    {0x7f, 0},   {0x9f, 0},
                 {0xe9, 1},   {0x301, 0},  {0x903, 1},  {0x115f, 2}, {0x1160, 0}, {0x11ff, 0},
                 {0x1200, 1}, {0x6f22, 2}, {0xd7b0, 0}, {0xd7fb, 0}, {0xac00, 2}, {0x1f600, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(utf8_width(cases[i].cp), cases[i].width);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character),
        cmocka_unit_test(test_every_beginning),
        cmocka_unit_test(test_width),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
