/* Saving costs what is new, lends what it writes, gives way to who waits and owes what it could
 * not give; and ends, whatever the folder takes. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../soak.h"
#include "base/file.h"
#include "base/mem.h"
#include "disk_case.h"
#include "random_model.h"

static const char llama[] = "tests/data/models/llama-Q4_0.gguf";
static const char hybrid[] = "tests/data/models/granitehybrid-moe.gguf";

/* In the place of the library's: while there are no threads, nobody reads what the model's file
 * contains. */
static atomic_bool has_no_threads;
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                   void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return has_no_threads ? EAGAIN : real(thread, attr, start, arg);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save_cost),       cmocka_unit_test(test_lent),
        cmocka_unit_test(test_save_yields),     cmocka_unit_test(test_save_is_owed),
        cmocka_unit_test(test_save_attempts),   cmocka_unit_test(test_save_owes_the_newest),
        cmocka_unit_test(test_never_ready),     cmocka_unit_test(test_small_cap),
        cmocka_unit_test(test_content_unknown),
    };
    return cmocka_run_group_tests_name("disk_save", tests, disk_set_up, disk_tear_down);
}
