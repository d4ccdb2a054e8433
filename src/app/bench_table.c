/* Steps of some rows at some depths, with some threads and instruction sets, one line each. */
#include "app/bench_modes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench_csv.h"
#include "app/bench_reads.h"
#include "app/bench_tools.h"
#include "app/command_line.h"
#include "backend/backend.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/printable.h"
#include "cpu/cpu.h"
#include "engine/device.h"
#include "engine/machine.h"
#include "engine/states.h"
#include "gguf/gguf.h"

/* All depths, all numbers of rows and the bandwidth take turns, for what others do on the
 * machine comes and goes. A line has a slice of each round: steps for so long, one at least, or
 * so many. */
enum { N_ROUNDS = 5, SLICE_STEPS = 100 };
static const double SLICE_MS = 60;
/* Up to here all rows have logits, as when drafts are verified. */
enum { VERIFY_ROWS = TRAIL_ROWS };

/* ---- one machine ---- */

/* What the steps of some rows at a depth took. */
struct timings {
    double ms[N_ROUNDS * SLICE_STEPS];
    size_t n;
};

/* A depth: the bandwidth beside each round, and the timings of all numbers of rows. */
struct at_depth {
    double gb_s[N_ROUNDS];
    struct timings rows[BENCH_LIST_MOST];
};

struct bench_run {
    struct machine *m;
    struct exec *exec;
    void **pages[PAGE_PARTS];
    size_t n_pages;
    int32_t *tokens;
    float *logits;
    struct states states;
    struct at_depth *at; /* [BENCH_LIST_MOST], as the list of depths */
};

static bool step_once(struct bench_run *r, uint32_t depth, uint32_t n_rows, struct err *err)
{
    struct step step = {
        .n_rows = n_rows,
        .pos = depth,
        .tokens = r->tokens,
        .pages = {r->pages[PAGE_FULL], r->pages[PAGE_WINDOW]},
        .n_logits = n_rows <= VERIFY_ROWS ? n_rows : 1,
        .logits = r->logits,
    };
    /* The same states again and again: what they hold does not change the time. */
    states_lend(&r->states, &step);
    return exec_run(r->exec, &step, err);
}

/* Bytes of weights, each counted once, and of the keys and values that all rows read. */
static double bytes_of(const struct machine *m, uint32_t depth, uint32_t n_rows)
{
    return (double)model_token_bytes(m->model) +
           (double)model_kv_read_bytes(m->model, depth + n_rows - 1);
}

static uint32_t largest(const struct bench_list *l)
{
    uint32_t most = 0;
    for (size_t i = 0; i < l->n; i++)
        most = l->v[i] > most ? l->v[i] : most;
    return most;
}

static bool pages_open(struct bench_run *r, int part, size_t page_bytes, size_t page_unit)
{
    bool ok = true;
    uint8_t *zeros = mem_zalloc(page_bytes, 1);
    r->pages[part] = mem_zalloc(r->n_pages, sizeof *r->pages[part]);
    for (size_t i = 0; ok && i < r->n_pages && page_bytes > 0; i++) {
        r->pages[part][i] = backend_page_new(r->m->be, page_bytes, page_unit);
        ok = r->pages[part][i] != NULL;
        if (ok) backend_page_write(r->m->be, r->pages[part][i], page_bytes, zeros);
    }
    free(zeros);
    return ok;
}

static bool run_open(struct bench_run *r, struct machine *m, uint32_t n_positions,
                     uint32_t n_rows, struct err *err)
{
    const struct program *p = model_program(m->model);
    *r = (struct bench_run){.m = m, .exec = exec_new(m->be, p, n_rows, err)};
    if (!r->exec || !states_init(&r->states, m->be, p, err)) return false;
    r->n_pages = pages_for(n_positions);
    r->tokens = mem_zalloc(n_rows, sizeof *r->tokens);
    r->logits = mem_zalloc((size_t)VERIFY_ROWS * p->n_vocab, sizeof *r->logits);
    r->at = mem_zalloc(BENCH_LIST_MOST, sizeof *r->at);
    for (uint32_t i = 0; i < n_rows; i++)
        r->tokens[i] = (int32_t)(i * 7919u % p->n_vocab);
    for (int part = 0; part < PAGE_PARTS; part++)
        if (!pages_open(r, part, p->page_bytes[part], p->page_unit[part]))
            return err_set(err, ERR_MEMORY, "no memory for the keys and values of %u positions",
                           n_positions);
    return true;
}

