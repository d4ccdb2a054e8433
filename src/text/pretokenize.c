#include "text/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/utf8.h"

/* White space as Unicode has it. \s of PCRE2 is not used: it also takes U+180E. */
#define WS                                                                 \
    "\\t-\\r\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
    "\\x{202f}\\x{205f}\\x{3000}"
#define SPACE "[" WS "]"
/* All of a run of spaces but the last, which belongs to the word that follows. */
#define SPACES SPACE "+(?![^" WS "])"
#define LINES SPACE "*[\\r\\n]+"
#define SYMBOLS " ?[^" WS "\\p{L}\\p{N}]+"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
/* (?i:'s|...) of the models' own files: the long s U+017F is an s there. */
#define SHORT_ANY "'[sS\\x{17f}]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
/* Letters that may begin a word in CamelCase, and those that may go on: caseless letters and
 * the marks on a letter do both. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CAMEL(suffix)                                                                   \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER \
    "+" LOWER "*" suffix

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|" SPACES "|" SPACE "+"
#define LLAMA3 \
    SHORT_ANY "|" WORD "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES "|" SPACES "|" SPACE "+"
/* LLAMA3 but for white space, which comes in powers of two. */
#define RUN(n) SPACE "{" n "}(?![^" WS "])|"
#define JAIS2                                                                               \
    SHORT_ANY "|" WORD "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES "|" RUN("512") RUN("256") \
        RUN("128") RUN("64") RUN("32") RUN("16") RUN("8") RUN("4") RUN("1,2") SPACE
#define QWEN2 SHORT_ANY "|" WORD "|\\p{N}|" SYMBOLS "[\\r\\n]*|" LINES "|" SPACES "|" SPACE "+"
#define QWEN35                                                        \
    SHORT_ANY "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS \
              "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES "|" SPACE "+"
#define TEKKEN CAMEL("") "|\\p{N}|" SYMBOLS "[\\r\\n/]*|" LINES "|" SPACES "|" SPACE "+"
#define GPT4O                   \
    CAMEL("(?:" SHORT_ANY ")?") \
    "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n/]*|" LINES "|" SPACES "|" SPACE "+"
#define MINICPM5 \
    SHORT_ANY "|" WORD "|\\p{N}+|" SYMBOLS "[\\r\\n]*|" LINES "|" SPACES "|" SPACE "+"
#define BAILING                                                                   \
    "'(?:[sS\\x{17f}dDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" WORD "|\\p{N}|" SYMBOLS \
    "[\\r\\n]*|" SPACE "*[\\r\\n]|" SPACES "|" SPACE "+"
#define SEED \
    SHORT_ANY "|" WORD "|\\p{N}| ?[^" WS "\\p{L}\\p{N}\\r\\n]+|" LINES "|" SPACES "|" SPACE "+"
/* Words with single spaces between them are one, which may be a whole text. */
#define EXAONE_MOE                                                           \
    SHORT_ANY "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+" \
              "|\\p{N}|" SYMBOLS "[\\r\\n/]?|" SPACE "*[\\r\\n]|" SPACES "|" SPACE "+"
/* Kimi K2: runs of Han are words of their own, and no letters of others. An intersection is all
 * that is not in the complement of either: letters and marks are what no other category has. */
#define NOT_HAN(nor) "[^\\p{C}\\p{N}\\p{P}\\p{S}\\p{Z}" nor "\\p{sc:Han}]"
#define NOT_HAN_UPPER NOT_HAN("\\p{Ll}")
#define NOT_HAN_LOWER NOT_HAN("\\p{Lu}\\p{Lt}")
#define KIMI                                                                               \
    "\\p{sc:Han}+|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN_UPPER "*" NOT_HAN_LOWER "+(?:" SHORT_ANY \
    ")?|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN_UPPER "+" NOT_HAN_LOWER "*(?:" SHORT_ANY           \
    ")?|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES "|" SPACES "|" SPACE "+"
#define ASCII_PUNCT "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK3                                                        \
    ASCII_PUNCT "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
                " ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES "|" SPACES "|" SPACE "+"
/* DEEPSEEK3 but for line breaks, which are pieces of their own. */
#define SPARK                                                            \
    ASCII_PUNCT "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
                " ?[\\p{P}\\p{S}]+|[\\r\\n]|" SPACES "|" SPACE "+"
#define CLAUSE " ?[^(" WS "|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"

/* CJK as deepseek draws it: U+0800 to U+9FA5 and Hangul, without the white space in between. */
#define DEEPSEEK_CJK                                                               \
    "[\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}" \
    "\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"
/* Scripts that are written without spaces, as files of Trinity draw them: of Thai those that
 * are not consonants. */
