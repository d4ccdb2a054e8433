/* A conversation saved, resumed, and computed with and without a disk behind it. */
#include "app/bench_modes.h"

#include "app/bench_tools.h"
#include "app/command_line.h"
#include "backend/backend.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/readable.h"
#include "engine/disk.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/timeline.h"

/* Tokens of a turn that is saved, of one that is asked, and of a prefill at most. */
enum { TURN = PAGE_LEN, ASKED = 13, PREFILL = 512 };
enum { REPEATS = 7 };

struct save {
    double call_ms[REPEATS]; /* what the engine waits for */
    double done_ms[REPEATS]; /* until all is on disk */
    size_t n_files;
    uint64_t raw_bytes, packed_bytes;
};

struct bench {
    struct machine m;
    struct engine_config config;
    struct buf folder;
    size_t n_prompt, n_vocab, n_gen, n_prefill;
    uint32_t drawn;
    struct ids prompt;

    struct save save;
    double warm_ms[REPEATS];
    double first_ms[REPEATS], read_ms[REPEATS], rest[REPEATS]; /* after a restart */
    size_t n_read, n_computed;
    double prefill[2][REPEATS], decode[2][REPEATS]; /* tok/s without and with a disk */
    double after_ms[REPEATS];                       /* handing over what they computed */
    size_t n_written[2]; /* files of such a run: before it was over, in all */
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
    disk_make_ready(b->m.disk);
    return true;
}

/* Turns on top of the prompt, each saved by itself. They stay on the prompt's end. */
static bool run_saves(struct bench *b, struct err *err)
{
    struct ids ids = {0};
    ids_append(&ids, b->prompt.data, b->prompt.n);
    bool ok = sync_to(b, &ids, NULL, err);
    if (ok) timeline_save_all(b->m.tl);
    disk_drain(b->m.disk);
    for (int i = 0; ok && i < REPEATS; i++) {
        add_random(b, &ids, TURN);
        ok = sync_to(b, &ids, NULL, err);
        struct store_counts before = disk_counts(b->m.disk);
        double start = clock_ms();
        timeline_save(b->m.tl, NULL);
        b->save.call_ms[i] = clock_ms() - start;
        disk_drain(b->m.disk);
        b->save.done_ms[i] = clock_ms() - start;
        struct store_counts after = disk_counts(b->m.disk);
        b->save.n_files = after.n_written - before.n_written;
        b->save.raw_bytes = after.written_bytes - before.written_bytes;
        b->save.packed_bytes = after.packed_bytes - before.packed_bytes;
    }
    ids_free(&ids);
    return ok;
}

/* The first token after the prompt and a question. */
static bool ask(struct bench *b, double *ms, struct timeline_cost *cost, struct err *err)
{
    struct ids ids = {0};
    ids_append(&ids, b->prompt.data, b->prompt.n);
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
    bool ok = sync_to(b, &b->prompt, NULL, err);
    for (int i = 0; ok && i < REPEATS; i++)
        ok = ask(b, &b->warm_ms[i], &cost, err);
    return ok;
}

static bool run_restarts(struct bench *b, struct err *err)
{
    struct timeline_cost cost;
    bool ok = true;
    for (int i = 0; ok && i < REPEATS; i++) {
        ok = open_machine(b, err) && ask(b, &b->first_ms[i], &cost, err);
        b->read_ms[i] = cost.read_ms;
        b->rest[i] = b->first_ms[i] - cost.read_ms;
        b->n_read = cost.n_read;
        b->n_computed = cost.n_prefilled;
    }
    return ok;
}

/* Tokens per second of a prefill behind another and of the decoding that follows, and what is
 * done after the answer, as the engine does it; or without a disk. */
