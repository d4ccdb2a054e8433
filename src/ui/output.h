/* Where replies are written: standard output or a file. Keeps the line breaks at a reply's end
 * back, so that each reply ends in exactly one, and remembers the first failure.
 *
 * The owner embeds it. Writes wait in a poll, so that SIGINT, SIGTERM and SIGHUP end them also
 * when nobody reads. Main thread. */
#ifndef UI_OUTPUT_H
#define UI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "ui/flow.h"

struct output {
    int fd;
    const char *name; /* for messages: "standard output", or the file, borrowed */
    int failed;       /* errno of what failed, 0; nothing is written after that */
    bool is_told;     /* of a copy: the user knows that it failed */
    bool is_full;     /* a file that still has what was in it before */
    char *made;       /* the path of one that was not there; NULL once it is to stay */
    bool began;       /* something of this reply was written or held back */
    size_t held;      /* line breaks not written yet */
    bool flows;       /* a terminal's: through flow */
    struct flow flow;
    struct buf scratch;
};

/* Standard output if path is NULL; else the file, made if it is not there. What is in it goes
 * with the first thing that is written: until then all may come to nothing, and output_close
 * removes the file that was made. On an error out takes nothing, and need not be closed. */
bool output_open(struct output *out, const char *path, struct err *err);
/* What was in the file goes now, and it stays, as nothing may come. False if that failed. */
bool output_empty(struct output *out);
/* False if the file did not take what it was given (out->failed). */
bool output_close(struct output *out);
/* Appends what a user is told of what failed: "FILE: cannot be written: No space left". */
void output_explain(const struct output *out, struct buf *text);

/* A reply begins, for a terminal with these colours and columns (ui/flow.h), or as it is with
 * neither. */
void output_begin(struct output *out, bool colours, int columns);
/* The terminal has another width now. */
void output_resize(struct output *out, int columns);
/* It goes on behind s[0..n), filtered, which was shown before. After output_begin. */
void output_resume(struct output *out, const char *s, size_t n);
/* A piece of it; n may be 0. False once a write failed or was interrupted. */
bool output_text(struct output *out, const char *s, size_t n);
/* Something else is shown before the reply goes on: ends the line, if anything was shown of the
 * reply since it began or paused. */
bool output_pause(struct output *out);
/* The reply is over: ends its line, in the same way. */
bool output_end(struct output *out);
/* The same of a file that gets a copy of what a chat shows, and may fail while the chat goes
 * on: false the first time after it did, and warning gets what the user is told of it. */
bool output_end_copy(struct output *out, struct buf *warning);
/* Writes s[0..n) as it is, holding nothing back: labels, colours, JSON. */
bool output_raw(struct output *out, const char *s, size_t n);

/* All of s[0..n) to fd, in its character set if it is a terminal, waiting as above; false and
 * errno (EINTR: a signal ended it). */
bool output_write(int fd, const char *s, size_t n);

#endif
