/* Which tokens may come next in a reply that a grammar binds: those that the bytes allow, and
 * in a thought all of them. */
#include "../vocab_case.h"

#include <math.h>

#include "engine/bound.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "text/grammar.h"
#include "text/matcher.h"
#include "text/reasoning.h"
#include "text/schema.h"

static struct grammar *grammar_of(const char *schema)
{
    struct err err = {0};
    struct grammar *g = schema_grammar(schema, strlen(schema), &err);
    if (!g) fail_msg("%s", err.msg);
    return g;
}

static bool has(const uint32_t *bits, int32_t id)
{
    return bits[id / 32] >> id % 32 & 1;
}

static bool is_mark(const struct tokenizer *tok, int32_t id)
{
    int32_t marks[REASONING_MAX_IDS];
    const size_t n = reasoning_ids(tok, marks);
    for (size_t i = 0; i < n; i++)
        if (marks[i] == id) return true;
    return false;
}

/* Token by token what the words in their order found at once. */
static bool may_come(const struct tokenizer *tok, struct matcher *m, matcher_state s,
                     int32_t id)
{
    if (tokenizer_is_end(tok, id)) return matcher_may_end(m, s);
    const struct piece p = tokenizer_piece(tok, id);
    return !tokenizer_is_control(tok, id) && !is_mark(tok, id) && p.len > 0 &&
           matcher_steps(m, s, p.data, p.len) != MATCHER_DEAD;
}

static void check_vocab(struct tokenizer *tok, const char *schema, size_t n_texts)
{
    struct err err = {0};
    const size_t n = tokenizer_n_vocab(tok), n_logits = n + 7; /* more than there are tokens */
    struct grammar *g = grammar_of(schema);
    struct matcher *m = matcher_new(g);
    struct bound *b = bound_new(tok, n_logits);
    for (size_t k = 0; k < n_texts; k++) {
        assert_true(bound_begin(b, g, NULL, 0, &err));
        matcher_state s = MATCHER_START;
        assert_null(bound_allowed(b)); /* the answer has not begun */
        bound_answer(b, NULL, 0);
        for (size_t i = 0; i < 60 && !bound_is_over(b); i++) {
            const uint32_t *bits = bound_allowed(b);
            for (size_t id = 0; id < n_logits; id++)
                assert_int_equal(has(bits, (int32_t)id),
                                 id < n && may_come(tok, m, s, (int32_t)id));
            size_t at =
                (k * 7919 + i * 104729) % n; /* the next one that may come from here on */
            while (!has(bits, (int32_t)at) || tokenizer_is_end(tok, (int32_t)at))
                at = (at + 1) % n;
            const struct piece p = tokenizer_piece(tok, (int32_t)at);
            s = matcher_steps(m, s, p.data, p.len);
            bound_accept(b, (int32_t)at);
        }
    }
    bound_free(b);
    matcher_free(m);
    grammar_release(g);
    tokenizer_close(tok);
}

static const char usual[] =
    "{\"properties\":{\"name\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\",\"minimum\":0}"
    ","
    "\"of\":{\"type\":\"array\",\"items\":{\"enum\":[\"the\",\"and\",null]}}},\"required\":["
    "\"name\"]}";

static void test_words(void **state)
{
    (void)state;
    check_vocab(vocab_file("bpe"), usual, 12);
    check_vocab(vocab_file("spm"), usual, 12);
    check_vocab(vocab_file("gemma4"), "true", 8);
}

static const struct extra_token extra[] = {
    {"<think>", TOKEN_CONTROL}, {"</think>", TOKEN_CONTROL}, {"<|im_end|>", TOKEN_CONTROL},
    {"true", TOKEN_NORMAL},     {"trap", TOKEN_NORMAL},
};
enum { THINK = 256, THOUGHT, END, TRUE, TRAP };

static struct tokenizer *thinker(void)
{
    struct err err;
    struct tokenizer *tok = vocab_make(
        &(struct made_vocab){
            .model = "gpt2", .pre = "gpt-2", .extra = extra, .n_extra = 5, .eos = END},
        &err);
    assert_non_null(tok);
    return tok;
}

