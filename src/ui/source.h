/* Where the turns of a script come from: standard input, which --prompts - names too, or
 * --prompts FILE, one per line or one per JSON object.
 *
 * A JSON line is {"prompt": TEXT}, with "id" (a text or a whole number, given back in the
 * events of the turn), "new": true (begin a new conversation before it) and "schema" (an
 * object, "json" or "off": what --schema would say, for the one reply) where wanted. The owner
 * embeds it. Main thread; only source_open and source_read do I/O. */
#ifndef UI_SOURCE_H
#define UI_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct options;

enum source_form { SOURCE_TEXT, SOURCE_LINES, SOURCE_JSONL };

struct source {
    enum source_form form;
    const char *name; /* for messages, borrowed */
    int fd;           /* -1: nothing is read */
    bool at_end;
    bool is_closed; /* standard input, wanted and not open for reading */
    struct buf raw; /* as it came; of lines, at is the next */
    size_t at;
    size_t n_lines; /* taken so far */
};

/* What a line asks. */
struct source_turn {
    struct buf text;
    struct buf id;     /* as JSON; empty: none */
    struct buf schema; /* JSON in one line of ASCII, json or off; empty: as --schema says */
    bool is_new;
};

/* As the options say. wants_stdin: standard input is read if no file is; where it is not open,
 * that is an error if the options name it, else it is as good as empty. */
bool source_open(struct source *s, const struct options *o, bool wants_stdin, struct err *err);
void source_close(struct source *s);

/* Reads some more; false and err if that failed or it is longer than any context. */
bool source_read(struct source *s, struct err *err);

enum source_got { SOURCE_NONE, SOURCE_TURN, SOURCE_WRONG };
/* The next turn of lines; NONE: none is complete, or at_end and over. Text is as it came, maybe
 * no UTF-8. WRONG: err names the line. */
enum source_got source_next(struct source *s, struct source_turn *turn, struct err *err);

/* Puts the line of the last turn before what is wrong with it; always false. */
bool source_blame(const struct source *s, struct err *err);

/* What one line of JSON asks: turn (empty) is filled. Pure. */
bool source_parse(const char *line, size_t n, struct source_turn *turn, struct err *err);
void source_turn_clear(struct source_turn *turn);
void source_turn_free(struct source_turn *turn);

#endif