#define AFMOE_SCRIPTS                                                               \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}" \
    "\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}"    \
    "\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}"  \
    "\\x{1100}-\\x{11ff}]+"
/* Of a run of digits threes from its end, so the first may be one or two. What looks ahead
 * gives nothing back, or it would remember every three of a long run. */
#define THREES "\\A\\p{N}{1,2}(?=(?:\\p{N}{3})++\\z)|\\p{N}{3}|\\p{N}+"
#define YOUTU_SCRIPTS                                                                 \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}" \
    "\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}"       \
    "\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
/* The cased letters deepseek-llm lists one by one (some scripts are left out). */
#define DEEPSEEK_LETTERS                                                                    \
    "A-Za-z\\xb5\\xc0-\\xd6\\xd8-\\xf6\\xf8-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}"     \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}"   \
    "\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}"          \
    "\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"              \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"          \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"          \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"  \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}" \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"          \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"  \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}"  \
    "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"            \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}"           \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"          \
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"          \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"      \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"  \
    "\\x{1e900}-\\x{1e943}"
#define DEEPSEEK_PUNCT \
    "!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}\\x{3002}"

/* What several rows share, each up to a NULL. */
static const char *const gpt2[] = {GPT2, NULL};
static const char *const digits[] = {"\\p{N}", GPT2, NULL};
static const char *const llama3[] = {LLAMA3, NULL};
static const char *const qwen2[] = {QWEN2, NULL};
static const char *const gpt4o[] = {GPT4O, NULL};
static const char *const bailing[] = {BAILING, NULL};
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
static const char *const deepseek3[] = {"\\p{N}{1,3}", CJK, DEEPSEEK3, NULL};
static const char *const aya[] = {"\\p{N}+", THREES, GPT4O, NULL};
static const char *const clause[] = {CLAUSE, NULL};
static const char *const lines[] = {"[^\\n]+|\\n+", NULL};
#define STEPS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* One row per name. Each step cuts every piece the step before left, and sees only that piece:
 * what an expression matches becomes a piece, and so does what lies between two matches. */
