/* The tokenizer over the vocabularies of tests/data/vocab: fixed cases (checked once against
 * llama.cpp), the borders of template, user text and replies, and random text. */
#include "../chance.h"
#include "../soak.h"
#include "../vocab_case.h"

#include "base/mem.h"
#include "text/detokenize.h"
#include "text/merge.h"
#include "text/pretokenize.h"
#include "text/special.h"

static const char *const files[] = {"bpe", "spm", "gemma4", "plamo2"};
enum { N_FILES = sizeof files / sizeof *files };
static const atomic_bool stop = true;

static void encode_spans(const struct tokenizer *tok, const struct spans *s, struct ids *out)
{
    struct err err;
    if (!tokenizer_encode_spans(tok, s, NULL, out, &err)) fail_msg("%s", err.msg);
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

static void test_plamo2(void **state)
{
    (void)state;
    struct tokenizer *tok = vocab_file("plamo2");
    assert_string_equal(tokenizer_model(tok), "plamo2");
    assert_string_equal(tokenizer_pre(tok), "");
    assert_true(tokenizer_is_end(tok, tokenizer_find(tok, "<|plamo:op|>", 12)));
    check_text(tok, "She said it's late.", false, "S|h|e s|a|i|d i|t's la|t|e|.");
    check_text(tok, "a  b   c\n\nd", false, "a|  |b|  | |c|\n\n|d");
    check_text(tok, "Stra\u00dfe, caf\u00e9 20", false,
               "S|t|ra|\u00df|e, |ca|f|\xc3|\xa9| |2|0");
    check_text(tok, "\u4f60\xff", false, "\xe4|\xbd|\xa0|\xff");
    /* No text becomes a byte, a control token or padding by its name, whatever its score. */
    check_text(tok, "<0x41>", false, "<|0|x|4|1|>");
    check_text(tok, "[PAD1]", false, "[|P|A|D|1|]");
    check_text(tok, "<|plamo:op|>", true, "{<|plamo:op|>}");
    check_text(tok, "\u2581a", false, "\xe2|\x96|\x81|a"); /* is no space */
    struct spans s = {0};
    struct ids ids = {0};
    spans_text(&s, "a", 1); /* without a begin and a space that the file does not ask for */
    encode_spans(tok, &s, &ids);
    check_ids(tok, &ids, "a");
    spans_free(&s);
    ids_free(&ids);
    tokenizer_close(tok);
}

/* Sarvam's vocabulary is gemma4's way of spelling in a gpt2 file: what no merge builds stays
 * apart there, line breaks as well, and a file that wants no begin gets none. Its converter
 * calls the tokens of bytes plain text. */
static void test_text_in_gpt2(void **state)
{
    (void)state;
    static const struct extra_token extra[] = {
        {"a", TOKEN_NORMAL},    {"b", TOKEN_NORMAL},        {"\u2581", TOKEN_NORMAL},
        {"\n", TOKEN_NORMAL},   {"\n\n", TOKEN_NORMAL},     {"\u2581b", TOKEN_NORMAL},
        {"<s>", TOKEN_CONTROL}, {"a\u2581b", TOKEN_NORMAL},
    };
    static const char *const merges[] = {"\u2581 b", "a \u2581b"};
    static const struct {
        const char *model, *pre, *expected;
        bool plain_bytes;
    } cases[] = {{"gpt2", "sarvam-moe", "a b|\n|\n| b| | |\xc3|\xa9", false},
                 {"gpt2", "sarvam-moe", "a b|\n|\n| b| | |\xc3|\xa9", true},
                 {"gpt2", "gemma4", "a b|\n\n| b| | |\xc3|\xa9", false},
                 {"gemma4", "sarvam-moe", "a b|\n\n| b| | |\xc3|\xa9", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        struct tokenizer *tok =
            vocab_make(&(struct made_vocab){.model = cases[i].model,
                                            .pre = cases[i].pre,
                                            .extra = extra,
                                            .n_extra = 8,
                                            .plain_bytes = cases[i].plain_bytes,
                                            .merges = merges,
                                            .n_merges = 2},
                       &err);
        if (!tok) fail_msg("%s", err.msg);
        check_text(tok, "a b\n\n b  \u00e9", false, cases[i].expected);
        check_text(tok, "a<s>", true, "a|{<s>}");
        tokenizer_close(tok);
    }
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
    for (size_t f = 0; f < N_FILES; f++) {
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
    for (size_t f = 0; f < N_FILES; f++) {
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
    for (size_t f = 0; f < N_FILES; f++) {
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
    assert_true(tokenizer_encode(tok, "the", 3, ENCODE_ENDS, &ids, &err));
    check_ids(tok, &ids, "{<s>}| the");
    spans_free(&s);
    ids_free(&ids);
    tokenizer_close(tok);
}

static void test_cancelled(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
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
enum { LONG = 1 << 20, FEW = 1 << 16 };
static void open_vocab(struct vocab *v)
{
    struct err err;
    struct gguf *g = gguf_open("tests/data/vocab/spm.gguf", &err);
    assert_non_null(g);
    assert_true(vocab_open(v, g, SPELL_SPACES, true, &err));
    gguf_close(g);
}

static void test_cancelled_specials(void **state)
{
    (void)state;
    struct vocab v;
    struct special_set special;
    struct special_matches found;
    open_vocab(&v);
    char *text = mem_alloc(LONG);
    for (size_t i = 0; i < LONG; i++)
        text[i] = "<s>"[i % 3];
    const struct special_area area = {LONG, true};
    const struct special_text whole = {text, LONG, &area, 1};
    special_open(&special, &v, false);
    special_find(&special, &v, &whole, NULL, &found);
    assert_int_equal(found.n, LONG / 3);
    free(found.list);
    special_find(&special, &v, &whole, &stop, &found);
    assert_true(found.n < FEW);
    free(found.list);
    special_close(&special);
    free(text);
    vocab_close(&v);
}

static void test_cancelled_merges(void **state)
{
    (void)state;
    struct vocab v;
    struct merger m = {.cancel = &stop};
    open_vocab(&v);
    char *text = mem_alloc(LONG), twice = 'a'; /* a text of it has no border */
    while (twice < 'z' && !vocab_may_join(&v, &twice, 1, &twice, 1))
        twice++;
    memset(text, twice, LONG);

    merger_add(&m, 0, 1, -1); /* what is looked at first is not all */
    merger_add_bytes(&m, v.byte_id, text, 1, LONG - 1);
    assert_true(m.n > 1 && m.n < FEW);
    merger_start(&m);
    merger_add_stretch(&m, &v, text, 0, LONG);
    assert_true(m.n > 0 && m.n < FEW);

    m.cancel = NULL;
    merger_start(&m);
    merger_add_stretch(&m, &v, text, 0, LONG);
    assert_int_equal(m.n, LONG);
    merger_start(&m);
    merger_add_bytes(&m, v.byte_id, text, 0, LONG);
    assert_int_equal(m.n, LONG);

    struct ids ids = {0};
    m.cancel = &stop;
    merger_emit(&m, &v, text, &ids);
    assert_true(ids.n > 0 && ids.n < FEW);
    ids_free(&ids);
    merger_free(&m);
    free(text);
    vocab_close(&v);
}

static void test_cancelled_words(void **state)
{
    (void)state;
    struct pretokenizer pre;
    struct words w = {0};
    struct err err;
    char *text = mem_alloc(LONG);
    memset(text, 'a', LONG);
    text[LONG - 1] = '\xff';
    assert_true(pretokenize_open(&pre, "gpt-2", 5, &err));
    assert_false(pretokenize_split(&pre, text, LONG, &stop, &w, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_true(w.shadow.len < 2 * FEW);
    words_free(&w);
    pretokenize_close(&pre);
    free(text);
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
    const bool spm = strcmp(tokenizer_model(tok), "llama") == 0;
    const bool spaces = spm || strcmp(tokenizer_model(tok), "gemma4") == 0;
    if (spm && text->len) buf_putc(out, ' ');
    for (size_t i = 0; i < text->len; i++) {
        bool space = spaces && text->len - i >= 3 && memcmp(text->data + i, "\u2581", 3) == 0;
        buf_putc(out, space ? ' ' : text->data[i]);
        if (space) i += 2;
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe),
        cmocka_unit_test(test_spm),
        cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_plamo2),
        cmocka_unit_test(test_text_in_gpt2),
        cmocka_unit_test(test_special_in_text),
        cmocka_unit_test(test_user_text_is_never_control),
        cmocka_unit_test(test_named_end_is_not_merged),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_next_is_the_same),
        cmocka_unit_test(test_next_is_what_is_new),
        cmocka_unit_test(test_bos_and_space),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_cancelled_specials),
        cmocka_unit_test(test_cancelled_merges),
        cmocka_unit_test(test_cancelled_words),
        cmocka_unit_test(test_long_invalid),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
