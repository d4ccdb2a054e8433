#include "app/command_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/subcommand.h"
#include "base/file.h"
#include "base/printable.h"
#include "chat/sanitise.h"
#include "config/paths.h"

int usage_error(const char *command, const char *fmt, ...)
{
    struct buf msg = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&msg, fmt, ap);
    va_end(ap);
    fprintf(stderr, "hearth: %s%s%s (try hearth %s%s--help)\n", command ? command : "",
            command ? ": " : "", buf_str(&msg), command ? command : "", command ? " " : "");
    buf_free(&msg);
    return EXIT_USAGE;
}

int config_error(const char *command, const struct err *err)
{
    fprintf(stderr, "hearth: %s%s%s\n", command ? command : "", command ? ": " : "", err->msg);
    return EXIT_USAGE;
}

int unexpected_argument(const char *command, const char *arg)
{
    char shown[80];
    return usage_error(command, "unexpected argument '%s'",
                       printable(shown, sizeof shown, arg, strlen(arg)));
}

int runtime_error(const struct err *err)
{
    fprintf(stderr, "hearth: %s\n", err->msg);
    return err->code == ERR_CANCELLED ? EXIT_SIGINT : EXIT_RUNTIME;
}

int unwritten(void)
{
    if (errno == EPIPE) return EXIT_PIPE;
    fprintf(stderr, "hearth: standard output: cannot be written: %s\n", strerror(errno));
    return EXIT_RUNTIME;
}

int print_text(struct buf *out)
{
    if (isatty(STDOUT_FILENO)) {
        struct buf shown = {0};
        sanitise_all(buf_str(out), out->len, &shown);
        buf_free(out);
        *out = shown;
    }
    const bool ok = file_write_fd(STDOUT_FILENO, out->data, out->len);
    const int status = ok ? EXIT_DONE : unwritten();
    buf_free(out);
    return status;
}

/* A terminal that is to give the configuration says nothing by itself. */
static void ask_for_config(const struct options *o)
{
    if (options_config_is_stdin(o) && !o->quiet && isatty(STDIN_FILENO) &&
        isatty(STDERR_FILENO))
        fprintf(stderr,
                "hearth: type the configuration; Ctrl-D on a line of its own ends it\n");
}

bool command_line_finish(struct options *o, struct err *err)
{
    char *ini = paths_in(PATHS_CONFIG, "hearth.ini");
    bool ok = options_parse_env(o, environ, err);
    if (ok) ask_for_config(o);
    ok = ok && options_parse_ini(o, ini, err) && options_check(o, err);
    free(ini);
    for (size_t i = 0; i < o->notes.n; i++)
        fprintf(stderr, "hearth: %s\n", o->notes.items[i]);
    return ok;
}

static int command_help(const struct subcommand *of, const struct option_extra *extra,
                        size_t n_extra)
{
    enum { MARGIN = 2, COLUMN = 29 };
    struct buf out = {0}, text = {0};
    subcommand_put_usage(of, &out);
    buf_putc(&out, '\n');
    for (size_t i = 0; i < n_extra; i++) {
        char letter[8] = "   ";
        if (extra[i].letter) snprintf(letter, sizeof letter, "-%c,", extra[i].letter);
        char name[40];
        snprintf(name, sizeof name, "%s%s --%s%s%s", extra[i].is_part ? "  " : "", letter,
                 extra[i].name, extra[i].arg ? " " : "", extra[i].arg ? extra[i].arg : "");
        buf_printf(&out, "%*s%-*s ", MARGIN, "", COLUMN - MARGIN - 1, name);
        buf_clear(&text);
        buf_puts(&text, extra[i].help);
        if (extra[i].preset) buf_printf(&text, " (%s)", extra[i].preset);
        help_wrap(&out, COLUMN, buf_str(&text));
    }
    if (!of->engine) {
        buf_free(&text);
        return print_text(&out);
    }
    if (n_extra) buf_putc(&out, '\n');
    buf_puts(&out, "And of the chat's options, as hearth --help explains them:\n");
    buf_clear(&text);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->flags & OPTION_ENGINE) buf_printf(&text, " --%s", row->name);
    }
    buf_printf(&out, "%*s", MARGIN, "");
    help_wrap(&out, MARGIN, buf_str(&text) + 1);
    buf_free(&text);
    return print_text(&out);
}

/* What the engine's options say is of no use where no model is opened. */
static bool is_of_use(const struct subcommand *of, const struct options *o, struct err *err)
{
    if (of->engine) return true;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (i != OPT_HELP && o->source[i].from == FROM_FLAG)
            return err_set(err, ERR_USER, "--%s: no model is opened",
                           option_row((enum option_id)i)->name);
    return true;
}

int command_line_read(struct command_line *line, const struct subcommand *of,
                      const struct option_extra *extra, size_t n_extra, int argc, char **argv)
{
    *line = (struct command_line){.options = options_new()};
    subcommand_put_name(of, &line->name);
    const char *command = buf_str(&line->name);
    line->args = (struct option_args){
        .command = command, .extra = extra, .n_extra = n_extra, .engine_only = true};
    struct err err;
    if (!options_parse_args(line->options, argc, argv, &line->args, &err))
        return usage_error(command, "%s", err.msg);
    if (line->options->help) return command_help(of, extra, n_extra);
    if (!is_of_use(of, line->options, &err)) return usage_error(command, "%s", err.msg);
    if (options_config_is_stdin(line->options))
        return usage_error(command,
                           "--config: expected a file, found '-': standard input is what "
                           "subcommands work on");
    if (!command_line_finish(line->options, &err)) return config_error(command, &err);
    return COMMAND_LINE_GO;
}

void command_line_free(struct command_line *line)
{
    free(line->args.rest);
    buf_free(&line->name);
    options_free(line->options);
    *line = (struct command_line){0};
}

struct engine_config command_line_engine(const struct options *o)
{
    return (struct engine_config){
        .model_path = o->model,
        .adapter_path = o->lora,
        .adapter_scale = o->lora_scale,
        .device = o->gpu_layers == 0 ? "cpu" : o->device,
        .gpu_layers = o->gpu_layers > 0 ? (uint32_t)o->gpu_layers : 0,
        .wants_layers = option_given(o, OPT_GPU_LAYERS),
        .allow_inexact = o->allow_inexact,
        .cpu = strcmp(o->cpu, "auto") == 0 ? NULL : o->cpu,
        .kv_type = o->kv_type,
        .n_threads = o->threads,
        .n_ctx = (uint32_t)o->ctx,
        .cache_ram_bytes = o->cache_ram_bytes,
        .cache_disk_bytes = o->cache_disk_bytes,
    };
}
