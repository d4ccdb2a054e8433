#include "ui/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "ui/charset.h"
#include "ui/signals.h"

bool output_open(struct output *out, const char *path, struct err *err)
{
    *out = (struct output){.fd = STDOUT_FILENO, .name = "standard output"};
    if (!path) return true;
    out->name = path;
    out->fd = open(path, O_WRONLY | O_CLOEXEC);
    if (out->fd < 0 && errno == ENOENT) {
        out->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        /* The file itself: the path may be a link to where there was none. */
        if (out->fd >= 0) out->made = realpath(path, NULL);
    }
    if (out->fd >= 0) {
        struct stat st;
        out->is_full = fstat(out->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
        return true;
    }
    out->failed = errno;
    struct buf text = {0};
    output_explain(out, &text);
    err_set(err, ERR_IO, "%s", buf_str(&text));
    buf_free(&text);
    return false;
}

void output_explain(const struct output *out, struct buf *text)
{
    char shown[256];
    buf_printf(text, "%s: cannot be written: %s",
               printable(shown, sizeof shown, out->name, strlen(out->name)),
               strerror(out->failed));
}

bool output_empty(struct output *out)
{
    if (out->failed) return false;
    free(out->made);
    out->made = NULL;
    if (!out->is_full) return true;
    out->is_full = false;
    if (ftruncate(out->fd, 0) != 0) out->failed = errno;
    return !out->failed;
}

/* Only the file that was made, and as it was made: others may have come to the path, or to it.
 */
static void remove_made(struct output *out)
{
    struct stat st, named;
    if (out->made && fstat(out->fd, &st) == 0 && lstat(out->made, &named) == 0 &&
        S_ISREG(named.st_mode) && named.st_dev == st.st_dev && named.st_ino == st.st_ino &&
        named.st_size == 0)
        unlink(out->made);
    free(out->made);
    out->made = NULL;
}

bool output_close(struct output *out)
{
    buf_free(&out->scratch);
    flow_free(&out->flow);
    if (out->fd == STDOUT_FILENO || out->fd < 0) return true;
    remove_made(out);
    if (close(out->fd) != 0 && !out->failed) out->failed = errno;
    out->fd = -1;
    return !out->failed;
}

static bool write_all(int fd, const char *s, size_t n)
{
    while (n > 0) {
        /* A pipe that polls writable takes PIPE_BUF bytes without blocking. */
        size_t some = n < PIPE_BUF ? n : PIPE_BUF;
        struct pollfd fds[2] = {{.fd = fd, .events = POLLOUT},
                                {.fd = signals_fd(), .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return false;
        if (fds[0].revents) {
            ssize_t done = write(fd, s, some);
            if (done < 0 && errno != EINTR && errno != EAGAIN) return false;
            if (done > 0) s += done, n -= (size_t)done;
            continue;
        }
        /* The flags stay for the loop of the face. */
        signals_drain();
        if (signals_come(SIGINT) || signals_leaving()) {
            errno = EINTR;
            return false;
        }
    }
    return true;
}

bool output_write(int fd, const char *s, size_t n)
{
    struct buf given = {0};
    if (!charset_is_other() || !isatty(fd)) return write_all(fd, s, n);
    charset_give(s, n, &given);
    bool ok = write_all(fd, buf_str(&given), given.len);
    buf_free(&given);
    return ok;
}

static bool put(struct output *out, const char *s, size_t n)
{
    if (!output_empty(out)) return false;
    if (!output_write(out->fd, s, n)) out->failed = errno;
    return !out->failed;
}

void output_begin(struct output *out, bool colours, int columns)
{
    flow_free(&out->flow);
    out->flows = colours || columns > 0;
    out->flow = (struct flow){.colours = colours, .columns = columns};
}

void output_resize(struct output *out, int columns)
{
    if (out->flow.columns > 0 && columns > 0) out->flow.columns = columns;
}

void output_resume(struct output *out, const char *s, size_t n)
{
    if (out->flows) flow_resume(&out->flow, s, n);
}

/* Keeps the line breaks at the end back. */
static bool put_text(struct output *out, const char *s, size_t n)
{
    size_t text = n;
    while (text > 0 && s[text - 1] == '\n')
        text--;
    if (n > 0) out->began = true;
    if (text > 0) {
        for (; out->held > 0; out->held--)
            if (!put(out, "\n", 1)) return false;
        if (!put(out, s, text)) return false;
    }
    out->held += n - text;
    return !out->failed;
}

bool output_text(struct output *out, const char *s, size_t n)
{
    if (!out->flows) return put_text(out, s, n);
    buf_clear(&out->scratch);
    flow_reply(&out->flow, s, n, &out->scratch);
    if (n > 0) out->began = true;
    return put_text(out, buf_str(&out->scratch), out->scratch.len);
}

static bool leave(struct output *out, void (*flow_out)(struct flow *f, struct buf *out))
{
    if (out->flows) {
        buf_clear(&out->scratch);
        flow_out(&out->flow, &out->scratch);
        put_text(out, buf_str(&out->scratch), out->scratch.len);
    }
    bool began = out->began;
    out->held = 0;
    out->began = false;
    return began ? put(out, "\n", 1) : !out->failed;
}

bool output_pause(struct output *out)
{
    return leave(out, flow_pause);
}

bool output_end(struct output *out)
{
    return leave(out, flow_end);
}

bool output_end_copy(struct output *out, struct buf *warning)
{
    if (output_end(out) || out->is_told) return true;
    out->is_told = true;
    buf_puts(warning, "the replies are no longer copied: ");
    output_explain(out, warning);
    return false;
}

bool output_raw(struct output *out, const char *s, size_t n)
{
    return put(out, s, n);
}
