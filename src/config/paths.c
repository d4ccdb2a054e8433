#include "config/paths.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"

static const char last_model[] = "last-model";

char *paths_typed(const char *typed)
{
    static const char *const marks[] = {"~", "$HOME", "${HOME}"};
    const char *home = getenv("HOME");
    struct buf path = {0};
    for (size_t i = 0; home && *home && i < sizeof marks / sizeof *marks; i++) {
        const size_t n = strlen(marks[i]);
        if (strncmp(typed, marks[i], n) != 0 || (typed[n] && typed[n] != '/')) continue;
        buf_printf(&path, "%s%s", home, typed + n);
        return buf_take(&path);
    }
    return mem_strdup(typed);
}

const char *paths_temporary(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

/* What a shell makes of one word; NULL if it is not one, or a quote in it is not closed. */
static char *shell_word(const char *s)
{
    struct buf word = {0};
    char quote = '\0';
    for (; *s; s++) {
        const bool escapes =
            *s == '\\' && s[1] && (!quote || (quote == '"' && strchr("\"\\$`", s[1])));
        if (escapes)
            buf_putc(&word, *++s);
        else if (quote ? *s == quote : *s == '\'' || *s == '"')
            quote = quote ? '\0' : *s;
        else if (!quote && ascii_is_blank(s, 1))
            break;
        else
            buf_putc(&word, *s);
    }
    if (!*s && !quote && word.len > 0) return buf_take(&word);
    buf_free(&word);
    return NULL;
}

/* What a shell makes of it as a path; NULL as shell_word. */
static char *path_of_word(const char *typed)
{
    char *word = shell_word(typed), *path = word ? paths_typed(word) : NULL;
    free(word);
    return path;
}

/* The one of the two that counts; frees the other. */
static char *choose(char *path, char *other, bool is_other)
{
    free(is_other ? path : other);
    return is_other ? other : path;
}

char *paths_found(const char *typed)
{
    char *path = paths_typed(typed);
    if (access(path, F_OK) == 0 || !strpbrk(typed, "'\"\\")) return path;
    char *other = path_of_word(typed);
    return choose(path, other, other && access(other, F_OK) == 0);
}

char *paths_to_make(const char *typed)
{
    const size_t n = strlen(typed);
    const bool is_quoted = n > 1 && (*typed == '\'' || *typed == '"') && typed[n - 1] == *typed;
    char *path = paths_typed(typed);
    if ((!is_quoted && !strstr(typed, "\\ ")) || access(path, F_OK) == 0) return path;
    char *other = path_of_word(typed);
    return choose(path, other, other != NULL);
}

char *paths_in(enum paths_folder folder, const char *name)
{
    static const struct {
        const char *variable, *below_home;
    } places[] = {
        [PATHS_CONFIG] = {"XDG_CONFIG_HOME", ".config"},
        [PATHS_STATE] = {"XDG_STATE_HOME", ".local/state"},
        [PATHS_CACHE] = {"XDG_CACHE_HOME", ".cache"},
    };
    const char *xdg = getenv(places[folder].variable), *home = getenv("HOME");
    struct buf path = {0};
    if (xdg && *xdg == '/')
        buf_puts(&path, xdg);
    else if (home && *home == '/')
        buf_printf(&path, "%s/%s", home, places[folder].below_home);
    else
        return NULL;
    buf_puts(&path, "/hearth");
    if (name) buf_printf(&path, "/%s", name);
    return buf_take(&path);
}

bool paths_make_parents(const char *path, struct err *err)
{
    char *copy = mem_strdup(path);
    bool ok = true;
    for (char *p = copy + 1; ok && *copy && *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST) {
            char shown[256];
            ok = err_set(err, ERR_IO, "%s: cannot make the folder: %s",
                         printable(shown, sizeof shown, copy, strlen(copy)), strerror(errno));
        }
        *p = '/';
    }
    free(copy);
    return ok;
}

