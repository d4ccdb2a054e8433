/* The status bar of the full-screen view: one row of what counts now, fitted to its width.
 * Draws on the screen; knows no chat but its figures. Main thread. */
#ifndef UI_BAR_H
#define UI_BAR_H

#include <stdbool.h>
#include <stdint.h>

#include "chat/view.h"

struct bar {
    struct chat_status chat;
    const char *activity; /* what goes on, in the place of the model; "" for nothing */
    const char *hint;     /* at the right edge, where there is room */
    bool needs_hint;      /* other parts yield to it */
    double rate;          /* tokens per second, 0: unknown */
    uint32_t n_drafted, n_accepted; /* of the last reply */
};

void bar_draw(int y, const struct bar *bar);

#endif
