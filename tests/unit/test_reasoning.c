/* Reasoning and answer told apart, whatever the markers are, and however the reply is cut into
 * tokens. */
#include "../vocab_case.h"

#include "text/detokenize.h"
#include "text/reasoning.h"

/* What was emitted: "R:hm|T:Yes", neighbouring pieces of one part joined. */
struct heard {
    struct buf shown, whole;
    struct reasoning *r;
    int part; /* of the last piece, -1 at first */
};

static void hear(void *ctx, enum reply_part part, const char *text, size_t len)
{
    struct heard *h = ctx;
    assert_true(len > 0);
    assert_true(utf8_valid(text, len));
    size_t at = reasoning_piece_at(h->r);
    assert_true(at + len <= h->whole.len);
    assert_memory_equal(h->whole.data + at, text, len);
    if (h->part != (int)part)
        buf_printf(&h->shown, "%s%c:", h->shown.len ? "|" : "", part == REPLY_TEXT ? 'T' : 'R');
    h->part = (int)part;
    buf_append(&h->shown, text, len);
}

/* The reply is given as text in which control tokens count (special) or not. */
static void split_ids(const struct tokenizer *tok, const char *prompt, const struct ids *ids,
                      const char *expected)
{
    struct err err;
    struct ids before = {0};
    struct heard h = {.part = -1};
    struct detokenizer d;
    h.r = reasoning_new(tok, hear, &h);
    assert_true(tokenizer_encode(tok, prompt, strlen(prompt), ENCODE_CONTROL, &before, &err));
    reasoning_prompt(h.r, before.data, before.n);
    detokenizer_init(&d, tok, true);
    for (size_t i = 0; i < ids->n; i++) {
        if (tokenizer_is_end(tok, ids->data[i]) && reasoning_ends_turn(h.r, ids->data[i]))
            break;
        detokenizer_add(&d, ids->data[i], &h.whole);
        reasoning_add(h.r, ids->data[i]);
    }
    detokenizer_flush(&d, &h.whole);
    reasoning_flush(h.r);
    assert_string_equal(buf_str(&h.shown), expected);
    reasoning_free(h.r);
    buf_free(&h.shown);
    buf_free(&h.whole);
    ids_free(&before);
}

static void split(const struct tokenizer *tok, const char *prompt, const char *reply,
                  bool special, const char *expected)
{
    struct err err;
    struct ids ids = {0};
    const unsigned how = special ? ENCODE_CONTROL : ENCODE_PLAIN;
    assert_true(tokenizer_encode(tok, reply, strlen(reply), how, &ids, &err));
    split_ids(tok, prompt, &ids, expected);
    ids_free(&ids);
}

static struct tokenizer *with(const struct extra_token *extra, uint32_t n)
{
    struct err err = {0};
    struct tokenizer *tok = vocab_make(
        &(struct made_vocab){.model = "gpt2", .pre = "gpt-2", .extra = extra, .n_extra = n},
        &err);
    if (!tok) fail_msg("%s", err.msg);
    return tok;
}

/* The first marker of a prompt's end, whether or not the thought is skipped there. */
static void opened_at(const struct tokenizer *tok, const char *before,
                      const struct reasoning_marker *m, const char *after)
{
    struct err err;
    struct ids ids = {0};
    char prompt[200];
    assert_true(tokenizer_encode(tok, before, strlen(before), ENCODE_CONTROL, &ids, &err));
    const size_t want = ids.n;
    assert_int_equal(reasoning_opened_at(tok, ids.data, ids.n), ids.n);
    for (int skipped = 0; skipped < 2; skipped++) {
        snprintf(prompt, sizeof prompt, "%s%s%s%s%s", before, m->open, after,
                 skipped ? m->close : "", skipped ? after : "");
        ids_clear(&ids);
        assert_true(tokenizer_encode(tok, prompt, strlen(prompt), ENCODE_CONTROL, &ids, &err));
        assert_int_equal(reasoning_opened_at(tok, ids.data, ids.n), want);
    }
    ids_free(&ids);
}

/* Every row of the table, its markers as tokens of their own: once as control tokens and once
 * as user-defined ones. */
