/* Blobs and the store: round trips, damage at thousands of places, the size cap, several
 * processes, kills, a full disk, a folder that cannot be written. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zstd.h>

#include "../small_disk.h"
#include "../soak.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/philox.h"
#include "cache/store.h"
#include "cache/store_files.h"

enum { N_IDS = 64, N_RAW = 8192 };

static char home[] = "/tmp/hearth-store-XXXXXX";
static char dir[256];

static int set_up(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    umask(0);
    if (!mkdtemp(home)) return -1;
    snprintf(dir, sizeof dir, "%s/deep/pages", home);
    return 0;
}

static void clear(void)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s/deep'", home);
    assert_int_equal(system(command), 0);
}

static int tear_down(void **state)
{
    (void)state;
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command) == 0 ? 0 : -1;
}

static uint32_t word(uint64_t key, uint32_t i)
{
    return philox(key, i, 0, 0, PHILOX_BENCH).word[0];
}

/* What blob number i holds, and which it is: half of its bytes are noise, as in a page. */
struct sample {
    struct blob_id id;
    int32_t ids[N_IDS];
    uint8_t raw[N_RAW];
};

static void sample_make(struct sample *s, uint32_t i)
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

static bool holds(struct store *s, uint32_t i)
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

static void give(struct store *s, const struct blob_id *id, const uint8_t *raw, size_t n_raw)
{
    void *room = store_room(s, n_raw);
    if (!room) {
        assert_true(store_is_broken(s));
        return;
    }
    memcpy(room, raw, n_raw);
    store_put(s, id, room, n_raw, 2);
}

static void put(struct store *s, uint32_t i)
{
    struct sample *sample = mem_alloc(sizeof *sample);
    sample_make(sample, i);
    give(s, &sample->id, sample->raw, N_RAW);
    free(sample);
}

/* The same of its first n_raw bytes. */
static void put_sized(struct store *s, uint32_t i, size_t n_raw)
{
    struct sample *sample = mem_alloc(sizeof *sample);
    sample_make(sample, i);
    give(s, &sample->id, sample->raw, n_raw);
    free(sample);
}

static char *path_of(uint32_t i)
{
    struct key key = {i + 1, 0xabcdefu * (uint64_t)(i + 1)};
    return store_files_path(dir, "model", BLOB_PAGE, &key);
}

static void test_blob(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 67, 68, 69, 1000, 4096};
    static const unsigned elements[] = {1, 2, 4, 18, 34, 64};
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    sample_make(&s, 7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizeof elements / sizeof *elements; k++) {
            struct buf out = {0};
            struct blob_head head;
            struct err err;
            uint8_t *raw = mem_alloc(sizes[i]);
            assert_true(blob_pack(codec, &s.id, s.raw, sizes[i], elements[k], 1, &out, &err));
            assert_true(blob_head(out.data, out.len, &head, &err));
            assert_int_equal(head.raw_bytes, sizes[i]);
            assert_int_equal(head.n_ids, N_IDS);
            assert_int_equal(head.n_tokens, 64);
            assert_true(blob_unpack(codec, out.data, out.len, &s.id, raw, sizes[i], &err));
            assert_memory_equal(raw, s.raw, sizes[i]);
            assert_true(blob_unpack(codec, out.data, out.len, NULL, NULL, 0, &err));
            assert_false(blob_unpack(codec, out.data, out.len, &s.id, raw, sizes[i] - 1, &err));
            assert_int_equal(err.code, ERR_USER);
            const atomic_bool stop = true;
            assert_false(blob_pack_unless(codec, &s.id, s.raw, sizes[i], elements[k], 1, &stop,
                                          &out, &err));
            free(raw);
            buf_free(&out);
        }
    }
    blob_codec_free(codec);
}

#ifndef HEARTH_SANITIZED /* shadow memory knows no limit */
/* The limit that leaves n_bytes of address space, and the one there is. */
static struct rlimit limit_of(size_t n_bytes, struct rlimit *before)
{
    unsigned long n_pages;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_true(f && fscanf(f, "%lu", &n_pages) == 1);
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, before), 0);
    struct rlimit tight = *before;
    tight.rlim_cur = n_pages * (rlim_t)sysconf(_SC_PAGESIZE) + n_bytes;
    return tight;
}

