/* Events from the engine's thread to its owner: a ring with one writer and one reader.
 *
 * Nothing is allocated and no lock is taken per event: a slot is handed over by an eventfd that
 * counts the events waiting, so that the reader can also poll. A full ring makes the writer
 * wait, until the reader has caught up or says that it has gone. Text longer than a slot is
 * split between characters. */
#ifndef ENGINE_MAILBOX_H
#define ENGINE_MAILBOX_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/engine.h"

struct mailbox;

struct mailbox *mailbox_new(struct err *err);
void mailbox_free(struct mailbox *box); /* NULL is fine */

/* The writer's side. Copies event->text; what event->reply points to must stay. */
void mailbox_post(struct mailbox *box, const struct engine_event *event);

/* The reader's side: the next event, waiting up to timeout_ms (-1: for ever); false if none
 * came. Its text lives until the next call. A signal ends a wait with a timeout. */
bool mailbox_next(struct mailbox *box, int timeout_ms, struct engine_event *event);
/* Readable while events wait. */
int mailbox_fd(const struct mailbox *box);
/* No reader any more: a writer that waits, and any later one, drops its events. */
void mailbox_hang_up(struct mailbox *box);

#endif
