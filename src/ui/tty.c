#include "ui/tty.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "ui/signals.h"

static int terminal = -1;
static struct termios saved;
static int n_cooked;
/* Of the full-screen view, while it is there. */
static const char *_Atomic goodbye;
static atomic_size_t n_goodbye;

/* A process in the background must not change the settings of the one in front. */
static bool in_front(void)
{
    return tcgetpgrp(terminal) == getpgrp();
}

void tty_say_goodbye(const char *bytes, size_t n)
{
    atomic_store(&n_goodbye, 0);
    atomic_store(&goodbye, bytes);
    atomic_store(&n_goodbye, n);
}

static void say_goodbye(void)
{
    size_t n = atomic_exchange(&n_goodbye, 0);
    ssize_t written = n > 0 ? write(STDOUT_FILENO, atomic_load(&goodbye), n) : 0;
    (void)written;
}

void tty_restore(void)
{
    if (terminal >= 0 && in_front()) say_goodbye();
    if (terminal >= 0 && in_front()) tcsetattr(terminal, TCSADRAIN, &saved);
}

void tty_lend(void)
{
    if (terminal >= 0 && in_front()) tcsetattr(terminal, TCSAFLUSH, &saved);
}

void tty_recover(void)
{
    static const char sane[] = "\033[0m\033[?2004l\033[?25h\n";
    if (terminal < 0 || !in_front()) return;
    say_goodbye();
    ssize_t written = write(terminal, sane, sizeof sane - 1);
    (void)written;
    tcsetattr(terminal, TCSANOW, &saved);
}

static void on_crash(int sig)
{
    tty_recover();
    raise(sig); /* SA_RESETHAND: now as the system does it */
}

/* A process that was started in the background stops until it is in front: the modes are now
 * those of a shell that reads a line. Where nothing stops it (its shell has gone, or it is told
 * to ignore that) it goes on after some tries. */
static void wait_in_background(int fd)
{
    enum { MOST_TRIES = 16 };
    for (int i = 0; i < MOST_TRIES; i++) {
        const pid_t front = tcgetpgrp(fd);
        if (front < 0 || front == getpgrp()) return;
        kill(0, SIGTTIN);
        signals_take(SIGCONT); /* nothing was set yet that a stop could have changed */
    }
}

void tty_open(int fd)
{
    if (!isatty(fd)) return;
    wait_in_background(fd);
    if (tcgetattr(fd, &saved) != 0) return;
    terminal = fd;
    atexit(tty_restore);
    /* Those that end the program, and that nothing else here handles. */
    static const int crashes[] = {SIGABRT,   SIGSEGV, SIGFPE,  SIGILL,  SIGQUIT,
                                  SIGXCPU,   SIGSYS,  SIGTRAP, SIGUSR1, SIGUSR2,
                                  SIGVTALRM, SIGALRM, SIGPROF};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        struct sigaction old,
            act = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND | SA_NODEFER};
        sigaction(crashes[i], NULL, &old);
        if (old.sa_handler == SIG_DFL) sigaction(crashes[i], &act, NULL);
    }
}

static void take_keys(tcflag_t echo)
{
    struct termios now;
    if (terminal < 0 || tcgetattr(terminal, &now) != 0) return;
    struct termios quiet = saved;
    quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    /* Ctrl-C and Ctrl-Z do not throw away what was typed before them. */
    quiet.c_lflag |= (saved.c_lflag & echo) | NOFLSH;
    /* Return stays what it is to readline; Ctrl-J is a line break there. */
    quiet.c_iflag &= ~(tcflag_t)(ICRNL | INLCR);
    quiet.c_cc[VMIN] = 1;
    quiet.c_cc[VTIME] = 0;
    tcsetattr(terminal, TCSADRAIN, &quiet);
    if ((now.c_lflag & ICANON) && ioctl(terminal, FIONREAD, &n_cooked) != 0) n_cooked = 0;
}

void tty_quiet(void)
{
    take_keys(0);
}

void tty_echo(void)
{
    take_keys(ECHO);
}

bool tty_return(void)
{
    if (terminal < 0) return true;
    if (!in_front()) return false;
    tcgetattr(terminal, &saved);
    tty_quiet();
    return true;
}

int tty_take_cooked(void)
{
    int n = n_cooked;
    n_cooked = 0;
    return n;
}
