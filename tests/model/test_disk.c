/* Pages on disk never change a bit: random histories with saves, restarts, kills and damage
 * have the logits of a run that starts from nothing; and what was saved is not computed again.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../golden.h"
#include "../scratch.h"
#include "../soak.h"
#include "base/file.h"
#include "cache/store_files.h"
#include "engine/disk.h"
#include "engine/engine.h"
#include "engine/machine.h"
#include "random_model.h"
#include "timeline_case.h"

enum { CONTEXT = 400 };

static char home[SCRATCH_PATH];

/* In the place of the library's: how often it was asked whether a file is there. */
static atomic_size_t n_asked;
int access(const char *path, int mode)
{
    n_asked++;
    return faccessat(AT_FDCWD, path, mode, 0);
}

/* Likewise: while there are no threads, nobody reads what the model's file contains. */
static atomic_bool has_no_threads;
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                   void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return has_no_threads ? EAGAIN : real(thread, attr, start, arg);
}

static int set_up(void **state)
{
    (void)state;
    scratch_folder(home, "disk");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(home);
    return 0;
}

static void open_capped(struct machine *m, const char *path, const char *kv_type, bool disk,
                        uint32_t n_ctx, uint64_t cap_bytes)
{
    const struct engine_config config = {.model_path = path,
                                         .device = "cpu",
                                         .kv_type = kv_type,
                                         .n_threads = 1,
                                         .n_ctx = n_ctx,
                                         .cache_dir = disk ? home : NULL,
                                         .cache_disk_bytes = cap_bytes};
    struct err err;
    if (!machine_open(m, &config, NULL, &err)) fail_msg("%s: %s", path, err.msg);
}

static void open_long(struct machine *m, const char *path, const char *kv_type, bool disk,
                      uint32_t n_ctx)
{
    open_capped(m, path, kv_type, disk, n_ctx, 64 << 20);
}

static void open_model(struct machine *m, const char *path, const char *kv_type, bool disk)
{
    open_long(m, path, kv_type, disk, CONTEXT);
}

/* A blob by what it is and the tokens before its end. */
struct place {
    enum blob_kind kind;
    size_t n_tokens;
};

/* What a power cut may leave of a file. */
static void tear(void *user, const struct store_file *file)
{
    const struct place *place = user;
    struct buf data = {0};
    struct blob_head head;
    struct err err;
    assert_true(file_read_plain(file->path, BLOB_MAX_BYTES, &data));
    if (file->kind == place->kind && blob_head(data.data, data.len, &head, &err) &&
        head.n_tokens == place->n_tokens)
        assert_int_equal(truncate(file->path, (off_t)data.len / 2), 0);
    buf_free(&data);
}

/* Zero tokens of a stored conversation are computed again, whatever its length; a new turn
 * costs its own. */
static void check_resume(const char *path, const char *other)
{
    static const size_t lengths[] = {1, 63, 64, 65, 127, 128, 200, 320};
    static const char *const types[] = {"f16", "f32"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct machine m;
        int32_t ids[CONTEXT];
        const size_t n = lengths[i];
        const char *type = types[i % 2];
        scratch_empty(home);
        chance_begin(11 + i);
        open_model(&m, path, type, true);
        const size_t n_vocab = model_n_vocab(m.model);
        float *want = mem_zalloc(n_vocab, sizeof *want);
        random_ids(ids, 0, n + 20, n_vocab);
        assert_int_equal(sync_to(m.tl, ids, n).n_prefilled, n);
        memcpy(want, timeline_logits(m.tl), n_vocab * sizeof *want);
        timeline_save(m.tl, NULL);
        machine_close(&m);

        open_model(&m, path, type, true);
        struct timeline_cost cost = sync_to(m.tl, ids, n);
        assert_int_equal(cost.n_prefilled, 0);
        assert_int_equal(cost.n_read, n);
        assert_int_equal(cost.n_restored, 0);
        assert_memory_equal(timeline_logits(m.tl), want, n_vocab * sizeof *want);
        machine_close(&m);

        open_model(&m, path, type, true);
        cost = sync_to(m.tl, ids, n + 20);
        assert_int_equal(cost.n_prefilled, 20);
        assert_int_equal(cost.n_read, n);
        /* Another KV type, another file: nothing is found. */
        machine_close(&m);
        open_model(&m, path, types[(i + 1) % 2], true);
        assert_int_equal(sync_to(m.tl, ids, n).n_read, 0);
        machine_close(&m);
        open_model(&m, other, type, true);
        assert_int_equal(sync_to(m.tl, ids, n).n_read, 0);
        machine_close(&m);
        free(want);
    }
}

