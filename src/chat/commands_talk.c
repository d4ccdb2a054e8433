/* The commands that go back, forth and sideways in the conversation. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/readable.h"
#include "base/utf8.h"
#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "config/options.h"
#include "config/paths.h"
#include "engine/engine.h"

#define MAX_READ_BYTES ((size_t)64 << 20)

/* ---- arguments ---- */

/* A number from 1 on; none means 1. False after saying so. */
static bool read_count(struct chat *c, const char *command, const char *args, size_t *n)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = *args ? strtoull(args, &end, 10) : 1;
    bool ok = !*args || (*args >= '1' && *args <= '9' && *end == '\0' && errno == 0);
    *n = (size_t)value;
    if (!ok)
        chat_tell(c, FACE_ERROR, "/%s: expected a number from 1 on, found '%s'", command, args);
    return ok;
}

/* Whether the conversation has n turns; says so if not. */
static bool has_turns(struct chat *c, const char *command, size_t n)
{
    size_t turns = conversation_n_turns(c->conversation);
    char there[READABLE_BYTES];
    if (n <= turns) return true;
    if (turns == 0)
        chat_tell(c, FACE_ERROR, "/%s: nothing has been said yet", command);
    else
        chat_tell(c, FACE_ERROR, "/%s: there %s only %s", command, turns == 1 ? "is" : "are",
                  readable_count(there, turns, "turn"));
    return false;
}

/* Messages before the nth last one of the user; n is not more than there are. */
static size_t before_turn(struct chat *c, size_t n)
{
    const struct message *const *path = conversation_path(c->conversation);
    size_t i = conversation_n(c->conversation);
    while (n > 0)
        n -= path[--i]->role == ROLE_USER;
    return i;
}

/* "; what was there is branch 3", or nothing. */
static const char *where(char out[64], unsigned number)
{
    out[0] = '\0';
    if (number) snprintf(out, 64, "; what was there is branch %u", number);
    return out;
}

static const char *first_words(const struct message *m, char out[CHAT_QUOTE_BYTES])
{
    return m ? printable(out, CHAT_QUOTE_BYTES, m->text, m->len) : "";
}

/* ---- back ---- */

bool command_clear(struct chat *c, const char *args)
{
    char note[64];
    (void)args;
    unsigned number = conversation_rewind(c->conversation, 0);
    if (c->engine) engine_resumes(c->engine, false);
    chat_detach(c);
    chat_hint(c, "a new conversation%s", where(note, number));
    return true;
}

bool command_undo(struct chat *c, const char *args)
{
    size_t n;
    char note[64], words[CHAT_QUOTE_BYTES];
    if (!read_count(c, "undo", args, &n) || !has_turns(c, "undo", n)) return false;
    size_t at = before_turn(c, n);
    const struct message *m = conversation_at(c->conversation, at);
    first_words(m, words);
    unsigned number = conversation_rewind(c->conversation, at);
    chat_tell(c, FACE_INFO, "back to before \"%s\"%s", words, where(note, number));
    return true;
}

bool command_retry(struct chat *c, const char *args)
{
    if (!*args) return turn_retry(c, NULL);
    uint64_t seed;
    if (!option_seed(args, &seed)) {
        chat_tell(c, FACE_ERROR, "/retry: expected a seed, found '%s'", args);
        return false;
    }
    return turn_retry(c, &seed);
}

static bool offer_again(struct chat *c, size_t at, const struct message *m)
{
    char note[64];
    edit_begin(c);
    unsigned number = conversation_rewind(c->conversation, at);
    chat_hint(c, "change the message and send it%s", where(note, number));
    chat_offer(c, m->text, m->len);
    return true;
}

/* In the user's editor: *text gets what it leaves. False if that is nothing new, which is said
 * unless the program ends; *ok then tells whether it is an error. */
static bool edit_text(struct chat *c, const char *what, const char *s, size_t n,
                      struct buf *text, bool *ok)
{
    struct err err;
    *ok = c->face->edit(c->face->user, s, n, text, &err);
    if (!*ok && err.code == ERR_CANCELLED) {
        *ok = true;
        return false;
    }
    while (n > 0 && s[n - 1] == '\n')
        n--; /* editors end the last line, and that is taken off again */
    if (!*ok)
        chat_tell(c, FACE_ERROR, "/edit: %s", err.msg);
    else if (ascii_is_blank(buf_str(text), text->len))
        chat_tell(c, FACE_INFO, "the %s is empty: the conversation stays as it is", what);
    else if (text->len == n && memcmp(text->data, s, n) == 0)
        chat_tell(c, FACE_INFO, "the %s is as it was; /retry asks for another reply", what);
    else
        return true;
    return false;
}

