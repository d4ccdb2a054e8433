/* A conversation saved, resumed, and computed with and without a disk behind it. */
#include "app/bench_modes.h"

#include <stdlib.h>
#include <time.h>

#include "app/bench_disk_turns.h"
#include "app/bench_tools.h"
#include "app/command_line.h"
#include "backend/backend.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/readable.h"
#include "engine/disk.h"
#include "engine/machine.h"
#include "engine/timeline.h"

/* Tokens of a turn that is saved, of one that is asked; of the conversation before the turns
 * with a disk and without, at most: of a model of 0.6B their pages nearly fill the queue, and
 * the last is open, so that the snapshot has a copy of it. */
enum { TURN = PAGE_LEN, ASKED = 13, BEFORE = 1000 };
enum { REPEATS = 7 };

/* Saving one more turn after so many tokens. */
struct save {
    size_t depth;
    double call_ms[REPEATS]; /* what the engine waits for */
    double done_ms[REPEATS]; /* until all is on disk */
    double cpu_ms[REPEATS];  /* what all threads worked for that */
    size_t n_files;
    uint64_t raw_bytes, packed_bytes;
};

struct bench {
    struct machine m;
    struct engine_config config;
    struct buf folder;
    size_t n_prompt, n_vocab, n_gen, n_pairs;
    uint32_t drawn;
    struct ids all; /* as many tokens as the deepest has */

    struct save saves[BENCH_LIST_MOST];
    size_t n_saves;
    double warm_ms[REPEATS];
    double first_ms[REPEATS], read_ms[REPEATS], rest[REPEATS]; /* after a restart */
    size_t n_read, n_computed;
    struct disk_turns turns;
};

static void add_random(struct bench *b, struct ids *ids, size_t n)
{
    bench_random_ids(ids, n, b->n_vocab, &b->drawn);
}

static bool sync_to(struct bench *b, const struct ids *ids, struct timeline_cost *cost,
                    struct err *err)
{
    return timeline_sync(b->m.tl, ids->data, ids->n, NULL, cost, err);
}

static bool open_machine(struct bench *b, struct err *err)
{
    machine_close(&b->m);
    if (!machine_open(&b->m, &b->config, NULL, err)) return false;
    disk_make_ready(b->m.disk, NULL);
    return true;
}

/* What all threads have worked. */
static double worked_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void save_turn(struct bench *b, struct save *s, int i)
{
    const struct store_counts before = disk_counts(b->m.disk);
    const double start = clock_ms(), start_cpu = worked_ms();
    timeline_save(b->m.tl, NULL);
    s->call_ms[i] = clock_ms() - start;
    disk_drain(b->m.disk);
    s->done_ms[i] = clock_ms() - start;
    s->cpu_ms[i] = worked_ms() - start_cpu;
    const struct store_counts after = disk_counts(b->m.disk);
    s->n_files = after.n_written - before.n_written;
    s->raw_bytes = after.written_bytes - before.written_bytes;
    s->packed_bytes = after.packed_bytes - before.packed_bytes;
}

/* Turns on top of a conversation, each saved by itself. */
static bool run_save(struct bench *b, struct save *s, struct err *err)
{
    struct ids ids = {0};
    ids_append(&ids, b->all.data, s->depth);
    bool ok = sync_to(b, &ids, NULL, err);
    if (ok) timeline_save_all(b->m.tl, NULL);
    disk_drain(b->m.disk);
    for (int i = 0; ok && i < REPEATS; i++) {
        add_random(b, &ids, TURN);
        ok = sync_to(b, &ids, NULL, err);
        if (ok) save_turn(b, s, i);
    }
    ids_free(&ids);
    return ok && bench_is_kept(&b->m, err);
}

static bool run_saves(struct bench *b, struct err *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < b->n_saves; i++)
        ok = run_save(b, &b->saves[i], err);
    return ok;
}

/* The first token after the prompt and a question. */
static bool ask(struct bench *b, double *ms, struct timeline_cost *cost, struct err *err)
{
    struct ids ids = {0};
    ids_append(&ids, b->all.data, b->n_prompt);
    add_random(b, &ids, ASKED);
    timeline_prepare(b->m.tl, NULL); /* as the engine does while nobody waits */
    double start = clock_ms();
    bool ok = sync_to(b, &ids, cost, err);
    *ms = clock_ms() - start;
    ids_free(&ids);
    return ok;
}

static bool run_warm(struct bench *b, struct err *err)
{
    struct timeline_cost cost;
    const struct ids prompt = {.data = b->all.data, .n = b->n_prompt};
    bool ok = sync_to(b, &prompt, NULL, err);
    if (ok) timeline_save_all(b->m.tl, NULL);
    for (int i = 0; ok && i < REPEATS; i++)
        ok = ask(b, &b->warm_ms[i], &cost, err);
    return ok && bench_is_kept(&b->m, err);
}