static const char llama[] = "tests/data/models/llama-Q4_0.gguf";
static const char hybrid[] = "tests/data/models/granitehybrid-moe.gguf";
static const char windowed[] = "tests/data/models/gemma3.gguf";

static void test_resume(void **state)
{
    (void)state;
    check_resume(llama, "tests/data/models/llama-Q4_1.gguf");
    check_resume(hybrid, "tests/data/models/falcon-h1.gguf");
}

/* A recurrent model goes on where the prompt was marked, though the reply is another by then;
 * before that, or with a state that is gone, everything is computed again. */
static void test_resume_before_the_reply(void **state)
{
    (void)state;
    struct machine m, cold;
    struct err err;
    int32_t ids[CONTEXT];
    scratch_empty(home);
    chance_begin(17);
    open_model(&cold, hybrid, "f16", false);
    open_model(&m, hybrid, "f16", true);
    const size_t n_vocab = model_n_vocab(m.model);
    random_ids(ids, 0, 150, n_vocab);
    timeline_mark(m.tl, 90);
    sync_to(m.tl, ids, 94);
    timeline_snapshot(m.tl);
    for (size_t i = 94; i < 110; i++)
        assert_true(timeline_append(m.tl, ids[i], NULL, &err));
    timeline_save(m.tl, NULL);
    machine_close(&m);
    random_ids(ids, 90, 150, n_vocab);
    for (size_t same = 90; same >= 89; same--) {
        open_model(&m, hybrid, "f16", true);
        ids[same] = (ids[same] + 1) % (int32_t)n_vocab;
        assert_int_equal(sync_to(m.tl, ids, 150).n_cached, same == 90 ? 90 : 0);
        sync_to(cold.tl, ids, 150);
        assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl),
                            n_vocab * sizeof(float));
        machine_close(&m);
    }
    machine_close(&cold);
}

/* Of a model with windows a resumed conversation has the rows before its end, and those before
 * the end of a prompt that it goes back to are on disk: nothing of that is computed again, and
 * what lies behind it stays. */
static void test_resume_then_back(void **state)
{
    (void)state;
    static const size_t replies[] = {20, 90};
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        struct machine m, cold;
        int32_t ids[CONTEXT];
        const size_t n = 200, n_all = n + replies[i];
        scratch_empty(home);
        chance_begin(43 + i);
        open_model(&cold, windowed, "f16", false);
        open_model(&m, windowed, "f16", true);
        const size_t n_bytes = model_n_vocab(m.model) * sizeof(float);
        random_ids(ids, 0, n_all + 10, model_n_vocab(m.model));
        disk_make_ready(m.disk, NULL);
        sync_to(m.tl, ids, n);
        assert_true(timeline_save(m.tl, NULL));
        sync_to(m.tl, ids, n_all);
        assert_true(timeline_save(m.tl, NULL));
        timeline_forget(m.tl);
        machine_close(&m);
        open_model(&m, windowed, "f16", true);
        disk_make_ready(m.disk, NULL);
        assert_int_equal(sync_to(m.tl, ids, n_all + 10).n_prefilled, 10);
        assert_int_equal(sync_to(m.tl, ids, n).n_prefilled, 0);
        sync_to(cold.tl, ids, n);
        assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl), n_bytes);
        assert_true(sync_to(m.tl, ids, n_all + 10).n_prefilled <= 10);
        sync_to(cold.tl, ids, n_all + 10);
        assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl), n_bytes);
        same_as_computed(m.tl);
        machine_close(&m);
        machine_close(&cold);
    }
}

/* Pages that are read behind the tokens of a snapshot leave it the windowed rows that it needs,
 * also in the page where its tokens end. */
static void test_read_behind_snapshot(void **state)
{
    (void)state;
    enum { PROMPT = 100, ALL = 330 };
    struct machine m;
    int32_t ids[CONTEXT];
    scratch_empty(home);
    chance_begin(47);
    open_model(&m, windowed, "f16", true);
    random_ids(ids, 0, ALL, model_n_vocab(m.model));
    sync_to(m.tl, ids, ALL);
    timeline_save_all(m.tl, NULL);
    machine_close(&m);
    open_model(&m, windowed, "f16", true);
    disk_make_ready(m.disk, NULL);
    sync_to(m.tl, ids, PROMPT);
    timeline_snapshot(m.tl);
    assert_int_equal(sync_to(m.tl, ids, ALL).n_prefilled, 0);
    assert_int_equal(sync_to(m.tl, ids, PROMPT).n_prefilled, 0);
    same_as_computed(m.tl);
    machine_close(&m);
}

