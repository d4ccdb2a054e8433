/* A queue of jobs, and the threads that write them: an idle one, and those of a flush. */
#include "cache/store.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/wait.h"
#include "cache/reader.h"
#include "cache/rooms.h"
#include "cache/store_files.h"

struct job {
    struct job *next;
    struct blob_id id; /* its ids are those below */
    int32_t *ids;
    char *path;
    struct blob_content raw; /* without data if that is lent */
    void *room;              /* the data, if it is the store's own; NULL: it is lent */
    struct pieces lent;
    atomic_uint *n_readers; /* of what is lent */
};

/* While nothing is put for so long no rooms are kept. */
static const double SPARE_MS = 60000;

struct store {
    char *dir, *model;
    uint64_t cap_bytes;

    /* The caller's thread. */
    struct reader *reader;
    bool has_thread, trouble_told;
    pthread_t thread;

    struct rooms rooms;

    atomic_bool give_back; /* the thread puts back the job that it holds */

    /* Under lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first, **end;
    uint64_t queued_bytes;
    bool has_spare;                          /* rooms of what was written, for SPARE_MS */
    bool is_busy, hurry, closing, is_broken; /* hurry: somebody waits for the queue */
    struct err trouble;
    size_t n_written;
    uint64_t written_bytes, packed_bytes;
    /* Whoever has written keeps the folder to its size, one at a time. */
    bool is_shrinking, measured;
    uint64_t unseen_bytes; /* written since the folder was last measured */
};

/* What waits; a page of a large model has some 20 MiB. */
static const uint64_t QUEUE_BYTES = 128u << 20;
/* Measured on f16 and q8_0 pages: one core of an AMD EPYC packs about 600 megabytes of f16 in a
 * second and unpacks about 1000 (2026-11). Higher levels take several times as long and gain
 * less than one part in a hundred on bytes that are noise in half of their planes. */
enum { LEVEL = 1 };
/* Beyond this writing waits for memory. */
enum { MAX_THREADS = 4 };

static char *path_of(const struct store *s, const struct blob_id *id)
{
    return store_files_path(s->dir, s->model, id->kind, &id->key);
}

struct store *store_new(const char *dir, const char *model, uint64_t cap_bytes)
{
    struct store *s = mem_zalloc(1, sizeof *s);
    s->dir = mem_strdup(dir);
    s->model = mem_strdup(model);
    s->cap_bytes = cap_bytes;
    s->reader = reader_new(s->dir, s->model);
    s->end = &s->first;
    rooms_init(&s->rooms);
    pthread_mutex_init(&s->lock, NULL);
    wait_init(&s->changed);
    /* A folder that cannot be written is known, and said, before there is anything to write. */
    char *path = path_of(s, &(struct blob_id){.kind = BLOB_PAGE});
    s->is_broken = !store_files_prepare(path, &s->trouble);
    free(path);
    return s;
}

/* Writing. */

static void job_free(struct job *job)
{
    free(job->ids);
    free(job->path);
    mem_free_pages(job->room, job->raw.n_bytes);
    if (job->n_readers) atomic_fetch_sub(job->n_readers, 1);
    free(job);
}

/* Takes path. */
static struct job *job_new(const struct blob_id *id, char *path)
{
    struct job *job = mem_zalloc(1, sizeof *job);
    job->path = path;
    job->ids = mem_alloc(id->n_ids * sizeof *job->ids);
    if (id->n_ids) memcpy(job->ids, id->ids, id->n_ids * sizeof *job->ids);
    job->id = *id;
    job->id.ids = job->ids;
    return job;
}

static void set_trouble(struct store *s, const struct err *err)
{
    pthread_mutex_lock(&s->lock);
    if (!s->is_broken) s->trouble = *err;
    s->is_broken = true;
    pthread_mutex_unlock(&s->lock);
}

/* Whether it is time to look how large the folder is, and nobody is at it; then *n_unseen is
 * what will be seen. */
static bool begin_shrinking(struct store *s, size_t n_bytes, uint64_t *n_unseen)
{
    pthread_mutex_lock(&s->lock);
    s->unseen_bytes += n_bytes;
    *n_unseen = s->unseen_bytes;
    const bool begins = !s->is_shrinking && s->unseen_bytes > 0 &&
                        (!s->measured || s->unseen_bytes >= s->cap_bytes / 16);
    s->is_shrinking |= begins;
    pthread_mutex_unlock(&s->lock);
    return begins;
}

static void end_shrinking(struct store *s, bool done, uint64_t n_unseen)
{
    pthread_mutex_lock(&s->lock);
    s->is_shrinking = false;
    if (done) s->unseen_bytes -= n_unseen;
    s->measured |= done;
    pthread_mutex_unlock(&s->lock);
}

