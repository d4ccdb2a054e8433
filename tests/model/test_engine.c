/* The engine's seam on the bundled guide: whole prompts in, events out, and what a reply says
 * of its cost. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../gguf_builder.h"
#include "../guide.h"
#include "../scratch.h"
#include "base/buf.h"
#include "base/file.h"
#include "engine/engine.h"
#include "engine/engine_impl.h"
#include "engine/timeline.h"
#include "random_model.h"
#include "text/bpe.h"

static struct engine *e;

/* The event that ends a request; the test fails if it is another. */
static struct engine_event wait_for(enum engine_event_kind kind)
{
    struct engine_event event;
    while (engine_next(e, 60000, &event))
        if (event.kind == EVENT_READY || event.kind >= EVENT_END) {
            if (event.kind == EVENT_FAILED) print_error("%s\n", event.err.msg);
            assert_int_equal(event.kind, kind);
            return event;
        }
    fail_msg("no event within a minute");
    return event;
}

static const struct engine_sampling greedy = {
    .top_p = 1, .repeat_penalty = 1, .max_tokens = 12};

static const struct engine_reply *turn(const struct spans *prompt,
                                       const struct engine_sampling *sampling)
{
    engine_turn(e, prompt, sampling);
    return wait_for(EVENT_END).reply;
}

static void verify_all(uint32_t n_tokens)
{
    engine_verify(e);
    const struct engine_verified *v = wait_for(EVENT_VERIFIED).verified;
    assert_null(v->difference);
    assert_int_equal(v->n_tokens, n_tokens);
    assert_true(n_tokens == 0 || v->n_bytes > 0);
}

static int open_engine(void **state)
{
    (void)state;
    struct err err;
    const struct engine_config config = {
        .model_path = GUIDE, .n_threads = 2, .n_ctx = 512, .cache_ram_bytes = 64 << 20};
    e = engine_open(&config, &err);
    return e ? 0 : -1;
}

static int close_engine(void **state)
{
    (void)state;
    engine_close(e);
    return 0;
}

static void text(struct spans *s, const char *words)
{
    spans_text(s, words, strlen(words));
}

/* The linker (Makefile) lets calls of bpe_encode come by here: words that become tokens, on the
 * engine's thread or, between turns, on this one. */
static size_t n_words;

void __real_bpe_encode(const struct bpe *b, const struct vocab *v, const char *word, size_t len,
                       struct merger *m, struct ids *out);
void __wrap_bpe_encode(const struct bpe *b, const struct vocab *v, const char *word, size_t len,
                       struct merger *m, struct ids *out);

void __wrap_bpe_encode(const struct bpe *b, const struct vocab *v, const char *word, size_t len,
                       struct merger *m, struct ids *out)
{
    n_words++;
    __real_bpe_encode(b, v, word, len, m, out);
}

/* What was said before is not tokenised again, and neither is a prompt whose ids are asked for.
 */
static void test_words_of_turns(void **state)
{
    (void)state;
    enum { N_LONG = 100, FEW = 10 };
    struct spans prompt = {0};
    struct ids ids = {0};
    struct err err;
    for (int i = 0; i < N_LONG; i++)
        text(&prompt, " again");
    n_words = 0;
    const struct engine_reply *r = turn(&prompt, &greedy);
    assert_true(n_words >= N_LONG);
    assert_true(engine_prompt_ids(e, &prompt, &ids, &err));
    spans_ids(&prompt, r->ids, r->n_ids);
    text(&prompt, " And then?");
    n_words = 0;
    turn(&prompt, &greedy);
    assert_in_range(n_words, 1, FEW);
    n_words = 0;
    assert_true(engine_prompt_ids(e, &prompt, &ids, &err));
    assert_in_range(n_words, 1, FEW);
    ids_free(&ids);
    spans_free(&prompt);
}