/* The absolute form of a file's path, without links on the way to it, but its own name: where
 * that is a link, its target may be called otherwise, and the other files of a split model lie
 * beside the link. NULL and errno: it is not there. */
static char *absolute_form(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *typed = slash ? mem_strndup(path, (size_t)(slash + 1 - path)) : mem_strdup(".");
    char *folder = access(path, F_OK) == 0 ? realpath(typed, NULL) : NULL;
    struct buf whole = {0};
    free(typed);
    if (!folder) return NULL;
    buf_printf(&whole, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
    free(folder);
    return buf_take(&whole);
}

/* Without the way to it: no "bin/../share" is shown to anybody. */
static char *if_readable(struct buf *path)
{
    char *s = buf_take(path), *plain = NULL;
    if (access(s, R_OK) == 0) plain = realpath(s, NULL);
    free(s);
    return plain;
}

char *paths_guide(const char *file)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    struct buf path = {0};
    if (n > 0) {
        program[n] = '\0';
        char *slash = strrchr(program, '/');
        if (slash) *slash = '\0';
        /* From build/, build/asan/ and the tests in both; then where an install put it. */
        static const char *const places[] = {
            "../examples/guide", "../../examples/guide", "../../../examples/guide",
            "../../../../examples/guide", "../share/hearth/guide"};
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            buf_clear(&path);
            buf_printf(&path, "%s/%s/%s", program, places[i], file);
            char *found = if_readable(&path);
            if (found) return found;
        }
    }
    buf_clear(&path);
    buf_printf(&path, "%s/share/hearth/guide/%s", HEARTH_PREFIX, file);
    return if_readable(&path);
}

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

char *paths_guide_draft(const char *model)
{
    char *guide = paths_guide("guide-q8_0.gguf");
    const bool is_guide = guide && same_file(guide, model);
    free(guide);
    return is_guide ? paths_guide("guide-draft-q8_0.gguf") : NULL;
}

char *paths_remembered_model(bool *is_there)
{
    *is_there = false;
    char *state = paths_in(PATHS_STATE, last_model);
    if (!state) return NULL;
    struct buf model = {0};
    struct err err;
    bool ok = file_read_regular(state, PATH_MAX, &model, &err);
    free(state);
    while (model.len && model.data[model.len - 1] == '\n')
        model.data[--model.len] = '\0';
    ok = ok && model.len > 0 && !memchr(model.data, 0, model.len) &&
         !memchr(model.data, '\n', model.len);
    if (!ok) {
        buf_free(&model);
        return NULL;
    }
    *is_there = *model.data == '/' && access(model.data, R_OK) == 0;
    return buf_take(&model);
}

/* `word` is a path or a name. */
static bool remember(const char *word, struct err *err)
{
    char *state = paths_in(PATHS_STATE, last_model), shown[256];
    struct buf line = {0};
    bool ok = true;
    if (strchr(word, '\n')) /* the file holds one line */
        ok = err_set(err, ERR_USER, "%s: a %s with a line break is not remembered",
                     printable(shown, sizeof shown, word, strlen(word)),
                     *word == '/' ? "path" : "name");
    else if (!state)
        ok = err_set(err, ERR_USER, "neither XDG_STATE_HOME nor HOME names a folder");
    if (ok) buf_printf(&line, "%s\n", word);
    ok = ok && paths_make_parents(state, err) && file_replace(state, line.data, line.len, err);
    buf_free(&line);
    free(state);
    return ok;
}

bool paths_remember_model(const char *path, struct err *err)
{
    char shown[256];
    char *absolute = absolute_form(path);
    if (!absolute)
        return err_set(err, ERR_IO, "%s: %s",
                       printable(shown, sizeof shown, path, strlen(path)), strerror(errno));
    const bool ok = remember(absolute, err);
    free(absolute);
    return ok;
}

bool paths_remember_listed(const char *name, struct err *err)
{
    assert(*name != '/');
    return remember(name, err);
}
