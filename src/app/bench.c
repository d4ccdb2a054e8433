#include "app/bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "app/bench_disk.h"
#include "app/bench_kv.h"
#include "app/bench_ops.h"
#include "app/bench_reads.h"
#include "app/bench_spec.h"
#include "app/bench_table.h"
#include "app/bench_tokenizer.h"
#include "app/bench_turns.h"
#include "app/command_line.h"
#include "app/model_choice.h"
#include "backend/backend.h"
#include "backend/draw.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/pool.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/timeline.h"

struct result {
    uint32_t n_prompt, n_gen;
    int n_threads;
    double prefill_tok_s, decode_tok_s, decode_gb_s, read_gb_s;
    uint64_t logits_hash;
};

static bool parse_count(const char *name, const char *text, uint32_t *out, struct err *err)
{
    if (!text) return true;
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < 1 || n > 1 << 24)
        return err_set(err, ERR_USER, "--%s is '%.20s', expected a number of tokens from 1",
                       name, text);
    *out = (uint32_t)n;
    return true;
}

/* The model's speed. */

static bool measure_model(struct machine *m, struct result *r, struct err *err)
{
    size_t n_vocab = model_n_vocab(m->model);
    const struct draw greedy = {.n_vocab = n_vocab, .top_p = DRAW_WHOLE, .min_x = -INFINITY};
    int32_t *ids = mem_alloc(r->n_prompt * sizeof *ids);
    for (uint32_t i = 0; i < r->n_prompt; i++)
        ids[i] = (int32_t)(philox(0, i, 0, 0, PHILOX_BENCH).word[0] % n_vocab);
    /* Once unmeasured: pages of weights come in, chunks find their size. */
    bool ok = timeline_sync(m->tl, ids, r->n_prompt < 64 ? r->n_prompt : 64, NULL, NULL, err);
    timeline_forget(m->tl);
    double start = clock_ms();
    ok = ok && timeline_sync(m->tl, ids, r->n_prompt, NULL, NULL, err);
    r->prefill_tok_s = r->n_prompt / (clock_ms() - start) * 1e3;
    double bytes = 0;
    start = clock_ms();
    for (uint32_t i = 0; ok && i < r->n_gen; i++) {
        int32_t id = timeline_drawn(m->tl, 0);
        const float *logits = id < 0 ? timeline_logits(m->tl) : NULL;
        if (logits) id = sampler_argmax(logits, n_vocab);
        if (id < 0)
            ok = err_set(err, ERR_FORMAT,
                         "the model's logits are not numbers: the weights "
                         "are broken");
        bytes += (double)model_token_bytes(m->model) +
                 (double)model_kv_read_bytes(m->model, r->n_prompt + i);
        timeline_draw(m->tl, &greedy);
        ok = ok && timeline_append(m->tl, id, NULL, err);
    }
    double ms = clock_ms() - start;
    r->decode_tok_s = r->n_gen / ms * 1e3;
    r->decode_gb_s = bytes / 1e6 / ms;
    const float *last = ok ? timeline_logits(m->tl) : NULL;
    if (last) r->logits_hash = XXH3_64bits(last, n_vocab * sizeof *last);
    free(ids);
    return ok;
}

static void print_json(const struct result *r, struct buf *out)
{
    buf_printf(out,
               "{\"prompt\": %u, \"gen\": %u, \"threads\": %d, \"prefill_tok_s\": %.3f, "
               "\"decode_tok_s\": %.3f, \"decode_gb_s\": %.4f, \"read_gb_s\": %.4f, "
               "\"decode_share\": %.4f, \"logits_hash\": \"%016lx\"}\n",
               r->n_prompt, r->n_gen, r->n_threads, r->prefill_tok_s, r->decode_tok_s,
               r->decode_gb_s, r->read_gb_s, r->decode_gb_s / r->read_gb_s, r->logits_hash);
}

static void print_lines(const struct result *r, const struct machine *m, struct buf *out)
{
    buf_printf(out, "%s, %s, weights %.1f MiB\n", model_family(m->model), backend_name(m->be),
               (double)m->sizes.weights_bytes / (1 << 20));
    buf_printf(out, "prefill  %10.1f tok/s  (%u tokens)\n", r->prefill_tok_s, r->n_prompt);
    buf_printf(out, "decode   %10.1f tok/s  (%u tokens)\n", r->decode_tok_s, r->n_gen);
    buf_printf(out,
               "         %10.2f GB/s of weights, keys and values: %.0f %% of this machine's"
               " %.2f GB/s\n",
               r->decode_gb_s, r->decode_gb_s / r->read_gb_s * 100, r->read_gb_s);
    buf_printf(out, "logits   %016lx\n", r->logits_hash);
}

/* Fits the numbers of tokens to the context where they were not asked for. */
static bool fit_counts(struct result *r, const struct machine *m, bool has_prompt, bool has_gen,
                       struct err *err)
{
    if (!has_gen && r->n_gen >= m->n_ctx / 2) r->n_gen = m->n_ctx / 2;
    if (!has_prompt && r->n_gen < m->n_ctx && r->n_prompt > m->n_ctx - r->n_gen)
        r->n_prompt = m->n_ctx - r->n_gen;
    if ((uint64_t)r->n_prompt + r->n_gen <= m->n_ctx) return true;
    return err_set(err, ERR_USER, "%u and %u tokens do not fit the context of %u", r->n_prompt,
                   r->n_gen, m->n_ctx);
}

