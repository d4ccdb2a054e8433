/* A device that is lost, at any submission of a turn: the CPU goes on, one line says so, and
 * the words are those of a conversation without that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../guide.h"
#include "base/buf.h"
#include "engine/device.h"
#include "engine/engine.h"
#include "random_model.h"
#include "vulkan/backend.h"

/* What a conversation of two turns said. */
struct talk {
    struct buf text;    /* as it was streamed */
    struct buf replies; /* as the ends had it */
    char warning[1200], device[256];
    int n_warnings;
    bool differs; /* /verify found something */
};

static void talk_free(struct talk *t)
{
    buf_free(&t->text);
    buf_free(&t->replies);
}

/* Waits for the end of a request. */
static struct engine_event wait_for(struct engine *e, enum engine_event_kind kind,
                                    struct talk *t)
{
    struct engine_event event;
    while (engine_next(e, 120000, &event)) {
        if (event.kind == EVENT_TEXT) buf_append(&t->text, event.text, event.text_len);
        /* A model of random weights says bytes that are no text. */
        if (event.kind == EVENT_WARNING && !strstr(event.text, "not UTF-8")) {
            t->n_warnings++;
            snprintf(t->warning, sizeof t->warning, "%s", event.text);
        }
        if (event.kind == EVENT_READY || event.kind >= EVENT_END) {
            if (event.kind == EVENT_FAILED) print_error("%s\n", event.err.msg);
            assert_int_equal(event.kind, kind);
            return event;
        }
    }
    fail_msg("no event within two minutes");
    return event;
}

/* Of the conversations from now on. */
static const char *model_path = GUIDE;
static uint32_t gpu_layers;

static struct talk converse(const char *device, const char *draft_path, uint64_t lost_at)
{
    static const char *const questions[] = {"How do I take back the last message?",
                                            " And how do I save all of it?"};
    const struct engine_sampling sampling = {.temp = 0.8f,
                                             .top_p = 0.95f,
                                             .repeat_penalty = 1.1f,
                                             .repeat_last_n = 64,
                                             .reply_seed = 4,
                                             .max_tokens = 24};
    const struct engine_config config = {.model_path = model_path,
                                         .device = device,
                                         .gpu_layers = gpu_layers,
                                         .draft_path = draft_path,
                                         .draft_fixed = draft_path ? 3 : 0,
                                         .n_threads = 2,
                                         .n_ctx = 256,
                                         .cache_ram_bytes = 64 << 20};
    struct talk t = {0};
    struct spans prompt = {0};
    struct err err;
    device_set_seam(&(struct device_seam){.lost_at = lost_at});
    struct engine *e = engine_open(&config, &err);
    if (!e) fail_msg("%s", err.msg);
    wait_for(e, EVENT_READY, &t);
    for (int i = 0; i < 2; i++) {
        spans_text(&prompt, questions[i], strlen(questions[i]));
        engine_turn(e, &prompt, &sampling);
        const struct engine_reply *r = wait_for(e, EVENT_END, &t).reply;
        buf_append(&t.replies, r->text, r->text_len);
        /* The first token comes of the prompt, and so does that after the CPU took over. */
        const uint32_t n_known = r->n_steps + r->n_accepted;
        assert_in_range(n_known, r->n_generated - 2, r->n_generated - 1);
        spans_ids(&prompt, r->ids, r->n_ids);
    }
    engine_verify(e);
    t.differs = wait_for(e, EVENT_VERIFIED, &t).verified->difference != NULL;
    snprintf(t.device, sizeof t.device, "%s", engine_info(e)->device);
    engine_close(e);
    device_set_seam(NULL);
    spans_free(&prompt);
    return t;
}

static void same_words(const struct talk *got, const struct talk *want)
{
    assert_string_equal(buf_str((struct buf *)&got->replies),
                        buf_str((struct buf *)&want->replies));
    assert_string_equal(buf_str((struct buf *)&got->text), buf_str((struct buf *)&want->text));
    assert_false(got->differs);
}

