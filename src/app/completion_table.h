/* What can stand on hearth's command line, as the shells' completions want it: one row per
 * option of the chat or of a subcommand, whichever table it comes from. Pure, static data, any
 * thread. */
#ifndef APP_COMPLETION_TABLE_H
#define APP_COMPLETION_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "app/subcommands.h"
#include "base/buf.h"

/* What can stand behind an option. */
enum value_kind {
    VALUE_NONE,
    VALUE_FILE,
    VALUE_MODEL, /* a file, or a name that hearth models lists */
    VALUE_WORDS,
    VALUE_FILE_OR_WORDS,
    VALUE_PROFILE, /* the name of a profile in the user's INI file */
    VALUE_SESSION, /* the name of a saved conversation */
    VALUE_OTHER,   /* a number, a text: nothing to offer */
};

struct completion_option {
    char name[32];
    char letter; /* 0: none */
    enum value_kind kind;
    char words[512]; /* between blanks, of VALUE_WORDS and VALUE_FILE_OR_WORDS; else "" */
    char arg[32];    /* what --help calls the value; "" of VALUE_NONE */
    bool repeats;
    bool is_own;      /* of a subcommand, not of the chat */
    const char *help; /* "" where the usage line is all there is */
};

/* Sets *out to option i of a subcommand, or of the chat if s is NULL; false past the last. An
 * option that --help does not show is not among them. */
bool completion_option_at(const struct subcommand *s, size_t i, struct completion_option *out);

/* Whether row i is the first of its name. */
bool completion_is_first(size_t i);
/* Appends what a name is for: the help of its row, or its words between commas. */
void completion_about(const struct subcommand *s, struct buf *out);

/* Appends the names of the subcommands between blanks; or, of a name, the words behind it. */
void completion_names(const char *name, struct buf *out);

#endif
