/* What main and the subcommands share: reading options in the order of their precedence,
 * saying what is wrong, and the exit status.
 *
 * A subcommand lists its own options, calls command_line_read, goes on if that returns
 * COMMAND_LINE_GO and returns its result otherwise. Main thread only; these print. */
#ifndef APP_COMMAND_LINE_H
#define APP_COMMAND_LINE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/options.h"
#include "engine/engine.h"
#include "ui/exit_status.h"

enum { COMMAND_LINE_GO = -1 };

struct subcommand;

struct command_line {
    struct options *options;
    struct option_args args; /* args.rest: what is no option; args.command: of whom, borrowed */
    struct buf name;
};

/* Options of a subcommand that opens a model or none: its own and those marked OPTION_ENGINE,
 * with environment and INI file behind them. Free with command_line_free whatever it returned.
 */
int command_line_read(struct command_line *line, const struct subcommand *of,
                      const struct option_extra *extra, size_t n_extra, int argc, char **argv);
void command_line_free(struct command_line *line);

/* What the options say of the model, its device and its memory, for engine_open; drafts and the
 * folder of pages are the caller's to add. Strings are borrowed from o. */
struct engine_config command_line_engine(const struct options *o);

/* Environment and INI file for options whose flags were read. Prints notes. False and err on
 * what is wrong. */
bool command_line_finish(struct options *o, struct err *err);

/* Prints "hearth: COMMAND: message (try hearth COMMAND --help)"; returns EXIT_USAGE. command
 * may be NULL. */
int usage_error(const char *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for an argument that stands for nothing. */
int unexpected_argument(const char *command, const char *arg);
/* What command_line_finish found: prints "hearth: COMMAND: message", without --help,
 * which explains no file; returns EXIT_USAGE. command may be NULL. */
int config_error(const char *command, const struct err *err);
/* Prints "hearth: message"; returns the status that goes with the code. */
int runtime_error(const struct err *err);
/* Writes out to stdout, to a terminal through the filter (chat/sanitise.h), and frees it:
 * EXIT_DONE, EXIT_PIPE or EXIT_RUNTIME. */
int print_text(struct buf *out);
/* After a write to stdout failed with errno: says so, unless it is that a reader went away;
 * EXIT_PIPE or EXIT_RUNTIME. */
int unwritten(void);

#endif