static bool run_speed(struct bench *b, bool write, int i, struct err *err)
{
    struct ids ids = {0};
    const size_t n_before = disk_counts(b->m.disk).n_written;
    timeline_forget(b->m.tl);
    timeline_set_disk(b->m.tl, write ? b->m.disk : NULL);
    disk_set_busy(b->m.disk, true); /* as the engine does while a turn runs */
    add_random(b, &ids, b->n_prefill);
    bool ok = sync_to(b, &ids, NULL, err);
    add_random(b, &ids, b->n_prefill);
    double start = clock_ms();
    ok = ok && sync_to(b, &ids, NULL, err);
    b->prefill[write][i] = (double)b->n_prefill / (clock_ms() - start) * 1e3;
    start = clock_ms();
    for (size_t k = 0; ok && k < b->n_gen; k++) {
        int32_t id = sampler_argmax(timeline_logits(b->m.tl), b->n_vocab);
        ok = timeline_append(b->m.tl, id < 0 ? 0 : id, NULL, err);
    }
    b->decode[write][i] = (double)b->n_gen / (clock_ms() - start) * 1e3;
    start = clock_ms();
    if (ok) timeline_save(b->m.tl, NULL);
    if (write) b->after_ms[i] = clock_ms() - start;
    timeline_set_disk(b->m.tl, b->m.disk);
    if (write) b->n_written[0] = disk_counts(b->m.disk).n_written - n_before;
    disk_set_busy(b->m.disk, false);
    disk_drain(b->m.disk); /* nothing of this run is left for the next */
    if (write) b->n_written[1] = disk_counts(b->m.disk).n_written - n_before;
    ids_free(&ids);
    return ok;
}

static bool run_speeds(struct bench *b, struct err *err)
{
    bool ok = true;
    for (int i = 0; ok && i < REPEATS; i++) /* whoever comes second has a warmer machine */
        ok = run_speed(b, i % 2 != 0, i, err) && run_speed(b, i % 2 == 0, i, err);
    return ok;
}

/* The median of with/without - 1, pair by pair, in percent. */
static double change(double speed[2][REPEATS])
{
    double ratio[REPEATS];
    for (int i = 0; i < REPEATS; i++)
        ratio[i] = (speed[1][i] / speed[0][i] - 1) * 100;
    return bench_median(ratio, REPEATS);
}

static void print_json(struct bench *b, struct buf *out)
{
    buf_printf(
        out,
        "{\"prompt\": %zu, \"kv_type\": \"%s\", \"save\": {\"tokens\": %d, \"files\": %zu, "
        "\"raw_bytes\": %lu, \"packed_bytes\": %lu, \"call_ms\": %.3f, \"done_ms\": %.3f}, ",
        b->n_prompt, b->m.kv_type, TURN, b->save.n_files, (unsigned long)b->save.raw_bytes,
        (unsigned long)b->save.packed_bytes, bench_median(b->save.call_ms, REPEATS),
        bench_median(b->save.done_ms, REPEATS));
    buf_printf(
        out,
        "\"resume\": {\"read\": %zu, \"computed\": %zu, \"warm_ms\": %.3f, \"ms\": %.3f, "
        "\"read_ms\": %.3f, \"rest_ms\": %.3f}, ",
        b->n_read, b->n_computed, bench_median(b->warm_ms, REPEATS),
        bench_median(b->first_ms, REPEATS), bench_median(b->read_ms, REPEATS),
        bench_median(b->rest, REPEATS));
    buf_printf(out,
               "\"prefill\": {\"tok_s\": %.3f, \"writing_tok_s\": %.3f, \"percent\": %.2f}, "
               "\"decode\": {\"tok_s\": %.3f, \"writing_tok_s\": %.3f, \"percent\": %.2f}, "
               "\"after_ms\": %.3f, \"files\": %zu, \"files_meanwhile\": %zu}\n",
               bench_median(b->prefill[0], REPEATS), bench_median(b->prefill[1], REPEATS),
               change(b->prefill), bench_median(b->decode[0], REPEATS),
               bench_median(b->decode[1], REPEATS), change(b->decode),
               bench_median(b->after_ms, REPEATS), b->n_written[1], b->n_written[0]);
}

