/* The bash completion, made from the tables of options and subcommands. Pure. */
#ifndef APP_COMPLETION_H
#define APP_COMPLETION_H

#include "base/buf.h"

/* Appends a script that defines and registers the completion of `hearth`. */
void completion_bash(struct buf *out);

#endif