/* A conversation with snapshots after 110, 220 and 330 tokens goes on after some of its files
 * were torn: all that is older is of use. Returns how many of 340 tokens were not computed. */
static size_t resume_torn(const char *path, const struct place *torn, size_t n_torn)
{
    struct machine m, cold;
    struct err err;
    int32_t ids[CONTEXT];
    char pages[512];
    snprintf(pages, sizeof pages, "%s/pages", home);
    scratch_empty(home);
    chance_begin(37);
    open_model(&m, path, "f16", true);
    const size_t n_vocab = model_n_vocab(m.model);
    random_ids(ids, 0, 340, n_vocab);
    disk_make_ready(m.disk, NULL);
    for (size_t n = 110; n <= 330; n += 110) {
        sync_to(m.tl, ids, n);
        assert_true(timeline_save(m.tl, NULL));
    }
    timeline_forget(m.tl);
    machine_close(&m);
    for (size_t i = 0; i < n_torn; i++)
        assert_true(store_files_walk(pages, tear, (void *)&torn[i], &err));
    open_model(&m, path, "f16", true);
    disk_make_ready(m.disk, NULL);
    const struct timeline_cost cost = sync_to(m.tl, ids, 340);
    open_model(&cold, path, "f16", false);
    sync_to(cold.tl, ids, 340);
    assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl),
                        n_vocab * sizeof(float));
    machine_close(&m);
    machine_close(&cold);
    return cost.n_cached;
}

static void test_resume_torn(void **state)
{
    (void)state;
    static const struct place newest[] = {{BLOB_SNAPSHOT, 330}, {BLOB_SNAPSHOT, 220}},
                              page_4[] = {{BLOB_PAGE, 320}}, page_1[] = {{BLOB_PAGE, 128}},
                              window_4[] = {{BLOB_WINDOW, 320}};
    assert_int_equal(resume_torn(hybrid, NULL, 0), 330);
    assert_int_equal(resume_torn(hybrid, newest, 1), 220);
    assert_int_equal(resume_torn(hybrid, newest, 2), 110);
    assert_int_equal(resume_torn(hybrid, page_4, 1), 220);
    assert_int_equal(resume_torn(hybrid, page_1, 1), 110);
    assert_int_equal(resume_torn(windowed, NULL, 0), 330);
    /* Without states any token will do that has the rows of its window, which were read. */
    assert_int_equal(resume_torn(windowed, newest, 1), 320);
    assert_int_equal(resume_torn(windowed, page_4, 1), 220);
    assert_int_equal(resume_torn(windowed, page_1, 1), 110);
    assert_int_equal(resume_torn(windowed, window_4, 1), 220);
}

/* Rows of another branch behind the tokens of a snapshot are not touched by reading it. */
static void test_exact_repeat(void **state)
{
    (void)state;
    struct machine m, cold;
    int32_t ids[CONTEXT];
    const char *path = "tests/data/models/llama-Q4_0.gguf";
    scratch_empty(home);
    chance_begin(5);
    open_model(&cold, path, "f16", false);
    open_model(&m, path, "f16", true);
    const size_t n_vocab = model_n_vocab(m.model);
    random_ids(ids, 0, 120, n_vocab);
    sync_to(m.tl, ids, 90);
    timeline_save(m.tl, NULL);
    machine_close(&m);
    open_model(&m, path, "f16", true);
    sync_to(m.tl, ids, 110);                                 /* grows behind what was read */
    assert_int_equal(sync_to(m.tl, ids, 90).n_prefilled, 0); /* the logits alone */
    sync_to(m.tl, ids, 120);
    sync_to(cold.tl, ids, 120);
    assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl),
                        n_vocab * sizeof(float));
    machine_close(&m);
    machine_close(&cold);
}

static void remove_but_pages(void *user, const struct store_file *file)
{
    (void)user;
    if (file->kind != BLOB_PAGE) assert_int_equal(unlink(file->path), 0);
}

/* The last row of whole pages without their logits is read and computed all the same: it counts
 * as computed. */
