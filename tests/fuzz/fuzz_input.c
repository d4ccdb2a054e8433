/* What is typed, pasted or read in any character set becomes UTF-8 in which nothing is lost
 * that was valid; as JSON it reads as the same, in words of an error it is harmless. Odd first
 * bytes: in EUC-JP, where a locale for it can be made. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "../scratch.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "target.h"
#include "ui/charset.h"
#include "ui/input.h"

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

/* Makes a locale in a folder of its own, which it does not need once it is loaded. */
static const char *make_locale(void)
{
    static const char name[] = "ja_JP.EUC-JP";
    char dir[SCRATCH_PATH], command[SCRATCH_PATH + 80];
    scratch_folder(dir, "fuzz");
    snprintf(command, sizeof command, "localedef -i ja_JP -f EUC-JP %s/%s >/dev/null 2>&1", dir,
             name);
    const char *got = NULL;
    if (system(command) == 0 && setenv("LOCPATH", dir, 1) == 0) got = setlocale(LC_CTYPE, name);
    scratch_remove(dir);
    return got ? name : NULL;
}

/* The character set of the program is chosen once; here it changes. */
static void choose(bool other)
{
    static const char *name;
    static int now = -1;
    if (now < 0) name = make_locale();
    if (now == other) return;
    if (!(other && name && setlocale(LC_CTYPE, name))) setlocale(LC_CTYPE, "C.UTF-8");
    charset_open();
    now = other;
}

/* Cut into characters of the set, one by one, as keys are. */
static void check_chars(const char *s, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        const int got = charset_char(s + i, n - i);
        must(got >= -1 && (got < 0 || (size_t)got <= n - i));
        len = got > 0 ? (size_t)got : 1;
        /* What is cut off is the beginning of it, never another one. */
        for (size_t k = 1; k < len; k++)
            must(charset_char(s + i, k) == -1);
        if (got > 0 && !charset_is_other()) must(utf8_valid(s + i, len));
    }
}

static bool has(const struct buf *b, const char *part)
{
    return memmem(buf_str(b), b->len, part, strlen(part)) != NULL;
}

/* A text as it comes back from the set. Of what EUC-JP lacks glibc writes the yen sign and the
 * overline as \ and ~, in whose places JIS X 0201 has them, and leaves tags out. */
static void come_back(const struct buf *text, struct buf *out)
{
    uint32_t cp;
    for (size_t i = 0, len; i < text->len; i += len) {
        len = (size_t)utf8_decode(text->data + i, text->len - i, &cp);
        if (charset_is_other() && (cp == 0xa5 || cp == 0x203e))
            buf_putc(out, cp == 0xa5 ? '\\' : '~');
        else if (!charset_is_other() || cp >> 7 != 0xe0000 >> 7)
            buf_append(out, text->data + i, len);
    }
}

static void check_charset(const char *s, size_t n, const struct buf *repaired)
{
    struct buf taken = {0}, given = {0}, again = {0}, expected = {0};
    charset_take(s, n, &taken);
    must(utf8_valid(buf_str(&taken), taken.len));
    if (!charset_is_other() || utf8_valid(s, n)) must(same(&taken, repaired));
    charset_give(taken.data, taken.len, &given);
    charset_take(buf_str(&given), given.len, &again);
    must(utf8_valid(buf_str(&again), again.len));
    /* Bytes of another set that happen to be UTF-8 are taken for that. */
    const bool by_chance = charset_is_other() && utf8_valid(buf_str(&given), given.len);
    const bool whole = !charset_is_other() || !has(&taken, "\xef\xbf\xbd");
    come_back(&taken, &expected);
    if (whole && !by_chance && !memchr(buf_str(&given), '?', given.len))
        must(same(&again, &expected));
    buf_free(&expected);
    buf_free(&taken);
    buf_free(&given);
    buf_free(&again);
}

