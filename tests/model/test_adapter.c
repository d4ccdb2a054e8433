/* Adapters on small random models: the logits are those of the model that the adapter was added
 * to, matrix by matrix, the same bits everywhere; files that do not fit are refused by name;
 * and pages computed with another adapter, or with more or less of it, are not taken for these.
 */
#include "second_model.h"

#include <string.h>
#include <unistd.h>

#include "../scratch.h"
#include "base/file.h"
#include "engine/machine.h"
#include "engine/timeline.h"

static char home[SCRATCH_PATH];

static int set_up(void **state)
{
    (void)state;
    scratch_folder(home, "adapter");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(home);
    return 0;
}

/* ---- files ---- */

enum name { MODEL, LORA, MERGED, OTHER, N_NAMES };

/* Writes it below the folder; returns the path, which is that of the next of this name, too. */
static const char *store(const struct file *f, enum name name)
{
    static char path[N_NAMES][SCRATCH_PATH + 16];
    struct buf b = {0};
    struct err err;
    snprintf(path[name], sizeof path[name], "%s/%d.gguf", home, name);
    write_file(f, &b);
    if (!file_replace(path[name], b.data, b.len, &err)) fail_msg("%s", err.msg);
    buf_free(&b);
    return path[name];
}

static void bare_str(struct file *f, const char *name, const char *v)
{
    gb_kv_str(&f->keys, name, v);
    f->n_keys++;
}

static void bare_f32(struct file *f, const char *name, float v)
{
    gb_kv(&f->keys, name, GGUF_F32);
    buf_append(&f->keys, &v, sizeof v);
    f->n_keys++;
}

static void bare_f64(struct file *f, const char *name, double v)
{
    gb_kv(&f->keys, name, GGUF_F64);
    buf_append(&f->keys, &v, sizeof v);
    f->n_keys++;
}

/* An adapter's keys, for a model of that family; alpha 0: none is said. */
static void adapter_init(struct file *f, const struct form *form, float alpha)
{
    *f = (struct file){.form = form, .seed = 77};
    bare_str(f, "general.architecture", form->arch);
    bare_str(f, "general.type", "adapter");
    bare_str(f, "adapter.type", "lora");
    if (alpha != 0) bare_f32(f, "adapter.lora.alpha", alpha);
}

/* Both of its matrices for one of the model's. */
static void add_pair(struct file *adapter, const struct values *w, size_t rank)
{
    char name[48];
    snprintf(name, sizeof name, "%.40s.lora_a", w->name);
    random_tensor(adapter, name, w->n_in, rank, 0, 1 / sqrt((double)w->n_in));
    snprintf(name, sizeof name, "%.40s.lora_b", w->name);
    random_tensor(adapter, name, rank, w->n_out, 0, 0.5);
}

static bool is_adapted(const struct values *w)
{
    return w->n_mats == 1 && w->n_out > 1 && strcmp(w->name, "token_embd.weight") != 0;
}

/* W += scale B A, in the model's own values. */
static void merge(struct file *model, const struct file *adapter, double scale)
{
    for (size_t i = 0; i < adapter->n_tensors; i += 2) {
        const struct values *a = &adapter->tensors[i], *b = &adapter->tensors[i + 1];
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(strlen(a->name) - 7), a->name);
        struct values *w = tensor_named(model, name);
        for (size_t out = 0; out < w->n_out; out++) {
            for (size_t in = 0; in < w->n_in; in++) {
                double sum = 0;
                for (size_t r = 0; r < b->n_in; r++)
                    sum += (double)b->v[out * b->n_in + r] * (double)a->v[r * w->n_in + in];
                w->v[out * w->n_in + in] += (float)(scale * sum);
            }
        }
    }
}

static void run_path(const char *path, const struct runner_options *o, float *logits)
{
    struct runner r;
    int32_t ids[N_IDS];
    all_ids(ids);
    runner_open(&r, path, *o);
    runner_run(&r, ids, N_IDS, 0, logits);
    runner_close(&r);
}

/* ---- the same as merged ---- */