static const struct row {
    const char *name;
    unsigned traits;          /* enum pre_trait */
    const char *const *steps; /* up to a NULL, PRE_MAX_STEPS at most */
} rows[] = {
    {"llama-bpe", PRE_WHOLE_WORDS | PRE_ADD_BOS, llama3},
    {"llama3", PRE_WHOLE_WORDS | PRE_ADD_BOS, llama3},
    {"llama-v3", PRE_WHOLE_WORDS | PRE_ADD_BOS, llama3},
    {"lfm2", PRE_WHOLE_WORDS | PRE_ADD_BOS, llama3},
    {"falcon3", PRE_WHOLE_WORDS | PRE_ADD_BOS, llama3},
    {"falcon-h1", PRE_WHOLE_WORDS | PRE_ADD_BOS, llama3},
    {"pixtral", PRE_WHOLE_WORDS | PRE_ADD_BOS, llama3},
    {"midm-2.0", PRE_WHOLE_WORDS | PRE_ADD_BOS, llama3},
    {"dbrx", 0, llama3},
    {"smaug-bpe", 0, llama3},
    {"glm4", 0, llama3},
    {"chatglm-bpe", 0, llama3},
    {"jais-2", 0, STEPS(JAIS2)},
    {"qwen2", 0, qwen2},
    {"deepseek-r1-qwen", 0, qwen2},
    {"megrez", 0, qwen2},
    {"stablelm2", 0, qwen2},
    {"hunyuan", 0, qwen2},
    {"kormo", 0, qwen2},
    {"solar-open", 0, qwen2},
    {"grok-2", 0, qwen2},
    {"qwen35", 0, STEPS(QWEN35)},
    {"gpt-2", 0, gpt2},
    {"phi-2", 0, gpt2},
    {"mpt", 0, gpt2},
    {"olmo", 0, gpt2},
    {"jais", 0, gpt2},
    {"trillion", 0, gpt2},
    {"gigachat", 0, gpt2},
    {"a.x-4.0", 0, gpt2},
    {"mellum", 0, gpt2},
    {"exaone4", 0, gpt2},
    {"granite-docling", 0, gpt2},
    {"starcoder", 0, digits},
    {"refact", 0, digits},
    {"command-r", 0, digits},
    {"smollm", 0, digits},
    {"codeshell", 0, digits},
    {"exaone", 0, digits},
    {"minerva-7b", 0, digits},
    {"mellum2", 0, digits},
    {"deepseek-llm", 0,
     STEPS("[\\r\\n]", SPACE "?[" DEEPSEEK_LETTERS "]+", SPACE "?[" DEEPSEEK_PUNCT "]+",
           SPACE "+\\z", DEEPSEEK_CJK, "\\p{N}+")},
    {"deepseek-coder", 0,
     STEPS("[\\r\\n]", SPACE "?\\p{L}+", SPACE "?\\p{P}+", DEEPSEEK_CJK, "\\p{N}")},
    {"deepseek-v3", 0, deepseek3},
    {"hunyuan-dense", 0, deepseek3},
    {"joyai-llm", 0, deepseek3},
    {"hy_v4", 0, deepseek3},
    {"falcon", 0, STEPS("[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]")},
    {"tekken", PRE_WHOLE_WORDS | PRE_ADD_BOS, STEPS(TEKKEN)},
    {"gpt-4o", 0, gpt4o},
    {"o200k", 0, gpt4o},
    {"talkie", 0, gpt4o},
    {"llama4", 0, gpt4o},
    {"kanana2", 0, gpt4o},
    {"minimax-m2", 0, gpt4o},
    {"minicpm5", PRE_WHOLE_WORDS, STEPS("\\p{N}{1,3}", MINICPM5)},
    {"bailingmoe", 0, bailing},
    {"bailingmoe2", 0, bailing},
    {"llada-moe", 0, bailing},
    {"laguna", 0, STEPS("[^\\n]+|\\n+", QWEN2)},
    {"spark2_5", 0, STEPS("\\p{N}", CJK, SPARK)},
    {"kimi-k2", 0, STEPS(KIMI)},
    {"seed-coder", 0, STEPS(SEED)},
    {"afmoe", 0, STEPS("\\p{N}+", THREES, AFMOE_SCRIPTS, DEEPSEEK3)},
    {"tiny_aya", 0, aya},
    {"cohere2moe", 0, aya},
    {"exaone-moe", 0, STEPS(EXAONE_MOE)},
    {"superbpe", 0, STEPS("\\p{N}+", THREES)},
    {"youtu", PRE_WHOLE_WORDS,
     STEPS(YOUTU_SCRIPTS, CAMEL("(?:" SHORT_ANY ")?") "|\\p{N}|" SYMBOLS "[\\r\\n/]*|" LINES
                                                      "|" SPACES "|" SPACE "+")},
    {"bloom", 0, clause},
    {"gpt3-finnish", 0, clause},
    {"poro-chat", 0, clause},
    {"viking", 0, STEPS(CLAUSE, "\\p{N}")},
    {"gemma4", PRE_SPACES | PRE_WHOLE_BREAKS | PRE_MUST_BOS, lines},
    {"sarvam-moe", PRE_SPACES, lines},
    {"default", 0, STEPS("[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]")},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static bool unknown_name(const char *name, size_t len, struct err *err)
{
    struct buf list = {0};
    for (size_t i = 0; i < N_ROWS; i++)
        buf_printf(&list, "%s%s", i ? ", " : "", rows[i].name);
    err_set(err, ERR_FORMAT, "unknown pre-tokenizer \"%.*s\"; known are %s",
            (int)(len < 100 ? len : 100), name, buf_str(&list));
    buf_free(&list);
    return false;
}

bool pretokenize_open(struct pretokenizer *p, const char *name, size_t len, struct err *err)
{
    const struct row *row = NULL;
    for (size_t i = 0; i < N_ROWS && !row; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0) row = &rows[i];
    *p = (struct pretokenizer){0};
    if (!row) return unknown_name(name, len, err);
    *p = (struct pretokenizer){row->name, row->traits, {0}};
    for (size_t i = 0; i < PRE_MAX_STEPS && row->steps[i]; i++) {
        int code;
        PCRE2_SIZE at;
        p->code[i] = pcre2_compile((PCRE2_SPTR)row->steps[i], PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
        if (!p->code[i]) {
            char why[128];
            pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
            err_set(err, ERR_MEMORY, "pre-tokenizer %s, step %zu at %zu: %s", row->name, i,
                    (size_t)at, why);
            pretokenize_close(p);
            return false;
        }
        pcre2_jit_compile(p->code[i], PCRE2_JIT_COMPLETE); /* without JIT it is only slower */
    }
    return true;
}

void pretokenize_close(struct pretokenizer *p)
{
    for (size_t i = 0; i < PRE_MAX_STEPS; i++)
        pcre2_code_free(p->code[i]);
    *p = (struct pretokenizer){0};
}

/* None of the expressions nests repeats that give back, so what JIT needs is small; the
 * interpreter, which takes over should that ever not do, may use more. */
#define JIT_STACK_BYTES ((size_t)1 << 20)
#define HEAP_LIMIT_KIB ((uint32_t)1 << 20)

static void prepare(struct words *w)
{
    w->n = 0;
    if (w->match) return;
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    w->stack = pcre2_jit_stack_create(1 << 15, JIT_STACK_BYTES, NULL);
    if (!w->context) return;
    pcre2_set_match_limit(w->context, UINT32_MAX);
    pcre2_set_depth_limit(w->context, UINT32_MAX);
    pcre2_set_heap_limit(w->context, HEAP_LIMIT_KIB);
    if (w->stack) pcre2_jit_stack_assign(w->context, NULL, w->stack);
}

void words_free(struct words *w)
{
    free(w->ends);
    free(w->spare);
    buf_free(&w->shadow);
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    *w = (struct words){0};
}

/* Bytes between two looks at the cancel flag. */
enum { CANCEL_STEP = 1 << 16 };

/* utf8_valid piece by piece, or false once *cancel is true. */
static bool is_utf8(const char *text, size_t len, const atomic_bool *cancel)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = len - at;
        if (n > CANCEL_STEP) { /* up to the beginning of a character */
            n = CANCEL_STEP;
            while (n > CANCEL_STEP - 4 && (text[at + n] & 0xc0) == 0x80)
                n--;
        }
        if (cancel_is_set(cancel) || !utf8_valid(text + at, n)) return false;
    }
    return true;
}

