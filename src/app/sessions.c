/* hearth sessions: the saved conversations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/kept.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/readable.h"
#include "chat/archive.h"
#include "chat/conversation.h"
#include "chat/export.h"
#include "chat/sanitise.h"
#include "chat/sessions.h"

static int refused(const struct err *err)
{
    fprintf(stderr, "hearth: %s\n", err->msg);
    /* Damaged; a name that none can have, or open in another hearth. */
    const bool is_session = err->code == ERR_FORMAT || err->code == ERR_USER;
    return is_session ? EXIT_SESSION : EXIT_RUNTIME;
}

/* ---- list ---- */

int sessions_run_list(int argc, char **argv)
{
    (void)argc, (void)argv;
    struct session_list list;
    struct buf out = {0};
    struct err err;
    if (!sessions_list(&list, &err)) return runtime_error(&err);
    if (list.n == 0) fputs("hearth: no session has been saved yet\n", stderr);
    for (size_t i = 0; i < list.n; i++) {
        readable_column(&out, list.items[i].name, 20);
        buf_putc(&out, ' ');
        session_put_row(&list.items[i], true, &out);
        buf_putc(&out, '\n');
    }
    session_list_free(&list);
    return print_text(&out);
}

/* ---- show and export ---- */

/* The file of a session that is there, to free(); NULL and err if it is not. */
static char *path_of(const char *name, struct err *err)
{
    char *path = sessions_path(name, err), shown[256];
    if (!path || access(path, F_OK) == 0 || !file_is_missing(errno)) return path;
    err_set(err, ERR_IO, "there is no session %s; hearth sessions lists them",
            printable(shown, sizeof shown, name, strlen(name)));
    free(path);
    return NULL;
}

/* Reads one session; damage is said. */
static struct archive *look(const char *name, struct conversation *c, struct err *err)
{
    struct buf notes = {0};
    char *path = path_of(name, err);
    struct archive *a = path ? archive_look(path, c, &notes, err) : NULL;
    char shown[512];
    if (a && notes.len > 0)
        fprintf(stderr, "hearth: %s: %s", printable(shown, sizeof shown, path, strlen(path)),
                notes.data);
    buf_free(&notes);
    free(path);
    return a;
}

/* Nothing printed is not nothing said: it may be on other branches. */
static void tell_empty(const char *name, const struct conversation *c)
{
    char shown[256];
    if (conversation_n(c) > 0) return;
    fprintf(stderr, "hearth: session %s: no messages%s\n",
            printable(shown, sizeof shown, name, strlen(name)),
            !conversation_is_empty(c)
                ? " on its current branch; in a chat /branches lists where there are"
                : "");
}

/* Prints a session in a format, as it was said or (raw false) fit for a terminal. */
static int print_session(const char *name, enum export_format format, bool raw)
{
    struct conversation *c = conversation_new();
    struct buf text = {0}, out = {0};
    struct err err;
    struct archive *a = look(name, c, &err);
    bool ok = a != NULL;
    if (ok) export_conversation(c, format, &text);
    if (ok) tell_empty(name, c);
    archive_close(a);
    conversation_free(c);
    if (!ok) return refused(&err);
    if (raw) return print_text(&text);
    sanitise_all(buf_str(&text), text.len, &out);
    buf_free(&text);
    return print_text(&out);
}

/* Goes past a "--", behind which a name may begin with a dash. */
static bool skip_dashes(int *argc, char ***argv)
{
    if (*argc < 2 || strcmp((*argv)[1], "--") != 0) return false;
    --*argc;
    ++*argv;
    return true;
}

/* Whether the word looks like an option, which these commands do not have. */
static bool is_option(const char *word)
{
    return word && word[0] == '-';
}

static int expected_name(const char *command, const char *what, const char *found)
{
    return usage_error(command, "expected %s%s", what,
                       is_option(found) ? ", behind -- if it begins with a dash" : "");
}

int sessions_run_show(int argc, char **argv)
{
    const bool any = skip_dashes(&argc, &argv);
    if (argc != 2 || (!any && is_option(argv[1])))
        return expected_name("sessions show", "one NAME", any ? NULL : argv[1]);
    return print_session(argv[1], EXPORT_MARKDOWN, false);
}

int sessions_run_export(int argc, char **argv)
{
    const char *name = NULL;
    enum export_format format = EXPORT_MARKDOWN;
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (!any && strcmp(argv[i], "--") == 0) {
            any = true;
            continue;
        }
        bool json = strcmp(argv[i], "--json") == 0, plain = strcmp(argv[i], "--plain") == 0;
        if (!any && (json || plain) && format == EXPORT_MARKDOWN)
            format = json ? EXPORT_JSON : EXPORT_PLAIN;
        else if ((any || !is_option(argv[i])) && !name)
            name = argv[i];
        else
            return expected_name("sessions export", "[--json | --plain] and one NAME",
                                 any ? NULL : argv[i]);
    }
    if (!name) return expected_name("sessions export", "one NAME", NULL);
    return print_session(name, format, true);
}

/* ---- rm ---- */

int sessions_run_rm(int argc, char **argv)
{
    int status = EXIT_DONE;
    const bool any = skip_dashes(&argc, &argv);
    if (argc < 2) return expected_name("sessions rm", "a NAME", NULL);
    for (int i = 1; i < argc; i++) {
        if (!any && is_option(argv[i])) return expected_name("sessions rm", "a NAME", argv[i]);
    }
    for (int i = 1; i < argc; i++) {
        struct err err;
        char *path = path_of(argv[i], &err);
        if (!path || !session_remove(path, &err)) status = refused(&err);
        free(path);
    }
    return status;
}

/* ---- check ---- */

static bool check_one(const char *name, const char *path, struct buf *out)
{
    struct conversation *c = conversation_new();
    struct buf notes = {0};
    struct err err;
    char messages[READABLE_BYTES];
    struct archive *a = archive_look(path, c, &notes, &err);
    bool sound = a && notes.len == 0;
    if (!a)
        buf_printf(out, "%s: %s\n", name, err.msg);
    else if (sound)
        buf_printf(out, "%s: sound, %s\n", name,
                   readable_count(messages, conversation_n(c), "message"));
    for (const char *s = buf_str(&notes); *s;) {
        size_t n = strcspn(s, "\n");
        buf_printf(out, "%s: %.*s\n", name, (int)n, s);
        s += n + (s[n] == '\n');
    }
    archive_close(a);
    conversation_free(c);
    buf_free(&notes);
    return sound;
}

int sessions_run_check(int argc, char **argv)
{
    struct session_list list = {0};
    struct buf out = {0};
    struct err err;
    bool sound = true;
    int status = EXIT_DONE;
    skip_dashes(&argc, &argv);
    if (argc == 1 && !sessions_list(&list, &err)) return runtime_error(&err);
    for (size_t i = 0; i < list.n; i++)
        sound &= check_one(list.items[i].name, list.items[i].path, &out);
    session_list_free(&list);
    for (int i = 1; i < argc; i++) {
        char *path = path_of(argv[i], &err);
        if (path)
            sound &= check_one(argv[i], path, &out);
        else
            status = refused(&err);
        free(path);
    }
    if (!sound) status = EXIT_SESSION;
    int printed = print_text(&out);
    return printed == EXIT_DONE ? status : printed;
}
