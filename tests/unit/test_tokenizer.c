/* The tokenizer over the vocabularies of tests/data/vocab: fixed cases (checked once against
 * llama.cpp), the borders of template, user text and replies, and random text. */
#include "../chance.h"
#include "../soak.h"
#include "../vocab_case.h"

#include "base/mem.h"
#include "engine/check.h"
#include "text/detokenize.h"
#include "text/merge.h"
#include "text/pretokenize.h"
#include "text/special.h"

static const char *const files[] = {"bpe", "spm", "gemma4"};

static void encode(const struct tokenizer *tok, const char *text, size_t len, bool special,
                   struct ids *out)
{
    struct err err;
    if (!tokenizer_encode(tok, text, len, special, false, out, &err)) fail_msg("%s", err.msg);
}

static void encode_spans(const struct tokenizer *tok, const struct spans *s, struct ids *out)
{
    struct err err;
    if (!tokenizer_encode_spans(tok, s, NULL, out, &err)) fail_msg("%s", err.msg);
}

static void check_text(const struct tokenizer *tok, const char *text, bool special,
                       const char *expected)
{
    struct ids ids = {0};
    encode(tok, text, strlen(text), special, &ids);
    check_ids(tok, &ids, expected);
    ids_free(&ids);
}

static void assert_same_ids(const struct ids *a, const struct ids *b)
{
    assert_int_equal(a->n, b->n);
    if (a->n) assert_memory_equal(a->data, b->data, a->n * sizeof *a->data);
}

/* ---- fixed cases ---- */

static void test_bpe(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("bpe");
    assert_string_equal(tokenizer_model(tok), "gpt2");
    assert_string_equal(tokenizer_pre(tok), "qwen2");
    check_text(tok, "", false, "");
    check_text(tok, "She said it's late.", false, "She| said| it|'s| late|.");
    check_text(tok, "Stra\u00dfe, caf\u00e9 20", false,
               "S|t|ra|\xc3|\x9f"
               "e|,| caf\u00e9| |2|0");
    check_text(tok, "\u4f60\u597d \U0001f642", false, "\u4f60\u597d| \U0001f642");
    check_text(tok, "a  b   c\n\nd", false, "a| | |b| | | c|\n\n|d");
    check_text(tok, "printf(\"%d\\n\")", false, "p|r|int|f|(\"%|d|\\|n|\"|)");
    check_text(tok, "\xff\xfe", false, "\xff|\xfe"); /* invalid bytes as they stand */
    tokenizer_close(tok);
}

static void test_spm(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("spm");
    assert_string_equal(tokenizer_model(tok), "llama");
    assert_string_equal(tokenizer_pre(tok), "");
    check_text(tok, "She said it's late.", false, " She| said| it's| late|.");
    check_text(tok, "a  b   c", false, " a|  |b|  | c");
    /* Bytes for what the vocabulary has no characters for; no token is ever unknown. */
    check_text(tok, "\u4f60", false, " |\xe4|\xbd|\xa0");
    check_text(tok, "\xff", false, " |\xff");
    /* A byte token is never matched by its name. */
    check_text(tok, "<0x41>", false, " <|0|x|4|1|>");
    tokenizer_close(tok);
}

static void test_gemma4(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("gemma4");
    assert_string_equal(tokenizer_model(tok), "gemma4");
    check_text(tok, "She said it's late.", false, "S|he sa|id i|t's la|t|e|.");
    check_text(tok, "a  b   c\n\nd", false, "a|  |b|  | c|\n\n|d");
    check_text(tok, "\n\n\n\n\n", false, "\n|\n|\n|\n|\n"); /* no token is five long */
    check_text(tok, "x<html>", false, "x|<html>");
    check_text(tok, "\u4f60", false, "\xe4|\xbd|\xa0");
    check_text(tok, "<|turn>", true, "{<|turn>}");
    tokenizer_close(tok);
}

static void test_special_in_text(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("bpe");
    check_text(tok, "<|im_start|>user\nHi<|im_end|>", true,
               "{<|im_start|>}|u|s|er|\n|H|i|{<|im_end|>}");
    check_text(tok, "Hi<|im_end|>", false, "H|i|<|||i|m|_|e|nd|||>");
    /* User-defined tokens are text like any other, in either. */
    check_text(tok, "<think>x", true, "<think>|x");
    check_text(tok, "<think>x", false, "<think>|x");
    check_text(tok, "a\n\n\n\n", false,
               "a|\n\n\n|\n"); /* the longest first, then the leftmost */
    tokenizer_close(tok);
}

/* ---- borders ---- */

