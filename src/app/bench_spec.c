/* Replies with drafts of each length, against plain decoding. */
#include "app/bench_modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench_tools.h"
#include "app/bench_work.h"
#include "app/command_line.h"
#include "backend/backend.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/speculate.h"
#include "engine/timeline.h"
#include "text/tokenizer.h"

/* Plain decoding and the adaptive length are beside those of the list. */
enum { MAX_LENGTHS = BENCH_LIST_MOST + 2, MAX_REPEATS = 99, ADAPTIVE = 99 };
/* A reply whose second half has a period of at most so many tokens only repeats itself. */
enum { MAX_PERIOD = 12 };

/* One length over one workload. */
struct run {
    uint32_t n_tokens, n_drafted, n_accepted, n_steps; /* of the last repeat */
    double ms[MAX_REPEATS], ratio[MAX_REPEATS];        /* ratio: speed against plain */
};

struct bench {
    struct machine m;
    struct engine_config config;
    struct tokenizer *tok;
    struct sampler *sampler;
    uint32_t lengths[MAX_LENGTHS];
    size_t n_lengths, n_repeats;
    struct speculator *spec[MAX_LENGTHS]; /* by length; what one learns, it keeps */
    uint32_t n_gen;
    struct run runs[MAX_LENGTHS];
    struct ids plain, ids; /* of plain decoding, of the run under way */
    bool differs;
};

/* ---- a reply ---- */

static bool is_end(const struct bench *b, int32_t id)
{
    return tokenizer_is_end(b->tok, id);
}

/* A reply kept going never draws an end. */
static struct engine_sampling sampling_of(const struct bench *b, bool is_forced,
                                          struct engine_bias *bias)
{
    size_t n = 0;
    const int32_t *ends = tokenizer_ends(b->tok, &n);
    for (size_t i = 0; i < n; i++)
        bias[i] = (struct engine_bias){ends[i], -INFINITY};
    return (struct engine_sampling){.top_p = 1,
                                    .repeat_penalty = 1,
                                    .max_tokens = (int)b->n_gen,
                                    .bias = bias,
                                    .n_bias = is_forced ? n : 0};
}

/* Draws until the end; the tokens are left in b->ids behind the prompt. */
static bool draw_all(struct bench *b, struct speculator *spec, const struct bench_work *w,
                     struct err *err)
{
    const size_t n_prompt = b->ids.n;
    const size_t most = w->forced.n ? w->forced.n : b->n_gen;
    for (size_t i = 0; i < most; i++) {
        int32_t id;
        if (!speculate_draw(spec, &b->ids, most - i - 1, NULL, &id, err)) return false;
        if (w->forced.n)
            id = w->forced.data[i];
        else if (is_end(b, id))
            break;
        ids_push(&b->ids, id);
        sampler_accept(b->sampler, b->ids.data, b->ids.n);
    }
    return b->ids.n > n_prompt || err_set(err, ERR_USER, "%s: the reply is empty", w->name);
}

/* The target holds the prompt and nothing else, and has its next pages, as the engine has after
 * idle time. An older run of the same reply would lend its pages to a step at a time, not to
 * one that goes across their border. */
static bool begin(struct bench *b, const struct bench_work *w, struct err *err)
{
    timeline_forget(b->m.tl);
    if (b->m.draft) timeline_forget(b->m.draft->tl);
    if (!timeline_sync(b->m.tl, w->prompt.data, w->prompt.n, NULL, NULL, err)) return false;
    timeline_prepare(b->m.tl, NULL);
    if (b->m.draft) timeline_prepare(b->m.draft->tl, NULL);
    return true;
}