static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 4; reasoning_at(i); i++) {
        const struct reasoning_marker *m = reasoning_at(i);
        for (int user = 0; user < 2; user++) {
            enum token_type type = user ? TOKEN_USER_DEFINED : TOKEN_CONTROL;
            const struct extra_token extra[] = {{m->open, type}, {m->close, type}};
            struct tokenizer *tok = with(extra, 2);
            assert_ptr_equal(reasoning_of(tok), m);
            char reply[200];
            snprintf(reply, sizeof reply, "%s\nhm,\n ok\n%s\n\nYes. ", m->open, m->close);
            split(tok, "", reply, true, "R:hm,\n ok|T:Yes. ");
            snprintf(reply, sizeof reply, "hm\n%s\nYes", m->close);
            char prompt[100];
            snprintf(prompt, sizeof prompt, "Q\n%s\n", m->open);
            split(tok, prompt, reply, true, "R:hm|T:Yes");
            snprintf(prompt, sizeof prompt, "Q\n%s\n\n%s\n\n", m->open, m->close);
            split(tok, prompt, "Yes", true, "T:Yes");
            opened_at(tok, "Q\n", m, "\n");
            tokenizer_close(tok);
        }
    }
}

/* Without such tokens the markers are looked for in the text, an opening one at the start. */
static void test_by_text(void **state)
{
    (void)state;
    struct tokenizer *tok = with(NULL, 0);
    assert_null(reasoning_of(tok));
    split(tok, "", "<think>\nhm\n</think>\n\nYes", false, "R:hm|T:Yes");
    split(tok, "", "\n [THINK]hm[/THINK]Yes", false, "R:hm|T:Yes");
    split(tok, "", "A <think> is a tag </think>.", false, "T:A <think> is a tag </think>.");
    split(tok, "", "<thin air", false, "T:<thin air");
    split(tok, "", "<think>a </thin b</think>c", false, "R:a </thin b|T:c");
    split(tok, "", "<think>cut off </th", false, "R:cut off </th");
    split(tok, "", "<think>cut off \n", false, "R:cut off");
    split(tok, "", "<think></think>Yes", false, "T:Yes");
    split(tok, "", " \n", false, "T: \n");
    split(tok, "", "", false, "");
    split(tok, "assistant\n<think>\n", "hm</think>\nYes", false, "R:hm|T:Yes");
    split(tok, "<think>", "hm</think>\nYes", false, "R:hm|T:Yes");
    split(tok, "write <think> here", "Yes", false, "T:Yes");
    tokenizer_close(tok);
    /* A control token is between letters that would be a marker. */
    tok = with(&(struct extra_token){"<|x|>", TOKEN_CONTROL}, 1);
    split(tok, "", "<thi<|x|>nk>hm", true, "T:<think>hm");
    tokenizer_close(tok);
}

/* Some of the tokens that a family has are none of its markers. */
static void test_half_a_family(void **state)
{
    (void)state;
    static const struct extra_token halves[][3] = {
        {{"<think>", TOKEN_CONTROL}},
        {{"</think>", TOKEN_CONTROL}},
        {{"<|start|>", TOKEN_CONTROL}, {"<|channel|>", TOKEN_CONTROL}},
        {{"<|start|>", TOKEN_CONTROL}, {"<|message|>", TOKEN_CONTROL}},
        {{"<|channel|>", TOKEN_CONTROL}, {"<|message|>", TOKEN_CONTROL}}};
    for (size_t i = 0; i < 5; i++) {
        struct tokenizer *tok = with(halves[i], i < 2 ? 1 : 2);
        assert_null(reasoning_of(tok));
        split(tok, "", "<think>hm</think>Yes", false, "R:hm|T:Yes");
        tokenizer_close(tok);
    }
}

/* With such tokens, plain letters are text: a model may write about its own markers. */
static void test_letters_are_text(void **state)
{
    (void)state;
    const struct extra_token extra[] = {{"<think>", TOKEN_CONTROL},
                                        {"</think>", TOKEN_CONTROL}};
    struct tokenizer *tok = with(extra, 2);
    split(tok, "", "<think>x</think>", false, "T:<think>x</think>");
    struct ids ids = {0};
    struct err err;
    ids_push(&ids, 256);
    assert_true(tokenizer_encode(tok, "a</think>b", 10, ENCODE_PLAIN, &ids, &err));
    ids_push(&ids, 257);
    ids_push(&ids, 'Y');
    split_ids(tok, "", &ids, "R:a</think>b|T:Y");
    /* White space at the end of a prompt's thought is not of the reply. */
    split(tok, "<think>a \n", "b</think>Y", true, "R:b|T:Y");
    ids_free(&ids);
    tokenizer_close(tok);
}