static void test_user_text_is_never_control(void **state)
{
    (void)state;
    static const char *const parts[] = {"<|im_end|>", "<|im_start|>", "<|endoftext|>",
                                        "</s>",       "<s>",          "<unk>",
                                        "<|turn>",    "<turn|>",      "<eos>",
                                        "<bos>",      "<channel|>",   "<|im_",
                                        "end|>",      "<|",           "|>",
                                        " ",          "\n",           "hi",
                                        "<0x0A>"};
    for (size_t f = 0; f < 3; f++) {
        struct tokenizer *tok = vocab_file(files[f]);
        for (size_t k = 500 * soak(); k > 0; k--) {
            struct spans s = {0};
            struct ids plain = {0}, ids = {0};
            struct buf text = {0};
            for (size_t n = 1 + below(8); n > 0; n--)
                buf_puts(&text, parts[below(sizeof parts / sizeof *parts)]);
            spans_markup(&s, "you: ", 5);
            spans_text(&s, text.data, text.len);
            spans_markup(&s, "end", 3);
            encode(tok, text.data, text.len, false, &plain);
            encode_spans(tok, &s, &ids);
            for (size_t i = 0; i < plain.n; i++)
                assert_false(tokenizer_is_control(tok, plain.data[i]));
            for (size_t i = ids.n && ids.data[0] == tokenizer_bos(tok); i < ids.n; i++)
                assert_false(tokenizer_is_control(tok, ids.data[i]));
            spans_free(&s);
            ids_free(&plain);
            ids_free(&ids);
            buf_free(&text);
        }
        tokenizer_close(tok);
    }
}

/* A file may call the token that ends a turn plain text, with merges that build it: no text
 * becomes that token. */
static void test_named_end_is_not_merged(void **state)
{
    (void)state;
    static const struct extra_token extra[] = {
        {"<|end|>", TOKEN_NORMAL}, {"<|end|", TOKEN_NORMAL}, {"<|end", TOKEN_NORMAL},
        {"<|en", TOKEN_NORMAL},    {"<|e", TOKEN_NORMAL},    {"<|", TOKEN_NORMAL},
        {"<", TOKEN_NORMAL},       {"|", TOKEN_NORMAL},      {"e", TOKEN_NORMAL},
        {"n", TOKEN_NORMAL},       {"d", TOKEN_NORMAL},      {">", TOKEN_NORMAL},
    };
    static const char *const merges[] = {"< |",    "<| e",    "<|e n",
                                         "<|en d", "<|end |", "<|end| >"};
    struct err err = {0};
    struct tokenizer *tok = vocab_make(
        &(struct made_vocab){
            .model = "gemma4", .extra = extra, .n_extra = 12, .merges = merges, .n_merges = 6},
        &err);
    if (!tok) fail_msg("%s", err.msg);
    assert_true(tokenizer_is_end(tok, 256));
    check_text(tok, "<|end|>", false, "<|end||>");
    check_text(tok, "<|end|>", true, "{<|end|>}");
    tokenizer_close(tok);
}

static void test_borders(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("bpe");
    struct spans s = {0};
    struct ids ids = {0};
    spans_markup(&s, "<|im_start|>user\n", 17);
    spans_text(&s, "\nHi <|im_end|>", 14);
    spans_markup(&s, "<|im_end|>\n", 11);
    encode_spans(tok, &s, &ids);
    /* The two line breaks are one token, as if the text were one. */
    check_ids(tok, &ids, "{<|im_start|>}|u|s|er|\n\n|H|i| <|||i|m|_|e|nd|||>|{<|im_end|>}|\n");

    /* A control token that only the pieces together spell is none. */
    spans_clear(&s);
    ids_clear(&ids);
    spans_markup(&s, "<|im_", 5);
    spans_text(&s, "end|>", 5);
    spans_markup(&s, "<|im_end", 8);
    spans_text(&s, "|>", 2);
    encode_spans(tok, &s, &ids);
    for (size_t i = 0; i < ids.n; i++)
        assert_false(tokenizer_is_control(tok, ids.data[i]));

    /* A user-defined one may cross the border: it is text. */
    spans_clear(&s);
    ids_clear(&ids);
    spans_markup(&s, "a\n", 2);
    spans_text(&s, "\n\nb", 3);
    encode_spans(tok, &s, &ids);
    check_ids(tok, &ids, "a|\n\n\n|b");

    /* Ids are copied, and nothing joins across them. */
    int32_t newline = tokenizer_find(tok, "\u010a", 2);
    spans_clear(&s);
    ids_clear(&ids);
    spans_markup(&s, "a\n", 2);
    spans_ids(&s, &newline, 1);
    spans_text(&s, "\n\n", 2);
    encode_spans(tok, &s, &ids);
    check_ids(tok, &ids, "a|\n|\n|\n\n");
    spans_free(&s);
    ids_free(&ids);
    tokenizer_close(tok);
}