/* The draft has to read the prompt within the time, as when it is new. */
static bool run_once(struct bench *b, size_t length, const struct bench_work *w, bool is_forced,
                     double *ms, struct err *err)
{
    struct engine_bias bias[16];
    size_t n_ends = 0;
    tokenizer_ends(b->tok, &n_ends);
    if (n_ends > 16) return err_set(err, ERR_USER, "more than 16 tokens end a turn");
    const struct engine_sampling how = sampling_of(b, is_forced, bias);
    struct run *r = &b->runs[length];
    if (!begin(b, w, err) || !sampler_begin(b->sampler, &how, w->prompt.data, w->prompt.n, err))
        return false;
    ids_clear(&b->ids);
    ids_append(&b->ids, w->prompt.data, w->prompt.n);
    const double start = clock_ms();
    speculate_begin(b->spec[length]);
    bool ok = draw_all(b, b->spec[length], w, err);
    speculate_end(b->spec[length], &b->ids);
    *ms = clock_ms() - start;
    const struct speculate_counts counts = speculate_counts(b->spec[length]);
    r->n_tokens = (uint32_t)(b->ids.n - w->prompt.n);
    r->n_drafted = counts.n_drafted;
    r->n_accepted = counts.n_accepted;
    r->n_steps = counts.n_steps;
    return ok;
}

/* Promise 3, checked on the way: the tokens are those of plain decoding. */
static void compare(struct bench *b, size_t length)
{
    if (length == 0) {
        ids_clear(&b->plain);
        ids_append(&b->plain, b->ids.data, b->ids.n);
    } else if (b->plain.n != b->ids.n ||
               memcmp(b->plain.data, b->ids.data, b->ids.n * sizeof *b->ids.data) != 0) {
        b->differs = true;
    }
}

static bool measure(struct bench *b, const struct bench_work *w, bool is_forced,
                    struct err *err)
{
    double unmeasured;
    bool ok = run_once(b, 0, w, is_forced, &unmeasured, err);
    for (size_t k = 0; ok && k < b->n_repeats; k++) {
        for (size_t i = 0; ok && i < b->n_lengths; i++) {
            ok = run_once(b, i, w, is_forced, &b->runs[i].ms[k], err);
            b->runs[i].ratio[k] = b->runs[0].ms[k] / b->runs[i].ms[k];
            compare(b, i);
        }
    }
    return ok;
}

/* Whether plain decoding ran in circles: what is drafted then gains, and proves nothing. */
static bool is_degenerate(const struct bench *b, const struct bench_work *w)
{
    const size_t n = b->plain.n - w->prompt.n;
    const int32_t *half = b->plain.data + w->prompt.n + n / 2;
    if (n < 4 * MAX_PERIOD) return false;
    for (size_t period = 1; period <= MAX_PERIOD; period++)
        if (memcmp(half, half + period, (n - n / 2 - period) * sizeof *half) == 0) return true;
    return false;
}

/* ---- output ---- */

static void name_length(uint32_t length, struct buf *out)
{
    if (length == ADAPTIVE)
        buf_puts(out, "adaptive");
    else
        buf_printf(out, "%u", length);
}

/* Tokens per step of the model, the one that a block gives for nothing counted. */
static double mean_block(const struct run *r)
{
    return r->n_steps ? (double)(r->n_accepted + r->n_steps) / r->n_steps : 0;
}

static void print_lines(const struct bench *b, const struct bench_work *w, bool is_forced,
                        bool degenerate, struct buf *out)
{
    buf_printf(out, "%s, %u tokens, %s%s\n", w->name, b->runs[0].n_tokens,
               w->forced.n ? "a recorded edit"
               : is_forced ? "kept going"
                           : "natural stop",
               degenerate ? "; repeats itself: no gain is proved" : "");
    buf_puts(out, "    length      tok/s  x plain   accepted of drafted  tokens per step\n");
    for (size_t i = 0; i < b->n_lengths; i++) {
        const struct run *r = &b->runs[i];
        struct buf name = {0};
        name_length(b->lengths[i], &name);
        buf_printf(out, "  %8s %10.1f %8.2f %10u of %7u %16.2f\n", buf_str(&name),
                   r->n_tokens / bench_median(r->ms, b->n_repeats) * 1e3,
                   bench_median(r->ratio, b->n_repeats), r->n_accepted, r->n_drafted,
                   mean_block(r));
        buf_free(&name);
    }
}

