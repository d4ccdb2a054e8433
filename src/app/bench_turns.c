/* The time to the first token of turns, each with what it finds computed. */
#include "app/bench_modes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench_tools.h"
#include "app/command_line.h"
#include "backend/backend.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/ids.h"
#include "engine/disk.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/timeline.h"

/* New tokens of each kind of turn. */
enum { PREFIX = 7, EDITED = 40, EXTENDED = 13, THOUGHT = 64, ANSWER = 32 };
/* A line that is typed, and what a template puts between it and the reply. */
enum { TYPED = 40, MARKUP = 5 };
enum { REPEATS = 5 };

enum kind {
    COLD,
    EXACT,
    SHARED_PREFIX,
    EDITED_TAIL,
    SWITCHED,
    EXTENDED_PROMPT,
    STRIPPED_THOUGHT,
    IDLE_THOUGHT,
    TYPED_TEXT,
    IDLE_TYPED,
    AFTER_RESTART,
    N_KINDS
};

static const struct {
    const char *name, *what;
} kinds[N_KINDS] = {
    [COLD] = {"cold", "nothing computed before"},
    [EXACT] = {"exact repeat", "after a reply of 8 tokens"},
    [SHARED_PREFIX] = {"shared prefix", "the last 7 tokens differ"},
    [EDITED_TAIL] = {"edited tail", "the last 40 tokens differ"},
    [SWITCHED] = {"after switch", "back from two other branches"},
    [EXTENDED_PROMPT] = {"extended prompt", "13 tokens more"},
    [STRIPPED_THOUGHT] = {"stripped thought", "64 tokens of thought go, the answer stays"},
    [IDLE_THOUGHT] = {"after idle, thought", "the same, the history computed before"},
    [TYPED_TEXT] = {"typed text", "a line of 40 tokens more"},
    [IDLE_TYPED] = {"after idle, typed", "the same, computed while it was typed"},
    [AFTER_RESTART] = {"after restart", "13 tokens more, the rest comes from disk"},
};

struct turn {
    size_t n, n_computed;
    double ms[REPEATS];
    double batch_ms[REPEATS]; /* the same rows at the same place, straight on */
    double read_ms[REPEATS];  /* of ms: reading pages from disk */
    size_t n_draft;           /* tokens that the draft model computed then, for its guesses */
    double draft_ms[REPEATS];
};

struct bench {
    struct machine m;
    size_t n_prompt, n_vocab;
    uint32_t drawn;
    struct ids prompt;
    struct turn turns[N_KINDS];
    uint64_t warm_bytes; /* of everything held after the turns in memory */
    struct buf folder;   /* of the pages on disk */
    double kv_resident;  /* bytes of memory per token, as measured; 0: not */
};

static void add_random(struct bench *b, struct ids *ids, size_t n)
{
    bench_random_ids(ids, n, b->n_vocab, &b->drawn);
}

/* Bytes of the process that lie in memory and are no part of a file. */
static size_t resident(void)
{
    size_t kib = 0;
    struct buf text = {0};
    struct err ignored;
    if (file_read("/proc/self/status", 1 << 16, &text, &ignored)) {
        const char *line = strstr(buf_str(&text), "RssAnon:");
        if (line && sscanf(line, "RssAnon: %zu", &kib) != 1) kib = 0;
    }
    buf_free(&text);
    return kib << 10;
}

/* The draft model, if there is one, comes to hold what the target holds. */
static bool follow(struct bench *b, struct timeline_cost *cost, double *ms, struct err *err)
{
    const struct timeline *tl = b->m.tl;
    *cost = (struct timeline_cost){0};
    if (!b->m.draft) return true;
    const double start = clock_ms();
    bool ok = timeline_sync(b->m.draft->tl, timeline_ids(tl), timeline_n(tl), NULL, cost, err);
    *ms = clock_ms() - start;
    return ok;
}

/* The time until the first token of a reply to ids is known. */
static bool first_token(struct bench *b, const struct ids *ids, double *ms,
                        struct timeline_cost *cost, struct err *err)
{
    timeline_prepare(b->m.tl, NULL); /* as the engine does after a turn */
    double start = clock_ms();
    if (!timeline_sync(b->m.tl, ids->data, ids->n, NULL, cost, err)) return false;
    int32_t id = sampler_argmax(timeline_logits(b->m.tl), b->n_vocab);
    *ms = clock_ms() - start;
    timeline_snapshot(b->m.tl);
    return id >= 0 || err_set(err, ERR_FORMAT,
                              "the model's logits are not numbers: the weights "
                              "are broken");
}

