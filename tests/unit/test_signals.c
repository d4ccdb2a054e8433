/* Ctrl-C in haste is one wish; in patience, with nothing answering, it ends the program.
 * Whoever started us, the end of a child is told. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "ui/exit_status.h"
#include "ui/signals.h"

/* The exit status of body in a process of its own. */
static int status_of(void (*body)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signals_install(false);
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void out_of_patience(void)
{
    struct timespec t = {.tv_sec = SIGNALS_PATIENCE_MS / 1000, .tv_nsec = 1000000};
    nanosleep(&t, NULL);
}

static void in_haste(void)
{
    for (int i = 0; i < 5; i++)
        raise(SIGINT);
    if (!signals_take(SIGINT) || signals_come(SIGINT)) _exit(1);
}

static void in_patience(void)
{
    raise(SIGINT);
    out_of_patience();
    raise(SIGINT);
}

static void answered(void)
{
    raise(SIGINT);
    signals_take(SIGINT);
    out_of_patience();
    raise(SIGINT);
}

static void stopping(void)
{
    double first_ms = 0;
    if (!signals_first_interrupt(&first_ms) || signals_first_interrupt(&first_ms)) _exit(1);
    out_of_patience();
    signals_first_interrupt(&first_ms);
}

/* The same of body within the time of patience: on a machine that stood still meanwhile it is
 * done again. */
static int status_in_haste(void (*body)(void))
{
    for (;;) {
        const double start = clock_ms();
        const int status = status_of(body);
        if (status == 0 || clock_ms() - start < SIGNALS_PATIENCE_MS) return status;
    }
}

static void test_interrupts(void **state)
{
    (void)state;
    assert_int_equal(status_in_haste(in_haste), 0);
    assert_int_equal(status_of(in_patience), EXIT_SIGINT);
    assert_int_equal(status_of(answered), 0);
    assert_int_equal(status_of(stopping), EXIT_SIGINT);
}

/* The end of a child, as of an editor, is told also where a parent had its own ignored. */
static void child_ends(void)
{
    int status;
    signal(SIGCHLD, SIG_IGN);
    signals_install(true);
    const pid_t child = fork();
    if (child == 0) _exit(3);
    if (waitpid(child, &status, 0) != child || status != 3 << 8) _exit(1);
}

static void test_children(void **state)
{
    (void)state;
    assert_int_equal(status_of(child_ends), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_interrupts),
                                       cmocka_unit_test(test_children)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