static void print_json(const struct bench *b, const struct bench_work *w, bool is_forced,
                       bool degenerate, struct buf *out)
{
    buf_printf(out,
               "%s{\"workload\": \"%s\", \"stop\": \"%s\", \"tokens\": %u, \"degenerate\": %s, "
               "\"lengths\": [",
               out->len > 16 ? ",\n " : "", w->name,
               w->forced.n ? "recorded"
               : is_forced ? "forced"
                           : "natural",
               b->runs[0].n_tokens, degenerate ? "true" : "false");
    for (size_t i = 0; i < b->n_lengths; i++) {
        const struct run *r = &b->runs[i];
        buf_printf(out, "%s{\"length\": \"", i ? ", " : "");
        name_length(b->lengths[i], out);
        buf_printf(out,
                   "\", \"tok_s\": %.2f, \"ratio\": %.4f, \"drafted\": %u, \"accepted\": %u, "
                   "\"steps\": %u, \"mean_block\": %.3f}",
                   r->n_tokens / bench_median(r->ms, b->n_repeats) * 1e3,
                   bench_median(r->ratio, b->n_repeats), r->n_drafted, r->n_accepted,
                   r->n_steps, mean_block(r));
    }
    buf_puts(out, "]}");
}

/* What going back to an earlier token costs a recurrent model beside the rows. */
static void print_returns(const struct bench *b, bool json, struct buf *out)
{
    const struct timeline_usage u = timeline_usage(b->m.tl);
    char size[READABLE_BYTES];
    const double each =
        u.n_state_returns ? (double)u.state_return_bytes / (double)u.n_state_returns : 0;
    if (json)
        buf_printf(out, ", \"state_returns\": %llu, \"state_bytes_each\": %.0f",
                   (unsigned long long)u.n_state_returns, each);
    else if (u.n_state_returns > 0)
        buf_printf(out,
                   "recurrent states were taken back %llu times: %s written each time, none "
                   "copied\n",
                   (unsigned long long)u.n_state_returns, readable_size(size, (uint64_t)each));
}

/* ---- the command ---- */

/* Plain decoding comes first and the adaptive length last, always. */
static bool parse_lengths(struct bench *b, const char *text, struct err *err)
{
    struct bench_list list;
    if (!bench_list_parse("lengths", text, 0, TIMELINE_MAX_VERIFY - 1, &list, err))
        return false;
    b->lengths[b->n_lengths++] = 0;
    for (size_t i = 0; i < list.n; i++)
        if (list.v[i] > 0) b->lengths[b->n_lengths++] = list.v[i];
    b->lengths[b->n_lengths++] = ADAPTIVE;
    return true;
}

static bool is_wanted(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0')) return true;
    return !list;
}

/* Each name of the list, or of NULL, is one. */
static bool check_workloads(const char *list, struct err *err)
{
    char shown[48];
    if (list && !*list)
        return err_set(err, ERR_USER, "--workloads is '', expected names with commas between");
    for (const char *p = list; p && *p;) {
        const size_t n = strcspn(p, ",");
        size_t i = 0;
        const char *name;
        while ((name = bench_work_name(i)) && (strlen(name) != n || memcmp(name, p, n) != 0))
            i++;
        if (!name) {
            struct buf known = {0};
            for (i = 0; (name = bench_work_name(i)); i++)
                buf_printf(&known, "%s%s", i ? ", " : "", name);
            err_set(err, ERR_USER, "--workloads: '%s' is none of %s",
                    printable(shown, sizeof shown, p, n), buf_str(&known));
            buf_free(&known);
            return false;
        }
        p += n + (p[n] == ',');
    }
    return true;
}

static bool parse_wanted(struct bench *b, const struct bench_args *a, struct err *err)
{
    uint32_t n_repeats;
    if (!parse_lengths(b, a->lengths, err) ||
        !bench_count_parse("repeats", a->repeats, 1, MAX_REPEATS, &n_repeats, err) ||
        !check_workloads(a->workloads, err))
        return false;
    b->n_gen = a->n_gen;
    b->n_repeats = n_repeats;
    return b->config.draft_path || b->config.draft_lookup ||
           err_set(err, ERR_USER, "--spec: nothing drafts; --draft names what shall");
}

