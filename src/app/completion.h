/* The completion of bash, zsh and fish, made from the tables of options and subcommands. Pure.
 */
#ifndef APP_COMPLETION_H
#define APP_COMPLETION_H

#include "base/buf.h"

/* Each appends a script that defines and registers the completion of `hearth`. */
void completion_bash(struct buf *out);
void completion_zsh(struct buf *out);
void completion_fish(struct buf *out);

#endif
