/* Whole models on Vulkan: the logits are those whose hashes are stored in
 * tests/data/golden/bits.txt, which the CPU gives too (test_bits), whatever the rows per step
 * and however little of a matrix the device binds at once; and a step costs one submission, one
 * wait, and nothing that is made. */
#include <dlfcn.h>
#include <unistd.h>
#include <vulkan/vulkan.h>
#include <xxhash.h>

#include "../golden.h"
#include "../soak.h"
#include "backend/draw.h"
#include "backend/kv.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "random_model.h"

enum { RANDOM_IDS = 600 };

static void random_ids(int32_t *ids, size_t n, uint32_t n_vocab)
{
    uint32_t state = 600;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((uint64_t)state * n_vocab >> 32);
    }
}

/* The stored hashes of a model and KV type; false: there are none. */
static bool stored_hashes(const char *model, enum kv_type type, uint64_t *random,
                          uint64_t *golden)
{
    FILE *f = fopen("tests/data/golden/bits.txt", "r");
    assert_non_null(f);
    char line[256], name[64], kv[8];
    unsigned long long a, b;
    bool found = false;
    while (!found && fgets(line, sizeof line, f))
        found = line[0] != '#' && sscanf(line, "%63s %7s %llx %llx", name, kv, &a, &b) == 4 &&
                strcmp(name, model) == 0 && strcmp(kv, kv_type_name(type)) == 0;
    fclose(f);
    if (found) *random = a, *golden = b;
    return found;
}

static size_t n_checked;

static uint64_t n_more_pieces;

/* Of o: KV type, batch, and what kind of device it is. */
static void check(const struct golden_case *c, struct runner_options o)
{
    const enum kv_type type = o.kv_type;
    const uint32_t batch = o.batch;
    uint64_t random, golden;
    if (!stored_hashes(c->name, type, &random, &golden)) return;
    const uint32_t n = strcmp(c->name, "mistral3") == 0 ? 500 : RANDOM_IDS;
    struct runner r;
    int32_t ids[RANDOM_IDS];
    o.n_ctx = n == 500 ? 512 : 1024;
    o.poison = o.vulkan = true;
    runner_open(&r, c->model, o);
    size_t n_values = (size_t)(n > c->n_tokens ? n : c->n_tokens) * c->n_vocab;
    float *logits = mem_zalloc(n_values, sizeof *logits);
    random_ids(ids, n, c->n_vocab);
    runner_run(&r, ids, n, 0, logits);
    if (XXH3_64bits(logits, (size_t)n * c->n_vocab * sizeof *logits) != random)
        fail_msg("%s, KV %s, %u rows per step: other bits than the CPU's", c->name,
                 kv_type_name(type), batch);
    runner_run(&r, c->tokens, c->n_tokens, 0, logits);
    if (XXH3_64bits(logits, (size_t)c->n_tokens * c->n_vocab * sizeof *logits) != golden)
        fail_msg("%s, KV %s, %u rows per step: other bits than the CPU's after its prompt",
                 c->name, kv_type_name(type), batch);
    n_checked++;
    n_more_pieces += vulkan_backend_counters(r.be)->more_pieces;
    free(logits);
    runner_close(&r);
}

/* With HEARTH_SOAK every batch and KV type of every model, otherwise some of each in turn. */
static void test_models(void **state)
{
    (void)state;
    static const uint32_t batches[] = {64, 5, 200, 1, 2, 4};
    if (vulkan_count() == 0) skip();
    const bool all = soak() > 1;
    struct golden_set set = golden_read("tests/data", golden_known);
    for (size_t i = 0; i < set.n; i++)
        for (enum kv_type type = KV_F32; type <= KV_Q4_0; type++)
            for (size_t b = 0; b < 6; b++) {
                uint64_t random, golden;
                if (all || (b == i % 6 && type == (i % 4 == 0 ? KV_F32 : KV_F16)) ||
                    (b == 0 && type > KV_F16 &&
                     stored_hashes(set.cases[i].name, type, &random, &golden)))
                    check(&set.cases[i],
                          (struct runner_options){.kv_type = type, .batch = batches[b]});
            }
    print_message("# %zu runs of %zu models\n", n_checked, set.n);
    assert_true(n_checked > 0);
    golden_free(&set);
}

