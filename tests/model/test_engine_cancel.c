/* The engine from outside: the order of its events, what is refused, and cancels at random
 * moments of load, prefill and decode. After each the timeline is valid (verified against a
 * cold copy), the partial reply is a beginning of the whole one, and the same turn again gives
 * the whole one. The moments are seeded, the scheduler's part is not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../chance.h"
#include "../guide.h"
#include "../soak.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/ids.h"
#include "engine/engine.h"

static const struct engine_config config = {
    .model_path = GUIDE_DRAFT, .n_threads = 2, .n_ctx = 1024, .cache_ram_bytes = 1 << 20};
static const struct engine_sampling sampling = {.temp = 1.2f,
                                                .top_k = 40,
                                                .top_p = 0.95f,
                                                .min_p = 0.01f,
                                                .repeat_penalty = 1.1f,
                                                .repeat_last_n = 64,
                                                .reply_seed = 11,
                                                .max_tokens = 60};

enum { TRIES = 1000 }; /* beyond those that are repeated, until each moment was met */

static struct engine *open_engine(const struct engine_config *c)
{
    struct err err;
    struct engine *e = engine_open(c, &err);
    if (!e) fail_msg("%s", err.msg);
    return e;
}

static bool is_last(enum engine_event_kind kind)
{
    return kind == EVENT_READY || kind >= EVENT_END;
}

/* The event that ends a request. */
static struct engine_event last_event(struct engine *e)
{
    struct engine_event event;
    while (engine_next(e, 60000, &event))
        if (is_last(event.kind)) return event;
    fail_msg("no event within a minute");
    return event;
}

static struct engine_event wait_for(struct engine *e, enum engine_event_kind kind)
{
    struct engine_event event = last_event(e);
    if (event.kind == EVENT_FAILED && kind != EVENT_FAILED) fail_msg("%s", event.err.msg);
    assert_int_equal(event.kind, kind);
    return event;
}

static struct engine *ready_engine(void)
{
    struct engine *e = open_engine(&config);
    wait_for(e, EVENT_READY);
    return e;
}

/* Reads events for a random while, up to ms in all; true if the request's last was among them.
 */
static bool linger(struct engine *e, double ms, struct engine_event *event)
{
    double until = clock_ms() + ms * uniform();
    while (clock_ms() < until)
        if (engine_next(e, 0, event) && is_last(event->kind)) return true;
    return false;
}

static void prompt_of(struct spans *s, int n_words)
{
    static const char *const words[] = {"undo", " the", " last", " message", " and", " save",
                                        " it",  " as",  " a",    " file",    ",",    " please"};
    for (int i = 0; i < n_words; i++) {
        const char *w = words[(i * 7 + i / 5) % 12];
        spans_text(s, w, strlen(w));
    }
}

/* The ends of a turn are among the model's last ids: without them only a limit ends a reply. */
static struct engine_sampling endless(int max_tokens)
{
    static struct engine_bias bias[64];
    struct engine_sampling s = sampling;
    for (int32_t i = 0; i < 64; i++)
        bias[i] = (struct engine_bias){2047 - i, -INFINITY};
    s.bias = bias, s.n_bias = 64;
    s.max_tokens = max_tokens;
    return s;
}

/* ---- order ---- */

struct told {
    struct buf text, reasoning;
    uint64_t done;
    int n_told; /* of prefill */
    int stage;  /* 0 prefill, 1 reply */
};

static const struct engine_reply *follow(struct engine *e, struct told *t)
{
    struct engine_event event;
    for (;;) {
        assert_true(engine_next(e, 60000, &event));
        switch (event.kind) {
        case EVENT_PREFILL:
            assert_int_equal(t->stage, 0);
            /* The first one may come before anything is computed. */
            assert_true(t->n_told == 0 ? event.done >= event.cached : event.done > t->done);
            assert_true(event.done <= event.total && event.cached < event.total);
            t->done = event.done;
            t->n_told++;
            break;
        case EVENT_TEXT:
            t->stage = 1;
            buf_append(&t->text, event.text, event.text_len);
            break;
        case EVENT_REASONING:
            t->stage = 1;
            buf_append(&t->reasoning, event.text, event.text_len);
            break;
        case EVENT_END: return event.reply;
        default: fail_msg("event %d in a turn: %s", (int)event.kind, event.err.msg);
        }
    }
}

