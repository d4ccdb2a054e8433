/* Which model to open: the one named, the one remembered, one that is found and chosen, the
 * bundled guide. Main thread. */
#ifndef APP_MODEL_CHOICE_H
#define APP_MODEL_CHOICE_H

#include <stdbool.h>

#include "base/err.h"
#include "config/options.h"

/* Sets the model of o if none was named, and says so on stderr where it is the guide; then
 * takes over the sampling keys of the model's file. leaves: NULL, or a person is there to
 * choose among the models found on this machine, once, if none is remembered, and *leaves tells
 * that they left instead. A file that cannot be opened is the engine's to report; here one of
 * last time is only said to be that. False if they left, or, and err, if there is no model at
 * all. */
bool model_choose(struct options *o, bool *leaves, struct err *err);

/* For a subcommand that takes no other model than the one that is named: COMMAND_LINE_GO if it
 * is a file or the name of one, or what it is left to the opening to say; else prints what is
 * wrong and returns the status. */
int model_needed(struct options *o, const char *command);

#endif