static bool run_restarts(struct bench *b, struct err *err)
{
    for (int i = 0; i < REPEATS; i++) {
        struct timeline_cost cost;
        if (!open_machine(b, err) || !ask(b, &b->first_ms[i], &cost, err)) return false;
        b->read_ms[i] = cost.read_ms;
        b->rest[i] = b->first_ms[i] - cost.read_ms;
        b->n_read = cost.n_read;
        b->n_computed = cost.n_prefilled;
    }
    return true;
}

static bool run_turns(struct bench *b, struct err *err)
{
    const struct ids before = {.data = b->all.data,
                               .n = b->n_prompt < BEFORE ? b->n_prompt : BEFORE};
    const struct disk_turns_plan plan = {
        &before, TURN, b->n_gen, b->n_pairs, buf_str(&b->folder), &b->drawn};
    return disk_turns_run(&b->m, &plan, &b->turns, err) && bench_is_kept(&b->m, err);
}

/* ---- what came of it ---- */

static double median(const double ms[REPEATS])
{
    return bench_median(ms, REPEATS);
}

/* Of n tokens, or turns, in a row of times, the speed; how much that changes with a disk. */
struct speed {
    double per_s[2];
    struct bench_change change;
};

static struct speed speed_of(const struct bench *b, size_t n, double ms[2][DISK_TURNS_MOST])
{
    struct speed s = {.change = bench_change(ms[0], ms[1], b->n_pairs)};
    for (int with = 0; with < 2; with++)
        s.per_s[with] = (double)n / bench_median(ms[with], b->n_pairs) * 1e3;
    return s;
}

static void json_speed(const char *name, struct speed s, struct buf *out)
{
    buf_printf(out,
               "\"%s\": {\"tok_s\": %.3f, \"writing_tok_s\": %.3f, \"percent\": %.2f, "
               "\"low\": %.2f, \"high\": %.2f}, ",
               name, s.per_s[0], s.per_s[1], s.change.median, s.change.low, s.change.high);
}

static void print_json(struct bench *b, struct buf *out)
{
    struct disk_turns *t = &b->turns;
    buf_printf(out, "{\"prompt\": %zu, \"kv_type\": \"%s\", \"saves\": [", b->n_prompt,
               b->m.kv_type);
    for (size_t i = 0; i < b->n_saves; i++) {
        const struct save *s = &b->saves[i];
        buf_printf(out,
                   "%s{\"depth\": %zu, \"tokens\": %d, \"files\": %zu, \"raw_bytes\": %lu, "
                   "\"packed_bytes\": %lu, \"call_ms\": %.3f, \"done_ms\": %.3f, "
                   "\"cpu_ms\": %.3f}",
                   i ? ", " : "", s->depth, TURN, s->n_files, (unsigned long)s->raw_bytes,
                   (unsigned long)s->packed_bytes, median(s->call_ms), median(s->done_ms),
                   median(s->cpu_ms));
    }
    buf_printf(out,
               "], \"resume\": {\"read\": %zu, \"computed\": %zu, \"warm_ms\": %.3f, "
               "\"ms\": %.3f, \"read_ms\": %.3f, \"rest_ms\": %.3f}, ",
               b->n_read, b->n_computed, median(b->warm_ms), median(b->first_ms),
               median(b->read_ms), median(b->rest));
    json_speed("prefill", speed_of(b, TURN, t->prefill), out);
    json_speed("decode", speed_of(b, b->n_gen, t->decode), out);
    json_speed("turn", speed_of(b, TURN + b->n_gen, t->whole), out);
    buf_printf(out,
               "\"pairs\": %zu, \"after_ms\": %.3f, \"files\": %zu, "
               "\"files_meanwhile\": %zu}\n",
               b->n_pairs, bench_median(t->after, b->n_pairs), t->n_files, t->n_meanwhile);
}

static void print_speed(const struct bench *b, const char *name, struct speed s,
                        struct buf *out)
{
    buf_printf(
        out, "%-16s%9.2f tok/s, %.2f with a disk: %+.2f %%, %s between %+.2f and %+.2f\n", name,
        s.per_s[0], s.per_s[1], s.change.median,
        b->n_pairs < BENCH_SURE_PAIRS ? "all" : "with 95 %", s.change.low, s.change.high);
}

static void print_save(const struct save *s, struct buf *out)
{
    char raw[READABLE_BYTES], packed[READABLE_BYTES];
    buf_printf(out,
               "saving a turn   %9.2f ms, on disk after %.2f, %.2f of the processor: %s in %zu "
               "files, %s packed  (%d tokens after %zu)\n",
               median(s->call_ms), median(s->done_ms), median(s->cpu_ms),
               readable_size(raw, s->raw_bytes), s->n_files,
               readable_size(packed, s->packed_bytes), TURN, s->depth);
}