static void test_read_but_computed(void **state)
{
    (void)state;
    struct machine m;
    int32_t ids[CONTEXT];
    struct err err;
    char pages[512];
    scratch_empty(home);
    chance_begin(6);
    snprintf(pages, sizeof pages, "%s/pages", home);
    open_model(&m, llama, "f16", true);
    random_ids(ids, 0, 192, model_n_vocab(m.model));
    sync_to(m.tl, ids, 192);
    timeline_save_all(m.tl, NULL);
    machine_close(&m);
    assert_true(store_files_walk(pages, remove_but_pages, NULL, &err));
    open_model(&m, llama, "f16", true);
    sync_to(m.tl, ids, 64);
    const struct timeline_cost cost = sync_to(m.tl, ids, 192);
    assert_int_equal(cost.n_cached, 191);
    assert_int_equal(cost.n_read, 127);
    assert_int_equal(cost.n_restored, 0);
    machine_close(&m);
}

/* A conversation of 4096 tokens goes on in another process: only the new ones are computed. */
static void test_resume_long(void **state)
{
    (void)state;
    enum { LONG = 4096, NEW = 20 };
    struct machine m, cold;
    static int32_t ids[LONG + NEW];
    scratch_empty(home);
    chance_begin(19);
    open_long(&m, llama, "f16", true, LONG + NEW);
    const size_t n_vocab = model_n_vocab(m.model);
    random_ids(ids, 0, LONG + NEW, n_vocab);
    sync_to(m.tl, ids, LONG);
    timeline_save(m.tl, NULL);
    machine_close(&m);
    open_long(&m, llama, "f16", true, LONG + NEW);
    const struct timeline_cost cost = sync_to(m.tl, ids, LONG + NEW);
    assert_int_equal(cost.n_prefilled, NEW);
    assert_int_equal(cost.n_read, LONG);
    open_long(&cold, llama, "f16", false, LONG + NEW);
    sync_to(cold.tl, ids, LONG + NEW);
    assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl),
                        n_vocab * sizeof(float));
    machine_close(&m);
    machine_close(&cold);
}

/* What saving a turn writes after n tokens. */
static struct store_counts save_turn(size_t n, size_t n_turn)
{
    struct machine m;
    scratch_empty(home);
    chance_begin(17);
    open_long(&m, "tests/data/models/llama-Q4_0.gguf", "f16", true, (uint32_t)(n + n_turn));
    int32_t *ids = mem_zalloc(n + n_turn, sizeof *ids);
    random_ids(ids, 0, n + n_turn, model_n_vocab(m.model));
    sync_to(m.tl, ids, n);
    timeline_save_all(m.tl, NULL);
    disk_drain(m.disk);
    const struct store_counts before = disk_counts(m.disk);
    sync_to(m.tl, ids, n + n_turn);
    timeline_save(m.tl, NULL);
    disk_drain(m.disk);
    struct store_counts after = disk_counts(m.disk);
    machine_close(&m);
    free(ids);
    after.n_written -= before.n_written;
    after.written_bytes -= before.written_bytes;
    after.packed_bytes -= before.packed_bytes;
    return after;
}

/* Saving costs what is new: its bytes grow with the turn, not with what lies before it. */
static void test_save_cost(void **state)
{
    (void)state;
    static const size_t lengths[] = {1024, 8192, 32768};
    const size_t n_lengths = soak() > 1 ? 3 : 2;
    const struct store_counts few = save_turn(64, 100), many = save_turn(64, 1000);
    assert_int_equal(few.n_written, 2); /* a page, and the snapshot */
    assert_int_equal(many.n_written, 16);
    for (size_t i = 0; i < n_lengths; i++) {
        const struct store_counts counts = save_turn(lengths[i], 100);
        assert_int_equal(counts.n_written, few.n_written);
        assert_int_equal(counts.written_bytes, few.written_bytes);
        assert_true(counts.packed_bytes <= counts.written_bytes + 4096);
    }
}

/* What is given to the disk is lent: whatever the timeline does before it is written, the files
 * have the bits of the tokens they are named for, and the timeline those of its own. */
static void test_lent(void **state)
{
    (void)state;
    struct machine m, cold;
    int32_t ids[CONTEXT], other[CONTEXT];
    scratch_empty(home);
    chance_begin(23);
    open_model(&m, llama, "f16", true);
    open_model(&cold, llama, "f16", false);
    const size_t n_vocab = model_n_vocab(m.model), n_bytes = n_vocab * sizeof(float);
    random_ids(ids, 0, 256, n_vocab);
    memcpy(other, ids, sizeof other);
    random_ids(other, 150, 256, n_vocab);
    disk_make_ready(m.disk, NULL);
    disk_set_busy(m.disk, true); /* nothing is written yet */
    sync_to(m.tl, ids, 256);
    assert_true(timeline_save(m.tl, NULL));
    timeline_truncate(m.tl, 150);
    sync_to(m.tl, other, 256);
    assert_true(timeline_save(m.tl, NULL));
    assert_int_equal(disk_counts(m.disk).n_written, 0);
    sync_to(cold.tl, other, 256);
    assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl), n_bytes);
    timeline_forget(m.tl);
    machine_close(&m);
    open_model(&m, llama, "f16", true);
    const int32_t *const both[] = {ids, other};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sync_to(m.tl, both[i], 256).n_prefilled, 0);
        sync_to(cold.tl, both[i], 256);
        assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl), n_bytes);
        same_as_computed(m.tl);
    }
    machine_close(&m);
    machine_close(&cold);
}