static bool shrink_now(struct store *s, const atomic_bool *stop, struct err *err)
{
    const struct store_patience patience = {.stop = stop};
    struct store_total left;
    if (!store_files_shrink(s->dir, s->cap_bytes, &patience, &left, NULL, err)) return false;
    /* Full: make room for what comes until the next look. */
    return left.n_bytes < s->cap_bytes - s->cap_bytes / 16 ||
           store_files_shrink(s->dir, s->cap_bytes - s->cap_bytes / 8, &patience, NULL, NULL,
                              err);
}

/* Keeps the folder to its size, now and then, after n_bytes were written. It never waits: while
 * another process, or another thread here, is at it, or *stop is true, it is for the next
 * time. */
static bool shrink(struct store *s, size_t n_bytes, const atomic_bool *stop, struct err *err)
{
    uint64_t n_unseen;
    if (!begin_shrinking(s, n_bytes, &n_unseen)) return true;
    const bool done = shrink_now(s, stop, err);
    end_shrinking(s, done, n_unseen);
    return done || err->code == ERR_CANCELLED;
}

/* What one thread writes with. */
struct hand {
    struct blob_codec *codec;
    struct buf joined, packed; /* pieces that were lent; the blob */
};

static void hand_empty(struct hand *h)
{
    buf_free(&h->joined);
    buf_free(&h->packed);
}

static void hand_free(struct hand *h)
{
    blob_codec_free(h->codec);
    hand_empty(h);
}

/* The bytes of a job, its own or those that are lent. False without memory, or once *stop is
 * true where they would have to be joined. */
static bool take_raw(struct hand *h, const struct job *job, const atomic_bool *stop,
                     struct blob_content *raw, struct err *err)
{
    *raw = job->raw;
    if (job->room) return true;
    raw->data = job->lent.data;
    if (pieces_are_joined(&job->lent)) return true;
    if (cancel_is_set(stop)) return err_set(err, ERR_CANCELLED, "cancelled");
    if (!buf_try_resize(&h->joined, raw->n_bytes))
        return err_set(err, ERR_MEMORY, "no memory for %zu bytes that are written",
                       raw->n_bytes);
    pieces_join(&job->lent, h->joined.data, raw->n_bytes);
    raw->data = h->joined.data;
    return true;
}

/* False if *stop became true before anything was written; later it just ends the look at the
 * folder. */
static bool write_job(struct store *s, struct hand *h, const struct job *job,
                      const atomic_bool *stop)
{
    struct err err;
    struct blob_content raw;
    if (!take_raw(h, job, stop, &raw, &err) ||
        !blob_pack(h->codec, &job->id, &raw, LEVEL, stop, &h->packed, &err)) {
        if (err.code == ERR_CANCELLED) return false;
        set_trouble(s, &err);
        return true;
    }
    const size_t n_packed = h->packed.len;
    const bool fits = n_packed <= s->cap_bytes;
    bool ok = !fits || store_files_write(job->path, h->packed.data, n_packed, &err);
    if (ok && fits) store_files_touch(job->path, job->id.n_tokens);
    /* Of more than all that may be kept nothing is written; what is there may be too much, too,
     * which is looked at once. */
    ok = ok && shrink(s, fits ? n_packed : 1, stop, &err);
    if (!ok) set_trouble(s, &err);
    if (!ok || !fits) return true;
    pthread_mutex_lock(&s->lock);
    s->n_written++;
    s->written_bytes += job->raw.n_bytes;
    s->packed_bytes += n_packed;
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* Takes the first job; the lock is held. */
static struct job *take(struct store *s)
{
    struct job *job = s->first;
    if (!job) return NULL;
    s->first = job->next;
    if (!s->first) s->end = &s->first;
    return job;
}

static void put_back(struct store *s, struct job *job)
{
    job->next = s->first;
    s->first = job;
    if (!job->next) s->end = &job->next;
}

/* Writes one job of the queue, or puts it back once *stop is true; the lock is held before and
 * after. False: there is none. */
static bool run_one(struct store *s, struct hand *h, const atomic_bool *stop)
{
    struct job *job = take(s);
    if (!job) return false;
    bool skip = s->is_broken;
    pthread_mutex_unlock(&s->lock);
    /* The file is there if the blob was put twice, or if another process wrote it. */
    bool done = skip || access(job->path, F_OK) == 0 || write_job(s, h, job, stop);
    size_t n_raw = job->raw.n_bytes;
    if (done) {
        rooms_keep(&s->rooms, job->room, n_raw);
        job->room = NULL;
        job_free(job);
    }
    pthread_mutex_lock(&s->lock);
    s->has_spare |= done;
    if (done)
        s->queued_bytes -= n_raw;
    else
        put_back(s, job);
    pthread_cond_broadcast(&s->changed);
    return true;
}

/* Whether a thread has the processor only when nobody else wants it. Back from that it comes
 * only where RLIMIT_NICE allows a niceness of 0, or for root; elsewhere it stays idle. */
static void set_idle(pthread_t thread, bool is_idle)
{
    pthread_setschedparam(thread, is_idle ? SCHED_IDLE : SCHED_OTHER, &(struct sched_param){0});
}

/* Processor and disk only when nobody else wants them. */
static void be_idle(void)
{
    set_idle(pthread_self(), true);
    enum { WHO_PROCESS = 1, CLASS_IDLE = 3, CLASS_SHIFT = 13 };
    syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE << CLASS_SHIFT);
}