/* One turn, then as a yardstick the rows it computed once more without any search or copy. */
static bool run_turn(struct bench *b, enum kind kind, const struct ids *ids, int repeat,
                     struct err *err)
{
    struct turn *t = &b->turns[kind];
    struct timeline_cost cost;
    t->n = ids->n;
    if (!first_token(b, ids, &t->ms[repeat], &cost, err)) return false;
    t->n_computed = cost.n_prefilled;
    t->read_ms[repeat] = cost.read_ms;
    t->batch_ms[repeat] = t->ms[repeat];
    struct timeline_cost draft;
    if (!follow(b, &draft, &t->draft_ms[repeat], err)) return false;
    t->n_draft = draft.n_prefilled;
    /* As the speculator does where a prompt ends. */
    if (b->m.draft && timeline_needs_marks(b->m.draft->tl)) timeline_snapshot(b->m.draft->tl);
    if (kind == COLD || t->n_computed == 0) return true;
    timeline_truncate(b->m.tl, ids->n - t->n_computed);
    return first_token(b, ids, &t->batch_ms[repeat], &cost, err);
}

/* The prompt with its last n_changed tokens replaced. */
static void change_tail(struct bench *b, struct ids *ids, size_t n_changed)
{
    ids_clear(ids);
    ids_append(ids, b->prompt.data, b->prompt.n - n_changed);
    add_random(b, ids, n_changed);
}

static bool decode(struct bench *b, size_t n, struct err *err)
{
    for (bool ok = true; n > 0; n--) {
        int32_t id = sampler_argmax(timeline_logits(b->m.tl), b->n_vocab);
        ok = timeline_append(b->m.tl, id < 0 ? 0 : id, NULL, err);
        if (!ok) return false;
    }
    return true;
}

/* What is done while the user reads and types: a prompt without a reply. */
static bool compute_ahead(struct bench *b, const struct ids *ids, struct err *err)
{
    struct timeline_cost cost;
    double ms;
    return timeline_sync(b->m.tl, ids->data, ids->n, NULL, NULL, err) &&
           follow(b, &cost, &ms, err);
}

/* After a reply with a thought, which the template drops. */
static bool run_thought(struct bench *b, struct ids *ids, enum kind kind, int repeat,
                        struct err *err)
{
    struct ids answer = {0};
    add_random(b, &answer, ANSWER);
    ids_clear(ids);
    ids_append(ids, b->prompt.data, b->prompt.n);
    add_random(b, ids, THOUGHT);
    ids_append(ids, answer.data, answer.n);
    bool ok = timeline_sync(b->m.tl, ids->data, ids->n, NULL, NULL, err);
    timeline_snapshot(b->m.tl);
    ids->n = b->prompt.n;
    ids_append(ids, answer.data, answer.n);
    if (kind == IDLE_THOUGHT) ok = ok && compute_ahead(b, ids, err);
    add_random(b, ids, EXTENDED);
    ids_free(&answer);
    return ok && run_turn(b, kind, ids, repeat, err);
}

static bool run_typed(struct bench *b, struct ids *ids, enum kind kind, int repeat,
                      struct err *err)
{
    bool ok = timeline_sync(b->m.tl, b->prompt.data, b->prompt.n, NULL, NULL, err);
    change_tail(b, ids, 0);
    add_random(b, ids, TYPED);
    if (kind == IDLE_TYPED) ok = ok && compute_ahead(b, ids, err);
    add_random(b, ids, MARKUP);
    return ok && run_turn(b, kind, ids, repeat, err);
}

/* Once unmeasured, so that scratch and weights are in memory; then what the pages of a second
 * prompt take beside those of the first. */