/* PCRE2 wants UTF-8. A copy of the same length, with a symbol for each stray byte, is cut. NULL
 * once *cancel is true. */
static const char *as_utf8(const char *text, size_t len, const atomic_bool *cancel,
                           struct buf *shadow)
{
    if (is_utf8(text, len, cancel)) return text;
    buf_clear(shadow);
    for (size_t i = 0, next = 0; i < len;) {
        if (i >= next) {
            if (cancel_is_set(cancel)) return NULL;
            next = i + CANCEL_STEP;
        }
        uint32_t cp;
        int n = utf8_decode(text + i, len - i, &cp);
        if (n > 0)
            buf_append(shadow, text + i, (size_t)n);
        else
            buf_putc(shadow, '\x1a');
        i += n > 0 ? (size_t)n : 1;
    }
    return shadow->data;
}

static void add_end(struct words *w, size_t end)
{
    if (w->n == w->cap_spare) {
        w->cap_spare = w->cap_spare ? w->cap_spare * 2 : 64;
        w->spare = mem_resize(w->spare, w->cap_spare, sizeof *w->spare);
    }
    w->spare[w->n++] = end;
}

static bool split_piece(pcre2_code *code, const char *text, size_t base, size_t len,
                        const atomic_bool *cancel, struct words *w, struct err *err)
{
    size_t at = 0;
    PCRE2_SIZE *hit = pcre2_get_ovector_pointer(w->match);
    while (at < len) {
        if (cancel_is_set(cancel)) return err_set(err, ERR_CANCELLED, "cancelled");
        int rc = pcre2_match(code, (PCRE2_SPTR)text + base, len, at, PCRE2_NO_UTF_CHECK,
                             w->match, w->context);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
            rc = pcre2_match(code, (PCRE2_SPTR)text + base, len, at,
                             PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match, w->context);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0) {
            char why[128];
            pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
            return err_set(err, ERR_MEMORY, "cutting %zu bytes of text into words: %s", len,
                           why);
        }
        if (hit[0] > at) add_end(w, base + hit[0]);
        add_end(w, base + hit[1]);
        at = hit[1];
    }
    if (at < len) add_end(w, base + len);
    return true;
}

bool pretokenize_split(const struct pretokenizer *p, const char *text, size_t len,
                       const atomic_bool *cancel, struct words *w, struct err *err)
{
    prepare(w);
    if (!w->match || !w->context)
        return err_set(err, ERR_MEMORY, "no memory to cut text into words");
    const char *subject = as_utf8(text, len, cancel, &w->shadow);
    if (!subject) return err_set(err, ERR_CANCELLED, "cancelled");
    add_end(w, len);
    for (size_t i = 0; i < PRE_MAX_STEPS && p->code[i]; i++) {
        size_t *old = w->spare, n_old = w->n, cap_old = w->cap_spare, start = 0;
        w->spare = w->ends, w->cap_spare = w->cap;
        w->ends = old, w->cap = cap_old;
        w->n = 0;
        for (size_t k = 0; k < n_old; start = old[k++])
            if (!split_piece(p->code[i], subject, start, old[k] - start, cancel, w, err))
                return false;
    }
    size_t *last = w->spare, cap_last = w->cap_spare;
    w->spare = w->ends, w->cap_spare = w->cap;
    w->ends = last, w->cap = cap_last;
    return true;
}