static void *writer_main(void *arg)
{
    struct store *s = arg;
    struct hand hand = {.codec = blob_codec_new()};
    be_idle();
    pthread_mutex_lock(&s->lock);
    while (!s->closing) {
        if (s->has_spare && !s->first && !s->is_busy) {
            if (wait_ms(&s->changed, &s->lock, SPARE_MS)) continue;
            rooms_clear(&s->rooms);
            hand_empty(&hand);
            s->has_spare = false;
        } else if (!s->first || s->hurry || s->is_busy) {
            if (s->hurry) hand_empty(&hand); /* those who hurry have theirs */
            pthread_cond_wait(&s->changed, &s->lock);
        } else {
            atomic_store(&s->give_back, false);
            run_one(s, &hand, &s->give_back);
        }
    }
    pthread_mutex_unlock(&s->lock);
    hand_free(&hand);
    return NULL;
}

/* Without a thread the queue is written by store_flush alone. */
static void need_thread(struct store *s)
{
    if (!s->has_thread) s->has_thread = pthread_create(&s->thread, NULL, writer_main, s) == 0;
}

static bool has_room(struct store *s, size_t n_raw, bool *is_empty)
{
    assert(n_raw > 0);
    pthread_mutex_lock(&s->lock);
    *is_empty = s->queued_bytes == 0;
    const bool has = !s->is_broken && (*is_empty || s->queued_bytes + n_raw <= QUEUE_BYTES);
    pthread_mutex_unlock(&s->lock);
    return has;
}

bool store_has_room(struct store *s, size_t n_raw)
{
    bool is_empty;
    return has_room(s, n_raw, &is_empty);
}

void *store_room(struct store *s, size_t n_raw)
{
    bool is_empty;
    if (!has_room(s, n_raw, &is_empty)) return NULL;
    void *room = rooms_take(&s->rooms, n_raw);
    if (!room && is_empty) {
        struct err err;
        err_set(&err, ERR_MEMORY, "no memory for %zu bytes that wait to be written", n_raw);
        set_trouble(s, &err);
    }
    return room;
}

void store_return(void *room, size_t n_raw)
{
    mem_free_pages(room, n_raw);
}

bool store_is_broken(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    const bool is_broken = s->is_broken;
    pthread_mutex_unlock(&s->lock);
    return is_broken;
}

/* Whether there is something to be done for the blob: it can be kept, and is not yet. */
static bool is_wanted(struct store *s, const struct blob_id *id, const char *path, size_t n_raw)
{
    if (store_is_broken(s) || n_raw > BLOB_MAX_BYTES || id->n_ids > BLOB_MAX_IDS) return false;
    if (access(path, F_OK) != 0) return true;
    store_files_touch(path, id->n_tokens);
    return false;
}

static void put(struct store *s, struct job *job)
{
    if (!is_wanted(s, &job->id, job->path, job->raw.n_bytes)) {
        job_free(job);
        return;
    }
    pthread_mutex_lock(&s->lock);
    *s->end = job;
    s->end = &job->next;
    s->queued_bytes += job->raw.n_bytes;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    need_thread(s);
}

void store_put(struct store *s, const struct blob_id *id, void *raw, size_t n_raw,
               unsigned element_bytes)
{
    struct job *job = job_new(id, path_of(s, id));
    job->raw = (struct blob_content){raw, n_raw, element_bytes};
    job->room = raw;
    put(s, job);
}

void store_put_lent(struct store *s, const struct blob_id *id, struct pieces raw, size_t n_raw,
                    unsigned element_bytes, atomic_uint *n_readers)
{
    struct job *job = job_new(id, path_of(s, id));
    job->raw = (struct blob_content){NULL, n_raw, element_bytes};
    job->lent = raw;
    job->n_readers = n_readers;
    put(s, job);
}

