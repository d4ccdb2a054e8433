/* The models found on this machine, as a person chooses among them. Main thread; reads files,
 * changes none. */
#ifndef APP_MODELS_H
#define APP_MODELS_H

#include <stdbool.h>

#include "chat/discover.h"

/* `hearth models`: prints them. argv[0] is the last word of the name; returns the exit status.
 */
int models_run(int argc, char **argv);

/* Shows them on standard error and asks for one on the terminal. The chosen one into *out, to
 * free with found_model_free; false if there is none, or none was chosen: *declined if that was
 * the answer. */
bool models_offer(struct found_model *out, bool *declined);

#endif
