/* The command line of hearth bench: one table of modes, from which the reading, --help and the
 * completion are made. */
#include "app/bench.h"

#include <assert.h>

#include "app/bench_modes.h"
#include "app/bench_tools.h"
#include "app/command_line.h"
#include "app/model_choice.h"

/* Options of a mode; behind N_OF_A_MODE those that each has. */
enum bench_option {
    PROMPT,
    GEN,
    DEPTH,
    ROWS,
    EACH_THREADS,
    EACH_CPU,
    EACH_MODEL,
    CSV,
    COMPARE,
    LENGTHS,
    WORKLOADS,
    REPEATS,
    N_OF_A_MODE,
    JSON = N_OF_A_MODE,
    N_BENCH_OPTIONS
};

static const struct subcommand_option bench_options[N_BENCH_OPTIONS] = {
    [PROMPT] = {"prompt", "N", "tokens to prefill"},
    [GEN] = {"gen", "N", "tokens to decode"},
    [DEPTH] = {"depth", "LIST", "positions"},
    [ROWS] = {"rows", "LIST", "rows per step"},
    [EACH_THREADS] = {"each-threads", "LIST", "numbers of threads"},
    [EACH_CPU] = {"each-cpu", "LIST", "instruction sets"},
    [EACH_MODEL] = {"each-model", "LIST", "files"},
    [CSV] = {"csv", NULL, "as CSV"},
    [COMPARE] = {"compare", "FILE", "ratios to an earlier table, which --csv printed"},
    [LENGTHS] = {"lengths", "LIST", "tokens guessed ahead"},
    [WORKLOADS] = {"workloads", "LIST", "of code, list, prose, chat-short, chat-long, edit"},
    [REPEATS] = {"repeats", "N", "runs of each length, pairs of turns"},
    [JSON] = {"json", NULL, "one JSON object"},
};

#define OPTION(id) ((uint64_t)1 << OPT_##id)
static_assert(N_OPTIONS <= 64, "an option is a bit");

static const struct mode {
    struct subcommand_option flag;
    int (*run)(const struct options *o, const struct bench_args *a);
    /* The options of its own that it takes: what each is if it is not given, "": nothing. */
    const char *takes[N_OF_A_MODE];
    uint64_t ignores; /* the chat's options that would change nothing: 1 << enum option_id */
} modes[] = {
    {{"speed", NULL, "prefill and decode; so it is without a mode"},
     bench_speed,
     {[PROMPT] = "512", [GEN] = "64"},
     OPTION(DRAFT)},
    {{"turns", NULL, "the time to the first token of turns"},
     bench_turns,
     {[PROMPT] = "571"},
     0},
    {{"disk", NULL, "what keeping a conversation on disk costs"},
     bench_disk,
     {[PROMPT] = "512", [GEN] = "64", [DEPTH] = "", [REPEATS] = "21"},
     OPTION(DRAFT)},
    {{"ops", NULL, "what each kind of op takes on a graphics processor"},
     bench_ops,
     {0},
     OPTION(DRAFT)},
    {{"tokenizer", NULL, "how fast text becomes tokens"},
     bench_tokenizer,
     {0},
     OPTION(DRAFT) | OPTION(DEVICE) | OPTION(GPU_LAYERS) | OPTION(ALLOW_INEXACT) | OPTION(CPU) |
         OPTION(THREADS) | OPTION(CTX) | OPTION(KV_TYPE) | OPTION(CACHE_RAM)},
    {{"kv-error", "FILE", "the error of the KV types over a text"},
     bench_kv_error,
     {0},
     OPTION(DRAFT) | OPTION(KV_TYPE)},
    {{"table", NULL, "a line per depth and number of rows"},
     bench_table,
     {[DEPTH] = "0",
      [ROWS] = "1,2,4,8,512",
      [EACH_THREADS] = "",
      [EACH_CPU] = "",
      [EACH_MODEL] = "",
      [CSV] = "",
      [COMPARE] = ""},
     OPTION(DRAFT)},
    {{"spec", NULL, "what drafts gain; --draft names them"},
     bench_spec,
     {[GEN] = "128", [LENGTHS] = "1,2,4,8,16", [WORKLOADS] = "", [REPEATS] = "5"},
     0},
};

