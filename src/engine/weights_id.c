#include "engine/weights_id.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cache/store_files.h"
#include "gguf/gguf.h"

struct weights_id {
    const struct gguf *gguf;
    char *record; /* where the sum is remembered; NULL: nowhere */
    bool has_thread;
    pthread_t thread;
    atomic_bool stop, done; /* done: id holds */
    struct key id;
};

enum { PIECE_BYTES = 4 << 20 }; /* read between two looks at stop */

/* The name of the record: what the system says of all files of the model. */
static char *record_path(const struct gguf *g, const char *dir)
{
    struct {
        uint64_t device, inode, size;
        struct timespec modified, changed;
    } seen;
    struct buf name = {0};
    const char *path;
    const uint8_t *data;
    size_t n_bytes;
    for (size_t i = 0; gguf_file(g, i, &path, &data, &n_bytes); i++) {
        struct stat st;
        memset(&seen, 0, sizeof seen);
        if (stat(path, &st) == 0) {
            seen.device = st.st_dev;
            seen.inode = st.st_ino;
            seen.size = (uint64_t)st.st_size;
            seen.modified = st.st_mtim;
            seen.changed = st.st_ctim;
        }
        if (seen.size != n_bytes) { /* replaced since it was mapped */
            buf_free(&name);
            return NULL;
        }
        buf_append(&name, &seen, sizeof seen);
    }
    XXH128_hash_t sum = XXH3_128bits(name.data, name.len);
    buf_clear(&name);
    buf_printf(&name, "%s/%016llx%016llx", dir, (unsigned long long)sum.high64,
               (unsigned long long)sum.low64);
    return buf_take(&name);
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
    bool ok = w->record && store_files_read(w->record, sizeof r, &file) && file.len == sizeof r;
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

static void *read_all(void *arg)
{
    struct weights_id *w = arg;
    const struct sched_param none = {0};
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    XXH3_state_t *sum = mem_need(XXH3_createState());
    XXH3_128bits_reset(sum);
    const char *path;
    const uint8_t *data;
    size_t n_bytes;
    for (size_t i = 0; gguf_file(w->gguf, i, &path, &data, &n_bytes); i++) {
        XXH3_128bits_update(sum, &n_bytes, sizeof n_bytes);
        for (size_t at = 0; at < n_bytes && !atomic_load(&w->stop); at += PIECE_BYTES) {
            size_t n = n_bytes - at < PIECE_BYTES ? n_bytes - at : PIECE_BYTES;
            XXH3_128bits_update(sum, data + at, n);
        }
    }
    XXH128_hash_t id = XXH3_128bits_digest(sum);
    XXH3_freeState(sum);
    if (atomic_load(&w->stop)) return NULL;
    w->id = (struct key){id.low64, id.high64};
    remember(w);
    atomic_store(&w->done, true);
    return NULL;
}

struct weights_id *weights_id_new(const struct gguf *g, const char *dir)
{
    struct weights_id *w = mem_zalloc(1, sizeof *w);
    w->gguf = g;
    w->record = record_path(g, dir);
    if (recall(w))
        atomic_store(&w->done, true);
    else
        w->has_thread = pthread_create(&w->thread, NULL, read_all, w) == 0;
    return w;
}

void weights_id_free(struct weights_id *w)
{
    if (!w) return;
    atomic_store(&w->stop, true);
    if (w->has_thread) pthread_join(w->thread, NULL);
    free(w->record);
    free(w);
}

bool weights_id_known(struct weights_id *w, struct key *id)
{
    if (!atomic_load(&w->done)) return false;
    *id = w->id;
    return true;
}

struct key weights_id_wait(struct weights_id *w)
{
    if (w->has_thread) {
        pthread_join(w->thread, NULL);
        w->has_thread = false;
    } else if (!atomic_load(&w->done)) {
        read_all(w);
    }
    return w->id;
}
