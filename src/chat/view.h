/* What a face that shows the conversation as a whole looks at, besides what it is told.
 *
 * Everything is borrowed until the next chat_step, chat_say, chat_line or chat_warm, and only
 * to be looked at. Text of messages is as it came: a terminal gets it through the filter. Main
 * thread. */
#ifndef CHAT_VIEW_H
#define CHAT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/conversation.h"

struct chat;

/* The messages of the current path, the oldest first, and how many. */
const struct message *const *chat_path_now(const struct chat *c, size_t *n);
const struct conversation *chat_conversation(const struct chat *c);
/* How many conversations were read from sessions so far: where it grows, all that was handed
 * out of the one before is gone. */
unsigned chat_n_read(const struct chat *c);

enum chat_saved {
    CHAT_SAVED,     /* all of it */
    CHAT_NEW,       /* there is nothing to save yet */
    CHAT_PRIVATE,   /* --private */
    CHAT_READ_ONLY, /* another hearth has the session open */
    CHAT_UNSAVED,   /* it could not be written */
};

/* How things stand. */
struct chat_status {
    char model[64], device[64]; /* printable; "" before a model is there */
    char session[64];           /* "" if it has no name */
    enum chat_saved saved;
    uint32_t n_ctx;
    /* Tokens of the conversation, and those of them that are computed. Not exact: a command has
     * changed the conversation, or the model, since the engine counted them. */
    uint32_t n_used, n_warm;
    bool is_exact;
    uint32_t n_drawn; /* of the reply that is being written */
};
/* Counts anew, once, what a command has changed. */
struct chat_status chat_status(struct chat *c);

#endif
