/* A model with learned positions: whatever was computed before, kept on disk or guessed by a
 * draft, each token has its own position's row, on the CPU, on a device and on both; and where
 * the positions end, so does the context. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../scratch.h"
#include "../soak.h"
#include "base/mem.h"
#include "random_model.h"
#include "reply_rig.h"
#include "timeline_case.h"
#include "vulkan/backend.h"

enum { N_PLACES = 192, FEWER = 96 };

/* The second is the first with fewer positions: up to there they say the same. */
static char model[SCRATCH_PATH], shorter[SCRATCH_PATH], home[SCRATCH_PATH];

static int set_up(void **state)
{
    (void)state;
    random_model_make(model, RANDOM_PLACED ",n_ctx=192", "Q8_0");
    random_model_make(shorter, RANDOM_PLACED ",n_ctx=96", "Q8_0");
    scratch_folder(home, "places");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(model);
    unlink(shorter);
    scratch_remove(home);
    return 0;
}

static struct engine_config config_of(const char *device, uint32_t gpu_layers)
{
    return (struct engine_config){.model_path = model,
                                  .device = device,
                                  .gpu_layers = gpu_layers,
                                  .n_threads = 1,
                                  .cache_ram_bytes = 16 << 20};
}

static void open_machine(struct machine *m, const struct engine_config *config)
{
    struct err err;
    if (!machine_open(m, config, NULL, &err)) fail_msg("%s", err.msg);
}

/* The tokens' logits, warm, are those of a machine that starts from nothing. */
static void check_cold(const struct machine *warm, const struct machine *cold,
                       const int32_t *ids, size_t n)
{
    timeline_forget(cold->tl);
    sync_to(cold->tl, ids, n);
    assert_memory_equal(timeline_logits(warm->tl), timeline_logits(cold->tl),
                        model_n_vocab(cold->model) * sizeof(float));
}

/* Turns, edits, branches that are left and come back to, one token at a time or many. */
static void check_histories(const char *device, uint32_t gpu_layers, int n_steps)
{
    enum { N_BRANCHES = 3 };
    const struct engine_config on = config_of(device, gpu_layers), plain = config_of("cpu", 0);
    int32_t ids[N_BRANCHES][N_PLACES];
    struct machine warm, cold;
    struct err err;
    size_t n_kept = 0;
    open_machine(&warm, &on);
    open_machine(&cold, &plain);
    const size_t n_vocab = model_n_vocab(cold.model);
    chance_begin(7);
    random_ids(ids[0], 0, N_PLACES, n_vocab);
    for (size_t i = 1; i < N_BRANCHES; i++)
        memcpy(ids[i], ids[0], sizeof ids[0]);
    for (int i = 0; i < n_steps; i++) {
        int32_t *branch = ids[below(N_BRANCHES)];
        if (below(2)) random_ids(branch, below(N_PLACES), N_PLACES, n_vocab);
        size_t n = 1 + below(N_PLACES - 2);
        n_kept += sync_to(warm.tl, branch, n).n_cached;
        if (below(2) && !timeline_append(warm.tl, branch[n++], NULL, &err))
            fail_msg("%s", err.msg);
        check_cold(&warm, &cold, branch, n);
    }
    assert_true(n_kept > 20 * (size_t)n_steps);
    same_as_computed(warm.tl);
    machine_close(&warm);
    machine_close(&cold);
}

static void test_histories(void **state)
{
    (void)state;
    check_histories("cpu", 0, 40 * (int)soak());
    if (vulkan_count() == 0) return;
    check_histories("vulkan:0", 0, 20 * (int)soak());
    check_histories("vulkan:0", 1, 20 * (int)soak());
}

static void test_disk(void **state)
{
    (void)state;
    const struct engine_config plain = config_of("cpu", 0);
    struct engine_config config = plain;
    struct machine m, cold;
    int32_t ids[N_PLACES];
    config.cache_dir = home;
    config.cache_disk_bytes = 64 << 20;
    open_machine(&cold, &plain);
    open_machine(&m, &config);
    chance_begin(8);
    random_ids(ids, 0, N_PLACES, model_n_vocab(cold.model));
    sync_to(m.tl, ids, 150);
    timeline_save(m.tl, NULL);
    machine_close(&m);
    open_machine(&m, &config);
    const struct timeline_cost cost = sync_to(m.tl, ids, N_PLACES);
    assert_int_equal(cost.n_read, 150);
    assert_int_equal(cost.n_prefilled, N_PLACES - 150);
    check_cold(&m, &cold, ids, N_PLACES);
    machine_close(&m);
    machine_close(&cold);
}