static void check_harmony(enum token_type type)
{
    const struct extra_token extra[] = {
        {"<|start|>", type}, {"<|channel|>", type},         {"<|message|>", type},
        {"<|end|>", type},   {"<|return|>", TOKEN_CONTROL}, {"<|constrain|>", TOKEN_CONTROL}};
    struct tokenizer *tok = with(extra, 6);
    assert_string_equal(reasoning_of(tok)->name, "harmony");
    const char *prompt = "<|start|>user<|message|>Q<|end|><|start|>assistant";
    split(tok, prompt,
          "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
          "<|channel|>final<|message|>Yes<|return|>",
          true, "R:hm|T:Yes");
    split(tok, prompt, "<|channel|>final<|message|>Yes<|return|>more", true, "T:Yes");
    /* A comment before the tool call is for the user, and the turn goes on after <|end|>. */
    split(tok, prompt,
          "<|channel|>commentary<|message|>Wait<|end|><|start|>assistant<|channel|>analysis"
          "<|message|>hm<|end|>",
          true, "T:Wait|R:hm");
    split(tok, "<|start|>assistant<|channel|>analysis<|message|>", "hm<|end|>", true, "R:hm");
    /* The prompt may stand inside a header: its part of it is not of the reply. */
    split(tok, "<|start|>assistant<|channel|>ana", "lysis<|message|>hm<|end|>", true, "R:hm");
    split(tok, "<|start|>assistant<|channel|>final", "<|message|>Yes", true, "T:Yes");
    split(tok, prompt, "<|channel|>anal", true, ""); /* cut off in a header */
    split(tok, prompt, "no header", true, "T:no header");
    /* A role alone is a header, too, and the last channel counts. */
    split(tok, prompt,
          "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|message|>Yes", true,
          "R:hm|T:Yes");
    split(tok, prompt, "<|channel|>analysis<|channel|><|message|>Yes", true, "T:Yes");
    split(tok, prompt, "<|channel|>analysis<|message|>hm\n<|channel|>analysis<|message|>, ok",
          true, "R:hm, ok");
    tokenizer_close(tok);
}

static void test_harmony(void **state)
{
    (void)state;
    check_harmony(TOKEN_CONTROL);
    check_harmony(TOKEN_USER_DEFINED);
}

/* Muse: a header says whom the message is to. */
static void check_recipients(enum token_type type)
{
    const struct extra_token extra[] = {
        {"<|start|>", type}, {"<|message|>", type}, {"<|eom|>", type}, {"<|eot|>", type}};
    struct tokenizer *tok = with(extra, 4);
    assert_string_equal(reasoning_of(tok)->name, "muse");
    const char *prompt = "<|start|>user<|message|>Q<|eot|><|start|>assistant";
    split(tok, prompt,
          " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Yes<|eot|>more",
          true, "R:hm|T:Yes");
    split(tok, prompt, " to=user<|message|>Yes<|eot|>more", true, "T:Yes");
    split(tok, prompt, "<|message|>Yes<|eot|>", true, "T:Yes");
    split(tok, prompt, " to=selfie<|message|>Yes", true, "T:Yes");
    split(tok, prompt, " to=self<|message|>to=user, to=self", true, "R:to=user, to=self");
    /* A message to a tool is shown, and the turn goes on behind it. */
    split(tok, prompt,
          " to=self<|message|>hm<|eom|><|start|>assistant to=look.up<|message|>{}<|eom|>"
          "<|start|>assistant to=self<|message|>so<|eom|>",
          true, "R:hm|T:{}|R:so");
    split(tok, "<|start|>assistant to=self<|message|>", "hm<|eom|>", true, "R:hm");
    split(tok, "<|start|>assistant to=se", "lf<|message|>hm<|eom|>", true, "R:hm");
    split(tok, "<|start|>assistant to=user", "<|message|>Yes", true, "T:Yes");
    split(tok, prompt, " to=se", true, ""); /* cut off in a header */
    split(tok, prompt, "no header", true, "T:no header");
    tokenizer_close(tok);
}

static void test_recipients(void **state)
{
    (void)state;
    check_recipients(TOKEN_CONTROL);
    check_recipients(TOKEN_USER_DEFINED);
}