/* What run_open has left, whole or not. */
static void run_close(struct bench_run *r)
{
    if (!r->exec) return;
    const size_t *page_bytes = model_program(r->m->model)->page_bytes;
    for (int part = 0; part < PAGE_PARTS; part++) {
        for (size_t i = 0; r->pages[part] && i < r->n_pages; i++)
            backend_page_free(r->m->be, r->pages[part][i], page_bytes[part]);
        free(r->pages[part]);
    }
    free(r->tokens);
    free(r->logits);
    free(r->at);
    states_free(&r->states);
    exec_free(r->exec);
}

static bool time_slice(struct bench_run *r, uint32_t depth, uint32_t n_rows, struct timings *t,
                       struct err *err)
{
    const size_t most = t->n + SLICE_STEPS;
    double total = 0;
    while (total < SLICE_MS && t->n < most) {
        const double start = clock_ms();
        if (!step_once(r, depth, n_rows, err)) return false;
        t->ms[t->n] = clock_ms() - start;
        total += t->ms[t->n++];
    }
    return true;
}

/* The bandwidth now, if it is more than *gb_s. A round has two readings: with one alone, right
 * behind the prefill of the round before, a row of Q6_K read up to 1.4 times as much as that
 * said could be read; with another behind the first line at most 1.02 times (Zen 4, 2 threads,
 * 2026-11). */
static bool read_better(const struct machine *m, double *gb_s, struct err *err)
{
    double now;
    if (!bench_reads(m, &now, err)) return false;
    if (now > *gb_s) *gb_s = now;
    return true;
}

/* A slice of every number of rows at a depth. */
static bool time_depth(struct bench_run *r, uint32_t depth, const struct bench_list *rows,
                       struct at_depth *at, size_t round, struct err *err)
{
    if (!read_better(r->m, &at->gb_s[round], err)) return false;
    for (size_t i = 0; i < rows->n; i++) {
        if (!time_slice(r, depth, rows->v[i], &at->rows[i], err)) return false;
        if (i == 0 && !read_better(r->m, &at->gb_s[round], err)) return false;
    }
    return true;
}

/* Every line once, which warms it, and then all rounds. A shallow step writes its keys and
 * values over those of a deep one, which does not change what either takes. */
static bool time_rounds(struct bench_run *r, const struct bench_list *depths,
                        const struct bench_list *rows, struct err *err)
{
    for (size_t d = 0; d < depths->n; d++)
        for (size_t i = 0; i < rows->n; i++)
            if (!step_once(r, depths->v[d], rows->v[i], err)) return false;
    for (size_t round = 0; round < N_ROUNDS; round++)
        for (size_t d = 0; d < depths->n; d++)
            if (!time_depth(r, depths->v[d], rows, &r->at[d], round, err)) return false;
    return true;
}

/* Appends a line per number of rows at line.depth, medians of all rounds. */
static void add_lines(const struct bench_run *r, struct at_depth *at,
                      const struct bench_list *rows, struct bench_line line,
                      struct bench_lines *out)
{
    line.read_gb_s = bench_median(at->gb_s, N_ROUNDS);
    for (size_t i = 0; i < rows->n; i++) {
        line.n_rows = rows->v[i];
        line.ms = bench_median(at->rows[i].ms, at->rows[i].n);
        line.tok_s = line.n_rows / line.ms * 1e3;
        line.gb_s = bytes_of(r->m, line.depth, line.n_rows) / 1e6 / line.ms;
        out->lines[out->n++] = line;
    }
}