/* The shapes of hardware: every model, in batches of all buckets, and with codes. */
static void test_wide(void **state)
{
    (void)state;
    static const uint32_t batches[] = {1, 64, 2, 5, 4, 200};
    if (vulkan_count() == 0) skip();
    struct golden_set set = golden_read("tests/data", golden_known);
    n_checked = 0;
    for (size_t i = 0; i < set.n; i++) {
        check(&set.cases[i], (struct runner_options){.kv_type = i % 4 == 2 ? KV_F32 : KV_F16,
                                                     .batch = batches[i % 6],
                                                     .wide = true});
        check(&set.cases[i],
              (struct runner_options){.kv_type = KV_Q8_0, .batch = 5, .wide = true});
    }
    print_message("# %zu runs of %zu models\n", n_checked, set.n);
    assert_true(n_checked > set.n);
    golden_free(&set);
}

/* Matrices that a device does not bind whole are in pieces, here of 32 or 64 rows: all models
 * with HEARTH_SOAK, otherwise some, which have tables, heads and experts of all kinds. */
static void test_pieces(void **state)
{
    (void)state;
    static const char *const some[] = {"llama-Q4_K_M$", "qwen2$",    "gpt-oss-MXFP4$",
                                       "gemma4-moe$",   "qwen35moe", NULL};
    if (vulkan_count() == 0) skip();
    struct golden_set set = golden_read("tests/data", soak() > 1 ? golden_known : some);
    for (size_t i = 0; i < set.n; i++) {
        n_more_pieces = 0;
        check(&set.cases[i], (struct runner_options){.kv_type = i % 2 ? KV_F32 : KV_F16,
                                                     .batch = 64,
                                                     .piece_tiles = 1 + i % 2});
        assert_true(n_more_pieces > 10);
    }
    assert_true(set.n >= 5);
    golden_free(&set);
}

/* Token pos. Slabs of pages are at least 1,024 positions apart, and are all that is made, with
 * the tables that go with them; pos of the last in *slab_at. */
static void check_step(struct runner *r, int32_t id, uint32_t pos, uint32_t *slab_at,
                       float *logits, const struct draw *draw)
{
    const struct vulkan_counters before = *vulkan_backend_counters(r->be);
    int32_t drawn = -1;
    runner_draw(r, &id, 1, pos, logits, draw, &drawn);
    const struct vulkan_counters *after = vulkan_backend_counters(r->be);
    assert_int_equal(after->submits - before.submits, 1);
    assert_int_equal(after->waits - before.waits, 1);
    assert_int_equal(after->pipelines, before.pipelines);
    const size_t n_bytes = draw ? sizeof drawn : model_n_vocab(r->m) * sizeof *logits;
    assert_int_equal(after->bytes_back - before.bytes_back, n_bytes);
    assert_true(!draw || (drawn >= 0 && (size_t)drawn < model_n_vocab(r->m)));
    if (after->allocations == before.allocations) {
        assert_int_equal(after->sets, before.sets);
        return;
    }
    assert_true(pos - *slab_at >= 1024);
    assert_true(after->allocations - before.allocations <= 3);
    *slab_at = pos;
}

/* After the first tokens a step is one submission, one wait, its token back or its logits, and
 * nothing made: 10,000 tokens with HEARTH_SOAK. Penalties count all of them. */
static void test_counters(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    enum { FEW = 1300, MANY = 10000 };
    const uint32_t n = soak() > 1 ? MANY : FEW;
    char path[SCRATCH_PATH];
    random_model_make(path, RANDOM_DENSE ",n_embd=32,n_head=1,n_ff=32,n_ctx=16384", "Q4_0");
    struct runner r;
    runner_open(
        &r, path,
        (struct runner_options){.kv_type = KV_F16, .n_ctx = 16384, .batch = 1, .vulkan = true});
    int32_t *ids = mem_alloc(n * sizeof *ids);
    float *logits = mem_zalloc(model_n_vocab(r.m), sizeof *logits);
    uint32_t slab_at = 0;
    random_ids(ids, n, (uint32_t)model_n_vocab(r.m));
    struct err err;
    struct sampler *sampler = sampler_new(model_n_vocab(r.m));
    const struct engine_sampling how = {.temp = 0.8f,
                                        .top_k = 40,
                                        .top_p = 0.95f,
                                        .repeat_penalty = 1.1f,
                                        .frequency_penalty = 0.1f,
                                        .repeat_last_n = -1};
    assert_true(sampler_begin(sampler, &how, ids, 2, &err));
    runner_run(&r, ids, 1, 0, NULL);
    runner_draw(&r, ids + 1, 1, 1, NULL, sampler_request(sampler, NULL, 0, 0), &(int32_t){0});
    runner_run(&r, ids + 1, 1, 1, logits);
    for (uint32_t i = 2; i < n; i++) {
        sampler_accept(sampler, ids, i + 1);
        const bool draws = i % 8 != 0;
        check_step(&r, ids[i], i, &slab_at, logits,
                   draws ? sampler_request(sampler, NULL, 0, 0) : NULL);
    }
    assert_true(slab_at >= 1024);
    sampler_free(sampler);
    free(logits);
    free(ids);
    runner_close(&r);
    unlink(path);
}

