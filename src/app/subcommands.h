/* The subcommands: one table, from which the dispatch, --help, the completion and the check of
 * the manual page are made. Static data and the main thread. */
#ifndef APP_SUBCOMMANDS_H
#define APP_SUBCOMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "app/subcommand.h"
#include "base/buf.h"

/* Row i of the table, NULL past its end. */
const struct subcommand *subcommand_at(size_t i);

/* Whether the first argument names a subcommand: then *status is what it exits with. */
bool subcommand_run(int argc, char **argv, int *status);

/* The lines of --help. */
void subcommands_help(struct buf *out);
/* Appends the name of each, between commas. */
void subcommand_names(struct buf *out);
/* The name of the subcommand closest to word, or NULL. */
const char *subcommand_nearest(const char *word);

#endif
