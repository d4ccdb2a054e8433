/* The store: what is put comes back, damage at thousands of places, the queue and its thread,
 * the size cap. */
#include "../store_sample.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

static const struct store_patience to_the_end = {.waits = true};
static const char good_for_nothing[100];

/* The same of its first n_raw bytes. */
static void put_sized(struct store *s, uint32_t i, size_t n_raw)
{
    struct sample *sample = mem_alloc(sizeof *sample);
    sample_make(sample, i);
    give(s, &sample->id, sample->raw, n_raw);
    free(sample);
}

static void test_put_get(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    assert_false(holds(s, 0));
    for (uint32_t i = 0; i < 10; i++)
        put(s, i);
    store_flush(s);
    put(s, 3); /* there already */
    store_flush(s);
    struct store_counts counts = store_counts(s);
    assert_int_equal(counts.n_written, 10);
    assert_int_equal(counts.written_bytes, 10 * N_RAW);
    assert_true(counts.packed_bytes < 10 * N_RAW * 3 / 4);
    store_free(s);

    s = store_new(dir, "model", 1 << 30);
    for (uint32_t i = 0; i < 10; i++)
        assert_true(holds(s, i));
    assert_false(holds(s, 10));

    struct sample other;
    uint8_t got[N_RAW + 1];
    sample_make(&other, 4);
    other.ids[63]++;
    assert_false(store_get(s, &other.id, got, N_RAW)); /* the key lies */
    other.ids[63]--;
    other.id.n_ids--;
    assert_false(store_get(s, &other.id, got, N_RAW));
    other.id.n_ids++;
    assert_false(store_get(s, &other.id, got, N_RAW + 1));
    other.id.kind = BLOB_WINDOW;
    assert_false(store_get(s, &other.id, got, N_RAW));
    assert_true(holds(s, 4)); /* a sound one stays */
    struct err err;
    assert_false(store_trouble(s, &err));
    store_free(s);
}

enum { N_ROW = 40 };

struct row {
    bool got[N_ROW];
    atomic_bool *cancel; /* set by the tenth that comes */
    size_t n;
};

static void got_one(void *user, size_t i, const void *raw)
{
    struct row *row = user;
    struct sample *want = mem_alloc(sizeof *want);
    sample_make(want, (uint32_t)i);
    assert_memory_equal(raw, want->raw, N_RAW);
    assert_false(row->got[i]);
    row->got[i] = true;
    if (++row->n == 10 && row->cancel) atomic_store(row->cancel, true);
    free(want);
}

static size_t get_row(struct store *s, struct row *row)
{
    struct sample *samples = mem_zalloc(N_ROW, sizeof *samples);
    struct blob_id ids[N_ROW];
    for (uint32_t i = 0; i < N_ROW; i++) {
        sample_make(&samples[i], i);
        ids[i] = samples[i].id;
    }
    size_t n = store_get_row(s, ids, N_ROW, N_RAW, got_one, row, row->cancel);
    free(samples);
    for (size_t i = 0; i < n; i++)
        assert_true(row->got[i]);
    return n;
}

/* A row of blobs comes as one by one, up to the first that misses, however the threads meet. */
static void test_row(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    assert_int_equal(get_row(s, &(struct row){0}), 0);
    for (uint32_t i = 0; i < N_ROW; i++)
        put(s, i);
    store_flush(s);
    for (uint32_t k = 0; k < 200; k++) {
        struct row row = {0};
        uint32_t hole = word(11, k) % (N_ROW + 1), other = hole + word(12, k) % N_ROW;
        struct err err;
        char *path = path_of(hole);
        if (k % 2)
            unlink(path);
        else
            assert_true(store_files_write(path, "HEARTHKV", 8, &err));
        free(path);
        path = path_of(other);
        unlink(path);
        free(path);
        assert_int_equal(get_row(s, &row), hole < N_ROW ? hole : N_ROW);
        if (hole < N_ROW) assert_false(row.got[hole]);
        put(s, hole);
        put(s, other);
        store_flush(s);
    }
    atomic_bool cancel = false;
    struct row row = {.cancel = &cancel};
    assert_true(get_row(s, &row) < 20); /* those under way come in */
    assert_true(row.n >= 10);
    store_free(s);
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void test_modes(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "../a b/\x1b", 1 << 30);
    struct sample sample;
    sample_make(&sample, 0);
    give(s, &sample.id, sample.raw, N_RAW);
    store_free(s);
    char *path = store_files_path(dir, "../a b/\x1b", BLOB_PAGE, &sample.id.key);
    assert_int_equal(mode_of(path), 0600);
    *strrchr(path, '/') = '\0';
    assert_string_equal(strrchr(path, '/'), "/_._a_b__");
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(mode_of(dir), 0700);
    snprintf(path, strlen(path), "%s/.lock", dir);
    assert_int_equal(mode_of(path), 0600);
    free(path);
}