/* All depths and numbers of rows on one machine. */
static bool measure_machine(const struct engine_config *config, const struct bench_list *depths,
                            const struct bench_list *rows, struct bench_line line,
                            struct bench_lines *out, struct err *err)
{
    struct machine m = {0};
    struct bench_run r = {0};
    assert(out->n + depths->n * rows->n <= BENCH_MAX_LINES); /* parse_wanted */
    if (!machine_open(&m, config, NULL, err)) {
        machine_close(&m);
        return false;
    }
    const char *name = backend_name(m.be); /* "vulkan:0 (...)" */
    if (!m.is_cpu) snprintf(line.isa, sizeof line.isa, "%.*s", (int)strcspn(name, " "), name);
    const uint32_t n_rows = largest(rows), n_positions = largest(depths) + n_rows;
    bool ok = n_positions <= m.n_ctx;
    if (!ok)
        err_set(err, ERR_USAGE, "%u positions do not fit the context of %u", n_positions,
                m.n_ctx);
    ok = ok && run_open(&r, &m, n_positions, n_rows, err) && time_rounds(&r, depths, rows, err);
    for (size_t d = 0; ok && d < depths->n; d++) {
        line.depth = depths->v[d];
        add_lines(&r, &r.at[d], rows, line, out);
    }
    run_close(&r);
    machine_close(&m);
    return ok;
}

/* ---- output ---- */

static bool read_earlier(const char *path, struct bench_lines *out, struct err *err)
{
    struct buf text = {0};
    const bool ok = file_read(path, 1 << 20, &text, err) &&
                    bench_csv_read(buf_str(&text), text.len, path, out, err);
    buf_free(&text);
    return ok;
}

static void print_json(const struct bench_lines *t, const struct bench_lines *then,
                       struct buf *out)
{
    buf_puts(out, "{\"lines\": [");
    for (size_t i = 0; i < t->n; i++) {
        const struct bench_line *l = &t->lines[i];
        buf_printf(out,
                   "%s{\"model\": \"%s\", \"cpu\": \"%s\", \"kv\": \"%s\", \"threads\": %u, "
                   "\"depth\": %u, \"rows\": %u, \"ms\": %.4f, \"tok_s\": %.2f, \"gb_s\": "
                   "%.3f, \"read_gb_s\": %.3f, \"share\": %.4f",
                   i ? ",\n " : "", l->model, l->isa, l->kv, l->n_threads, l->depth, l->n_rows,
                   l->ms, l->tok_s, l->gb_s, l->read_gb_s, l->gb_s / l->read_gb_s);
        if (then) buf_printf(out, ", \"ratio\": %.4f", bench_csv_ratio(l, then));
        buf_puts(out, "}");
    }
    buf_puts(out, "]}\n");
}

static void print_lines(const struct bench_lines *t, const struct bench_lines *then,
                        struct buf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct bench_line *l = &t->lines[i];
        if (i == 0 || strcmp(l->model, l[-1].model) != 0)
            buf_printf(out,
                       "%s, KV %s\ncpu     threads   depth  rows         ms      tok/s    GB/s"
                       "  of GB/s  share%s\n",
                       l->model, l->kv, then ? "  ratio" : "");
        buf_printf(out, "%-7s %7u %7u %5u %10.3f %10.1f %7.2f %8.2f %5.0f%%", l->isa,
                   l->n_threads, l->depth, l->n_rows, l->ms, l->tok_s, l->gb_s, l->read_gb_s,
                   l->gb_s / l->read_gb_s * 100);
        double ratio = then ? bench_csv_ratio(l, then) : 0;
        if (ratio > 0) buf_printf(out, " %6.2f", ratio);
        if (then && ratio <= 0) buf_puts(out, "      -");
        buf_puts(out, "\n");
    }
}

/* ---- the command ---- */

/* The file's name without its folder, with nothing that a CSV or JSON would trip over. */
static void name_model(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    printable(out, size, name, strlen(name));
    for (char *p = out; *p; p++)
        if (strchr(",\"\\", *p)) *p = '_';
}

struct wanted {
    struct bench_list depths, rows, threads;
};

/* Takes the first item of a list with commas between; false: it is empty. What does not fit is
 * cut off. */
static bool next_item(const char **list, char *item, size_t size)
{
    const size_t len = strcspn(*list, ",");
    if (**list == '\0') return false;
    snprintf(item, size, "%.*s", (int)(len < size ? len : size - 1), *list);
    *list += len + ((*list)[len] == ',');
    return true;
}

/* Of a list that is not given: 1, what is there without it. */
static size_t count_items(const char *list)
{
    char item[2];
    size_t n = 0;
    while (list && next_item(&list, item, sizeof item))
        n++;
    return list ? n : 1;
}

