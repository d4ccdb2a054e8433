/* A model of which hearth can do the first tokens only: without --ctx the context ends there by
 * itself, which one line says, on the CPU, on a device and on both, and for a draft, too; a
 * longer one that is asked for is refused. */
#include <stdlib.h>
#include <unistd.h>

#include "../scratch.h"
#include "base/mem.h"
#include "engine/machine.h"
#include "second_latent.h"
#include "timeline_case.h"
#include "vulkan/backend.h"

enum { REACH = 96, N_CONTEXT = 4096 /* of the files */ };

/* Of random weights, one with an indexer and one without. */
static char indexed[SCRATCH_PATH], whole[SCRATCH_PATH];
static char warned[512];
static int n_warned;

static void on_warning(void *user, const char *line)
{
    (void)user;
    n_warned++;
    snprintf(warned, sizeof warned, "%s", line);
}

static const struct machine_watch watch = {.warning = on_warning};

static void vocabulary(struct file *f)
{
    char text[8];
    gb_kv_array(&f->keys, "tokenizer.ggml.tokens", GGUF_STRING, VOCAB);
    f->n_keys++;
    for (int i = 0; i < VOCAB; i++) {
        snprintf(text, sizeof text, "t%d", i);
        gb_str(&f->keys, text);
    }
}

static void make_model(char path[SCRATCH_PATH], const char *arch, uint32_t top_k)
{
    const struct form form = {
        arch, .norm_before = true, .latent = {.n_q = 20},
        .experts = {
            .any = true, .as_is = true, .sigmoid = true, .n_ff = L_WIDTH, .n_shared = L_WIDTH}};
    struct file f;
    struct buf b = {0};
    latent_init(&f, &form);
    vocabulary(&f);
    if (top_k > 0) key_u32(&f, "attention.indexer.top_k", top_k);
    write_file(&f, &b);
    scratch_file(path, arch, "");
    FILE *out = fopen(path, "wb");
    assert_true(out && fwrite(b.data, 1, b.len, out) == b.len && fclose(out) == 0);
    buf_free(&b);
    file_free(&f);
}

static int set_up(void **state)
{
    (void)state;
    make_model(indexed, "deepseek32", REACH);
    make_model(whole, "deepseek2", 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(indexed);
    unlink(whole);
    return 0;
}

static struct engine_config config_of(const char *device, uint32_t gpu_layers, uint32_t n_ctx)
{
    return (struct engine_config){.model_path = indexed,
                                  .device = device,
                                  .gpu_layers = gpu_layers,
                                  .wants_layers = gpu_layers > 0,
                                  .n_threads = 1,
                                  .n_ctx = n_ctx,
                                  .cache_ram_bytes = 16 << 20};
}

static void open_machine(struct machine *m, const struct engine_config *config)
{
    struct err err;
    n_warned = 0;
    if (!machine_open(m, config, &watch, &err)) fail_msg("%s", err.msg);
}

/* What it says up to its end is what it says in a context of that length that was asked for. */
static void check_ends(const char *device, uint32_t gpu_layers)
{
    const struct engine_config config = config_of(device, gpu_layers, 0),
                               short_one = config_of("cpu", 0, REACH);
    struct machine m, asked;
    struct err err;
    int32_t ids[REACH + 1];
    open_machine(&m, &config);
    assert_int_equal(n_warned, 1);
    assert_string_equal(warned, "the context is 96 tokens of the model's 4096: beyond, this "
                                "model attends to what its indexer chooses, which hearth "
                                "cannot");
    assert_int_equal(m.n_ctx, REACH);
    assert_int_equal(timeline_n_ctx(m.tl), REACH);
    assert_int_equal(model_n_ctx(m.model), REACH);
    assert_int_equal(model_n_ctx_train(m.model), N_CONTEXT);
    open_machine(&asked, &short_one);
    assert_int_equal(n_warned, 0);
    chance_begin(3);
    random_ids(ids, 0, REACH + 1, VOCAB);
    sync_to(m.tl, ids, REACH);
    sync_to(asked.tl, ids, REACH);
    assert_memory_equal(timeline_logits(m.tl), timeline_logits(asked.tl),
                        VOCAB * sizeof(float));
    assert_false(timeline_sync(m.tl, ids, REACH + 1, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_USER);
    machine_close(&asked);
    machine_close(&m);
}

static void test_ends(void **state)
{
    (void)state;
    check_ends("cpu", 0);
}

static void test_ends_on_device(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    check_ends("vulkan:0", 0);
    check_ends("vulkan:0", 2);
}

static void test_asked_for(void **state)
{
    (void)state;
    const struct engine_config config = config_of("cpu", 0, REACH + 1);
    struct machine m;
    struct err err;
    assert_false(machine_open(&m, &config, &watch, &err));
    assert_int_equal(err.code, ERR_USER);
    if (!strstr(err.msg, "(deepseek32.attention.indexer.top_k), which hearth cannot, but the "
                         "context is 97: use --ctx 96 or less"))
        fail_msg("%s", err.msg);
    machine_close(&m);
}

/* The model's context is its own, and the draft's ends where it must. */
static void test_draft(void **state)
{
    (void)state;
    struct engine_config config = config_of("cpu", 0, 0);
    struct machine m;
    config.model_path = whole;
    config.draft_path = indexed;
    open_machine(&m, &config);
    assert_int_equal(n_warned, 0);
    assert_int_equal(m.n_ctx, N_CONTEXT);
    assert_int_equal(timeline_n_ctx(m.tl), N_CONTEXT);
    assert_int_equal(timeline_n_ctx(m.draft->tl), REACH);
    machine_close(&m);
    config.n_ctx = REACH / 2;
    open_machine(&m, &config);
    assert_int_equal(timeline_n_ctx(m.draft->tl), REACH / 2);
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends), cmocka_unit_test(test_ends_on_device),
        cmocka_unit_test(test_asked_for), cmocka_unit_test(test_draft)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