/* What comes of the editor is sent. */
static bool edit_and_send(struct chat *c, size_t at, const struct message *m)
{
    struct buf text = {0};
    char note[64], words[CHAT_QUOTE_BYTES];
    bool ok;
    if (edit_text(c, "message", m->text, m->len, &text, &ok)) {
        unsigned number = conversation_rewind(c->conversation, at);
        chat_hint(c, "sent: %s%s", printable(words, CHAT_QUOTE_BYTES, text.data, text.len),
                  where(note, number));
        ok = turn_say(c, text.data, text.len);
    } else if (!ok && c->face->fits) {
        chat_hint(c, "VISUAL or EDITOR names another editor");
        ok = offer_again(c, at, m); /* vi may not be there, and nobody chose it */
    }
    buf_free(&text);
    return ok;
}

/* The last reply is changed where it stands; the next message is said after it. */
static bool edit_reply(struct chat *c)
{
    size_t n = conversation_n(c->conversation);
    const struct message *last = n > 0 ? conversation_at(c->conversation, n - 1) : NULL;
    if (!last || last->role != ROLE_REPLY) {
        chat_tell(c, FACE_ERROR, "/edit reply: there is no reply yet");
        return false;
    }
    if (last->reasoning_len > 0 && last->answer_len == 0) {
        chat_tell(c, FACE_ERROR,
                  "/edit reply: it broke off while the model was thinking, before its answer");
        return false;
    }
    if (!c->face->edit || c->face->fits) {
        chat_tell(c, FACE_ERROR, "/edit reply: no editor is named; set VISUAL or EDITOR");
        return false;
    }
    struct buf text = {0};
    char note[64];
    bool ok;
    struct message *old = message_retain(last);
    if (edit_text(c, "reply", old->answer, old->answer_len, &text, &ok)) {
        unsigned number = conversation_rewind(c->conversation, n - 1);
        conversation_add(c->conversation, reply_edited(old, text.data, text.len));
        c->session.told_loss = false;
        chat_hint(c, "the reply is changed, and /continue goes on with it%s",
                  where(note, number));
    }
    message_release(old);
    buf_free(&text);
    return ok;
}

static bool goes_to_editor(const struct chat *c, const struct message *m)
{
    const struct face *face = c->face;
    return face->edit && !(face->fits && face->fits(face->user, m->text, m->len));
}

bool command_edit(struct chat *c, const char *args)
{
    size_t n;
    if (strcmp(args, "reply") == 0) return edit_reply(c);
    if (!read_count(c, "edit", args, &n) || !has_turns(c, "edit", n)) return false;
    size_t at = before_turn(c, n);
    struct message *m = message_retain(conversation_at(c->conversation, at));
    bool ok = goes_to_editor(c, m) ? edit_and_send(c, at, m) : offer_again(c, at, m);
    message_release(m);
    return ok;
}

bool command_continue(struct chat *c, const char *args)
{
    (void)args;
    return turn_continue(c);
}

/* ---- sideways ---- */

bool command_fork(struct chat *c, const char *args)
{
    if (*args && conversation_find(c->conversation, args)) {
        chat_tell(c, FACE_ERROR, "/fork: there is a branch '%s' already", args);
        return false;
    }
    if (*args >= '0' && *args <= '9') {
        chat_tell(c, FACE_ERROR, "/fork: a name does not begin with a digit, found '%s'", args);
        return false;
    }
    const struct branch *b = conversation_fork(c->conversation, *args ? args : NULL);
    chat_tell(c, FACE_INFO, "branch %u%s%s", b->number, b->name ? " " : "",
              b->name ? b->name : "");
    return true;
}