static void test_order(void **state)
{
    (void)state;
    struct engine *e = open_engine(&config);
    struct engine_event event;
    assert_true(engine_next(e, 60000, &event));
    assert_int_equal(event.kind, EVENT_LOAD);
    assert_non_null(strstr(event.text, "weights"));
    assert_non_null(strstr(event.text, "scratch"));
    uint64_t done = 0, total = event.total;
    while (engine_next(e, 60000, &event) && event.kind == EVENT_LOAD) {
        assert_true(event.done >= done && event.total > 0 && total > 0);
        done = event.done;
    }
    assert_int_equal(event.kind, EVENT_READY);
    assert_true(engine_count_tokens(e, "undo the last message", 21) > 1);
    assert_false(engine_next(e, 0, &event)); /* nothing unasked for */

    struct spans prompt = {0};
    struct told t = {0};
    prompt_of(&prompt, 150);
    engine_turn(e, &prompt, &sampling);
    const struct engine_reply *r = follow(e, &t);
    assert_int_equal(t.done, r->n_cached + r->n_prefilled);
    assert_true(r->content_at <= r->text_len);
    assert_int_equal(t.text.len + t.reasoning.len, r->text_len); /* this one has no markers */
    assert_memory_equal(buf_str(&t.text), r->text + r->content_at, t.text.len);
    for (size_t i = 0; i < r->n_ids; i++)
        assert_true(r->id_at[i] <= r->id_at[i + 1]);
    assert_int_equal(r->id_at[r->n_ids], r->text_len);
    assert_int_equal(r->reply_seed, 11);
    assert_true(r->n_generated >= r->n_ids && r->n_generated <= r->n_ids + 1);
    assert_false(engine_next(e, 0, &event));
    buf_free(&t.text);
    buf_free(&t.reasoning);
    spans_free(&prompt);
    engine_close(e);
}

/* ---- cancels ---- */

static void test_load_cancelled(void **state)
{
    (void)state;
    double start = clock_ms();
    engine_close(ready_engine());
    double whole = clock_ms() - start;
    int n_cancelled = 0;
    /* On a busy machine every cancel of these may come too late: then some more. */
    for (int i = 20 * (int)soak(); i > 0 || (n_cancelled == 0 && i > -TRIES); i--) {
        struct engine *e = open_engine(&config);
        struct engine_event event;
        if (i % 4 == 0) { /* nobody waits for the answer */
            linger(e, whole, &event);
            engine_close(e);
            continue;
        }
        bool over = linger(e, i < 0 || i % 4 == 1 ? 0.1 : whole, &event);
        engine_cancel(e);
        if (!over) event = last_event(e);
        if (event.kind == EVENT_FAILED) {
            n_cancelled++;
            assert_int_equal(event.err.code, ERR_CANCELLED);
            struct spans prompt = {0};
            prompt_of(&prompt, 3);
            engine_turn(e, &prompt, &sampling);
            event = wait_for(e, EVENT_FAILED);
            assert_string_equal(event.err.msg, "no model is loaded");
            spans_free(&prompt);
        }
        engine_close(e);
    }
    assert_true(n_cancelled > 0);
}

static void assert_beginning(const struct engine_reply *r, const struct ids *whole)
{
    assert_true(r->n_ids <= whole->n);
    if (r->n_ids) assert_memory_equal(r->ids, whole->data, r->n_ids * sizeof *r->ids);
}

static void verify(struct engine *e)
{
    engine_verify(e);
    struct engine_event event = wait_for(e, EVENT_VERIFIED);
    if (event.verified->difference) fail_msg("%s", event.verified->difference);
}

/* A prompt that nothing computed before begins like. */
static void fresh_prompt(struct spans *s)
{
    char number[16];
    snprintf(number, sizeof number, "%u ", below(1 << 30));
    spans_text(s, number, strlen(number));
    prompt_of(s, 20 + (int)below(300));
}

/* What was said before a cancel is kept: going on from it prefills next to nothing. */
static void go_on(struct engine *e, const struct spans *prompt, const struct engine_reply *part)
{
    const struct engine_sampling s = endless(3);
    struct spans more = {0};
    uint32_t n = part->n_ctx_used;
    spans_text(&more, spans_bytes_of(prompt, &prompt->list[0]), prompt->list[0].n);
    spans_ids(&more, part->ids, part->n_ids);
    engine_turn(e, &more, &s);
    const struct engine_reply *r = wait_for(e, EVENT_END).reply;
    assert_int_equal(r->n_cached + r->n_prefilled, n);
    assert_true(r->n_prefilled <= 2);
    spans_free(&more);
}