void store_set_busy(struct store *s, bool is_busy)
{
    pthread_mutex_lock(&s->lock);
    s->is_busy = is_busy;
    if (is_busy) atomic_store(&s->give_back, true);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Writes until nobody has left anything. */
static void *help(void *arg)
{
    struct store *s = arg;
    struct hand hand = {.codec = blob_codec_new()};
    pthread_mutex_lock(&s->lock);
    while (run_one(s, &hand, NULL))
        ;
    pthread_mutex_unlock(&s->lock);
    hand_free(&hand);
    return NULL;
}

/* How many threads have something to do, the caller among them; the lock is held. */
static size_t useful_threads(const struct store *s)
{
    size_t most = (size_t)pool_usable_cores(), n = 0;
    if (most > MAX_THREADS) most = MAX_THREADS;
    for (const struct job *job = s->first; job && n < most; job = job->next)
        n++;
    return n;
}

/* What the idle thread broke off for who waits. */
static void shrink_again(struct store *s)
{
    struct err err;
    if (!store_is_broken(s) && !shrink(s, 0, NULL, &err)) set_trouble(s, &err);
}

void store_flush(struct store *s)
{
    pthread_t helpers[MAX_THREADS];
    size_t n = 0;
    struct hand hand = {.codec = blob_codec_new()};
    pthread_mutex_lock(&s->lock);
    /* On a busy machine the idle thread may stand still with a job in hand for seconds: it is
     * not idle while it gives that back. */
    s->hurry = true;
    atomic_store(&s->give_back, true);
    if (s->has_thread) set_idle(s->thread, false);
    const size_t most = useful_threads(s);
    while (n + 1 < most && pthread_create(&helpers[n], NULL, help, s) == 0)
        n++;
    while (s->queued_bytes > 0)
        if (!run_one(s, &hand, NULL)) pthread_cond_wait(&s->changed, &s->lock);
    s->hurry = false;
    if (s->has_thread) set_idle(s->thread, true);
    pthread_mutex_unlock(&s->lock);
    while (n > 0)
        pthread_join(helpers[--n], NULL);
    hand_free(&hand);
    shrink_again(s);
}

bool store_trouble(struct store *s, struct err *err)
{
    pthread_mutex_lock(&s->lock);
    bool tell = s->is_broken && !s->trouble_told;
    if (tell) *err = s->trouble;
    pthread_mutex_unlock(&s->lock);
    s->trouble_told |= tell;
    return tell;
}

void store_free(struct store *s)
{
    if (!s) return;
    store_flush(s);
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    if (s->has_thread) set_idle(s->thread, false);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread) pthread_join(s->thread, NULL);
    rooms_destroy(&s->rooms);
    reader_free(s->reader);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s->dir);
    free(s->model);
    free(s);
}

/* Reading. */

bool store_get(struct store *s, const struct blob_id *id, void *raw, size_t n_raw)
{
    return reader_get(s->reader, id, raw, n_raw);
}

size_t store_get_row(struct store *s, const struct blob_id *ids, size_t n, size_t n_raw,
                     store_got_fn *got, void *user, const atomic_bool *cancel)
{
    const struct reader_row row = {ids, n, n_raw, got, user, cancel};
    return reader_get_row(s->reader, &row);
}

void store_touch(struct store *s, const struct blob_id *id)
{
    char *path = path_of(s, id);
    store_files_touch(path, id->n_tokens);
    free(path);
}

/* What points to the first job of this blob in the queue, or to the NULL at its end; the lock
 * is held. */
static struct job **find_job(struct store *s, const struct blob_id *id)
{
    struct job **at = &s->first;
    for (; *at; at = &(*at)->next) {
        const struct blob_id *of = &(*at)->id;
        if (of->kind == id->kind && key_compare(&of->key, &id->key) == 0) break;
    }
    return at;
}

void store_drop(struct store *s, const struct blob_id *id)
{
    pthread_mutex_lock(&s->lock);
    struct job **at = find_job(s, id), *job = *at;
    if (job) {
        *at = job->next;
        if (!*at) s->end = at;
        s->queued_bytes -= job->raw.n_bytes;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    if (job) job_free(job);
    char *path = path_of(s, id);
    unlink(path);
    free(path);
}

bool store_waits(struct store *s, const struct blob_id *id)
{
    pthread_mutex_lock(&s->lock);
    const bool waits = *find_job(s, id) != NULL;
    pthread_mutex_unlock(&s->lock);
    return waits;
}

bool store_has(struct store *s, const struct blob_id *id)
{
    char *path = path_of(s, id);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

struct key *store_keys(struct store *s, enum blob_kind kind, size_t *n)
{
    return store_files_keys(s->dir, s->model, kind, n);
}

struct store_counts store_counts(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    const struct store_counts counts = {s->n_written, s->written_bytes, s->packed_bytes};
    pthread_mutex_unlock(&s->lock);
    return counts;
}
