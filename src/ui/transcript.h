/* The conversation as the full-screen view shows it: messages, figures and notes in the
 * scrollback, kept in step with the tree that commands change.
 *
 * Messages that are no longer on the current path go, with what was noted between them; those
 * that came stand before the notes of the command that brought them. Owns the scrollback. Main
 * thread; no screen. */
#ifndef UI_TRANSCRIPT_H
#define UI_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "chat/face.h"

struct chat;
struct scrollback;
struct transcript;

struct transcript *transcript_new(void);                        /* free with transcript_free */
void transcript_free(struct transcript *t);                     /* NULL is fine */
struct scrollback *transcript_scrollback(struct transcript *t); /* to be looked at and folded */

/* A line is about to be handled. What is noted from now on belongs to it; a command is shown as
 * it was typed, filtered, a message (NULL) shows itself. */
void transcript_begin(struct transcript *t, const char *command);
/* Shows the messages that c has now. With reasoning, that of earlier replies, too. */
void transcript_sync(struct transcript *t, const struct chat *c, bool reasoning);
/* A note, filtered. */
void transcript_say(struct transcript *t, enum face_level level, const char *text);

/* A turn: its message is there; pieces of the reply, filtered; its end, with the figures (""
 * for none). */
void transcript_turn(struct transcript *t, const struct chat *c, bool reasoning);
void transcript_text(struct transcript *t, enum face_part part, const char *s, size_t n);
void transcript_end(struct transcript *t, const struct chat *c, bool reasoning,
                    const char *figures);

#endif