static void print_lines(struct bench *b, struct buf *out)
{
    struct disk_turns *t = &b->turns;
    const double warm = median(b->warm_ms), rest = median(b->rest);
    buf_printf(out, "%s, %s, KV %s, after %zu tokens\n", model_family(b->m.model),
               backend_name(b->m.be), b->m.kv_type, b->n_prompt);
    for (size_t i = 0; i < b->n_saves; i++)
        print_save(&b->saves[i], out);
    buf_printf(out, "warm            %9.2f ms to the first token  (%d tokens more)\n", warm,
               ASKED);
    buf_printf(
        out,
        "after restart   %9.2f ms: %.2f to read %zu tokens, %.2f to compute %zu: %.2f of "
        "warm\n",
        median(b->first_ms), median(b->read_ms), b->n_read, rest, b->n_computed, rest / warm);
    buf_printf(out,
               "after a reply   %9.2f ms until %zu files wait to be written; %zu were written "
               "while the next ran\n",
               bench_median(t->after, b->n_pairs), t->n_files, t->n_meanwhile);
    print_speed(b, "prefill", speed_of(b, TURN, t->prefill), out);
    print_speed(b, "decode", speed_of(b, b->n_gen, t->decode), out);
    print_speed(b, "a whole turn", speed_of(b, TURN + b->n_gen, t->whole), out);
    buf_printf(out,
               "                (%zu pairs of turns that follow at once; %d and %zu tokens)\n",
               b->n_pairs, TURN, b->n_gen);
}

/* ---- the command ---- */

/* Turns are saved at the depths that were asked for, or after the prompt. */
static bool parse_wanted(struct bench *b, const struct bench_args *a, struct err *err)
{
    struct bench_list depths = {.n = 1, .v = {a->n_prompt}};
    uint32_t n_pairs;
    if (!bench_count_parse("repeats", a->repeats, 1, DISK_TURNS_MOST, &n_pairs, err) ||
        (a->depths && !bench_list_parse("depth", a->depths, PAGE_LEN, 1 << 24, &depths, err)))
        return false;
    if (a->n_prompt < PAGE_LEN)
        return err_set(err, ERR_USER, "--prompt is %u, --disk needs at least %d", a->n_prompt,
                       PAGE_LEN);
    b->n_prompt = a->n_prompt;
    b->n_gen = a->n_gen;
    b->n_pairs = n_pairs;
    b->n_saves = depths.n;
    for (size_t i = 0; i < depths.n; i++)
        b->saves[i].depth = depths.v[i];
    return true;
}

/* The context has room for what is saved, and for the turns. Returns the deepest; 0: it has
 * not.
 */
static size_t fit(const struct bench *b, struct err *err)
{
    size_t deepest = b->n_prompt;
    for (size_t i = 0; i < b->n_saves; i++)
        if (b->saves[i].depth > deepest) deepest = b->saves[i].depth;
    if (deepest + REPEATS * TURN > b->m.n_ctx || b->n_prompt + TURN + b->n_gen > b->m.n_ctx) {
        err_set(err, ERR_USAGE,
                "%zu tokens, %d turns of %d and %zu decoded ones do not fit the context of %u",
                deepest, REPEATS, TURN, b->n_gen, b->m.n_ctx);
        return 0;
    }
    return deepest;
}

int bench_disk(const struct options *o, const struct bench_args *a)
{
    struct bench *b = mem_zalloc(1, sizeof *b);
    struct buf out = {0};
    struct err err;
    if (!parse_wanted(b, a, &err)) {
        free(b);
        return usage_error("bench", "%s", err.msg);
    }
    b->config = command_line_engine(o);
    bool ok = bench_folder_make(&b->folder, &err);
    b->config.cache_dir = buf_str(&b->folder);
    b->config.cache_disk_bytes = (uint64_t)1 << 40;
    ok = ok && open_machine(b, &err);
    const size_t deepest = ok ? fit(b, &err) : 0;
    ok = ok && deepest > 0;
    if (ok) b->n_vocab = model_n_vocab(b->m.model);
    if (ok) add_random(b, &b->all, deepest);
    ok = ok && run_saves(b, &err) && run_warm(b, &err) && run_restarts(b, &err) &&
         run_turns(b, &err);
    if (ok && a->json) print_json(b, &out);
    if (ok && !a->json) print_lines(b, &out);
    ids_free(&b->all);
    machine_close(&b->m);
    bench_folder_remove(&b->folder);
    free(b);
    return ok ? print_text(&out) : bench_failed(&err);
}
