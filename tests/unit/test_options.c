/* The option table and everything that reads it: flags, environment, INI, the model, /set. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../scratch.h"
#include "base/buf.h"
#include "base/nearest.h"
#include "config/options.h"

enum { MAX_ARGS = 16 };

/* Splits words at spaces into argv[1..]. */
static bool parse(struct options *o, struct option_args *args, const char *words,
                  struct err *err)
{
    static char copy[512];
    static char *argv[MAX_ARGS];
    snprintf(copy, sizeof copy, "%s", words);
    int argc = 0;
    argv[argc++] = copy;
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " ")) {
        assert_true(argc < MAX_ARGS);
        argv[argc++] = w;
    }
    free(args->rest);
    return options_parse_args(o, argc, argv, args, err);
}

static void refused(const char *words, const char *want)
{
    struct options *o = options_new();
    struct option_args args = {0};
    struct err err = {0};
    bool ok = parse(o, &args, words, &err) && options_check(o, &err);
    if (ok) print_error("accepted: %s\n", words);
    assert_false(ok);
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(err.msg, want);
    free(args.rest);
    options_free(o);
}

/* The value of an option after these words. */
static void check(const char *words, enum option_id id, const char *want)
{
    struct options *o = options_new();
    struct option_args args = {0};
    struct err err = {0};
    struct buf value = {0};
    if (!parse(o, &args, words, &err) || !options_check(o, &err)) fail_msg("%s", err.msg);
    option_value(o, id, &value);
    assert_string_equal(buf_str(&value), want);
    buf_free(&value);
    free(args.rest);
    options_free(o);
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        assert_non_null(row->name);
        assert_int_equal(option_id(row), i);
        assert_ptr_equal(option_find(row->name), row);
        assert_non_null(row->help);
        assert_true((row->arg == NULL) == (row->type == OPTION_BOOL));
        assert_true(row->at < sizeof(struct options));
        if (row->type == OPTION_ENUM || row->type == OPTION_WORD) assert_non_null(row->words);
        for (size_t j = 0; j < i; j++) {
            assert_true(option_row((enum option_id)j)->at != row->at);
            if (row->letter) assert_true(option_row((enum option_id)j)->letter != row->letter);
        }
    }
    assert_null(option_find("no-such"));
    char env[40];
    option_env_name(option_find("repeat-last-n"), env, sizeof env);
    assert_string_equal(env, "HEARTH_REPEAT_LAST_N");

    struct options *o = options_new();
    struct err err = {0};
    assert_true(options_check(o, &err)); /* what is built in is built */
    assert_float_equal(o->temp, 0.7f, 0);
    assert_int_equal(o->max_tokens, -1);
    assert_int_equal(o->think, THINK_SHOW);
    assert_string_equal(o->kv_type, "f16");
    assert_null(o->model);
    assert_false(option_given(o, OPT_TEMP));
    options_free(o);
    options_free(NULL);
}

static void test_forms(void **state)
{
    (void)state;
    check("--temp 0.5", OPT_TEMP, "0.5");
    check("--temp=0.5", OPT_TEMP, "0.5");
    check("--temp 0.5 --temp 1", OPT_TEMP, "1");
    check("--temp 0.1", OPT_TEMP, "0.1");
    check("-n 5", OPT_MAX_TOKENS, "5");
    check("-n5", OPT_MAX_TOKENS, "5");
    check("-n -1", OPT_MAX_TOKENS, "-1");
    check("-pn5", OPT_PROMPT, "n5");
    check("-vn 7", OPT_MAX_TOKENS, "7");
    check("-vn7", OPT_VERBOSE, "on");
    check("--private", OPT_PRIVATE, "on");
    check("--private=off", OPT_PRIVATE, "off");
    check("-v=off", OPT_VERBOSE, "off");
    check("-qi=off", OPT_INTERACTIVE, "off");
    check("-p --temp", OPT_PROMPT, "--temp");
    check("--stop a,b --stop c", OPT_STOP, "a\\,b,c");
    check("--logit-bias 1=2 --logit-bias 3=-inf,4=0.5", OPT_LOGIT_BIAS, "1=2,3=-inf,4=0.5");
    check("--stop a --stop= --stop c", OPT_STOP, "c");
    check("--stop a --stop=", OPT_STOP, "");
    check("--logit-bias 1=2 --logit-bias= --logit-bias 4=0.5", OPT_LOGIT_BIAS, "4=0.5");
    check("--seed 18446744073709551615", OPT_SEED, "18446744073709551615");
    check("--seed 0xFF", OPT_SEED, "255");
    check("--device cpu", OPT_DEVICE, "cpu");
    check("--draft off --overflow stop --gpu-layers 0 --cache-disk 0 --warm-typing off "
          "--kv-type f32 --tui=off --json=no",
          OPT_DRAFT, "off");
    check("-f - -f x", OPT_FILE, "-,x");

    struct options *o = options_new();
    struct option_args args = {0};
    struct err err;
    assert_true(parse(o, &args, "a -q - -- -q --temp", &err));
    assert_int_equal(args.n_rest, 4);
    assert_string_equal(args.rest[0], "a");
    assert_string_equal(args.rest[1], "-");
    assert_string_equal(args.rest[2], "-q");
    assert_string_equal(args.rest[3], "--temp");
    assert_true(o->quiet);
    free(args.rest);
    options_free(o);
}

