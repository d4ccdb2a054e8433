/* Which device a model runs on: "auto" takes one that gives the CPU's bits and says why it does
 * not take another; what the self-test has tried is all that a conversation needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../guide.h"
#include "../scratch.h"
#include "backend/backend.h"
#include "backend/cut.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "engine/device.h"
#include "engine/disk.h"
#include "engine/layers.h"
#include "engine/machine.h"
#include "engine/timeline.h"
#include "vulkan/backend.h"

static char warned[2048];
static int n_warned;

static void on_warning(void *user, const char *line)
{
    (void)user;
    n_warned++;
    snprintf(warned, sizeof warned, "%s", line);
}

static bool open_layers(struct machine *m, const char *model, const char *device,
                        uint32_t gpu_layers, struct err *err)
{
    const struct machine_watch watch = {.warning = on_warning};
    const struct engine_config config = {.model_path = model,
                                         .device = device,
                                         .gpu_layers = gpu_layers,
                                         .n_threads = 2,
                                         .n_ctx = 256};
    n_warned = 0;
    return machine_open(m, &config, &watch, err);
}

static bool open_machine(struct machine *m, const char *model, const char *device,
                         struct err *err)
{
    return open_layers(m, model, device, 0, err);
}

static void must_open(struct machine *m, const char *model, const char *device)
{
    struct err err;
    if (!open_machine(m, model, device, &err)) fail_msg("%s: %s", device, err.msg);
}

static void order_of_devices(void **state)
{
    (void)state;
    const struct vulkan_info all[] = {{.kind = VULKAN_SOFTWARE},   {.kind = VULKAN_OTHER},
                                      {.kind = VULKAN_INTEGRATED}, {.kind = VULKAN_DISCRETE},
                                      {.kind = VULKAN_SOFTWARE},   {.kind = VULKAN_VIRTUAL},
                                      {.kind = VULKAN_DISCRETE}};
    uint32_t order[7];
    static const uint32_t want[] = {3, 6, 2, 5, 1};
    assert_int_equal(vulkan_order(all, 7, order), 5);
    assert_memory_equal(order, want, sizeof want);
    assert_int_equal(vulkan_order(all, 1, order), 0);
}

/* Without a hardware device, "auto" is the CPU and knows why; with one, the CPU is the last. */
static void auto_ends_with_the_cpu(void **state)
{
    (void)state;
    struct device_names d;
    device_auto(&d);
    assert_true(d.n >= 1);
    assert_string_equal(d.names[d.n - 1], "cpu");
    assert_true((d.n == 1) == (d.why != NULL));
}

/* GB/s of a processor that any device keeps up with, and of one that none does. */
static const double SLEEPY = 1e-6, QUICK = 1e6;

static void auto_takes_a_device(void **state)
{
    (void)state;
    struct machine m;
    if (vulkan_count() == 0) skip();
    device_set_seam(&(struct device_seam){.software_too = true, .cpu_reads = SLEEPY});
    must_open(&m, GUIDE, "auto");
    assert_false(m.is_cpu);
    assert_int_equal(n_warned, 0);
    assert_int_equal(timeline_n(m.tl), 0);
    machine_close(&m);
    device_set_seam(NULL);
}

/* "auto" has no device that behaves so, and says why. */
static void must_leave(const struct device_seam *seam, const char *why)
{
    struct machine m;
    device_set_seam(seam);
    must_open(&m, GUIDE, "auto");
    assert_true(m.is_cpu);
    assert_int_equal(n_warned, (int)vulkan_count());
    if (!strstr(warned, " is not used: ") || !strstr(warned, why) ||
        !strstr(warned, "; the CPU takes its place"))
        fail_msg("%s", warned);
    machine_close(&m);
}

/* A device that a processor is faster than is left, unless it is named, or layers are asked
 * for, as many as fit or so many. */
static void auto_leaves_a_slow_one(void **state)
{
    (void)state;
    const struct device_seam seam = {.software_too = true, .cpu_reads = QUICK};
    struct engine_config config = {.model_path = GUIDE,
                                   .device = "auto",
                                   .wants_layers = true,
                                   .n_threads = 2,
                                   .n_ctx = 256};
    const struct machine_watch watch = {.warning = on_warning};
    struct machine m;
    struct err err;
    if (vulkan_count() == 0) skip();
    must_leave(&seam, " and the CPU about ");
    assert_non_null(strstr(warned, " is not used: it takes "));
    assert_non_null(strstr(warned, " (--device vulkan:"));
    must_open(&m, GUIDE, "vulkan:0");
    assert_int_equal(n_warned, 0);
    machine_close(&m);
    for (config.gpu_layers = 0; config.gpu_layers <= 3; config.gpu_layers += 3) {
        if (!machine_open(&m, &config, &watch, &err)) fail_msg("%s", err.msg);
        assert_true(!m.is_cpu && n_warned == 0);
        assert_int_equal(m.is_split, config.gpu_layers > 0);
        machine_close(&m);
    }
    device_set_seam(NULL);
}