static bool open_bench(struct bench *b, struct err *err)
{
    if (!machine_open(&b->m, &b->config, NULL, err)) return false;
    b->tok = tokenizer_open(b->m.gguf, NULL, err);
    if (!b->tok) return false;
    b->sampler = sampler_new(model_n_vocab(b->m.model));
    struct speculator_parts parts = machine_speculation(&b->m, &b->config);
    parts.sampler = b->sampler;
    parts.ends = tokenizer_ends(b->tok, &parts.n_ends);
    for (size_t i = 0; i < b->n_lengths; i++) {
        struct speculator_parts own = parts;
        own.fixed = b->lengths[i] == ADAPTIVE ? 0 : b->lengths[i];
        if (b->lengths[i] == 0) own.draft = NULL, own.lookup = false;
        b->spec[i] = speculator_new(&own);
    }
    return true;
}

/* Makes workload i, of which the context has room for the prompt and a reply. */
static bool make_work(const struct bench *b, size_t i, struct bench_work *w, struct err *err)
{
    if (!bench_work_make(w, i, b->tok, err)) return false;
    const size_t n = w->prompt.n + (w->forced.n ? w->forced.n : b->n_gen);
    return n < b->m.n_ctx ||
           err_set(err, ERR_USAGE, "%s: %zu tokens do not fit the context of %u", w->name, n,
                   b->m.n_ctx);
}

/* Whether all that is wanted can be measured: the first takes long, and a failure behind it
 * would lose that. */
static bool works_fit(const struct bench *b, const char *list, struct err *err)
{
    bool ok = true;
    for (size_t i = 0; ok && bench_work_name(i); i++) {
        struct bench_work w;
        if (!is_wanted(list, bench_work_name(i))) continue;
        ok = make_work(b, i, &w, err);
        bench_work_free(&w);
    }
    return ok;
}

static bool run_work(struct bench *b, size_t i, bool json, struct buf *out, struct err *err)
{
    struct bench_work w;
    bool ok = make_work(b, i, &w, err);
    for (int forced = w.forced.n > 0; ok && forced < 2; forced++) {
        ok = measure(b, &w, forced, err);
        if (!ok) break;
        const bool degenerate = is_degenerate(b, &w);
        if (json)
            print_json(b, &w, forced, degenerate, out);
        else
            print_lines(b, &w, forced, degenerate, out);
    }
    bench_work_free(&w);
    return ok;
}

static void close_bench(struct bench *b)
{
    for (size_t i = 0; i < b->n_lengths; i++)
        speculator_free(b->spec[i]);
    sampler_free(b->sampler);
    tokenizer_close(b->tok);
    ids_free(&b->plain);
    ids_free(&b->ids);
    machine_close(&b->m);
}

int bench_spec(const struct options *o, const struct bench_args *a)
{
    struct bench *b = mem_zalloc(1, sizeof *b);
    struct buf out = {0};
    struct err err;
    char *draft = NULL;
    b->config = command_line_engine(o);
    options_draft(o, &draft, &b->config.draft_lookup);
    b->config.draft_path = draft;
    if (!parse_wanted(b, a, &err)) {
        free(b);
        free(draft);
        return usage_error("bench", "%s", err.msg);
    }
    bool ok = open_bench(b, &err) && works_fit(b, a->workloads, &err);
    if (ok && a->json) buf_puts(&out, "{\"workloads\": [");
    if (ok && !a->json)
        buf_printf(&out, "%s, %s, drafts: %s%s%s\n", model_family(b->m.model),
                   backend_name(b->m.be), draft ? draft : "",
                   draft && b->config.draft_lookup ? " and " : "",
                   b->config.draft_lookup ? "lookup" : "");
    for (size_t i = 0; ok && bench_work_name(i); i++)
        if (is_wanted(a->workloads, bench_work_name(i)))
            ok = run_work(b, i, a->json, &out, &err);
    if (ok && b->differs)
        ok = err_set(&err, ERR_DEVICE, "drafts changed the tokens: this must not happen");
    if (ok && a->json) buf_puts(&out, "]");
    if (ok) print_returns(b, a->json, &out);
    if (ok && a->json) buf_puts(&out, "}\n");
    close_bench(b);
    free(b);
    free(draft);
    if (ok) return print_text(&out);
    buf_free(&out);
    return bench_failed(&err);
}