static const struct form plain = {"llama", .norm_before = true};
static const struct form biased = {"qwen2", .norm_before = true, .biases = true};
static const struct form parted = {"olmo2", .norm_after = true, .norm_all = true};
static const struct form mixed = {"llama", .norm_before = true, .experts = {.any = true}};

static void check_merged(const struct form *form, size_t rank, float alpha, float strength)
{
    struct file model, adapter;
    static float want[N_IDS * VOCAB], got[N_IDS * VOCAB], without[N_IDS * VOCAB];
    struct runner_options o = {.n_threads = 1, .kv_type = KV_F32, .batch = 16};
    file_init(&model, form);
    adapter_init(&adapter, form, alpha);
    for (size_t i = 0; i < model.n_tensors; i++)
        if (is_adapted(&model.tensors[i])) add_pair(&adapter, &model.tensors[i], rank);
    assert_true(adapter.n_tensors > (size_t)8 * LAYERS);
    const char *path = store(&model, MODEL), *lora = store(&adapter, LORA);
    run_path(path, &o, without);
    o.adapter = lora;
    o.strength = strength;
    run_path(path, &o, got);
    merge(&model, &adapter, (double)strength * (alpha != 0 ? (double)alpha / (double)rank : 1));
    o.adapter = NULL;
    run_path(store(&model, MERGED), &o, want);
    const double nmse = golden_nmse(want, got, N_IDS * VOCAB);
    print_message("# %s, rank %zu, alpha %g, %g of it: nmse %.2g; without %.2g\n", form->arch,
                  rank, (double)alpha, (double)strength, nmse,
                  golden_nmse(want, without, N_IDS * VOCAB));
    assert_true(nmse <= tolerance);
    assert_true(golden_nmse(want, without, N_IDS * VOCAB) > 1e-3);
    file_free(&adapter);
    file_free(&model);
}

static void test_merged(void **state)
{
    (void)state;
    check_merged(&plain, 1, 0, 0.25f);
    check_merged(&plain, 5, 7, 0.5f);
    check_merged(&plain, 16, 8, -0.5f);
    check_merged(&biased, 3, 2, 1);
    check_merged(&parted, 8, 4, 1);
    check_merged(&mixed, 4, 2, 1);
}

/* ---- the same bits ---- */

static void test_bits(void **state)
{
    (void)state;
    static float want[N_IDS * VOCAB], got[N_IDS * VOCAB];
    struct file model, adapter;
    file_init(&model, &biased);
    adapter_init(&adapter, &biased, 4);
    for (size_t i = 0; i < model.n_tensors; i++)
        if (is_adapted(&model.tensors[i])) add_pair(&adapter, &model.tensors[i], 5);
    const char *path = store(&model, MODEL), *lora = store(&adapter, LORA);
    const struct runner_options first = {.isa = CPU_SCALAR,
                                         .n_threads = 1,
                                         .kv_type = KV_F16,
                                         .batch = 1,
                                         .adapter = lora,
                                         .strength = 0.5f};
    run_path(path, &first, want);
    for (int way = 0; way < (vulkan_count() > 0 ? 4 : 2); way++) {
        struct runner_options o = first;
        o.isa = CPU_AUTO;
        o.n_threads = way == 1 ? 3 : 1;
        o.batch = 16;
        o.vulkan = way >= 2;
        o.is_split = way == 3;
        o.split_at = 3;
        run_path(path, &o, got);
        assert_memory_equal(got, want, sizeof want);
    }
    file_free(&adapter);
    file_free(&model);
}

/* ---- what does not fit ---- */

static void refused(const char *model, const struct file *adapter, const char *message)
{
    struct adapter found;
    struct err err = {0};
    const char *path = store(adapter, OTHER);
    struct gguf *g = adapter_open(model, path, 1, &found, &err);
    if (g) fail_msg("not refused: %s", message);
    assert_true(strncmp(err.msg, path, strlen(path)) == 0);
    assert_string_equal(err.msg + strlen(path), message);
}

