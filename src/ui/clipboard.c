#include "ui/clipboard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "ui/signals.h"

/* A tool that takes longer hangs; the rest of hearth must not. */
enum { TOOL_MS = 2000 };

static void base64(const char *text, size_t n, struct buf *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = (const uint8_t *)text;
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        uint32_t x = (uint32_t)in[i] << 16;
        if (left > 1) x |= (uint32_t)in[i + 1] << 8;
        if (left > 2) x |= in[i + 2];
        buf_putc(out, digits[x >> 18]);
        buf_putc(out, digits[x >> 12 & 63]);
        buf_putc(out, left > 1 ? digits[x >> 6 & 63] : '=');
        buf_putc(out, left > 2 ? digits[x & 63] : '=');
    }
}

void clipboard_sequence(const char *text, size_t n, struct buf *out)
{
    buf_puts(out, "\033]52;c;");
    base64(text, n, out);
    buf_puts(out, "\033\\");
}

/* --- Tools -------------------------------------------------------------------------------- */

struct tool {
    const char *variable; /* set where it can work; NULL: anywhere */
    const char *argv[5];
};

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static void be_tool(const struct tool *tool, int in)
{
    signals_for_child();
    /* Some stay to serve the text: not with our terminal in hand. */
    int nowhere = open("/dev/null", O_RDWR);
    if (nowhere < 0 || dup2(in, 0) < 0 || dup2(nowhere, 1) < 0 || dup2(nowhere, 2) < 0)
        _exit(127);
    setsid();
    execvp(tool->argv[0], (char *const *)(void *)tool->argv);
    _exit(127);
}

static bool feed(int fd, const char *text, size_t n, double until_ms)
{
    while (n > 0) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        int left = (int)(until_ms - clock_ms());
        if (left <= 0 || (poll(&ready, 1, left) < 0 && errno != EINTR)) return false;
        ssize_t done = write(fd, text, n < 4096 ? n : 4096);
        if (done < 0 && errno != EINTR && errno != EAGAIN) return false;
        if (done > 0) text += done, n -= (size_t)done;
    }
    return true;
}

static bool wait_for(pid_t child, double until_ms)
{
    int status = 0;
    for (;;) {
        pid_t who = waitpid(child, &status, WNOHANG);
        if (who == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if ((who < 0 && errno != EINTR) || clock_ms() > until_ms) break;
        poll(NULL, 0, 5);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

static bool run_tool(const struct tool *tool, const char *text, size_t n)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    pid_t child = fork();
    if (child == 0) be_tool(tool, ends[0]);
    close(ends[0]);
    double until_ms = clock_ms() + TOOL_MS;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    bool ok = child > 0 && feed(ends[1], text, n, until_ms);
    close(ends[1]);
    return child > 0 && wait_for(child, until_ms) && ok;
}

bool clipboard_by_tool(const char *text, size_t n)
{
    static const struct tool tools[] = {
        {"WAYLAND_DISPLAY", {"wl-copy"}},
        {"DISPLAY", {"xclip", "-selection", "clipboard"}},
        {"DISPLAY", {"xsel", "--clipboard", "--input"}},
        {NULL, {"pbcopy"}},
    };
    if (is_set("SSH_CONNECTION") || is_set("SSH_TTY")) return false;
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if ((!tools[i].variable || is_set(tools[i].variable)) && run_tool(&tools[i], text, n))
            return true;
    return false;
}
