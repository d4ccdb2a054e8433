/* Where options come from: environment, INI, the model and /set beside flags; which counts, and
 * how
 * --print-config says so. */
#include <math.h>
#include <unistd.h>

#include "../option_case.h"
#include "../scratch.h"
#include "base/buf.h"

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
                        "warning: HEARTH_TOPK in the environment is no option; did you "
                        "mean HEARTH_TOP_K?");
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
    ini_refused("help = on\n", "", "@:1: help is no key: it belongs on the command line");
    ini_refused("config = x\n", "", "@:1: config is no key: it belongs on the command line");
    ini_refused("[profile x]\nversion = on\n", "",
                "@:2: version is no key: it belongs on the command line");
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

static void value_is(const struct options *o, enum option_id id, const char *value)
{
    struct buf got = {0};
    option_value(o, id, &got);
    assert_string_equal(buf_str(&got), value);
    buf_free(&got);
}

/* What a model is listed with goes before the keys of its file and behind everybody else. */
static void test_listed(void **unused)
{
    (void)unused;
    char settings[] = "temp 0.25\ntop-k -4\nmin-p 0.5\nnonsense 1\nstop a\\, b,c\n",
         system[] = "@one\ntwo";
    struct options *o = options_new();
    struct err err;
    struct buf notes = {0};
    struct option_listed listed = {.settings = settings, .system = system};
    assert_true(options_give(o, OPT_MIN_P, FROM_HEARTH, 1, "0.125", &err));
    assert_true(options_apply_model(o, "general.sampling.temp", 2, &err));
    options_apply_listed(o, &notes); /* nothing */
    value_is(o, OPT_TEMP, "2");
    option_listed_copy(&o->listed, &listed);
    for (int i = 0; i < 2; i++) { /* twice is once */
        buf_clear(&notes);
        options_apply_listed(o, &notes);
        assert_string_equal(buf_str(&notes), "the model's top-k is not taken: expected a whole "
                                             "number of at least 0, found '-4'\n");
        value_is(o, OPT_TEMP, "0.25");
        value_is(o, OPT_TOP_K, "40");
        value_is(o, OPT_MIN_P, "0.125");
        value_is(o, OPT_STOP, "a\\, b,c");
        assert_int_equal(o->stop.n, 2);
        assert_string_equal(o->system, "@one\ntwo");
        value_is(o, OPT_SYSTEM, "@@one\ntwo");
        assert_int_equal(o->source[OPT_SYSTEM].from, FROM_MODEL);
    }
    struct options *clone = options_clone(o);
    assert_string_equal(clone->system, "@one\ntwo");
    assert_string_equal(clone->listed.settings, settings);
    options_forget_model(clone);
    assert_null(clone->system);
    assert_int_equal(clone->stop.n, 0);
    assert_string_equal(clone->listed.system, "@one\ntwo"); /* what can be applied again */
    assert_true(options_give(clone, OPT_SYSTEM, FROM_FLAG, 0, "mine", &err));
    options_apply_listed(clone, &notes);
    assert_string_equal(clone->system, "mine");
    options_free(clone);
    options_free(o);
    buf_free(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precedence),   cmocka_unit_test(test_clone_is_set_alone),
        cmocka_unit_test(test_ini_errors),   cmocka_unit_test(test_system_file),
        cmocka_unit_test(test_print_config), cmocka_unit_test(test_print_long),
        cmocka_unit_test(test_root_folder),  cmocka_unit_test(test_forget_model),
        cmocka_unit_test(test_listed),
    };
    return cmocka_run_group_tests_name("options from sources", tests, set_up, tear_down);
}