/* The adapter opens, but the model's family has no use for some of it. */
static void useless(const char *model, const struct file *adapter, const char *message)
{
    struct model_params params = {.kv_type = KV_F32};
    struct model_sizes sizes;
    struct err err = {0};
    struct gguf *g = adapter_open(model, store(adapter, OTHER), 1, &params.adapter, &err);
    assert_non_null(g);
    assert_false(model_estimate(g, NULL, &params, 16, &sizes, &err));
    assert_true(strncmp(err.msg, model, strlen(model)) == 0);
    assert_string_equal(err.msg + strlen(model), message);
    gguf_close(g);
}

static void test_refused(void **state)
{
    (void)state;
    struct file model, f;
    file_init(&model, &mixed);
    const struct values *q = tensor_named(&model, "blk.0.attn_q.weight");
    const char *path = store(&model, MODEL);

    refused(path, &model, ": expected an adapter (general.type \"adapter\"), found \"\"");
    adapter_init(&f, &biased, 1);
    refused(path, &f, ": is an adapter of a model of \"qwen2\", not of \"llama\"");
    file_free(&f);
    adapter_init(&f, &mixed, 1);
    refused(path, &f, ": has no tensors");
    add_pair(&f, q, 4);
    f.n_tensors--;
    refused(path, &f, ": tensor blk.0.attn_q.weight.lora_a: there is no .lora_b to it");
    f.n_tensors++;
    f.tensors[1].n_out /= 2;
    refused(path, &f,
            ": blk.0.attn_q.weight: expected .lora_a of [64, rank] and .lora_b of [rank, 64], "
            "found [64, 4] and [4, 32]");
    f.tensors[1].n_out *= 2;
    snprintf(f.tensors[0].name, sizeof f.tensors[0].name, "blk.0.attn_q.weight.lora_c");
    refused(path, &f,
            ": tensor blk.0.attn_q.weight.lora_c: expected a name that ends with .lora_a or "
            ".lora_b");
    file_free(&f);
    adapter_init(&f, &mixed, 1);
    add_pair(&f, tensor_named(&model, "token_embd.weight"), 4);
    refused(path, &f, ": an adapter of token_embd.weight is not supported");
    file_free(&f);
    adapter_init(&f, &mixed, 1);
    add_pair(&f, tensor_named(&model, "blk.2.ffn_up_exps.weight"), 4);
    refused(path, &f, ": an adapter of blk.2.ffn_up_exps.weight is not supported");
    file_free(&f);
    adapter_init(&f, &mixed, 1);
    add_pair(&f, &(struct values){.name = "blk.9.attn_q.weight", .n_in = 64, .n_out = 64}, 4);
    refused(path, &f, ": tensor blk.9.attn_q.weight.lora_a: the model has no such matrix");
    file_free(&f);
    adapter_init(&f, &mixed, 1);
    bare_f32(&f, "adapter.alora.invocation_tokens", 1);
    refused(path, &f,
            ": adapter.alora.invocation_tokens: an adapter that counts from some tokens on is "
            "not supported");
    file_free(&f);
    adapter_init(&f, &mixed, NAN);
    add_pair(&f, q, 4);
    refused(path, &f, ": adapter.lora.alpha: expected a number");
    file_free(&f);
    for (int i = 0; i < 2; i++) { /* too much, and too little to be seen */
        adapter_init(&f, &mixed, 0);
        bare_f64(&f, "adapter.lora.alpha", i == 0 ? 1e39 : 1e-60);
        add_pair(&f, q, 4);
        refused(path, &f,
                i == 0 ? ": adapter.lora.alpha: 1e+39, of which 1 counts, is beyond F32"
                       : ": adapter.lora.alpha: 1e-60, of which 1 counts, is beyond F32");
        file_free(&f);
    }
    adapter_init(&f, &mixed, 1);
    add_pair(&f, tensor_named(&model, "blk.0.ffn_gate_inp.weight"), 4);
    add_pair(&f, &(struct values){.name = "blk.0.attn_norm.weight", .n_in = EMBD, .n_out = 1},
             4);
    useless(
        path, &f,
        ": the adapter's tensor blk.0.attn_norm.weight.lora_a belongs to what hearth's llama "
        "has no adapter for");
    file_free(&f);
    file_free(&model);
}

