/* Whole models on Vulkan: the logits are those whose hashes are stored in
 * tests/data/golden/bits.txt, which the CPU gives too (test_bits), whatever the rows per step;
 * and a step costs one submission, one wait, and nothing that is made. */
#include <xxhash.h>

#include "../golden.h"
#include "backend/kv.h"

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

static void check(const struct golden_case *c, enum kv_type type, uint32_t batch)
{
    uint64_t random, golden;
    if (!stored_hashes(c->name, type, &random, &golden)) return;
    const uint32_t n = strcmp(c->name, "mistral3") == 0 ? 500 : RANDOM_IDS;
    struct runner r;
    int32_t ids[RANDOM_IDS];
    runner_open(&r, c->model,
                (struct runner_options){.kv_type = type,
                                        .n_ctx = n == 500 ? 512 : 1024,
                                        .batch = batch,
                                        .poison = true,
                                        .vulkan = true});
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
    free(logits);
    runner_close(&r);
}

/* With HEARTH_SOAK every batch and KV type of every model, otherwise some of each in turn. */
static void test_models(void **state)
{
    (void)state;
    static const uint32_t batches[] = {64, 5, 200, 1, 2, 4};
    if (vulkan_count() == 0) skip();
    const bool all = getenv("HEARTH_SOAK") != NULL;
    struct golden_set set = golden_read("tests/data", golden_known);
    for (size_t i = 0; i < set.n; i++)
        for (enum kv_type type = KV_F32; type <= KV_Q4_0; type++)
            for (size_t b = 0; b < 6; b++) {
                uint64_t random, golden;
                if (all || (b == i % 6 && type == (i % 4 == 0 ? KV_F32 : KV_F16)) ||
                    (b == 0 && type > KV_F16 &&
                     stored_hashes(set.cases[i].name, type, &random, &golden)))
                    check(&set.cases[i], type, batches[b]);
            }
    print_message("# %zu runs of %zu models\n", n_checked, set.n);
    assert_true(n_checked > 0);
    golden_free(&set);
}

/* Tokens from..to-1, one per step. What must not be made in them: anything, or where there is a
 * new slab of pages, more than that and the tables that go with it. */
static void check_steps(struct runner *r, const int32_t *ids, uint32_t from, uint32_t to,
                        uint64_t n_allocations)
{
    size_t n_vocab = model_n_vocab(r->m);
    float *logits = mem_zalloc((to - from) * n_vocab, sizeof *logits);
    const struct vulkan_counters before = *vulkan_backend_counters(r->be);
    runner_run(r, ids + from, to - from, from, logits);
    const struct vulkan_counters *after = vulkan_backend_counters(r->be);
    assert_int_equal(after->submits - before.submits, to - from);
    assert_int_equal(after->waits - before.waits, to - from);
    assert_int_equal(after->pipelines, before.pipelines);
    assert_true(after->allocations - before.allocations <= n_allocations);
    if (n_allocations == 0) assert_int_equal(after->sets, before.sets);
    assert_int_equal(after->bytes_back - before.bytes_back,
                     (to - from) * n_vocab * sizeof *logits);
    free(logits);
}

/* After the first token a step is one submission, one wait, its logits back, and nothing made;
 * the first 1,024 positions are one slab. */
static void test_counters(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    enum { N = 1300 };
    struct runner r;
    int32_t ids[N];
    runner_open(
        &r, "tests/data/models/llama-Q4_0.gguf",
        (struct runner_options){.kv_type = KV_F16, .n_ctx = 1024, .batch = 1, .vulkan = true});
    random_ids(ids, N, (uint32_t)model_n_vocab(r.m));
    runner_run(&r, ids, 1, 0, NULL);
    float *logits = mem_zalloc(model_n_vocab(r.m), sizeof *logits);
    runner_run(&r, ids + 1, 1, 1, logits);
    free(logits);
    check_steps(&r, ids, 2, 1024, 0);
    check_steps(&r, ids, 1024, 1100, 3);
    check_steps(&r, ids, 1100, N, 0);
    runner_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models),
                                       cmocka_unit_test(test_counters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