static void test_cost_of_turns(void **state)
{
    (void)state;
    wait_for(EVENT_READY);
    verify_all(0);
    struct spans prompt = {0};
    text(&prompt, "How do I take back the last message?");
    const struct engine_reply *r = turn(&prompt, &greedy);
    uint32_t n_prompt = r->n_prefilled;
    assert_true(n_prompt > 5);
    assert_int_equal(r->n_cached, 0);
    assert_null(r->diverged_old);
    assert_true(r->n_ids > 1 && r->n_ids <= 12);
    uint32_t n_all = n_prompt + (uint32_t)r->n_ids;

    /* Went on: all that was computed of prompt and reply is there. */
    spans_ids(&prompt, r->ids, r->n_ids);
    text(&prompt, " And then?");
    r = turn(&prompt, &greedy);
    assert_true(r->n_cached + 1 >= n_all);
    assert_true(r->n_prefilled < 12);
    assert_null(r->diverged_old);
    verify_all(r->n_cached + r->n_prefilled + (uint32_t)r->n_ids -
               (r->stop == STOP_LENGTH ? 1 : 0));
    spans_free(&prompt);

    /* Edited: the reply tells where. */
    text(&prompt, "How do I take back the first message?");
    r = turn(&prompt, &greedy);
    assert_true(r->n_cached > 0 && r->n_cached < n_prompt);
    assert_int_equal(r->n_cached, r->diverged_at);
    assert_non_null(strstr(r->diverged_old, "l"));
    assert_non_null(strstr(r->diverged_new, "f"));
    spans_free(&prompt);
}

/* Another attempt, going on with a reply, coming back to another branch: nothing is computed
 * that was computed before. */
static void test_coming_back_is_free(void **state)
{
    (void)state;
    struct spans prompt = {0}, other = {0};
    text(&prompt, "What does the option --seed do, and when is it of use?");
    text(&other, "What does the option --temp do?");
    const struct engine_reply *r = turn(&prompt, &greedy);
    uint32_t n_prompt = r->n_cached + r->n_prefilled;
    int32_t ids[12];
    size_t n_ids = r->n_ids;
    memcpy(ids, r->ids, n_ids * sizeof *ids);
    struct engine_sampling hot = greedy;
    hot.temp = 2;
    for (uint64_t seed = 1; seed <= 3; seed++) { /* retried */
        hot.reply_seed = seed;
        r = turn(&prompt, &hot);
        assert_int_equal(r->n_cached, n_prompt);
        assert_int_equal(r->n_prefilled, 0);
    }
    r = turn(&prompt, &greedy);
    assert_int_equal(r->n_prefilled, 0);
    assert_int_equal(r->n_ids, n_ids);
    assert_memory_equal(r->ids, ids, n_ids * sizeof *ids);

    turn(&other, &greedy); /* and back: all comes from the other branch but the beginning */
    r = turn(&prompt, &greedy);
    assert_int_equal(r->n_prefilled, 0);
    assert_int_equal(r->n_cached, n_prompt);
    assert_true(r->n_restored > 0 && r->n_restored < n_prompt);
    assert_int_equal(r->n_restored, n_prompt - r->diverged_at);
    assert_memory_equal(r->ids, ids, n_ids * sizeof *ids);
    verify_all(n_prompt + (uint32_t)r->n_ids - (r->stop == STOP_LENGTH));

    /* Continued: the reply as far as it was computed. */
    spans_ids(&prompt, ids, n_ids - 1);
    r = turn(&prompt, &greedy);
    assert_int_equal(r->n_prefilled, 0);
    assert_int_equal(r->ids[0], ids[n_ids - 1]);
    spans_free(&prompt);
    spans_free(&other);
}

static void test_verify_is_cancelled(void **state)
{
    (void)state;
    engine_verify(e);
    engine_cancel(e);
    struct engine_event event;
    while (engine_next(e, 60000, &event) && event.kind < EVENT_END)
        ;
    if (event.kind == EVENT_FAILED)
        assert_int_equal(event.err.code, ERR_CANCELLED);
    else
        assert_int_equal(event.kind, EVENT_VERIFIED); /* it was faster */
    struct spans prompt = {0};
    text(&prompt, "How do I take back the first message?");
    const struct engine_reply *r = turn(&prompt, &greedy);
    assert_true(r->n_cached + 1 >= r->n_cached + r->n_prefilled);
    spans_free(&prompt);
}

static const struct engine_sampling no_reply = {
    .top_p = 1, .repeat_penalty = 1, .max_tokens = 0};

/* While a line is typed a recurrent draft keeps, as the model does, where it came to: the end
 * of the line may be taken back. */
