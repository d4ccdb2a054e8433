/* hearth inspect logits and greedy: what a model computes for token ids, taken as they are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/inspect.h"
#include "app/model_choice.h"
#include "app/token_ids.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/readable.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/timeline.h"

static bool parse_ids(const char *text, const struct machine *m, struct ids *ids,
                      struct err *err)
{
    if (!token_ids_parse(text, model_program(m->model)->n_vocab, ids, err))
        return err_prefix(err, "--ids");
    return ids->n > 0 || err_set(err, ERR_USER, "--ids: expected token ids, found none");
}

static void say(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "hearth: %s\n", line);
}

/* What both commands work with. */
struct inspection {
    struct command_line line;
    struct machine m;
    struct ids ids;
    int failed; /* errno of standard output, 0; nothing is written after that */
};

static int open_named(struct inspection *in)
{
    const struct options *o = in->line.options;
    const char *command = in->line.args.command;
    struct err err;
    if (in->line.args.n_rest > 0) return unexpected_argument(command, in->line.args.rest[0]);
    const int status = model_needed(in->line.options, command);
    if (status != COMMAND_LINE_GO) return status;
    const struct engine_config config = command_line_engine(o);
    const struct machine_watch watch = {.warning = o->quiet ? NULL : say};
    if (machine_open(&in->m, &config, &watch, &err)) return COMMAND_LINE_GO;
    machine_close(&in->m);
    return runtime_error(&err);
}

/* COMMAND_LINE_GO, or the status to end with; then nothing is open. */
static int begin(struct inspection *in, const struct subcommand *of,
                 const struct option_extra *extra, size_t n_extra, int argc, char **argv)
{
    *in = (struct inspection){0};
    int status = command_line_read(&in->line, of, extra, n_extra, argc, argv);
    if (status == COMMAND_LINE_GO) status = open_named(in);
    if (status != COMMAND_LINE_GO) command_line_free(&in->line);
    return status;
}

/* Not by stdio, which loses what a pipe that does not wait has no room for. */
static bool put(struct inspection *in, const void *data, size_t n_bytes)
{
    if (!in->failed && !file_write_fd(STDOUT_FILENO, data, n_bytes)) in->failed = errno;
    return !in->failed;
}

static bool write_rows(void *user, size_t first, size_t n_rows, const float *logits)
{
    (void)first;
    struct inspection *in = user;
    return put(in, logits, sizeof *logits * model_n_vocab(in->m.model) * n_rows);
}

/* The status after all output. */
static int output_status(const struct inspection *in)
{
    errno = in->failed;
    return in->failed ? unwritten() : EXIT_DONE;
}

static int finish(struct inspection *in, bool ok, const struct err *err)
{
    const bool is_too_long = in->ids.n > in->m.n_ctx;
    int status = EXIT_DONE;
    if (ok)
        status = output_status(in);
    else if (err->code == ERR_USER && !is_too_long)
        status = usage_error(in->line.args.command, "%s", err->msg);
    else
        status = runtime_error(err);
    if (!ok && is_too_long && err->code == ERR_USER) status = EXIT_TOO_LONG;
    ids_free(&in->ids);
    machine_close(&in->m);
    command_line_free(&in->line);
    return status;
}

int inspect_logits(const struct subcommand *self, int argc, char **argv)
{
    const char *list = "", *rows = "last";
    const struct option_extra extra[] = {
        {.name = "ids",
         .arg = "IDS",
         .value = &list,
         .help = "token ids, \"1 2 3\"; no BOS is added"},
        {.name = "rows",
         .arg = "all|last",
         .value = &rows,
         .help = "of every id, or after the last (default)"},
    };
    struct inspection in;
    struct err err;
    const int status = begin(&in, self, extra, 2, argc, argv);
    if (status != COMMAND_LINE_GO) return status;
    bool ok = parse_ids(list, &in.m, &in.ids, &err);
    if (ok && strcmp(rows, "all") == 0) {
        ok = timeline_all_rows(in.m.tl, in.ids.data, in.ids.n, 0, write_rows, &in, &err);
    } else if (ok && strcmp(rows, "last") == 0) {
        ok = timeline_sync(in.m.tl, in.ids.data, in.ids.n, NULL, NULL, &err);
        if (ok) write_rows(&in, 0, 1, timeline_logits(in.m.tl));
    } else if (ok) {
        ok = err_set(&err, ERR_USER, "--rows is '%.20s', expected all or last", rows);
    }
    return finish(&in, ok, &err);
}

/* Draws n ids, the most likely each time; an end of turn is an id like others. */
static bool print_greedy(struct inspection *in, long n, struct err *err)
{
    struct machine *m = &in->m;
    const struct ids *ids = &in->ids;
    size_t n_vocab = model_n_vocab(m->model), n_ctx = timeline_n_ctx(m->tl);
    char has[READABLE_BYTES];
    if (!timeline_sync(m->tl, ids->data, ids->n, NULL, NULL, err)) return false;
    if ((size_t)n > n_ctx - ids->n)
        return err_set(err, ERR_USER, "%s and %ld more do not fit the context of %zu",
                       readable_count(has, ids->n, "token"), n, n_ctx);
    for (long i = 0; i < n; i++) {
        int32_t id = sampler_argmax(timeline_logits(m->tl), n_vocab);
        if (id < 0)
            return err_set(err, ERR_FORMAT,
                           "the model's logits are not numbers: the weights "
                           "are broken");
        char text[16];
        const int len = snprintf(text, sizeof text, "%s%d", i ? " " : "", (int)id);
        if (!put(in, text, (size_t)len)) return true;
        if (i + 1 < n && !timeline_append(m->tl, id, NULL, err)) return false;
    }
    put(in, "\n", 1);
    return true;
}

int inspect_greedy(const struct subcommand *self, int argc, char **argv)
{
    const char *list = "", *count = "48";
    const struct option_extra extra[] = {
        {.name = "ids",
         .arg = "IDS",
         .value = &list,
         .help = "token ids, \"1 2 3\"; no BOS is added"},
        {.name = "max-tokens",
         .letter = 'n',
         .arg = "N",
         .value = &count,
         .help = "how many ids (48)"},
    };
    struct inspection in;
    struct err err;
    const int status = begin(&in, self, extra, 2, argc, argv);
    if (status != COMMAND_LINE_GO) return status;
    char *end;
    errno = 0;
    long n = strtol(count, &end, 10);
    bool ok = parse_ids(list, &in.m, &in.ids, &err);
    if (ok && (end == count || *end || errno || n < 0 || n > INT32_MAX))
        ok = err_set(&err, ERR_USER, "-n is '%.20s', expected a number of tokens", count);
    ok = ok && print_greedy(&in, n, &err);
    return finish(&in, ok, &err);
}
