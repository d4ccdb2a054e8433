/* Numbers of options, seeded ids, medians, what is on disk, a folder. */
#include "app/bench_tools.h"

#include <assert.h>
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/command_line.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/printable.h"
#include "config/paths.h"
#include "engine/disk.h"
#include "engine/machine.h"

void bench_random_ids(struct ids *ids, size_t n, size_t n_vocab, uint32_t *drawn)
{
    while (n-- > 0)
        ids_push(ids, (int32_t)(philox(1, (*drawn)++, 0, 0, PHILOX_BENCH).word[0] % n_vocab));
}

/* Returns what follows the number at text; NULL: there is none of least to most. */
static const char *read_number(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    char *end;
    errno = 0;
    const long v = strtol(text, &end, 10);
    if (end == text || errno || v < (long)least || v > (long)most) return NULL;
    *out = (uint32_t)v;
    return end;
}

bool bench_count_parse(const char *name, const char *text, uint32_t least, uint32_t most,
                       uint32_t *out, struct err *err)
{
    char shown[48];
    const char *end = read_number(text, least, most, out);
    if (end && *end == '\0') return true;
    return err_set(err, ERR_USER, "--%s is '%s', expected a number of %u to %u", name,
                   printable(shown, sizeof shown, text, strlen(text)), least, most);
}

bool bench_list_parse(const char *name, const char *text, uint32_t least, uint32_t most,
                      struct bench_list *out, struct err *err)
{
    char shown[48];
    const char *p = text;
    for (out->n = 0; out->n < BENCH_LIST_MOST; p++) {
        p = read_number(p, least, most, &out->v[out->n++]);
        if (p && *p == '\0') return true;
        if (!p || *p != ',') break;
    }
    return err_set(err, ERR_USER,
                   "--%s is '%s', expected up to %d numbers of %u to %u with commas between",
                   name, printable(shown, sizeof shown, text, strlen(text)), BENCH_LIST_MOST,
                   least, most);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *v, size_t n)
{
    assert(n > 0);
    double *sorted = mem_zalloc(n, sizeof *sorted);
    memcpy(sorted, v, n * sizeof *v);
    qsort(sorted, n, sizeof *sorted, by_size);
    double middle = sorted[n / 2];
    free(sorted);
    return middle;
}

/* How many of n coins that fall either way lie on one side so rarely that it happens on either
 * side in at most 5 of 100 cases: their rank is out of the question for the median. */
static size_t out_of_question(size_t n)
{
    double p = pow(0.5, (double)n), sum = p;
    size_t k = 0;
    while (sum <= 0.025 && k < n / 2) {
        k++;
        p *= (double)(n - k + 1) / (double)k;
        sum += p;
    }
    return k;
}

struct bench_change bench_change(const double *a, const double *b, size_t n)
{
    assert(n > 0);
    double *percent = mem_zalloc(n, sizeof *percent);
    for (size_t i = 0; i < n; i++)
        percent[i] = (a[i] / b[i] - 1) * 100;
    qsort(percent, n, sizeof *percent, by_size);
    const size_t k = out_of_question(n), first = k > 0 ? k - 1 : 0;
    const struct bench_change c = {percent[n / 2], percent[first], percent[n - 1 - first]};
    free(percent);
    return c;
}

int bench_failed(const struct err *err)
{
    return err->code == ERR_USAGE ? usage_error("bench", "%s", err->msg) : runtime_error(err);
}

bool bench_is_kept(const struct machine *m, struct err *err)
{
    disk_drain(m->disk);
    return !disk_trouble(m->disk, err) && (!m->draft || bench_is_kept(m->draft, err));
}

/* ---- a folder that goes away again ---- */

/* Waits for what ends the program while the folder is there. The other threads, which begin
 * later, take no such signal. */
static struct {
    const char *path; /* the maker's */
    pthread_t thread;
    bool has_thread;
    sigset_t ends, before;
} keeper;

/* What is gone already is as good: a writer may be at work there. */
static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void bench_tree_remove(const char *path)
{
    while (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno == ENOTEMPTY)
        continue;
}

/* What nohup and a shell's background jobs ignore stays ignored. */
static void block_ends(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(&keeper.ends);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old;
        sigaction(signals[i], NULL, &old);
        if (old.sa_handler == SIG_DFL) sigaddset(&keeper.ends, signals[i]);
    }
    pthread_sigmask(SIG_BLOCK, &keeper.ends, &keeper.before);
}

static void unblock_ends(void)
{
    pthread_sigmask(SIG_SETMASK, &keeper.before, NULL);
}

/* Removes the folder when nobody of the process is left, who would make it anew to write there.
 */
static _Noreturn void remove_behind(pid_t process)
{
    const struct timespec a_moment = {.tv_nsec = 1000000};
    while (getppid() == process)
        nanosleep(&a_moment, NULL);
    bench_tree_remove(keeper.path);
    _exit(0);
}

static void *keeper_main(void *unused)
{
    int sig;
    (void)unused;
    if (sigwait(&keeper.ends, &sig) != 0) return NULL;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    const pid_t process = getpid(), remover = fork();
    if (remover == 0) remove_behind(process);
    if (remover < 0) bench_tree_remove(keeper.path);
    signal(sig, SIG_DFL);
    unblock_ends();
    raise(sig);
    return NULL;
}

static void keeper_start(const char *path)
{
    keeper.path = path;
    keeper.has_thread = pthread_create(&keeper.thread, NULL, keeper_main, NULL) == 0;
    if (!keeper.has_thread) unblock_ends();
}

static void keeper_stop(void)
{
    if (!keeper.has_thread) return;
    pthread_cancel(keeper.thread);
    pthread_join(keeper.thread, NULL);
    unblock_ends();
    keeper.has_thread = false;
}

bool bench_folder_make(struct buf *path, struct err *err)
{
    buf_printf(path, "%s/hearth-bench-XXXXXX", paths_temporary());
    block_ends(); /* until the keeper takes them */
    if (mkdtemp(path->data)) {
        keeper_start(path->data);
        return true;
    }
    err_set(err, ERR_IO, "%s: %s", path->data, strerror(errno));
    unblock_ends();
    buf_clear(path);
    return false;
}

void bench_folder_remove(struct buf *path)
{
    if (path->len) bench_tree_remove(path->data);
    keeper_stop();
    buf_free(path);
}
