/* The tokenizer by itself, over texts that it likes and texts that it does not. */
#include "app/bench_modes.h"

#include <string.h>

#include "app/bench_tools.h"
#include "app/command_line.h"
#include "base/buf.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

enum { N_BYTES = 1000000, N_RUNS = 3 };

/* What is pasted: prose and code in several scripts, and what a careless tokenizer takes
 * quadratic time for. */
static const struct {
    const char *name, *text;
    bool numbered; /* a number in front of each copy, so that no two are alike */
} pastes[] = {
    {"prose and code",
     " The program keeps what it has computed, so a turn costs only its new words; it's "
     "quick.\n"
     "for (size_t i = 0; i < n; i++) sum += weights[i] * x[i]; /* 3.14, 2024-11-21 */\n"
     "\tif (!ok) return err_set(err, ERR_IO, \"%s: %s\", path, strerror(errno));\n"
     "Stra\u00dfe, caf\u00e9, \u041f\u0440\u0438\u0432\u0435\u0442, \u4f60\u597d\uff0c"
     "\u4e16\u754c, \U0001f642\n\n",
     true},
    {"one long word", "abcdefghijklmnopqrstuvwxyz", false},
    {"one letter", "a", false},
    {"spaces", " ", false},
    {"line breaks", "\n", false},
    {"full stops", ".", false},
};
enum { N_PASTES = sizeof pastes / sizeof *pastes };

struct measured {
    size_t n_tokens;
    double ms;
};

static void fill(struct buf *out, size_t paste)
{
    buf_clear(out);
    for (unsigned n = 1; out->len < N_BYTES; n++) {
        if (pastes[paste].numbered) buf_printf(out, "%u", n);
        buf_puts(out, pastes[paste].text);
    }
    size_t cut = N_BYTES;
    while ((out->data[cut] & 0xc0) == 0x80)
        cut--;
    out->len = cut;
}

static bool measure(const struct tokenizer *tok, const struct buf *text, struct measured *best,
                    struct err *err)
{
    struct ids ids = {0};
    bool ok = true;
    best->ms = 1e300;
    for (int i = 0; ok && i < N_RUNS; i++) {
        ids_clear(&ids);
        double start = clock_ms();
        ok = tokenizer_encode(tok, text->data, text->len, ENCODE_PLAIN, &ids, err);
        double ms = clock_ms() - start;
        best->ms = ms < best->ms ? ms : best->ms;
    }
    best->n_tokens = ids.n;
    ids_free(&ids);
    return ok;
}

static void print_one(size_t i, const struct measured *m, const struct buf *text, bool json,
                      struct buf *out)
{
    double mb_s = (double)text->len / 1e3 / m->ms;
    if (json)
        buf_printf(out,
                   "%s{\"text\": \"%s\", \"bytes\": %zu, \"tokens\": %zu, \"ms\": %.3f, "
                   "\"mb_s\": %.3f}",
                   i ? ", " : "", pastes[i].name, text->len, m->n_tokens, m->ms, mb_s);
    else
        buf_printf(out, "%-16s %8.2f MB/s  %8.1f ms  %8zu tokens\n", pastes[i].name, mb_s,
                   m->ms, m->n_tokens);
}

int bench_tokenizer(const struct options *o, const struct bench_args *a)
{
    struct err err;
    struct buf text = {0}, out = {0};
    struct gguf *g = gguf_open(o->model, &err);
    struct tokenizer *tok = g ? tokenizer_open(g, NULL, &err) : NULL;
    bool ok = tok != NULL;
    if (ok && a->json)
        buf_printf(&out, "{\"tokenizer\": \"%s\", \"pre\": \"%s\", \"texts\": [",
                   tokenizer_model(tok), tokenizer_pre(tok));
    else if (ok)
        buf_printf(&out, "%s %s, %zu tokens, texts of 1 MB\n", tokenizer_model(tok),
                   tokenizer_pre(tok), tokenizer_n_vocab(tok));
    for (size_t i = 0; ok && i < N_PASTES; i++) {
        struct measured m;
        fill(&text, i);
        ok = measure(tok, &text, &m, &err);
        if (ok) print_one(i, &m, &text, a->json, &out);
    }
    if (ok && a->json) buf_puts(&out, "]}\n");
    tokenizer_close(tok);
    gguf_close(g);
    buf_free(&text);
    if (ok) return print_text(&out);
    buf_free(&out);
    return bench_failed(&err);
}
