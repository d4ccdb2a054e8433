/* Turns with a disk behind them and without, in pairs: what keeping a conversation costs who
 * goes on with it.
 *
 * A turn follows at once on another whose pages have just been handed over, so with a disk the
 * queue is as full as it gets while the turn is computed. The two turns of a pair lie side by
 * side in time, in changing order: what else the machine does falls on both. Main thread. */
#ifndef APP_BENCH_DISK_TURNS_H
#define APP_BENCH_DISK_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"

struct machine;

enum { DISK_TURNS_MOST = 501 };

/* Tokens of the conversation before, of a turn's prompt and of its reply; pairs. */
struct disk_turns_plan {
    const struct ids *before;
    size_t n_prompt, n_gen, n_pairs;
    const char *folder; /* the machine's cache_dir */
    uint32_t *drawn;    /* of bench_random_ids */
};

/* Of each pair, without a disk and with one: milliseconds. */
struct disk_turns {
    double prefill[2][DISK_TURNS_MOST], decode[2][DISK_TURNS_MOST];
    double whole[2][DISK_TURNS_MOST]; /* both, and handing the turn before over */
    double after[DISK_TURNS_MOST];    /* that alone */
    size_t n_files, n_meanwhile;      /* handed over; written while the turn ran */
};

/* Runs them on m, whose timeline may hold anything. The machine's pages on disk are removed. */
bool disk_turns_run(struct machine *m, const struct disk_turns_plan *plan,
                    struct disk_turns *out, struct err *err);

#endif
