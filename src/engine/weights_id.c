/* A record by inode, size and time, or else a thread that reads the files. */
#include "engine/weights_id.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "cache/store_files.h"
#include "gguf/gguf.h"

struct weights_id {
    const struct gguf *gguf;
    char *record; /* where the sum is remembered; NULL: nowhere */
    bool has_thread;
    pthread_t thread;
    atomic_bool stop, done;        /* done: id holds */
    _Atomic(const char *) changed; /* the file that was written to: id will never hold */
    struct key id;

    /* How far it is read; of one thread at a time. */
    XXH3_state_t *sum;
    size_t i_file, at;
};

enum { PIECE_BYTES = 256 << 10 }; /* read between two looks at stop */

/* The name of the record: what the system said of all files of the model when they were opened.
 */
static char *record_path(const struct gguf *g, const char *dir)
{
    struct buf name = {0};
    const struct file_map *file;
    const char *path;
    for (size_t i = 0; (file = gguf_file(g, i, &path)); i++) {
        if (file->stamp.n_bytes != file->n_bytes) { /* bytes that are no file */
            buf_free(&name);
            return NULL;
        }
        buf_append(&name, &file->stamp, sizeof file->stamp);
    }
    XXH128_hash_t sum = XXH3_128bits(name.data, name.len);
    buf_clear(&name);
    buf_printf(&name, "%s/%016llx%016llx", dir, (unsigned long long)sum.high64,
               (unsigned long long)sum.low64);
    return buf_take(&name);
}

/* A file that was written to since it was opened; NULL: none. One that another took the place
 * of is still mapped as it was. */
static const char *find_changed(const struct gguf *g)
{
    const struct file_map *file;
    const char *path;
    for (size_t i = 0; (file = gguf_file(g, i, &path)); i++) {
        const struct file_stamp *was = &file->stamp;
        struct file_stamp is;
        if (!file_stamp(path, &is) || !file_is_same(&is, was)) continue;
        if (is.n_bytes != was->n_bytes || is.modified_s != was->modified_s ||
            is.modified_ns != was->modified_ns)
            return path;
    }
    return NULL;
}

/* A record is the sum and the sum's own checksum. */
struct record {
    struct key id;
    uint64_t check;
};

static bool recall(struct weights_id *w)
{
    struct buf file = {0};
    struct record r;
    bool ok = w->record && file_read_plain(w->record, sizeof r, &file) && file.len == sizeof r;
    if (ok) {
        memcpy(&r, file.data, sizeof r);
        ok = r.check == XXH3_64bits(&r.id, sizeof r.id);
    }
    if (ok) w->id = r.id;
    buf_free(&file);
    return ok;
}

static void remember(const struct weights_id *w)
{
    struct record r = {.id = w->id, .check = XXH3_64bits(&w->id, sizeof w->id)};
    struct err ignored; /* then it is read again next time */
    if (w->record) store_files_write(w->record, &r, sizeof r, &ignored);
}

const char *weights_id_changed(struct weights_id *w)
{
    return atomic_load(&w->changed);
}

/* Until the end of all files: false where it is stopped before, behind a piece. */
static bool sum_files(struct weights_id *w, uint8_t room[PIECE_BYTES], const atomic_bool *stop)
{
    const struct file_map *file;
    const char *path;
    for (; (file = gguf_file(w->gguf, w->i_file, &path)); w->i_file++, w->at = 0) {
        const size_t n_bytes = file->n_bytes;
        if (w->at == 0) XXH3_128bits_update(w->sum, &n_bytes, sizeof n_bytes);
        while (w->at < n_bytes) {
            const size_t left = n_bytes - w->at, n = left < PIECE_BYTES ? left : PIECE_BYTES;
            const void *bytes = file_map_bytes(file->data + w->at, n, room);
            XXH3_128bits_update(w->sum, bytes, n);
            /* Weights that were copied would be in memory twice from now on. */
            if (bytes != room) file_map_release(file, bytes, n);
            w->at += n;
            if (cancel_is_set(stop)) return false;
        }
    }
    return true;
}

/* Goes on reading, until the end or until it is stopped. */
static void read_on(struct weights_id *w, const atomic_bool *stop)
{
    uint8_t *room = mem_alloc(PIECE_BYTES);
    const bool done = sum_files(w, room, stop);
    free(room);
    if (!done) return;
    atomic_store(&w->changed, find_changed(w->gguf));
    if (weights_id_changed(w)) return;
    XXH128_hash_t id = XXH3_128bits_digest(w->sum);
    w->id = (struct key){id.low64, id.high64};
    remember(w);
    atomic_store(&w->done, true);
}

static void *read_idly(void *arg)
{
    struct weights_id *w = arg;
    const struct sched_param none = {0};
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    read_on(w, &w->stop);
    return NULL;
}

static void start_thread(struct weights_id *w)
{
    w->has_thread = pthread_create(&w->thread, NULL, read_idly, w) == 0;
}

static void stop_thread(struct weights_id *w)
{
    if (!w->has_thread) return;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    w->has_thread = false;
    atomic_store(&w->stop, false);
}

struct weights_id *weights_id_new(const struct gguf *g, const char *dir)
{
    struct weights_id *w = mem_zalloc(1, sizeof *w);
    w->gguf = g;
    w->record = record_path(g, dir);
    w->sum = mem_need(XXH3_createState());
    XXH3_128bits_reset(w->sum);
    if (recall(w))
        atomic_store(&w->done, true);
    else
        start_thread(w);
    return w;
}

void weights_id_free(struct weights_id *w)
{
    if (!w) return;
    stop_thread(w);
    XXH3_freeState(w->sum);
    free(w->record);
    free(w);
}

bool weights_id_known(struct weights_id *w, struct key *id)
{
    if (!atomic_load(&w->done)) return false;
    *id = w->id;
    return true;
}

bool weights_id_wait(struct weights_id *w, const atomic_bool *cancel, struct key *id)
{
    /* On a busy machine a thread of idle priority may stand still for long: the rest is read
     * by who waits. */
    stop_thread(w);
    if (!atomic_load(&w->done) && !weights_id_changed(w)) {
        read_on(w, cancel);
        if (!atomic_load(&w->done) && !weights_id_changed(w)) start_thread(w);
    }
    return weights_id_known(w, id);
}