static void print_lines(struct bench *b, struct buf *out)
{
    char raw[READABLE_BYTES], packed[READABLE_BYTES];
    double warm = bench_median(b->warm_ms, REPEATS), rest = bench_median(b->rest, REPEATS);
    buf_printf(out, "%s, %s, KV %s, after %zu tokens\n", model_family(b->m.model),
               backend_name(b->m.be), b->m.kv_type, b->n_prompt);
    buf_printf(out,
               "saving a turn   %s in %zu files (%s packed), %.2f ms, on disk after "
               "%.2f ms  (%d tokens)\n",
               readable_size(raw, b->save.raw_bytes), b->save.n_files,
               readable_size(packed, b->save.packed_bytes),
               bench_median(b->save.call_ms, REPEATS), bench_median(b->save.done_ms, REPEATS),
               TURN);
    buf_printf(out, "warm            %9.2f ms to the first token  (%d tokens more)\n", warm,
               ASKED);
    buf_printf(
        out,
        "after restart   %9.2f ms: %.2f to read %zu tokens, %.2f to compute %zu: %.2f of "
        "warm\n",
        bench_median(b->first_ms, REPEATS), bench_median(b->read_ms, REPEATS), b->n_read, rest,
        b->n_computed, rest / warm);
    buf_printf(out, "prefill         %9.2f tok/s, %.2f with a disk: %+.2f %%\n",
               bench_median(b->prefill[0], REPEATS), bench_median(b->prefill[1], REPEATS),
               change(b->prefill));
    buf_printf(out, "decode          %9.2f tok/s, %.2f with a disk: %+.2f %%\n",
               bench_median(b->decode[0], REPEATS), bench_median(b->decode[1], REPEATS),
               change(b->decode));
    buf_printf(out,
               "after the reply %9.2f ms until the queue has %zu files, %zu of them written\n",
               bench_median(b->after_ms, REPEATS), b->n_written[1], b->n_written[0]);
}

/* The context has room for what is saved, and for two prefills. */
static bool fit(struct bench *b, struct err *err)
{
    size_t most = b->n_prompt + REPEATS * TURN;
    if (b->n_prompt < PAGE_LEN)
        return err_set(err, ERR_USER, "--prompt is %zu, --disk needs at least %d", b->n_prompt,
                       PAGE_LEN);
    if (most > b->m.n_ctx || b->n_gen + 2 * PAGE_LEN > b->m.n_ctx)
        return err_set(err, ERR_USER,
                       "%zu tokens, %d turns of %d and %zu decoded ones do not fit the context "
                       "of %u",
                       b->n_prompt, REPEATS, TURN, b->n_gen, b->m.n_ctx);
    b->n_prefill = (b->m.n_ctx - b->n_gen) / 2;
    if (b->n_prefill > PREFILL) b->n_prefill = PREFILL;
    if (b->n_prefill > b->n_prompt) b->n_prefill = b->n_prompt;
    return true;
}

int bench_disk(const struct options *o, const struct bench_args *a)
{
    struct bench b = {
        .config = command_line_engine(o), .n_prompt = a->n_prompt, .n_gen = a->n_gen};
    struct buf out = {0};
    struct err err;
    bool ok = bench_folder_make(&b.folder, &err);
    b.config.cache_dir = buf_str(&b.folder);
    b.config.cache_disk_bytes = (uint64_t)1 << 40;
    ok = ok && open_machine(&b, &err) && fit(&b, &err);
    if (ok) b.n_vocab = model_n_vocab(b.m.model);
    if (ok) add_random(&b, &b.prompt, b.n_prompt);
    ok = ok && run_saves(&b, &err) && run_warm(&b, &err) && run_restarts(&b, &err) &&
         run_speeds(&b, &err);
    if (ok && a->json) print_json(&b, &out);
    if (ok && !a->json) print_lines(&b, &out);
    ids_free(&b.prompt);
    machine_close(&b.m);
    bench_folder_remove(&b.folder);
    return ok ? print_text(&out) : runtime_error(&err);
}