/* Every way a file can be cut or changed is a miss, after which the file is gone and a new one
 * can be written. */
static void test_damage(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    put(s, 0);
    store_flush(s);
    char *path = path_of(0);
    struct buf good = {0};
    struct err err;
    assert_true(file_read(path, 1 << 20, &good, &err));
    for (uint32_t i = 0; i < 4001; i++) {
        struct buf bad = {0};
        buf_append(&bad, good.data, good.len);
        size_t at = word(99, i) % good.len;
        if (i < 2000)
            bad.data[at] ^= (char)(1 << word(98, i) % 8);
        else if (i < 4000)
            bad.len = at;
        else
            buf_putc(&bad, 'x');
        assert_true(store_files_write(path, bad.data, bad.len, &err));
        assert_false(holds(s, 0));
        assert_int_equal(access(path, F_OK), -1);
        buf_free(&bad);
    }
    /* Grown beyond all bounds: not even read, and out of the way. */
    assert_true(store_files_write(path, good.data, good.len, &err));
    assert_int_equal(truncate(path, 1 << 24), 0);
    assert_false(holds(s, 0));
    put(s, 0);
    store_flush(s);
    assert_true(holds(s, 0));
    store_free(s);
    buf_free(&good);
    free(path);
}

/* Time of a file s seconds ago. */
static void make_older(uint32_t i, int seconds)
{
    char *path = path_of(i);
    struct timespec used[2] = {{.tv_nsec = UTIME_OMIT}, {0}};
    clock_gettime(CLOCK_REALTIME, &used[1]);
    used[1].tv_sec -= seconds;
    assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
    free(path);
}

static void test_cap(void **state)
{
    (void)state;
    clear();
    enum { CAP = 100000 };
    struct store *s = store_new(dir, "model", CAP);
    for (uint32_t i = 0; i < 60; i++) {
        put(s, i);
        store_flush(s);
        assert_true(measure().n_bytes <= CAP);
        make_older(i, 1000 - (int)i);
        if (i > 0) assert_true(holds(s, 0)); /* in use all the time */
    }
    assert_true(holds(s, 59));
    assert_false(holds(s, 1));
    store_free(s);

    /* What was used when the clock was ahead does not outlive what comes then. */
    clear();
    s = store_new(dir, "model", CAP);
    for (uint32_t i = 0; i < 60; i++) {
        put(s, i);
        store_flush(s);
        if (i < 30) make_older(i, -1000000);
    }
    assert_true(holds(s, 59) && holds(s, 58));
    assert_false(holds(s, 29));
    store_free(s);

    /* Less room than one blob: nothing is kept, also of before, nothing complains. */
    assert_true(measure().n > 0);
    s = store_new(dir, "model", 1000);
    put(s, 60);
    store_flush(s);
    struct err err;
    assert_false(store_trouble(s, &err));
    assert_int_equal(measure().n, 0);
    store_free(s);
}