/* Two files with the same tensor are no model. */
static void test_twice(void **state)
{
    (void)state;
    struct file model;
    struct err err;
    file_init(&model, &plain);
    const char *path = store(&model, MODEL);
    struct gguf *g = gguf_open(path, &err);
    assert_non_null(g);
    assert_false(gguf_join(g, path, &err));
    assert_non_null(strstr(err.msg, "occurs twice"));
    gguf_close(g);
    file_free(&model);
}

/* An adapter's file with some bytes changed is refused or opens. */
static void test_changes(void **state)
{
    (void)state;
    struct file model, adapter;
    struct buf b = {0};
    file_init(&model, &plain);
    adapter_init(&adapter, &plain, 4);
    for (size_t i = 0; i < 12; i++)
        if (is_adapted(&model.tensors[i])) add_pair(&adapter, &model.tensors[i], 2);
    const char *path = store(&model, MODEL), *lora = store(&adapter, LORA);
    write_file(&adapter, &b);
    const size_t n_head = b.len - 12 * 2 * EMBD * sizeof(float);
    size_t n_open = 0;
    for (uint32_t i = 0; i < 400 * soak(); i++) {
        struct model_params params = {.kv_type = KV_F32};
        struct model_sizes sizes;
        struct err err;
        struct buf changed = {0};
        buf_append(&changed, b.data, b.len);
        for (size_t k = 1 + below(3); k > 0; k--)
            changed.data[below((uint32_t)n_head)] = (char)chance_word();
        if (!file_replace(lora, changed.data, changed.len, &err)) fail_msg("%s", err.msg);
        struct gguf *g = adapter_open(path, lora, 1, &params.adapter, &err);
        n_open += g && model_estimate(g, NULL, &params, 16, &sizes, &err);
        gguf_close(g);
        buf_free(&changed);
    }
    print_message("# %zu of %u changed files open\n", n_open, 400 * soak());
    buf_free(&b);
    file_free(&adapter);
    file_free(&model);
}

/* ---- pages ---- */

/* How many of the tokens come from disk. */
static size_t n_read(const char *path, const char *adapter, float strength)
{
    const struct engine_config config = {.model_path = path,
                                         .adapter_path = adapter,
                                         .adapter_scale = strength,
                                         .device = "cpu",
                                         .n_threads = 1,
                                         .n_ctx = 256,
                                         .cache_dir = home,
                                         .cache_disk_bytes = 64 << 20};
    enum { N = 128 };
    struct machine m;
    struct err err;
    struct timeline_cost cost;
    int32_t ids[N];
    for (size_t i = 0; i < N; i++)
        ids[i] = id_at(i);
    if (!machine_open(&m, &config, NULL, &err)) fail_msg("%s", err.msg);

    if (!timeline_sync(m.tl, ids, N, NULL, &cost, &err)) fail_msg("%s", err.msg);
    timeline_save(m.tl, NULL);
    machine_close(&m);
    return cost.n_read;
}

static void test_pages(void **state)
{
    (void)state;
    struct file model, adapter;
    file_init(&model, &plain);
    adapter_init(&adapter, &plain, 4);
    add_pair(&adapter, tensor_named(&model, "blk.0.attn_k.weight"), 4);
    const char *path = store(&model, MODEL), *lora = store(&adapter, LORA);
    assert_int_equal(n_read(path, NULL, 1), 0);
    assert_int_equal(n_read(path, NULL, 1), 128);
    assert_int_equal(n_read(path, lora, 1), 0);
    assert_int_equal(n_read(path, lora, 1), 128);
    assert_int_equal(n_read(path, lora, 0.5f), 0);
    assert_int_equal(n_read(path, lora, 0.5f), 128);
    /* Nothing of it is the model alone. */
    assert_int_equal(n_read(path, lora, 0), 128);
    adapter.tensors[0].v[0] += 1;
    const char *other = store(&adapter, OTHER);
    assert_int_equal(n_read(path, other, 1), 0);
    assert_int_equal(n_read(path, NULL, 1), 128);
    file_free(&adapter);
    file_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merged),  cmocka_unit_test(test_bits),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_twice),
        cmocka_unit_test(test_changes), cmocka_unit_test(test_pages),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