/* What the scalar kernels read says nothing about what they compute. */
static void auto_asks_no_scalar_kernels(void **state)
{
    (void)state;
    const struct device_choice scalar = {.device = "cpu", .cpu = "scalar"};
    const char data[64] = "";
    assert_true(device_cpu_reads(&scalar, data, sizeof data) == 0);
    if (cpu_best() == CPU_SCALAR) return;
    assert_true(device_cpu_reads(&(struct device_choice){0}, data, sizeof data) > 0);
}

/* Steps go on at the end of the context. */
static void auto_times_a_short_context(void **state)
{
    (void)state;
    const struct engine_config config = {
        .model_path = GUIDE, .device = "auto", .n_threads = 2, .n_ctx = 1};
    const struct machine_watch watch = {.warning = on_warning};
    struct machine m;
    struct err err;
    if (vulkan_count() == 0) skip();
    device_set_seam(&(struct device_seam){.software_too = true, .cpu_reads = QUICK});
    if (!machine_open(&m, &config, &watch, &err)) fail_msg("%s", err.msg);
    assert_true(m.is_cpu);
    machine_close(&m);
    device_set_seam(NULL);
}

static void auto_leaves_a_wrong_one(void **state)
{
    (void)state;
    const struct device_seam seam = {.software_too = true, .wrong_bits = true};
    struct machine m;
    struct err err;
    if (vulkan_count() == 0) skip();
    must_leave(&seam, "otherwise than the CPU");
    /* One that is named is never replaced. */
    assert_false(open_machine(&m, GUIDE, "vulkan:0", &err));
    assert_int_equal(err.code, ERR_DEVICE);
    assert_non_null(strstr(err.msg, "it cannot give the same bits"));
    assert_int_equal(n_warned, 0);
    machine_close(&m);
    device_set_seam(NULL);
}

/* An error that no other device would mend ends the search. */
static void auto_stops_at_other_errors(void **state)
{
    (void)state;
    struct machine m;
    struct err err;
    device_set_seam(&(struct device_seam){.software_too = true});
    assert_false(open_machine(&m, "examples/guide/README.md", "auto", &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_int_equal(n_warned, 0);
    machine_close(&m);
    device_set_seam(NULL);
}

static void sync(struct machine *m, const int32_t *ids, size_t n)
{
    struct err err;
    if (!timeline_sync(m->tl, ids, n, NULL, NULL, &err)) fail_msg("%s", err.msg);
}

static void fill_ids(int32_t *ids, size_t n, uint32_t n_vocab)
{
    uint32_t state = 12;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((uint64_t)state * n_vocab >> 32);
    }
}

/* The pipelines of prompts, tokens and drafts are those of the self-test. */
static void all_was_tried(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-Q4_0", "gemma3",    "gpt-oss-MXFP4",
                                         "qwen35moe",  "falcon-h1", "lfm2moe"};
    if (vulkan_count() == 0) skip();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct machine m;
        struct err err;
        char path[128];
        int32_t ids[120];
        snprintf(path, sizeof path, "tests/data/models/%s.gguf", models[i]);
        must_open(&m, path, "vulkan:0");
        const struct vulkan_counters *c = vulkan_backend_counters(m.be);
        const uint64_t n_pipelines = c->pipelines;
        fill_ids(ids, 120, model_n_vocab(m.model));
        sync(&m, ids, 100);
        assert_true(timeline_append(m.tl, ids[100], NULL, &err));
        for (size_t n = 2; n <= 5; n++) {
            assert_true(timeline_append_rows(m.tl, ids + 101, n, NULL, &err));
            timeline_keep_rows(m.tl, n);
        }
        if (c->pipelines != n_pipelines)
            fail_msg("%s: %d pipelines were not tried", models[i],
                     (int)(c->pipelines - n_pipelines));
        machine_close(&m);
    }
}

