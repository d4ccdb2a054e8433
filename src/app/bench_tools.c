/* Seeded ids, medians, a folder. */
#include "app/bench_tools.h"

#include <assert.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/philox.h"

void bench_random_ids(struct ids *ids, size_t n, size_t n_vocab, uint32_t *drawn)
{
    while (n-- > 0)
        ids_push(ids, (int32_t)(philox(1, (*drawn)++, 0, 0, PHILOX_BENCH).word[0] % n_vocab));
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

bool bench_folder_make(struct buf *path, struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    buf_printf(path, "%s/hearth-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(path->data)) return true;
    err_set(err, ERR_IO, "%s: %s", path->data, strerror(errno));
    buf_clear(path);
    return false;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void bench_folder_remove(struct buf *path)
{
    if (path->len) nftw(path->data, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    buf_free(path);
}