static void test_draft_is_warm(void **state)
{
    (void)state;
    static const char recurrent[] = "tests/data/models/qwen35moe.gguf";
    const struct engine_config config = {.model_path = recurrent,
                                         .draft_path = recurrent,
                                         .n_threads = 2,
                                         .n_ctx = 512,
                                         .cache_ram_bytes = 64 << 20};
    struct engine *const outer = e;
    struct spans typed[3] = {0};
    struct ids ids = {0};
    struct err err;
    e = engine_open(&config, &err);
    assert_non_null(e);
    wait_for(EVENT_READY);
    for (int i = 0; i < 3; i++) {
        text(&typed[i], "How do I take back the last message");
        if (i > 0) text(&typed[i], i == 1 ? " of t" : " that I sent");
    }
    const uint32_t n_kept = turn(&typed[0], &no_reply)->n_prefilled;
    turn(&typed[1], &no_reply);
    assert_true(engine_prompt_ids(e, &typed[2], &ids, &err));
    struct timeline *const tl[] = {e->machine.tl, e->machine.draft->tl};
    for (int i = 0; i < 2; i++)
        assert_true(timeline_plan(tl[i], ids.data, ids.n).n_cached >= n_kept);
    engine_close(e);
    e = outer;
    for (int i = 0; i < 3; i++)
        spans_free(&typed[i]);
    ids_free(&ids);
}

/* The engine of a program that goes on with what dir keeps. */
static void open_file_on_disk(const char *path, const char *dir)
{
    struct err err;
    const struct engine_config config = {.model_path = path,
                                         .n_threads = 1,
                                         .n_ctx = 512,
                                         .cache_dir = dir,
                                         .cache_disk_bytes = 64 << 20,
                                         .resumes = true};
    e = engine_open(&config, &err);
    assert_non_null(e);
    wait_for(EVENT_READY);
}

static void open_on_disk(const char *dir)
{
    open_file_on_disk(GUIDE, dir);
}

/* Prompts without a reply, as they are computed while somebody types: they leave what is kept
 * of the conversation alone, and what they read from disk counts for the reply that follows. */
static void test_kept_on_disk(void **state)
{
    (void)state;
    char dir[SCRATCH_PATH];
    scratch_folder(dir, "engine");
    struct engine *const outer = e;
    struct spans prompt = {0}, typed = {0};
    open_on_disk(dir);
    text(&prompt, "How do I take back the last message?");
    const struct engine_reply *r = turn(&prompt, &greedy);
    spans_ids(&prompt, r->ids, r->n_ids);
    const uint32_t n_said = r->n_ctx_used;
    for (char c = 'a'; c < 'a' + 8; c++) {
        spans_ids(&typed, r->ids, 1);
        spans_text(&typed, &c, 1);
        r = turn(&typed, &no_reply);
        spans_clear(&typed);
    }
    engine_close(e);

    open_on_disk(dir);
    turn(&prompt, &no_reply);
    text(&prompt, " And then?");
    r = turn(&prompt, &greedy);
    assert_true(r->n_read + 1 >= n_said && r->n_read <= r->n_cached);
    engine_close(e);
    e = outer;
    spans_free(&prompt);
    spans_free(&typed);
    scratch_remove(dir);
}

/* Takes the place of the C library's: a thread of idle priority begins when it is let. */
static atomic_bool let_idle = true;
int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param)
{
    (void)thread, (void)param;
    while (policy == SCHED_IDLE && !let_idle)
        usleep(1000);
    return 0;
}

/* A turn, of whose warnings line[0..2) are counted. */
static void turn_counted(const struct spans *prompt, const char *const line[2], size_t n[2])
{
    struct engine_event event = {0};
    engine_turn(e, prompt, &greedy);
    while (event.kind < EVENT_END && engine_next(e, 60000, &event))
        for (int i = 0; i < 2; i++)
            n[i] += event.kind == EVENT_WARNING && strcmp(event.text, line[i]) == 0;
    assert_int_equal(event.kind, EVENT_END);
}

/* The model's file is written to before it is known what it holds: nothing will ever be kept,
 * which is said once, and nobody waits for it. */