/* The same token over and over: nothing but its position tells one from the next. */
static void test_positions_tell(void **state)
{
    (void)state;
    const struct engine_config plain = config_of("cpu", 0);
    struct machine m;
    int32_t ids[N_PLACES];
    for (size_t i = 0; i < N_PLACES; i++)
        ids[i] = 99;
    open_machine(&m, &plain);
    const size_t n_bytes = model_n_vocab(m.model) * sizeof(float);
    float *before = mem_zalloc(1, n_bytes);
    for (size_t n = 1; n <= N_PLACES; n++) {
        sync_to(m.tl, ids, n);
        assert_memory_not_equal(timeline_logits(m.tl), before, n_bytes);
        memcpy(before, timeline_logits(m.tl), n_bytes);
    }
    free(before);
    machine_close(&m);
}

static void test_the_end(void **state)
{
    (void)state;
    struct engine_config config = config_of("cpu", 0);
    struct machine m;
    struct err err;
    int32_t ids[N_PLACES + 1] = {0};
    open_machine(&m, &config);
    sync_to(m.tl, ids, N_PLACES);
    assert_false(timeline_sync(m.tl, ids, N_PLACES + 1, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_int_equal(timeline_n(m.tl), N_PLACES);
    machine_close(&m);
    config.n_ctx = N_PLACES + 1;
    assert_false(machine_open(&m, &config, NULL, &err));
    assert_int_equal(err.code, ERR_USER);
    if (!strstr(err.msg, ": a context of 193 tokens is longer than the 192 positions"))
        fail_msg("%s", err.msg);
    machine_close(&m);
}

static struct engine_reply reply_to(struct rig *r, const int32_t *ids, size_t n, uint32_t seed,
                                    uint32_t fixed)
{
    const struct engine_sampling how = {
        .temp = 1, .top_p = 1, .repeat_penalty = 1, .reply_seed = seed, .max_tokens = -1};
    struct err err;
    sync_to(r->m.tl, ids, n);
    const struct engine_reply *reply = rig_reply(r, &how, fixed, &err);
    if (!reply) fail_msg("%s", err.msg);
    return *reply;
}

/* Replies to the last position, with a draft that has no more than half of them: until there it
 * is always right, and then it is not asked. */
static void check_drafts(const char *device)
{
    struct rig plain, drafting;
    int32_t ids[N_PLACES];
    uint32_t n_full = 0;
    rig_open(&plain, model, NULL, false, "cpu", 0);
    rig_open(&drafting, model, shorter, false, device, 0);
    assert_int_equal(timeline_n_ctx(drafting.m.draft->tl), FEWER);
    chance_begin(9);
    for (uint32_t i = 0; i < 24; i++) {
        const size_t n = i % 2 ? 1 + below(FEWER) : 1 + below(N_PLACES - 1);
        random_ids(ids, 0, n, model_n_vocab(plain.m.model));
        const struct engine_reply want = reply_to(&plain, ids, n, i, 0);
        const struct engine_reply got = reply_to(&drafting, ids, n, i, i % 3 ? 16 : 5);
        n_full += want.stop == STOP_CONTEXT;
        assert_int_equal(got.stop, want.stop);
        assert_int_equal(got.n_ids, want.n_ids);
        assert_memory_equal(got.ids, want.ids, want.n_ids * sizeof *want.ids);
        assert_int_equal(got.n_accepted, got.n_drafted);
        assert_true(got.n_drafted > 0 || n + 2 > FEWER || want.n_ids < 3);
        assert_true(got.n_drafted <= FEWER);
    }
    assert_true(n_full > 8);
    rig_close(&plain);
    rig_close(&drafting);
}

static void test_drafts(void **state)
{
    (void)state;
    check_drafts("cpu");
    if (vulkan_count() > 0) check_drafts("vulkan:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories),      cmocka_unit_test(test_disk),
        cmocka_unit_test(test_positions_tell), cmocka_unit_test(test_the_end),
        cmocka_unit_test(test_drafts),
    };
    return cmocka_run_group_tests_name("places", tests, set_up, tear_down);
}