static bool measure_memory(struct bench *b, struct err *err)
{
    struct ids ids = {0};
    size_t n_pages = 0, before = 0;
    bool ok = true;
    for (int i = 0; ok && i < 2; i++) {
        before = resident();
        n_pages = timeline_usage(b->m.tl).n_pages;
        ids_clear(&ids);
        add_random(b, &ids, b->n_prompt);
        ok = timeline_sync(b->m.tl, ids.data, ids.n, NULL, NULL, err);
    }
    n_pages = timeline_usage(b->m.tl).n_pages - n_pages;
    const size_t after = resident();
    /* There may be no room for two, and the system may take memory back meanwhile. Pages have
     * their memory in slabs of up to 32 MiB (cpu/pages.h): few of them would measure those. */
    const size_t least = (size_t)256 << 20;
    if (ok && n_pages > 0 && after > before && after - before >= least)
        b->kv_resident = (double)(after - before) / (double)(n_pages * PAGE_LEN);
    ids_free(&ids);
    return ok;
}

/* Every kind once, in an order in which each finds what its name says. */
static bool run_kinds(struct bench *b, int repeat, struct err *err)
{
    struct ids ids = {0};
    timeline_forget(b->m.tl);
    if (b->m.draft) timeline_forget(b->m.draft->tl);
    ids_clear(&b->prompt);
    add_random(b, &b->prompt, b->n_prompt);
    bool ok = run_turn(b, COLD, &b->prompt, repeat, err) && decode(b, 8, err) &&
              run_turn(b, EXACT, &b->prompt, repeat, err);
    change_tail(b, &ids, PREFIX);
    ok = ok && run_turn(b, SHARED_PREFIX, &ids, repeat, err);
    change_tail(b, &ids, EDITED);
    ok = ok && run_turn(b, EDITED_TAIL, &ids, repeat, err);
    ok = ok && run_turn(b, SWITCHED, &b->prompt, repeat, err);
    change_tail(b, &ids, 0);
    add_random(b, &ids, EXTENDED);
    ok = ok && run_turn(b, EXTENDED_PROMPT, &ids, repeat, err);
    ok = ok && run_thought(b, &ids, STRIPPED_THOUGHT, repeat, err);
    ok = ok && run_thought(b, &ids, IDLE_THOUGHT, repeat, err);
    ok = ok && run_typed(b, &ids, TYPED_TEXT, repeat, err);
    ok = ok && run_typed(b, &ids, IDLE_TYPED, repeat, err);
    ids_free(&ids);
    return ok;
}

static bool save_draft(struct bench *b, struct err *err)
{
    struct timeline_cost cost;
    double ms;
    bool ok = follow(b, &cost, &ms, err);
    if (ok && b->m.draft) timeline_save(b->m.draft->tl, NULL);
    return ok;
}

/* Computes the prompt and keeps it on disk; then begins anew with each repeat. */
static bool run_restarts(struct bench *b, const struct engine_config *base, struct err *err)
{
    struct ids ids = {0};
    struct engine_config config = *base;
    b->warm_bytes = timeline_usage(b->m.tl).bytes;
    machine_close(&b->m); /* the folder is made where there are no threads */
    bool ok = bench_folder_make(&b->folder, err);
    config.cache_dir = buf_str(&b->folder);
    config.cache_disk_bytes = (uint64_t)1 << 40;
    for (int i = -1; ok && i < REPEATS; i++) {
        machine_close(&b->m);
        ok = machine_open(&b->m, &config, NULL, err);
        if (ok) disk_make_ready(b->m.disk, NULL);
        if (ok && b->m.draft) disk_make_ready(b->m.draft->disk, NULL);
        if (ok && i < 0) {
            ok = timeline_sync(b->m.tl, b->prompt.data, b->prompt.n, NULL, NULL, err);
            timeline_save(b->m.tl, NULL);
            ok = ok && save_draft(b, err) && bench_is_kept(&b->m, err);
        } else if (ok) {
            change_tail(b, &ids, 0);
            add_random(b, &ids, EXTENDED);
            ok = run_turn(b, AFTER_RESTART, &ids, i, err);
        }
    }
    ids_free(&ids);
    return ok;
}

static double median(const double ms[REPEATS])
{
    return bench_median(ms, REPEATS);
}

