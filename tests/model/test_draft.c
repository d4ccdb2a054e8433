/* Drafts never show in a reply: with a draft model, with look-ups, with both, of any length,
 * whatever they guess, the reply has the text, the ids and the end of plain decoding, and the
 * timeline holds the same bits. Random cases; HEARTH_SOAK runs more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../soak.h"
#include "base/ids.h"
#include "random_model.h"
#include "reply_rig.h"
#include "timeline_case.h"
#include "vulkan/backend.h"

enum { N_CASES = 64, N_CTX = 512 };

/* What drafts, and the machine with it; the hybrid, and the model with a window that replies
 * outgrow, are compared with themselves; the hybrid drafts too, for itself, when it is right
 * throughout, and for the guide, when it is mostly wrong. The guide has fewer ids than the
 * hybrid for which it drafts. DEVICE is the hybrid on the first Vulkan device, if there is one,
 * compared with the CPU's; the others there draft in blocks, and are compared with it too. */
enum kind {
    PLAIN,
    GUIDE_PAIR,
    RANDOM_PAIR,
    LOOKUP,
    BOTH,
    HYBRID,
    WINDOWED,
    FOR_ITSELF,
    FOR_GUIDE,
    FEWER_IDS,
    DEVICE,
    DEVICE_BOTH,
    DEVICE_RANDOM,
    DEVICE_WINDOWED,
    DEVICE_FOR_GUIDE,
    DEVICE_FEWER_IDS,
    N_KINDS
};
enum { HYBRID_PLAIN = N_KINDS, WINDOWED_PLAIN, N_RIGS };

static struct rig rigs[N_RIGS];
static char random_draft[SCRATCH_PATH], hybrid[SCRATCH_PATH], windowed[SCRATCH_PATH];
static void open_rig(struct rig *r, const char *path, const char *draft, bool lookup,
                     const char *device)
{
    rig_open(r, path, draft, lookup, device, N_CTX);
    if (strcmp(device, "cpu") != 0) return; /* only the CPU's pages can be written like this */
    timeline_poison(r->m.tl);
    if (r->m.draft) timeline_poison(r->m.draft->tl);
}

static int open_rigs(void **state)
{
    (void)state;
    chance_begin(20261121);
    random_model_make(random_draft, RANDOM_DENSE ",n_ctx=256", "Q8_0");
    random_model_make(hybrid, RANDOM_HYBRID, "Q8_0");
    random_model_make(windowed, RANDOM_WINDOWED, "Q8_0");
    open_rig(&rigs[PLAIN], GUIDE, NULL, false, "cpu");
    open_rig(&rigs[GUIDE_PAIR], GUIDE, GUIDE_DRAFT, false, "cpu");
    open_rig(&rigs[RANDOM_PAIR], GUIDE, random_draft, false, "cpu");
    open_rig(&rigs[LOOKUP], GUIDE, NULL, true, "cpu");
    open_rig(&rigs[BOTH], GUIDE, GUIDE_DRAFT, true, "cpu");
    open_rig(&rigs[HYBRID], hybrid, random_draft, true, "cpu");
    open_rig(&rigs[FOR_ITSELF], hybrid, hybrid, false, "cpu");
    open_rig(&rigs[FOR_GUIDE], GUIDE, hybrid, false, "cpu");
    open_rig(&rigs[FEWER_IDS], hybrid, GUIDE_DRAFT, false, "cpu");
    if (vulkan_count() > 0) {
        open_rig(&rigs[DEVICE], hybrid, random_draft, true, "vulkan:0");
        open_rig(&rigs[DEVICE_BOTH], GUIDE, GUIDE_DRAFT, true, "vulkan:0");
        open_rig(&rigs[DEVICE_RANDOM], GUIDE, random_draft, false, "vulkan:0");
        open_rig(&rigs[DEVICE_WINDOWED], windowed, windowed, true, "vulkan:0");
        open_rig(&rigs[DEVICE_FOR_GUIDE], GUIDE, hybrid, false, "vulkan:0");
        open_rig(&rigs[DEVICE_FEWER_IDS], hybrid, GUIDE_DRAFT, false, "vulkan:0");
    }
    open_rig(&rigs[HYBRID_PLAIN], hybrid, NULL, false, "cpu");
    open_rig(&rigs[WINDOWED], windowed, windowed, true, "cpu");
    open_rig(&rigs[WINDOWED_PLAIN], windowed, NULL, false, "cpu");
    return 0;
}

static int close_rigs(void **state)
{
    (void)state;
    for (int i = 0; i < N_RIGS; i++)
        if (rigs[i].tok) rig_close(&rigs[i]);
    unlink(random_draft);
    unlink(hybrid);
    unlink(windowed);
    return 0;
}

/* ---- a reply ---- */

