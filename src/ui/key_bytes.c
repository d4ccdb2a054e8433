/* Static state: the terminal is one per process. */
#include "ui/key_bytes.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <readline/readline.h>

#include "ui/signals.h"
#include "ui/tty.h"

/* More than this is not taken ahead. */
enum { AHEAD_MAX = 64 << 20 };

static struct buf ahead; /* what was read already: bytes at.. */
static size_t at;
/* Bytes typed before the terminal was ours: their Return had become a line feed. */
static int n_cooked;
static bool is_gone; /* the terminal is: it has come to its end */

/* ---- those that were read already ---- */

size_t key_bytes_n(void)
{
    return ahead.len - at;
}

char key_bytes_at(size_t i)
{
    assert(i < key_bytes_n());
    return ahead.data[at + i];
}

void key_bytes_skip(size_t n)
{
    assert(n <= key_bytes_n());
    at += n;
}

void key_bytes_put_first(const char *s, size_t n)
{
    if (n == 0) return;
    if (n <= at) {
        at -= n;
        memcpy(ahead.data + at, s, n);
        return;
    }
    struct buf rest = {0};
    key_bytes_take(&rest);
    buf_append(&ahead, s, n);
    buf_append(&ahead, buf_str(&rest), rest.len);
    buf_free(&rest);
}

void key_bytes_put_last(const char *s, size_t n)
{
    if (key_bytes_n() == 0) {
        buf_clear(&ahead);
        at = 0;
    }
    buf_append(&ahead, s, n);
}

void key_bytes_take(struct buf *out)
{
    buf_append(out, buf_str(&ahead) + at, key_bytes_n());
    buf_free(&ahead);
    at = 0;
}

/* ---- from the terminal ---- */

static char as_typed(char c)
{
    if (n_cooked == 0) return c;
    n_cooked--;
    return c == '\n' ? '\r' : c;
}

/* Reads `most` bytes or fewer; 0: there are no more, -1: none yet. */
static ssize_t read_bytes(char *bytes, size_t most)
{
    const ssize_t n = read(fileno(rl_instream), bytes, most);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return -1;
    for (ssize_t i = 0; i < n; i++)
        bytes[i] = as_typed(bytes[i]);
    is_gone = n <= 0;
    return n > 0 ? n : 0;
}

int key_bytes_read(char *c)
{
    return (int)read_bytes(c, 1);
}

bool key_bytes_gone(void)
{
    return is_gone && key_bytes_n() == 0;
}

void key_bytes_take_cooked(void)
{
    n_cooked += tty_take_cooked();
}

int key_bytes_next(int timeout_ms, char *c)
{
    struct pollfd in = {.fd = fileno(rl_instream), .events = POLLIN};
    if (key_bytes_n() > 0) {
        *c = ahead.data[at++];
        return 1;
    }
    int ready = poll(&in, 1, timeout_ms);
    while (ready < 0 && errno == EINTR && !signals_leaving())
        ready = poll(&in, 1, timeout_ms);
    return ready > 0 ? key_bytes_read(c) : ready < 0 ? 0 : -1;
}

bool key_bytes_come(int timeout_ms)
{
    struct pollfd in = {.fd = fileno(rl_instream), .events = POLLIN};
    int n;
    if (key_bytes_n() > 0) return true;
    do /* A signal, say of a window that changes, tells nothing of keys. */
        n = poll(&in, 1, timeout_ms);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

bool key_bytes_look(int timeout_ms, size_t most)
{
    struct pollfd in = {.fd = fileno(rl_instream), .events = POLLIN};
    char bytes[64];
    if (most > sizeof bytes) most = sizeof bytes;
    const ssize_t n = poll(&in, 1, timeout_ms) > 0 ? read_bytes(bytes, most) : 0;
    if (n > 0) key_bytes_put_last(bytes, (size_t)n);
    return n > 0;
}

void key_bytes_take_ahead(void)
{
    enum { MANY = 2048 };
    int n;
    while (rl_instream && ahead.len < AHEAD_MAX &&
           ioctl(fileno(rl_instream), FIONREAD, &n) == 0 && n >= MANY)
        if (!key_bytes_look(0, SIZE_MAX)) return;
}

/* What a terminal sends at once may come in pieces. */
enum { BURST_MS = 5 };

/* Bytes that come next, as many as are `keys` again and again. */
static size_t repeated(const char *keys, size_t n_keys)
{
    size_t i = 0;
    while (i < key_bytes_n() && key_bytes_at(i) == keys[i % n_keys])
        i++;
    return i;
}

size_t key_bytes_burst(const char *keys, size_t least)
{
    size_t n_keys = strlen(keys), n;
    if (key_bytes_n() == 0) key_bytes_look(0, SIZE_MAX);
    while ((n = repeated(keys, n_keys)) > 0 && n == key_bytes_n())
        if (!key_bytes_look(BURST_MS, SIZE_MAX)) break;
    if (n < least * n_keys) return 0;
    key_bytes_skip(n - n % n_keys);
    return n / n_keys;
}
