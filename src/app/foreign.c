#include "app/foreign.h"

#include <stdbool.h>
#include <string.h>

#include "app/subcommand.h"
#include "base/mem.h"

/* "run NAME [PROMPT] ...": the words go behind the options they stand for. */
static char **as_options(int *argc, char **argv)
{
    static char model[] = "-m", prompt[] = "-p";
    static char **out; /* for as long as the program runs */
    const bool has_prompt = *argc > 3 && argv[3][0] != '-';
    int n = 0;
    out = mem_zalloc((size_t)*argc + 2, sizeof *out);
    out[n++] = argv[0];
    out[n++] = model;
    out[n++] = argv[2];
    if (has_prompt) {
        out[n++] = prompt;
        out[n++] = argv[3];
    }
    for (int i = has_prompt ? 4 : 3; i < *argc; i++)
        out[n++] = argv[i];
    *argc = n;
    return out;
}

/* "help WORD...": the words, then the option. */
static void ask_for_help(int argc, char **argv)
{
    static char help[] = "--help";
    memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = help;
}

char **foreign_words(int *argc, char **argv)
{
    static const struct {
        const char *word;
        char ours[12];
    } same[] = {
        {"list", "models"}, {"ls", "models"}, {"help", "--help"}, {"version", "--version"}};
    static char ours[sizeof same[0].ours];
    if (*argc < 2) return argv;
    if (strcmp(argv[1], "run") == 0 && *argc > 2 && argv[2][0] != '-')
        return as_options(argc, argv);
    if (strcmp(argv[1], "help") == 0 && *argc > 2) ask_for_help(*argc, argv);
    /* It is the chat itself. */
    if (strcmp(argv[1], "run") == 0 && *argc > 2 && subcommand_is_help(argv[2]))
        argv[1] = argv[2];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(argv[1], same[i].word) == 0) {
            memcpy(ours, same[i].ours, sizeof ours);
            argv[1] = ours;
        }
    return argv;
}

const char *foreign_advice(const char *word)
{
    static const struct {
        const char *word, *advice;
    } others[] = {
        {"run", "expected hearth run NAME [PROMPT], before all options; it is hearth -m NAME "
                "[-p PROMPT]"},
        {"chat", "hearth alone is the chat"},
        {"pull", "hearth downloads none; hearth -m FILE opens any GGUF file"},
        {"show", "hearth inspect gguf FILE shows a model"},
        {"serve", "hearth listens on no port; hearth --stdin jsonl --jsonl answers a program"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(word, others[i].word) == 0) return others[i].advice;
    return NULL;
}
