/* The subcommands: one table, from which the dispatch, --help, the completion and the check of
 * the manual page are made. Static data and the main thread. */
#ifndef APP_SUBCOMMANDS_H
#define APP_SUBCOMMANDS_H

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
    /* argv[0] is the last word of the name; returns the exit status. */
    int (*run)(int argc, char **argv);
    /* What --help says below the usage; NULL: run has its own options, and explains them. */
    const char *more;
    bool engine; /* takes the chat's options of the engine, too */
    enum subcommand_behind behind;
    bool (*option_at)(size_t i,
                      struct subcommand_option *out); /* false past the last; or NULL */
};

/* Row i of the table, NULL past its end. */
const struct subcommand *subcommand_at(size_t i);

/* Whether the first argument names a subcommand: then *status is what it exits with. */
bool subcommand_run(int argc, char **argv, int *status);

/* "usage: hearth inspect text -m FILE IDS...\n" of that name, which is one of the table's. */
void subcommand_usage(const char *name, struct buf *out);
/* The lines of --help. */
void subcommands_help(struct buf *out);
/* The name of the subcommand closest to word, or NULL. */
const char *subcommand_nearest(const char *word);

#endif