/* Random text, cut at random places into markup and text, gives the ids of the whole. */
static void test_joined(void **state)
{
    (void)state;
    static const char *const parts[] = {"user",         "\n",    "\n\n",    " ",
                                        "Hi",           "it's",  "the",     "  ",
                                        "\u4f60\u597d", "<html", "<think>", "9"};
    for (size_t f = 0; f < 3; f++) {
        struct tokenizer *tok = vocab_file(files[f]);
        for (size_t k = 500 * soak(); k > 0; k--) {
            struct spans s = {0}, whole = {0};
            struct ids a = {0}, b = {0};
            for (size_t n = below(12); n > 0; n--) {
                const char *part = parts[below(sizeof parts / sizeof *parts)];
                size_t len = strlen(part), cut = below((uint32_t)len + 1);
                spans_markup(&whole, part, len);
                (below(2) ? spans_text : spans_markup)(&s, part, cut);
                (below(2) ? spans_text : spans_markup)(&s, part + cut, len - cut);
            }
            encode_spans(tok, &s, &a);
            encode_spans(tok, &whole, &b);
            assert_same_ids(&a, &b);
            spans_free(&s);
            spans_free(&whole);
            ids_free(&a);
            ids_free(&b);
        }
        tokenizer_close(tok);
    }
}

/* A prompt that goes on, or back, or elsewhere. */
static void change(struct spans *s)
{
    static const char *const parts[] = {"<|im_start|>user\n", "Hi", "it's late", "  ", "</s>"};
    struct spans kept = {0};
    const size_t n_kept = below(3) ? s->n : below((uint32_t)s->n + 1);
    for (size_t i = 0; i < n_kept; i++) {
        struct spans one = {s->list + i, 1, 1, s->bytes, s->ids};
        spans_append(&kept, &one);
    }
    spans_free(s);
    *s = kept;
    for (size_t n = below(4); n > 0; n--) {
        const char *part = parts[below(sizeof parts / sizeof *parts)];
        const int32_t id = (int32_t)below(200);
        if (below(3) == 0)
            spans_ids(s, &id, 1);
        else
            (below(2) ? spans_text : spans_markup)(s, part, strlen(part));
    }
}

/* What is taken over from the prompt before changes no id. */
static void test_next_is_the_same(void **state)
{
    (void)state;
    const atomic_bool stop = true;
    for (size_t f = 0; f < 3; f++) {
        struct tokenizer *tok = vocab_file(files[f]);
        struct encoded last = {0};
        struct spans s = {0};
        size_t n_taken = 0;
        for (size_t k = 2000 * soak(); k > 0; k--) {
            struct ids a = {0}, b = {0};
            struct err err;
            change(&s);
            if (below(8) == 0)
                assert_false(tokenizer_encode_next(tok, &last, &s, &stop, &a, &err));
            assert_true(tokenizer_encode_next(tok, &last, &s, NULL, &a, &err));
            encode_spans(tok, &s, &b);
            assert_same_ids(&a, &b);
            n_taken += last.n_taken;
            ids_free(&a);
            ids_free(&b);
            if (s.n > 40) spans_clear(&s);
        }
        assert_true(n_taken > 0);
        encoded_free(&last);
        spans_free(&s);
        tokenizer_close(tok);
    }
}

/* In a conversation each token is made once, however often its prompt is asked for. */
static void test_next_is_what_is_new(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("bpe");
    struct encoded last = {0};
    struct spans s = {0};
    size_t n_made = 0;
    for (int32_t turn = 0; turn < 50; turn++) {
        struct ids ids = {0};
        struct err err;
        spans_markup(&s, "<|im_start|>user\n", 17);
        spans_text(&s, "She said it's late.", 19);
        spans_markup(&s, "<|im_end|>\n", 11);
        for (int i = 0; i < 3; i++) {
            ids_clear(&ids);
            assert_true(tokenizer_encode_next(tok, &last, &s, NULL, &ids, &err));
            n_made += last.ids.n - last.n_taken;
        }
        spans_ids(&s, &turn, 1);
        ids_free(&ids);
    }
    assert_int_equal(n_made, last.ids.n);
    encoded_free(&last);
    spans_free(&s);
    tokenizer_close(tok);
}

