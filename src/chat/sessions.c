#include "chat/sessions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"
#include "base/utf8.h"
#include "chat/archive.h"
#include "chat/conversation.h"
#include "config/paths.h"

enum { MAX_NAME = 100 };
static const char folder[] = "sessions", suffix[] = ".session";

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    if (ascii_is_blank(name, n) || n > MAX_NAME || name[0] == '.' || !utf8_valid(name, n))
        return false;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        i += (size_t)utf8_decode(name + i, n - i, &c);
        if (c == '/' || !printable_char(c)) return false;
    }
    return true;
}

char *sessions_path(const char *name, struct err *err)
{
    if (!is_name(name)) {
        char shown[160];
        err_set(err, ERR_USER,
                "'%s' cannot be the name of a session: expected at most %d bytes of UTF-8 "
                "without a slash or a control character, not only blanks, and no point at the "
                "beginning",
                printable(shown, sizeof shown, name, strlen(name)), MAX_NAME);
        return NULL;
    }
    struct buf below = {0};
    buf_printf(&below, "%s/%s%s", folder, name, suffix);
    char *path = paths_in(PATHS_STATE, buf_str(&below));
    buf_free(&below);
    if (!path) err_set(err, ERR_IO, "neither XDG_STATE_HOME nor HOME names a folder");
    return path;
}

char *sessions_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name), m = sizeof suffix - 1;
    return mem_strndup(name, n > m && strcmp(name + n - m, suffix) == 0 ? n - m : n);
}

char *sessions_new_name(unsigned attempt)
{
    char text[64];
    time_t now = time(NULL);
    struct tm t;
    localtime_r(&now, &t);
    size_t n = strftime(text, sizeof text, "%Y-%m-%d-%H%M", &t);
    struct buf name = {0};
    buf_append(&name, text, n);
    if (attempt > 1) buf_printf(&name, "-%u", attempt);
    return buf_take(&name);
}

bool sessions_any(void)
{
    char *path = paths_in(PATHS_STATE, folder);
    bool any = path && access(path, F_OK) == 0;
    free(path);
    return any;
}

/* ---- the list ---- */

static int newest_first(const void *a, const void *b)
{
    const struct session_file *x = a, *y = b;
    if (x->changed_s != y->changed_s) return x->changed_s > y->changed_s ? -1 : 1;
    if (x->changed_ns != y->changed_ns) return x->changed_ns > y->changed_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void add_file(struct session_list *list, int dir, const char *dir_path, const char *file)
{
    struct stat st;
    size_t n = strlen(file), m = sizeof suffix - 1;
    if (n <= m || strcmp(file + n - m, suffix) != 0) return;
    if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) return;
    char *name = mem_strndup(file, n - m);
    if (!is_name(name)) {
        free(name);
        return;
    }
    struct buf path = {0};
    buf_printf(&path, "%s/%s", dir_path, file);
    MEM_GROW(list->items, list->n, list->cap);
    list->items[list->n++] = (struct session_file){.name = name,
                                                   .path = buf_take(&path),
                                                   .changed_s = st.st_mtim.tv_sec,
                                                   .changed_ns = st.st_mtim.tv_nsec,
                                                   .n_bytes = (uint64_t)st.st_size};
}

bool sessions_list(struct session_list *list, struct err *err)
{
    *list = (struct session_list){0};
    char *path = paths_in(PATHS_STATE, folder);
    if (!path) return err_set(err, ERR_IO, "neither XDG_STATE_HOME nor HOME names a folder");
    DIR *d = opendir(path);
    bool ok =
        d || file_is_missing(errno) || err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    struct dirent *entry;
    while (d && (entry = readdir(d)))
        add_file(list, dirfd(d), path, entry->d_name);
    if (d) closedir(d);
    free(path);
    if (list->n > 0) qsort(list->items, list->n, sizeof *list->items, newest_first);
    return ok;
}

void session_list_free(struct session_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->items[i].name);
        free(list->items[i].path);
    }
    free(list->items);
    *list = (struct session_list){0};
}

/* What a file holds, for a list. */
struct summary {
    size_t n_messages;         /* of the current branch */
    char model[80], first[80]; /* printable; first words of the first message */
};

static bool summarise(const char *path, struct summary *out)
{
    struct conversation *c = conversation_new();
    struct buf notes = {0};
    struct err ignored;
    struct archive *a = archive_look(path, c, &notes, &ignored);
    *out = (struct summary){0};
    if (a) {
        const char *model = archive_state(a)->model;
        out->n_messages = conversation_n(c);
        if (model) printable(out->model, sizeof out->model, model, strlen(model));
        if (out->n_messages > 0) {
            const struct message *m = conversation_at(c, 0);
            printable(out->first, sizeof out->first, m->text, m->len);
        }
    }
    archive_close(a);
    conversation_free(c);
    buf_free(&notes);
    return a != NULL;
}