/* Rows that hold nothing are NaN, on a device too, and nobody sees them. */
static void poison_is_not_seen(void **state)
{
    (void)state;
    struct machine m, cpu;
    int32_t ids[150];
    if (vulkan_count() == 0) skip();
    must_open(&m, GUIDE, "vulkan:0");
    must_open(&cpu, GUIDE, "cpu");
    const size_t n_vocab = model_n_vocab(m.model);
    fill_ids(ids, 150, (uint32_t)n_vocab);
    sync(&m, ids, 70);
    timeline_poison(m.tl);
    uint8_t *page = mem_zalloc(1, model_program(m.model)->page_bytes[PAGE_FULL]);
    backend_page_read(m.be, timeline_page(m.tl, 1),
                      model_program(m.model)->page_bytes[PAGE_FULL], page);
    const struct kv_layer *kv = &model_program(m.model)->kv[0];
    assert_int_equal(kv->type, KV_F16);
    assert_int_equal(((const uint16_t *)(page + kv->at))[6], 0xffff); /* of row 70 */
    assert_int_not_equal(((const uint16_t *)(page + kv->at))[5], 0xffff);
    free(page);
    sync(&m, ids, 150);
    sync(&cpu, ids, 150);
    assert_memory_equal(timeline_logits(m.tl), timeline_logits(cpu.tl),
                        n_vocab * sizeof(float));
    machine_close(&m);
    machine_close(&cpu);
}

/* ---- a device with other bits, allowed ---- */

static bool open_kept(struct machine *m, const char *dir, bool allow_inexact, struct err *err)
{
    const struct machine_watch watch = {.warning = on_warning};
    const struct engine_config config = {.model_path = GUIDE,
                                         .device = "vulkan:0",
                                         .allow_inexact = allow_inexact,
                                         .n_threads = 2,
                                         .n_ctx = 256,
                                         .cache_dir = dir,
                                         .cache_disk_bytes = 64 << 20};
    n_warned = 0;
    const bool ok = machine_open(m, &config, &watch, err);
    if (ok) disk_make_ready(m->disk, NULL);
    return ok;
}

/* Tokens of 150 that come from the disk; then they are there. */
static size_t read_of_150(struct machine *m)
{
    struct timeline_cost cost;
    struct err err;
    int32_t ids[150];
    fill_ids(ids, 150, model_n_vocab(m->model));
    if (!timeline_sync(m->tl, ids, 150, NULL, &cost, &err)) fail_msg("%s", err.msg);
    machine_close(m);
    return cost.n_read;
}

/* It is said at every start, and its pages are apart from those of others. */
static void inexact_is_allowed(void **state)
{
    (void)state;
    struct machine m;
    struct err err;
    char dir[SCRATCH_PATH];
    if (vulkan_count() == 0) skip();
    scratch_folder(dir, "inexact");
    for (int i = 0; i < 2; i++) {
        device_set_seam(&(struct device_seam){.wrong_bits = true});
        if (!open_kept(&m, dir, true, &err)) fail_msg("%s", err.msg);
        assert_true(m.is_inexact);
        assert_int_equal(n_warned, 1);
        if (!strstr(warned, "it cannot give the same bits; it is used all the same"))
            fail_msg("%s", warned);
        assert_int_equal(read_of_150(&m), i == 0 ? 0 : 150);
        assert_false(open_kept(&m, NULL, false, &err));
        assert_int_equal(err.code, ERR_DEVICE);
        machine_close(&m);
        device_set_seam(NULL);
        if (!open_kept(&m, dir, true, &err)) fail_msg("%s", err.msg);
        assert_false(m.is_inexact);
        assert_int_equal(n_warned, 0);
        assert_int_equal(read_of_150(&m), i == 0 ? 0 : 150);
    }
    scratch_remove(dir);
}

/* ---- some of the layers ---- */

static void same_as_cpu(struct machine *m, const char *model)
{
    struct machine cpu;
    int32_t ids[150];
    must_open(&cpu, model, "cpu");
    fill_ids(ids, 150, model_n_vocab(m->model));
    sync(m, ids, 70);
    sync(m, ids, 150);
    sync(&cpu, ids, 150);
    assert_memory_equal(timeline_logits(m->tl), timeline_logits(cpu.tl),
                        model_n_vocab(m->model) * sizeof(float));
    machine_close(&cpu);
}

