/* The models found on this machine, as a person chooses among them. Main thread; reads files,
 * changes none. */
#ifndef APP_MODELS_H
#define APP_MODELS_H

#include <stdbool.h>

/* `hearth models`: prints them. argv[0] is the last word of the name; returns the exit status.
 */
int models_run(int argc, char **argv);

/* Shows them on standard error and asks for one on the terminal. The paths of the chosen one
 * and of its adapter (NULL: none), to free(); NULL if there is none, or none was chosen:
 * *declined if that was the answer. */
char *models_offer(char **adapter, bool *declined);

#endif