void session_put_row(const struct session_file *file, bool with_file, struct buf *out)
{
    struct summary sum;
    char when[READABLE_BYTES], size[READABLE_BYTES];
    buf_puts(out, readable_time(when, file->changed_s));
    if (with_file) buf_printf(out, "  %10s", readable_size(size, file->n_bytes));
    if (!summarise(file->path, &sum)) {
        buf_puts(out, "  cannot be read: hearth sessions check says why");
        return;
    }
    char messages[READABLE_BYTES];
    buf_printf(out, "  %s  ", readable_count_column(messages, sum.n_messages, "message"));
    if (with_file && *sum.model) buf_puts(out, sum.model);
    if (with_file && *sum.model && *sum.first) buf_puts(out, ": ");
    buf_puts(out, sum.first);
}

/* ---- making room ---- */

/* The node of that number; numbers grow along a branch. */
static struct node *node_of(const struct conversation *c, uint64_t number)
{
    for (size_t i = 0; i < conversation_n_branches(c); i++) {
        struct node *n = conversation_branch(c, i)->leaf;
        while (node_parent(n) && node_number(n) > number)
            n = node_parent(n);
        if (node_number(n) == number) return n;
    }
    return NULL;
}

static bool is_same(const struct node *a, const struct node *b)
{
    const struct message *x = node_message(a), *y = node_message(b);
    return node_number(a) == node_number(b) && x && y && x->role == y->role &&
           x->len == y->len && memcmp(x->text, y->text, x->len) == 0;
}

/* Whether every message of one is in the other, in its place. */
static bool is_within(const struct conversation *part, const struct conversation *c)
{
    for (size_t i = 0; i < conversation_n_branches(part); i++) {
        const struct node *n = conversation_branch(part, i)->leaf;
        const struct node *other = node_of(c, node_number(n));
        for (; node_parent(n); n = node_parent(n), other = node_parent(other))
            if (!other || !is_same(n, other)) return false;
    }
    return true;
}

/* Whether a write that was cut off has left it, and it holds nothing but what is in c. */
static bool is_left_over(const char *path, const struct conversation *c)
{
    struct conversation *there = conversation_new();
    struct buf notes = {0};
    struct err ignored;
    struct stat st;
    struct archive *a = archive_look(path, there, &notes, &ignored);
    const bool damaged = notes.len > 0 || (stat(path, &st) == 0 && st.st_size == 0);
    const bool left = a && damaged && is_within(there, c);
    archive_close(a);
    conversation_free(there);
    buf_free(&notes);
    return left;
}

/* Gives the file the first name of NAME~, NAME~2, ... that no file has: returns it, for the
 * caller to free. NULL: the file keeps its name. */
static char *rename_aside(const char *path)
{
    enum { MOST = 100 };
    struct err ignored;
    char *name = sessions_name(path), *aside = NULL;
    for (unsigned i = 1; i <= MOST && !aside; i++) {
        struct buf to = {0};
        buf_printf(&to, "%s~", name);
        if (i > 1) buf_printf(&to, "%u", i);
        char *other = sessions_path(buf_str(&to), &ignored);
        const bool done = other && file_rename_new(path, other);
        const bool is_taken = other && !done && errno == EEXIST;
        if (done) aside = mem_strdup(buf_str(&to));
        free(other);
        buf_free(&to);
        if (!done && !is_taken) break;
    }
    free(name);
    return aside;
}

char *session_set_aside(const char *path, const struct conversation *c)
{
    char *aside = NULL;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_left_over(path, c)) aside = rename_aside(path);
    close(fd);
    return aside;
}

bool session_remove(const char *path, struct err *err)
{
    /* Over NFS a lock needs a file that is open for writing. */
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, O_RDWR | flags);
    const bool may_write = fd >= 0;
    if (fd < 0 && (errno == EACCES || errno == EROFS)) fd = open(path, O_RDONLY | flags);
    if (fd < 0) return archive_refuse(err, path);
    bool ok = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!ok && errno == EWOULDBLOCK)
        err_set(err, ERR_USER, "%s: another hearth has this session open", path);
    else if (!ok && may_write)
        err_set(err, ERR_IO, "%s: cannot be locked: %s", path, strerror(errno));
    else
        ok = unlink(path) == 0 || archive_refuse(err, path);
    close(fd);
    return ok;
}
