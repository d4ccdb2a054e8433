/* Bytes to text as they come: every way of cutting them gives the same text, whole characters
 * only, and U+FFFD as the Unicode standard recommends. */
#include "../vocab_case.h"

#include "text/detokenize.h"

/* Feeds text in pieces of n bytes; after each one out is whole UTF-8. */
static void feed(const char *text, size_t len, size_t piece, struct buf *out, bool *invalid)
{
    struct detokenizer d;
    detokenizer_init(&d, NULL, false);
    for (size_t at = 0; at < len; at += piece) {
        detokenizer_bytes(&d, text + at, piece < len - at ? piece : len - at, out);
        assert_true(utf8_valid(buf_str(out), out->len));
    }
    detokenizer_flush(&d, out);
    detokenizer_flush(&d, out); /* once is enough */
    *invalid = d.invalid;
}

static void check(const char *text, const char *expected)
{
    size_t len = strlen(text);
    for (size_t piece = 1; piece <= len; piece++) {
        struct buf out = {0};
        bool invalid;
        feed(text, len, piece, &out, &invalid);
        assert_string_equal(buf_str(&out), expected);
        assert_int_equal(invalid, strcmp(text, expected) != 0);
        buf_free(&out);
    }
}

#define BAD "\xef\xbf\xbd"

static void test_valid(void **state)
{
    (void)state;
    check("plain", "plain");
    check("caf\u00e9 \u4f60\u597d \U0001f642!", "caf\u00e9 \u4f60\u597d \U0001f642!");
    check(BAD, BAD); /* U+FFFD itself is no error */
}

/* The cases of the standard's table 3-8 and its neighbours. */
static void test_invalid(void **state)
{
    (void)state;
    check("a\x80z", "a" BAD "z");
    check("\xc0\xaf", BAD BAD);
    check("\xe0\x80\xbf", BAD BAD BAD);
    check("\xed\xa0\x80", BAD BAD BAD);
    check("\xf4\x90\x80\x80", BAD BAD BAD BAD);
    check("\xf1\x80\x80\xe1\x80\xc2", BAD BAD BAD);
    check("a\xf1\x80\x80\xe1\x80\xc2 b", "a" BAD BAD BAD " b");
    check("\xff\xfe", BAD BAD);
    check("end\xe4\xbd", "end" BAD);
    check("\xf0\x9f\x99x", BAD "x");
}

/* An unfinished character is held back until the token that completes it. */
static void test_tokens(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("spm");
    struct ids ids = {0};
    struct buf out = {0};
    struct err err;
    assert_true(tokenizer_encode(tok, "\u4f60 </s>", 8, ENCODE_CONTROL, &ids, &err));
    check_ids(tok, &ids, " |\xe4|\xbd|\xa0| |{</s>}");
    struct detokenizer d;
    detokenizer_init(&d, tok, false);
    static const char *const after[] = {" ", " ", " ", " \u4f60", " \u4f60 ", " \u4f60 "};
    for (size_t i = 0; i < ids.n; i++) {
        detokenizer_add(&d, ids.data[i], &out);
        assert_string_equal(buf_str(&out), after[i]);
    }
    assert_false(d.invalid);

    /* A control token that is shown ends what was held. */
    buf_clear(&out);
    detokenizer_init(&d, tok, true);
    detokenizer_add(&d, ids.data[1], &out);
    detokenizer_add(&d, tokenizer_eos(tok), &out);
    assert_string_equal(buf_str(&out), BAD "</s>");
    assert_true(d.invalid);

    /* All at once, behind what is there. */
    buf_clear(&out);
    buf_puts(&out, "is");
    assert_true(detokenize(tok, ids.data, ids.n, &out));
    assert_string_equal(buf_str(&out), "is \u4f60 </s>");
    assert_false(detokenize(tok, ids.data + 2, 1, &out));
    assert_string_equal(buf_str(&out), "is \u4f60 </s>" BAD);
    assert_false(detokenize(tok, ids.data, 2, &out)); /* it ends inside a character */
    assert_string_equal(buf_str(&out), "is \u4f60 </s>" BAD " " BAD);
    buf_free(&out);
    ids_free(&ids);
    tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
