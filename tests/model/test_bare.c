/* Models without a layer that sees everything before it, so that a page of theirs holds nothing
 * or windowed rows alone: whatever becomes of a conversation, in memory and on disk, its logits
 * are those of a run that starts from nothing, and what was kept is not computed again. */
#include <string.h>

#include "engine/disk.h"
#include "engine/engine.h"
#include "engine/machine.h"
#include "random_model.h"
#include "timeline_case.h"
#include "vulkan/backend.h"

enum { CONTEXT = 400 };

/* One of states alone, one of windows alone. */
enum { STATES, WINDOWS, N_MODELS };

static char home[SCRATCH_PATH], paths[N_MODELS][SCRATCH_PATH];

static int set_up(void **state)
{
    (void)state;
    scratch_folder(home, "bare");
    random_model_make(paths[STATES], RANDOM_RECURRENT, "F32");
    /* Of six layers the last would see everything. */
    random_model_make(paths[WINDOWS], RANDOM_WINDOWED ",n_layer=5", "F32");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        scratch_remove(paths[i]);
    scratch_remove(home);
    return 0;
}

static void open_model(struct machine *m, int model, const char *device, bool disk)
{
    const struct engine_config config = {.model_path = paths[model],
                                         .device = device,
                                         .n_threads = 1,
                                         .n_ctx = CONTEXT,
                                         .cache_ram_bytes = 16 << 20,
                                         .cache_dir = disk ? home : NULL,
                                         .cache_disk_bytes = 64 << 20};
    struct err err;
    if (!machine_open(m, &config, NULL, &err)) fail_msg("%s", err.msg);
    assert_int_equal(model_program(m->model)->page_bytes[PAGE_FULL], 0);
    if (disk) disk_make_ready(m->disk, NULL);
}

static void check_cold(struct machine *m, struct machine *cold, const int32_t *ids, size_t n)
{
    timeline_forget(cold->tl);
    sync_to(cold->tl, ids, n);
    if (memcmp(timeline_logits(m->tl), timeline_logits(cold->tl),
               model_n_vocab(m->model) * sizeof(float)) != 0)
        fail_msg("%zu tokens differ from a cold run", n);
}

/* After a restart none of a saved conversation is computed again, whatever its length, and a
 * new turn costs its own tokens. */
static void test_resume(void **unused)
{
    (void)unused;
    static const size_t lengths[] = {1, 63, 64, 65, 128, 200, 320};
    for (int model = 0; model < N_MODELS; model++) {
        struct machine m, cold;
        open_model(&cold, model, "cpu", false);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            int32_t ids[CONTEXT];
            const size_t n = lengths[i];
            scratch_empty(home);
            chance_begin(11 + i);
            random_ids(ids, 0, n + 20, model_n_vocab(cold.model));
            open_model(&m, model, "cpu", true);
            assert_int_equal(sync_to(m.tl, ids, n).n_prefilled, n);
            assert_true(timeline_save(m.tl, NULL));
            machine_close(&m);
            open_model(&m, model, "cpu", true);
            const struct timeline_cost cost = sync_to(m.tl, ids, n);
            assert_int_equal(cost.n_prefilled, 0);
            assert_int_equal(cost.n_read, n);
            check_cold(&m, &cold, ids, n);
            assert_int_equal(sync_to(m.tl, ids, n + 20).n_prefilled, 20);
            check_cold(&m, &cold, ids, n + 20);
            machine_close(&m);
        }
        machine_close(&cold);
    }
}

/* A turn that is taken back, another in its place, and the first one again; then the same after
 * a restart, which has what was saved. Everything that is held is verified. */
static void test_branches(void **unused)
{
    (void)unused;
    for (int model = 0; model < N_MODELS; model++) {
        struct machine m, cold;
        int32_t first[CONTEXT], other[CONTEXT];
        scratch_empty(home);
        chance_begin(5);
        open_model(&cold, model, "cpu", false);
        open_model(&m, model, "cpu", true);
        random_ids(first, 0, 180, model_n_vocab(m.model));
        memcpy(other, first, sizeof other);
        random_ids(other, 130, 180, model_n_vocab(m.model));
        for (int again = 0; again < 2; again++) {
            for (size_t n = 130; n <= 160; n += 30) {
                const size_t done = again ? n : n == 130 ? 0 : 130;
                assert_int_equal(sync_to(m.tl, first, n).n_prefilled, n - done);
                timeline_snapshot(m.tl);
                assert_true(timeline_save(m.tl, NULL));
            }
            assert_int_equal(sync_to(m.tl, first, 130).n_prefilled, 0);
            check_cold(&m, &cold, first, 130);
            assert_int_equal(sync_to(m.tl, other, 170).n_prefilled, again ? 0 : 40);
            timeline_snapshot(m.tl);
            assert_true(timeline_save(m.tl, NULL));
            check_cold(&m, &cold, other, 170);
            assert_int_equal(sync_to(m.tl, first, 180).n_prefilled, again ? 0 : 20);
            check_cold(&m, &cold, first, 180);
            same_as_computed(m.tl);
            machine_close(&m);
            open_model(&m, model, "cpu", true);
        }
        machine_close(&m);
        machine_close(&cold);
    }
}

static size_t next_history(int32_t *ids, size_t n, size_t n_vocab)
{
    const uint32_t kind = below(6);
    if (kind == 0 && n > 0) return n;
    if (kind == 1 && n > 0) return below((uint32_t)n) + 1;
    const size_t keep = kind == 2 ? n : below((uint32_t)n + 1);
    size_t grown = keep + 1 + below(kind == 4 ? 150 : 12);
    if (grown > CONTEXT) grown = CONTEXT;
    random_ids(ids, keep < grown ? keep : grown, grown, n_vocab);
    return grown;
}

/* Random histories with saves and restarts, on a device too, where there is one. */
static void histories(int model, const char *device, int n_steps)
{
    struct machine m, cold;
    int32_t ids[CONTEXT];
    size_t n = 0, n_read = 0;
    scratch_empty(home);
    chance_begin(23);
    open_model(&cold, model, "cpu", false);
    open_model(&m, model, device, true);
    const size_t n_vocab = model_n_vocab(m.model);
    for (int step = 0; step < n_steps; step++) {
        n = next_history(ids, n, n_vocab);
        n_read += sync_to(m.tl, ids, n).n_read;
        check_cold(&m, &cold, ids, n);
        switch (below(5)) {
        case 0: timeline_save(m.tl, NULL); break;
        case 1: timeline_forget(m.tl); break;
        case 2:
            timeline_save(m.tl, NULL);
            machine_close(&m);
            open_model(&m, model, device, true);
            break;
        default: break;
        }
    }
    assert_true(n_read > 0);
    machine_close(&m);
    machine_close(&cold);
}

static void test_histories(void **unused)
{
    (void)unused;
    for (int model = 0; model < N_MODELS; model++) {
        histories(model, "cpu", 60);
        if (vulkan_count() > 0) histories(model, "vulkan:0", 12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_histories),
    };
    return cmocka_run_group_tests_name("bare", tests, set_up, tear_down);
}