static void test_file_written(void **state)
{
    (void)state;
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 10], unkept[SCRATCH_PATH + 100];
    const char *const lines[] = {
        "reading the model once more, to know what was kept of it on disk", unkept};
    size_t n[2] = {0};
    struct buf bytes = {0};
    struct err err;
    struct engine *const outer = e;
    struct spans prompt = {0};
    scratch_folder(dir, "engine");
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    snprintf(
        unkept, sizeof unkept,
        "what is computed from now on is not kept on disk: %s: was written to after it was "
        "opened",
        path);
    assert_true(file_read(GUIDE, SIZE_MAX, &bytes, &err));
    assert_true(file_replace(path, bytes.data, bytes.len, &err));
    let_idle = false;
    open_file_on_disk(path, dir);
    assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
    let_idle = true;
    text(&prompt, "How do I take back the last message?");
    for (int i = 0; i < 4; i++)
        turn_counted(&prompt, lines, n);
    assert_true(n[0] <= 1); /* the thread may have been faster */
    assert_int_equal(n[1], 1);
    assert_true(engine_finish(e, &err));
    engine_close(e);
    e = outer;
    spans_free(&prompt);
    buf_free(&bytes);
    scratch_remove(dir);
}

/* The next key comes while a prompt without a reply is computed: what it has read from disk
 * counts for the reply all the same. */
static void test_read_and_cancelled(void **state)
{
    (void)state;
    char dir[SCRATCH_PATH];
    scratch_folder(dir, "engine");
    struct engine *const outer = e;
    struct engine_event event = {0};
    struct spans prompt = {0};
    open_on_disk(dir);
    text(&prompt, "How do I take back the last message?");
    const struct engine_reply *r = turn(&prompt, &greedy);
    spans_ids(&prompt, r->ids, r->n_ids);
    const uint32_t n_said = r->n_ctx_used;
    engine_close(e);

    open_on_disk(dir);
    for (int i = 0; i < 50; i++)
        text(&prompt, " And then? Tell me.");
    engine_turn(e, &prompt, &no_reply);
    while (event.kind != EVENT_PREFILL)
        assert_true(engine_next(e, 60000, &event));
    engine_cancel(e);
    while (event.kind < EVENT_END)
        assert_true(engine_next(e, 60000, &event));
    assert_true(event.kind == EVENT_END || event.err.code == ERR_CANCELLED);
    r = turn(&prompt, &greedy);
    assert_true(r->n_read + 1 >= n_said && r->n_read <= r->n_cached);
    engine_close(e);
    e = outer;
    spans_free(&prompt);
    scratch_remove(dir);
}

/* A conversation that was kept comes when the model is open already: its pages are waited for,
 * which is said. */
static void test_resumes_later(void **state)
{
    (void)state;
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 10];
    struct engine *const outer = e;
    struct engine_event event = {0};
    struct spans prompt = {0};
    struct buf bytes = {0};
    struct err err;
    scratch_folder(dir, "engine");
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    assert_true(file_read(GUIDE, SIZE_MAX, &bytes, &err));
    assert_true(file_replace(path, bytes.data, bytes.len, &err));
    open_file_on_disk(path, dir);
    text(&prompt, "How do I take back the last message?");
    const struct engine_reply *r = turn(&prompt, &greedy);
    spans_ids(&prompt, r->ids, r->n_ids);
    const uint32_t n_said = r->n_ctx_used;
    engine_close(e);

    /* The same model in another file, as after a copy: what is known of it must be read. */
    assert_true(file_replace(path, bytes.data, bytes.len, &err));
    const struct engine_config config = {.model_path = path,
                                         .n_threads = 1,
                                         .n_ctx = 512,
                                         .cache_dir = dir,
                                         .cache_disk_bytes = 64 << 20};
    let_idle = false;
    e = engine_open(&config, &err);
    assert_non_null(e);
    wait_for(EVENT_READY);
    /* Nobody waits for a conversation that begins anew. */
    struct spans anew = {0};
    engine_resumes(e, true);
    engine_resumes(e, false);
    text(&anew, "Hello");
    engine_turn(e, &anew, &greedy);
    while (engine_next(e, 60000, &event) && event.kind != EVENT_END)
        assert_int_not_equal(event.kind, EVENT_WARNING);
    spans_free(&anew);
    engine_resumes(e, true);
    text(&prompt, " And then?");
    engine_turn(e, &prompt, &greedy);
    assert_true(engine_next(e, 60000, &event));
    let_idle = true;
    assert_int_equal(event.kind, EVENT_WARNING);
    assert_non_null(strstr(event.text, "reading the model once more"));
    assert_true(wait_for(EVENT_END).reply->n_read + 1 >= n_said);
    engine_close(e);
    e = outer;
    spans_free(&prompt);
    buf_free(&bytes);
    scratch_remove(dir);
}