/* What lists print they read again, in a line: a stop text may begin with a blank, or with a
 * line break. */
static void test_lists(void **state)
{
    static const char *const texts[] = {" a", "b ", "  c", "\\ d", ",", " ", "\nUser:", "\\n"};
    enum { N_TEXTS = sizeof texts / sizeof *texts };
    (void)state;
    struct options *o = options_new(), *again = options_new();
    struct err err;
    struct buf value = {0};
    for (size_t i = 0; i < N_TEXTS; i++)
        assert_true(options_give(o, OPT_STOP, FROM_FLAG, 0, texts[i], &err));
    option_value(o, OPT_STOP, &value);
    assert_string_equal(value.data, "\\ a,b ,\\  c,\\\\ d,\\,,\\ ,\\nUser:,\\\\n");
    assert_true(options_give(again, OPT_STOP, FROM_SESSION, 0, value.data, &err));
    assert_int_equal(again->stop.n, N_TEXTS);
    for (size_t i = 0; i < N_TEXTS; i++)
        assert_string_equal(again->stop.items[i], texts[i]);
    buf_free(&value);
    options_free(o);
    options_free(again);
}

static void test_usage_errors(void **state)
{
    (void)state;
    refused("--tmep 1", "--tmep: unknown option, did you mean --temp?");
    refused("--max-token 1", "--max-token: unknown option, did you mean --max-tokens?");
    refused("--zzzzzz", "--zzzzzz: unknown option");
    refused("-Z", "-Z: unknown option");
    refused("-\x1b", "-\\x1b: unknown option");
    refused("-qZ", "-Z: unknown option");
    refused("--temp", "--temp: expected a number from 0 to 100 after it");
    refused("-n", "-n: expected a whole number of at least -1 after it");
    refused("-s", "-s: expected a name after it");
    refused("--prompt", "--prompt: expected a text after it");
    refused("--temp warm", "--temp: expected a number from 0 to 100, found 'warm'");
    refused("--temp=", "--temp: expected a number from 0 to 100, found nothing");
    refused("--temp -1", "--temp: expected a number from 0 to 100, found '-1'");
    refused("--temp nan", "--temp: expected a number from 0 to 100, found 'nan'");
    refused("--temp 0x1", "--temp: expected a number from 0 to 100, found '0x1'");
    refused("--temp 1e99", "--temp: expected a number from 0 to 100, found '1e99'");
    refused("--top-k 1.5", "--top-k: expected a whole number of at least 0, found '1.5'");
    refused("--top-k 99999999999",
            "--top-k: expected a whole number below 2^31, found '99999999999'");
    refused("-n 2147483648", "-n: expected a whole number below 2^31, found '2147483648'");
    refused("-t 257", "-t: expected a whole number from 0 to 256, found '257'");
    refused("--ctx 1k", "--ctx: expected a whole number from 0 to 16777216, found '1k'");
    refused("--kv-type f8", "--kv-type: expected f32, f16, q8_0 or q4_0, found 'f8'");
    refused("--device gpu", "--device: expected auto, cpu or vulkan[:N], found 'gpu'");
    refused("--device vulkan:", "--device: expected auto, cpu or vulkan[:N], found 'vulkan:'");
    refused("--device cpu:1", "--device: expected auto, cpu or vulkan[:N], found 'cpu:1'");
    refused("--private=perhaps", "--private: expected on or off, found 'perhaps'");
    refused("--seed -1", "--seed: expected a whole number below 2^64, found '-1'");
    refused("--seed 0x0x5", "--seed: expected a whole number below 2^64, found '0x0x5'");
    refused("--seed 18446744073709551616",
            "--seed: expected a whole number below 2^64, found '18446744073709551616'");
    refused("--cache-ram 2X", "--cache-ram: expected a size such as 512M or 4G, found '2X'");
    refused("--logit-bias 5", "--logit-bias: expected ID=X, a token's number and a bias from "
                              "-1e6 to 1e6 or -inf, found '5'");
    refused("--logit-bias -5=1", "--logit-bias: expected ID=X, a token's number and a bias "
                                 "from -1e6 to 1e6 or -inf, found '-5=1'");
    refused("--file=", "--file: expected a path, found nothing");
    refused("--model=", "--model: expected a path, found nothing");
}

