#include "app/subcommands.h"

#include <string.h>

#include "app/bench.h"
#include "app/command_line.h"
#include "app/inspect.h"
#include "app/kept.h"
#include "app/models.h"
#include "base/nearest.h"
#include "base/printable.h"

static const struct subcommand table[] = {
    {"bench", NULL, "[-m FILE] [MODE] [OPTION...]", "how fast a model runs here",
     .run_with_options = bench_run, .engine = true, .option_at = bench_option_at},
    {"inspect", "gguf", "FILE", "the header, keys and tensors of a GGUF file", inspect_gguf,
     .more = "Prints header, keys and tensors of a GGUF file.\n", .behind = BEHIND_FILE},
    {"inspect", "families", "", "the families of models that hearth runs", inspect_families,
     .more =
         "A line for each, by the name that a file gives its own (general.architecture).\n"},
    {"inspect", "tokens", "-m FILE [--special] [--jsonl]",
     "the token ids of the text on standard input", .run_with_options = inspect_tokens,
     .engine = true},
    {"inspect", "text", "-m FILE [IDS...]", "the text of token ids",
     .run_with_options = inspect_text, .engine = true},
    {"inspect", "prompt", "(-m FILE | --template FILE) --context FILE.json [--now TIME]",
     "what the chat template makes of its variables", .run_with_options = inspect_prompt,
     .engine = true},
    {"inspect", "dequant", "--type TYPE <BLOCKS >VALUES",
     "the values of weight blocks on standard input", inspect_dequant,
     .more = "Decodes blocks of a weight type to little-endian f32.\n"},
    {"inspect", "logits", "-m FILE --ids IDS [--rows all|last]",
     "the logits after token ids, little-endian f32", .run_with_options = inspect_logits,
     .engine = true},
    {"inspect", "greedy", "-m FILE --ids IDS [-n N]", "the most likely ids after token ids",
     .run_with_options = inspect_greedy, .engine = true},
    {"inspect", "plan", "-m FILE [--ids | --jsonl]",
     "what of the prompts on standard input would be reused", .run_with_options = inspect_plan,
     .engine = true},
    {"inspect", "make", "--shape SHAPE --type TYPE OUT.gguf", "a model of random weights",
     .run_with_options = inspect_make, .behind = BEHIND_FILE},
    {"models", NULL, "[--json]", "the models found on this machine", models_run,
     .more =
         "Lists the models that llama.cpp, Hugging Face, Ollama and LM Studio keep on this\n"
         "machine and that hearth can open. Nothing is changed. Open one with\n"
         "hearth -m PATH or NAME.\n"},
    {"sessions", "list", "", "the saved conversations", sessions_run_list,
     .more = "A line for each saved conversation, the newest first.\n"},
    {"sessions", "show", "NAME", "a saved conversation, for reading", sessions_run_show,
     .more = "Prints a saved conversation for reading.\n", .behind = BEHIND_SESSION},
    {"sessions", "export", "[--json | --plain] NAME",
     "a saved conversation as Markdown, JSON or text", sessions_run_export,
     .more =
         "Prints a saved conversation, every byte as it was said: as Markdown, as one JSON\n"
         "object (with the reasoning), or as plain text.\n",
     .behind = BEHIND_SESSION},
    {"sessions", "rm", "NAME...", "remove saved conversations", sessions_run_rm,
     .more = "Removes saved conversations for good. Where one is not there the others go all\n"
             "the same; exit status 1.\n",
     .behind = BEHIND_SESSION},
    {"sessions", "check", "[NAME...]", "say what of saved conversations is damaged",
     sessions_run_check,
     .more = "Reads saved conversations, all if none is named, and says what is damaged; exit\n"
             "status 4 if anything is, otherwise 1 if one is not there.\n",
     .behind = BEHIND_SESSION},
    {"cache", "list", "", "what is kept of computed tokens, by model", cache_run_list,
     .more = "What is kept on disk of each model: pages of 64 tokens, snapshots, size;\n"
             "and what Vulkan drivers made of the shaders, a file for each device.\n"},
    {"cache", "clear", "", "remove all of it", cache_run_clear,
     .more = "Removes everything that was computed; conversations stay.\n"},
    {"cache", "check", "", "remove what of it is damaged", cache_run_check,
     .more = "Reads everything that is kept and removes what is damaged, which is no error;\n"
             "exit status 1 if something cannot be read.\n"},
};

enum { N_SUBCOMMANDS = sizeof table / sizeof *table };

const struct subcommand *subcommand_at(size_t i)
{
    return i < N_SUBCOMMANDS ? &table[i] : NULL;
}

static int run(const struct subcommand *s, int argc, char **argv)
{
    struct buf out = {0};
    if (s->more && argc == 2 && subcommand_is_help(argv[1])) {
        subcommand_put_usage(s, &out);
        buf_puts(&out, s->more);
        return print_text(&out);
    }
    if (s->run_with_options) return s->run_with_options(s, argc, argv);
    if (*s->args || argc == 1) return s->run(argc, argv);
    subcommand_put_name(s, &out);
    int status = usage_error(buf_str(&out), "takes nothing after it");
    buf_free(&out);
    return status;
}

/* "inspect" without a word it knows. */
static int unknown_what(const char *name, const char *what)
{
    struct buf known = {0};
    for (size_t i = 0; i < N_SUBCOMMANDS; i++)
        if (table[i].what && strcmp(table[i].name, name) == 0)
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
        if (strcmp(s->name, name) != 0) continue;
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
    if (what && subcommand_is_help(what)) {
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
    struct buf name = {0};
    for (size_t i = 0; i < N_SUBCOMMANDS; i++) {
        buf_clear(&name);
        subcommand_put_name(&table[i], &name);
        buf_printf(out, "  %-25s%s\n", buf_str(&name), table[i].help);
    }
    buf_free(&name);
}

/* Those of one name stand together. */
void subcommand_names(struct buf *out)
{
    for (size_t i = 0; i < N_SUBCOMMANDS; i++)
        if (i == 0 || strcmp(table[i].name, table[i - 1].name) != 0)
            buf_printf(out, "%s%s", i ? ", " : "", table[i].name);
}

const char *subcommand_nearest(const char *word)
{
    struct nearest nearest;
    nearest_begin(&nearest, word);
    for (size_t i = 0; i < N_SUBCOMMANDS; i++)
        nearest_offer(&nearest, table[i].name);
    return nearest.best;
}
