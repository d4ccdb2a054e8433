/* A subcommand: how it is called, and what runs it. The table of all is subcommands.c. Static
 * data, any thread. */
#ifndef APP_SUBCOMMAND_H
#define APP_SUBCOMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* What stands behind the options of a subcommand. */
enum subcommand_behind { BEHIND_NOTHING, BEHIND_FILE, BEHIND_SESSION };

/* An option of a subcommand's own, as the completion wants it. */
struct subcommand_option {
    const char *name;
    const char *arg; /* name of the value: "FILE" is one, "a|b" are words; NULL: a flag */
    const char *help;
};

struct subcommand {
    const char *name; /* "bench", "inspect" */
    const char *what; /* "tokens"; NULL: the name stands alone */
    const char *args; /* what follows, "-m FILE [--special]", "": nothing may; its --words are
                       * its options unless option_at lists them */
    const char *help; /* one line, no full stop */
    /* One of the two; argv[0] is the last word of the name; returns the exit status. The second
     * reads the chat's options and its own (command_line_read), and explains them. */
    int (*run)(int argc, char **argv);
    int (*run_with_options)(const struct subcommand *self, int argc, char **argv);
    const char *more; /* what --help says below the usage; with run */
    bool engine;      /* takes the chat's options of the engine, too */
    enum subcommand_behind behind;
    bool (*option_at)(size_t i,
                      struct subcommand_option *out); /* false past the last; or NULL */
};

/* Whether a word asks for help. */
bool subcommand_is_help(const char *word);
/* "inspect text". */
void subcommand_put_name(const struct subcommand *s, struct buf *out);
/* "usage: hearth inspect text -m FILE IDS...\n". */
void subcommand_put_usage(const struct subcommand *s, struct buf *out);

#endif