/* Who waits is not kept waiting: saving ends at once, and goes on later where it was. */
static void test_save_yields(void **state)
{
    (void)state;
    struct machine m;
    int32_t ids[CONTEXT];
    atomic_bool stop = true;
    scratch_empty(home);
    chance_begin(29);
    open_model(&m, hybrid, "f16", true);
    disk_make_ready(m.disk, NULL);
    random_ids(ids, 0, 200, model_n_vocab(m.model));
    sync_to(m.tl, ids, 200);
    assert_false(timeline_save_whole(m.tl, &stop));
    disk_drain(m.disk);
    assert_int_equal(disk_counts(m.disk).n_written, 0);
    stop = false;
    assert_true(timeline_save_whole(m.tl, &stop));
    disk_drain(m.disk);
    assert_int_equal(disk_counts(m.disk).n_written, 3);
    stop = true;
    assert_false(timeline_save(m.tl, &stop)); /* the snapshot */
    stop = false;
    assert_true(timeline_save(m.tl, &stop));
    disk_drain(m.disk);
    assert_int_equal(disk_counts(m.disk).n_written, 4);
    machine_close(&m);
}

/* A reply that the disk did not take goes there with what was typed after it, which is no
 * reply; one that was taken back does not. */
static void test_save_is_owed(void **state)
{
    (void)state;
    static const char *const paths[] = {llama, hybrid};
    for (size_t i = 0; i < 2; i++) {
        struct machine m;
        int32_t ids[CONTEXT];
        atomic_bool stop = true;
        scratch_empty(home);
        chance_begin(31 + i);
        open_model(&m, paths[i], "f16", true);
        disk_make_ready(m.disk, NULL);
        const size_t n_vocab = model_n_vocab(m.model), n_bytes = n_vocab * sizeof(float);
        float *want = mem_zalloc(n_vocab, sizeof *want);
        random_ids(ids, 0, 250, n_vocab);
        sync_to(m.tl, ids, 150);
        timeline_snapshot(m.tl);
        memcpy(want, timeline_logits(m.tl), n_bytes);
        assert_false(timeline_save(m.tl, &stop));
        sync_to(m.tl, ids, 180);
        assert_false(timeline_save_whole(m.tl, &stop));
        stop = false;
        assert_true(timeline_save_whole(m.tl, &stop));
        disk_drain(m.disk);
        assert_int_equal(disk_counts(m.disk).n_written, 3); /* two pages, 150 */
        stop = true;
        sync_to(m.tl, ids, 250);
        timeline_snapshot(m.tl);
        assert_false(timeline_save(m.tl, &stop));
        sync_to(m.tl, ids, 240);
        stop = false;
        assert_true(timeline_save_whole(m.tl, &stop));
        disk_drain(m.disk);
        assert_int_equal(disk_counts(m.disk).n_written, 4); /* a page */
        timeline_forget(m.tl);
        machine_close(&m);
        open_model(&m, paths[i], "f16", true);
        disk_make_ready(m.disk, NULL);
        assert_int_equal(sync_to(m.tl, ids, 150).n_prefilled, 0);
        assert_memory_equal(timeline_logits(m.tl), want, n_bytes);
        machine_close(&m);
        free(want);
    }
}

/* Of many turns that the disk did not take it is owed the newest. */
static void test_save_owes_the_newest(void **state)
{
    (void)state;
    struct machine m;
    int32_t ids[CONTEXT];
    const atomic_bool stop = true;
    scratch_empty(home);
    chance_begin(53);
    open_model(&m, llama, "f16", true);
    disk_make_ready(m.disk, NULL);
    random_ids(ids, 0, 190, model_n_vocab(m.model));
    for (size_t n = 100; n <= 190; n += 10) {
        sync_to(m.tl, ids, n);
        timeline_snapshot(m.tl);
        assert_false(timeline_save(m.tl, &stop));
    }
    assert_true(timeline_save_whole(m.tl, NULL));
    disk_drain(m.disk);
    for (size_t n = 100; n <= 190; n += 10)
        assert_int_equal(disk_has_snapshot(m.disk, n), n >= 170);
    machine_close(&m);
}