static void test_bos_and_space(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("spm");
    struct spans s = {0};
    struct ids ids = {0};
    spans_text(&s, "the", 3);
    encode_spans(tok, &s, &ids);
    check_ids(tok, &ids, "{<s>}| the");

    /* The template wrote it already. Text after a control token gets a space, after a reply's
     * token it does not. */
    spans_clear(&s);
    ids_clear(&ids);
    spans_markup(&s, "<s>the</s>", 10);
    spans_ids(&s, (int32_t[]){tokenizer_eos(tok)}, 1);
    spans_text(&s, "the", 3);
    encode_spans(tok, &s, &ids);
    check_ids(tok, &ids, "{<s>}| the|{</s>}|{</s>}| the");
    int32_t the = ids.data[1];
    spans_clear(&s);
    ids_clear(&ids);
    spans_ids(&s, &the, 1);
    spans_text(&s, " the", 4);
    encode_spans(tok, &s, &ids);
    check_ids(tok, &ids, "{<s>}| the| the");

    struct err err;
    ids_clear(&ids);
    assert_true(tokenizer_encode(tok, "the", 3, false, true, &ids, &err));
    check_ids(tok, &ids, "{<s>}| the");
    spans_free(&s);
    ids_free(&ids);
    tokenizer_close(tok);
}

static void test_cancelled(void **state)
{
    (void)state;
    const atomic_bool stop = true;
    for (size_t f = 0; f < 3; f++) {
        struct tokenizer *tok = vocab_file(files[f]);
        struct spans s = {0};
        struct ids ids = {0};
        struct err err;
        ids_push(&ids, 5);
        spans_text(&s, "She said it's late.", 19);
        assert_false(tokenizer_encode_spans(tok, &s, &stop, &ids, &err));
        assert_int_equal(err.code, ERR_CANCELLED);
        assert_int_equal(ids.n, 1);
        spans_free(&s);
        ids_free(&ids);
        tokenizer_close(tok);
    }
}

/* Every stage of a long text looks at the flag every few thousand places: a paste of megabytes
 * is stopped within milliseconds, wherever it is. */
