/* Numbers as people read them: the statistics line and the progress line. Pure, but for
 * status_line, which asks a terminal for its width. */
#ifndef UI_STATUS_H
#define UI_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/face.h"

struct term;

/* Appends tokens per second with about three digits: "0.42", "42.1", "1,204"; "-" if nobody can
 * tell. */
void status_rate(struct buf *out, uint64_t n_tokens, double ms);

/* Appends "12 cached, 23 prefilled, 88 generated at 42.1 tok/s, context 123 of 2,048, seed …",
 * with what was drafted if something was, why it stopped unless the model ended it, and with
 * verbose the times. Broken after commas where a line would be longer than width. */
void status_report(struct buf *out, int width, const struct face_report *report, bool verbose);
/* Appends "[12 cached, …]" and a line break, as wide as t; where t keeps no words whole it is
 * one line. */
void status_line(struct buf *out, const struct term *t, const struct face_report *report,
                 bool verbose);

/* Appends one line of at most `width` columns: what is going on, a bar, the percentage, and
 * what is known of the speed and the time left after elapsed_ms. */
void status_progress(struct buf *out, int width, enum face_phase phase, uint64_t done,
                     uint64_t total, uint64_t cached, double elapsed_ms);

#endif