/* The end of a conversation goes before its beginning, without which it is worth nothing. */
static void test_order(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    struct sample sample;
    for (uint32_t i = 0; i < 20; i++) {
        sample_make(&sample, i);
        sample.id.n_tokens = 64 * (i + 1);
        give(s, &sample.id, sample.raw, N_RAW);
    }
    store_flush(s);
    /* Times are seconds apart: in one go, or again. */
    double start;
    do {
        start = clock_ms();
        for (uint32_t i = 0; i < 20; i++) {
            sample_make(&sample, i);
            sample.id.n_tokens = 64 * (i + 1);
            store_touch(s, &sample.id);
        }
    } while (clock_ms() - start > 500);
    struct err err;
    struct store_total left, removed, all = measure();
    assert_true(store_files_shrink(dir, all.n_bytes / 2, &to_the_end, &left, &removed, &err));
    assert_int_equal(left.n + removed.n, 20);
    assert_int_equal(left.n, 10);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(holds(s, i), i < left.n);
    store_free(s);
}

/* Takes the place of the C library's: a thread of idle priority does not get on in here. */
static atomic_uint n_idle_entries;
struct dirent *readdir(DIR *d)
{
    struct dirent *(*real)(DIR *);
    *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    if (is_idle) {
        n_idle_entries++;
        usleep(2000);
    }
    return real(d);
}

/* Who waits for the queue does not wait until the idle thread has looked through a large
 * folder, which is kept to its size all the same. */