static void test_cancelled_stages(void **state)
{
    (void)state;
    enum { LEN = 1 << 20, FEW = 1 << 16 };
    const atomic_bool stop = true;
    struct vocab v;
    struct err err;
    struct gguf *g = gguf_open("tests/data/vocab/spm.gguf", &err);
    assert_non_null(g);
    assert_true(vocab_open(&v, g, SPELL_SPACES, true, &err));
    char *text = mem_alloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        text[i] = "<s>"[i % 3];

    struct special_set special;
    struct special_matches found;
    const struct special_area area = {LEN, true};
    const struct special_text whole = {text, LEN, &area, 1};
    special_open(&special, &v, false);
    special_find(&special, &v, &whole, NULL, &found);
    assert_int_equal(found.n, LEN / 3);
    free(found.list);
    special_find(&special, &v, &whole, &stop, &found);
    assert_true(found.n < FEW);
    free(found.list);
    special_close(&special);

    struct merger m = {.cancel = &stop};
    merger_add(&m, 0, 1, -1); /* what is looked at first is not all */
    merger_add_bytes(&m, v.byte_id, text, 1, LEN - 1);
    assert_true(m.n > 1 && m.n < FEW);
    merger_start(&m);
    char twice = 'a'; /* a text of it has no border */
    while (twice < 'z' && !vocab_may_join(&v, &twice, 1, &twice, 1))
        twice++;
    memset(text, twice, LEN);
    merger_add_stretch(&m, &v, text, 0, LEN);
    assert_true(m.n > 0 && m.n < FEW);
    merger_start(&m);
    m.cancel = NULL;
    merger_add_stretch(&m, &v, text, 0, LEN);
    assert_int_equal(m.n, LEN);
    merger_start(&m);
    merger_add_bytes(&m, v.byte_id, text, 0, LEN);
    assert_int_equal(m.n, LEN);
    struct ids ids = {0};
    m.cancel = &stop;
    merger_emit(&m, &v, text, &ids);
    assert_true(ids.n > 0 && ids.n < FEW);
    merger_free(&m);

    struct pretokenizer pre;
    struct words w = {0};
    assert_true(pretokenize_open(&pre, "gpt-2", 5, &err));
    text[LEN - 1] = '\xff';
    assert_false(pretokenize_split(&pre, text, LEN, &stop, &w, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_true(w.shadow.len < 2 * FEW);
    words_free(&w);
    pretokenize_close(&pre);
    ids_free(&ids);
    free(text);
    vocab_close(&v);
    gguf_close(g);
}

/* Bytes that are not UTF-8 are found wherever the pieces of a long text meet. */
static void test_long_invalid(void **state)
{
    (void)state;
    enum { LEN = 200000, PIECE = 1 << 16 };
    struct pretokenizer pre;
    struct words w = {0};
    struct err err;
    char *text = mem_alloc(LEN);
    assert_true(pretokenize_open(&pre, "gpt-2", 5, &err));
    for (size_t at = PIECE - 8; at < PIECE + 8; at++) {
        for (size_t i = 0; i < LEN; i++)
            text[i] = "\xf0\x9f\x99\x82"[(i + at) % 4]; /* cut at both ends */
        buf_clear(&w.shadow);
        assert_true(pretokenize_split(&pre, text, LEN, NULL, &w, &err));
        assert_int_equal(w.ends[w.n - 1], LEN);
        assert_int_equal(w.shadow.len, (at % 4 || LEN % 4) ? LEN : 0);
        memset(text, 'a', LEN);
        text[at] = '\x80';
        assert_true(pretokenize_split(&pre, text, LEN, NULL, &w, &err));
        assert_int_equal(w.n, 3);
        assert_int_equal(w.ends[0], at);
        assert_int_equal(w.ends[1], at + 1);
    }
    words_free(&w);
    pretokenize_close(&pre);
    free(text);
}

/* ---- round trip ---- */

static uint32_t random_char(void)
{
    static const uint32_t ranges[][2] = {
        {0, 0x7f},           {0x80, 0x7ff},  {0x800, 0xd7ff},  {0xe000, 0xffff},
        {0x10000, 0x10ffff}, {0x20, 0x7e},   {0x4e00, 0x4e20}, {0x2580, 0x2582},
        {0x1f642, 0x1f643},  {0x300, 0x340}, {0x9, 0xd},       {0x20, 0x20}};
    const uint32_t *r = ranges[below(sizeof ranges / sizeof *ranges)];
    return r[0] + below(r[1] - r[0] + 1);
}

/* What decoding gives back: with the spelling of spaces, U+2581 is a space. */
static void expected_text(const struct tokenizer *tok, const struct buf *text, struct buf *out)
{
    bool spaces = strcmp(tokenizer_model(tok), "gpt2") != 0;
    if (strcmp(tokenizer_model(tok), "llama") == 0 && text->len) buf_putc(out, ' ');
    for (size_t i = 0; i < text->len; i++) {
        bool space = spaces && text->len - i >= 3 && memcmp(text->data + i, "\u2581", 3) == 0;
        buf_putc(out, space ? ' ' : text->data[i]);
        if (space) i += 2;
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        struct tokenizer *tok = vocab_file(files[f]);
        for (size_t k = 1500 * soak(); k > 0; k--) {
            struct buf text = {0}, back = {0}, expected = {0};
            struct ids ids = {0};
            for (size_t n = below(40); n > 0; n--) {
                char c[4];
                buf_append(&text, c, (size_t)utf8_encode(random_char(), c));
            }
            encode(tok, buf_str(&text), text.len, false, &ids);
            struct detokenizer d;
            detokenizer_init(&d, tok, false);
            for (size_t i = 0; i < ids.n; i++) {
                detokenizer_add(&d, ids.data[i], &back);
                assert_true(utf8_valid(buf_str(&back), back.len));
            }
            detokenizer_flush(&d, &back);
            assert_false(d.invalid);
            expected_text(tok, &text, &expected);
            assert_int_equal(back.len, expected.len);
            assert_memory_equal(buf_str(&back), buf_str(&expected), back.len);
            buf_free(&text);
            buf_free(&back);
            buf_free(&expected);
            ids_free(&ids);
        }
        tokenizer_close(tok);
    }
}

/* ---- what a file says of its tokens ---- */

static struct tokenizer *made(const struct made_vocab *m)
{
    struct err err = {0};
    struct tokenizer *tok = vocab_make(m, &err);
    if (!tok) fail_msg("%s", err.msg);
    return tok;
}

static void test_ends(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("bpe");
    size_t n;
    const int32_t *ends = tokenizer_ends(tok, &n);
    assert_int_equal(n, 2); /* the file's eos, and <|endoftext|> by its name */
    assert_true(ends[0] < ends[1]);
    assert_true(tokenizer_is_end(tok, tokenizer_eos(tok)));
    assert_true(tokenizer_is_end(tok, tokenizer_find(tok, "<|endoftext|>", 13)));
    assert_false(tokenizer_is_end(tok, tokenizer_find(tok, "<|im_start|>", 12)));
    assert_false(tokenizer_is_end(tok, -1));
    tokenizer_close(tok);

    /* Names count whatever their type says, but a word without bars only if it is no text; and
     * then plain text must not write them. */
    const struct extra_token odd[] = {
        {"<|eot_id|>", TOKEN_NORMAL}, {"</s>", TOKEN_NORMAL}, {"<|end|>", TOKEN_CONTROL}};
    struct made_vocab m = {.model = "gpt2", .pre = "gpt-2", .extra = odd, .n_extra = 3};
    tok = made(&m);
    ends = tokenizer_ends(tok, &n);
    assert_int_equal(n, 2);
    assert_int_equal(ends[0], 256);
    assert_int_equal(ends[1], 258);
    assert_true(tokenizer_is_control(tok, 256));
    assert_false(tokenizer_is_control(tok, 257));
    check_text(tok, "<|eot_id|>", false, "<|||e|o|t|_|i|d|||>");
    tokenizer_close(tok);

    /* In harmony <|end|> ends a message, not the turn. */
    const struct extra_token harmony[] = {
        {"<|return|>", TOKEN_CONTROL}, {"<|end|>", TOKEN_CONTROL}, {"<|call|>", TOKEN_CONTROL}};
    m.extra = harmony;
    tok = made(&m);
    assert_true(tokenizer_is_end(tok, 256));
    assert_false(tokenizer_is_end(tok, 257));
    assert_true(tokenizer_is_end(tok, 258));
    tokenizer_close(tok);

    /* Where the tags of HTML are tokens, </s> is one of them; the name of gemma's end tells. */
    static const char *const turns[] = {"<end_of_turn>", "<turn|>"};
    for (size_t i = 0; i < 2; i++) {
        const struct extra_token gemma[] = {{turns[i], TOKEN_CONTROL},
                                            {"<s>", TOKEN_USER_DEFINED},
                                            {"</s>", TOKEN_USER_DEFINED}};
        m.extra = gemma;
        tok = made(&m);
        assert_true(tokenizer_is_end(tok, 256));
        assert_false(tokenizer_is_end(tok, 258));
        assert_false(tokenizer_is_control(tok, 258));
        check_text(tok, "<s>a</s>", false, "<s>|a|</s>");
        tokenizer_close(tok);
    }
}

static void test_templates(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("bpe");
    struct piece t = tokenizer_template(tok, NULL);
    assert_int_equal(t.len, 14);
    assert_memory_equal(t.data, "{{ messages }}", 14);
    t = tokenizer_template(tok, "tool_use");
    assert_memory_equal(t.data, "{{ tools }}", 11);
    assert_null(tokenizer_template(tok, "rag").data);
    tokenizer_close(tok);
    static const char *const blank[] = {"", " \r\n"};
    for (size_t i = 0; i < 2; i++) {
        struct made_vocab m = {.model = "gpt2", .pre = "gpt-2", .template = blank[i]};
        tok = made(&m);
        assert_null(tokenizer_template(tok, NULL).data);
        tokenizer_close(tok);
    }
}

static void test_questions(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("spm");
    assert_int_equal(tokenizer_bos(tok), 1);
    assert_int_equal(tokenizer_eos(tok), 2);
    assert_int_equal(tokenizer_piece(tok, -7).len, 0);
    assert_int_equal(tokenizer_find(tok, "</s>", 4), 2);
    assert_int_equal(tokenizer_find(tok, "the </s>", 8), -1);
    assert_true(tokenizer_is_control(tok, 0));
    assert_false(tokenizer_is_control(tok, 3));
    assert_false(tokenizer_is_control(tok, -1));
    assert_false(tokenizer_is_control(tok, (int32_t)tokenizer_n_vocab(tok)));
    assert_true(tokenizer_find(tok, "\u2581the", 6) > 0);
    tokenizer_close(tok);
}

/* What cuts the text where the file does not say: old files are like that, and the mistral3 of
 * Ollama, whose vocabulary is known. */
static void test_pre_not_named(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *pre, *is;
        bool is_guess;
    } cases[] = {
        {NULL, NULL, "default", true},
        {"llama", NULL, "default", true},
        {"llama", "default", "default", false},
        {"mistral3", NULL, "tekken", false},
        {"mistral3", "default", "tekken", false},
        {"mistral3", "", "tekken", false},
        {"mistral3", "qwen2", "qwen2", false},
    };
    const struct extra_token extra[] = {{"x1", TOKEN_NORMAL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made_vocab m = {.model = "gpt2", .extra = extra, .n_extra = 1};
        m.pre = cases[i].pre, m.arch = cases[i].arch;
        struct tokenizer *tok = made(&m);
        assert_string_equal(tokenizer_pre(tok), cases[i].is);
        assert_int_equal(tokenizer_pre_is_guess(tok), cases[i].is_guess);
        tokenizer_close(tok);
    }
}

static void check_words(const char *pre, const char *text, const char *expected)
{
    struct err err = {0};
    struct pretokenizer p;
    struct words w = {0};
    struct buf b = {0};
    if (!pretokenize_open(&p, pre, strlen(pre), &err) ||
        !pretokenize_split(&p, text, strlen(text), NULL, &w, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0, at = 0; i < w.n; at = w.ends[i++])
        buf_printf(&b, "%s%.*s", i ? "|" : "", (int)(w.ends[i] - at), text + at);
    assert_string_equal(buf_str(&b), expected);
    buf_free(&b);
    words_free(&w);
    pretokenize_close(&p);
}

/* o200k and tekken cut before a capital of any script, and a mark stays with its letter (Hindi,
 * Thai, Arabic with vowels, decomposed text). So has the tokenizer.json of gpt-oss; llama.cpp
 * differs. */
static void test_words_in_case(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-4o", "tekken"};
    for (size_t i = 0; i < 2; i++) {
        check_words(names[i], "XMLParser eMail", "XMLParser| e|Mail");
        check_words(names[i], "\u0436\u0416\u0436 a\u00c9b", "\u0436|\u0416\u0436| a|\u00c9b");
        check_words(names[i], " \u092d\u0940 \u0939\u0948\u0902",
                    " \u092d\u0940| \u0939\u0948\u0902");
        check_words(names[i], "\u0e17\u0e35\u0e48 \u062f\u064b\u0627",
                    "\u0e17\u0e35\u0e48| \u062f\u064b\u0627");
        check_words(names[i], "e\u0301E\u0301", "e\u0301|E\u0301");
        check_words(names[i], "\u01c5a\u02b0\u00aa", "\u01c5a\u02b0\u00aa");
    }
    check_words("gpt-4o", "e\u0301's", "e\u0301's");
}

/* The models' own expressions fold case, and the long s folds to an s. */
static void test_long_s(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-bpe", "qwen2", "qwen35", "bailingmoe"};
    for (size_t i = 0; i < 4; i++)
        check_words(names[i], "know'\u017fe", "know|'\u017f|e");
    check_words("gpt-4o", "know'\u017fe", "know'\u017f|e");
    check_words("gpt-2", "know'\u017fe", "know|'|\u017fe");
}

/* Phi-3 drops the white space after its control tokens; the architecture or the name tells. */
static void test_phi3_strips(void **state)
{
    (void)state;
    static const struct {
        const char *model, *arch, *name;
        bool strips;
    } cases[] = {
        {"llama", NULL, "Phi-3 mini", true},
        {"llama", NULL, "Phi-2", false},
        {"llama", "phi3", "Phi 3.5 Mini Instruct", true},
        {"llama", "phi3", NULL, true},
        {"llama", "llama", "Phi 3.5 Mini Instruct", false},
        {"gpt2", "phi3", "Phi 4", false},
    };
    const struct extra_token extra[] = {{"<|user|>", TOKEN_CONTROL}, {"<s>", TOKEN_CONTROL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made_vocab m = {.model = cases[i].model, .extra = extra, .n_extra = 2};
        m.arch = cases[i].arch, m.name = cases[i].name;
        struct tokenizer *tok = made(&m);
        const bool scores = strcmp(m.model, "llama") == 0;
        const char *kept = scores ? "{<|user|>}|\xe2|\x96|\x81|\n|a" : "{<|user|>}|\n|a";
        check_text(tok, "<|user|>\na", true,
                   cases[i].strips ? "{<|user|>}|\xe2|\x96|\x81|a" : kept);
        if (cases[i].strips) {
            check_text(tok, "<|user|> \n a", true, "{<|user|>}|\xe2|\x96|\x81|a");
            check_text(tok, "<s>\na", true, "{<s>}|\xe2|\x96|\x81|\n|a");
        }
        tokenizer_close(tok);
    }
}

/* A byte of neither a line of ASCII nor U+FFFD may be missing: U+FFFD takes its place. */
static void test_missing_byte(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2", "llama"};
    static const uint8_t missing[] = {0xff, 0xf1, 0x03, 0x0b};
    for (size_t i = 0; i < 2 * sizeof missing; i++) {
        struct made_vocab m = {.model = models[i % 2], .pre = "gpt-2", .lacks = missing[i / 2]};
        struct tokenizer *tok = made(&m);
        struct ids ids = {0};
        encode(tok, (const char[]){'a', (char)m.lacks}, 2, false, &ids);
        assert_true(ids.n >= 4);
        const int32_t tail[] = {'a', 0xef, 0xbf, 0xbd};
        assert_memory_equal(ids.data + ids.n - 4, tail, sizeof tail);
        ids_free(&ids);
        tokenizer_close(tok);
    }
}

/* ---- refusals ---- */

/* Ids that the vocabulary does not have, or no more, are passed over. */
static void test_suppressed(void **state)
{
    (void)state;
    const int32_t ids[] = {257, -1, 258, INT32_MAX, 3};
    const struct extra_token extra[] = {{"x1", TOKEN_NORMAL}, {"x2", TOKEN_CONTROL}};
    struct made_vocab m = {.model = "gpt2", .pre = "gpt-2", .extra = extra, .n_extra = 2};
    size_t n;
    struct tokenizer *tok = made(&m);
    tokenizer_suppressed(tok, &n);
    assert_int_equal(n, 0);
    tokenizer_close(tok);
    m.suppressed = ids, m.n_suppressed = 5;
    tok = made(&m);
    const int32_t *found = tokenizer_suppressed(tok, &n);
    assert_int_equal(n, 2);
    assert_int_equal(found[0], 257);
    assert_int_equal(found[1], 3);
    tokenizer_close(tok);
}

static void refused(const struct made_vocab *m, const char *what)
{
    struct err err = {0};
    struct tokenizer *tok = vocab_make(m, &err);
    assert_null(tok);
    assert_int_equal(err.code, ERR_FORMAT);
    if (!strstr(err.msg, what)) fail_msg("'%s' does not say '%s'", err.msg, what);
}

static void test_refusals(void **state)
{
    (void)state;
    const struct extra_token none[] = {{"x1", TOKEN_NORMAL}};
    refused(&(struct made_vocab){.model = "wordpiece", .extra = none, .n_extra = 1},
            "unknown tokenizer \"wordpiece\"; known are gpt2, gemma4, llama");
    const struct made_vocab odd = {
        .model = "gpt2", .pre = "klingon", .extra = none, .n_extra = 1};
    refused(&odd, "unknown pre-tokenizer \"klingon\"; known are llama-bpe, ");
    const struct extra_token twice[] = {{"x1", TOKEN_NORMAL}, {"x1", TOKEN_NORMAL}};
    refused(&(struct made_vocab){.model = "gpt2", .pre = "gpt-2", .extra = twice, .n_extra = 2},
            "tokens 256 and 257 have the same text \"x1\"");
    const struct extra_token type[] = {{"x1", (enum token_type)9}};
    refused(&(struct made_vocab){.model = "gpt2", .pre = "gpt-2", .extra = type, .n_extra = 1},
            "token 256 has the unknown type 9");
    refused(
        &(struct made_vocab){
            .model = "gpt2", .pre = "gpt-2", .extra = none, .n_extra = 1, .eos = 257},
        "eos_token_id is not an id below 257");
    static const uint8_t needed[] = {'\n', ' ', 'a', 0xef, 0xbf, 0xbd};
    for (size_t i = 0; i < sizeof needed; i++) {
        struct made_vocab m = {.model = "gpt2", .pre = "gpt-2", .lacks = needed[i]};
        refused(&m, "the vocabulary has no token for the byte ");
    }
}

static void test_output_too_small(void **state)
{
    (void)state;
    struct err err = {0};
    struct tokenizer *tok = made(&(struct made_vocab){.model = "gpt2", .pre = "gpt-2"});
    assert_true(check_vocab(tok, "m.gguf", 256, &err));
    assert_false(check_vocab(tok, "m.gguf", 255, &err));
    assert_string_equal(err.msg,
                        "m.gguf: the vocabulary has 256 tokens, the model's output 255");
    tokenizer_close(tok);
}

/* The refusal lists every name, and every name of the list opens. */
static void test_names(void **state)
{
    (void)state;
    struct err err = {0};
    struct pretokenizer p;
    assert_false(pretokenize_open(&p, "klingon", 7, &err));
    size_t n = 0;
    char *save, *list = strstr(err.msg, "known are ");
    assert_non_null(list);
    for (char *name = strtok_r(list + 10, ", ", &save); name;
         name = strtok_r(NULL, ", ", &save)) {
        struct err other = {0};
        if (!pretokenize_open(&p, name, strlen(name), &other)) fail_msg("%s", other.msg);
        assert_string_equal(p.name, name);
        pretokenize_close(&p);
        n++;
    }
    assert_true(n > 14);
    assert_false(pretokenize_open(&p, "gpt-2 ", 6, &err)); /* no name is guessed at */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe),
        cmocka_unit_test(test_spm),
        cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_special_in_text),
        cmocka_unit_test(test_user_text_is_never_control),
        cmocka_unit_test(test_named_end_is_not_merged),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_next_is_the_same),
        cmocka_unit_test(test_next_is_what_is_new),
        cmocka_unit_test(test_bos_and_space),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_cancelled_stages),
        cmocka_unit_test(test_long_invalid),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_suppressed),
        cmocka_unit_test(test_output_too_small),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_pre_not_named),
        cmocka_unit_test(test_words_in_case),
        cmocka_unit_test(test_long_s),
        cmocka_unit_test(test_phi3_strips),
        cmocka_unit_test(test_missing_byte),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
