/* The chat: one conversation between a person and a loaded model, without a screen.
 *
 * The face opens it, gives it lines, and turns its crank: chat_step handles what the engine has
 * to say and calls the face back (chat/face.h). The chat owns the engine, the template, the
 * conversation and a copy of the options that /set changes. It passes the engine whole prompts;
 * what of them is computed already is the engine's affair. It never prints, knows no terminal,
 * tensor, page or backend. Owner's thread only, but chat_cancel, which a signal handler may
 * call. */
#ifndef CHAT_CHAT_H
#define CHAT_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct chat;
struct engine_config;
struct face;
struct options;

enum chat_state {
    CHAT_LOADING, /* a model is being opened, at the start or by /model; lines must wait */
    CHAT_IDLE,    /* waits for a line */
    CHAT_BUSY,    /* a turn is running */
    CHAT_CLOSED,  /* /quit */
    CHAT_FAILED,  /* no model could be opened: chat_error says why */
};

/* Starts loading the model of o (borrowed for the call, copied). The face is borrowed, and so
 * are the strings of engine, for as long as the chat lives: /model opens another one so. NULL
 * and err when the engine cannot be started or the template given by --template cannot be used.
 */
struct chat *chat_open(const struct options *o, const struct engine_config *engine,
                       const struct face *face, struct err *err);
/* Cancels what runs, saves what is left and frees everything. Of a reply that is being written
 * what came stays, a message without one stays alone; the face is shown no more of it, and has
 * no turn_end. It may still be told what could not be saved. False: the session does not hold
 * all that was said. NULL is fine. */
bool chat_close(struct chat *c);

/* Handles what has happened, waiting up to timeout_ms (-1: until something does, 0: not at all)
 * for it; returns the state after it. Call it while LOADING or BUSY, again and again; when IDLE
 * it never waits. */
enum chat_state chat_step(struct chat *c, int timeout_ms);
/* A descriptor that is readable when chat_step has something to do. */
int chat_fd(const struct chat *c);
enum chat_state chat_state(const struct chat *c);
const struct err *chat_error(const struct chat *c); /* CHAT_FAILED */
/* Whether somebody who asks to leave may, as by /quit: where the conversation is saved nowhere
 * that is said to the face first, and true comes when they ask again. */
bool chat_may_leave(struct chat *c);
/* Whether the session could be written so far; true if there is none to write. */
bool chat_saves(const struct chat *c);
/* The process was stopped for so long, which is no time of the turn that runs. */
void chat_stood_still(struct chat *c, double ms);
/* Stops loading, prefill or the reply within milliseconds; what was said is kept. */
void chat_cancel(struct chat *c);

/* A message of the user, sent to the model as it is, also when it begins with a slash. IDLE
 * only. Begins a turn: BUSY, and turn_begin was called; a refused one (template error, empty)
 * has been said to the face as FACE_ERROR, leaves the conversation as it was and returns false.
 */
bool chat_say(struct chat *c, const char *text, size_t n);

/* What replies keep to from now on, whatever --schema says: a schema, which is an object of
 * JSON, "json" or "off"; NULL: what --schema says. One that was bound to lately is not compiled
 * again. On failure all is as before: ERR_FORMAT, it cannot be promised. IDLE or LOADING. */
bool chat_bind(struct chat *c, const char *schema, struct err *err);

/* Puts a text before the next message, as /read does, without a word. Alone it can be sent by a
 * message that is blank. Any state. */
void chat_put_before(struct chat *c, const char *text, size_t n);
/* The same for a text that was pasted, and says how long it is; blanks alone are none. */
void chat_attach(struct chat *c, const char *text, size_t n);
/* Only says it, where the face puts the paste before a message later. */
void chat_tell_paste(struct chat *c, const char *text, size_t n);
/* Whether one waits: a message that is blank then sends it alone. */
bool chat_has_paste(const struct chat *c);
/* Drops what was pasted or read before the next message, and says so; false: there was nothing.
 */
bool chat_detach(struct chat *c);

/* The line was emptied, and with it what /edit had put there, if nothing was done since: the
 * conversation is as it was before, which is said. IDLE only. False: there was nothing. */
bool chat_unedit(struct chat *c);

/* What a line of the prompt is, a command or a message: "/name args" is a command, "//x" sends
 * "/x", anything else and anything with a line break is a message. IDLE only. A
 * turn begins as with chat_say; a command that begins none leaves IDLE, CLOSED, or BUSY without
 * turn_begin and turn_end (/verify: step until IDLE). False: an error was said. */
bool chat_line(struct chat *c, const char *line, size_t n);
/* Whether a message is one as a line, too, only with a slash before it: it begins with one. */
bool chat_wants_slash(const char *text, size_t n);

/* A line at which nothing was typed for so long rests: it is worth computing. */
enum { CHAT_REST_MS = 300 };
/* While IDLE and nothing is typed, or the line rests: computes what the next prompt will begin
 * with, the history as the template will render it and the line as far as it is typed, so that
 * a message sent is answered sooner. Only with --warm-typing; shows nothing, yields at once.
 * Call chat_step when chat_fd is readable, in IDLE too. */
void chat_warm(struct chat *c, const char *line, size_t n);

/* Appends what the last word of a command line can be, one per line ("/retry", "temp", "on"),
 * and returns where that word begins; *is_path: it may also be a file's name, which has the
 * blanks that follow. Any state. */
size_t chat_complete(const struct chat *c, const char *line, struct buf *out, bool *is_path);

/* The options as /set has changed them; borrowed until the next command. */
const struct options *chat_options(const struct chat *c);
/* One line about the model for a greeting: name, family, device, context. Until chat_close. */
const char *chat_model_line(const struct chat *c);
/* Messages so far on the current path, of user and model. */
size_t chat_n_messages(const struct chat *c);

#endif
