/* Vocabularies from which text takes the longest token each time (tokenizer model "rwkv"): how
 * they are spelled, fixed cases, and random ones beside a search written for reading. */
#include "../chance.h"
#include "../soak.h"
#include "../vocab_case.h"

static const atomic_bool stop = true;

static struct tokenizer *made(const struct extra_token *extra, uint32_t n_extra)
{
    struct err err = {0};
    struct tokenizer *tok = vocab_make(
        &(struct made_vocab){.model = "rwkv", .extra = extra, .n_extra = n_extra}, &err);
    if (!tok) fail_msg("%s", err.msg);
    return tok;
}

/* Each escape of a Python literal, as RWKV's converter writes tokens. */
static void test_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *spelled, *bytes;
    } cases[] = {
        {"\\n\\n", "\n\n"},         {"\\r\\n", "\r\n"},       {"\\t\\t", "\t\t"},
        {"\\\\n", "\\n"},           {"it\\'s", "it's"},       {"\\xe4\\xbd", "\xe4\xbd"},
        {" \\xC3\\xa9", " \u00e9"}, {"\\x00\\x01", "\0\x01"}, {"plain x41", "plain x41"},
    };
    enum { N = sizeof cases / sizeof *cases };
    struct extra_token extra[N];
    for (size_t i = 0; i < N; i++)
        extra[i] = (struct extra_token){cases[i].spelled, TOKEN_NORMAL};
    struct tokenizer *tok = made(extra, N);
    assert_string_equal(tokenizer_model(tok), "rwkv");
    assert_string_equal(tokenizer_pre(tok), "");
    for (size_t i = 0; i < N; i++) {
        const size_t len = i == 7 ? 2 : strlen(cases[i].bytes);
        const struct piece p = tokenizer_piece(tok, 256 + (int32_t)i);
        assert_int_equal(p.len, len);
        assert_memory_equal(p.data, cases[i].bytes, len);
        struct ids ids = {0};
        encode(tok, cases[i].bytes, len, false, &ids);
        assert_int_equal(ids.n, 1);
        assert_int_equal(ids.data[0], 256 + i);
        ids_free(&ids);
    }
    tokenizer_close(tok);
}

static void test_broken_escapes(void **state)
{
    (void)state;
    static const char *const broken[] = {"\\",     "a\\",   "\\x",   "\\x4",
                                         "a\\xg0", "\\x4g", "\\\\\\"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct err err = {0};
        const struct extra_token extra[] = {{broken[i], TOKEN_NORMAL}};
        assert_null(vocab_make(
            &(struct made_vocab){.model = "rwkv", .extra = extra, .n_extra = 1}, &err));
        assert_int_equal(err.code, ERR_FORMAT);
        assert_non_null(strstr(err.msg, "token 256 is spelled \""));
        assert_non_null(strstr(err.msg, "with an escape that is broken off"));
    }
}

static void test_cases(void **state)
{
    (void)state;
    static const struct extra_token extra[] = {
        {"<s>", TOKEN_CONTROL},  {"\\n\\n", TOKEN_NORMAL}, {"User", TOKEN_NORMAL},
        {"User:", TOKEN_NORMAL}, {": ", TOKEN_NORMAL},     {"abcdef", TOKEN_NORMAL},
        {"abc", TOKEN_NORMAL},   {"cd", TOKEN_NORMAL},     {"<tool>", TOKEN_USER_DEFINED},
        {"ol>x", TOKEN_NORMAL},  {"[PAD9]", TOKEN_UNUSED}, {"\\xe4\\xbd", TOKEN_NORMAL},
    };
    struct tokenizer *tok = made(extra, sizeof extra / sizeof *extra);
    check_text(tok, "", false, "");
    check_text(tok, "User: hi\n\n\n", false, "User:| |h|i|\n\n|\n"); /* not User and ": " */
    /* What went on and came to nothing is taken back to the last whole token. */
    check_text(tok, "abcde", false, "abc|d|e");
    check_text(tok, "abcdefab", false, "abcdef|a|b");
    check_text(tok, "bcd", false, "b|cd");
    check_text(tok, "\u4f60", false, "\xe4\xbd|\xa0");
    check_text(tok, "\xff", false, "\xff");
    /* Control tokens are no text; user-defined ones are whole in any. */
    check_text(tok, "<s>a", true, "{<s>}|a");
    check_text(tok, "<s>a", false, "<|s|>|a");
    check_text(tok, "<tool>x", false, "<tool>|x");
    /* No begin is added. */
    struct ids ids = {0};
    struct err err;
    assert_true(tokenizer_encode(tok, "a", 1, ENCODE_ENDS, &ids, &err));
    check_ids(tok, &ids, "a");
    ids_free(&ids);
    tokenizer_close(tok);
}

/* A byte without a token. */
static void test_lacking(void **state)
{
    (void)state;
    struct err err = {0};
    struct tokenizer *tok =
        vocab_make(&(struct made_vocab){.model = "rwkv", .lacks = 0x0b}, &err);
    if (!tok) fail_msg("%s", err.msg);
    check_text(tok, "a\vb", false, "a|\xef|\xbf|\xbd|b");
    tokenizer_close(tok);
    assert_null(vocab_make(&(struct made_vocab){.model = "rwkv", .lacks = ' '}, &err));
    assert_non_null(strstr(err.msg, "the vocabulary has no token for the byte 20"));
}

/* Whatever tokens of the letters a and b there are, at each place the longest is taken. */
static void test_random(void **state)
{
    (void)state;
    enum { MOST = 30, LEN = 7 };
    for (size_t k = 300 * soak(); k > 0; k--) {
        char texts[MOST][LEN + 1];
        struct extra_token extra[MOST];
        uint32_t n = 0;
        for (size_t tries = below(MOST + 1); tries > 0; tries--) {
            const size_t len = 2 + below(LEN - 1);
            for (size_t i = 0; i < len; i++)
                texts[n][i] = (char)('a' + below(2));
            texts[n][len] = '\0';
            bool is_new = true;
            for (uint32_t i = 0; i < n; i++)
                is_new = is_new && strcmp(texts[i], texts[n]) != 0;
            extra[n] = (struct extra_token){texts[n], TOKEN_NORMAL};
            n += is_new;
        }
        struct tokenizer *tok = made(extra, n);
        char text[40];
        const size_t len = below(sizeof text);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + below(2));
        struct ids ids = {0};
        encode(tok, text, len, false, &ids);
        size_t at = 0;
        for (size_t i = 0; i < ids.n; i++) {
            int32_t best = text[at];
            size_t best_len = 1;
            for (uint32_t j = 0; j < n; j++) {
                const size_t n_text = strlen(texts[j]);
                if (n_text <= best_len || n_text > len - at) continue;
                if (memcmp(text + at, texts[j], n_text) != 0) continue;
                best = 256 + (int32_t)j;
                best_len = n_text;
            }
            assert_int_equal(ids.data[i], best);
            at += best_len;
        }
        assert_int_equal(at, len);
        ids_free(&ids);
        tokenizer_close(tok);
    }
}

static void test_cancelled(void **state)
{
    (void)state;
    struct tokenizer *tok = made(NULL, 0);
    struct spans s = {0};
    struct ids ids = {0};
    struct err err;
    spans_text(&s, "abc", 3);
    assert_false(tokenizer_encode_spans(tok, &s, &stop, &ids, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_int_equal(ids.n, 0);
    spans_free(&s);
    ids_free(&ids);
    tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spelling), cmocka_unit_test(test_broken_escapes),
        cmocka_unit_test(test_cases),    cmocka_unit_test(test_lacking),
        cmocka_unit_test(test_random),   cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
