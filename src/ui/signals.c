#include "ui/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "ui/exit_status.h"
#include "ui/tty.h"

static atomic_int pending[NSIG];
static int ends[2] = {-1, -1};
/* When the first Ctrl-C came that nobody took yet. Signals are blocked in the handler. */
static double untaken_ms;
static atomic_bool makes_room;
static double stopped_ms;

void signals_make_room(bool wanted)
{
    atomic_store(&makes_room, wanted);
}

static void make_room(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) == 0) tcflush(STDOUT_FILENO, TCOFLUSH);
}

static void on_signal(int sig)
{
    int saved = errno;
    int n = atomic_fetch_add(&pending[sig], 1);
    if ((sig == SIGTERM || sig == SIGHUP) && atomic_load(&makes_room)) make_room();
    if (sig == SIGINT) {
        if (n == 0) untaken_ms = 0;
        signals_first_interrupt(&untaken_ms);
    }
    /* A full pipe is fine: it is readable then. */
    ssize_t written = write(ends[1], "", 1);
    (void)written;
    errno = saved;
}

/* Perhaps a page of a mapped file that could not be read. Several threads may meet it at once:
 * the first one speaks. */
static void on_lost_page(int sig, siginfo_t *info, void *context)
{
    (void)context;
    static atomic_flag met = ATOMIC_FLAG_INIT;
    static const char is_lost[] =
        ": can no longer be read: it was cut short while in use, or its disk failed\n";
    while (atomic_flag_test_and_set(&met))
        pause();
    const char *name = info->si_code == BUS_ADRERR ? file_map_at(info->si_addr) : NULL;
    tty_recover();
    if (!name) {
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    file_write_fd(STDERR_FILENO, "hearth: ", 8);
    file_write_fd(STDERR_FILENO, name, strlen(name));
    file_write_fd(STDERR_FILENO, is_lost, sizeof is_lost - 1);
    _exit(EXIT_RUNTIME);
}

void signals_name_lost_files(void)
{
    struct sigaction old,
        act = {.sa_sigaction = on_lost_page, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGBUS, NULL, &old);
    if (old.sa_handler == SIG_DFL) sigaction(SIGBUS, &act, NULL);
}

static void handle(int sig)
{
    struct sigaction old, act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    /* nohup and a shell's background jobs ignore what is none of their business. */
    sigaction(sig, NULL, &old);
    if (old.sa_handler == SIG_IGN) return;
    /* What ends the program also ends a wait for the editor. */
    if (sig == SIGTERM || sig == SIGHUP) act.sa_flags = 0;
    sigfillset(&act.sa_mask);
    sigaction(sig, &act, NULL);
}

void signals_install(bool terminal)
{
    if (ends[0] < 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) ends[0] = ends[1] = -1;
    signal(SIGPIPE, SIG_IGN);
    handle(SIGINT);
    handle(SIGTERM);
    handle(SIGHUP);
    handle(SIGWINCH);
    if (!terminal) return;
    /* Who started us may ignore it: then nothing tells how an editor has ended. */
    signal(SIGCHLD, SIG_DFL);
    handle(SIGTSTP);
    handle(SIGCONT);
}

void signals_for_child(void)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
}

int signals_fd(void)
{
    return ends[0];
}

void signals_drain(void)
{
    char bytes[64];
    while (read(ends[0], bytes, sizeof bytes) > 0)
        continue;
}

bool signals_come(int sig)
{
    return atomic_load(&pending[sig]) != 0;
}

bool signals_take(int sig)
{
    return atomic_exchange(&pending[sig], 0) != 0;
}

bool signals_first_interrupt(double *first_ms)
{
    double now = clock_ms();
    if (*first_ms == 0) {
        *first_ms = now;
        return true;
    }
    if (now - *first_ms >= SIGNALS_PATIENCE_MS) {
        tty_recover();
        _exit(EXIT_SIGINT);
    }
    return false;
}

int signals_leaving(void)
{
    if (signals_come(SIGTERM)) return EXIT_SIGTERM;
    return signals_come(SIGHUP) ? EXIT_SIGHUP : 0;
}

double signals_take_stopped_ms(void)
{
    const double ms = stopped_ms;
    stopped_ms = 0;
    return ms;
}

void signals_stop_here(void)
{
    struct sigaction old, act = {.sa_handler = SIG_DFL};
    sigset_t stop, mask;
    sigaction(SIGTSTP, &act, &old);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, &mask);
    const double from_ms = clock_ms();
    raise(SIGTSTP);
    stopped_ms += clock_ms() - from_ms;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGTSTP, &old, NULL);
    /* What stopped and woke this process is dealt with. */
    signals_take(SIGTSTP);
    signals_take(SIGCONT);
}
