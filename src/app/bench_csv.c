#include "app/bench_csv.h"

#include <stdio.h>
#include <string.h>

#include "base/printable.h"

static const char head[] = "model,cpu,kv,threads,depth,rows,ms,tok_s,gb_s,read_gb_s,share";

void bench_csv_print(const struct bench_lines *t, struct buf *out)
{
    buf_printf(out, "%s\n", head);
    for (size_t i = 0; i < t->n; i++) {
        const struct bench_line *l = &t->lines[i];
        buf_printf(out, "%s,%s,%s,%u,%u,%u,%.4f,%.2f,%.3f,%.3f,%.4f\n", l->model, l->isa, l->kv,
                   l->n_threads, l->depth, l->n_rows, l->ms, l->tok_s, l->gb_s, l->read_gb_s,
                   l->gb_s / l->read_gb_s);
    }
}

/* Far beyond any machine; a line of larger ones would be longer than one that is read. */
static bool is_figure(double x)
{
    return x >= 0 && x < 1e15;
}

/* Nine digits: what sscanf makes of a sign is more. */
static bool is_count(uint32_t x)
{
    return x <= 999999999;
}

static bool parse(const char *text, struct bench_line *l)
{
    return sscanf(text, "%63[^,],%15[^,],%7[^,],%9u,%9u,%9u,%lf,%lf,%lf,%lf", l->model, l->isa,
                  l->kv, &l->n_threads, &l->depth, &l->n_rows, &l->ms, &l->tok_s, &l->gb_s,
                  &l->read_gb_s) == 10 &&
           is_count(l->n_threads) && is_count(l->depth) && is_count(l->n_rows) &&
           is_figure(l->ms) && is_figure(l->tok_s) && is_figure(l->gb_s) &&
           is_figure(l->read_gb_s) && l->tok_s > 0;
}

bool bench_csv_read(const char *text, size_t n, const char *name, struct bench_lines *out,
                    struct err *err)
{
    char line[512], shown[256];
    uint32_t number = 0;
    printable(shown, sizeof shown, name, strlen(name));
    for (size_t at = 0, len; at < n; at += len + 1) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t k = len = end ? (size_t)(end - (text + at)) : n - at;
        number++;
        if (k > 0 && text[at + k - 1] == '\r') k--;
        if (k == 0 || (k == sizeof head - 1 && memcmp(text + at, head, k) == 0)) continue;
        if (out->n == BENCH_MAX_LINES)
            return err_set(err, ERR_USER, "%s: more than %d lines", shown, BENCH_MAX_LINES);
        struct bench_line l = {0};
        const bool fits = k < sizeof line && !memchr(text + at, 0, k);
        if (fits) {
            memcpy(line, text + at, k);
            line[k] = '\0';
        }
        if (!fits || !parse(line, &l))
            return err_set(err, ERR_FORMAT, "%s: line %u is none of a bench table", shown,
                           number);
        out->lines[out->n++] = l;
    }
    /* Of a run that failed into the file that is to be compared with. */
    if (out->n == 0) return err_set(err, ERR_FORMAT, "%s: has no line of a bench table", shown);
    return true;
}

static bool is_same(const struct bench_line *a, const struct bench_line *b)
{
    return strcmp(a->model, b->model) == 0 && strcmp(a->isa, b->isa) == 0 &&
           strcmp(a->kv, b->kv) == 0 && a->n_threads == b->n_threads && a->depth == b->depth &&
           a->n_rows == b->n_rows;
}

double bench_csv_ratio(const struct bench_line *l, const struct bench_lines *then)
{
    for (size_t i = 0; i < then->n; i++)
        if (is_same(l, &then->lines[i])) return l->tok_s / then->lines[i].tok_s;
    return 0;
}