static void as_many_as_asked_for(void **state)
{
    (void)state;
    static const char gemma[] = "tests/data/models/gemma4.gguf";
    static const char *const names[] = {"1 of 5 layers on vulkan:0 (",
                                        "3 of 5 layers on vulkan"};
    struct machine m;
    struct err err;
    if (vulkan_count() == 0) skip();
    for (uint32_t i = 0; i < 2; i++) {
        static const char qwen[] = "tests/data/models/qwen35-Q4_K_M.gguf";
        if (!open_layers(&m, qwen, "vulkan:0", 1 + 2 * i, &err)) fail_msg("%s", err.msg);
        assert_int_equal(n_warned, 0);
        if (strncmp(backend_name(m.be), names[i], strlen(names[i])) != 0 ||
            !strstr(backend_name(m.be), "), the rest on cpu ("))
            fail_msg("%s", backend_name(m.be));
        same_as_cpu(&m, qwen);
        machine_close(&m);
    }
    /* Its last six layers share keys. */
    if (!open_layers(&m, gemma, "vulkan:0", 2, &err)) fail_msg("%s", err.msg);
    assert_int_equal(n_warned, 1);
    assert_non_null(strstr(warned, "--gpu-layers 2: 6 of 8 layers run on the device"));
    assert_int_equal(m.split_at, 2);
    same_as_cpu(&m, gemma);
    machine_close(&m);
}

/* What the device's side takes, with the context of these tests. */
static uint64_t taken(const struct machine *m)
{
    const struct model_sizes *s = &m->split_sizes[CUT_BACK];
    return model_bytes(s, 256) + LAYERS_SPARE;
}

/* A device that says it has just so much memory takes what fits, down to nothing. */
static void as_many_as_fit(void **state)
{
    (void)state;
    struct device_seam seam = {.software_too = true, .cpu_reads = SLEEPY};
    struct machine m;
    struct err err;
    if (vulkan_count() == 0) skip();
    for (uint32_t n = 5; n > 0; n = n == 5 ? 1 : 0) {
        seam.memory = 0;
        device_set_seam(&seam);
        assert_true(open_layers(&m, GUIDE, "vulkan:0", n, &err));
        assert_int_equal(n_warned, 0);
        seam.memory = taken(&m);
        machine_close(&m);
        device_set_seam(&seam);
        must_open(&m, GUIDE, "auto");
        assert_true(m.is_split && m.n_layers == 8 && m.split_at == 8 - n);
        assert_int_equal(n_warned, 1);
        char want[64];
        snprintf(want, sizeof want, "the device has room for %u of 8 layers", n);
        if (!strstr(warned, want)) fail_msg("%s", warned);
        same_as_cpu(&m, GUIDE);
        machine_close(&m);
    }
    seam.memory--;
    device_set_seam(&seam);
    assert_false(open_machine(&m, GUIDE, "vulkan:0", &err));
    assert_int_equal(err.code, ERR_MEMORY);
    assert_non_null(strstr(err.msg, "not enough memory for one layer: "));
    machine_close(&m);
    must_open(&m, GUIDE, "auto");
    assert_true(m.is_cpu);
    assert_int_equal(n_warned, (int)vulkan_count());
    assert_non_null(strstr(warned, "not enough memory for one layer"));
    machine_close(&m);
    device_set_seam(NULL);
}

/* A number of layers for a device that there is not is said to have no effect. */
static void layers_without_a_device(void **state)
{
    (void)state;
    struct device_names d;
    struct machine m;
    struct err err;
    if (!open_layers(&m, GUIDE, "cpu", 3, &err)) fail_msg("%s", err.msg);
    assert_int_equal(n_warned, 1);
    assert_string_equal(warned, "--gpu-layers 3 has no effect: --device is cpu");
    machine_close(&m);
    device_auto(&d);
    if (d.n > 1) return; /* there is one */
    if (!open_layers(&m, GUIDE, "auto", 3, &err)) fail_msg("%s", err.msg);
    assert_int_equal(n_warned, d.is_odd ? 2 : 1);
    char want[256];
    snprintf(want, sizeof want, "--gpu-layers 3 has no effect: %s", d.why);
    assert_string_equal(warned, want);
    machine_close(&m);
    must_open(&m, GUIDE, "auto");
    assert_int_equal(n_warned, d.is_odd ? 1 : 0);
    machine_close(&m);
}

/* ---- a draft ---- */

static const struct engine_config with_draft = {.model_path = GUIDE,
                                                .draft_path = GUIDE_DRAFT,
                                                .device = "vulkan:0",
                                                .n_threads = 2,
                                                .n_ctx = 256};
