/* The lines of --json and --jsonl: one object each, its name in "type", ending in a line break.
 * Pure: each appends to a buffer, and somebody else writes it. Strings are valid UTF-8; control
 * characters are escaped, so that a line is one line and harmless on a terminal. */
#ifndef UI_JSON_H
#define UI_JSON_H

#include <stdint.h>

#include "base/buf.h"
#include "chat/face.h"

/* {"type":"start","turn":1,"model":PATH}; id (JSON, "": none) stands in "id". */
void json_start(struct buf *out, unsigned turn, const char *model, const char *id);
/* {"type":"prefill","done":…,"total":…,"cached":…} in tokens */
void json_prefill(struct buf *out, uint64_t done, uint64_t total, uint64_t cached);
/* {"type":"text","text":…} or "reasoning" */
void json_text(struct buf *out, enum face_part part, const char *s, size_t n);

/* How a turn, or the attempt at one, ended. */
struct json_end {
    const struct face_report *report; /* NULL: no turn came about: neither context nor seed */
    const char *error;                /* NULL: none */
    const char *id;                   /* JSON; NULL or "": none */
    const struct buf *reasoning;      /* with the text (--json), NULL without (--jsonl) */
    int exit;                         /* the status that goes with it */
};
void json_end(struct buf *out, const struct json_end *end);

#endif