static void loses_at(const struct talk *want, const char *draft_path, uint64_t at)
{
    struct talk t = converse("vulkan:0", draft_path, at);
    same_words(&t, want);
    assert_int_equal(t.n_warnings, 1);
    assert_int_equal(strncmp(t.device, "cpu (", 5), 0);
    if (!strstr(t.warning, "the device failed (") || !strstr(t.warning, "): the CPU goes on") ||
        !strstr(t.warning, "the device was lost"))
        fail_msg("%s", t.warning);
    talk_free(&t);
}

/* In the first prompt, the first reply, and the second turn. */
static void lost_at_any_step(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct talk want = converse("cpu", NULL, 0);
    struct talk kept = converse("vulkan:0", NULL, 0);
    same_words(&kept, &want);
    assert_int_equal(kept.n_warnings, 0);
    assert_int_equal(strncmp(kept.device, "vulkan:0 (", 10), 0);
    assert_true(want.text.len > 20);
    talk_free(&kept);
    static const uint64_t at[] = {1, 2, 11, 27};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        loses_at(&want, NULL, at[i]);
    talk_free(&want);
}

/* Both models lose it at once. */
static void lost_while_drafting(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct talk want = converse("cpu", NULL, 0);
    loses_at(&want, GUIDE_DRAFT, 4);
    talk_free(&want);
}

/* In blocks with recurrent layers, states that are still to be advanced are lost, too. */
static void lost_with_states(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    char hybrid[SCRATCH_PATH];
    random_model_make(hybrid, RANDOM_HYBRID, "Q8_0");
    model_path = hybrid;
    struct talk want = converse("cpu", NULL, 0);
    struct talk kept = converse("vulkan:0", GUIDE_DRAFT, 0);
    same_words(&kept, &want);
    assert_int_equal(kept.n_warnings, 0);
    for (uint64_t at = 4; at < 9; at += 2)
        loses_at(&want, at < 8 ? GUIDE_DRAFT : hybrid, at);
    model_path = GUIDE;
    talk_free(&kept);
    talk_free(&want);
    unlink(hybrid);
}

/* When the CPU cannot go on either, the failure is the model's, not the prompt's length. */
static void lost_for_good(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    const struct engine_sampling sampling = {.repeat_penalty = 1, .max_tokens = 4};
    const struct engine_config config = {
        .model_path = GUIDE, .device = "vulkan:0", .cpu = "none", .n_threads = 1, .n_ctx = 256};
    struct err err;
    struct talk t = {0};
    struct spans prompt = {0};
    device_set_seam(&(struct device_seam){.lost_at = 1});
    struct engine *e = engine_open(&config, &err);
    if (!e) fail_msg("%s", err.msg);
    wait_for(e, EVENT_READY, &t);
    spans_text(&prompt, "What is a token?", 16);
    engine_turn(e, &prompt, &sampling);
    const struct engine_event event = wait_for(e, EVENT_FAILED, &t);
    assert_non_null(strstr(event.err.msg, "the CPU does not go on"));
    assert_int_equal(event.done, 0);
    assert_int_equal(event.total, 0);
    engine_close(e);
    device_set_seam(NULL);
    spans_free(&prompt);
    talk_free(&t);
}

/* With a draft on the CPU beside the first layers, too. */
static void lost_with_some_layers(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct talk want = converse("cpu", NULL, 0);
    gpu_layers = 2;
    struct talk kept = converse("vulkan:0", GUIDE_DRAFT, 0);
    same_words(&kept, &want);
    assert_int_equal(kept.n_warnings, 0);
    assert_int_equal(strncmp(kept.device, "2 of ", 5), 0);
    talk_free(&kept);
    loses_at(&want, NULL, 11);
    gpu_layers = 0;
    talk_free(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_at_any_step),      cmocka_unit_test(lost_while_drafting),
        cmocka_unit_test(lost_with_states),      cmocka_unit_test(lost_for_good),
        cmocka_unit_test(lost_with_some_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
