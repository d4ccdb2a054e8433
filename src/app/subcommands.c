#include "app/subcommands.h"

#include <stdio.h>
#include <string.h>

#include "app/bench.h"
#include "app/command_line.h"
#include "app/inspect.h"
#include "app/kept.h"
#include "app/models.h"
#include "base/nearest.h"
#include "base/printable.h"

static const struct subcommand table[] = {
    {"bench", NULL,
     "[-m FILE] [--prompt N] [--gen N] [--turns] [--disk] [--tokenizer] "
     "[--kv-error TEXT] [--table] [--spec] [--json]",
     "how fast a model runs here", bench_run, .engine = true},
    {"inspect", "gguf", "FILE", "the header, keys and tensors of a GGUF file", inspect_gguf,
     .behind = BEHIND_FILE},
    {"inspect", "tokens", "-m FILE [--special] [--jsonl]",
     "the token ids of the text on standard input", inspect_tokens, .engine = true},
    {"inspect", "text", "-m FILE IDS...", "the text of token ids", inspect_text,
     .engine = true},
    {"inspect", "prompt", "(-m FILE | --template FILE) --context FILE.json [--now TIME]",
     "what the chat template makes of its variables", inspect_prompt, .engine = true},
    {"inspect", "dequant", "--type TYPE", "the values of weight blocks on standard input",
     .run = inspect_dequant},
    {"inspect", "logits", "-m FILE --ids IDS [--rows all|last]",
     "the logits after token ids, little-endian f32", inspect_logits, .engine = true},
    {"inspect", "greedy", "-m FILE --ids IDS [-n N]", "the most likely ids after token ids",
     inspect_greedy, .engine = true},
    {"inspect", "plan", "-m FILE [--ids] [--jsonl]",
     "what of the prompts on standard input would be reused", inspect_plan, .engine = true},
    {"inspect", "make", "--shape SHAPE --type TYPE OUT.gguf", "a model of random weights",
     inspect_make, .behind = BEHIND_FILE},
    {"models", NULL, "[--json]", "the models found on this machine", .run = models_run},
    {"sessions", "list", "", "the saved conversations", .run = sessions_run_list},
    {"sessions", "show", "NAME", "a saved conversation, for reading", sessions_run_show,
     .behind = BEHIND_SESSION},
    {"sessions", "export", "[--json | --plain] NAME",
     "a saved conversation as Markdown, JSON or text", sessions_run_export,
     .behind = BEHIND_SESSION},
    {"sessions", "rm", "NAME...", "remove saved conversations", sessions_run_rm,
     .behind = BEHIND_SESSION},
    {"sessions", "check", "[NAME...]", "say what of saved conversations is damaged",
     sessions_run_check, .behind = BEHIND_SESSION},
    {"cache", "list", "", "what is kept of computed tokens, by model", .run = cache_run_list},
    {"cache", "clear", "", "remove all of it", .run = cache_run_clear},
    {"cache", "check", "", "remove what of it is damaged", .run = cache_run_check},
};

enum { N_SUBCOMMANDS = sizeof table / sizeof *table };

const struct subcommand *subcommand_at(size_t i)
{
    return i < N_SUBCOMMANDS ? &table[i] : NULL;
}

static int run(const struct subcommand *s, int argc, char **argv)
{
    if (s->run) return s->run(argc, argv);
    return usage_error(NULL, "hearth %s%s%s is not built yet", s->name, s->what ? " " : "",
                       s->what ? s->what : "");
}

/* "inspect" without a word it knows. */
static int unknown_what(const char *name, const char *what)
{
    struct buf known = {0};
    for (size_t i = 0; i < N_SUBCOMMANDS; i++)
        if (table[i].run && table[i].what && strcmp(table[i].name, name) == 0)
            buf_printf(&known, "%s%s", known.len ? ", " : "", table[i].what);
    char shown[80];
    int status =
        what ? usage_error(name, "unknown word '%s', expected one of: %s",
                           printable(shown, sizeof shown, what, strlen(what)), buf_str(&known))
             : usage_error(name, "expected one of: %s", buf_str(&known));
    buf_free(&known);
    return status;
}

/* What the words behind a name do, and how each is used. */
static void name_help(const char *name, struct buf *out)
{
    buf_printf(out, "usage: hearth %s WORD ...\n\n", name);
    for (size_t i = 0; i < N_SUBCOMMANDS; i++) {
        const struct subcommand *s = &table[i];
        if (!s->run || strcmp(s->name, name) != 0) continue;
        buf_printf(out, "  %s%s%s\n      %s\n", s->what, *s->args ? " " : "", s->args, s->help);
    }
    buf_printf(out, "\nhearth %s WORD --help says more.\n", name);
}

bool subcommand_run(int argc, char **argv, int *status)
{
    bool named = false;
    for (size_t i = 0; argc > 1 && i < N_SUBCOMMANDS; i++) {
        const struct subcommand *s = &table[i];
        if (strcmp(argv[1], s->name) != 0) continue;
        named = true;
        int skip = s->what ? 2 : 1;
        if (s->what && argc == 2 && strcmp(s->what, "list") == 0)
            skip = 1; /* may be left out */
        else if (s->what && (argc < 3 || strcmp(argv[2], s->what) != 0))
            continue;
        *status = run(s, argc - skip, argv + skip);
        return true;
    }
    if (!named) return false;
    const char *what = argc > 2 ? argv[2] : NULL;
    if (what && (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0)) {
        struct buf out = {0};
        name_help(argv[1], &out);
        *status = print_text(&out);
        return true;
    }
    *status = unknown_what(argv[1], what);
    return true;
}

void subcommands_help(struct buf *out)
{
    buf_puts(out, "Subcommands:\n");
    struct buf missing = {0};
    size_t at = 0; /* column behind the last name that is missing */
    for (size_t i = 0; i < N_SUBCOMMANDS; i++) {
        const struct subcommand *s = &table[i];
        char name[32];
        snprintf(name, sizeof name, "%s%s%s", s->name, s->what ? " " : "",
                 s->what ? s->what : "");
        if (s->run) {
            buf_printf(out, "  %-25s%s\n", name, s->help);
            continue;
        }
        if (missing.len) buf_puts(&missing, at + strlen(name) > 76 ? ",\n    " : ", ");
        at = missing.len && at + strlen(name) <= 76 ? at + strlen(name) + 2 : 20 + strlen(name);
        buf_puts(&missing, name);
    }
    if (missing.len) buf_printf(out, "  not built yet: %s\n", buf_str(&missing));
    buf_free(&missing);
}

const char *subcommand_nearest(const char *word)
{
    struct nearest nearest;
    nearest_begin(&nearest, word);
    for (size_t i = 0; i < N_SUBCOMMANDS; i++)
        nearest_offer(&nearest, table[i].name);
    return nearest.best;
}
