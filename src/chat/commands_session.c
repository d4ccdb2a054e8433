/* The commands of sessions: /save, /load, /sessions. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/readable.h"
#include "chat/archive.h"
#include "chat/commands.h"
#include "chat/impl.h"
#include "chat/sessions.h"
#include "config/options.h"

static bool is_private(struct chat *c, const char *command)
{
    if (!c->options->private_mode) return false;
    chat_tell(c, FACE_ERROR, "/%s: not with --private, which keeps no session", command);
    return true;
}

bool command_save(struct chat *c, const char *args)
{
    struct err err;
    if (is_private(c, "save")) return false;
    if (!*args && !c->session.archive) {
        chat_tell(c, FACE_ERROR, "/save: under which name?");
        return false;
    }
    if (*args && !session_rename(c, args, &err)) {
        chat_tell(c, FACE_ERROR, "/save: %s", err.msg);
        return false;
    }
    if (!session_is_stuck(c)) session_save(c, true);
    if (session_is_stuck(c) && *args) {
        chat_tell(c, FACE_ERROR,
                  "/save: it is not saved as %s; nothing of it is lost while hearth runs",
                  args);
        return false;
    }
    if (session_is_stuck(c)) {
        chat_tell(c, FACE_ERROR,
                  "/save: this session %s; /save NAME keeps all of it under another name",
                  archive_is_taken(c->session.archive)
                      ? "was open in another hearth when it was read"
                      : "cannot be written");
        return false;
    }
    bool there = archive_has_file(c->session.archive);
    char *name = sessions_name(archive_path(c->session.archive));
    chat_tell(c, FACE_INFO, there ? "saved as %s" : "it will be saved as %s", name);
    free(name);
    return true;
}

bool command_load(struct chat *c, const char *args)
{
    struct err err;
    if (is_private(c, "load")) return false;
    if (!*args) {
        chat_tell(c, FACE_ERROR, "/load: which session? /sessions lists them");
        return false;
    }
    bool ok = session_load(c, args, &err);
    if (!ok) chat_tell(c, FACE_ERROR, "/load: %s", err.msg);
    return ok;
}

static void put_session(struct chat *c, const struct session_file *file, struct buf *out)
{
    bool here = c->session.archive && strcmp(file->path, archive_path(c->session.archive)) == 0;
    buf_puts(out, here ? "* " : "  ");
    readable_column(out, file->name, 20);
    buf_putc(out, ' ');
    session_put_row(file, false, out);
    buf_putc(out, '\n');
}

bool command_sessions(struct chat *c, const char *args)
{
    (void)args;
    enum { MOST = 30 };
    struct session_list list;
    struct buf out = {0};
    struct err err;
    if (!sessions_list(&list, &err)) {
        chat_tell(c, FACE_ERROR, "/sessions: %s", err.msg);
        return false;
    }
    for (size_t i = 0; i < list.n && i < MOST; i++)
        put_session(c, &list.items[i], &out);
    if (list.n > MOST)
        buf_printf(&out, "and %zu more: hearth sessions lists all", list.n - MOST);
    chat_tell(c, FACE_INFO, "%s", list.n ? buf_str(&out) : "no session has been saved yet");
    session_list_free(&list);
    buf_free(&out);
    return true;
}