/* A conversation of many turns that goes on after a restart from one of the first: a model with
 * states or windows computes at most from a snapshot on, of which some are that old. */
static void test_resume_long_ago(void **state)
{
    (void)state;
    static const char *const paths[] = {windowed, hybrid};
    for (size_t i = 0; i < 2; i++) {
        struct machine m, cold;
        int32_t ids[CONTEXT];
        enum { TURN = 20, N_TURNS = 18 };
        scratch_empty(home);
        chance_begin(59 + i);
        open_model(&cold, paths[i], "f16", false);
        open_model(&m, paths[i], "f16", true);
        disk_make_ready(m.disk, NULL);
        const size_t n_vocab = model_n_vocab(m.model);
        random_ids(ids, 0, TURN * N_TURNS, n_vocab);
        for (size_t n = TURN; n <= TURN * N_TURNS; n += TURN) {
            sync_to(m.tl, ids, n);
            assert_true(timeline_save(m.tl, NULL));
            disk_drain(m.disk);
        }
        timeline_forget(m.tl);
        machine_close(&m);
        open_model(&m, paths[i], "f16", true);
        disk_make_ready(m.disk, NULL);
        for (size_t n = TURN * (N_TURNS - 1); n >= 2 * TURN; n -= TURN) {
            const size_t n_ago = TURN * N_TURNS - n;
            int32_t others[CONTEXT];
            memcpy(others, ids, n * sizeof *ids);
            random_ids(others, n, n + 4, n_vocab);
            timeline_forget(m.tl);
            assert_true(sync_to(m.tl, others, n + 4).n_prefilled <= 4 + n_ago * 3 / 4);
            sync_to(cold.tl, others, n + 4);
            assert_memory_equal(timeline_logits(m.tl), timeline_logits(cold.tl),
                                n_vocab * sizeof(float));
        }
        machine_close(&m);
        machine_close(&cold);
    }
}

/* Of many numbers of tokens the folder is read once instead of a file being asked for of each,
 * as of a model without pages, where any may have a snapshot; what is found is the same. */
static void test_find_snapshot(void **state)
{
    (void)state;
    enum { N = 320 };
    struct machine m;
    int32_t ids[CONTEXT];
    scratch_empty(home);
    chance_begin(67);
    open_model(&m, hybrid, "f16", true);
    disk_make_ready(m.disk, NULL);
    random_ids(ids, 0, N, model_n_vocab(m.model));
    disk_follow(m.disk, ids, N);
    n_asked = 0;
    assert_int_equal(disk_find_snapshot(m.disk, 0, N), 0);
    assert_int_equal(n_asked, 0);
    for (size_t n = 100; n <= 130; n += 30) {
        sync_to(m.tl, ids, n);
        assert_true(timeline_save(m.tl, NULL));
    }
    disk_drain(m.disk);
    for (size_t least = 0; least < N; least += 9)
        for (size_t most = least; most <= N; most += 7) {
            size_t n = most;
            disk_follow(m.disk, ids, N);
            while (n > least && !disk_has_snapshot(m.disk, n))
                n--;
            n_asked = 0;
            assert_int_equal(disk_find_snapshot(m.disk, least, most), n > least ? n : 0);
            assert_true(n_asked <= PAGE_LEN);
        }
    machine_close(&m);
}

/* However many replies a prompt gets, its own end stays on disk with the newest of them. */
static void test_save_attempts(void **state)
{
    (void)state;
    struct machine m;
    int32_t ids[CONTEXT];
    scratch_empty(home);
    chance_begin(47);
    open_model(&m, hybrid, "f16", true);
    disk_make_ready(m.disk, NULL);
    random_ids(ids, 0, 110, model_n_vocab(m.model));
    for (int attempt = 0; attempt < 9; attempt++) {
        random_ids(ids, 100, 110, model_n_vocab(m.model));
        for (size_t n = 100; n <= 110; n += 10) {
            sync_to(m.tl, ids, n);
            assert_true(timeline_save(m.tl, NULL));
        }
        disk_drain(m.disk);
        assert_true(disk_has_snapshot(m.disk, 100));
        assert_true(disk_has_snapshot(m.disk, 110));
    }
    machine_close(&m);
}