/* Where a thought may begin, its mark is allowed beside the answer; once it has, all is. */
static void test_thoughts(void **state)
{
    (void)state;
    struct err err = {0};
    struct tokenizer *tok = thinker();
    struct grammar *g = grammar_of("{\"type\":\"boolean\"}");
    struct bound *b = bound_new(tok, tokenizer_n_vocab(tok));
    const int32_t opens[] = {THINK};
    assert_true(bound_begin(b, g, NULL, 0, &err));
    assert_true(bound_is_bound(b));
    bound_answer(b, opens, 1);
    assert_true(has(bound_allowed(b), THINK) && has(bound_allowed(b), TRUE));
    assert_false(has(bound_allowed(b), THOUGHT) || has(bound_allowed(b), TRAP));
    assert_false(has(bound_allowed(b), END));
    bound_accept(b, THINK);
    assert_null(bound_allowed(b));
    bound_accept(b, TRAP);
    bound_take_back(b);
    bound_take_back(b); /* as if that had been a guess */
    assert_true(has(bound_allowed(b), THINK));
    bound_accept(b, THINK);
    bound_accept(b, THOUGHT);
    bound_answer(b, NULL, 0);
    assert_false(has(bound_allowed(b), THINK));
    bound_accept(b, 't');
    assert_true(has(bound_allowed(b), 'r'));
    bound_take_back(b);
    bound_accept(b, TRUE);
    assert_true(bound_is_over(b));
    assert_true(has(bound_allowed(b), END));
    bound_ease(b);
    assert_false(bound_is_over(b));
    assert_null(bound_allowed(b));

    assert_true(bound_begin(b, g, "tr", 2, &err)); /* gone on with */
    bound_answer(b, NULL, 0);
    assert_true(has(bound_allowed(b), 'u'));
    assert_false(has(bound_allowed(b), TRUE));
    assert_false(bound_begin(b, g, "two", 3, &err));
    assert_true(strstr(err.msg, "does not begin as the schema asks for") != NULL);
    assert_false(bound_is_bound(b));
    assert_true(bound_begin(b, NULL, NULL, 0, &err));
    assert_false(bound_is_bound(b));
    assert_null(bound_allowed(b));
    bound_accept(b, TRUE);
    bound_take_back(b);
    bound_free(b);
    grammar_release(g);
    tokenizer_close(tok);
}

/* Schemas that take turns find again what was found of them, and of more than are kept the
 * oldest makes room. */
static void test_turns(void **state)
{
    (void)state;
    struct err err = {0};
    struct tokenizer *tok = thinker();
    struct grammar *g[BOUND_GRAMMARS + 1];
    struct bound *b = bound_new(tok, tokenizer_n_vocab(tok));
    for (size_t i = 0; i <= BOUND_GRAMMARS; i++) {
        char schema[32];
        snprintf(schema, sizeof schema, "{\"const\":%zu}", i);
        g[i] = grammar_of(schema);
    }
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < BOUND_GRAMMARS; i++) {
            assert_true(bound_begin(b, g[i], NULL, 0, &err));
            bound_answer(b, NULL, 0);
            for (size_t k = 0; k <= BOUND_GRAMMARS; k++)
                assert_int_equal(has(bound_allowed(b), '0' + (int32_t)k), k == i);
            assert_int_equal(bound_n_walks(b), round == 0 ? i + 1 : BOUND_GRAMMARS);
            assert_true(bound_begin(b, NULL, NULL, 0, &err));
        }
    const size_t order[] = {BOUND_GRAMMARS, 1, 0}; /* the last of them is gone, 1 is not */
    for (size_t i = 0; i < 3; i++) {
        assert_true(bound_begin(b, g[order[i]], NULL, 0, &err));
        bound_answer(b, NULL, 0);
        assert_true(has(bound_allowed(b), '0' + (int32_t)order[i]));
        assert_int_equal(bound_n_walks(b), BOUND_GRAMMARS + (i == 2 ? 2 : 1));
    }
    bound_free(b);
    for (size_t i = 0; i <= BOUND_GRAMMARS; i++)
        grammar_release(g[i]);
    tokenizer_close(tok);
}

/* The next letter of a text of a and b, and all that may follow behind the n there are. */
static char letter(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 63 ? 'a' : 'b';
}

enum { ROOM_BEHIND = 20 };

