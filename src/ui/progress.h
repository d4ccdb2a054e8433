/* The progress line on a terminal: drawn once something has taken half a second, redrawn a few
 * times a second, gone without a trace afterwards. The owner embeds it. Main thread. */
#ifndef UI_PROGRESS_H
#define UI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "chat/face.h"
#include "ui/term.h"

struct progress {
    struct term term;    /* where it is drawn; nothing is unless term.redraw */
    bool running, drawn; /* {0}: nothing is going on */
    enum face_phase phase;
    double began_ms, drawn_ms;
    uint64_t done, total, cached;
};

void progress_update(struct progress *p, enum face_phase phase, uint64_t done, uint64_t total,
                     uint64_t cached);
/* Milliseconds until progress_tick has something to draw; -1: nothing waits for it. */
int progress_due_ms(const struct progress *p);
/* Draws what is due by now: the first piece of work may take long. */
void progress_tick(struct progress *p);
/* Erases what is drawn, before anything else is written. */
void progress_clear(struct progress *p);
/* What was going on is over. */
void progress_end(struct progress *p);

#endif
