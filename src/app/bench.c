#include "app/bench.h"

#include <errno.h>
#include <stdlib.h>

#include "app/bench_disk.h"
#include "app/bench_kv.h"
#include "app/bench_ops.h"
#include "app/bench_spec.h"
#include "app/bench_speed.h"
#include "app/bench_table.h"
#include "app/bench_tokenizer.h"
#include "app/bench_turns.h"
#include "app/command_line.h"
#include "app/model_choice.h"

static bool parse_count(const char *name, const char *text, uint32_t *out, struct err *err)
{
    if (!text) return true;
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < 1 || n > 1 << 24)
        return err_set(err, ERR_USER, "--%s is '%.20s', expected a number of tokens from 1",
                       name, text);
    *out = (uint32_t)n;
    return true;
}

enum what { SPEED, TURNS, DISK };

static int measure(const struct options *o, const char *prompt, const char *gen, enum what what,
                   bool json)
{
    uint32_t n_prompt = 0, n_gen = 0;
    struct err err;
    if (!parse_count("prompt", prompt, &n_prompt, &err) ||
        !parse_count("gen", gen, &n_gen, &err))
        return usage_error("bench", "%s", err.msg);
    if (what == TURNS) return bench_turns(o, n_prompt, json);
    if (what == DISK) return bench_disk(o, n_prompt ? n_prompt : 512, n_gen ? n_gen : 64, json);
    return bench_speed(o, n_prompt, n_gen, json);
}

int bench_run(int argc, char **argv)
{
    const char *prompt = NULL, *gen = NULL, *kv_text = NULL;
    bool json = false, tokenizer = false, turns = false, disk = false, table = false;
    bool spec = false, ops = false;
    struct bench_table t = {0};
    struct bench_spec s = {0};
    const struct option_extra extra[] = {
        {"prompt", 0, "N", &prompt, NULL, "tokens to prefill (512)"},
        {"gen", 0, "N", &gen, NULL, "tokens to decode after them (64)"},
        {"turns", 0, NULL, NULL, &turns, "the time to the first token of turns instead"},
        {"disk", 0, NULL, NULL, &disk, "what keeping a conversation on disk costs instead"},
        {"ops", 0, NULL, NULL, &ops, "what each kind of op takes on a device instead"},
        {"tokenizer", 0, NULL, NULL, &tokenizer, "the tokenizer's speed instead"},
        {"kv-error", 0, "TEXT", &kv_text, NULL, "error of the KV types over a text instead"},
        {"table", 0, NULL, NULL, &table, "a line per depth and number of rows instead"},
        {"depth", 0, "LIST", &t.depths, NULL, "of the table: positions (0)"},
        {"rows", 0, "LIST", &t.rows, NULL, "of the table: rows per step (1,2,4,8,512)"},
        {"each-threads", 0, "LIST", &t.threads, NULL, "of the table: numbers of threads"},
        {"each-cpu", 0, "LIST", &t.isas, NULL, "of the table: instruction sets"},
        {"each-model", 0, "LIST", &t.models, NULL, "of the table: files, -m unless given"},
        {"compare", 0, "CSV", &t.compare, NULL, "of the table: ratios to an earlier one"},
        {"csv", 0, NULL, NULL, &t.csv, "the table as CSV"},
        {"spec", 0, NULL, NULL, &spec, "what drafts gain instead (--draft names them)"},
        {"lengths", 0, "LIST", &s.lengths, NULL, "of drafts: tokens ahead (1,2,4,8,16)"},
        {"workloads", 0, "LIST", &s.workloads, NULL, "of drafts: some of them only"},
        {"repeats", 0, "N", &s.repeats, NULL, "of drafts: runs of each length (5)"},
        {"json", 0, NULL, NULL, &json, "one JSON object"},
    };
    struct command_line line;
    struct err err;
    int status =
        command_line_read(&line, "bench", extra, sizeof extra / sizeof *extra, argc, argv);
    if (status == COMMAND_LINE_GO && line.args.n_rest > 0)
        status = unexpected_argument("bench", line.args.rest[0]);
    if (status == COMMAND_LINE_GO && !model_choose(line.options, false, &err))
        status = runtime_error(&err);
    t.json = s.json = json;
    if (status == COMMAND_LINE_GO && spec && !parse_count("gen", gen, &s.n_gen, &err))
        status = usage_error("bench", "%s", err.msg);
    if (status == COMMAND_LINE_GO)
        status = tokenizer ? bench_tokenizer(line.options->model, json)
                 : ops     ? bench_ops(line.options, json)
                 : kv_text ? bench_kv_error(line.options, kv_text, json)
                 : table   ? bench_table(line.options, &t)
                 : spec    ? bench_spec(line.options, &s)
                           : measure(line.options, prompt, gen,
                                  turns  ? TURNS
                                     : disk ? DISK
                                            : SPEED,
                                     json);
    command_line_free(&line);
    return status;
}
