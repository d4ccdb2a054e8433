#include "ui/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "config/paths.h"
#include "ui/signals.h"
#include "ui/tty.h"

enum { TEXT_MAX_BYTES = 16 << 20 };

/* NULL if there is none. */
static const char *named(void)
{
    const char *name = getenv("VISUAL");
    if (!name || !*name) name = getenv("EDITOR");
    return name && *name ? name : NULL;
}

bool editor_is_named(void)
{
    return named() != NULL;
}

static const char *editor_name(void)
{
    const char *name = named();
    return name ? name : "vi";
}

static void be_editor(const char *path)
{
    signals_for_child();
    /* Through the shell, since the variable may hold arguments. A shell that has got Ctrl-C,
     * too, may die of it when the editor is done. */
    struct buf command = {0};
    buf_printf(&command, "trap : INT QUIT; %s \"$1\"", editor_name());
    execl("/bin/sh", "sh", "-c", command.data, "sh", path, (char *)NULL);
    _exit(127);
}

/* Waits for the editor; false if it did not end well. */
static bool wait_for(pid_t child)
{
    int status = 0;
    for (;;) {
        pid_t who = waitpid(child, &status, WUNTRACED);
        if (signals_leaving()) kill(child, SIGTERM);
        if (who < 0 && errno != EINTR) return false;
        if (who != child) continue;
        if (!WIFSTOPPED(status)) break;
        /* The shell wakes the whole group, so the editor goes on with us. */
        signals_stop_here();
        kill(child, SIGCONT);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool run_editor(const char *path, struct err *err)
{
    pid_t child = fork();
    if (child == 0) be_editor(path);
    if (child < 0) return err_set(err, ERR_IO, "the editor: %s", strerror(errno));
    char shown[128];
    const char *name = editor_name();
    if (wait_for(child)) return true;
    if (signals_leaving()) return err_set(err, ERR_CANCELLED, "the editor was ended, too");
    return err_set(err, ERR_USER, "the editor %s failed; the text is as before",
                   printable(shown, sizeof shown, name, strlen(name)));
}

static bool edit_file(const char *path, struct err *err)
{
    /* Ctrl-C in the editor is the editor's, and one that nobody here takes would end the
     * program at the next; so is Ctrl-\. */
    struct sigaction none = {.sa_handler = SIG_IGN}, on_interrupt, on_quit;
    sigaction(SIGINT, &none, &on_interrupt);
    sigaction(SIGQUIT, &none, &on_quit);
    signals_take(SIGINT); /* one that came just before */
    const bool ok = run_editor(path, err);
    /* An editor that died has left its own modes behind. */
    tty_restore();
    sigaction(SIGINT, &on_interrupt, NULL);
    sigaction(SIGQUIT, &on_quit, NULL);
    return ok;
}

/* As other input is read; a NUL, which ends no line and no message, is no UTF-8 either. */
static bool read_back(const char *path, struct buf *out, const char **warning, struct err *err)
{
    struct buf bytes = {0};
    const bool ok = file_read(path, TEXT_MAX_BYTES, &bytes, err);
    for (size_t i = 0; ok && i < bytes.len; i++)
        if (bytes.data[i] == '\0') bytes.data[i] = '\xff';
    const size_t mark = ok ? utf8_mark(buf_str(&bytes), bytes.len) : 0;
    if (ok && utf8_repair(out, buf_str(&bytes) + mark, bytes.len - mark) > 0)
        *warning = "the edited text is not valid UTF-8: U+FFFD stands for what is not";
    if (out->len > 0) out->data[out->len = ascii_without_ends(out->data, out->len)] = '\0';
    buf_free(&bytes);
    return ok;
}

bool editor_run(const char *s, size_t n, struct buf *out, const char **warning, struct err *err)
{
    *warning = NULL;
    struct buf path = {0};
    buf_printf(&path, "%s/hearth-XXXXXX.md", paths_temporary());
    int fd = mkostemps(path.data, 3, O_CLOEXEC);
    bool ok = fd >= 0 || err_set(err, ERR_IO, "%s: %s", path.data, strerror(errno));
    if (ok) {
        ok = file_write_fd(fd, s, n) && file_write_fd(fd, "\n", n > 0);
        ok = close(fd) == 0 && ok;
        if (!ok) err_set(err, ERR_IO, "%s: cannot be written: %s", path.data, strerror(errno));
        const bool edited = ok && edit_file(path.data, err);
        ok = edited && read_back(path.data, out, warning, err);
        /* What cannot be taken was written all the same. */
        if (ok || !edited || access(path.data, F_OK) != 0)
            unlink(path.data);
        else
            err_write_prefix(err, "the text stays in its file");
    }
    buf_free(&path);
    return ok;
}
