/* What a conversation needs of whoever shows it: a struct of callbacks.
 *
 * The face (src/ui) owns the struct and what user points to; both outlive the chat. All calls
 * come from within chat_step, chat_say and chat_line, on the thread that called these, so a
 * face needs no lock. Strings are borrowed for the call, valid UTF-8 and NUL-terminated. What
 * is said, and all that reaches a face with is_terminal set, has been through the filter
 * (chat/sanitise.h); a pipe gets the reply's bytes as they are. No callback may be NULL but
 * those that say so. Knows no terminal and no engine.
 */
#ifndef CHAT_FACE_H
#define CHAT_FACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum face_part {
    FACE_REPLY,     /* the answer */
    FACE_REASONING, /* the reasoning before it, markers left out */
};

enum face_phase {
    FACE_LOAD,    /* bytes of the model's file */
    FACE_PREFILL, /* tokens of the prompt; cached of them were there already */
};

enum face_level {
    FACE_INFO,    /* an answer to a command, a hint; hints do not come at all under --quiet */
    FACE_LITERAL, /* the same, of a text that is what it is: it is shown without its lines
                   * broken between words, so that it can be copied */
    FACE_WARNING, /* something happened that the user should know; the turn goes on */
    FACE_ERROR,   /* something failed; the conversation is as before */
};

enum face_stop {
    FACE_STOP_END,       /* "end": the model ended its turn */
    FACE_STOP_LENGTH,    /* "length": --max-tokens */
    FACE_STOP_STRING,    /* "stop": a stop string */
    FACE_STOP_CONTEXT,   /* "context": the context is full */
    FACE_STOP_CANCELLED, /* "cancelled": what was said is kept */
    FACE_STOP_FAILED,    /* "error": no reply, or only its beginning */
};

/* How a turn went; the source of the statistics line, /stats and the JSON end object. */
struct face_report {
    enum face_stop stop;
    bool too_long;    /* FACE_STOP_FAILED since the prompt exceeds the context */
    bool is_cut;      /* with --schema: by --max-tokens or the context */
    const char *text; /* the answer without its reasoning, as it came (not filtered) */
    size_t text_len;
    /* Tokens; read: those of the cached that came from the disk. */
    uint32_t n_cached, n_read, n_prefilled, n_generated, n_drafted, n_accepted;
    uint32_t n_steps; /* of the model for the reply */
    double prefill_ms, decode_ms;
    double plain_ms; /* what a token would have taken without drafts; 0: not known */
    uint32_t n_ctx_used, n_ctx;
    uint64_t reply_seed;
    bool is_inexact; /* computed on a device that has not the CPU's bits */
};

/* Whether tokens per second mean anything: the first token is drawn from what the prompt left,
 * so that one alone takes no time. */
bool face_has_rate(const struct face_report *r);

struct face {
    void *user;
    bool is_terminal;
    bool has_prompt; /* a person talks at it: the conversation is saved without being asked */

    /* A piece of the reply as it comes; n > 0. Pieces hold whole characters. */
    void (*text)(void *user, enum face_part part, const char *s, size_t n);
    /* Work of which the end is known; a call with done == total is the last of its kind. */
    void (*progress)(void *user, enum face_phase phase, uint64_t done, uint64_t total,
                     uint64_t cached);
    /* Text of one or more lines, without a newline at its end. */
    void (*say)(void *user, enum face_level level, const char *text);
    /* Puts a message into the prompt for the user to change and send: after /edit, and when a
     * message was refused or taken back. As a line it may want another slash:
     * chat_wants_slash. A face without a prompt ignores it. */
    void (*offer)(void *user, const char *text, size_t n);
    /* Lets the user change s[0..n) in an editor of their own: *out (empty) gets the text. False
     * and err if that did not come about; ERR_CANCELLED: the program ends. NULL: there is none,
     * /edit offers the text instead. */
    bool (*edit)(void *user, const char *s, size_t n, struct buf *out, struct err *err);
    /* NULL: edit is an editor that the user named. Else nobody named one, and /edit goes there
     * only with a message that this is false of: the prompt would not show all of it. */
    bool (*fits)(void *user, const char *s, size_t n);
    /* Puts text on the clipboard, as it is; false if there is none. NULL: /copy says so. */
    bool (*copy)(void *user, const char *text, size_t n);
    /* A turn begins (after it was accepted, before its first progress or text). */
    void (*turn_begin)(void *user);
    /* The turn that turn_begin announced is over, whatever happened. */
    void (*turn_end)(void *user, const struct face_report *report);
};

/* "end", "length", "stop", "context", "cancelled", "error". Static. */
const char *face_stop_name(enum face_stop stop);

#endif
