/* What a file says of its tokens: ends, templates, how text is cut and which bytes there are;
 * and the vocabularies that are refused. */
#include "../vocab_case.h"

#include "base/mem.h"
#include "engine/check.h"
#include "text/pretokenize.h"

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

/* Old files call what begins a turn a token of the user's, as they do its end: plain text does
 * not write it, the template does. */
static void test_starts(void **state)
{
    (void)state;
    const struct extra_token extra[] = {{"<|im_start|>", TOKEN_USER_DEFINED},
                                        {"<start_of_turn>", TOKEN_USER_DEFINED},
                                        {"<|user|>", TOKEN_NORMAL},
                                        {"<tool>", TOKEN_USER_DEFINED}};
    struct made_vocab m = {.model = "gpt2", .pre = "gpt-2", .extra = extra, .n_extra = 4};
    struct tokenizer *tok = made(&m);
    check_text(tok, "<|im_start|>", false, "<|||i|m|_|s|t|a|r|t|||>");
    check_text(tok, "<|user|>", false, "<|||u|s|e|r|||>");
    check_text(tok, "<tool>", false, "<tool>");
    check_text(tok, "<|im_start|><start_of_turn><|user|>", true,
               "{<|im_start|>}|{<start_of_turn>}|{<|user|>}");
    assert_true(tokenizer_is_control(tok, 256));
    assert_true(tokenizer_is_control(tok, 257));
    assert_false(tokenizer_is_end(tok, 256));
    tokenizer_close(tok);
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

/* What cuts the text where the file does not say: old files are like that, and models of
 * Ollama's, whose vocabulary is known. */
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
        {"gptoss", "default", "gpt-4o", false},
        {"gpt-oss", "default", "default", false},
        {"lfm2", "default", "lfm2", false},
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

/* The first files of Llama 3 do not say what cuts text; two of its tokens do. */
static void test_first_llama3(void **state)
{
    (void)state;
    enum { HEADER = 128006, TURN_END = 128009, N = TURN_END + 1 - 256 };
    struct extra_token *extra = calloc(N, sizeof *extra);
    char(*texts)[16] = calloc(N, sizeof *texts);
    for (size_t i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "t%zu", i);
        extra[i] = (struct extra_token){texts[i], TOKEN_NORMAL};
    }
    struct made_vocab m = {.model = "gpt2", .arch = "llama", .extra = extra, .n_extra = N};
    extra[TURN_END - 256] = (struct extra_token){"<|eot_id|>", TOKEN_CONTROL};
    struct tokenizer *tok = made(&m);
    assert_string_equal(tokenizer_pre(tok), "default");
    tokenizer_close(tok);
    extra[HEADER - 256] = (struct extra_token){"<|start_header_id|>", TOKEN_CONTROL};
    tok = made(&m);
    assert_string_equal(tokenizer_pre(tok), "llama-bpe");
    assert_false(tokenizer_pre_is_guess(tok));
    tokenizer_close(tok);
    free(extra);
    free(texts);
}