static char sizes_line[512];

static void on_sizes(void *user, uint64_t total, const char *line)
{
    (void)user, (void)total;
    snprintf(sizes_line, sizeof sizes_line, "%s", line);
}

static const struct machine_watch watch_draft = {.warning = on_warning, .sizes = on_sizes};

static void open_drafting(struct machine *m, uint64_t memory)
{
    struct err err;
    device_set_seam(&(struct device_seam){.memory = memory});
    n_warned = 0;
    if (!machine_open(m, &with_draft, &watch_draft, &err)) fail_msg("%s", err.msg);
}

static uint64_t taken_by(const struct model_sizes *s)
{
    return model_bytes(s, 256);
}

/* Guesses of the draft for the same tokens. */
static void draft_works(struct machine *m)
{
    struct machine alone;
    int32_t ids[150];
    must_open(&alone, GUIDE_DRAFT, "cpu");
    fill_ids(ids, 150, model_n_vocab(m->draft->model));
    sync(m->draft, ids, 150);
    sync(&alone, ids, 150);
    assert_memory_equal(timeline_logits(m->draft->tl), timeline_logits(alone.tl),
                        model_n_vocab(alone.model) * sizeof(float));
    machine_close(&alone);
}

/* The device has the draft only if it has room for all of the model and the draft; if not, the
 * model stays there, and the draft is the CPU's. With less the model is split. */
static void draft_beside_the_model(void **state)
{
    (void)state;
    struct machine m;
    struct err err;
    if (vulkan_count() == 0) skip();
    open_drafting(&m, 1ull << 40);
    const uint64_t model = taken_by(&m.sizes) + LAYERS_SPARE,
                   both = model + taken_by(&m.draft->sizes);
    assert_int_equal(n_warned, 0);
    assert_false(m.draft->is_cpu);
    assert_null(strstr(sizes_line, "the draft on the CPU"));
    machine_close(&m);

    open_drafting(&m, both);
    assert_int_equal(n_warned, 0);
    assert_false(m.draft->is_cpu || m.is_split);
    machine_close(&m);

    open_drafting(&m, both - 1);
    assert_int_equal(n_warned, 1);
    assert_string_equal(warned, "the device has no room for the draft beside the model: "
                                "the CPU has it");
    assert_true(m.draft->is_cpu && !m.is_split && !m.is_cpu);
    assert_non_null(strstr(sizes_line, "; the draft on the CPU"));
    assert_int_equal(m.n_ctx, 256);
    draft_works(&m);
    same_as_cpu(&m, GUIDE);
    machine_close(&m);

    open_drafting(&m, model - 1);
    assert_true(m.is_split && m.draft->is_cpu);
    assert_non_null(strstr(warned, "the device has room for 7 of 8 layers"));
    assert_non_null(strstr(sizes_line, "; the draft on the CPU"));
    machine_close(&m);

    /* The same of a draft that comes later, in place of another or of none. */
    struct engine_config config = with_draft;
    open_drafting(&m, both);
    n_warned = 0;
    if (!machine_change_draft(&m, &config, &watch_draft, &err)) fail_msg("%s", err.msg);
    assert_int_equal(n_warned, 1); /* both are there until the first goes */
    assert_true(m.draft->is_cpu);
    if (!machine_change_draft(&m, &config, &watch_draft, &err)) fail_msg("%s", err.msg);
    assert_int_equal(n_warned, 1);
    assert_false(m.draft->is_cpu);
    draft_works(&m);
    machine_close(&m);
    device_set_seam(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_devices),
        cmocka_unit_test(auto_ends_with_the_cpu),
        cmocka_unit_test(auto_takes_a_device),
        cmocka_unit_test(auto_leaves_a_slow_one),
        cmocka_unit_test(auto_asks_no_scalar_kernels),
        cmocka_unit_test(auto_times_a_short_context),
        cmocka_unit_test(auto_leaves_a_wrong_one),
        cmocka_unit_test(auto_stops_at_other_errors),
        cmocka_unit_test(all_was_tried),
        cmocka_unit_test(poison_is_not_seen),
        cmocka_unit_test(as_many_as_asked_for),
        cmocka_unit_test(as_many_as_fit),
        cmocka_unit_test(layers_without_a_device),
        cmocka_unit_test(draft_beside_the_model),
        cmocka_unit_test(inexact_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
