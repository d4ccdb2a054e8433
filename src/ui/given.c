#include "ui/given.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "chat/sessions.h"
#include "config/options.h"
#include "ui/input.h"

static const char stdin_name[] = "standard input";
const char given_hint[] = "type the message; Ctrl-D on a line of its own ends it";

bool given_flaw(const struct buf *flaws, size_t *at, struct buf *line)
{
    const char *s = buf_str(flaws) + *at;
    const size_t n = strcspn(s, "\n");
    buf_clear(line);
    buf_append(line, s, n);
    *at += n + (s[n] == '\n');
    return n > 0;
}

static void add_flaw(struct buf *flaws, const char *name, const char *what)
{
    char shown[256];
    struct buf own = {0}, line = {0};
    size_t at = 0;
    bool is_there = false;
    buf_printf(&own, "%s %s", printable(shown, sizeof shown, name, strlen(name)), what);
    while (!is_there && given_flaw(flaws, &at, &line))
        is_there = strcmp(buf_str(&line), buf_str(&own)) == 0;
    if (!is_there) buf_printf(flaws, "%s\n", buf_str(&own));
    buf_free(&line);
    buf_free(&own);
}

bool given_join(struct buf *message, const char *name, const char *s, size_t n,
                struct buf *flaws, struct err *err)
{
    if (n == 0) return true;
    struct buf text = {0};
    const size_t mark = utf8_mark(s, n);
    const bool repaired = utf8_repair(&text, s + mark, n - mark) > 0;
    if (repaired)
        add_flaw(flaws, name, "is not valid UTF-8: U+FFFD stands for what is not");
    else if (memchr(s, '\0', n))
        add_flaw(flaws, name, "has NUL bytes: expected UTF-8 text");
    bool ok = text.len <= INPUT_MAX_BYTES || input_too_long(name, err);
    if (ok) input_join(message, buf_str(&text), text.len);
    buf_free(&text);
    return ok && given_fits(message->len, err);
}

bool given_fits(size_t n, struct err *err)
{
    return n <= INPUT_MAX_BYTES || input_too_long("the message", err);
}

/* ---- files ---- */

/* What file_read calls too much, as all input says it. */
static bool has_read(bool ok, const char *name, struct err *err)
{
    return ok || (err->code == ERR_USER && input_too_long(name, err));
}

static bool read_file(struct buf *message, const char *path, struct buf *flaws, struct err *err)
{
    struct buf bytes = {0};
    const bool ok = has_read(file_read(path, INPUT_MAX_BYTES, &bytes, err), path, err) &&
                    given_join(message, path, bytes.data, bytes.len, flaws, err);
    buf_free(&bytes);
    return ok;
}

bool given_files_read(struct given_files *files, const struct options *o, struct buf *flaws,
                      struct err *err)
{
    struct buf *message = &files->before;
    for (size_t i = 0; i < o->files.n; i++) {
        const char *path = o->files.items[i];
        if (strcmp(path, "-") == 0)
            message = &files->after;
        else if (!read_file(message, path, flaws, err))
            return false;
    }
    return true;
}

void given_files_free(struct given_files *files)
{
    buf_free(&files->before);
    buf_free(&files->after);
}

bool given_names_stdin(const struct options *o)
{
    for (size_t i = 0; i < o->files.n; i++)
        if (strcmp(o->files.items[i], "-") == 0) return true;
    return false;
}

/* ---- what is not to be written over ---- */

static bool is_file(const struct file_stamp *file, const char *path)
{
    struct file_stamp is;
    return path && file_stamp(path, &is) && file_is_same(&is, file);
}

/* Whether both would be one file, were they there. */
static bool is_place(const char *a, const char *b)
{
    const char *paths[] = {a, b};
    struct file_stamp folders[2];
    const char *names[2];
    for (size_t i = 0; i < 2; i++) {
        const char *slash = strrchr(paths[i], '/');
        names[i] = slash ? slash + 1 : paths[i];
        char *folder = slash ? mem_strndup(paths[i], (size_t)(slash + 1 - paths[i])) : NULL;
        const bool is_there = file_stamp(folder ? folder : ".", &folders[i]);
        free(folder);
        if (!is_there) return false;
    }
    return strcmp(names[0], names[1]) == 0 && file_is_same(&folders[0], &folders[1]);
}

/* The option whose session has its file at path, or NULL. */
static const char *session_at(const struct options *o, const char *path)
{
    struct session_list list = {0};
    struct file_stamp file;
    struct err ignored; /* the chat says it when it opens the session */
    char *own = o->session ? sessions_path(o->session, &ignored) : NULL;
    const bool is_there = file_stamp(path, &file);
    const char *option = NULL;
    if (own && (is_there ? is_file(&file, own) : is_place(path, own))) option = "--session";
    if (o->continue_last && is_there && sessions_list(&list, &ignored) && list.n > 0 &&
        is_file(&file, list.items[0].path))
        option = "--continue";
    session_list_free(&list);
    free(own);
    return option;
}

