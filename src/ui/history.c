#include "ui/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "chat/chat.h"
#include "config/paths.h"
#include "ui/charset.h"

/* A file that has outgrown the first is cut to the second, which leaves room to grow again. */
enum { FILE_MAX_BYTES = 64 << 20, FILE_KEPT_BYTES = 32 << 20 };

static char *file;
static bool write_failed;

/* Readline takes its memory by these names. Its own would end the program with a line that goes
 * away with the full screen. A NUL stands behind each piece: where a row has room for a
 * character or two, readline looks for the end of a text that fills the row's memory without
 * one. */
void *xmalloc(size_t n_bytes);
void *xrealloc(void *p, size_t n_bytes);
void xfree(void *p);

void *xmalloc(size_t n_bytes)
{
    return xrealloc(NULL, n_bytes);
}

void *xrealloc(void *p, size_t n_bytes)
{
    const size_t room = n_bytes < SIZE_MAX ? n_bytes + 1 : n_bytes; /* more than there is */
    char *bytes = mem_resize(p, room, 1);
    bytes[n_bytes] = '\0';
    return bytes;
}

void xfree(void *p)
{
    free(p);
}

void history_encode(struct buf *out, const char *entry)
{
    for (; *entry; entry++) {
        if (*entry == '\n')
            buf_puts(out, "\\n");
        else if (*entry == '\\')
            buf_puts(out, "\\\\");
        else
            buf_putc(out, *entry);
    }
}

void history_decode(struct buf *out, const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (line[i] == '\\' && i + 1 < n) {
            i++;
            buf_putc(out, line[i] == 'n' ? '\n' : line[i]);
        } else {
            buf_putc(out, line[i]);
        }
    }
}

static bool io_error(struct err *err, const char *what)
{
    char shown[256];
    return err_set(err, ERR_IO, "the history %s: %s: %s",
                   printable(shown, sizeof shown, file, strlen(file)), what, strerror(errno));
}

/* Whether the file ends in the middle of a line: a write was cut off, or somebody has edited
 * it. */
static bool ends_within(int fd)
{
    char last;
    const off_t end = lseek(fd, 0, SEEK_END);
    return end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n';
}