/* A device that may be reset when a submission takes long has its layers in several, once a
 * step has been slow; the bits are the same (tests/ops has such a device). */
static void test_patience(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 2, 3};
    if (vulkan_count() == 0) skip();
    struct runner r;
    runner_open(
        &r, "tests/data/models/llama-Q4_0.gguf",
        (struct runner_options){
            .kv_type = KV_F16, .n_ctx = 256, .batch = 1, .vulkan = true, .least = true});
    const struct vulkan_counters *c = vulkan_backend_counters(r.be);
    float *logits = mem_zalloc(model_n_vocab(r.m), sizeof *logits);
    uint64_t n_submits[3];
    for (uint32_t i = 0; i < 3; i++) {
        n_submits[i] = c->submits;
        runner_run(&r, ids + i, 1, i, logits);
        n_submits[i] = c->submits - n_submits[i];
    }
    assert_int_equal(n_submits[0], 1);
    assert_true(n_submits[1] > 1 && n_submits[2] > 1);
    free(logits);
    runner_close(&r);
}

/* An advance of states that is put off when the device is lost is tried just once: it is about
 * states that are freed, or read and rubbish. */
static void put_off(bool reads)
{
    static const int32_t ids[] = {1, 2, 3, 4};
    struct err err;
    struct runner r;
    runner_open(
        &r, "tests/data/models/qwen35-Q4_K_M.gguf",
        (struct runner_options){.kv_type = KV_F16, .n_ctx = 256, .batch = 4, .vulkan = true});
    const size_t n_bytes = model_program(r.m)->state_bytes;
    const struct vulkan_counters *c = vulkan_backend_counters(r.be);
    runner_run(&r, ids, 1, 0, NULL);
    const struct step step = {.n_rows = 3,
                              .pos = 1,
                              .tokens = ids + 1,
                              .pages = {r.pages[PAGE_FULL], r.pages[PAGE_WINDOW]},
                              .state_in = r.state[0],
                              .state_out = r.state[1],
                              .keeps_trail = true};
    if (!exec_run(r.x, &step, &err) || !exec_advance(r.x, r.state[0], r.state[1], 2, &err))
        fail_msg("%s", err.msg);
    vulkan_backend_lose_at(r.be, 1);
    if (reads) {
        void *host = mem_zalloc(1, n_bytes);
        backend_state_read(r.be, r.state[1], n_bytes, host);
        free(host);
        assert_true(backend_is_lost(r.be));
    }
    for (int i = 0; i < 2; i++) {
        backend_state_free(r.be, r.state[i], n_bytes);
        r.state[i] = NULL;
    }
    const uint64_t n_submits = c->submits;
    exec_free(r.x);
    r.x = NULL;
    assert_true(backend_is_lost(r.be));
    assert_int_equal(c->submits, n_submits);
    runner_close(&r);
}

static void test_put_off(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    put_off(false);
    put_off(true);
}

static bool resets_fail;

/* Takes the place of the loader's. */
VKAPI_ATTR VkResult VKAPI_CALL vkResetFences(VkDevice device, uint32_t n, const VkFence *fences)
{
    PFN_vkResetFences real;
    *(void **)&real = dlsym(RTLD_NEXT, "vkResetFences");
    return resets_fail ? VK_ERROR_OUT_OF_DEVICE_MEMORY : real(device, n, fences);
}

/* A fence that stays set says of the next step that it is done before it is. */
static void test_fence(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    static const int32_t ids[] = {1, 2};
    struct err err;
    struct runner r;
    runner_open(
        &r, "tests/data/models/llama-Q4_K_M.gguf",
        (struct runner_options){.kv_type = KV_F16, .n_ctx = 256, .batch = 4, .vulkan = true});
    const struct step step = {
        .n_rows = 1, .tokens = ids, .pages = {r.pages[PAGE_FULL], r.pages[PAGE_WINDOW]}};
    runner_run(&r, ids, 1, 0, NULL);
    resets_fail = true;
    assert_false(exec_run(r.x, &step, &err));
    resets_fail = false;
    assert_true(backend_is_lost(r.be));
    assert_false(exec_run(r.x, &step, &err));
    runner_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience), cmocka_unit_test(test_put_off),
        cmocka_unit_test(test_fence),    cmocka_unit_test(test_models),
        cmocka_unit_test(test_wide),     cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_counters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