static void check_letters(struct bound *b, const char *text, size_t n)
{
    const uint32_t *bits = bound_allowed(b);
    const bool may_end = text[n - ROOM_BEHIND - 1] == 'a';
    for (int32_t id = 0; id < 256; id++)
        assert_int_equal(has(bits, id), id == 'a' || id == 'b' || (id == '"' && may_end));
}

/* A text of which each letter makes a state: there are more of them in replies that follow each
 * other, and at last in one, than a matcher has room for. */
static void test_room(void **state)
{
    (void)state;
    enum { REPLY = 1 << 15, LONG = MATCHER_MAX_STATES - 100, MORE = 300 };
    struct err err = {0};
    struct tokenizer *tok = thinker();
    struct grammar *g = grammar_of("{\"type\":\"string\",\"pattern\":\"^[ab]*a[ab]{20}$\"}");
    struct bound *b = bound_new(tok, tokenizer_n_vocab(tok));
    char *text = calloc(LONG + MORE + 1, 1);
    uint64_t seed = 1;
    for (size_t k = 0; k < 2 * MATCHER_MAX_STATES / REPLY; k++) {
        text[0] = '"';
        for (size_t i = 1; i < REPLY; i++)
            text[i] = letter(&seed);
        assert_true(bound_begin(b, g, text, REPLY, &err));
        bound_answer(b, NULL, 0);
        check_letters(b, text, REPLY);
    }
    for (size_t i = 1; i < LONG + MORE; i++)
        text[i] = letter(&seed);
    assert_true(bound_begin(b, g, text, LONG, &err));
    bound_answer(b, NULL, 0);
    for (size_t i = LONG; i < LONG + MORE; i++) {
        check_letters(b, text, i);
        bound_accept(b, text[i]);
    }
    for (size_t i = LONG + MORE; i > LONG; i--) { /* those before the new room, too */
        check_letters(b, text, i);
        bound_take_back(b);
    }
    check_letters(b, text, LONG);
    free(text);
    bound_free(b);
    grammar_release(g);
    tokenizer_close(tok);
}

/* The sampler draws none but those, however likely the others are. */
static void test_draws(void **state)
{
    (void)state;
    struct err err = {0};
    struct tokenizer *tok = thinker();
    const size_t n = tokenizer_n_vocab(tok);
    struct grammar *g = grammar_of("{\"type\":\"boolean\"}");
    struct bound *b = bound_new(tok, n);
    struct sampler *s = sampler_new(n);
    float *logits = calloc(n, sizeof *logits);
    const struct engine_sampling how = {.temp = 1, .top_k = 3, .top_p = 1, .repeat_penalty = 1};
    int32_t ids[8], id = -1;
    logits[TRAP] = 100;
    logits[END] = 90;
    assert_true(sampler_begin(s, &how, NULL, 0, &err));
    assert_false(sampler_is_bound(s));
    assert_true(sampler_draw(s, logits, 0, &id, &err) && id == TRAP);
    sampler_bind(s, b);
    assert_true(bound_begin(b, g, NULL, 0, &err));
    assert_true(sampler_is_bound(s));
    bound_answer(b, NULL, 0);
    size_t n_ids = 0;
    struct buf text = {0};
    while (n_ids < 8 && !bound_is_over(b)) {
        assert_true(sampler_draw(s, logits, (uint32_t)n_ids, &id, &err));
        const struct piece p = tokenizer_piece(tok, id);
        buf_append(&text, p.data, p.len);
        ids[n_ids++] = id;
        sampler_accept(s, ids, n_ids);
    }
    const char *said = buf_str(&text);
    said += strspn(said, " \n\t");
    assert_true(strcmp(said, "true") == 0 || strcmp(said, "false") == 0 || n_ids == 8);
    sampler_take_back(s, ids, n_ids);
    for (size_t i = 0; i < n; i++)
        logits[i] = i == TRAP ? 1 : -INFINITY;
    assert_false(sampler_draw(s, logits, (uint32_t)n_ids, &id, &err));
    assert_string_equal(err.msg, "no token goes on as the schema asks for");
    free(logits);
    buf_free(&text);
    sampler_free(s);
    bound_free(b);
    grammar_release(g);
    tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words), cmocka_unit_test(test_thoughts),
        cmocka_unit_test(test_turns), cmocka_unit_test(test_room),
        cmocka_unit_test(test_draws),
    };
    return cmocka_run_group_tests_name("bound", tests, NULL, NULL);
}
