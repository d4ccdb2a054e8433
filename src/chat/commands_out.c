/* The commands that take something out of the conversation: to the clipboard, to a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/readable.h"
#include "chat/code_block.h"
#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/export.h"
#include "chat/impl.h"
#include "config/paths.h"

static const struct message *last_reply(struct chat *c)
{
    for (size_t i = conversation_n(c->conversation); i > 0; i--) {
        const struct message *m = conversation_at(c->conversation, i - 1);
        if (m->role == ROLE_REPLY) return m;
    }
    return NULL;
}

/* The whole reply, or its last code block. */
static bool put_copy(const struct message *m, bool only_code, struct buf *out)
{
    if (only_code) return code_block_last(m->answer, m->answer_len, out);
    buf_append(out, m->answer, m->answer_len);
    return true;
}

bool command_copy(struct chat *c, const char *args)
{
    const struct message *m = last_reply(c);
    bool want_code = strcmp(args, "code") == 0;
    struct buf text = {0};
    bool ok = false;
    if (*args && !want_code)
        chat_tell(c, FACE_ERROR, "/copy: expected nothing or code, found '%s'", args);
    else if (!m)
        chat_tell(c, FACE_ERROR, "/copy: there is no reply yet");
    else if (!put_copy(m, want_code, &text))
        chat_tell(c, FACE_ERROR, "/copy: the last reply has no code block");
    else if (!c->face->copy || !c->face->copy(c->face->user, buf_str(&text), text.len))
        chat_tell(c, FACE_ERROR, "/copy: there is no clipboard here; /export writes a file");
    else
        ok = true;
    if (ok) chat_hint(c, "copied %zu bytes", text.len);
    buf_free(&text);
    return ok;
}

/* ---- /export ---- */

/* A new file that only its owner may read. */
static bool write_new(const char *path, const struct buf *text, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return err_set(err, ERR_USER, "%s: is there already; give it another name", path);
    if (fd < 0) return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    bool ok = file_write_fd(fd, text->data, text->len);
    int failed = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        failed = errno;
    }
    if (ok) return true;
    unlink(path);
    return err_set(err, ERR_IO, "%s: writing failed: %s", path, strerror(failed));
}

bool command_export(struct chat *c, const char *args)
{
    if (!*args || conversation_n(c->conversation) == 0) {
        chat_tell(c, FACE_ERROR,
                  *args ? "/export: nothing has been said yet" : "/export: to which file?");
        return false;
    }
    struct buf text = {0};
    struct err err;
    char *path = paths_to_make(args);
    enum export_format format = export_format_of(path);
    export_conversation(c->conversation, format, &text);
    bool ok = write_new(path, &text, &err);
    char messages[READABLE_BYTES];
    if (ok)
        chat_tell(c, FACE_INFO, "%s: %s as %s, %zu bytes", path,
                  readable_count(messages, conversation_n(c->conversation), "message"),
                  export_format_name(format), text.len);
    else
        chat_tell(c, FACE_ERROR, "/export: %s", err.msg);
    free(path);
    buf_free(&text);
    return ok;
}
