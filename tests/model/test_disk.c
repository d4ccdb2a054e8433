/* What was saved is read and not computed again: in another process, after files were torn,
 * from the middle, from long ago; and has the bits of a run that starts from nothing. */
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cache/store_files.h"
#include "disk_case.h"

static const char llama[] = "tests/data/models/llama-Q4_0.gguf";
static const char hybrid[] = "tests/data/models/granitehybrid-moe.gguf";
static const char windowed[] = "tests/data/models/gemma3.gguf";

/* In the place of the library's: how often it was asked whether a file is there. */
static atomic_size_t n_asked;
int access(const char *path, int mode)
{
    n_asked++;
    return faccessat(AT_FDCWD, path, mode, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume),           cmocka_unit_test(test_resume_before_the_reply),
        cmocka_unit_test(test_exact_repeat),     cmocka_unit_test(test_read_but_computed),
        cmocka_unit_test(test_resume_long),      cmocka_unit_test(test_find_snapshot),
        cmocka_unit_test(test_resume_long_ago),  cmocka_unit_test(test_resume_torn),
        cmocka_unit_test(test_resume_then_back), cmocka_unit_test(test_read_behind_snapshot),
    };
    return cmocka_run_group_tests_name("disk", tests, disk_set_up, disk_tear_down);
}