bool command_branches(struct chat *c, const char *args)
{
    (void)args;
    struct buf out = {0};
    const struct branch *current = conversation_current(c->conversation);
    for (size_t i = 0; i < conversation_n_branches(c->conversation); i++) {
        const struct branch *b = conversation_branch(c->conversation, i);
        char words[CHAT_QUOTE_BYTES], messages[READABLE_BYTES];
        buf_printf(&out, "%c %u ", b == current ? '*' : ' ', b->number);
        readable_column(&out, b->name ? b->name : "-", 12);
        buf_printf(&out, " %s  %s\n", readable_count_column(messages, branch_n(b), "message"),
                   first_words(branch_last_user(b), words));
    }
    chat_tell(c, FACE_INFO, "%s", buf_str(&out));
    buf_free(&out);
    return true;
}

bool command_switch(struct chat *c, const char *args)
{
    const struct branch *b = *args ? conversation_find(c->conversation, args) : NULL;
    char words[CHAT_QUOTE_BYTES];
    if (!b) {
        if (*args)
            chat_tell(c, FACE_ERROR, "/switch: no branch '%s'; /branches lists them", args);
        else
            chat_tell(c, FACE_ERROR, "/switch: which branch? /branches lists them");
        return false;
    }
    conversation_switch(c->conversation, b);
    size_t n = branch_n(b);
    char messages[READABLE_BYTES];
    chat_tell(c, FACE_INFO, "branch %u%s%s, %s%s%s%s", b->number, b->name ? " " : "",
              b->name ? b->name : "", readable_count(messages, n, "message"),
              n ? ", last: \"" : "", first_words(branch_last_user(b), words), n ? "\"" : "");
    return true;
}

bool command_trim(struct chat *c, const char *args)
{
    size_t n;
    char note[64];
    if (!read_count(c, "trim", args, &n) || !has_turns(c, "trim", n)) return false;
    size_t turns = conversation_n_turns(c->conversation);
    size_t at = n < turns ? before_turn(c, turns - n) : conversation_n(c->conversation);
    unsigned number = conversation_drop_oldest(c->conversation, at);
    char dropped[READABLE_BYTES];
    chat_tell(c, FACE_INFO, "dropped the oldest %s%s",
              n == 1 ? "turn" : readable_count(dropped, n, "turn"), where(note, number));
    return true;
}

/* ---- what comes before the next message ---- */

bool command_system(struct chat *c, const char *args)
{
    const char *old = conversation_system(c->conversation);
    if (!*args) {
        chat_tell(c, old ? FACE_LITERAL : FACE_INFO, "%s", old ? old : "no system message");
        return true;
    }
    struct err err;
    char *path, *text = options_system(strcmp(args, "-") ? args : "", NULL, false, &path, &err);
    free(path);
    if (!text) {
        chat_tell(c, FACE_ERROR, "/system: %s", err.msg);
        return false;
    }
    conversation_set_system(c->conversation, text);
    context_forget(c);
    c->said.folded = false;
    chat_hint(c, "%s%s", *text ? "the system message is set" : "no system message",
              conversation_n(c->conversation) ? "; the conversation is computed again with it"
                                              : "");
    free(text);
    return true;
}

bool command_read(struct chat *c, const char *args)
{
    if (!*args) {
        chat_tell(c, FACE_ERROR, "/read: which file?");
        return false;
    }
    struct buf text = {0};
    struct err err;
    char *path = paths_found(args);
    bool ok = file_read_regular(path, MAX_READ_BYTES, &text, &err);
    if (ok && text.len == 0) ok = err_set(&err, ERR_USER, "%s is empty", path);
    if (ok && memchr(text.data, '\0', text.len))
        ok = err_set(&err, ERR_USER, "%s is not text: it has NUL bytes", path);
    if (ok) {
        struct buf repaired = {0};
        text.len = ascii_without_ends(text.data, text.len);
        const size_t mark = utf8_mark(text.data, text.len);
        const bool broken = utf8_repair(&repaired, text.data + mark, text.len - mark) > 0;
        struct buf size = {0};
        chat_put_size(c, text.len, buf_str(&repaired), repaired.len, &size);
        chat_tell(c, FACE_INFO, "%s: %s; they go before your next message", path, size.data);
        buf_free(&size);
        if (broken)
            chat_tell(c, FACE_WARNING, "%s is not valid UTF-8: U+FFFD stands for what is not",
                      path);
        buf_append(&c->attached.text, buf_str(&repaired), repaired.len);
        buf_puts(&c->attached.text, "\n\n");
        buf_free(&repaired);
    } else {
        chat_tell(c, FACE_ERROR, "/read: %s", err.msg);
    }
    free(path);
    buf_free(&text);
    return ok;
}