static const struct engine_reply *reply_of(struct rig *r, const struct ids *prompt,
                                           const struct engine_sampling *how, uint32_t fixed)
{
    struct err err;
    if (!timeline_sync(r->m.tl, prompt->data, prompt->n, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    const uint64_t n_steps = timeline_usage(r->m.tl).n_steps;
    const struct engine_reply *reply = rig_reply(r, how, fixed, &err);
    if (!reply) fail_msg("%s", err.msg);
    /* The model ran once for each block: every draw but the first, which the prompt's logits
     * gave, was the one after a block's newest token or after an accepted draft. */
    assert_int_equal(timeline_usage(r->m.tl).n_steps - n_steps, reply->n_steps);
    assert_true(reply->n_accepted <= reply->n_drafted);
    const uint32_t n_draws = reply->n_steps + reply->n_accepted;
    assert_true(n_draws == reply->n_generated || n_draws + 1 == reply->n_generated);
    return reply;
}

static void same_reply(const struct engine_reply *a, const struct engine_reply *b)
{
    assert_int_equal(a->stop, b->stop);
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, a->n_ids * sizeof *a->ids);
    assert_memory_equal(a->id_at, b->id_at, (a->n_ids + 1) * sizeof *a->id_at);
    assert_int_equal(a->text_len, b->text_len);
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->content_at, b->content_at);
    assert_int_equal(a->n_generated, b->n_generated);
    assert_int_equal(a->n_ctx_used, b->n_ctx_used);
}

static void same_timeline(struct timeline *a, struct timeline *b)
{
    assert_int_equal(timeline_n(a), timeline_n(b));
    assert_memory_equal(timeline_ids(a), timeline_ids(b), timeline_n(a) * sizeof(int32_t));
    assert_true(timeline_logits(a) && timeline_logits(b));
    assert_memory_equal(timeline_logits(a), timeline_logits(b), 2048 * sizeof(float));
}

/* ---- the cases ---- */

static void make_prompt(const struct tokenizer *tok, struct ids *out)
{
    static const char *const users[] = {
        "Write a C function that adds two numbers",
        "Count from 1 to 30",
        "What is a token?",
        "Tell me a story",
        "Say the alphabet",
        "How do I take back the last message?",
        "Repeat after me: the quick brown fox jumps over the lazy dog",
        "hello",
    };
    struct spans prompt = {0};
    struct err err;
    const char *user = users[below(sizeof users / sizeof *users)];
    spans_markup(&prompt, "<|im_start|>user\n", 17);
    spans_text(&prompt, user, strlen(user));
    spans_markup(&prompt, "<|im_end|>\n<|im_start|>assistant\n", 33);
    ids_clear(out);
    if (!tokenizer_encode_spans(tok, &prompt, NULL, out, &err)) fail_msg("%s", err.msg);
    spans_free(&prompt);
}

static float one_of(const float *list, uint32_t n)
{
    return list[below(n)];
}

static struct engine_sampling make_sampling(void)
{
    static const float temps[] = {0, 0, 0.7f, 1, 1.5f}, repeats[] = {1, 1, 1.3f},
                       presences[] = {0, 0, 0.5f}, top_ps[] = {1, 0.9f}, min_ps[] = {0, 0.05f};
    static const int windows[] = {-1, 64, 8, 3}, top_ks[] = {0, 40},
                     lengths[] = {1, 2, 7, 40, 90, 200};
    static const char *const stops[] = {"the", "1", "\n\n", "ing"};
    static const char *stop;
    stop = stops[below(4)];
    return (struct engine_sampling){
        .temp = one_of(temps, 5),
        .top_k = top_ks[below(2)],
        .top_p = one_of(top_ps, 2),
        .min_p = one_of(min_ps, 2),
        .repeat_penalty = one_of(repeats, 3),
        .presence_penalty = one_of(presences, 3),
        .frequency_penalty = one_of(presences, 3),
        .repeat_last_n = windows[below(4)],
        .reply_seed = below(1000),
        .max_tokens = lengths[below(6)],
        .stop = &stop,
        .n_stop = below(3) == 0,
    };
}

static enum kind plain_of(enum kind kind)
{
    if (kind == HYBRID || kind == FOR_ITSELF || kind == FEWER_IDS || kind == DEVICE ||
        kind == DEVICE_FEWER_IDS)
        return (enum kind)HYBRID_PLAIN;
    const bool is_windowed = kind == WINDOWED || kind == DEVICE_WINDOWED;
    return is_windowed ? (enum kind)WINDOWED_PLAIN : PLAIN;
}