/* The model's file was written to: nothing can be kept, and nothing waits to be. */
static void test_never_ready(void **state)
{
    (void)state;
    struct machine m;
    struct err err;
    int32_t ids[CONTEXT];
    char path[SCRATCH_PATH + 10];
    struct buf bytes = {0};
    scratch_empty(home);
    chance_begin(41);
    snprintf(path, sizeof path, "%s/m.gguf", home);
    assert_true(file_read(llama, SIZE_MAX, &bytes, &err));
    assert_true(file_replace(path, bytes.data, bytes.len, &err));
    buf_free(&bytes);
    open_model(&m, path, "f16", false);
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    const struct disk_config config = {.dir = home, .cap_bytes = 64 << 20, .name = "m"};
    struct disk *disk = disk_new(&config, m.be, m.gguf, model_program(m.model));
    timeline_set_disk(m.tl, disk);
    assert_false(disk_make_ready(disk, NULL));
    assert_true(disk_is_never_ready(disk));
    random_ids(ids, 0, 100, model_n_vocab(m.model));
    assert_int_equal(sync_to(m.tl, ids, 100).n_prefilled, 100);
    assert_true(timeline_save_whole(m.tl, NULL));
    assert_true(timeline_save(m.tl, NULL));
    timeline_save_all(m.tl, NULL);
    assert_int_equal(disk_counts(disk).n_written, 0);
    assert_true(disk_trouble(disk, &err));
    assert_non_null(strstr(err.msg, path));
    assert_false(disk_trouble(disk, &err));
    timeline_set_disk(m.tl, NULL);
    disk_free(disk);
    machine_close(&m);
}

/* More windowed rows than the queue takes, and a folder that keeps none of them: each is given
 * once, and saving ends. */
static void test_small_cap(void **state)
{
    (void)state;
    enum { N = 330, MOST_DRAINS = 4 };
    struct machine m;
    int32_t ids[N];
    char path[SCRATCH_PATH];
    scratch_empty(home);
    chance_begin(43);
    random_model_make(path,
                      "family=gemma3,n_layer=6,window=400,n_embd=64,n_head=22,n_head_kv=22,"
                      "head_dim=512,n_ff=64,n_vocab=2080",
                      "q8_0");
    open_capped(&m, path, "f32", true, N, 1 << 20);
    assert_true(disk_make_ready(m.disk, NULL));
    random_ids(ids, 0, N, model_n_vocab(m.model));
    sync_to(m.tl, ids, N);
    disk_set_busy(m.disk, true); /* nothing leaves the queue by itself */
    assert_false(timeline_save(m.tl, NULL));
    size_t n_drains = 0;
    do {
        disk_drain(m.disk);
        n_drains++;
    } while (n_drains < MOST_DRAINS && !timeline_save_whole(m.tl, NULL));
    assert_in_range(n_drains, 1, MOST_DRAINS - 1);
    assert_true(timeline_save_whole(m.tl, NULL));
    machine_close(&m);
    unlink(path);
}

/* Who gives up waits for no model's content: nothing is saved then, but later it is. */
static void test_content_unknown(void **state)
{
    (void)state;
    struct machine m;
    struct err err;
    int32_t ids[CONTEXT];
    const atomic_bool stop = true;
    scratch_empty(home);
    chance_begin(59);
    has_no_threads = true;
    open_model(&m, llama, "f16", true);
    random_ids(ids, 0, 100, model_n_vocab(m.model));
    sync_to(m.tl, ids, 100);
    assert_true(machine_save(&m, &stop, &err));
    assert_false(disk_is_ready(m.disk));
    assert_int_equal(disk_counts(m.disk).n_written, 0);
    has_no_threads = false;
    assert_true(machine_save(&m, NULL, &err));
    assert_int_equal(disk_counts(m.disk).n_written, 2); /* a page, the snapshot */
    machine_close(&m);
}

/* ---- random histories ---- */

static size_t next_history(int32_t *ids, size_t n, size_t n_vocab)
{
    const uint32_t kind = below(6);
    if (kind == 0 && n > 0) return n;
    if (kind == 1 && n > 0) return below((uint32_t)n) + 1;
    size_t keep = kind == 2 ? n : below((uint32_t)n + 1);
    size_t grown = keep + 1 + below(kind == 4 ? 150 : 12);
    if (grown > CONTEXT) grown = CONTEXT;
    random_ids(ids, keep < grown ? keep : grown, grown, n_vocab);
    return grown;
}

static void flip(void *user, const struct store_file *file)
{
    (void)user;
    if (below(4)) return;
    FILE *f = fopen(file->path, "r+b");
    if (!f) return;
    long at = (long)below((uint32_t)file->n_bytes);
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ (1 << below(8)), f);
    fclose(f);
}

