/* Prefill and decode of seeded random ids, against the bandwidth of the same threads; of a
 * device against the speed of its copies, with the CPU's beside it, whose bits it must have. */
#include "app/bench_modes.h"

#include <math.h>
#include <stdlib.h>
#include <xxhash.h>

#include "app/bench_reads.h"
#include "app/bench_tools.h"
#include "app/command_line.h"
#include "backend/backend.h"
#include "backend/draw.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/pool.h"
#include "base/readable.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/timeline.h"

struct result {
    uint32_t n_prompt, n_gen;
    int n_threads;
    double prefill_tok_s, decode_tok_s, decode_gb_s;
    double most_gb_s; /* bench_reads */
    uint64_t logits_hash;
};

static bool measure_model(struct machine *m, struct result *r, struct err *err)
{
    size_t n_vocab = model_n_vocab(m->model);
    const struct draw greedy = {.n_vocab = n_vocab, .top_p = DRAW_WHOLE, .min_x = -INFINITY};
    int32_t *ids = mem_alloc(r->n_prompt * sizeof *ids);
    for (uint32_t i = 0; i < r->n_prompt; i++)
        ids[i] = (int32_t)(philox(0, i, 0, 0, PHILOX_BENCH).word[0] % n_vocab);
    /* Once unmeasured: pages of weights come in, chunks find their size, and a device compiles
     * what many rows take and one. */
    bool ok = timeline_sync(m->tl, ids, r->n_prompt < 64 ? r->n_prompt : 64, NULL, NULL, err);
    timeline_draw(m->tl, &greedy);
    ok = ok && timeline_append(m->tl, ids[0], NULL, err);
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

static double share(const struct result *r)
{
    return r->decode_gb_s / r->most_gb_s;
}

static void json_speed(const struct result *r, const char *most, struct buf *out)
{
    buf_printf(out,
               "\"prefill_tok_s\": %.3f, \"decode_tok_s\": %.3f, \"decode_gb_s\": %.4f, "
               "\"%s\": %.4f, \"decode_share\": %.4f, \"logits_hash\": \"%016lx\"",
               r->prefill_tok_s, r->decode_tok_s, r->decode_gb_s, most, r->most_gb_s, share(r),
               r->logits_hash);
}

/* cpu: beside a device; NULL: r is the CPU's. */
static void print_json(const struct result *r, const struct result *cpu, struct buf *out)
{
    buf_printf(out, "{\"prompt\": %u, \"gen\": %u, \"threads\": %d, ", r->n_prompt, r->n_gen,
               r->n_threads);
    json_speed(r, cpu ? "copy_gb_s" : "read_gb_s", out);
    if (cpu) {
        buf_puts(out, ", \"cpu\": {");
        json_speed(cpu, "read_gb_s", out);
        buf_puts(out, "}");
    }
    buf_puts(out, "}\n");
}

static void print_speed(const struct result *r, const char *whose, struct buf *out)
{
    buf_printf(out, "prefill  %10.1f tok/s  (%u tokens)\n", r->prefill_tok_s, r->n_prompt);
    buf_printf(out, "decode   %10.1f tok/s  (%u tokens)\n", r->decode_tok_s, r->n_gen);
    buf_printf(out,
               "         %10.2f GB/s of weights, keys and values: %.0f %% of %s %.2f GB/s\n",
               r->decode_gb_s, share(r) * 100, whose, r->most_gb_s);
    buf_printf(out, "logits   %016lx\n", r->logits_hash);
}

static void print_head(const struct machine *m, struct buf *out)
{
    char size[READABLE_BYTES];
    buf_printf(out, "%s, %s, weights %s\n", model_family(m->model), backend_name(m->be),
               readable_size(size, m->sizes.weights_bytes));
}

/* Fits the numbers of tokens to the context where they were not asked for. */
static bool fit_counts(struct result *r, const struct machine *m, bool has_prompt, bool has_gen,
                       struct err *err)
{
    if (m->n_ctx < 2)
        return err_set(err, ERR_USAGE, "a context of two tokens at least is needed, not of %u",
                       m->n_ctx);
    if (!has_gen && r->n_gen >= m->n_ctx / 2) r->n_gen = m->n_ctx / 2;
    if (!has_prompt && r->n_gen < m->n_ctx && r->n_prompt > m->n_ctx - r->n_gen)
        r->n_prompt = m->n_ctx - r->n_gen;
    if ((uint64_t)r->n_prompt + r->n_gen <= m->n_ctx) return true;
    return err_set(err, ERR_USAGE, "%u and %u tokens do not fit the context of %u", r->n_prompt,
                   r->n_gen, m->n_ctx);
}

/* Opens the model and measures it; its first line goes to head. */
static bool measure(const struct engine_config *config, const struct bench_args *a,
                    struct result *r, bool *on_device, struct buf *head, struct err *err)
{
    struct machine m = {0};
    bool ok = machine_open(&m, config, NULL, err) &&
              fit_counts(r, &m, a->has_prompt, a->has_gen, err) && measure_model(&m, r, err);
    *on_device = ok && m.device;
    if (ok) print_head(&m, head);
    ok = ok && bench_reads(&m, &r->most_gb_s, err);
    machine_close(&m);
    return ok;
}

int bench_speed(const struct options *o, const struct bench_args *a)
{
    struct engine_config config = command_line_engine(o);
    struct result r = {.n_prompt = a->n_prompt, .n_gen = a->n_gen};
    struct buf out = {0}, head = {0}, cpu_head = {0};
    struct err err;
    bool on_device, ignored;
    r.n_threads = config.n_threads ? config.n_threads : pool_usable_cores();
    bool ok = measure(&config, a, &r, &on_device, &head, &err);
    struct result cpu = r;
    config.device = "cpu";
    config.gpu_layers = 0;
    const struct bench_args same = {.has_prompt = true, .has_gen = true};
    if (ok && on_device) ok = measure(&config, &same, &cpu, &ignored, &cpu_head, &err);
    if (ok && a->json) print_json(&r, on_device ? &cpu : NULL, &out);
    if (ok && !a->json) {
        buf_append(&out, head.data, head.len);
        print_speed(&r, on_device ? "the copies'" : "this machine's", &out);
        buf_append(&out, cpu_head.data, cpu_head.len);
        if (on_device) print_speed(&cpu, "this machine's", &out);
        if (on_device && r.logits_hash == cpu.logits_hash) buf_puts(&out, "the same bits\n");
    }
    buf_free(&head);
    buf_free(&cpu_head);
    if (!ok) return bench_failed(&err);
    const int status = print_text(&out);
    if (!on_device || r.logits_hash == cpu.logits_hash) return status;
    err_set(&err, ERR_DEVICE, "the device's logits are not the CPU's");
    return bench_failed(&err);
}