static void test_random(void **state)
{
    (void)state;
    const int n = N_CASES * (int)soak();
    const uint32_t n_kinds = vulkan_count() > 0 ? N_KINDS : DEVICE;
    struct ids prompt = {0};
    uint32_t n_accepted[N_KINDS] = {0}, n_drafted[N_KINDS] = {0};
    for (int i = 0; i < n; i++) {
        make_prompt(rigs[PLAIN].tok, &prompt);
        const struct engine_sampling how = make_sampling();
        const enum kind kind = PLAIN + 1 + (enum kind)below(n_kinds - 1);
        const uint32_t fixed = below(3) == 0 ? 0 : 1 + below(16);
        struct rig *plain = &rigs[plain_of(kind)];
        const struct engine_reply *want = reply_of(plain, &prompt, &how, 0);
        const struct engine_reply *got = reply_of(&rigs[kind], &prompt, &how, fixed);
        same_reply(want, got);
        same_timeline(plain->m.tl, rigs[kind].m.tl);
        assert_string_equal(buf_str(&plain->shown), buf_str(&rigs[kind].shown));
        n_drafted[kind] += got->n_drafted;
        n_accepted[kind] += got->n_accepted;
        if (i % 10 == 9) same_as_computed(rigs[kind].m.tl);
        if (kind == FOR_GUIDE || kind == FOR_ITSELF ||
            (kind > DEVICE && timeline_n(rigs[kind].m.draft->tl) > 0))
            same_as_computed(rigs[kind].m.draft->tl);
    }
    for (uint32_t k = PLAIN + 1; k < n_kinds; k++)
        assert_true(n_drafted[k] > 0);
    assert_true(n_accepted[GUIDE_PAIR] > n_drafted[GUIDE_PAIR] / 4);
    /* Noise belongs to a position and an id: what drafts for itself draws the same. */
    assert_true(n_accepted[FOR_ITSELF] > n_drafted[FOR_ITSELF] * 9 / 10);
    for (uint32_t k = PLAIN + 1; k < n_kinds; k++)
        print_message("# kind %u: %u of %u drafts\n", k, n_accepted[k], n_drafted[k]);
    /* The guesses of a recurrent draft are taken back without writing states; a recurrent
     * target writes them once each time. */
    static const enum kind drafts[] = {FOR_GUIDE, DEVICE_FOR_GUIDE},
                           targets[] = {HYBRID, DEVICE};
    for (int i = 0; i < (vulkan_count() > 0 ? 2 : 1); i++) {
        const struct timeline_usage draft = timeline_usage(rigs[drafts[i]].m.draft->tl);
        assert_true(draft.n_state_returns > 0);
        assert_int_equal(draft.state_return_bytes, 0);
        const struct rig *r = &rigs[targets[i]];
        const struct timeline_usage target = timeline_usage(r->m.tl);
        assert_true(target.n_state_returns > 0);
        assert_int_equal(target.state_return_bytes,
                         target.n_state_returns * model_program(r->m.model)->state_bytes);
    }
    ids_free(&prompt);
}

/* What the draft has read of a conversation stays warm while others go on: coming back costs it
 * next to nothing, and if it has states, coming back to where the prompt ended. Of its guesses
 * only those are left that were right. */
static void test_draft_stays_warm(void **state)
{
    (void)state;
    static const enum kind kinds[] = {GUIDE_PAIR, FOR_GUIDE, DEVICE_RANDOM, DEVICE_FOR_GUIDE};
    const struct engine_sampling how = {
        .temp = 1, .top_p = 1, .repeat_penalty = 1, .reply_seed = 5, .max_tokens = 40};
    struct ids prompt = {0}, first = {0};
    for (int k = 0; k < (vulkan_count() > 0 ? 4 : 2); k++) {
        struct rig *r = &rigs[kinds[k]];
        const bool has_states = model_program(r->m.draft->model)->state_bytes > 0;
        for (uint32_t i = 0; i < 3; i++) {
            make_prompt(r->tok, &prompt);
            prompt.data[0] = (int32_t)(100 + i); /* another from its first token on */
            const struct engine_reply *reply = reply_of(r, &prompt, &how, 1 + i % 4);
            struct timeline *tl = r->m.tl, *draft = r->m.draft->tl;
            assert_true(reply->n_drafted > 0);
            const size_t n = timeline_n(draft), n_all = timeline_n(tl);
            assert_true(n <= n_all + 1);
            assert_memory_equal(timeline_ids(draft), timeline_ids(tl),
                                (n < n_all ? n : n_all) * sizeof(int32_t));
            if (i == 0) ids_append(&first, timeline_ids(draft), has_states ? prompt.n : n);
        }
        const struct timeline_cost cost = timeline_plan(r->m.draft->tl, first.data, first.n);
        assert_true(cost.n_prefilled <= 1);
        ids_clear(&first);
    }
    ids_free(&prompt);
    ids_free(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_stays_warm),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("draft", tests, open_rigs, close_rigs);
}