static void test_turn_cancelled(void **state)
{
    (void)state;
    struct engine *e = ready_engine(), *calm = ready_engine();
    const struct engine_sampling s = endless(60);
    int n_early = 0, n_part = 0;
    for (int i = 60 * (int)soak(); i > 0 || ((n_early == 0 || n_part == 0) && i > -TRIES);
         i--) {
        struct spans prompt = {0};
        struct ids whole = {0};
        struct engine_event event;
        fresh_prompt(&prompt);
        double start = clock_ms();
        engine_turn(calm, &prompt, &s);
        const struct engine_reply *r = wait_for(calm, EVENT_END).reply;
        double ms = clock_ms() - start;
        ids_append(&whole, r->ids, r->n_ids);

        engine_turn(e, &prompt, &s);
        bool over = linger(e, ms, &event);
        engine_cancel(e);
        if (!over) event = last_event(e);
        if (event.kind == EVENT_FAILED) {
            n_early++;
            assert_int_equal(event.err.code, ERR_CANCELLED);
        } else {
            assert_int_equal(event.kind, EVENT_END);
            assert_beginning(event.reply, &whole);
            n_part += event.reply->stop == STOP_CANCELLED;
            if (i % 3 == 0 && event.reply->n_ids > 0) go_on(e, &prompt, event.reply);
        }
        verify(e);
        engine_turn(e, &prompt, &s);
        r = wait_for(e, EVENT_END).reply;
        assert_int_equal(r->n_ids, whole.n);
        assert_beginning(r, &whole);
        spans_free(&prompt);
        ids_free(&whole);
    }
    assert_true(n_early > 0 && n_part > 0);
    engine_close(e);
    engine_close(calm);
}

/* A cancel that comes too late, or twice, does not touch the next turn. */
static void test_late_cancel(void **state)
{
    (void)state;
    struct engine *e = ready_engine();
    struct spans prompt = {0};
    prompt_of(&prompt, 12);
    engine_cancel(e);
    engine_turn(e, &prompt, &sampling);
    assert_int_not_equal(wait_for(e, EVENT_END).reply->stop, STOP_CANCELLED);
    engine_cancel(e);
    engine_cancel(e);
    engine_turn(e, &prompt, &sampling);
    assert_int_not_equal(wait_for(e, EVENT_END).reply->stop, STOP_CANCELLED);
    spans_free(&prompt);
    engine_close(e);
}

/* ---- failures and ends ---- */