enum what { SPEED, TURNS, DISK };

static int measure(const struct options *o, const char *prompt, const char *gen, enum what what,
                   bool json)
{
    struct result r = {.n_prompt = what == TURNS ? 0 : 512, .n_gen = 64};
    struct engine_config config = command_line_engine(o);
    struct machine m = {0};
    struct buf out = {0};
    struct err err;
    if (!parse_count("prompt", prompt, &r.n_prompt, &err) ||
        !parse_count("gen", gen, &r.n_gen, &err))
        return usage_error("bench", "%s", err.msg);
    if (what == TURNS) return bench_turns(o, r.n_prompt, json);
    if (what == DISK) return bench_disk(o, r.n_prompt, r.n_gen, json);
    r.n_threads = config.n_threads ? config.n_threads : pool_usable_cores();
    bool ok = machine_open(&m, &config, NULL, &err) &&
              fit_counts(&r, &m, prompt != NULL, gen != NULL, &err) &&
              measure_model(&m, &r, &err) && bench_reads(r.n_threads, &r.read_gb_s, &err);
    if (ok && json) print_json(&r, &out);
    if (ok && !json) print_lines(&r, &m, &out);
    machine_close(&m);
    return ok ? print_text(&out) : runtime_error(&err);
}

int bench_run(int argc, char **argv)
{
    const char *prompt = NULL, *gen = NULL, *kv_text = NULL;
    bool json = false, tokenizer = false, turns = false, disk = false, table = false;
    bool spec = false, ops = false;
    struct bench_table t = {0};
    struct bench_spec s = {0};
    const struct option_extra extra[] = {
        {"prompt", 0, "N", &prompt, NULL, "tokens to prefill (512)"},
        {"gen", 0, "N", &gen, NULL, "tokens to decode after them (64)"},
        {"turns", 0, NULL, NULL, &turns, "the time to the first token of turns instead"},
        {"disk", 0, NULL, NULL, &disk, "what keeping a conversation on disk costs instead"},
        {"ops", 0, NULL, NULL, &ops, "what each kind of op takes on a device instead"},
        {"tokenizer", 0, NULL, NULL, &tokenizer, "the tokenizer's speed instead"},
        {"kv-error", 0, "TEXT", &kv_text, NULL, "error of the KV types over a text instead"},
        {"table", 0, NULL, NULL, &table, "a line per depth and number of rows instead"},
        {"depth", 0, "LIST", &t.depths, NULL, "of the table: positions (0)"},
        {"rows", 0, "LIST", &t.rows, NULL, "of the table: rows per step (1,2,4,8,512)"},
        {"each-threads", 0, "LIST", &t.threads, NULL, "of the table: numbers of threads"},
        {"each-cpu", 0, "LIST", &t.isas, NULL, "of the table: instruction sets"},
        {"each-model", 0, "LIST", &t.models, NULL, "of the table: files, -m unless given"},
        {"compare", 0, "CSV", &t.compare, NULL, "of the table: ratios to an earlier one"},
        {"csv", 0, NULL, NULL, &t.csv, "the table as CSV"},
        {"spec", 0, NULL, NULL, &spec, "what drafts gain instead (--draft names them)"},
        {"lengths", 0, "LIST", &s.lengths, NULL, "of drafts: tokens ahead (1,2,4,8,16)"},
        {"workloads", 0, "LIST", &s.workloads, NULL, "of drafts: some of them only"},
        {"repeats", 0, "N", &s.repeats, NULL, "of drafts: runs of each length (5)"},
        {"json", 0, NULL, NULL, &json, "one JSON object"},
    };
    struct command_line line;
    struct err err;
    int status =
        command_line_read(&line, "bench", extra, sizeof extra / sizeof *extra, argc, argv);
    if (status == COMMAND_LINE_GO && line.args.n_rest > 0)
        status = unexpected_argument("bench", line.args.rest[0]);
    if (status == COMMAND_LINE_GO && !model_choose(line.options, false, &err))
        status = runtime_error(&err);
    t.json = s.json = json;
    if (status == COMMAND_LINE_GO && spec && !parse_count("gen", gen, &s.n_gen, &err))
        status = usage_error("bench", "%s", err.msg);
    if (status == COMMAND_LINE_GO)
        status = tokenizer ? bench_tokenizer(line.options->model, json)
                 : ops     ? bench_ops(line.options, json)
                 : kv_text ? bench_kv_error(line.options, kv_text, json)
                 : table   ? bench_table(line.options, &t)
                 : spec    ? bench_spec(line.options, &s)
                           : measure(line.options, prompt, gen,
                                  turns  ? TURNS
                                     : disk ? DISK
                                            : SPEED,
                                     json);
    command_line_free(&line);
    return status;
}