/* The option that names the same file, or NULL. */
static const char *reader_of(const struct options *o, const struct file_stamp *file)
{
    struct file_stamp in;
    char *draft;
    bool lookup;
    options_draft(o, &draft, &lookup);
    const char *option = is_file(file, o->model)                        ? "--model"
                         : is_file(file, draft)                         ? "--draft"
                         : is_file(file, options_file(o, OPT_TEMPLATE)) ? "--template"
                         : is_file(file, options_file(o, OPT_SCHEMA))   ? "--schema"
                         : is_file(file, o->ini_path)                   ? "--config"
                         : is_file(file, o->system_path)                ? "--system"
                         : is_file(file, o->prompts)                    ? "--prompts"
                                                                        : NULL;
    free(draft);
    for (size_t i = 0; i < o->files.n && !option; i++)
        if (is_file(file, o->files.items[i])) option = "--file";
    if (!option && file_stamp_fd(STDIN_FILENO, &in) && file_is_same(&in, file))
        option = stdin_name;
    return option;
}

bool given_spares_inputs(const struct options *o, struct err *err)
{
    struct stat st;
    struct file_stamp file;
    char shown[256];
    if (!o->output) return true;
    const bool is_there = stat(o->output, &st) == 0;
    if (is_there && !S_ISREG(st.st_mode)) return true;
    const char *option = is_there && file_stamp(o->output, &file) ? reader_of(o, &file) : NULL;
    if (!option) option = session_at(o, o->output);
    return !option ||
           err_set(err, ERR_USER, "--output: expected another file than that of %s, found '%s'",
                   option, printable(shown, sizeof shown, o->output, strlen(o->output)));
}

/* ---- the first turn ---- */

static bool read_stdin(struct given *given, struct err *err)
{
    struct buf bytes = {0};
    const bool ok =
        has_read(file_read_fd(STDIN_FILENO, stdin_name, INPUT_MAX_BYTES, &bytes, err),
                 stdin_name, err) &&
        given_join(&given->before, stdin_name, bytes.data, bytes.len, &given->flaws, err);
    buf_free(&bytes);
    return ok;
}

static void hint(const struct options *o)
{
    if (!o->quiet && isatty(STDERR_FILENO)) fprintf(stderr, "hearth: %s\n", given_hint);
}

static void add_name(struct given *given, const char *name)
{
    char shown[256];
    buf_printf(&given->names, "%s%s", given->names.len > 0 ? ", " : "",
               printable(shown, sizeof shown, name, strlen(name)));
}

static void name_parts(struct given *given, const struct options *o, bool with_stdin)
{
    for (size_t i = 0; i < o->files.n; i++)
        if (strcmp(o->files.items[i], "-") != 0) add_name(given, o->files.items[i]);
    if (with_stdin) add_name(given, stdin_name);
}

static bool read_parts(struct given *given, const struct options *o, bool with_stdin,
                       struct err *err)
{
    struct given_files files = {0};
    bool ok = given_files_read(&files, o, &given->flaws, err);
    input_join(&given->before, buf_str(&files.before), files.before.len);
    const size_t n_before = given->before.len;
    if (ok && with_stdin) ok = read_stdin(given, err);
    const bool stdin_counts = given->before.len > n_before;
    input_join(&given->before, buf_str(&files.after), files.after.len);
    given_files_free(&files);
    if (ok && o->prompt)
        ok = given_join(&given->prompt, "--prompt", o->prompt, strlen(o->prompt), &given->flaws,
                        err);
    ok = ok && given_fits(given->before.len + given->prompt.len, err);
    if (!ok) {
        given->is_too_long = err->code == ERR_USER;
        err->code = ERR_IO; /* no usage is wrong */
    }
    name_parts(given, o, stdin_counts);
    return ok;
}

bool given_read(struct given *given, const struct options *o, struct err *err)
{
    *given = (struct given){0};
    if (isatty(STDIN_FILENO)) {
        if (given_names_stdin(o)) hint(o);
        return read_parts(given, o, given_names_stdin(o), err);
    }
    /* First what needs no waiting. */
    const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (terminal < 0)
        return err_set(err, ERR_USER,
                       "--interactive: standard input is no terminal, and there is no other to "
                       "go on at: /dev/tty: %s",
                       strerror(errno));
    /* Without standard input it is as good as empty, unless it is named. */
    const bool with_stdin = input_can_read(STDIN_FILENO);
    bool ok = with_stdin || !given_names_stdin(o) ||
              err_set(err, ERR_IO, "%s: is not open for reading", stdin_name);
    ok = ok && read_parts(given, o, with_stdin, err);
    if (ok && dup2(terminal, STDIN_FILENO) < 0)
        ok = err_set(err, ERR_IO, "/dev/tty: %s", strerror(errno));
    close(terminal);
    return ok;
}

bool given_is_empty(const struct given *given)
{
    return ascii_is_blank(buf_str(&given->before), given->before.len) &&
           ascii_is_blank(buf_str(&given->prompt), given->prompt.len);
}

void given_free(struct given *given)
{
    buf_free(&given->before);
    buf_free(&given->names);
    buf_free(&given->prompt);
    buf_free(&given->flaws);
}
