#include "ui/tty.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

static int terminal = -1;
static struct termios saved;
static struct termios ours; /* as hearth set them last, but for readline and curses */
static int n_cooked;
/* Of the full-screen view, while it is there, or of a reply at the prompt. */
static const char *_Atomic goodbye;
static atomic_size_t n_goodbye;

/* Held while the main thread draws, and for good by who ends the program with a last line. */
static pthread_mutex_t drawing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* A process in the background must not change the settings of the one in front. Nobody is in
 * front of one to which the terminal is just a file, say below su -c or setsid. */
static bool in_front(int fd)
{
    const pid_t front = tcgetpgrp(fd);
    return front == getpgrp() || (front < 0 && errno == ENOTTY);
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
    if (terminal >= 0 && in_front(terminal)) say_goodbye();
    if (terminal >= 0 && in_front(terminal)) tcsetattr(terminal, TCSADRAIN, &saved);
}

void tty_lend(void)
{
    if (terminal >= 0 && in_front(terminal)) tcsetattr(terminal, TCSAFLUSH, &saved);
}

void tty_recover(void)
{
    static const char sane[] = "\033[0m\033[?2004l\033[?25h\n";
    if (terminal < 0 || !in_front(terminal)) return;
    say_goodbye();
    ssize_t written = write(terminal, sane, sizeof sane - 1);
    (void)written;
    tcsetattr(terminal, TCSANOW, &saved);
}

void tty_begin_drawing(void)
{
    pthread_mutex_lock(&drawing);
}

void tty_end_drawing(void)
{
    pthread_mutex_unlock(&drawing);
}

/* A terminal that takes nothing now, as behind Ctrl-S, is not waited for long. */
static void leave_for_last_line(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_clocklock(&drawing, CLOCK_MONOTONIC, &until);
    tty_recover();
}

static void on_crash(int sig)
{
    tty_recover();
    raise(sig); /* SA_RESETHAND: now as the system does it */
}

/* A shell that reads a line of its own has other modes than those it gives a program in front.
 * In the background this stops the process, with its group, until it is brought to the front;
 * false if nobody can do that, since the group is an orphan. */
static bool come_to_front(int fd)
{
    return in_front(fd) || tcdrain(fd) == 0;
}

void tty_open(int fd)
{
    if (!isatty(fd) || !come_to_front(fd) || tcgetattr(fd, &saved) != 0) return;
    terminal = fd;
    atexit(tty_restore);
    mem_before_last_line(leave_for_last_line);
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
    tcgetattr(terminal, &ours);
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

static bool same(const struct termios *a, const struct termios *b)
{
    return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
           a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0;
}

bool tty_return(void)
{
    struct termios now;
    if (terminal < 0) return true;
    if (!in_front(terminal)) return false;
    if (tcgetattr(terminal, &now) == 0 && !same(&now, &ours)) saved = now;
    tty_quiet();
    return true;
}

int tty_take_cooked(void)
{
    int n = n_cooked;
    n_cooked = 0;
    return n;
}