/* Every character that is valid comes out, the others as U+FFFD, and once is enough. */
static void check_repair(const char *s, size_t n, struct buf *repaired)
{
    struct buf twice = {0};
    const size_t n_bad = utf8_repair(repaired, s, n);
    must(utf8_valid(buf_str(repaired), repaired->len));
    must((n_bad == 0) == utf8_valid(s, n));
    must(utf8_repair(&twice, repaired->data, repaired->len) == 0 && same(&twice, repaired));
    size_t out = 0, bad = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        const int len = utf8_decode(s + i, n - i, &cp);
        const size_t put = len > 0 ? (size_t)len : 3;
        must(memcmp(repaired->data + out, len > 0 ? s + i : "\xef\xbf\xbd", put) == 0);
        out += put;
        bad += len <= 0;
        i += len > 0 ? (size_t)len : utf8_bad_len(s + i, n - i);
    }
    must(out == repaired->len && bad == n_bad);
    buf_free(&twice);
}

/* Nothing that a terminal acts on or that nobody sees, but for joiners that join. */
static bool is_harmless(const char *s, size_t n)
{
    uint32_t before = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp, after = 0;
        const int len = utf8_decode(s + i, n - i, &cp);
        if (len <= 0) return false;
        i += (size_t)len;
        if (i < n && utf8_decode(s + i, n - i, &after) <= 0) return false;
        if (!printable_char(cp) &&
            !(printable_is_joiner(cp) && printable_joins(before, cp, after)))
            return false;
        before = cp;
    }
    return true;
}

static void check_json(const char *s, size_t n, const struct buf *repaired)
{
    struct buf json = {0}, text = {0};
    json_error_t why;
    json_quote(&json, s, n);
    must(is_harmless(json.data, json.len));
    json_t *value = json_loadb(json.data, json.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    must(json_is_string(value));
    buf_append(&text, json_string_value(value), json_string_length(value));
    must(same(&text, repaired));
    json_decref(value);
    buf_free(&json);
    buf_free(&text);
}

static void check_printable(const char *s, size_t n, size_t cap)
{
    char *small = malloc(cap), *large = malloc(n * 10 + 8);
    must(small && large);
    printable(small, cap, s, n);
    printable(large, n * 10 + 8, s, n);
    const size_t n_small = strlen(small), n_large = strlen(large);
    must(n_small < cap && is_harmless(small, n_small) && is_harmless(large, n_large));
    /* All of it, or the beginning and dots. */
    if (n_large < cap)
        must(strcmp(small, large) == 0);
    else
        must(n_small >= 3 && strcmp(small + n_small - 3, "...") == 0 &&
             memcmp(small, large, n_small - 3) == 0);
    /* What is harmless stays as it is. */
    if (is_harmless(s, n)) must(n_large == n && memcmp(large, s, n) == 0);
    free(small);
    free(large);
}

/* A paste has no control characters, is not changed twice, and joins without its line ends. */
static void check_paste(const char *s, size_t n)
{
    struct buf clean = {0}, twice = {0}, joined = {0};
    input_clean(&clean, s, n);
    for (size_t i = 0; i < clean.len;) {
        uint32_t cp;
        const int len = utf8_decode(clean.data + i, clean.len - i, &cp);
        must(len > 0 && (cp == '\n' || cp == '\t' || cp >= 0x20));
        must(cp != 0x7f && !(cp >= 0x80 && cp < 0xa0));
        i += (size_t)len;
    }
    input_clean(&twice, buf_str(&clean), clean.len);
    must(same(&clean, &twice));
    input_join(&joined, buf_str(&clean), clean.len);
    must(joined.len == 0 || joined.data[joined.len - 1] != '\n');
    must(joined.len <= clean.len && memcmp(buf_str(&joined), buf_str(&clean), joined.len) == 0);
    input_join(&joined, buf_str(&clean), clean.len);
    must(joined.len == 0 || joined.data[joined.len - 1] != '\n');
    buf_free(&clean);
    buf_free(&twice);
    buf_free(&joined);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 1) return 0;
    const char *s = (const char *)data + 1;
    const size_t n = n_bytes - 1;
    struct buf repaired = {0};
    choose(data[0] & 1);
    check_repair(s, n, &repaired);
    check_charset(s, n, &repaired);
    check_chars(s, n);
    check_json(s, n, &repaired);
    check_printable(s, n, 8 + data[0] / 2);
    check_paste(s, n);
    buf_free(&repaired);
    return 0;
}