static bool parse_wanted(const struct bench_args *a, int n_threads, struct wanted *w,
                         struct err *err)
{
    const char *empty = a->isas && !*a->isas       ? "each-cpu"
                        : a->models && !*a->models ? "each-model"
                                                   : NULL;
    if (empty)
        return err_set(err, ERR_USER, "--%s is '', expected names with commas between", empty);
    w->threads.n = 1;
    w->threads.v[0] = (uint32_t)(n_threads ? n_threads : pool_usable_cores());
    if (!bench_list_parse("depth", a->depths, 0, 1 << 20, &w->depths, err) ||
        !bench_list_parse("rows", a->rows, 1, 512, &w->rows, err) ||
        (a->threads &&
         !bench_list_parse("each-threads", a->threads, 1, POOL_MAX_THREADS, &w->threads, err)))
        return false;
    const size_t n =
        count_items(a->models) * count_items(a->isas) * w->threads.n * w->depths.n * w->rows.n;
    return n <= BENCH_MAX_LINES ||
           err_set(err, ERR_USER, "--table: %zu lines, more than %d", n, BENCH_MAX_LINES);
}

/* Whether what the lists name is there: measuring the first takes long, and a failure behind it
 * would lose that. */
static bool items_open(const struct bench_args *a, struct err *err)
{
    const char *isas = a->isas ? a->isas : "", *models = a->models ? a->models : "";
    char item[4096];
    while (next_item(&isas, item, sizeof item)) {
        const struct device_choice choice = {.device = "cpu", .cpu = item, .n_threads = 1};
        uint64_t memory;
        struct backend *be = device_open(&choice, &memory, err);
        if (!be && err->code == ERR_USER) err->code = ERR_USAGE; /* no such name */
        if (!be) return false;
        backend_close(be);
    }
    while (next_item(&models, item, sizeof item)) {
        struct gguf *g = gguf_open(item, err);
        if (!g) return false;
        gguf_close(g);
    }
    return true;
}

/* One model with every instruction set and number of threads. */
static bool measure_model(struct engine_config config, const struct bench_args *a,
                          const struct wanted *w, struct bench_lines *table, struct err *err)
{
    struct bench_line line = {0};
    name_model(config.model_path, line.model, sizeof line.model);
    snprintf(line.kv, sizeof line.kv, "%s", config.kv_type ? config.kv_type : "f16");
    const char *isas = a->isas ? a->isas : config.cpu ? config.cpu : "auto";
    char isa[16];
    while (next_item(&isas, isa, sizeof isa)) {
        config.cpu = isa;
        snprintf(line.isa, sizeof line.isa, "%s",
                 strcmp(isa, "auto") == 0 ? cpu_isa_name(cpu_best()) : isa);
        for (size_t i = 0; i < w->threads.n; i++) {
            config.n_threads = (int)w->threads.v[i];
            line.n_threads = w->threads.v[i];
            if (!measure_machine(&config, &w->depths, &w->rows, line, table, err)) return false;
        }
    }
    return true;
}

static bool measure_all(struct engine_config config, const struct bench_args *a,
                        const struct wanted *w, struct bench_lines *table, struct err *err)
{
    if (!a->models) return measure_model(config, a, w, table, err);
    const char *models = a->models;
    char path[4096];
    while (next_item(&models, path, sizeof path)) {
        config.model_path = path;
        if (!measure_model(config, a, w, table, err)) return false;
    }
    return true;
}

int bench_table(const struct options *o, const struct bench_args *a)
{
    const struct engine_config config = command_line_engine(o);
    struct wanted wanted;
    struct buf out = {0};
    struct err err;
    if (a->csv && (a->json || a->compare))
        return usage_error("bench", "--csv prints the table alone: it goes with no --%s",
                           a->json ? "json" : "compare");
    if (!parse_wanted(a, config.n_threads, &wanted, &err))
        return usage_error("bench", "%s", err.msg);
    struct bench_lines *now = mem_zalloc(1, sizeof *now), *then = NULL;
    if (a->compare) then = mem_zalloc(1, sizeof *then);
    bool ok = (!then || read_earlier(a->compare, then, &err)) && items_open(a, &err) &&
              measure_all(config, a, &wanted, now, &err);
    if (ok && a->csv) bench_csv_print(now, &out);
    if (ok && a->json) print_json(now, then, &out);
    if (ok && !a->csv && !a->json) print_lines(now, then, &out);
    free(now);
    free(then);
    return ok ? print_text(&out) : bench_failed(&err);
}
