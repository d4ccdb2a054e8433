/* The models found on this machine, as a person chooses among them. Main thread; reads files,
 * changes none. */
#ifndef APP_MODELS_H
#define APP_MODELS_H

#include <stdbool.h>

#include "chat/discover.h"

/* `hearth models`: prints them. argv[0] is the last word of the name; returns the exit status.
 */
int models_run(int argc, char **argv);

enum models_answer {
    MODELS_NONE, /* there is none to offer */
    MODELS_CHOSEN,
    MODELS_DECLINED, /* Return alone */
    MODELS_LEFT,     /* Ctrl-D, or the terminal is gone */
};

/* Shows them on standard error and asks for one on the terminal, until there is an answer. The
 * chosen one into *out, to free with found_model_free. */
enum models_answer models_offer(struct found_model *out);

#endif