static bool append(const char *bytes, size_t n, struct err *err)
{
    int fd = open(file, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return io_error(err, "cannot be opened");
    /* Under one lock: lines of two programs never mix. */
    struct stat before;
    const bool is_locked = flock(fd, LOCK_EX) == 0 && fstat(fd, &before) == 0;
    bool ok = (!ends_within(fd) || file_write_fd(fd, "\n", 1)) && file_write_fd(fd, bytes, n);
    if (!ok) {
        io_error(err, "cannot be written");
        /* The part of a line that a full disk took would be an entry that nobody typed. */
        if (is_locked && ftruncate(fd, before.st_size) != 0) errno = 0;
    }
    close(fd);
    return ok;
}

/* Keeps the newest lines of the file's bytes, in a new file that takes the place of the old
 * one, where a link leads: of readline's list, a terminal that is not UTF-8 may have lost some
 * characters. */
static void shorten(struct buf *bytes)
{
    struct err ignored; /* then the file stays long */
    char *place = realpath(file, NULL);
    if (bytes->len > 0 && bytes->data[bytes->len - 1] != '\n') buf_putc(bytes, '\n');
    size_t at = bytes->len > 0 ? bytes->len - 1 : 0;
    for (size_t n = 0; at > 0; at--)
        if (bytes->data[at - 1] == '\n' && ++n == HISTORY_MAX) break;
    if (place) file_replace(place, buf_str(bytes) + at, bytes->len - at, &ignored);
    free(place);
}

/* Whether a terminal would obey it: U+0080 to U+009F, which readline shows as they are. */
static bool has_c1(const struct buf *entry)
{
    uint32_t cp;
    for (size_t i = 0; i < entry->len;) {
        const int n = utf8_decode(entry->data + i, entry->len - i, &cp);
        if (cp >= 0x80 && cp < 0xa0) return true;
        i += n > 0 ? (size_t)n : 1;
    }
    return false;
}

/* Adds to readline's list, which is in the terminal's character set as the line is.
 *
 * An entry ends in two NULs: where readline 8.2 looks for the words of one (M-.), it goes past
 * the end behind a backslash, and behind "$(". One that was changed in its place since is
 * readline's own, with one. */
static void put(const struct buf *typed)
{
    add_history(buf_str(typed));
    HIST_ENTRY *made = history_get(history_base + history_length - 1);
    if (!made) return; /* "set history-size 0" */
    made->line = mem_resize(made->line, typed->len + 2, 1);
    made->line[typed->len + 1] = '\0';
}

size_t history_take(const char *bytes, size_t n_bytes)
{
    size_t n_entries = 0;
    for (size_t at = 0; at < n_bytes;) {
        const char *line = bytes + at;
        const char *end = memchr(line, '\n', n_bytes - at);
        size_t n = end ? (size_t)(end - line) : n_bytes - at;
        at += n + 1;
        struct buf entry = {0}, typed = {0};
        history_decode(&entry, line, n);
        /* What somebody else put there must not reach the terminal. */
        if (entry.len > 0 && strlen(entry.data) == entry.len &&
            utf8_valid(entry.data, entry.len) && !has_c1(&entry)) {
            charset_give(entry.data, entry.len, &typed);
            put(&typed);
            n_entries++;
        }
        buf_free(&entry);
        buf_free(&typed);
    }
    return n_entries;
}

/* Appends the file to out, or the newest whole lines of one that has grown too long. */
static bool read_newest(struct buf *out, bool *is_cut, struct err *err)
{
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error(err, "cannot be opened");
    struct buf bytes = {0};
    const off_t end = lseek(fd, 0, SEEK_END);
    *is_cut = end > FILE_MAX_BYTES;
    lseek(fd, *is_cut ? end - FILE_KEPT_BYTES : 0, SEEK_SET);
    const bool ok = file_read_fd(fd, file, FILE_MAX_BYTES, &bytes, err);
    close(fd);
    size_t from = 0;
    if (*is_cut) {
        const char *newline = memchr(buf_str(&bytes), '\n', bytes.len);
        from = newline ? (size_t)(newline - bytes.data) + 1 : bytes.len;
    }
    if (ok) buf_append(out, buf_str(&bytes) + from, bytes.len - from);
    buf_free(&bytes);
    return ok;
}

bool history_open(const char *path, struct err *err)
{
    using_history();
    stifle_history(HISTORY_MAX);
    write_failed = false;
    if (!path) return true;
    file = mem_strdup(path);
    if (!paths_make_parents(path, err)) {
        write_failed = true; /* which is said once */
        return err_prefix(err, "what you type is not remembered");
    }
    if (access(path, F_OK) != 0) return true;
    struct buf bytes = {0};
    bool is_cut = false;
    bool ok = read_newest(&bytes, &is_cut, err);
    if (ok && chmod(path, 0600) != 0) ok = io_error(err, "cannot be made private");
    if (ok &&
        (history_take(buf_str(&bytes), bytes.len) > HISTORY_MAX + HISTORY_MAX / 4 || is_cut))
        shorten(&bytes);
    buf_free(&bytes);
    return ok;
}

/* Whether readline's list did not end in it. */
static bool put_new(const struct buf *entry)
{
    struct buf typed = {0};
    HIST_ENTRY *last =
        history_length > 0 ? history_get(history_base + history_length - 1) : NULL;
    charset_give(entry->data, entry->len, &typed);
    const bool is_new = !last || strcmp(last->line, buf_str(&typed)) != 0;
    if (is_new) put(&typed);
    buf_free(&typed);
    return is_new;
}

static bool add(const struct buf *entry, struct err *err)
{
    if (!put_new(entry) || !file || write_failed) return true;
    struct buf line = {0};
    history_encode(&line, buf_str(entry));
    buf_putc(&line, '\n');
    bool ok = append(line.data, line.len, err);
    buf_free(&line);
    write_failed = !ok;
    return ok;
}

bool history_remember(const char *sent, bool is_pasted, struct err *err)
{
    struct buf entry = {0};
    if (is_pasted && chat_wants_slash(sent, strlen(sent))) buf_putc(&entry, '/');
    buf_puts(&entry, sent);
    bool ok = add(&entry, err);
    buf_free(&entry);
    return ok;
}

void history_close(void)
{
    clear_history();
    free(file);
    file = NULL;
}
