/* Replies whose tokens a Vulkan device draws: the same text as on the CPU, plain and drafted,
 * and a token brings at most 64 bytes back. HEARTH_SOAK makes them longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../soak.h"
#include "backend/impl.h"
#include "base/ids.h"
#include "random_model.h"
#include "reply_rig.h"
#include "timeline_case.h"
#include "vulkan/backend.h"

/* A token that is drawn brings its id back. A block of drafts brings each that is right back
 * twice, drafted and drawn, one more, and when it began and ended. */
enum { N_TOKENS = 100, MOST_TOKENS = 1900, N_CTX = 2048, MOST_BYTES = 64 };

static void prompt(struct rig *r, const char *text)
{
    struct err err;
    struct ids ids = {0};
    if (!tokenizer_encode(r->tok, text, strlen(text), ENCODE_CONTROL, &ids, &err))
        fail_msg("%s", err.msg);
    if (!timeline_sync(r->m.tl, ids.data, ids.n, NULL, NULL, &err)) fail_msg("%s", err.msg);
    if (r->m.draft && !timeline_sync(r->m.draft->tl, ids.data, ids.n, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    ids_free(&ids);
}

/* ---- the cases ---- */

static const struct engine_sampling plain = {
    .temp = 0.8f, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .reply_seed = 20261121};

static int n_tokens(void)
{
    const unsigned n = N_TOKENS * soak();
    return n < MOST_TOKENS ? (int)n : MOST_TOKENS;
}

static void nothing_made(const struct vulkan_counters *before,
                         const struct vulkan_counters *after)
{
    assert_int_equal(after->pipelines, before->pipelines);
    assert_int_equal(after->sets, before->sets);
    assert_int_equal(after->allocations, before->allocations);
}

static void same_words(const struct rig *cpu, const struct rig *device,
                       const struct engine_reply *want, const struct engine_reply *got)
{
    assert_int_equal(got->n_ids, want->n_ids);
    assert_memory_equal(got->ids, want->ids, want->n_ids * sizeof *want->ids);
    assert_string_equal(buf_str(&device->shown), buf_str(&cpu->shown));
}

/* Replies that go on whatever is drawn, to the same prompt on both. A block of drafts is one
 * submission, as a token is; nothing is made for it that was made before. */
static void compare(struct rig *cpu, struct rig *device, const struct engine_sampling *how,
                    uint32_t fixed, bool again)
{
    struct err err;
    struct engine_sampling longer = *how;
    struct engine_bias bias[32];
    size_t n_ends;
    const int32_t *ends = tokenizer_ends(cpu->tok, &n_ends);
    assert_true(how->n_bias + n_ends <= sizeof bias / sizeof *bias);
    for (size_t i = 0; i < how->n_bias; i++)
        bias[i] = how->bias[i];
    for (size_t i = 0; i < n_ends; i++)
        bias[longer.n_bias++] = (struct engine_bias){ends[i], -1e30f};
    longer.bias = bias;
    if (longer.max_tokens == 0) longer.max_tokens = n_tokens();
    prompt(cpu, "Once upon a time there was");
    prompt(device, "Once upon a time there was");
    const struct engine_reply *want = rig_reply(cpu, &longer, 0, &err);
    if (!want) fail_msg("%s", err.msg);
    struct vulkan_counters before = *vulkan_backend_counters(device->m.be);
    const struct engine_reply *got = rig_reply(device, &longer, fixed, &err);
    if (!got) fail_msg("%s", err.msg);
    const struct vulkan_counters *after = vulkan_backend_counters(device->m.be);
    assert_int_equal(want->n_ids, longer.max_tokens);
    same_words(cpu, device, want, got);
    assert_true(after->bytes_back > before.bytes_back);
    assert_true(after->bytes_back - before.bytes_back <= MOST_BYTES * got->n_ids);
    assert_int_equal(after->submits - before.submits, got->n_steps);
    assert_int_equal(after->waits - before.waits, got->n_steps);
    if (again) nothing_made(&before, after);
    /* The logits are there all the same, for whoever wants them. */
    before = *after;
    const size_t n_bytes = model_n_vocab(cpu->m.model) * sizeof(float);
    assert_memory_equal(timeline_logits(device->m.tl), timeline_logits(cpu->m.tl), n_bytes);
    timeline_snapshot(device->m.tl);
    assert_int_equal(after->bytes_back - before.bytes_back,
                     n_bytes + model_program(device->m.model)->state_bytes);
}

/* What a timeline holds has the bits of computing it anew. */
static void test_same_text(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct rig cpu, device;
    rig_open(&cpu, GUIDE, NULL, false, "cpu", N_CTX);
    rig_open(&device, GUIDE, NULL, false, "vulkan:0", N_CTX);
    struct engine_sampling how = plain;
    compare(&cpu, &device, &how, 0, false);
    how.temp = 0;
    compare(&cpu, &device, &how, 0, false);
    how = plain;
    how.repeat_penalty = 1.2f, how.presence_penalty = 0.3f, how.frequency_penalty = 0.1f;
    how.top_k = 40, how.top_p = 0.95f, how.min_p = 0.02f;
    compare(&cpu, &device, &how, 0, false);
    how.top_k = 0, how.repeat_last_n = -1;
    compare(&cpu, &device, &how, 0, false);
    rig_close(&device);
    rig_close(&cpu);
}

static void test_drafted(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct rig cpu, device;
    rig_open(&cpu, GUIDE, NULL, false, "cpu", N_CTX);
    rig_open(&device, GUIDE, GUIDE_DRAFT, false, "vulkan:0", N_CTX);
    struct engine_sampling how = plain;
    how.repeat_penalty = 1.2f, how.frequency_penalty = 0.1f, how.repeat_last_n = 20;
    how.top_k = 40;
    compare(&cpu, &device, &how, 3, false);
    compare(&cpu, &device, &how, 3, true);
    how.reply_seed++, how.top_k = 0, how.top_p = 0.9f;
    compare(&cpu, &device, &how, 12, false);
    /* Drafts drive others of their block out of the window of the penalties. */
    how.reply_seed++, how.top_p = 1, how.repeat_last_n = 4, how.presence_penalty = 0.7f;
    compare(&cpu, &device, &how, 16, false);
    compare(&cpu, &device, &how, 16, true);
    rig_close(&device);
    rig_close(&cpu);
}

static char hybrid[SCRATCH_PATH], other[SCRATCH_PATH];

static int make_models(void **state)
{
    (void)state;
    random_model_make(hybrid, RANDOM_HYBRID, "Q8_0");
    random_model_make(other, RANDOM_DENSE, "Q8_0");
    return 0;
}

static int remove_models(void **state)
{
    (void)state;
    unlink(hybrid);
    unlink(other);
    return 0;
}

/* Few tokens are likely, so that some guesses are right, whoever guesses. */
static const struct engine_bias few[] = {{300, 60}, {301, 60}, {302, 60}, {303, 60}};

static void came_back(const struct machine *m, bool never)
{
    const size_t n = timeline_usage(m->tl).n_state_returns;
    if (model_program(m->model)->state_bytes > 0 && !never) assert_true(n > 10);
    same_as_computed(m->tl);
}

/* Recurrent layers, and a draft, or NULL for look-ups. Guesses that are refused cost no
 * submission: the states are brought back by the next. */
static void recurrent(const char *path, const char *draft)
{
    struct rig cpu, device;
    rig_open(&cpu, path, NULL, false, "cpu", N_CTX);
    rig_open(&device, path, draft, !draft, "vulkan:0", N_CTX);
    struct engine_sampling how = plain;
    how.bias = few, how.n_bias = sizeof few / sizeof *few;
    how.max_tokens = n_tokens() / 3;
    compare(&cpu, &device, &how, 4, false);
    compare(&cpu, &device, &how, 4, true);
    how.repeat_penalty = 1.2f, how.repeat_last_n = 6, how.frequency_penalty = 0.2f;
    compare(&cpu, &device, &how, 16, false);
    how = plain, how.temp = 0,
    how.max_tokens = n_tokens() / 5; /* of a draft with other weights all guesses are wrong */
    compare(&cpu, &device, &how, 5, false);
    came_back(&device.m, path == draft);
    if (device.m.draft) came_back(device.m.draft, path == draft);
    rig_close(&device);
    rig_close(&cpu);
}

static void test_recurrent(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    recurrent(hybrid, NULL);
    recurrent(hybrid, other);
    recurrent(hybrid, hybrid);
    recurrent(GUIDE, hybrid);
}

/* Pages are made, and with them all is planned anew, while states are still to be advanced. */
static void test_recurrent_grows(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct rig cpu, device;
    struct err err;
    rig_open(&cpu, hybrid, NULL, false, "cpu", N_CTX);
    rig_open(&device, hybrid, other, false, "vulkan:0", N_CTX);
    struct engine_sampling how = plain;
    how.bias = few, how.n_bias = sizeof few / sizeof *few, how.max_tokens = 24;
    struct ids ids = {0};
    while (ids.n < 1012) /* a slab has pages for 1,024 positions */
        ids_push(&ids, 300 + (int32_t)(ids.n * ids.n % 7));
    for (int i = 0; i < 2; i++) {
        struct rig *r = i == 0 ? &cpu : &device;
        if (!timeline_sync(r->m.tl, ids.data, ids.n, NULL, NULL, &err)) fail_msg("%s", err.msg);
    }
    const struct engine_reply *want = rig_reply(&cpu, &how, 0, &err);
    if (!want) fail_msg("%s", err.msg);
    const uint64_t n_before = vulkan_backend_counters(device.m.be)->allocations;
    const struct engine_reply *got = rig_reply(&device, &how, 3, &err);
    if (!got) fail_msg("%s", err.msg);
    assert_true(vulkan_backend_counters(device.m.be)->allocations > n_before);
    assert_true(got->n_accepted > 0 && got->n_accepted < got->n_drafted);
    same_words(&cpu, &device, want, got);
    same_as_computed(device.m.tl);
    same_as_computed(device.m.draft->tl);
    ids_free(&ids);
    rig_close(&device);
    rig_close(&cpu);
}

/* A reply that ends among the drafts: at a stop string, and with its turn. */
static void same_end(struct rig *cpu, struct rig *device, const char *text,
                     const struct engine_sampling *how, enum engine_stop stop)
{
    struct err err;
    for (uint32_t fixed = 1; fixed <= 16; fixed += 5) {
        prompt(cpu, text);
        prompt(device, text);
        const struct engine_reply *want = rig_reply(cpu, how, 0, &err);
        const struct engine_reply *got = rig_reply(device, how, fixed, &err);
        if (!want || !got) fail_msg("%s", err.msg);
        assert_int_equal(want->stop, stop);
        assert_int_equal(got->stop, stop);
        same_words(cpu, device, want, got);
        assert_int_equal(timeline_n(device->m.tl), timeline_n(cpu->m.tl));
        assert_memory_equal(timeline_logits(device->m.tl), timeline_logits(cpu->m.tl),
                            model_n_vocab(cpu->m.model) * sizeof(float));
        if (model_program(device->m.model)->state_bytes > 0) same_as_computed(device->m.tl);
    }
}

static void test_ends(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct rig cpu, device;
    rig_open(&cpu, GUIDE, NULL, false, "cpu", N_CTX);
    rig_open(&device, GUIDE, GUIDE_DRAFT, false, "vulkan:0", N_CTX);
    struct engine_sampling how = plain;
    how.max_tokens = 200, how.repeat_penalty = 1.1f;
    static const char *const stop = "the";
    how.stop = &stop, how.n_stop = 1;
    same_end(&cpu, &device, "Once upon a time there was", &how, STOP_STRING);
    how.n_stop = 0, how.temp = 0, how.repeat_penalty = 1;
    same_end(&cpu, &device,
             "<|im_start|>user\nWhat is a token?<|im_end|>\n<|im_start|>assistant\n", &how,
             STOP_END);
    rig_close(&device);
    rig_close(&cpu);
    /* Rows behind the stop were right, and are taken back all the same. */
    rig_open(&cpu, hybrid, NULL, false, "cpu", N_CTX);
    rig_open(&device, hybrid, hybrid, false, "vulkan:0", N_CTX);
    static const char *const twice = "artart";
    how = plain, how.max_tokens = 200, how.stop = &twice, how.n_stop = 1;
    how.bias = few, how.n_bias = sizeof few / sizeof *few;
    same_end(&cpu, &device, "Once upon a time there was", &how, STOP_STRING);
    rig_close(&device);
    rig_close(&cpu);
}

/* What cannot be drawn says the same on both: the first token is so likely that its penalty is
 * more than a float holds. */
static void test_errors(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct err want, got;
    struct rig cpu, device;
    rig_open(&cpu, GUIDE, NULL, false, "cpu", N_CTX);
    rig_open(&device, GUIDE, GUIDE_DRAFT, false, "vulkan:0", N_CTX);
    struct engine_sampling how = plain;
    how.bias = &(struct engine_bias){300, 3e38f};
    how.n_bias = 1, how.max_tokens = 5, how.repeat_penalty = 0.01f;
    prompt(&cpu, "one");
    assert_null(rig_reply(&cpu, &how, 0, &want));
    for (uint32_t fixed = 0; fixed <= 4; fixed += 4) {
        prompt(&device, "one");
        assert_null(rig_reply(&device, &how, fixed, &got));
        assert_int_equal(timeline_n(device.m.tl), timeline_n(cpu.m.tl));
        assert_int_equal(got.code, ERR_FORMAT);
        assert_string_equal(got.msg, want.msg);
    }
    rig_close(&device);
    rig_close(&cpu);
}

/* ---- blocks that fail ---- */

static const struct backend_impl *right;
static enum err_code failure;
static int n_blocks;

/* Every other one, and nothing of it was done. */
static bool fail_blocks(struct draft_block *b, struct err *err)
{
    if (n_blocks++ % 2) return right->exec_block(b, err);
    return err_set(err, failure, "no block");
}

/* The drafts are made step by step then: a reply has as many, of the same use. One that is
 * cancelled leaves what was there before the block. */
static void block_fails(const char *path, const char *draft)
{
    static const enum err_code codes[] = {ERR_MEMORY, ERR_DEVICE, ERR_CANCELLED};
    struct rig device;
    rig_open(&device, path, draft, false, "vulkan:0", N_CTX);
    struct engine_sampling how = plain;
    how.repeat_penalty = 1.2f, how.repeat_last_n = 20, how.max_tokens = 60;
    if (strcmp(draft, GUIDE_DRAFT) != 0) how.bias = few, how.n_bias = sizeof few / sizeof *few;
    struct backend *const both[] = {device.m.be, device.m.draft->be};
    right = both[0]->impl;
    struct backend_impl failing = *right;
    failing.exec_block = fail_blocks;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct err err;
        prompt(&device, "Once upon a time there was");
        const struct engine_reply *r = rig_reply(&device, &how, 4, &err);
        if (!r) fail_msg("%s", err.msg);
        struct ids want = {0};
        ids_append(&want, r->ids, r->n_ids);
        const uint32_t n_steps = r->n_steps, n_accepted = r->n_accepted;
        assert_true(n_accepted > 0);

        failure = codes[i], n_blocks = failure == ERR_CANCELLED; /* the second of them */
        both[0]->impl = both[1]->impl = &failing;
        prompt(&device, "Once upon a time there was");
        r = rig_reply(&device, &how, 4, &err);
        both[0]->impl = both[1]->impl = right;
        if (!r) fail_msg("%s", err.msg);
        const bool cancelled = failure == ERR_CANCELLED;
        assert_int_equal(r->stop, cancelled ? STOP_CANCELLED : STOP_LENGTH);
        assert_true(cancelled ? r->n_ids > 0 && r->n_ids < want.n : r->n_ids == want.n);
        assert_memory_equal(r->ids, want.data, r->n_ids * sizeof *want.data);
        if (!cancelled) {
            assert_true(n_blocks > 4);
            assert_int_equal(r->n_steps, n_steps);
            assert_int_equal(r->n_accepted, n_accepted);
        }
        same_as_computed(device.m.tl);
        same_as_computed(device.m.draft->tl);
        ids_free(&want);
    }
    rig_close(&device);
}

static void test_block_fails(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    block_fails(GUIDE, GUIDE_DRAFT);
    block_fails(hybrid, other);
    block_fails(GUIDE, hybrid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),  cmocka_unit_test(test_drafted),
        cmocka_unit_test(test_recurrent),  cmocka_unit_test(test_recurrent_grows),
        cmocka_unit_test(test_ends),       cmocka_unit_test(test_errors),
        cmocka_unit_test(test_block_fails)};
    return cmocka_run_group_tests_name("device draw", tests, make_models, remove_models);
}
