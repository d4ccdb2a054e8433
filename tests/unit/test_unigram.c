/* Tokens by the sum of their scores: against all ways to cut a text, and what costs what. */
#include "../chance.h"
#include "../soak.h"
#include "../vocab_case.h"

#include <math.h>

#include "base/mem.h"
#include "text/unigram.h"

static struct tokenizer *made(const struct extra_token *extra, const float *scores, uint32_t n)
{
    struct err err = {0};
    struct tokenizer *tok = vocab_make(
        &(struct made_vocab){.model = "plamo2", .extra = extra, .scores = scores, .n_extra = n},
        &err);
    if (!tok) fail_msg("%s", err.msg);
    return tok;
}

/* ---- all ways ---- */

enum { MOST_TOKENS = 12, MOST_CHARS = 9, TEXT_CAP = 4 * MOST_CHARS + 1 };

/* A search through all ways, the longer token first everywhere and a character that has none
 * last: the first of the best is the one. */
struct search {
    const struct extra_token *extra;
    const float *scores;
    uint32_t n;
    const char *text;
    double best;
    struct ids way, found;
};

static size_t longest(const struct search *s, size_t at, size_t below_len, int32_t *id)
{
    size_t len = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const size_t n = strlen(s->extra[i].text);
        if (n > len && n < below_len && strncmp(s->text + at, s->extra[i].text, n) == 0)
            len = n, *id = 256 + (int32_t)i;
    }
    return len;
}

static void search(struct search *s, size_t at, double cost)
{
    const size_t n_before = s->way.n;
    int32_t id = -1;
    if (!s->text[at]) {
        if (cost >= s->best) return;
        s->best = cost;
        ids_clear(&s->found);
        ids_append(&s->found, s->way.data, s->way.n);
        return;
    }
    for (size_t len = TEXT_CAP; (len = longest(s, at, len, &id)) > 0;) {
        ids_push(&s->way, id);
        search(s, at + len, cost - (double)s->scores[id - 256]);
        s->way.n = n_before;
    }
    const size_t len = vocab_char_len(s->text + at, strlen(s->text + at));
    for (size_t i = 0; i < len; i++)
        ids_push(&s->way, (uint8_t)s->text[at + i]);
    search(s, at + len, cost + 1000);
    s->way.n = n_before;
}

static void put_chars(char *out, size_t n)
{
    static const char *const chars[] = {"a", "b", "\u00e9", "\u3042"};
    *out = '\0';
    while (n-- > 0)
        strcat(out, chars[below(4)]);
}

/* Scores are whole, so that many ways are as good. */
static void test_all_ways(void **state)
{
    (void)state;
    for (size_t k = 300 * soak(); k > 0; k--) {
        struct extra_token extra[MOST_TOKENS];
        char texts[MOST_TOKENS][TEXT_CAP], text[TEXT_CAP];
        float scores[MOST_TOKENS];
        uint32_t n = 0;
        for (size_t i = 0; i < MOST_TOKENS; i++) {
            put_chars(texts[n], 1 + below(4));
            scores[n] = (float)below(4) - (below(6) == 0 ? 1002.0f : 6.0f);
            bool again = false;
            for (uint32_t j = 0; j < n; j++)
                again = again || strcmp(texts[j], texts[n]) == 0;
            extra[n] = (struct extra_token){texts[n], TOKEN_NORMAL};
            n += !again;
        }
        struct tokenizer *tok = made(extra, scores, n);
        for (size_t t = 0; t < 10; t++) {
            put_chars(text, below(MOST_CHARS + 1));
            struct search s = {extra, scores, n, text, 1e300, {0}, {0}};
            struct ids ids = {0};
            search(&s, 0, 0);
            encode(tok, text, strlen(text), false, &ids);
            assert_int_equal(ids.n, s.found.n);
            for (size_t i = 0; i < ids.n; i++)
                assert_int_equal(ids.data[i], s.found.data[i]);
            ids_free(&ids);
            ids_free(&s.way);
            ids_free(&s.found);
        }
        tokenizer_close(tok);
    }
}