/* A process that goes on from the history and dies at some moment of saving. */
static void die(struct machine *m, int32_t *ids, size_t n, size_t n_vocab, const char *path,
                const char *type)
{
    uint32_t moment = below(8000);
    machine_close(m);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        chance.n_drawn += 1000;
        open_model(m, path, type, true);
        for (;;) {
            n = next_history(ids, n, n_vocab);
            sync_to(m->tl, ids, n);
            timeline_save(m->tl, NULL);
        }
    }
    usleep(moment);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    open_model(m, path, type, true);
}

/* What is read back differs by what a model keeps. */
enum kind { KIND_PLAIN, KIND_WINDOWS, KIND_RECURRENT, N_KINDS };

static enum kind kind_of(const struct program *p)
{
    if (p->state_bytes > 0) return KIND_RECURRENT;
    return p->page_bytes[PAGE_WINDOW] > 0 ? KIND_WINDOWS : KIND_PLAIN;
}

/* Every round has another KV type. Adds the tokens that were read to those of the model's kind:
 * a short history may hit none of what is on disk. */
static void check_model(const struct golden_case *c, uint32_t i, uint32_t round, int n_steps,
                        size_t n_read[N_KINDS])
{
    static const char *const types[] = {"f16", "q8_0", "f32", "q4_0"};
    const char *type = types[golden_has_blocks(c) ? (i + round) % 4 : (i + round) % 2 * 2];
    struct machine m, cold;
    struct err err;
    int32_t ids[CONTEXT];
    size_t n = 0;
    char pages[512];
    snprintf(pages, sizeof pages, "%s/pages", home);
    scratch_empty(home);
    chance_begin(20261121 + i + 1000 * round);
    open_model(&m, c->model, type, true);
    open_model(&cold, c->model, type, false);
    const enum kind kind = kind_of(model_program(m.model));
    for (int step = 0; step < n_steps; step++) {
        n = next_history(ids, n, c->n_vocab);
        struct timeline_cost cost = sync_to(m.tl, ids, n);
        n_read[kind] += cost.n_read;
        timeline_forget(cold.tl);
        sync_to(cold.tl, ids, n);
        if (memcmp(timeline_logits(m.tl), timeline_logits(cold.tl),
                   c->n_vocab * sizeof(float)) != 0)
            fail_msg("%s: step %d: %zu tokens, %zu of them read, differ from a cold run",
                     c->name, step, n, cost.n_read);
        switch (below(6)) {
        case 0: timeline_save(m.tl, NULL); break;
        case 1: timeline_forget(m.tl); break;
        case 2:
            if (below(2)) timeline_save(m.tl, NULL);
            machine_close(&m);
            open_model(&m, c->model, type, true);
            break;
        case 3: die(&m, ids, n, c->n_vocab, c->model, type); break;
        case 4:
            if (below(3) == 0 && !store_files_walk(pages, flip, NULL, &err))
                fail_msg("%s", err.msg);
            break;
        default: break;
        }
    }
    machine_close(&m);
    machine_close(&cold);
}

static void test_histories(void **state)
{
    (void)state;
    const uint32_t n_rounds = soak();
    struct golden_set set = golden_read("tests/data", golden_known);
    size_t n_read[N_KINDS] = {0};
    for (uint32_t round = 0; round < n_rounds; round++)
        for (size_t i = 0; i < set.n; i++)
            check_model(&set.cases[i], (uint32_t)i, round, 24, n_read);
    for (int kind = 0; kind < N_KINDS; kind++)
        if (n_read[kind] == 0) fail_msg("nothing was ever read of models of kind %d", kind);
    golden_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_resume_before_the_reply),
        cmocka_unit_test(test_exact_repeat),
        cmocka_unit_test(test_read_but_computed),
        cmocka_unit_test(test_resume_long),
        cmocka_unit_test(test_save_cost),
        cmocka_unit_test(test_lent),
        cmocka_unit_test(test_save_yields),
        cmocka_unit_test(test_save_is_owed),
        cmocka_unit_test(test_find_snapshot),
        cmocka_unit_test(test_save_attempts),
        cmocka_unit_test(test_resume_long_ago),
        cmocka_unit_test(test_save_owes_the_newest),
        cmocka_unit_test(test_resume_torn),
        cmocka_unit_test(test_never_ready),
        cmocka_unit_test(test_small_cap),
        cmocka_unit_test(test_content_unknown),
        cmocka_unit_test(test_histories),
        cmocka_unit_test(test_resume_then_back),
        cmocka_unit_test(test_read_behind_snapshot),
    };
    return cmocka_run_group_tests_name("disk", tests, set_up, tear_down);
}