/* The bytes of a file, in which the key `from` is called `to`, of the same length. */
static void copy_renamed(const char *path, const char *copy, const char *from, const char *to)
{
    FILE *in = fopen(path, "rb"), *out = fopen(copy, "wb");
    assert_true(in && out && fseek(in, 0, SEEK_END) == 0);
    const size_t n = (size_t)ftell(in);
    char *bytes = malloc(n);
    rewind(in);
    assert_int_equal(fread(bytes, 1, n, in), n);
    char *at = memmem(bytes, n, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    fclose(out);
    free(bytes);
}

/* What the warnings say until the model is ready; it is closed again. */
static void warnings_of(const char *path, char *lines, size_t cap)
{
    struct engine *const outer = e;
    struct engine_event event = {0};
    struct err err;
    const struct engine_config config = {
        .model_path = path, .n_threads = 1, .n_ctx = 128, .cache_ram_bytes = 16 << 20};
    e = engine_open(&config, &err);
    assert_non_null(e);
    lines[0] = '\0';
    while (event.kind != EVENT_READY) {
        assert_true(engine_next(e, 60000, &event) && event.kind != EVENT_FAILED);
        if (event.kind == EVENT_WARNING)
            snprintf(lines + strlen(lines), cap - strlen(lines), "%s\n", event.text);
    }
    engine_close(e);
    e = outer;
}

/* A vocabulary that does not say how it was trained is used, but not in silence. */
static void test_no_pre_tokenizer(void **state)
{
    (void)state;
    static const char model[] = "tests/data/models/llama-Q4_0.gguf";
    char dir[SCRATCH_PATH], copy[SCRATCH_PATH + 16], lines[512];
    scratch_folder(dir, "engine");
    snprintf(copy, sizeof copy, "%s/old.gguf", dir);
    copy_renamed(model, copy, "tokenizer.ggml.pre", "tokenizer.ggml.prf");
    warnings_of(model, lines, sizeof lines);
    assert_string_equal(lines, "");
    warnings_of(copy, lines, sizeof lines);
    assert_string_equal(lines,
                        "the model does not say how text is cut into words (no "
                        "tokenizer.ggml.pre): \"default\" is taken; where that is wrong, "
                        "answers are worse\n");
    scratch_remove(dir);
}

/* Why the engine of a model does not open. */
static struct err failure_of(const char *path)
{
    struct engine *const outer = e;
    struct err err;
    const struct engine_config config = {.model_path = path, .n_threads = 2};
    e = engine_open(&config, &err);
    assert_non_null(e);
    err = wait_for(EVENT_FAILED).err;
    engine_close(e);
    e = outer;
    return err;
}

/* Vocabulary and weights are read at once: of two that are broken it is the weights that are
 * told of, whichever was found first. */
static void test_broken(void **state)
{
    (void)state;
    char dir[SCRATCH_PATH], words[SCRATCH_PATH + 16], both[SCRATCH_PATH + 16];
    scratch_folder(dir, "engine");
    snprintf(words, sizeof words, "%s/words.gguf", dir);
    snprintf(both, sizeof both, "%s/both.gguf", dir);
    copy_renamed(GUIDE, words, "tokenizer.ggml.tokens", "tokenizer.ggml.tokenz");
    copy_renamed(words, both, "output_norm.weight", "output_nerm.weight");
    assert_non_null(strstr(failure_of(words).msg, "tokenizer.ggml.tokens is missing"));
    assert_non_null(strstr(failure_of(both).msg, "tensor output_norm.weight: expected"));
    scratch_remove(dir);
}

/* ---- little memory for snapshots ---- */

/* The engine of a model that comes back to snapshots only, with room for the fewest. */
static void open_small(char path[SCRATCH_PATH], const char *shape)
{
    struct err err;
    random_model_make(path, shape, "f16");
    const struct engine_config config = {
        .model_path = path, .n_threads = 2, .cache_ram_bytes = 1 << 20};
    e = engine_open(&config, &err);
    assert_non_null(e);
    wait_for(EVENT_READY);
}

static void close_small(const char *path)
{
    engine_close(e);
    unlink(path);
}

static void question(struct spans *prompt, int i, size_t n)
{
    char line[128];
    snprintf(line, sizeof line,
             "Question %d: what is the answer to what nobody has asked until this day?", i);
    spans_text(prompt, line, n < strlen(line) ? n : strlen(line));
}

/* What is passed in a long reply does not push out where the turns begin and end. */
static void check_long_reply(const char *shape)
{
    enum { N_TURNS = 4, LONG = 2800 };
    struct engine *const outer = e;
    char path[SCRATCH_PATH];
    struct spans prompt = {0};
    struct engine_bias ends[400];
    for (int i = 0; i < 400; i++) /* the vocabulary's control tokens, and what only pads it */
        ends[i] = (struct engine_bias){i < 300 ? i : 2080 - 400 + i, -INFINITY};
    struct engine_sampling how = {
        .top_p = 1, .temp = 1, .repeat_penalty = 1, .bias = ends, .n_bias = 400};
    open_small(path, shape);
    for (int i = 0; i < N_TURNS; i++) {
        how.max_tokens = i + 1 < N_TURNS ? 30 : LONG;
        question(&prompt, i, SIZE_MAX);
        const struct engine_reply *r = turn(&prompt, &how);
        assert_int_equal(r->n_ids, how.max_tokens);
        if (i + 1 < N_TURNS) spans_ids(&prompt, r->ids, r->n_ids);
    }
    how.max_tokens = 1;
    assert_int_equal(turn(&prompt, &how)->n_prefilled, 0); /* tried again */
    spans_free(&prompt);
    close_small(path);
    e = outer;
}

static void test_long_reply(void **state)
{
    (void)state;
    check_long_reply(RANDOM_HYBRID ",n_ctx=4096");
    check_long_reply(RANDOM_WINDOWED ",n_ctx=4096");
}

/* Nor does a line that is computed while it is typed, if it is given up for another. */
static void test_long_line(void **state)
{
    (void)state;
    enum { N_TURNS = 3, N_KEYS = 12 };
    struct engine *const outer = e;
    char path[SCRATCH_PATH];
    int32_t replies[N_TURNS][12];
    size_t n_replies[N_TURNS];
    const struct engine_reply *r;
    uint32_t n_said = 0;
    open_small(path, RANDOM_HYBRID ",n_ctx=4096");
    for (int i = 0; i <= N_TURNS; i++) {
        struct spans prompt = {0};
        for (size_t key = 1; key <= N_KEYS + 1; key++) {
            spans_clear(&prompt);
            for (int k = 0; k < i; k++) {
                question(&prompt, k, SIZE_MAX);
                spans_ids(&prompt, replies[k], n_replies[k]);
            }
            if (key > N_KEYS) break;
            question(&prompt, i, 5 * key);
            turn(&prompt, &no_reply);
        }
        if (i < N_TURNS)
            question(&prompt, i, SIZE_MAX);
        else
            text(&prompt, "No.");
        r = turn(&prompt, &greedy);
        spans_free(&prompt);
        if (i == N_TURNS) break;
        n_said = r->n_ctx_used;
        n_replies[i] = r->n_ids;
        memcpy(replies[i], r->ids, r->n_ids * sizeof *r->ids);
    }
    assert_true(r->n_cached + 1 >= n_said);
    close_small(path);
    e = outer;
}

/* ---- what the file bans ---- */

/* Gives the file a key with the id: 64 bytes, so that its tensors stay aligned. */
static void add_suppressed(const char *path, int32_t id)
{
    enum { N_IDS = 5, COUNT_AT = 16, HEADER = 24 };
    struct buf b = {0}, file = {0};
    struct err err;
    uint64_t n_keys;
    assert_true(file_read(path, 64 << 20, &file, &err));
    memcpy(&n_keys, file.data + COUNT_AT, sizeof n_keys);
    buf_append(&b, file.data, COUNT_AT);
    gb_u64(&b, n_keys + 1);
    gb_kv_array(&b, "tokenizer.ggml.suppress_tokens", GGUF_U16, N_IDS);
    for (size_t i = 0; i < N_IDS; i++)
        buf_append(&b, &id, 2);
    assert_int_equal(b.len, HEADER + 64);
    buf_append(&b, file.data + HEADER, file.len - HEADER);
    assert_true(file_replace(path, b.data, b.len, &err));
    buf_free(&b);
    buf_free(&file);
}

/* Is not drawn, as if the reply had banned it, and the reply cannot ask for it. */
static void test_suppressed(void **state)
{
    (void)state;
    struct engine *const outer = e;
    char path[SCRATCH_PATH];
    const struct engine_config config = {
        .model_path = path, .n_threads = 1, .cache_ram_bytes = 1 << 20};
    struct engine_sampling how = greedy;
    struct engine_bias bias = {.bias = -INFINITY};
    struct spans prompt = {0};
    struct err err;
    int32_t next[12];
    text(&prompt, "What is it?");
    open_small(path, RANDOM_DENSE);
    const struct engine_reply *r = turn(&prompt, &how);
    assert_true(r->n_ids > 0);
    bias.id = r->ids[0];
    how.bias = &bias, how.n_bias = 1;
    r = turn(&prompt, &how);
    const size_t n_next = r->n_ids;
    assert_true(n_next > 0 && r->ids[0] != bias.id);
    memcpy(next, r->ids, n_next * sizeof *next);
    engine_close(e);

    add_suppressed(path, bias.id);
    e = engine_open(&config, &err);
    assert_non_null(e);
    wait_for(EVENT_READY);
    bias.bias = 100;
    for (how.n_bias = 0; how.n_bias <= 1; how.n_bias++) {
        r = turn(&prompt, &how);
        assert_int_equal(r->n_ids, n_next);
        assert_memory_equal(r->ids, next, n_next * sizeof *next);
    }
    spans_free(&prompt);
    close_small(path);
    e = outer;
}

/* A stop string cuts text and ids at one place, whatever lies there: a token of control within
 * the string, bytes of a character in tokens of their own, a token that is only cut. */
static void test_stop_strings(void **state)
{
    (void)state;
    enum { START = 2046, THE = 272 }; /* <|im_start|>, " the"; the first 256 ids are bytes */
    static const struct {
        const char *stop, *text;
        size_t n_ids;
        int32_t ids[5]; /* what the model says */
    } cases[] = {
        {"xy", "w", 1, {'w', 'x', START, 'y'}},
        {"y", "wx<|im_start|>", 3, {'w', 'x', START, 'y'}},
        {"\u00e9", "w", 1, {'w', 0xc3, 0xa9, 'y'}},
        {"he", "w t", 1, {'w', THE, 'y'}},
    };
    struct spans prompt = {0};
    text(&prompt, "Go");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* Each id is the likeliest until it has been said. */
        struct engine_bias bias[5] = {0};
        struct engine_sampling how = greedy;
        while (cases[i].ids[how.n_bias]) {
            const float more = 900 - 100 * (float)how.n_bias;
            bias[how.n_bias] = (struct engine_bias){cases[i].ids[how.n_bias], more};
            how.n_bias++;
        }
        how.bias = bias;
        how.frequency_penalty = 1000;
        how.repeat_last_n = -1;
        how.stop = &cases[i].stop;
        how.n_stop = 1;
        const struct engine_reply *r = turn(&prompt, &how);
        assert_int_equal(r->stop, STOP_STRING);
        assert_string_equal(r->text, cases[i].text);
        assert_int_equal(r->text_len, strlen(cases[i].text));
        assert_int_equal(r->n_ids, cases[i].n_ids);
        assert_memory_equal(r->ids, cases[i].ids, r->n_ids * sizeof *r->ids);
    }
    spans_free(&prompt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_of_turns),
        cmocka_unit_test(test_coming_back_is_free),
        cmocka_unit_test(test_verify_is_cancelled),
        cmocka_unit_test(test_kept_on_disk),
        cmocka_unit_test(test_read_and_cancelled),
        cmocka_unit_test(test_long_reply),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_no_pre_tokenizer),
        cmocka_unit_test(test_file_written),
        cmocka_unit_test(test_resumes_later),
        cmocka_unit_test(test_suppressed),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_words_of_turns),
        cmocka_unit_test(test_draft_is_warm),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