/* Kimi K3: the answer is a part with a name as the thought is. */
static void check_opened(enum token_type type)
{
    const struct extra_token extra[] = {{"<|open|>", type},
                                        {"<|close|>", type},
                                        {"<|sep|>", type},
                                        {"<|end_of_msg|>", TOKEN_CONTROL}};
    struct tokenizer *tok = with(extra, 4);
    assert_string_equal(reasoning_of(tok)->name, "kimi-k3");
    const char *user =
        "<|open|>message role=\"user\"<|sep|>Q<|close|>message<|sep|><|end_of_msg|>"
        "<|open|>message role=\"assistant\"<|sep|>";
    const char *thinks = "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>";
    const char *answers = "<|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>";
    split(tok, thinks,
          "hm\n<|close|>think<|sep|><|open|>response<|sep|>Yes<|close|>response<|sep|>"
          "<|close|>message<|sep|><|end_of_msg|>more",
          true, "R:hm|T:Yes");
    split(tok, user,
          "<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>Yes"
          "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>",
          true, "R:hm|T:Yes");
    split(tok, answers, "Yes<|close|>response<|sep|><|close|>message<|sep|>", true, "T:Yes");
    split(tok, thinks, "<|close|>think<|sep|><|open|>response<|sep|>Yes", true, "T:Yes");
    struct reasoning_marker skips = *reasoning_of(tok);
    opened_at(tok, user, &skips, "");
    skips.close = "<|close|>think<|sep|><|open|>response<|sep|>";
    opened_at(tok, user, &skips, "");
    split(tok, thinks, "hm <|open|>think", true, "R:hm"); /* cut off in a name */
    split(tok, thinks, "think<|close|>thi", true, "R:think");
    split(tok, user, "no part", true, "T:no part");
    split(tok, user, "<|open|>thinking<|sep|>a", true, "T:a");
    if (type == TOKEN_CONTROL) /* in plain letters */
        split(tok, answers, "a<|open|>think", false, "T:a<|open|>think");
    tokenizer_close(tok);
}

static void test_opened(void **state)
{
    (void)state;
    check_opened(TOKEN_CONTROL);
    check_opened(TOKEN_USER_DEFINED);
}

static void test_gemma(void **state)
{
    (void)state;
    const struct extra_token extra[] = {{"<|channel>", TOKEN_CONTROL},
                                        {"<channel|>", TOKEN_CONTROL},
                                        {"<|turn>", TOKEN_CONTROL},
                                        {"<turn|>", TOKEN_CONTROL}};
    struct tokenizer *tok = with(extra, 4);
    assert_string_equal(reasoning_of(tok)->name, "gemma");
    split(tok, "<|turn>model\n", "<|channel>thought\nhm\n<channel|>Yes<turn|>", true,
          "R:hm|T:Yes");
    split(tok, "<|turn>model\n", "<|channel>thought<channel|>Yes", true, "T:Yes");
    split(tok, "<|turn>model\n<|channel>thought\n<channel|>", "Yes", true, "T:Yes");
    tokenizer_close(tok);
}

/* What is longer than any header is text after all; the prompt's part is still not shown. */
static void test_long_header(void **state)
{
    (void)state;
    const struct extra_token extra[] = {{"<|channel>", TOKEN_CONTROL},
                                        {"<channel|>", TOKEN_CONTROL}};
    struct tokenizer *tok = with(extra, 2);
    char reply[400], expected[410];
    memset(reply, 'x', 300);
    reply[300] = '\0';
    snprintf(expected, sizeof expected, "R:%s", reply);
    split(tok, "<|channel>tho", reply, true, expected);
    tokenizer_close(tok);
}

/* Bytes that a control token cuts off become one U+FFFD before it. */
static void test_cut_character(void **state)
{
    (void)state;
    const struct extra_token extra[] = {{"<think>", TOKEN_CONTROL},
                                        {"</think>", TOKEN_CONTROL}};
    struct tokenizer *tok = with(extra, 2);
    const int32_t list[] = {256, 'a', 0xe4, 0xbd, 257, 'b', 0xe4};
    struct ids ids = {0};
    ids_append(&ids, list, sizeof list / sizeof *list);
    split_ids(tok, "", &ids, "R:a\xef\xbf\xbd|T:b\xef\xbf\xbd");
    ids_free(&ids);
    tokenizer_close(tok);
}

/* What cannot become a marker is said at once. */
static void test_at_once(void **state)
{
    (void)state;
    struct tokenizer *tok = with(NULL, 0);
    struct heard h = {.part = -1};
    h.r = reasoning_new(tok, hear, &h);
    buf_puts(&h.whole, "<a b");
    reasoning_add(h.r, '<');
    assert_int_equal(h.shown.len, 0);
    reasoning_add(h.r, 'a');
    assert_string_equal(h.shown.data, "T:<a");
    reasoning_add(h.r, ' ');
    assert_string_equal(h.shown.data, "T:<a ");
    reasoning_free(h.r);
    buf_free(&h.shown);
    buf_free(&h.whole);
    tokenizer_close(tok);
}

