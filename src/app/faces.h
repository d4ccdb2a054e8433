/* Which face a chat gets. Main thread. */
#ifndef APP_FACES_H
#define APP_FACES_H

#include <stdbool.h>

#include "config/options.h"

/* Whether the chat that o asks for is one with a person at a prompt. */
bool faces_talk(const struct options *o);

/* Runs the chat that o asks for, with its model chosen, in the pipe (a prompt was given, or
 * standard input is no terminal, or --stdin), at the line prompt or in the full screen.
 * Returns the exit status. */
int faces_run(const struct options *o);

#endif
