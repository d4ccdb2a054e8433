/* What terminfo says of the terminal that TERM names. Main thread. */
#ifndef UI_TERMINFO_H
#define UI_TERMINFO_H

#include <stdbool.h>

/* Whether terminfo knows the terminal and says that it has no colours. fd: its descriptor.
 * Leaves what readline or curses have read of it in place. */
bool terminfo_is_colourless(int fd);

#endif