static void print_json(const struct bench *b, struct buf *out)
{
    char measured[32];
    snprintf(measured, sizeof measured, "%.1f", b->kv_resident);
    buf_printf(out,
               "{\"prompt\": %zu, \"kv_type\": \"%s\", \"kv_bytes_per_token\": %lu, "
               "\"kv_resident_per_token\": %s, \"warm_bytes\": %lu, \"state_bytes\": %lu, "
               "\"turns\": [",
               b->n_prompt, b->m.kv_type, (unsigned long)b->m.sizes.kv_bytes_per_token,
               b->kv_resident > 0 ? measured : "null", (unsigned long)b->warm_bytes,
               (unsigned long)b->m.sizes.state_bytes);
    for (int k = 0; k < N_KINDS; k++) {
        const struct turn *t = &b->turns[k];
        buf_printf(out,
                   "%s{\"turn\": \"%s\", \"tokens\": %zu, \"computed\": %zu, \"ms\": %.6f, "
                   "\"batch_ms\": %.6f, \"read_ms\": %.6f",
                   k ? ", " : "", kinds[k].name, t->n, t->n_computed, median(t->ms),
                   median(t->batch_ms), median(t->read_ms));
        if (b->m.draft)
            buf_printf(out, ", \"draft_computed\": %zu, \"draft_ms\": %.6f", t->n_draft,
                       median(t->draft_ms));
        buf_puts(out, "}");
    }
    buf_puts(out, "]}\n");
}

static void print_lines(const struct bench *b, struct buf *out)
{
    buf_printf(out, "%s, %s, KV %s\n", model_family(b->m.model), backend_name(b->m.be),
               b->m.kv_type);
    buf_printf(out, "%-20s%8s%10s%12s%12s%s\n", "", "tokens", "computed", "first token",
               "plain batch", b->m.draft ? "   draft computes" : "");
    for (int k = 0; k < N_KINDS; k++) {
        const struct turn *t = &b->turns[k];
        buf_printf(out, "%-20s%8zu%10zu%9.2f ms", kinds[k].name, t->n, t->n_computed,
                   median(t->ms));
        if (k != COLD && t->n_computed > 0)
            buf_printf(out, "%9.2f ms", median(t->batch_ms));
        else
            buf_printf(out, "%12s", "");
        if (b->m.draft) buf_printf(out, "%5zu in %6.2f ms", t->n_draft, median(t->draft_ms));
        buf_printf(out, "  %s", kinds[k].what);
        if (k == AFTER_RESTART) buf_printf(out, " in %.2f ms", median(t->read_ms));
        buf_putc(out, '\n');
    }
    buf_printf(out, "KV of a token: %lu bytes", (unsigned long)b->m.sizes.kv_bytes_per_token);
    if (b->kv_resident > 0) buf_printf(out, "; %.0f in memory", b->kv_resident);
    buf_printf(out, ", pages of %d tokens\n", PAGE_LEN);
    if (b->m.sizes.state_bytes > 0)
        buf_printf(out,
                   "states of a snapshot: %lu bytes; one every %d tokens of a long prompt\n",
                   (unsigned long)b->m.sizes.state_bytes, TIMELINE_MARK_ROWS);
}

int bench_turns(const struct options *o, const struct bench_args *a)
{
    struct engine_config config = command_line_engine(o);
    struct bench b = {.n_prompt = a->n_prompt};
    struct buf out = {0};
    struct err err;
    char *draft = NULL;
    bool lookup;
    if (a->n_prompt < PAGE_LEN)
        return usage_error("bench", "--prompt is %u, --turns needs at least %d", a->n_prompt,
                           PAGE_LEN);
    if (option_given(o, OPT_DRAFT)) options_draft(o, &draft, &lookup);
    config.draft_path = draft;
    bool ok = machine_open(&b.m, &config, NULL, &err);
    size_t most = b.n_prompt + THOUGHT + ANSWER + EXTENDED;
    if (ok && most > b.m.n_ctx)
        ok = err_set(&err, ERR_USAGE, "turns of up to %zu tokens do not fit the context of %u",
                     most, b.m.n_ctx);
    if (ok) b.n_vocab = model_n_vocab(b.m.model);
    ok = ok && measure_memory(&b, &err);
    for (int i = 0; ok && i < REPEATS; i++)
        ok = run_kinds(&b, i, &err);
    ok = ok && run_restarts(&b, &config, &err);
    if (ok && a->json) print_json(&b, &out);
    if (ok && !a->json) print_lines(&b, &out);
    ids_free(&b.prompt);
    free(draft);
    machine_close(&b.m);
    bench_folder_remove(&b.folder);
    return ok ? print_text(&out) : bench_failed(&err);
}
