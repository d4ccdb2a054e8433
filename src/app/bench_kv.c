/* A text through the model with each KV type, against its logits with f32. */
#include "app/bench_modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench_tools.h"
#include "app/command_line.h"
#include "backend/kv.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/readable.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/timeline.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

static const size_t MAX_LOGITS_BYTES = (size_t)1 << 30;
enum { MAX_TEXT = 64 << 20 };

/* A pass over the text: with f32 it fills the logits, with others it compares. */
struct pass {
    const int32_t *ids;
    size_t n, n_vocab;
    float *logits; /* [n][n_vocab] of f32 */
    bool first;

    double loss;               /* sum of -ln p of the next token, n-1 terms */
    double difference, square; /* sums of squares: of the differences, of f32 */
    double largest;            /* difference of one logit */
    size_t same;               /* rows whose largest logit is the same token */
    bool broken;               /* a row has a logit that is no finite number */
};

struct figures {
    double perplexity, error, largest, same;
    uint64_t token_bytes;
};

/* -ln of the probability of a token. */
static double loss_of(const float *row, size_t n, int32_t id)
{
    double max = (double)row[0];
    for (size_t i = 1; i < n; i++)
        max = fmax(max, (double)row[i]);
    double sum = exp((double)row[0] - max);
    for (size_t i = 1; i < n; i++)
        sum += exp((double)row[i] - max);
    return log(sum) + max - (double)row[id];
}

static void compare_row(struct pass *p, const float *want, const float *got)
{
    for (size_t i = 0; i < p->n_vocab; i++) {
        if (!isfinite(got[i])) p->broken = true;
        double d = (double)got[i] - (double)want[i];
        p->difference += d * d;
        p->square += (double)want[i] * (double)want[i];
        p->largest = fmax(p->largest, fabs(d));
    }
    p->same += sampler_argmax(want, p->n_vocab) == sampler_argmax(got, p->n_vocab);
}

static bool take_rows(void *user, size_t first, size_t n_rows, const float *logits)
{
    struct pass *p = user;
    for (size_t r = 0; r < n_rows; r++) {
        const float *row = logits + r * p->n_vocab;
        float *kept = p->logits + (first + r) * p->n_vocab;
        if (p->first) memcpy(kept, row, p->n_vocab * sizeof *row);
        compare_row(p, kept, row);
        if (p->broken) return false;
        if (first + r + 1 < p->n) p->loss += loss_of(row, p->n_vocab, p->ids[first + r + 1]);
    }
    return true;
}

/* The ids of the text. */
static bool read_text(const struct options *o, const char *path, struct ids *ids,
                      struct err *err)
{
    struct buf text = {0};
    struct gguf *g = gguf_open(o->model, err);
    struct tokenizer *tok = g ? tokenizer_open(g, NULL, err) : NULL;
    bool ok = tok && file_read(path, MAX_TEXT, &text, err) &&
              tokenizer_encode(tok, text.data, text.len, ENCODE_ENDS, ids, err);
    if (ok && ids->n < 2)
        ok = err_set(err, ERR_USER, "%s: a text of two tokens at least is needed", path);
    tokenizer_close(tok);
    gguf_close(g);
    buf_free(&text);
    return ok;
}

/* One type. Before the first, *p has no logits yet and as many ids as the text. */
static bool measure_type(struct engine_config config, enum kv_type type, struct pass *p,
                         struct figures *out, struct err *err)
{
    struct machine m;
    config.kv_type = kv_type_name(type);
    if (!machine_open(&m, &config, NULL, err)) {
        machine_close(&m);
        return false;
    }
    bool ok = true;
    p->first = !p->logits;
    if (p->first) {
        p->n_vocab = model_n_vocab(m.model);
        size_t most = MAX_LOGITS_BYTES / sizeof *p->logits / p->n_vocab;
        if (p->n > most) p->n = most;
        if (p->n > m.n_ctx) p->n = m.n_ctx;
        p->logits = mem_try_pages(p->n * p->n_vocab * sizeof *p->logits);
        if (!p->logits) ok = err_set(err, ERR_MEMORY, "no memory for %zu logits", p->n);
        if (p->n < 2)
            ok = err_set(err, ERR_USAGE, "a context of two tokens at least is needed");
    }
    p->loss = p->difference = p->square = p->largest = 0;
    p->same = 0;
    ok = ok && timeline_all_rows(m.tl, p->ids, p->n, 0, take_rows, p, err);
    if (ok && p->broken)
        ok = err_set(err, ERR_FORMAT,
                     "the model's logits are not numbers: the weights are broken");
    *out = (struct figures){
        .perplexity = exp(p->loss / (double)(p->n - 1)),
        .error = p->square > 0 ? sqrt(p->difference / p->square) : 0,
        .largest = p->largest,
        .same = (double)p->same / (double)p->n,
        .token_bytes = m.sizes.kv_bytes_per_token,
    };
    machine_close(&m);
    return ok;
}

static void print_type(enum kv_type type, const struct figures *f, bool json, struct buf *out)
{
    char size[READABLE_BYTES];
    if (json)
        buf_printf(out,
                   "%s{\"kv_type\": \"%s\", \"token_bytes\": %zu, \"perplexity\": %.6g, "
                   "\"error\": %.4g, \"largest\": %.4g, \"same_first\": %.6g}",
                   type == KV_F32 ? "" : ", ", kv_type_name(type), (size_t)f->token_bytes,
                   f->perplexity, f->error, f->largest, f->same);
    else
        buf_printf(out, "%-6s %12s  %12.5f  %9.5f %%  %10.5f  %9.2f %%\n", kv_type_name(type),
                   readable_size(size, f->token_bytes), f->perplexity, f->error * 100,
                   f->largest, f->same * 100);
}

int bench_kv_error(const struct options *o, const struct bench_args *a)
{
    const bool json = a->json;
    struct err err;
    struct buf out = {0};
    struct ids ids = {0};
    struct pass p = {0};
    bool ok = read_text(o, a->text, &ids, &err);
    p.ids = ids.data;
    p.n = ids.n;
    for (enum kv_type type = KV_F32; ok && type <= KV_Q4_0; type++) {
        struct figures f;
        ok = measure_type(command_line_engine(o), type, &p, &f, &err);
        if (!ok && err.code == ERR_USER && kv_type_codes(type)) { /* its heads do not fit */
            if (!json) buf_printf(&out, "%-6s %s\n", kv_type_name(type), err.msg);
            ok = true;
            continue;
        }
        if (ok && type == KV_F32 && json)
            buf_printf(&out, "{\"tokens\": %zu, \"types\": [", p.n);
        else if (ok && type == KV_F32)
            buf_printf(&out,
                       "%zu tokens\nKV     per token     perplexity  logits off     largest"
                       "  same first\n",
                       p.n);
        if (ok) print_type(type, &f, json, &out);
    }
    if (ok && json) buf_puts(&out, "]}\n");
    if (p.logits) mem_free_pages(p.logits, p.n * p.n_vocab * sizeof *p.logits);
    ids_free(&ids);
    if (ok) return print_text(&out);
    buf_free(&out);
    return bench_failed(&err);
}
