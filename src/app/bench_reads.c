#include "app/bench_reads.h"

#include <stdint.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"

enum { READ_CHUNKS = 64 };
static const size_t READ_BYTES = (size_t)1 << 30;

typedef uint64_t vector __attribute__((vector_size(32)));

struct reading {
    vector *data;
    size_t per_chunk;
    vector sum[READ_CHUNKS];
};

static void fill_chunk(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    struct reading *r = ctx;
    memset(r->data + chunk * r->per_chunk, (int)chunk + 1, r->per_chunk * sizeof *r->data);
}

static void read_chunk(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    struct reading *r = ctx;
    const vector *p = r->data + chunk * r->per_chunk;
    vector a = p[0], b = p[1], c = p[2], d = p[3];
    for (size_t i = 4; i < r->per_chunk; i += 4) {
        a ^= p[i];
        b ^= p[i + 1];
        c ^= p[i + 2];
        d ^= p[i + 3];
    }
    r->sum[chunk] = a ^ b ^ c ^ d;
}

bool bench_reads(int n_threads, double *gb_s, struct err *err)
{
    struct pool *pool = pool_new(n_threads, err);
    if (!pool) return false;
    void *data = mem_try_pages(READ_BYTES);
    if (!data) {
        pool_free(pool);
        return err_set(err, ERR_MEMORY, "no memory for reading %zu MiB", READ_BYTES >> 20);
    }
    struct reading r = {.data = data, .per_chunk = READ_BYTES / READ_CHUNKS / sizeof(vector)};
    pool_run(pool, READ_CHUNKS, fill_chunk, &r, NULL);
    double best = 0;
    for (int i = 0; i < 5; i++) {
        double start = clock_ms();
        pool_run(pool, READ_CHUNKS, read_chunk, &r, NULL);
        double speed = (double)READ_BYTES / 1e6 / (clock_ms() - start);
        best = speed > best ? speed : best;
    }
    *gb_s = best;
    mem_free_pages(data, READ_BYTES);
    pool_free(pool);
    return true;
}