static void test_refused_models(void **state)
{
    (void)state;
    static const struct {
        const char *path, *part;
    } odd[] = {{"tests/no-such.gguf", "tests/no-such.gguf: No such file or directory"},
               {"tests", "tests: is a directory, expected a file"},
               {"tests/lint/run.sh", "tests/lint/run.sh"},
               {"tests/data/vocab/bpe.gguf", "tests/data/vocab/bpe.gguf"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct engine_config c = config;
        c.model_path = odd[i].path;
        struct engine *e = open_engine(&c);
        struct engine_event event = wait_for(e, EVENT_FAILED);
        if (!strstr(event.err.msg, odd[i].part)) fail_msg("%s", event.err.msg);
        assert_int_equal(engine_count_tokens(e, "x", 1), -1);
        engine_close(e);
    }
}

/* A TiB of keys and values, which no machine here has: refused before the first weight, with
 * the numbers. */
static void test_memory_is_stated(void **state)
{
    (void)state;
    struct engine_config c = config;
    c.model_path = GUIDE;
    c.kv_type = "f32";
    c.n_ctx = 1 << 27;
    struct engine *e = open_engine(&c);
    struct engine_event event = wait_for(e, EVENT_FAILED);
    if (event.err.code != ERR_MEMORY) fail_msg("%s", event.err.msg);
    static const char *const parts[] = {"not enough memory", "weights", "scratch",
                                        "KV of 134217728 tokens", "iB available"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(event.err.msg, parts[i])) fail_msg("%s", event.err.msg);
    engine_close(e);
}

/* A stop string that begins and ends inside tokens: what comes before it is the reply. */
static void test_stop_strings(void **state)
{
    (void)state;
    struct engine *e = ready_engine();
    struct spans prompt = {0};
    prompt_of(&prompt, 12);
    struct engine_sampling s = endless(20);
    engine_turn(e, &prompt, &s);
    const struct engine_reply *r = wait_for(e, EVENT_END).reply;
    assert_true(r->n_ids == 20 && r->content_at == 0);
    struct buf whole = {0};
    struct ids ids = {0};
    buf_append(&whole, r->text, r->text_len);
    ids_append(&ids, r->ids, r->n_ids);
    size_t ends = r->id_at[4];

    for (size_t at = 0; at + 5 <= ends; at++) {
        char word[6] = "";
        memcpy(word, whole.data + at, 5);
        size_t first = (size_t)(strstr(whole.data, word) - whole.data);
        const char *const stop[] = {"never said", word};
        s.stop = stop, s.n_stop = 2;
        struct told t = {0};
        engine_turn(e, &prompt, &s);
        r = follow(e, &t);
        assert_int_equal(r->stop, STOP_STRING);
        assert_int_equal(r->text_len, first);
        assert_memory_equal(r->text, whole.data, first);
        assert_string_equal(buf_str(&t.text), r->text); /* shown: as much, and no more */
        assert_beginning(r, &ids);
        assert_true(r->id_at[r->n_ids] <= first);
        buf_free(&t.text);
    }
    verify(e);
    buf_free(&whole);
    ids_free(&ids);
    spans_free(&prompt);
    engine_close(e);
}

static void test_failed_turns(void **state)
{
    (void)state;
    struct engine *e = ready_engine();
    struct spans prompt = {0};
    prompt_of(&prompt, 12);
    engine_turn(e, &prompt, &sampling);
    struct ids whole = {0};
    const struct engine_reply *r = wait_for(e, EVENT_END).reply;
    ids_append(&whole, r->ids, r->n_ids);

    struct spans long_one = {0};
    prompt_of(&long_one, 3000);
    engine_turn(e, &long_one, &sampling);
    struct engine_event event = wait_for(e, EVENT_FAILED);
    assert_int_equal(event.err.code, ERR_USER);
    assert_true(event.total > event.done && event.done == 1024);

    struct engine_sampling bad = sampling;
    const struct engine_bias bias = {1 << 20, 1};
    bad.bias = &bias, bad.n_bias = 1;
    engine_turn(e, &prompt, &bad);
    event = wait_for(e, EVENT_FAILED);
    assert_non_null(strstr(event.err.msg, "logit-bias"));
    struct spans empty = {0};
    engine_turn(e, &empty, &sampling);
    assert_int_equal(wait_for(e, EVENT_FAILED).err.code, ERR_USER);

    engine_turn(e, &prompt, &sampling);
    r = wait_for(e, EVENT_END).reply;
    assert_int_equal(r->n_ids, whole.n);
    assert_beginning(r, &whole);
    verify(e);
    ids_free(&whole);
    spans_free(&prompt);
    spans_free(&long_one);
    engine_close(e);
}

static void test_ends(void **state)
{
    (void)state;
    struct engine_config c = config;
    c.n_ctx = 64;
    struct engine *e = open_engine(&c);
    wait_for(e, EVENT_READY);
    struct spans prompt = {0};
    prompt_of(&prompt, 20);
    struct engine_sampling s = endless(0);
    engine_turn(e, &prompt, &s);
    const struct engine_reply *r = wait_for(e, EVENT_END).reply;
    assert_int_equal(r->stop, STOP_LENGTH);
    assert_int_equal(r->n_ids, 0);
    s.max_tokens = 5;
    engine_turn(e, &prompt, &s);
    r = wait_for(e, EVENT_END).reply;
    assert_int_equal(r->stop, STOP_LENGTH);
    assert_int_equal(r->n_ids, 5);
    s.max_tokens = -1;
    engine_turn(e, &prompt, &s);
    r = wait_for(e, EVENT_END).reply;
    assert_int_equal(r->stop, STOP_CONTEXT);
    assert_int_equal(r->n_ctx_used, 64);
    verify(e);
    spans_free(&prompt);
    engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),          cmocka_unit_test(test_load_cancelled),
        cmocka_unit_test(test_turn_cancelled), cmocka_unit_test(test_late_cancel),
        cmocka_unit_test(test_refused_models), cmocka_unit_test(test_memory_is_stated),
        cmocka_unit_test(test_stop_strings),   cmocka_unit_test(test_failed_turns),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