enum { SPEED, N_MODES = sizeof modes / sizeof *modes };

bool bench_option_at(size_t i, struct subcommand_option *out)
{
    if (i >= N_MODES + N_BENCH_OPTIONS) return false;
    *out = i < N_MODES ? modes[i].flag : bench_options[i - N_MODES];
    return true;
}

/* ---- what was given ---- */

struct given {
    bool mode[N_MODES], flag[N_BENCH_OPTIONS];
    const char *mode_value[N_MODES], *value[N_BENCH_OPTIONS]; /* NULL: not given */
};

enum { MAX_ROWS = N_MODES * (1 + N_OF_A_MODE) + N_BENCH_OPTIONS };

/* One row of the command line; the value is put where `given` has it. preset: NULL or "" for
 * none. */
static struct option_extra row_of(const struct subcommand_option *o, const char **value,
                                  bool *flag, const char *preset, bool is_part)
{
    return (struct option_extra){.name = o->name,
                                 .arg = o->arg,
                                 .value = o->arg ? value : NULL,
                                 .flag = o->arg ? NULL : flag,
                                 .help = o->help,
                                 .preset = preset && *preset ? preset : NULL,
                                 .is_part = is_part};
}

/* Each mode, below it what it takes, and at the end what all take; the number of rows. */
static size_t list_rows(struct given *g, struct option_extra rows[MAX_ROWS])
{
    size_t n = 0;
    for (int m = 0; m < N_MODES; m++) {
        rows[n++] = row_of(&modes[m].flag, &g->mode_value[m], &g->mode[m], NULL, false);
        for (int i = 0; i < N_OF_A_MODE; i++)
            if (modes[m].takes[i])
                rows[n++] = row_of(&bench_options[i], &g->value[i], &g->flag[i],
                                   modes[m].takes[i], true);
    }
    for (int i = N_OF_A_MODE; i < N_BENCH_OPTIONS; i++)
        rows[n++] = row_of(&bench_options[i], &g->value[i], &g->flag[i], NULL, false);
    return n;
}

/* Sets *chosen to the mode that was named, if one was. */
static bool choose_mode(const struct given *g, int *chosen, struct err *err)
{
    int n = 0;
    for (int m = 0; m < N_MODES; m++) {
        if (!g->mode[m] && !g->mode_value[m]) continue;
        if (n++ > 0)
            return err_set(err, ERR_USER, "--%s and --%s: one of them at a time",
                           modes[*chosen].flag.name, modes[m].flag.name);
        *chosen = m;
    }
    return true;
}

static bool takes_own(const struct mode *mode, int option)
{
    return mode->takes[option] != NULL;
}

static bool takes_engine(const struct mode *mode, int option)
{
    return !(mode->ignores & (uint64_t)1 << option);
}

/* "--gen is for --speed, --disk and --spec, not for --ops". */
static bool refuse(const char *name, int option, const struct mode *mode,
                   bool (*takes)(const struct mode *, int), struct err *err)
{
    struct buf who = {0};
    int n = 0, left = 0;
    for (int m = 0; m < N_MODES; m++)
        left += takes(&modes[m], option);
    for (int m = 0; m < N_MODES; m++) {
        if (!takes(&modes[m], option)) continue;
        left--;
        buf_printf(&who, "%s--%s", n++ == 0 ? "" : left ? ", " : " and ", modes[m].flag.name);
    }
    err_set(err, ERR_USER, "--%s is for %s, not for --%s", name, buf_str(&who),
            mode->flag.name);
    buf_free(&who);
    return false;
}

static bool was_typed(const struct options *o, enum option_id id)
{
    return o->source[id].from == FROM_FLAG;
}