/* Ollama's files of gemma4 call the tokenizer llama, and have the merges. */
static void test_gemma4_by_merges(void **state)
{
    (void)state;
    static const char *const merges[] = {"a b"};
    const struct extra_token extra[] = {
        {"a", TOKEN_NORMAL}, {"b", TOKEN_NORMAL}, {"ab", TOKEN_NORMAL}};
    struct made_vocab m = {.model = "llama",
                           .extra = extra,
                           .n_extra = 3,
                           .pre = "gemma4",
                           .merges = merges,
                           .n_merges = 1,
                           .arch = "gemma4"};
    struct tokenizer *tok = made(&m);
    assert_string_equal(tokenizer_model(tok), "gemma4");
    tokenizer_close(tok);
    m.arch = "llama";
    tok = made(&m);
    assert_string_equal(tokenizer_model(tok), "llama");
    tokenizer_close(tok);
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

/* Jais 2 cuts white space into powers of two. */
static void test_words_of_powers(void **state)
{
    (void)state;
    check_words("jais-2", "it's 1234 a", "it|'s| |123|4| a");
    check_words("jais-2", "a      b", "a|    | | b");
    check_words("jais-2", "a                       b", "a|                |    |  | b");
    check_words("jais-2", "a            b", "a|        |  | | b");
    check_words("jais-2", "b\t\t\tc", "b|\t\t|\tc");
    check_words("jais-2", "a  \n\n   ", "a|  \n\n|  | ");
}

/* Trinity and Tiny Aya cut runs of digits into threes from their end, the first cuts scripts
 * without spaces from all else; Youtu's words are o200k's but for one digit at a time and its
 * scripts. */
static void test_words_of_threes(void **state)
{
    (void)state;
    check_words("afmoe", "1 12 123 1234 1234567", "1| |12| |123| |1|234| |1|234|567");
    check_words("afmoe", "a1234b", "a|1|234|b");
    check_words("afmoe", "x=10000;", "x|=|10|000|;");
    check_words("afmoe", "\u4e2d\u6587abc \u0e44\u0e17\u0e22!",
                "\u4e2d\u6587|abc| |\u0e44|\u0e17\u0e22|!");
    check_words("afmoe", " _word.x\n\n y", " _|word|.x|\n\n| y");
    check_words("tiny_aya", "XMLParser 12345's", "XMLParser| |12|345|'s");
    check_words("cohere2moe", "XMLParser 12345's", "XMLParser| |12|345|'s");
    check_words("youtu", "XMLParser 1234", "XMLParser| |1|2|3|4");
    check_words("youtu", "\uac00\u4e2d\u3042\u3001abc's", "\uac00|\u4e2d\u3042|\u3001|abc's");
    check_words("kormo", "it's 12", "it|'s| |1|2");
    check_words("mellum2", "it's 12", "it|'s| |1|2");
}

/* Kimi's Han are apart from all else, other caseless letters go on as CamelCase has them. */
static void test_words_of_kimi(void **state)
{
    (void)state;
    check_words("kimi-k2", "\u4e2d\u6587abc \u4e2d\u3005x",
                "\u4e2d\u6587|abc| |\u4e2d\u3005|x");
    check_words("kimi-k2", "abc\u4e2d\u6587's", "abc|\u4e2d\u6587|'s");
    check_words("kimi-k2", "XMLParser's IT'S e\u0301a", "XMLParser's| IT'S| e\u0301a");
    check_words("kimi-k2", "\u3042\u30ab\u30fc\u4e2d \u0e44\u0e17\u0e22",
                "\u3042\u30ab\u30fc|\u4e2d| \u0e44\u0e17\u0e22");
    check_words("kimi-k2", "camelCase 12345 !?\n\n  end", "camel|Case| |123|45| !?\n\n| | end");
    check_words("kimi-k2", "_word\t\tx", "_word|\t|\tx");
}

/* Laguna's pieces are of one line or of line breaks; Spark's digits and breaks are alone. */
static void test_words_of_lines(void **state)
{
    (void)state;
    check_words("laguna", "it's a\n\n b  c12!?\n", "it|'s| a|\n\n| b| | c|1|2|!?|\n");
    check_words("qwen2", "a!?\n b", "a|!?\n| b");
    check_words("laguna", "a!?\n b", "a|!?|\n| b");
    check_words("laguna", "x \n\ty", "x| |\n|\ty");
    check_words("spark2_5", "it's 1234!\n\nab", "it|'s| |1|2|3|4|!|\n|\n|ab");
    check_words("spark2_5", "\u4e2d\u3042x  _y\r\n z", "\u4e2d\u3042|x| | _|y|\r|\n| z");
    check_words("deepseek-v3", "a!\n\nb 1234", "a|!\n\n|b| |123|4");
}

/* SuperBPE's words go on to the next number, whose digits come in threes from the end. */
static void test_words_of_superbpe(void **state)
{
    (void)state;
    check_words("superbpe", "it's a\n\ntest, of 12345 or 1 x",
                "it's a\n\ntest, of |12|345| or |1| x");
    check_words("superbpe", "123 1234567!", "123| |1|234|567|!");
    check_words("talkie", "XMLParser 1234's", "XMLParser| |123|4|'s");
}

/* K-EXAONE's words go on behind single spaces; one line break or slash belongs to symbols. */
static void test_words_of_many(void **state)
{
    enum { LONG = 300000 };
    (void)state;
    check_words("exaone-moe", "it's a  test, of 12 many words",
                "it|'s| a| | test|,| of| |1|2| many words");
    check_words("exaone-moe", "a e\u0301 b!\n\nc //d", "a e\u0301 b|!\n|\n|c| //|d");
    check_words("exaone-moe", "(one two)\r\nthree", "(one two|)\r|\n|three");
    char *text = mem_zalloc(LONG + 1, 1);
    for (size_t i = 0; i < LONG; i++)
        text[i] = i % 5 == 4 ? ' ' : 'a';
    text[LONG - 1] = 'a';
    check_words("exaone-moe", text, text);
    free(text);
    check_words("hy_v4", "it's 1234 \u4e2dx", "it|'s| |123|4| |\u4e2d|x");
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
    static const char *const models[] = {"gpt2", "llama", "plamo2"};
    static const uint8_t missing[] = {0xff, 0xf1, 0x03, 0x0b};
    for (size_t i = 0; i < 3 * sizeof missing; i++) {
        struct made_vocab m = {.model = models[i % 3], .pre = "gpt-2", .lacks = missing[i / 3]};
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

/* ---- refusals ---- */

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
            "unknown tokenizer \"wordpiece\"; known are gpt2, gemma4, llama, plamo2, rwkv");
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
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_starts),
        cmocka_unit_test(test_suppressed),
        cmocka_unit_test(test_output_too_small),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_pre_not_named),
        cmocka_unit_test(test_first_llama3),
        cmocka_unit_test(test_gemma4_by_merges),
        cmocka_unit_test(test_words_in_case),
        cmocka_unit_test(test_long_s),
        cmocka_unit_test(test_words_of_threes),
        cmocka_unit_test(test_words_of_powers),
        cmocka_unit_test(test_phi3_strips),
        cmocka_unit_test(test_missing_byte),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_words_of_kimi),
        cmocka_unit_test(test_words_of_lines),
        cmocka_unit_test(test_words_of_superbpe),
        cmocka_unit_test(test_words_of_many),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
