/* What the program exits with; shells add 128 to the number of a signal. Data. */
#ifndef UI_EXIT_STATUS_H
#define UI_EXIT_STATUS_H

#include "base/err.h"

enum exit_status {
    EXIT_DONE = 0,
    EXIT_RUNTIME = 1,
    EXIT_USAGE = 2,
    EXIT_TOO_LONG = 3, /* the prompt exceeds the context, or a reply of --schema its limit */
    EXIT_SESSION = 4,
    EXIT_SIGHUP = 129,
    EXIT_SIGINT = 130,
    EXIT_PIPE = 141,
    EXIT_SIGTERM = 143,
};

/* Of a chat that could not be opened. */
static inline enum exit_status exit_status_of(const struct err *err)
{
    return err->code == ERR_USER      ? EXIT_USAGE
           : err->code == ERR_SESSION ? EXIT_SESSION
                                      : EXIT_RUNTIME;
}

/* Of a model that could not be loaded: whatever is wrong with the file is no wrong usage. */
static inline enum exit_status exit_status_of_load(const struct err *err)
{
    return err->code == ERR_SESSION ? EXIT_SESSION : EXIT_RUNTIME;
}

#endif