static void test_invalid(void **state)
{
    (void)state;
    struct tokenizer *tok = with(NULL, 0);
    struct heard h = {.part = -1};
    h.r = reasoning_new(tok, hear, &h);
    buf_puts(&h.whole, "a\xef\xbf\xbd"
                       "b");
    const int32_t ids[] = {'a', 0xff, 'b'};
    for (size_t i = 0; i < 3; i++)
        reasoning_add(h.r, ids[i]);
    reasoning_flush(h.r);
    assert_string_equal(h.shown.data, "T:a\xef\xbf\xbd"
                                      "b");
    assert_true(reasoning_saw_invalid(h.r));
    reasoning_free(h.r);
    buf_free(&h.shown);
    buf_free(&h.whole);
    tokenizer_close(tok);
}

static void hear_nothing(void *ctx, enum reply_part part, const char *text, size_t len)
{
    (void)ctx, (void)part, (void)text, (void)len;
}

/* Where the answer may begin with the next token ('A'), where a thought may, too ('B'), and
 * where neither ('-'): before the reply and behind each of its tokens. */
static void check_places(const struct tokenizer *tok, const char *prompt, const char *reply,
                         const char *want)
{
    struct err err;
    struct ids before = {0}, ids = {0};
    struct buf found = {0};
    int32_t opens[REASONING_MAX_IDS];
    struct reasoning *r = reasoning_new(tok, hear_nothing, NULL);
    assert_true(tokenizer_encode(tok, prompt, strlen(prompt), ENCODE_CONTROL, &before, &err));
    assert_true(tokenizer_encode(tok, reply, strlen(reply), ENCODE_CONTROL, &ids, &err));
    reasoning_prompt(r, before.data, before.n);
    for (size_t i = 0; i <= ids.n; i++) {
        if (i > 0) reasoning_add(r, ids.data[i - 1]);
        const bool answers = reasoning_in_answer(r);
        buf_putc(&found, !answers ? '-' : reasoning_opens(r, opens) > 0 ? 'B' : 'A');
    }
    assert_string_equal(buf_str(&found), want);
    reasoning_free(r);
    buf_free(&found);
    ids_free(&before);
    ids_free(&ids);
}

static void test_places(void **state)
{
    (void)state;
    const struct extra_token think[] = {{"<think>", TOKEN_CONTROL},
                                        {"</think>", TOKEN_CONTROL}};
    struct tokenizer *tok = with(think, 2);
    check_places(tok, "x", "{}", "BAA");
    check_places(tok, "x", " \n<think>a</think>\n{}", "BBB--AAAA");
    check_places(tok, "<think>", "a</think>{", "--AA");
    check_places(tok, "<think></think>", "{", "BA");
    int32_t ids[REASONING_MAX_IDS];
    assert_int_equal(reasoning_ids(tok, ids), 2);
    assert_int_equal(ids[0], 256);
    tokenizer_close(tok);

    const struct extra_token harmony[] = {{"<|start|>", TOKEN_CONTROL},
                                          {"<|channel|>", TOKEN_CONTROL},
                                          {"<|message|>", TOKEN_CONTROL},
                                          {"<|end|>", TOKEN_CONTROL}};
    tok = with(harmony, 4);
    check_places(tok, "<|start|>a", "<|channel|>f<|message|>{", "---AA");
    check_places(tok, "<|start|>a",
                 "<|channel|>analysis<|message|>a<|end|><|start|>a<|channel|>f"
                 "<|message|>{",
                 "-----------------AA");
    assert_int_equal(reasoning_ids(tok, ids), 4);
    tokenizer_close(tok);

    const struct extra_token parts[] = {
        {"<|open|>", TOKEN_CONTROL}, {"<|close|>", TOKEN_CONTROL}, {"<|sep|>", TOKEN_CONTROL}};
    tok = with(parts, 3);
    check_places(tok, "<|open|>think<|sep|>", "a<|close|>think<|sep|><|open|>r<|sep|>{",
                 "-----------AA");
    tokenizer_close(tok);

    tok = with(&(struct extra_token){"xy", TOKEN_NORMAL}, 1);
    assert_int_equal(reasoning_ids(tok, ids), 0);
    check_places(tok, "<think>", "a</think>{", "---------AA");
    tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_by_text),
        cmocka_unit_test(test_letters_are_text),
        cmocka_unit_test(test_half_a_family),
        cmocka_unit_test(test_harmony),
        cmocka_unit_test(test_recipients),
        cmocka_unit_test(test_opened),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_long_header),
        cmocka_unit_test(test_cut_character),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
