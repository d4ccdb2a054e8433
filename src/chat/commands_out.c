/* The commands that take something out of the conversation: to the clipboard, to a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/export.h"
#include "chat/impl.h"

static const struct message *last_reply(struct chat *c)
{
    for (size_t i = conversation_n(c->conversation); i > 0; i--) {
        const struct message *m = conversation_at(c->conversation, i - 1);
        if (m->role == ROLE_REPLY) return m;
    }
    return NULL;
}

/* The end of the line at s, its line break included. */
static const char *next_line(const char *s, const char *end)
{
    const char *nl = memchr(s, '\n', (size_t)(end - s));
    return nl ? nl + 1 : end;
}

/* How many backticks or tildes the line at s begins with, after up to three spaces; 0 if fewer
 * than three. */
static size_t fence(const char *s, const char *end, char *mark)
{
    size_t n = 0;
    for (int i = 0; i < 3 && s < end && *s == ' '; i++)
        s++;
    if (s == end || (*s != '`' && *s != '~')) return 0;
    for (*mark = *s; s < end && *s == *mark; s++)
        n++;
    return n >= 3 ? n : 0;
}

/* The inside of the last code block of a Markdown text; one that is still open counts. */
static bool last_code(const char *text, size_t n, const char **code, size_t *n_code)
{
    const char *end = text + n, *begin = NULL;
    size_t n_open = 0;
    bool found = false;
    char open = 0, mark = 0;
    for (const char *s = text; s < end; s = next_line(s, end)) {
        size_t n_mark = fence(s, end, &mark);
        if (n_open == 0 && n_mark > 0) {
            n_open = n_mark;
            open = mark;
            begin = next_line(s, end);
        } else if (n_open > 0 && mark == open && n_mark >= n_open) {
            *code = begin;
            *n_code = (size_t)(s - begin);
            found = true;
            n_open = 0;
        }
    }
    if (n_open == 0) return found;
    *code = begin;
    *n_code = (size_t)(end - begin);
    return true;
}

bool command_copy(struct chat *c, const char *args)
{
    const struct message *m = last_reply(c);
    bool want_code = strcmp(args, "code") == 0;
    if (*args && !want_code) {
        chat_tell(c, FACE_ERROR, "/copy: expected nothing or code, found '%s'", args);
        return false;
    }
    const char *text = m ? m->answer : "";
    size_t n = m ? m->answer_len : 0;
    if (!m) {
        chat_tell(c, FACE_ERROR, "/copy: there is no reply yet");
        return false;
    }
    if (want_code && !last_code(m->answer, m->answer_len, &text, &n)) {
        chat_tell(c, FACE_ERROR, "/copy: the last reply has no code block");
        return false;
    }
    if (!c->face->copy || !c->face->copy(c->face->user, text, n)) {
        chat_tell(c, FACE_ERROR, "/copy: there is no clipboard here; /export writes a file");
        return false;
    }
    chat_hint(c, "copied %zu bytes", n);
    return true;
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
    char *path = chat_path(args);
    enum export_format format = export_format_of(path);
    export_conversation(c->conversation, format, &text);
    bool ok = write_new(path, &text, &err);
    if (ok)
        chat_tell(c, FACE_INFO, "%s: %zu messages as %s, %zu bytes", path,
                  conversation_n(c->conversation), export_format_name(format), text.len);
    else
        chat_tell(c, FACE_ERROR, "/export: %s", err.msg);
    free(path);
    buf_free(&text);
    return ok;
}
