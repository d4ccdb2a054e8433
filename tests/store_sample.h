/* What the tests of blobs and of the store share: samples with a number each, and a folder for
 * the pages.
 *
 * No include guard: one includer per program. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/philox.h"
#include "cache/store.h"
#include "cache/store_files.h"
#include "scratch.h"

enum { N_IDS = 64, N_RAW = 8192 };

/* Whether this thread would be one of idle priority; how often others gave and took that. */
static _Thread_local bool is_idle;
static atomic_uint n_raised, n_lowered;

/* Takes the place of the C library's: the thread of a store is one like all others here. One of
 * idle priority may stand still for minutes on a machine with other work. */
int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param)
{
    (void)param;
    if (pthread_equal(thread, pthread_self()))
        is_idle = policy == SCHED_IDLE;
    else
        atomic_fetch_add(policy == SCHED_IDLE ? &n_lowered : &n_raised, 1);
    return 0;
}

static char home[SCRATCH_PATH], dir[SCRATCH_PATH + 20];

static inline int set_up(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    umask(0);
    scratch_folder(home, "store");
    snprintf(dir, sizeof dir, "%s/deep/pages", home);
    return 0;
}

static inline void clear(void)
{
    scratch_empty(home);
}

static inline int tear_down(void **state)
{
    (void)state;
    scratch_remove(home);
    return 0;
}

static inline uint32_t word(uint64_t key, uint32_t i)
{
    return philox(key, i, 0, 0, PHILOX_BENCH).word[0];
}

/* What blob number i holds, and which it is: half of its bytes are noise, as in a page. */
struct sample {
    struct blob_id id;
    int32_t ids[N_IDS];
    uint8_t raw[N_RAW];
};

static inline void sample_make(struct sample *s, uint32_t i)
{
    for (uint32_t k = 0; k < N_IDS; k++)
        s->ids[k] = (int32_t)(word(i, k) % 1000);
    for (uint32_t k = 0; k < N_RAW; k++)
        s->raw[k] = k % 2 ? 60 : (uint8_t)word(~(uint64_t)i, k);
    s->id = (struct blob_id){.kind = BLOB_PAGE,
                             .key = {i + 1, 0xabcdefu * (uint64_t)(i + 1)},
                             .ids = s->ids,
                             .n_ids = N_IDS,
                             .n_tokens = 64};
}

static inline bool holds(struct store *s, uint32_t i)
{
    struct sample *want = mem_alloc(sizeof *want);
    uint8_t *got = mem_alloc(N_RAW);
    sample_make(want, i);
    bool hit = store_get(s, &want->id, got, N_RAW);
    if (hit) assert_memory_equal(got, want->raw, N_RAW);
    free(want);
    free(got);
    return hit;
}

static inline void give(struct store *s, const struct blob_id *id, const uint8_t *raw,
                        size_t n_raw)
{
    void *room = store_room(s, n_raw);
    if (!room) {
        assert_true(store_is_broken(s));
        return;
    }
    memcpy(room, raw, n_raw);
    store_put(s, id, room, n_raw, 2);
}

static inline void put(struct store *s, uint32_t i)
{
    struct sample *sample = mem_alloc(sizeof *sample);
    sample_make(sample, i);
    give(s, &sample->id, sample->raw, N_RAW);
    free(sample);
}

/* The limit that leaves n_bytes of address space, and the one there is. */
static inline struct rlimit limit_of(size_t n_bytes, struct rlimit *before)
{
    unsigned long n_pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_true(f && fscanf(f, "%lu", &n_pages) == 1);
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, before), 0);
    struct rlimit tight = *before;
    tight.rlim_cur = n_pages * (rlim_t)sysconf(_SC_PAGESIZE) + n_bytes;
    return tight;
}

static inline char *path_of(uint32_t i)
{
    struct key key = {i + 1, 0xabcdefu * (uint64_t)(i + 1)};
    return store_files_path(dir, "model", BLOB_PAGE, &key);
}

static inline void add_bytes(void *user, const struct store_file *file)
{
    struct store_total *total = user;
    total->n++;
    total->n_bytes += file->n_bytes;
}

static inline struct store_total measure(void)
{
    struct store_total total = {0};
    struct err err;
    assert_true(store_files_walk(dir, add_bytes, &total, &err));
    return total;
}

static inline void check_sound(void *user, const struct store_file *file)
{
    struct blob_codec *codec = user;
    struct buf data = {0};
    struct err err = {0};
    assert_true(file_read_plain(file->path, 1 << 20, &data));
    if (!blob_unpack(codec, data.data, data.len, NULL, NULL, 0, &err))
        fail_msg("%s: %s", file->path, err.msg);
    buf_free(&data);
}

static inline void all_sound(void)
{
    struct blob_codec *codec = blob_codec_new();
    struct err err;
    assert_true(store_files_walk(dir, check_sound, codec, &err));
    blob_codec_free(codec);
}

static inline void lend_pieces(struct store *s, uint32_t i, struct pieces raw, size_t n_raw,
                               atomic_uint *n_readers)
{
    struct sample *sample = mem_alloc(sizeof *sample);
    sample_make(sample, i);
    atomic_fetch_add(n_readers, 1);
    store_put_lent(s, &sample->id, raw, n_raw, 2, n_readers);
    free(sample);
}

static inline void lend(struct store *s, uint32_t i, const uint8_t *raw, size_t n_raw,
                        atomic_uint *n_readers)
{
    lend_pieces(s, i, (struct pieces){raw, n_raw, n_raw}, n_raw, n_readers);
}