static void test_broken_off(void **state)
{
    (void)state;
    clear();
    enum { N_FILES = 3000, CAP = 200000 };
    struct store *s = store_new(dir, "model", CAP);
    struct err err;
    for (uint32_t i = 0; i < N_FILES; i++) {
        char *path = path_of(1000 + i);
        assert_true(store_files_write(path, good_for_nothing, sizeof good_for_nothing, &err));
        free(path);
    }
    n_idle_entries = 0;
    put(s, 0);
    for (int ms = 0; n_idle_entries < 10; ms++) {
        if (ms > 60000) fail_msg("the thread does not look");
        usleep(1000);
    }
    store_flush(s);
    if (n_idle_entries > N_FILES / 2) fail_msg("it looked at %u files", n_idle_entries);
    assert_true(measure().n_bytes <= CAP);
    assert_true(measure().n_bytes > CAP / 2);
    const size_t n = measure().n;
    atomic_bool stop = true;
    const struct store_patience none = {.stop = &stop};
    assert_false(store_files_shrink(dir, 0, &none, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_int_equal(measure().n, n);
    store_free(s);
}

static void test_stale(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    put(s, 0);
    store_free(s);
    char *path = path_of(0);
    struct buf name = {0};
    struct err err;
    *strrchr(path, '/') = '\0';
    static const char *const names[] = {".00000000000000000000000000000001.page.12.3",
                                        ".00000000000000000000000000000002.page.12.3",
                                        ".mine.page.12.3", "notes.txt"};
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    for (size_t i = 0; i < 4; i++) {
        buf_clear(&name);
        buf_printf(&name, "%s/%s", path, names[i]);
        assert_true(store_files_write(buf_str(&name), "x", 1, &err));
        if (i != 1) assert_int_equal(utimensat(AT_FDCWD, buf_str(&name), old, 0), 0);
    }
    assert_true(store_files_shrink(dir, UINT64_MAX, &to_the_end, NULL, NULL, &err));
    assert_int_equal(measure().n, 1);
    for (size_t i = 0; i < 4; i++) {
        buf_clear(&name);
        buf_printf(&name, "%s/%s", path, names[i]);
        assert_int_equal(access(buf_str(&name), F_OK), i == 0 ? -1 : 0);
    }
    buf_free(&name);
    free(path);
}

/* Who waits for the queue takes over what the idle thread has in hand; nothing is lost or
 * written twice. */
static void test_hurry(void **state)
{
    (void)state;
    clear();
    enum { N_LARGE = 3 << 20, ROUNDS = 60 };
    struct store *s = store_new(dir, "model", 1 << 30);
    struct sample sample;
    uint8_t *large = mem_alloc(N_LARGE), *got = mem_alloc(N_LARGE);
    for (uint32_t i = 0; i < N_LARGE; i++)
        large[i] = (uint8_t)(i * i >> 7);
    for (uint32_t k = 0; k < ROUNDS; k++) {
        for (uint32_t i = 0; i < 3; i++) {
            sample_make(&sample, 3 * k + i);
            give(s, &sample.id, large, N_LARGE - i);
        }
        usleep(word(13, k) % 8000);
        store_flush(s);
        assert_int_equal(store_counts(s).n_written, 3 * (k + 1));
        assert_true(store_get(s, &sample.id, got, N_LARGE - 2));
        assert_memory_equal(got, large, N_LARGE - 2);
        for (uint32_t i = 0; i < 3; i++) {
            sample_make(&sample, 3 * k + i);
            store_drop(s, &sample.id);
        }
    }
    store_free(s);
    free(large);
    free(got);
}

static void wait_for_written(struct store *s, size_t n)
{
    for (int ms = 0; store_counts(s).n_written < n; ms++) {
        if (ms > 60000) fail_msg("only %zu of %zu written", store_counts(s).n_written, n);
        usleep(1000);
    }
}

/* While somebody waits the thread is not idle: what it has in hand would be waited for until
 * nobody else wants the processor. */
static void test_raised(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    n_raised = n_lowered = 0;
    store_flush(s); /* no thread yet */
    assert_int_equal(n_raised + n_lowered, 0);
    put(s, 0);
    assert_int_equal(n_raised + n_lowered, 0);
    store_flush(s);
    assert_int_equal(n_raised, 1);
    assert_int_equal(n_lowered, 1);
    put(s, 1);
    store_free(s);
    assert_int_equal(n_raised, 3);
    assert_int_equal(n_lowered, 2);
}

/* What is dropped while it waits is never written, wherever in the queue it is; what comes
 * after it is. */
static void test_drop_queued(void **state)
{
    (void)state;
    enum { N = 5 };
    for (uint32_t gone = 0; gone < N; gone++) {
        struct sample sample;
        clear();
        struct store *s = store_new(dir, "model", 1 << 30);
        store_set_busy(s, true);
        for (uint32_t i = 0; i < N; i++)
            put(s, i);
        sample_make(&sample, gone);
        store_drop(s, &sample.id);
        assert_false(store_waits(s, &sample.id));
        put(s, N);
        store_flush(s);
        for (uint32_t i = 0; i <= N; i++)
            assert_int_equal(holds(s, i), i != gone);
        assert_int_equal(store_counts(s).n_written, N);
        store_free(s);
    }
}

/* While the owner is busy nothing is written, however much waits; all of it is once the owner
 * rests, waits or goes. */
static void test_busy(void **state)
{
    (void)state;
    clear();
    enum { N_LARGE = 8 << 20, N_FULL = 16 };
    struct store *s = store_new(dir, "model", 1 << 30);
    struct sample sample;
    uint8_t *large = mem_zalloc(1, N_LARGE);
    store_set_busy(s, true);
    for (uint32_t i = 0; i < N_FULL; i++) {
        sample_make(&sample, i);
        give(s, &sample.id, large, N_LARGE);
    }
    assert_false(store_has_room(s, N_LARGE));
    usleep(20000);
    assert_int_equal(store_counts(s).n_written, 0);
    store_set_busy(s, false);
    wait_for_written(s, N_FULL);

    store_set_busy(s, true);
    put(s, 100);
    assert_false(holds(s, 100));
    sample_make(&sample, 100);
    assert_true(store_waits(s, &sample.id));
    assert_false(store_has(s, &sample.id));
    store_flush(s);
    assert_true(holds(s, 100));
    assert_false(store_waits(s, &sample.id));
    put(s, 101);
    store_free(s);
    s = store_new(dir, "model", 1 << 30);
    assert_true(holds(s, 101));

    /* Now this, now that: nothing is lost or written twice. */
    for (uint32_t k = 0; k < 200; k++) {
        if (k % 3) put(s, 200 + k);
        store_set_busy(s, word(14, k) % 2);
        usleep(word(15, k) % 500);
    }
    store_flush(s);
    assert_int_equal(store_counts(s).n_written, 133);
    store_free(s);
    free(large);
}

/* A room that was written is the next one of its size. */
static void test_rooms(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    const void *before = NULL;
    for (uint32_t i = 0; i < 9; i++) {
        struct sample sample;
        sample_make(&sample, i);
        void *room = store_room(s, N_RAW);
        assert_non_null(room);
        if (before) assert_ptr_equal(room, before);
        before = room;
        memcpy(room, sample.raw, N_RAW);
        store_put(s, &sample.id, room, N_RAW, 2);
        store_flush(s);
        if (i % 3 == 0) put_sized(s, 100 + i, 500);
        store_flush(s);
    }
    for (uint32_t i = 0; i < 9; i++)
        assert_true(holds(s, i));
    for (uint32_t i = 0; i < 4; i++) /* more than are kept, of more sizes */
        put_sized(s, 200 + i, 600 + i);
    store_free(s);
}

#ifndef HEARTH_SANITIZED
/* Rooms that wait for the next of their size are given back where memory ends. */
static void test_spare_rooms(void **state)
{
    (void)state;
    clear();
    enum { N_SPARE = 24 << 20, N_WANTED = 40 << 20, LEFT = 16 << 20 };
    struct store *s = store_new(dir, "model", 1 << 30);
    struct sample sample;
    struct rlimit before, tight;
    void *rooms[2];
    for (int i = 0; i < 2; i++)
        rooms[i] = store_room(s, N_SPARE);
    for (uint32_t i = 0; i < 2; i++) {
        sample_make(&sample, i);
        store_put(s, &sample.id, rooms[i], N_SPARE, 2);
    }
    store_flush(s);
    tight = limit_of(LEFT, &before);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    void *room = store_room(s, N_WANTED);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_non_null(room);
    assert_false(store_is_broken(s));
    store_return(room, N_WANTED);
    store_free(s);
}
#endif

#ifndef HEARTH_SANITIZED
/* No memory to read a file is a miss, and the file stays. */
static void test_no_memory_to_read(void **state)
{
    (void)state;
    clear();
    enum { N = 64 << 20, LEFT = 8 << 20 };
    struct store *s = store_new(dir, "model", 1 << 30);
    struct sample sample;
    struct rlimit before, tight;
    sample_make(&sample, 0);
    uint8_t *raw = mem_zalloc(N, 1), *room = store_room(s, N);
    for (uint32_t i = 0; i < N; i += 4) {
        const uint32_t noise = i * 2654435761u ^ (i >> 7) * 2246822519u;
        memcpy(room + i, &noise, 4);
    }
    store_put(s, &sample.id, room, N, 1);
    store_free(s);
    s = store_new(dir, "model", 1 << 30);
    tight = limit_of(LEFT, &before);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    const bool got = store_get(s, &sample.id, raw, N);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_false(got);
    assert_true(store_get(s, &sample.id, raw, N));
    store_free(s);
    free(raw);
}
#endif

/* What is lent, in one piece or in many, is written as it is, and given back when it was, or
 * will not be; from then on it may change. */
static void test_lent(void **state)
{
    (void)state;
    clear();
    enum { N_LARGE = 3 << 20, ROUNDS = 40, PIECE = 3 << 12, APART = 5 << 12 };
    struct store *s = store_new(dir, "model", 1 << 30);
    struct sample sample;
    uint8_t *large = mem_alloc(N_LARGE), *got = mem_alloc(N_LARGE);
    uint8_t *apart = mem_zalloc(N_LARGE / PIECE, APART);
    const struct pieces pieces = {apart, PIECE, APART};
    atomic_uint n_readers = 0;
    for (uint32_t k = 0; k < ROUNDS; k++) {
        for (uint32_t i = 0; i < N_LARGE; i++)
            large[i] = (uint8_t)(i * (k + 1) >> 7);
        for (size_t i = 0; i < N_LARGE / PIECE; i++)
            memcpy(apart + i * APART, large + i * PIECE, PIECE);
        lend(s, 2 * k, large, N_LARGE, &n_readers);
        lend_pieces(s, 2 * k + 1, pieces, N_LARGE, &n_readers);
        lend(s, 2 * k, large, N_LARGE, &n_readers); /* twice the same */
        if (word(17, k) % 2) store_set_busy(s, true);
        usleep(word(16, k) % 4000);
        store_set_busy(s, false);
        if (k % 2) store_flush(s);
        for (int ms = 0; atomic_load(&n_readers) > 0; ms++) {
            if (ms > 60000) fail_msg("%u are not given back", atomic_load(&n_readers));
            usleep(1000);
        }
        for (uint32_t i = 0; i < 2; i++) {
            sample_make(&sample, 2 * k + i);
            assert_true(store_get(s, &sample.id, got, N_LARGE));
            assert_memory_equal(got, large, N_LARGE);
        }
        lend(s, 2 * k, large, N_LARGE, &n_readers); /* is on disk */
        assert_int_equal(atomic_load(&n_readers), 0);
    }
    store_set_busy(s, true);
    lend(s, 1000, large, N_LARGE, &n_readers);
    assert_int_equal(atomic_load(&n_readers), 1);
    store_free(s);
    assert_int_equal(atomic_load(&n_readers), 0);
    free(apart);
    free(large);
    free(got);
}

/* A full queue has no room; the idle thread writes once what was put twice. */
static void test_full(void **state)
{
    (void)state;
    clear();
    enum { N_LARGE = 16 << 20 };
    struct store *s = store_new(dir, "model", 1 << 30);
    struct sample sample;
    size_t n = 0;
    store_set_busy(s, true);
    put(s, 100);
    put(s, 100);
    put(s, 101);
    store_set_busy(s, false);
    wait_for_written(s, 2);
    assert_int_equal(store_counts(s).n_written, 2);
    assert_true(holds(s, 101));
    store_set_busy(s, true);
    for (void *room; (room = store_room(s, N_LARGE)); n++) {
        assert_true(n < 50);
        sample_make(&sample, (uint32_t)n);
        memset(room, 0, N_LARGE);
        store_put(s, &sample.id, room, N_LARGE, 2);
    }
    assert_true(n > 2);
    store_flush(s);
    assert_int_equal(store_counts(s).n_written, n + 2);
    void *room = store_room(s, N_LARGE);
    assert_non_null(room);
    store_return(room, N_LARGE);
    store_free(s);
}

/* What can never be had is asked for in vain while something waits; then writing stops, and the
 * reason is told. */
static void test_no_memory(void **state)
{
    (void)state;
    clear();
    const size_t too_much = SIZE_MAX / 2;
    struct store *s = store_new(dir, "model", 1 << 30);
    struct err err;
    store_set_busy(s, true);
    put(s, 100);
    assert_null(store_room(s, too_much));
    assert_false(store_is_broken(s));
    store_flush(s);
    assert_true(holds(s, 100));
    assert_null(store_room(s, too_much));
    assert_true(store_is_broken(s));
    assert_null(store_room(s, 1));
    assert_true(store_trouble(s, &err));
    assert_int_equal(err.code, ERR_MEMORY);
    assert_false(store_trouble(s, &err));
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef HEARTH_SANITIZED
        cmocka_unit_test(test_spare_rooms), cmocka_unit_test(test_no_memory_to_read),
#endif
        cmocka_unit_test(test_put_get),     cmocka_unit_test(test_hurry),
        cmocka_unit_test(test_busy),        cmocka_unit_test(test_raised),
        cmocka_unit_test(test_drop_queued), cmocka_unit_test(test_full),
        cmocka_unit_test(test_lent),        cmocka_unit_test(test_rooms),
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_row),
        cmocka_unit_test(test_modes),       cmocka_unit_test(test_damage),
        cmocka_unit_test(test_cap),         cmocka_unit_test(test_order),
        cmocka_unit_test(test_broken_off),  cmocka_unit_test(test_stale),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