/* ---- what costs what ---- */

static void test_costs(void **state)
{
    (void)state;
    static const struct extra_token extra[] = {
        {"a", TOKEN_NORMAL},   {"b", TOKEN_NORMAL}, {"ab", TOKEN_NORMAL}, {"c", TOKEN_NORMAL},
        {"cc", TOKEN_UNUSED},  {"d", TOKEN_NORMAL}, {"e", TOKEN_NORMAL},  {"f", TOKEN_NORMAL},
        {"ef", TOKEN_CONTROL}, {"gg", TOKEN_NORMAL}};
    static const struct {
        float scores[10];
        const char *text, *expected;
    } cases[] = {
        /* Two tokens or one, as good; by a ten-thousandth better; by less than that. */
        {{-2, -3, -5}, "ab", "ab"},
        {{-2, -3, -5.0001f}, "ab", "a|b"},
        {{-2, -3, -5.00002f}, "ab", "ab"},
        /* Unused and control tokens are none. */
        {{-2, -3, -9, -5, 100}, "cc", "c|c"},
        {{-2, -3, -9, -5, 0, -1, -5, -5, 100}, "ef", "e|f"},
        /* From -2000 on a token is none: for two bytes of 1000 that shows, for one it does not
         * matter. */
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, -1999.5f}, "gg", "gg"},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, -2000}, "gg", "g|g"},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 1e30f}, "gg", "g|g"},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, -INFINITY}, "gg", "g|g"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tok = made(extra, cases[i].scores, 10);
        check_text(tok, cases[i].text, false, cases[i].expected);
        tokenizer_close(tok);
    }
}

/* A token of broken UTF-8 ends inside a character of the text, and does not cut it. */
static void test_broken_tokens(void **state)
{
    (void)state;
    static const struct extra_token extra[] = {{"\xe3\x81", TOKEN_NORMAL},
                                               {"\x82", TOKEN_NORMAL},
                                               {"a\xe3", TOKEN_NORMAL},
                                               {"a", TOKEN_NORMAL}};
    static const float scores[] = {-1, -1, -1, -1};
    struct tokenizer *tok = made(extra, scores, 4);
    check_text(tok, "\u3042", false, "\xe3|\x81|\x82");
    check_text(tok, "a\u3042", false, "a|\xe3|\x81|\x82");
    check_text(tok, "a\xe3", false, "a\xe3"); /* where nothing is cut */
    tokenizer_close(tok);
}

/* A long text is stopped in the middle of what no border cuts. */
static void test_cancelled(void **state)
{
    (void)state;
    enum { LONG = 1 << 20, FEW = 1 << 16 };
    static const atomic_bool stop = true;
    struct err err = {0};
    struct vocab v;
    struct unigram u;
    struct chart c = {0};
    struct ids ids = {0};
    struct gguf *g = gguf_open("tests/data/vocab/plamo2.gguf", &err);
    assert_non_null(g);
    assert_true(vocab_open(&v, g, SPELL_TEXT, true, &err));
    gguf_close(g);
    unigram_open(&u, &v);
    char *text = mem_alloc(LONG), twice = ' ';
    assert_true(vocab_may_join(&v, &twice, 1, &twice, 1));
    memset(text, twice, LONG);
    unigram_encode(&u, &v, text, LONG, &c, &ids);
    assert_int_equal(ids.n, LONG / 4);
    assert_true(c.cap >= LONG);
    chart_free(&c);
    ids_clear(&ids);
    c.cancel = &stop;
    unigram_encode(&u, &v, text, LONG, &c, &ids);
    assert_int_equal(ids.n, 0);
    assert_true(c.cap < FEW);
    chart_free(&c);
    ids_free(&ids);
    free(text);
    unigram_close(&u);
    vocab_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ways),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_broken_tokens),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests_name("unigram", tests, NULL, NULL);
}