static void takes(enum option_id id, const char *value)
{
    struct options *o = options_new();
    struct err err;
    if (!options_give(o, id, FROM_FLAG, 0, value, &err) || !options_check(o, &err))
        fail_msg("--%s %s: %s", option_row(id)->name, value, err.msg);
    options_free(o);
}

/* Every word that the table shows is taken, "[:N]" with and without a number. */
static void test_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        enum option_id id = (enum option_id)i;
        const struct option_row *row = option_row(id);
        size_t len;
        const char *w;
        char word[64];
        for (size_t k = 0; row->words && (w = option_word(row->words, k, &len)); k++) {
            const char *bracket = memchr(w, '[', len);
            if (bracket) {
                len = (size_t)(bracket - w);
                snprintf(word, sizeof word, "%.*s:1", (int)len, w);
                takes(id, word);
            }
            snprintf(word, sizeof word, "%.*s", (int)len, w);
            takes(id, word);
        }
    }
}

/* --draft taken apart. */
static void test_draft(void **state)
{
    (void)state;
    static const struct {
        const char *given, *path;
        bool lookup;
    } cases[] = {{"off", NULL, false},
                 {"lookup", NULL, true},
                 {"/m/small.gguf", "/m/small.gguf", false},
                 {"/m/small.gguf,lookup", "/m/small.gguf", true},
                 {"/m/a,b.gguf", "/m/a,b.gguf", false},
                 {"./lookup", "./lookup", false},
                 {"off,lookup", "off", true}};
    char *path;
    bool lookup;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options *o = options_new();
        struct err err;
        assert_true(options_give(o, OPT_DRAFT, FROM_FLAG, 0, cases[i].given, &err));
        options_draft(o, &path, &lookup);
        assert_int_equal(path != NULL, cases[i].path != NULL);
        if (path) assert_string_equal(path, cases[i].path);
        assert_int_equal(lookup, cases[i].lookup);
        free(path);
        options_free(o);
    }
    refused("--draft ,lookup",
            "--draft: expected a path, lookup, a path with ,lookup or off, found ',lookup'");

    /* The guide has a draft of its own, under whatever name the file is given. */
    struct options *o = options_new();
    struct err err;
    options_draft(o, &path, &lookup);
    assert_null(path);
    assert_true(options_give(o, OPT_MODEL, FROM_FLAG, 0,
                             "examples/../examples/guide/guide-q8_0.gguf", &err));
    options_draft(o, &path, &lookup);
    assert_non_null(path);
    assert_non_null(strstr(path, "guide-draft-q8_0.gguf"));
    assert_false(lookup);
    free(path);
    assert_true(options_give(o, OPT_MODEL, FROM_SET, 0, "/m/other.gguf", &err));
    options_draft(o, &path, &lookup);
    assert_null(path);
    options_free(o);
}

