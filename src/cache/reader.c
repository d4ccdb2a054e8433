/* Whoever is free takes the next file of a row; contents are handed over under a lock. */
#include "cache/reader.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cache/store_files.h"

/* Beyond this reading waits for memory. */
enum { MAX_THREADS = 4 };

/* What one thread reads with. */
struct hand {
    struct blob_codec *codec;
    struct buf file;
};

struct reader {
    const char *dir, *model;
    struct hand hands[MAX_THREADS]; /* the first is the caller's */
};

struct reader *reader_new(const char *dir, const char *model)
{
    struct reader *r = mem_zalloc(1, sizeof *r);
    r->dir = dir;
    r->model = model;
    for (int i = 0; i < MAX_THREADS; i++)
        r->hands[i].codec = blob_codec_new();
    return r;
}

void reader_free(struct reader *r)
{
    if (!r) return;
    for (int i = 0; i < MAX_THREADS; i++) {
        blob_codec_free(r->hands[i].codec);
        buf_free(&r->hands[i].file);
    }
    free(r);
}

/* Whether there is what can be no blob: a read that fails for another reason says nothing. */
static bool is_no_blob(const char *path, size_t most)
{
    struct stat st;
    return stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || (uintmax_t)st.st_size > most);
}

static bool read_one(const struct reader *r, struct hand *h, const struct blob_id *id,
                     void *raw, size_t n_raw)
{
    struct err err = {0};
    char *path = store_files_path(r->dir, r->model, id->kind, &id->key);
    size_t most = BLOB_HEAD_BYTES + id->n_ids * sizeof *id->ids + 2 * n_raw + 1024;
    bool there = file_read_plain(path, most, &h->file);
    bool ok = there && blob_unpack(h->codec, h->file.data, h->file.len, id, raw, n_raw, &err);
    if (ok) store_files_touch(path, id->n_tokens);
    /* Damaged: out of the way of a good one. A sound blob of other tokens stays. */
    if (there ? !ok && err.code == ERR_FORMAT : is_no_blob(path, most)) unlink(path);
    free(path);
    return ok;
}

bool reader_get(struct reader *r, const struct blob_id *id, void *raw, size_t n_raw)
{
    return read_one(r, &r->hands[0], id, raw, n_raw);
}

/* ---- a row ---- */

struct run {
    const struct reader *reader;
    const struct reader_row *row;
    atomic_size_t next;    /* the first that nobody has taken */
    atomic_size_t missing; /* the first that missed, so far; n: none */
    pthread_mutex_t lock;  /* of got */
};

struct task {
    struct run *run;
    struct hand *hand;
    pthread_t thread;
};

static void missed(struct run *run, size_t i)
{
    size_t first = atomic_load(&run->missing);
    while (i < first && !atomic_compare_exchange_weak(&run->missing, &first, i))
        ;
}

static void *take_files(void *arg)
{
    struct task *t = arg;
    struct run *run = t->run;
    const struct reader_row *row = run->row;
    void *raw = malloc(row->n_raw);
    for (;;) {
        /* A miss is noted in any case: whoever has taken a number answers for it. */
        size_t i = atomic_fetch_add(&run->next, 1);
        if (i >= atomic_load(&run->missing)) break;
        if (!raw || cancel_is_set(row->cancel) ||
            !read_one(run->reader, t->hand, &row->ids[i], raw, row->n_raw)) {
            missed(run, i);
            break;
        }
        pthread_mutex_lock(&run->lock);
        row->got(row->user, i, raw);
        pthread_mutex_unlock(&run->lock);
    }
    free(raw);
    return NULL;
}

size_t reader_get_row(struct reader *r, const struct reader_row *row)
{
    struct run run = {.reader = r, .row = row, .missing = row->n};
    struct task tasks[MAX_THREADS];
    size_t most = (size_t)pool_usable_cores(), n = 1;
    if (most > MAX_THREADS) most = MAX_THREADS;
    if (most > row->n) most = row->n;
    pthread_mutex_init(&run.lock, NULL);
    for (size_t i = 0; i < MAX_THREADS; i++)
        tasks[i] = (struct task){.run = &run, .hand = &r->hands[i]};
    while (n < most && pthread_create(&tasks[n].thread, NULL, take_files, &tasks[n]) == 0)
        n++;
    take_files(&tasks[0]);
    while (n > 1)
        pthread_join(tasks[--n].thread, NULL);
    pthread_mutex_destroy(&run.lock);
    for (size_t i = 0; i < MAX_THREADS; i++)
        buf_free(&r->hands[i].file);
    return atomic_load(&run.missing);
}
