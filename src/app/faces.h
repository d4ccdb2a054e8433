/* Which face a chat gets. Main thread. */
#ifndef APP_FACES_H
#define APP_FACES_H

#include "config/options.h"

/* Runs the chat that o asks for, with its model chosen, in the pipe (a prompt was given, or
 * standard input is no terminal, or --stdin) or at the line prompt. Returns the exit status. */
int faces_run(const struct options *o);

#endif