/* No memory for a page is an error of the call; the codec goes on. */
static void test_unpackable(void **state)
{
    (void)state;
    enum { N = 64 << 20, ROOM = 16 << 20 };
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    struct buf out = {0};
    struct err err;
    struct rlimit before, tight;
    uint8_t *raw = mem_zalloc(N, 1);
    sample_make(&s, 9);
    tight = limit_of(ROOM, &before);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    const bool packed = blob_pack(codec, &s.id, raw, N, 2, 1, &out, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_false(packed);
    assert_int_equal(err.code, ERR_MEMORY);
    assert_true(blob_pack(codec, &s.id, raw, N, 2, 1, &out, &err));
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    struct blob_codec *fresh = blob_codec_new();
    const bool unpacked = blob_unpack(fresh, out.data, out.len, NULL, NULL, 0, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_false(unpacked);
    assert_int_equal(err.code, ERR_MEMORY);
    assert_true(blob_unpack(codec, out.data, out.len, &s.id, raw, N, &err));
    blob_codec_free(fresh);
    blob_codec_free(codec);
    buf_free(&out);
    free(raw);
}
#endif

/* The layout is the one of blob.h, whatever the compiler makes of it: the first bytes of all
 * elements, then their second bytes and so on, then what makes no whole element. */
static void test_layout(void **state)
{
    (void)state;
    static const unsigned elements[] = {1, 2, 4, 34};
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    sample_make(&s, 8);
    for (size_t n = 1; n < 200; n++) {
        for (size_t e = 0; e < sizeof elements / sizeof *elements; e++) {
            struct buf out = {0};
            struct err err;
            uint8_t want[200], got[200];
            size_t size = elements[e], m = n / size;
            for (size_t i = 0; i < n; i++)
                want[i < m * size ? i % size * m + i / size : i] = s.raw[i];
            assert_true(blob_pack(codec, &s.id, s.raw, n, elements[e], 1, &out, &err));
            size_t front = BLOB_HEAD_BYTES + sizeof s.ids;
            size_t n_got = ZSTD_decompress(got, sizeof got, out.data + front, out.len - front);
            assert_int_equal(n_got, n);
            assert_memory_equal(got, want, n);
            buf_free(&out);
        }
    }
    blob_codec_free(codec);
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
    assert_int_equal(store_counts(s).n_read, 10);

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

/* A blob whose checksum is right though its content is not what it says. */
static void test_forged(void **state)
{
    (void)state;
    struct blob_codec *codec = blob_codec_new();
    struct sample s;
    sample_make(&s, 1);
    struct buf out = {0};
    struct err err;
    uint8_t raw[N_RAW];
    s.id.kind = (enum blob_kind)17;
    assert_true(blob_pack(codec, &s.id, s.raw, N_RAW, 2, 1, &out, &err));
    assert_false(blob_unpack(codec, out.data, out.len, &s.id, raw, N_RAW, &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_string_equal(err.msg, "unknown kind 17");
    buf_free(&out);
    blob_codec_free(codec);
}

static void add_bytes(void *user, const struct store_file *file)
{
    struct store_total *total = user;
    total->n++;
    total->n_bytes += file->n_bytes;
}

static struct store_total measure(void)
{
    struct store_total total = {0};
    struct err err;
    assert_true(store_files_walk(dir, add_bytes, &total, &err));
    return total;
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

    /* Less room than one blob: nothing is kept, nothing complains. */
    clear();
    s = store_new(dir, "model", 1000);
    put(s, 0);
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
    for (uint32_t i = 0; i < 20; i++) {
        sample_make(&sample, i);
        sample.id.n_tokens = 64 * (i + 1);
        store_touch(s, &sample.id);
    }
    struct err err;
    struct store_total left, removed, all = measure();
    assert_true(store_files_shrink(dir, all.n_bytes / 2, &left, &removed, &err));
    assert_int_equal(left.n + removed.n, 20);
    assert_int_equal(left.n, 10);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(holds(s, i), i < left.n);
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
    assert_true(store_files_shrink(dir, UINT64_MAX, NULL, NULL, &err));
    assert_int_equal(measure().n, 1);
    for (size_t i = 0; i < 4; i++) {
        buf_clear(&name);
        buf_printf(&name, "%s/%s", path, names[i]);
        assert_int_equal(access(buf_str(&name), F_OK), i == 0 ? -1 : 0);
    }
    buf_free(&name);
    free(path);
}

static void check_sound(void *user, const struct store_file *file)
{
    struct blob_codec *codec = user;
    struct buf data = {0};
    struct err err = {0};
    assert_true(store_files_read(file->path, 1 << 20, &data));
    if (!blob_unpack(codec, data.data, data.len, NULL, NULL, 0, &err))
        fail_msg("%s: %s", file->path, err.msg);
    buf_free(&data);
}

static void all_sound(void)
{
    struct blob_codec *codec = blob_codec_new();
    struct err err;
    assert_true(store_files_walk(dir, check_sound, codec, &err));
    blob_codec_free(codec);
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

static void lend(struct store *s, uint32_t i, const uint8_t *raw, size_t n_raw,
                 atomic_uint *n_readers)
{
    struct sample *sample = mem_alloc(sizeof *sample);
    sample_make(sample, i);
    atomic_fetch_add(n_readers, 1);
    store_put_lent(s, &sample->id, raw, n_raw, 2, n_readers);
    free(sample);
}

/* What is lent is written as it is, and given back when it was, or will not be; from then on it
 * may change. */
static void test_lent(void **state)
{
    (void)state;
    clear();
    enum { N_LARGE = 3 << 20, ROUNDS = 40 };
    struct store *s = store_new(dir, "model", 1 << 30);
    struct sample sample;
    uint8_t *large = mem_alloc(N_LARGE), *got = mem_alloc(N_LARGE);
    atomic_uint n_readers = 0;
    for (uint32_t k = 0; k < ROUNDS; k++) {
        for (uint32_t i = 0; i < N_LARGE; i++)
            large[i] = (uint8_t)(i * (k + 1) >> 7);
        lend(s, 2 * k, large, N_LARGE, &n_readers);
        lend(s, 2 * k + 1, large, N_LARGE, &n_readers);
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

/* Processes that write, read and make room at the same time. */
static void test_processes(void **state)
{
    (void)state;
    clear();
    enum { N = 3, CAP = 60000 };
    pid_t child[N];
    for (uint32_t c = 0; c < N; c++) {
        child[c] = fork();
        assert_true(child[c] >= 0);
        if (child[c] != 0) continue;
        struct store *s = store_new(dir, "model", CAP);
        struct err err;
        for (uint32_t i = 0; i < 200; i++) {
            put(s, word(c, i) % 20);
            holds(s, word(c + 10, i) % 20); /* a miss, or the right bytes */
        }
        store_flush(s);
        bool bad = store_trouble(s, &err);
        if (bad) fprintf(stderr, "# %s\n", err.msg);
        store_free(s);
        _exit(bad ? 1 : 0);
    }
    for (uint32_t c = 0; c < N; c++) {
        int status;
        assert_int_equal(waitpid(child[c], &status, 0), child[c]);
        assert_int_equal(status, 0);
    }
    all_sound();
    assert_true(measure().n_bytes <= CAP + N * (CAP / 16 + N_RAW));
}

/* Whatever the moment of the kill, what lies under its name is whole. */
static void test_kill(void **state)
{
    (void)state;
    clear();
    uint32_t n = 300 * soak();
    size_t most = 0;
    for (uint32_t k = 0; k < n; k++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct store *s = store_new(dir, "model", 200000);
            for (uint32_t i = 0;; i++)
                put(s, (k * 7 + i) % 1000);
        }
        usleep(word(5, k) % 4000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        if (k % 20 == 0) all_sound();
        if (measure().n > most) most = measure().n;
    }
    all_sound();
    assert_true(most > 5);
}

/* In a child: a store that meets trouble says so once, goes on reading, and leaves no half
 * file. Returns the exit status. */
static int meet_trouble(uint32_t n, int code)
{
    struct store *s = store_new(dir, "model", 1 << 30);
    struct err err;
    for (uint32_t i = 100; i < 100 + n; i++) {
        put(s, i);
        store_flush(s);
    }
    if (!store_trouble(s, &err)) return 2;
    fprintf(stderr, "# %s\n", err.msg);
    if (err.code != ERR_IO || !strstr(err.msg, strerror(code))) return 3;
    atomic_uint n_readers = 0;
    put(s, 200);
    lend(s, 201, (const uint8_t *)&err, sizeof err, &n_readers);
    store_flush(s);
    if (atomic_load(&n_readers) != 0) return 8;
    if (store_trouble(s, &err)) return 4;
    if (holds(s, 200)) return 5;
    if (!holds(s, 0)) return 6;
    store_free(s);
    char *path = path_of(0);
    *strrchr(path, '/') = '\0';
    DIR *d = opendir(path);
    struct dirent *entry;
    while ((entry = readdir(d)))
        if (entry->d_name[0] == '.' && entry->d_name[1] && entry->d_name[1] != '.') return 7;
    closedir(d);
    free(path);
    all_sound();
    return 0;
}

static void put_first(void)
{
    struct store *s = store_new(dir, "model", 1 << 30);
    put(s, 0);
    store_free(s);
}

/* A file that cannot be opened now is a miss, and stays. */
static void test_unreadable(void **state)
{
    (void)state;
    clear();
    struct store *s = store_new(dir, "model", 1 << 30);
    put(s, 5);
    store_flush(s);
    assert_true(holds(s, 5));
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool hit = holds(s, 5);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(hit);
    assert_true(holds(s, 5));
    store_free(s);
}

static int size_limit(void)
{
    put_first();
    const struct rlimit limit = {3000, 3000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 11;
    return meet_trouble(1, EFBIG);
}

static int disk_full(void)
{
    /* A small disk of its own where we may mount one, else a limit on the size of a file. */
    if (mkdir(home, 0700) != 0 && errno != EEXIST) return 10;
    if (small_disk(home)) {
        put_first();
        return meet_trouble(40, ENOSPC);
    }
    return size_limit();
}

static int read_only(void)
{
    put_first();
    char *path = path_of(0);
    *strrchr(path, '/') = '\0';
    if (geteuid() == 0) {
        /* Root may write anywhere; somebody else may not. */
        char *file = path_of(0);
        if (chmod(home, 0755) != 0 || chmod(file, 0644) != 0 || chmod(path, 0755) != 0)
            return 12;
        *strrchr(path, '/') = '\0';
        if (chmod(path, 0755) != 0) return 12;
        *strrchr(path, '/') = '\0';
        if (chmod(path, 0755) != 0) return 12;
        free(file);
        if (setgid(65534) != 0 || setuid(65534) != 0) return 13;
    } else if (chmod(path, 0500) != 0) {
        return 12;
    }
    free(path);
    return meet_trouble(3, EACCES);
}

static void in_child(int (*fn)(void))
{
    clear();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(fn());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_disk_full(void **state)
{
    (void)state;
    in_child(disk_full);
    in_child(size_limit);
}

static void test_read_only(void **state)
{
    (void)state;
    in_child(read_only);
    char command[512];
    snprintf(command, sizeof command, "chmod -R u+w '%s'", home);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef HEARTH_SANITIZED
        cmocka_unit_test(test_unpackable), cmocka_unit_test(test_spare_rooms),
#endif
        cmocka_unit_test(test_blob),       cmocka_unit_test(test_layout),
        cmocka_unit_test(test_put_get),    cmocka_unit_test(test_hurry),
        cmocka_unit_test(test_busy),       cmocka_unit_test(test_full),
        cmocka_unit_test(test_lent),       cmocka_unit_test(test_rooms),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_row),
        cmocka_unit_test(test_modes),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_forged),     cmocka_unit_test(test_cap),
        cmocka_unit_test(test_order),      cmocka_unit_test(test_stale),
        cmocka_unit_test(test_processes),  cmocka_unit_test(test_kill),
        cmocka_unit_test(test_disk_full),  cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
