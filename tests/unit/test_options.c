/* The option table and the command line that it makes: flags, words, values and --help. */
#include "../option_case.h"
#include "base/buf.h"

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
    check("--seed 0Xa", OPT_SEED, "10");
    check("--seed 0", OPT_SEED, "0");
    check("--seed 017", OPT_SEED, "17");
    for (const char *w = "off false no 0 "; *w; w = strchr(w, ' ') + 1) {
        char words[32];
        snprintf(words, sizeof words, "--private=%.*s", (int)(strchr(w, ' ') - w), w);
        check(words, OPT_PRIVATE, "off");
    }
    for (const char *w = "on true yes 1 "; *w; w = strchr(w, ' ') + 1) {
        char words[32];
        snprintf(words, sizeof words, "--private=%.*s", (int)(strchr(w, ' ') - w), w);
        check(words, OPT_PRIVATE, "on");
    }
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

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},
                 {"5", 5},
                 {"1K", 1u << 10},
                 {"2m", 2u << 20},
                 {"3GiB", UINT64_C(3) << 30},
                 {"4tib", UINT64_C(4) << 40},
                 {"16777215T", UINT64_C(16777215) << 40}};
    struct options *o = options_new();
    struct err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(options_give(o, OPT_CACHE_RAM, FROM_FLAG, 0, cases[i].text, &err));
        assert_true(o->cache_ram_bytes == cases[i].bytes);
    }
    options_free(o);
    static const char *const bad[] = {
        "", "K", "-1", "1KB", "1iB", "1Kx", "16777216T", "18446744073709551616", "1 K"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = options_new();
        assert_false(options_give(o, OPT_CACHE_RAM, FROM_FLAG, 0, bad[i], &err));
        options_free(o);
    }
}

/* A copy has all items of a list. */
static void test_copy(void **state)
{
    (void)state;
    struct options *o = options_new(), *copy;
    struct err err;
    assert_true(options_give(o, OPT_STOP, FROM_FLAG, 0, "a", &err));
    assert_true(options_give(o, OPT_STOP, FROM_FLAG, 0, "b", &err));
    assert_true(options_give(o, OPT_LOGIT_BIAS, FROM_FLAG, 0, "1=2,3=4", &err));
    copy = options_clone(o);
    options_free(o);
    assert_int_equal(copy->stop.n, 2);
    assert_string_equal(copy->stop.items[0], "a");
    assert_string_equal(copy->stop.items[1], "b");
    assert_int_equal(copy->logit_bias.n, 2);
    assert_int_equal(copy->logit_bias.items[0].id, 1);
    assert_int_equal(copy->logit_bias.items[1].id, 3);
    options_free(copy);
}

static void takes(enum option_id id, const char *value)
{
    struct options *o = options_new();
    struct err err;
    if (!options_give(o, id, FROM_FLAG, 0, value, &err) || !options_check(o, &err))
        fail_msg("--%s %s: %s", option_row(id)->name, value, err.msg);
    options_free(o);
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
    refused("--temp 1e", "--temp: expected a number from 0 to 100, found '1e'");
    takes(OPT_MODEL, "/m/\xff.gguf"); /* names of files are what they are */
    takes(OPT_DRAFT, "/m/\xff.gguf");
    takes(OPT_FILE, "/m/\xff");
    refused("--system \xff", "--system: expected valid UTF-8, found '\\xff'");
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
    takes(OPT_DEVICE, "vulkan:999");
    refused("--device vulkan:1000",
            "--device: expected auto, cpu or vulkan[:N], found 'vulkan:1000'");
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
            "--gpu-layers: 0 means the CPU, but --device is vulkan");
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
    check("--draft ~/d.gguf", OPT_DRAFT, "/home/u/d.gguf");
    check("--draft ~/d.gguf,lookup", OPT_DRAFT, "/home/u/d.gguf,lookup");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_lists),        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_copy),         cmocka_unit_test(test_usage_errors),
        cmocka_unit_test(test_words),        cmocka_unit_test(test_draft),
        cmocka_unit_test(test_combinations), cmocka_unit_test(test_flags_count),
        cmocka_unit_test(test_extra),        cmocka_unit_test(test_paths_expand),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