static void test_combinations(void **state)
{
    (void)state;
    struct options *o = options_new();
    struct err err;
    refused("-q -v", "--quiet: cannot be together with --verbose");
    refused("--json --jsonl", "--json: cannot be together with --jsonl");
    refused("--continue -s plan", "--session: cannot be together with --continue");
    refused("--private -s plan", "--private: cannot be together with --session");
    refused("--continue --private", "--private: cannot be together with --continue");
    refused("--device vulkan --gpu-layers 0",
            "--gpu-layers 0: means the CPU, but --device is vulkan");
    refused("--prompts list -p x",
            "--prompts: takes its prompts from a file or standard input, not from --prompt");
    refused("--stdin lines -p x",
            "--stdin: takes its prompts from a file or standard input, not from --prompt");
    refused("--system @/no/such/file", "--system: /no/such/file: No such file or directory");
    check("--system @@home", OPT_SYSTEM, "@@home");

    /* The nearer of two sources counts, in a copy too. */
    assert_true(options_give(o, OPT_QUIET, FROM_HEARTH, 1, "on", &err));
    assert_true(options_give(o, OPT_VERBOSE, FROM_FLAG, 0, "on", &err));
    assert_true(options_give(o, OPT_SESSION, FROM_HEARTH, 1, "daily", &err));
    assert_true(options_give(o, OPT_CONTINUE, FROM_FLAG, 0, "on", &err));
    assert_true(options_check(o, &err));
    assert_true(o->verbose && !o->quiet);
    assert_true(o->continue_last && !o->session);
    struct options *copy = options_clone(o);
    assert_true(copy->verbose && !copy->quiet);
    options_free(copy);
    options_free(o);
}