/* Lists whose items take the place of an option of the engine. */
static const struct {
    enum bench_option list;
    enum option_id one;
} instead[] = {{EACH_THREADS, OPT_THREADS}, {EACH_CPU, OPT_CPU}, {EACH_MODEL, OPT_MODEL}};

/* What was typed is of use in the mode, and no list that was typed takes its place. */
static bool check_use(const struct given *g, const struct options *o, const struct mode *mode,
                      struct err *err)
{
    for (int i = 0; i < N_OF_A_MODE; i++)
        if ((g->value[i] || g->flag[i]) && !takes_own(mode, i))
            return refuse(bench_options[i].name, i, mode, takes_own, err);
    for (int i = 0; i < N_OPTIONS; i++)
        if (was_typed(o, (enum option_id)i) && !takes_engine(mode, i))
            return refuse(option_row((enum option_id)i)->name, i, mode, takes_engine, err);
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (g->value[instead[i].list] && was_typed(o, instead[i].one))
            return err_set(err, ERR_USER, "--%s and --%s: one of them at a time",
                           option_row(instead[i].one)->name,
                           bench_options[instead[i].list].name);
    return true;
}

/* What was given, or what the mode's row says; NULL: neither. */
static const char *value_of(const struct given *g, const struct mode *mode, int option)
{
    const char *preset = mode->takes[option];
    if (g->value[option]) return g->value[option];
    return preset && *preset ? preset : NULL;
}

/* Leaves *out alone where neither says anything. */
static bool count_tokens(const struct given *g, const struct mode *mode, int option,
                         uint32_t *out, struct err *err)
{
    const char *text = value_of(g, mode, option);
    return !text || bench_count_parse(bench_options[option].name, text, 1, 1 << 24, out, err);
}

static bool make_args(const struct given *g, int m, struct bench_args *a, struct err *err)
{
    const struct mode *mode = &modes[m];
    *a = (struct bench_args){
        .has_prompt = g->value[PROMPT] != NULL,
        .has_gen = g->value[GEN] != NULL,
        .text = g->mode_value[m],
        .depths = value_of(g, mode, DEPTH),
        .rows = value_of(g, mode, ROWS),
        .threads = value_of(g, mode, EACH_THREADS),
        .isas = value_of(g, mode, EACH_CPU),
        .models = value_of(g, mode, EACH_MODEL),
        .compare = value_of(g, mode, COMPARE),
        .lengths = value_of(g, mode, LENGTHS),
        .workloads = value_of(g, mode, WORKLOADS),
        .repeats = value_of(g, mode, REPEATS),
        .csv = g->flag[CSV],
        .json = g->flag[JSON],
    };
    return count_tokens(g, mode, PROMPT, &a->n_prompt, err) &&
           count_tokens(g, mode, GEN, &a->n_gen, err);
}

int bench_run(const struct subcommand *self, int argc, char **argv)
{
    struct given g = {0};
    struct option_extra rows[MAX_ROWS];
    const size_t n_rows = list_rows(&g, rows);
    struct command_line line;
    struct bench_args args;
    struct err err;
    int mode = SPEED;
    int status = command_line_read(&line, self, rows, n_rows, argc, argv);
    if (status == COMMAND_LINE_GO && line.args.n_rest > 0)
        status = unexpected_argument(line.args.command, line.args.rest[0]);
    if (status == COMMAND_LINE_GO &&
        !(choose_mode(&g, &mode, &err) && check_use(&g, line.options, &modes[mode], &err) &&
          make_args(&g, mode, &args, &err)))
        status = usage_error(line.args.command, "%s", err.msg);
    if (status == COMMAND_LINE_GO && !args.models && !model_choose(line.options, NULL, &err))
        status = runtime_error(&err);
    if (status == COMMAND_LINE_GO) status = modes[mode].run(line.options, &args);
    command_line_free(&line);
    return status;
}
