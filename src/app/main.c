/* hearth: arguments, then what they ask for: an answer about itself, a subcommand, or a chat in
 * the face that fits. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/completion.h"
#include "app/faces.h"
#include "app/foreign.h"
#include "app/model_choice.h"
#include "app/subcommands.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/readable.h"
#include "base/resources.h"
#include "chat/sessions.h"
#include "cpu/cpu.h"
#include "ui/exit_status.h"
#include "ui/given.h"
#include "ui/pipe.h"
#include "ui/signals.h"
#include "vulkan/backend.h"

static int print_help(void)
{
    struct buf out = {0};
    buf_puts(&out, "hearth - chat with a local language model in the terminal\n\n"
                   "usage: hearth [-m MODEL.gguf] [options]\n"
                   "       hearth [-i] -p PROMPT [-f FILE]...   or   command | hearth -p "
                   "PROMPT\n"
                   "       hearth SUBCOMMAND [arguments]\n\n");
    options_help(&out);
    buf_puts(&out, "\n");
    subcommands_help(&out);
    buf_puts(&out,
             "\nhearth SUBCOMMAND --help says more. What stands above \"Configuration and\n"
             "information\" can also be given in ~/.config/hearth/hearth.ini or in the\n"
             "environment (--top-k: HEARTH_TOP_K), and so can --profile. In the chat, /help\n"
             "lists the commands. See also hearth(1) and hearth.ini(5).\n");
    return print_text(&out);
}

static int print_version(void)
{
    struct buf out = {0};
    buf_printf(&out, "hearth %s\n", HEARTH_VERSION);
    return print_text(&out);
}

static int print_devices(void)
{
    struct buf out = {0};
    char cores[READABLE_BYTES];
    buf_printf(&out, "cpu  %s, %s\n", cpu_isa_name(cpu_best()),
               readable_count(cores, (uint64_t)resources_cores(NULL), "core"));
    enum { MOST = 64 };
    struct vulkan_info all[MOST];
    size_t n = vulkan_list(all, MOST);
    for (size_t i = 0; i < n && i < MOST; i++) {
        char size[READABLE_BYTES];
        buf_printf(&out, "vulkan:%zu  %s, %s, %s\n", i, all[i].name,
                   vulkan_kind_name(all[i].kind), readable_size(size, all[i].memory_bytes));
    }
    return print_text(&out);
}

/* Help was asked for, of a word that nothing knows. */
static int no_subcommand(const char *shown)
{
    struct buf names = {0};
    subcommand_names(&names);
    const int status = usage_error(NULL, "%s: no such subcommand, expected one of: %s", shown,
                                   buf_str(&names));
    buf_free(&names);
    return status;
}

/* An argument that is no option: say what it may have been meant to be. */
static int unexpected(const char *arg, bool wants_help)
{
    char shown[80];
    printable(shown, sizeof shown, arg, strlen(arg));
    size_t n = strlen(arg);
    if (n > 5 && strcmp(arg + n - 5, ".gguf") == 0)
        return usage_error(NULL, "%s: unexpected argument; a model is named with -m", shown);
    for (size_t i = 0; subcommand_at(i); i++)
        if (strcmp(subcommand_at(i)->name, arg) == 0)
            return usage_error(NULL, "%s: a subcommand comes before all options", shown);
    const char *advice = foreign_advice(arg), *nearest = subcommand_nearest(arg);
    if (advice) return usage_error(NULL, "%s: %s", shown, advice);
    if (nearest)
        return usage_error(NULL, "%s: unexpected argument, did you mean hearth %s?", shown,
                           nearest);
    if (wants_help) return no_subcommand(shown);
    return usage_error(NULL, "%s: unexpected argument; a prompt is given with -p", shown);
}

/* What asks for an answer instead of a chat and needs no configuration. */
static bool answer_at_once(const struct options *o, int *status)
{
    if (o->help) {
        *status = print_help();
    } else if (o->version) {
        *status = print_version();
    } else if (o->completion) {
        struct buf out = {0};
        if (strcmp(o->completion, "zsh") == 0)
            completion_zsh(&out);
        else if (strcmp(o->completion, "fish") == 0)
            completion_fish(&out);
        else
            completion_bash(&out);
        *status = print_text(&out);
    } else {
        return false;
    }
    return true;
}

/* Whether a session can have the name that was given. */
static bool can_have_name(const struct options *o, struct err *err)
{
    char *path = o->session ? sessions_path(o->session, err) : NULL;
    const bool ok = path || !o->session;
    free(path);
    return ok;
}

/* There is no chat, nor an answer: says why. */
static int refuse(const struct options *o, const struct err *why, int status)
{
    if (o->json || o->jsonl) return pipe_refuse(o, why, status);
    const int failed = runtime_error(why);
    return status == EXIT_RUNTIME ? failed : status;
}

static int run(struct options *o, int argc, char **argv)
{
    struct option_args args = {0};
    struct err err;
    if (!options_parse_args(o, argc, argv, &args, &err))
        return usage_error(NULL, "%s", err.msg);
    int status;
    /* Help of a word that nothing knows, as by "hearth help benhc", is no help. */
    const bool is_more = args.n_rest > 0;
    bool done = !(is_more && (o->help || o->version)) && answer_at_once(o, &status);
    if (!done && is_more) {
        status = o->version && !o->help ? usage_error(NULL, "version: takes nothing after it")
                                        : unexpected(args.rest[0], o->help);
        done = true;
    }
    free(args.rest);
    if (done) return status;

    if (!command_line_finish(o, &err)) return config_error(NULL, &err);
    if (o->print_config) {
        struct buf out = {0};
        options_print_config(o, &out);
        return print_text(&out);
    }
    if (o->list_devices) return print_devices();
    /* Before a word about the model; where there is a file of -o, that model is one of the
     * inputs that it must not be. */
    if (!can_have_name(o, &err) && !o->output) return refuse(o, &err, EXIT_SESSION);
    struct err clash;
    const bool may_ask = faces_talk(o) && isatty(STDIN_FILENO);
    bool leaves = false;
    const bool chosen =
        model_choose(o, may_ask ? &leaves : NULL, &err) && options_files_there(o, &err);
    if (leaves) return EXIT_DONE;
    if (!given_spares_inputs(o, &clash)) return usage_error(NULL, "%s", clash.msg);
    return chosen ? faces_run(o) : refuse(o, &err, EXIT_RUNTIME);
}

int main(int argc, char **argv)
{
    /* Characters only: numbers keep their decimal point everywhere. */
    setlocale(LC_CTYPE, "");
    /* A limit on the size of files (ulimit -f) is an error of the write, as a full disk is. */
    signal(SIGXFSZ, SIG_IGN);
    signals_name_lost_files();
    json_begin();
    int status;
    argv = foreign_words(&argc, argv);
    if (subcommand_run(argc, argv, &status)) return status;
    struct options *o = options_new();
    status = run(o, argc, argv);
    options_free(o);
    return status;
}