/* What a flag asks for is not refused for what a configuration or the environment says. */
static void test_flags_count(void **state)
{
    (void)state;
    static const struct {
        enum option_id near;
        const char *value;
        enum option_id far;
        const char *other;
    } pairs[] = {
        {OPT_PRIVATE, "on", OPT_SESSION, "daily"},
        {OPT_SESSION, "one", OPT_PRIVATE, "on"},
        {OPT_PRIVATE, "on", OPT_CONTINUE, "on"},
        {OPT_CONTINUE, "on", OPT_PRIVATE, "on"},
        {OPT_PROMPT, "x", OPT_STDIN, "lines"},
        {OPT_STDIN, "jsonl", OPT_PROMPT, "x"},
        {OPT_PROMPT, "x", OPT_PROMPTS, "list"},
        {OPT_PROMPTS, "list", OPT_PROMPT, "x"},
        {OPT_DEVICE, "vulkan", OPT_GPU_LAYERS, "0"},
        {OPT_GPU_LAYERS, "0", OPT_DEVICE, "vulkan:1"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct options *o = options_new();
        struct err err;
        assert_true(options_give(o, pairs[i].near, FROM_FLAG, 0, pairs[i].value, &err));
        assert_true(options_give(o, pairs[i].far, FROM_ENV, 0, pairs[i].other, &err));
        if (!options_check(o, &err)) fail_msg("%zu: %s", i, err.msg);
        assert_int_equal(o->source[pairs[i].near].from, FROM_FLAG);
        assert_int_equal(o->source[pairs[i].far].from, FROM_BUILTIN);
        options_free(o);
    }
}

static void test_extra(void **state)
{
    (void)state;
    const char *ids = NULL, *rows = "last";
    bool jsonl = false;
    const struct option_extra extra[] = {
        {.name = "ids", .arg = "IDS", .value = &ids, .help = "x"},
        {.name = "rows", .letter = 'n', .arg = "WHICH", .value = &rows, .help = "x"},
        {.name = "jsonl", .flag = &jsonl, .help = "x"},
    };
    struct option_args args = {
        .command = "inspect logits", .extra = extra, .n_extra = 3, .engine_only = true};
    struct options *o = options_new();
    struct err err;
    assert_true(parse(o, &args, "--ids=1 -n all --jsonl --kv-type f32 -t 2", &err));
    assert_string_equal(ids, "1");
    assert_string_equal(rows, "all");
    assert_true(jsonl);
    assert_false(o->jsonl);
    assert_int_equal(o->max_tokens, -1);
    assert_string_equal(o->kv_type, "f32");
    assert_int_equal(o->threads, 2);
    assert_false(parse(o, &args, "--temp 1", &err));
    assert_string_equal(err.msg, "--temp: is no option of hearth inspect logits");
    assert_false(parse(o, &args, "--row all", &err));
    assert_string_equal(err.msg, "--row: unknown option, did you mean --rows?");
    assert_false(parse(o, &args, "--jsonl=on", &err));
    assert_string_equal(err.msg, "--jsonl: takes no value");
    free(args.rest);
    options_free(o);
}

/* ---- Sources ---- */

static char folder[SCRATCH_PATH], ini_path[SCRATCH_PATH + 10];

static int set_up(void **state)
{
    (void)state;
    scratch_folder(folder, "options");
    snprintf(ini_path, sizeof ini_path, "%s/x.ini", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

/* "@" is the INI file, "#" its folder. */
static void put_words(struct buf *out, const char *words)
{
    for (; *words; words++)
        if (*words == '@')
            buf_puts(out, ini_path);
        else if (*words == '#')
            buf_puts(out, folder);
        else
            buf_putc(out, *words);
}

static void write_ini(const char *text)
{
    FILE *f = fopen(ini_path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void origin_is(const struct options *o, enum option_id id, const char *value,
                      const char *from)
{
    struct buf got = {0}, want = {0};
    option_value(o, id, &got);
    buf_puts(&got, " from ");
    option_origin(o, id, &got);
    put_words(&want, value);
    buf_puts(&want, " from ");
    put_words(&want, from);
    assert_string_equal(buf_str(&got), buf_str(&want));
    buf_free(&got);
    buf_free(&want);
}

/* Options of every source, the model's first: the order of reading does not matter. */
static struct options *of_all_sources(void)
{
    write_ini("[hearth]\ntemp = 0.1\ntop-k = 11\ntop-p = 0.2\nmin-p = 0.3\nstop = a,b\n"
              "profile = code\n[profile code]\ntop-k = 12\ntop-p = 0.4\nmin-p=0.5\n"
              "model = m.gguf\nfile = f.txt\n[profile other]\ntemp = 9\n");
    char *env[] = {"HEARTH_TOP_P=0.6",
                   "HEARTH_MIN_P=0.7",
                   "HEARTH_TEMP=",
                   "PATH=/bin",
                   "HEARTH_TOPK=1",
                   "HEARTH_STOP=x, y",
                   NULL};
    struct options *o = options_new();
    struct option_args args = {0};
    struct err err = {0};
    assert_true(options_apply_model(o, "general.sampling.temp", 2, &err));
    assert_true(options_apply_model(o, "general.sampling.penalty_repeat", 1.05, &err));
    assert_false(options_apply_model(o, "general.sampling.top_k", -5, &err));
    assert_string_equal(err.msg, "the model's general.sampling.top_k is not taken: expected a "
                                 "whole number of at least 0, found '-5'");
    assert_true(options_apply_model(o, "general.name", 1, &err));
    assert_true(parse(o, &args, "--min-p 0.8", &err));
    assert_true(options_parse_env(o, env, &err));
    if (!options_parse_ini(o, ini_path, &err)) fail_msg("%s", err.msg);
    assert_true(options_check(o, &err));
    free(args.rest);
    return o;
}

static void test_precedence(void **state)
{
    (void)state;
    struct options *o = of_all_sources();
    struct err err = {0};
    origin_is(o, OPT_MIN_P, "0.8", "flag --min-p");
    origin_is(o, OPT_TOP_P, "0.6", "environment HEARTH_TOP_P");
    origin_is(o, OPT_TOP_K, "12", "profile code, @:9");
    origin_is(o, OPT_TEMP, "0.1", "[hearth], @:2");
    origin_is(o, OPT_REPEAT_PENALTY, "1.05", "the model");
    origin_is(o, OPT_SEED, "", "built-in");
    origin_is(o, OPT_STOP, "x,y", "environment HEARTH_STOP");
    /* A model is beside the INI file that names it, a text where the user is. */
    origin_is(o, OPT_MODEL, "#/m.gguf", "profile code, @:12");
    assert_string_equal(o->files.items[0], "f.txt");
    assert_int_equal(o->notes.n, 1);
    assert_string_equal(o->notes.items[0],
                        "HEARTH_TOPK in the environment is no option; did you mean "
                        "HEARTH_TOP_K?");
    assert_true(options_apply_model(o, "general.sampling.temp", 3, &err));
    assert_true(options_apply_model(o, "general.sampling.top_k", -5, &err));
    origin_is(o, OPT_TEMP, "0.1", "[hearth], @:2");
    options_free(o);
}

static void test_clone_is_set_alone(void **state)
{
    (void)state;
    struct options *o = of_all_sources(), *copy = options_clone(o);
    struct err err = {0};
    assert_true(options_set(copy, option_find("temp"), "1.5", &err));
    assert_true(options_set(copy, option_find("stop"), "", &err));
    origin_is(copy, OPT_TEMP, "1.5", "/set");
    origin_is(copy, OPT_STOP, "", "/set");
    origin_is(copy, OPT_TOP_K, "12", "profile code, @:9");
    origin_is(o, OPT_TEMP, "0.1", "[hearth], @:2");
    assert_false(options_set(copy, option_find("temp"), "x", &err));
    assert_string_equal(err.msg, "temp: expected a number from 0 to 100, found 'x'");
    assert_false(options_set(copy, option_find("ctx"), "5", &err));
    assert_string_equal(err.msg, "ctx: is set when hearth starts, with --ctx");
    options_free(o);
    origin_is(copy, OPT_MIN_P, "0.8", "flag --min-p");
    options_free(copy);
}

/* Reads the INI text with the words as flags; the error must be want. */
static void ini_refused(const char *text, const char *words, const char *want)
{
    write_ini(text);
    struct options *o = options_new();
    struct option_args args = {0};
    struct err err = {0};
    assert_true(parse(o, &args, words, &err));
    bool ok = options_parse_ini(o, ini_path, &err) && options_check(o, &err);
    assert_false(ok);
    struct buf expected = {0};
    put_words(&expected, want);
    assert_string_equal(err.msg, buf_str(&expected));
    buf_free(&expected);
    free(args.rest);
    options_free(o);
}

static void test_ini_errors(void **state)
{
    (void)state;
    ini_refused("temp = 1\ntpo-k = 5\n", "", "@:2: unknown key tpo-k, did you mean top-k?");
    ini_refused("xyzzy = 5\n", "", "@:1: unknown key xyzzy");
    ini_refused("help = on\n", "", "@:1: unknown key help");
    ini_refused("config = x\n", "", "@:1: unknown key config");
    ini_refused("temp = warm\n", "",
                "@:1: temp: expected a number from 0 to 100, found 'warm'");
    ini_refused("temp = warm\n", "--temp 1",
                "@:1: temp: expected a number from 0 to 100, found 'warm'");
    ini_refused("[profile a]\ntemp = warm\n", "",
                "@:2: temp: expected a number from 0 to 100, found 'warm'");
    ini_refused("[profile a]\nprofile = b\n", "",
                "@:2: profile belongs in [hearth], not in a profile");
    ini_refused("model =\n", "", "@:1: model: expected a path, found nothing");
    ini_refused("[profile a]\n[profile b]\n", "-P c", "no profile c in @; there are: a, b");
    ini_refused("temp = 1\n", "-P c", "no profile c in @, which has no [profile NAME]");
    ini_refused("profile = c\n", "", "no profile c in @, which has no [profile NAME]");
    ini_refused("", "-c /no/such.ini", "--config: /no/such.ini: No such file or directory");
    ini_refused("\nsystem = @nowhere.md\n", "",
                "@:2: system: #/nowhere.md: No such file or directory");

    /* What a profile that is not chosen asks for is not refused. */
    write_ini("tui = on\n[profile a]\nsystem = @nowhere.md\n");
    struct options *o = options_new();
    struct option_args args = {0};
    struct err err;
    assert_true(parse(o, &args, "--tui=off", &err));
    assert_true(options_parse_ini(o, ini_path, &err) && options_check(o, &err));
    free(args.rest);
    options_free(o);

    o = options_new();
    assert_true(options_parse_ini(o, "/no/such/file.ini", &err));
    assert_true(options_parse_ini(o, NULL, &err));
    options_free(o);

    char *env[] = {"HEARTH_TOP_K=many", NULL};
    o = options_new();
    assert_false(options_parse_env(o, env, &err));
    assert_string_equal(err.msg,
                        "HEARTH_TOP_K: expected a whole number of at least 0, found 'many'");
    options_free(o);
}

static void test_paths_expand(void **state)
{
    (void)state;
    setenv("HOME", "/home/u", 1);
    check("-m ~/m.gguf", OPT_MODEL, "/home/u/m.gguf");
    check("-m $HOME/m.gguf", OPT_MODEL, "/home/u/m.gguf");
    check("-m ${HOME}", OPT_MODEL, "/home/u");
    check("-m ~other/m", OPT_MODEL, "~other/m");
    check("-m $HOMER/m", OPT_MODEL, "$HOMER/m");
    check("-m x/~/m", OPT_MODEL, "x/~/m");
    check("-p ~/x", OPT_PROMPT, "~/x");
}

static void test_system_file(void **state)
{
    (void)state;
    write_ini("Be brief.\n\nAlways.\n\r\n");
    struct options *o = options_new();
    struct err err;
    char value[sizeof ini_path + 1];
    snprintf(value, sizeof value, "@%s", ini_path);
    assert_true(options_give(o, OPT_SYSTEM, FROM_FLAG, 0, value, &err));
    assert_true(options_check(o, &err));
    assert_string_equal(o->system, "Be brief.\n\nAlways.");
    struct options *copy = options_clone(o);
    options_free(o);
    assert_string_equal(copy->system, "Be brief.\n\nAlways.");
    options_free(copy);
}

/* What --print-config prints gives the same values when it is read. */
static void test_print_config(void **state)
{
    (void)state;
    struct options *o = options_new();
    struct err err;
    const struct {
        enum option_id id;
        const char *value;
    } given[] = {
        {OPT_SYSTEM, " a \"b\" 'c' # ; \\ \n\te "},
        {OPT_PROMPT, "C# and C;"},
        {OPT_STOP, "User:"},
        {OPT_STOP, "a,b\\"},
        {OPT_STOP, "\n\n"},
        {OPT_LOGIT_BIAS, "7=-inf"},
        {OPT_LOGIT_BIAS, "8=0.1"},
        {OPT_TEMP, "0.333333343"},
        {OPT_MODEL, "/a b/#c.gguf"},
        {OPT_FILE, "-"},
        {OPT_SEED, "18446744073709551615"},
        {OPT_THINK, "off"},
        {OPT_PRIVATE, "yes"},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        assert_true(options_give(o, given[i].id, FROM_FLAG, 0, given[i].value, &err));
    struct buf first = {0};
    options_print_config(o, &first);
    write_ini(buf_str(&first));
    struct options *again = options_new();
    if (!options_parse_ini(again, ini_path, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        struct buf a = {0}, b = {0};
        option_value(o, (enum option_id)i, &a);
        option_value(again, (enum option_id)i, &b);
        assert_string_equal(buf_str(&a), buf_str(&b));
        buf_free(&a);
        buf_free(&b);
    }
    assert_true(isinf(again->logit_bias.items[0].bias));
    options_free(again);

    /* What no line can hold is a comment, not a broken file. */
    char *text = malloc(5001);
    memset(text, 'x', 5000);
    text[5000] = '\0';
    assert_true(options_give(o, OPT_SYSTEM, FROM_FLAG, 0, text, &err));
    assert_true(options_give(o, OPT_PROMPT, FROM_FLAG, 0, "\x1b[31m", &err));
    free(text);
    buf_clear(&first);
    options_print_config(o, &first);
    assert_non_null(strstr(buf_str(&first), "# system: 5000 bytes that no line"));
    assert_non_null(strstr(buf_str(&first), "# prompt: 5 bytes that no line"));
    assert_null(strchr(buf_str(&first), '\x1b'));
    write_ini(buf_str(&first));
    again = options_new();
    if (!options_parse_ini(again, ini_path, &err)) fail_msg("%s", err.msg);
    assert_null(again->system);
    options_free(again);
    options_free(o);
    buf_free(&first);
}

/* A value and where it comes from may be longer together than a line can be, of which the value
 * takes what there is. */
static void test_print_long(void **state)
{
    (void)state;
    char text[1000 - sizeof "system = " + 2];
    struct options *o = options_new(), *again = options_new();
    struct err err;
    struct buf printed = {0};
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    o->ini_path = strdup("/home/somebody/with/a/folder/of/configurations/hearth.ini");
    assert_true(options_give(o, OPT_SYSTEM, FROM_HEARTH, 7, text, &err));
    options_print_config(o, &printed);
    write_ini(buf_str(&printed));
    if (!options_parse_ini(again, ini_path, &err)) fail_msg("%s", err.msg);
    assert_non_null(again->system);
    assert_string_equal(again->system, text);
    assert_non_null(strstr(buf_str(&printed), "configurations/hearth.ini:7"));
    /* With its last byte a quote it needs three more. */
    text[sizeof text - 2] = '"';
    assert_true(options_give(o, OPT_SYSTEM, FROM_HEARTH, 7, text, &err));
    buf_clear(&printed);
    options_print_config(o, &printed);
    assert_non_null(strstr(buf_str(&printed), "# system: 991 bytes that no line"));
    buf_free(&printed);
    options_free(o);
    options_free(again);
}

/* Of a file in the root folder, too, a path is relative to the folder that the file is in. */
static void test_root_folder(void **state)
{
    (void)state;
    struct options *o = options_new();
    struct err err;
    o->ini_path = strdup("/hearth.ini");
    assert_true(options_give(o, OPT_MODEL, FROM_HEARTH, 1, "a.gguf", &err));
    assert_string_equal(o->model, "/a.gguf");
    options_free(o);
}

static void test_help(void **state)
{
    (void)state;
    struct buf help = {0};
    options_help(&help);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        char name[64];
        snprintf(name, sizeof name, " --%s", row->name);
        bool there = strstr(buf_str(&help), name) != NULL;
        assert_true(there == !(row->flags & OPTION_HIDDEN));
    }
    for (const char *p = buf_str(&help); *p;) {
        size_t n = strcspn(p, "\n");
        assert_true(n <= 80);
        p += n + (p[n] == '\n');
    }
    buf_free(&help);
}

static void test_nearest(void **state)
{
    (void)state;
    assert_int_equal(nearest_distance("", ""), 0);
    assert_int_equal(nearest_distance("abc", ""), 3);
    assert_int_equal(nearest_distance("kitten", "sitting"), 3);
    assert_int_equal(nearest_distance("tmep", "temp"), 1);
    assert_int_equal(nearest_distance("Temp", "tEMP"), 0);
    char longer[100];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(nearest_distance(longer, "a"), 100);
    struct nearest n;
    nearest_begin(&n, "sys");
    nearest_offer(&n, "seed");
    nearest_offer(&n, "system");
    assert_string_equal(n.best, "system");
    nearest_begin(&n, "q");
    nearest_offer(&n, "quit");
    assert_null(n.best);
}

/* Another model comes: its predecessor's values are gone, those of others stay. */
static void test_forget_model(void **unused)
{
    (void)unused;
    struct options *o = options_new(), *fresh = options_new();
    struct err err;
    assert_true(options_give(o, OPT_TOP_K, FROM_FLAG, 0, "7", &err));
    options_apply_model(o, "general.sampling.temp", 0.25, NULL);
    options_apply_model(o, "general.sampling.top_k", 9, NULL);
    assert_true(o->temp == 0.25f && o->top_k == 7);
    options_forget_model(o);
    assert_true(o->temp == fresh->temp && o->top_k == 7);
    assert_false(option_given(o, OPT_TEMP));
    struct buf a = {0}, b = {0};
    option_value(o, OPT_TEMP, &a);
    option_value(fresh, OPT_TEMP, &b);
    assert_string_equal(buf_str(&a), buf_str(&b));
    options_apply_model(o, "general.sampling.temp", 0.5, NULL);
    assert_true(o->temp == 0.5f);
    buf_free(&a);
    buf_free(&b);
    options_free(o);
    options_free(fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_usage_errors),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_draft),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_flags_count),
        cmocka_unit_test(test_extra),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_clone_is_set_alone),
        cmocka_unit_test(test_ini_errors),
        cmocka_unit_test(test_paths_expand),
        cmocka_unit_test(test_system_file),
        cmocka_unit_test(test_print_config),
        cmocka_unit_test(test_print_long),
        cmocka_unit_test(test_root_folder),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_forget_model),
    };
    return cmocka_run_group_tests_name("options", tests, set_up, tear_down);
}
