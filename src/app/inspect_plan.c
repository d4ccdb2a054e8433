/* hearth inspect plan: what of each of a row of prompts would not have to be computed, and why.
 *
 * Nothing is computed: pages are only counted, in the tree that the engine uses, with its
 * limits. A file's weights are not read. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/inspect.h"
#include "app/json_lines.h"
#include "app/model_choice.h"
#include "app/token_ids.h"
#include "backend/ops.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"
#include "cache/page.h"
#include "cache/tree.h"
#include "engine/machine.h"
#include "engine/timeline.h"
#include "gguf/gguf.h"
#include "model/adapter.h"
#include "model/model.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"

#define MAX_INPUT ((size_t)1 << 30)

struct planner {
    struct tokenizer *tok;
    struct page_pool *pool;
    struct tree *tree;
    float *logits; /* what stands for a snapshot's … */
    void *states;  /* … and for its states */
    uint64_t warm_bytes;
    struct plan_model model;
    size_t n_prompts;
    bool ids, json;
};

/* What one prompt would cost. */
struct row {
    size_t n, same, from, n_reply;
    size_t n_old;
    int32_t old_id, new_id; /* where the prompt leaves what was there before */
    bool diverges, copies;
};

static bool open_planner(struct planner *p, const struct options *o, struct err *err)
{
    struct model_params params = {.n_ctx = (uint32_t)o->ctx};
    struct gguf *g = adapter_open(o->model, o->lora, o->lora_scale, &params.adapter, err);
    struct model_sizes sizes;
    const char *name;
    bool ok = g && machine_kv_type(o->kv_type, &params.kv_type, &name, err) &&
              model_estimate(g, NULL, &params, 1, &sizes, err) &&
              (p->tok = tokenizer_open(g, NULL, err));
    gguf_close(g);
    if (!ok) return false;
    const size_t part_bytes[PAGE_PARTS] = {sizes.kv_bytes_per_token * PAGE_LEN,
                                           sizes.window_bytes_per_token * PAGE_LEN};
    p->model =
        (struct plan_model){.window = sizes.window, .is_recurrent = sizes.state_bytes > 0};
    const struct timeline_need need = {.n_vocab = sizes.n_vocab,
                                       .state_bytes = sizes.state_bytes,
                                       .window = sizes.window,
                                       .window_page_bytes = part_bytes[PAGE_WINDOW]};
    const struct timeline_limits limits = {.warm_bytes = o->cache_ram_bytes};
    const struct tree_limits of_tree = timeline_tree_limits(&need, &limits);
    p->warm_bytes = limits.warm_bytes;
    p->pool = page_pool_new(NULL, part_bytes, NULL);
    p->tree = tree_new(p->pool, &of_tree, need.n_vocab, need.state_bytes);
    p->logits = mem_zalloc(need.n_vocab, sizeof *p->logits);
    p->states = mem_zalloc(need.state_bytes, 1);
    return true;
}

static void close_planner(struct planner *p)
{
    tree_free(p->tree);
    page_pool_free(p->pool);
    tokenizer_close(p->tok);
    free(p->logits);
    free(p->states);
}

/* ---- what is planned ---- */

/* As if the rows were computed, with a snapshot where a timeline leaves one. */
static bool add_rows(struct planner *p, const int32_t *ids, size_t from, size_t to,
                     struct err *err)
{
    const bool marks = p->model.window > 0 || p->model.is_recurrent;
    for (size_t at = from, end; at < to; at = end) {
        end = marks ? (at / TIMELINE_MARK_ROWS + 1) * TIMELINE_MARK_ROWS : to;
        if (end > to) end = to;
        if (!tree_grow(p->tree, at, end, err)) return false;
        tree_commit(p->tree, ids + (at - from), at, end - at);
        tree_tidy(p->tree);
        if (marks && end % TIMELINE_MARK_ROWS == 0 && end == tree_n(p->tree))
            tree_snapshot_passing(p->tree, p->logits, p->states);
    }
    return true;
}

static size_t pages_made(const struct planner *p)
{
    struct tree_usage u = tree_usage(p->tree);
    return u.n_pages + u.n_dropped;
}

static bool plan_prompt(struct planner *p, const struct ids *prompt, const struct ids *reply,
                        struct row *row, struct err *err)
{
    *row = (struct row){.n = prompt->n, .n_reply = reply->n, .n_old = tree_n(p->tree)};
    while (row->same < row->n && row->same < row->n_old &&
           tree_ids(p->tree)[row->same] == prompt->data[row->same])
        row->same++;
    const struct plan_have *have = tree_find(p->tree, prompt->data, prompt->n);
    struct plan plan = plan_make(&p->model, have, prompt->n);
    row->from = plan.from;
    if (row->same < row->n && row->same < row->n_old) {
        row->diverges = true;
        row->old_id = tree_ids(p->tree)[row->same];
        row->new_id = prompt->data[row->same];
    }
    if (plan.snapshot != PLAN_NO_SNAPSHOT) tree_snapshot_used(p->tree, plan.snapshot);
    size_t n_pages = pages_made(p);
    tree_go(p->tree);
    if (!add_rows(p, prompt->data + plan.from, plan.from, prompt->n, err)) return false;
    size_t n_needed = pages_for(prompt->n) - pages_for(plan.keep);
    row->copies = plan.keep < prompt->n && pages_made(p) > n_pages + n_needed;
    tree_snapshot(p->tree, p->logits, p->states);
    if (reply->n == 0) return true;
    if (!add_rows(p, reply->data, prompt->n, prompt->n + reply->n, err)) return false;
    tree_snapshot(p->tree, p->logits, p->states);
    return true;
}

/* ---- what is said ---- */

static const char *shown_token(const struct planner *p, int32_t id, char *shown, size_t cap)
{
    struct buf text = {0};
    detokenize(p->tok, &id, 1, &text);
    printable(shown, cap, buf_str(&text), text.len);
    buf_free(&text);
    return shown;
}

static void explain(const struct planner *p, const struct row *row, struct buf *out)
{
    char old[64], new[64];
    size_t restored = row->from > row->same ? row->from - row->same : 0;
    if (row->n_old == 0)
        buf_puts(out, "nothing was there");
    else if (row->diverges)
        buf_printf(out, "token %zu is now \"%s\", was \"%s\"", row->same,
                   shown_token(p, row->new_id, new, sizeof new),
                   shown_token(p, row->old_id, old, sizeof old));
    else if (row->n == row->n_old)
        buf_puts(out, "the same again");
    else if (row->n < row->n_old)
        buf_printf(out, "cut, %zu tokens fewer", row->n_old - row->n);
    else
        buf_puts(out, "goes on");
    if (restored) buf_printf(out, "; %zu come from another branch", restored);
    if (row->from == row->n)
        buf_puts(out, "; its logits are held");
    else if (row->n == row->from + 1 && (restored || row->n <= row->n_old))
        buf_puts(out, "; the last one for its logits");
    if (row->copies) buf_puts(out, "; another branch shares the open page: copied");
}

static void print_row(const struct planner *p, const struct row *row, struct buf *out)
{
    size_t kept = row->from < row->same ? row->from : row->same;
    buf_printf(out, "%6zu %8zu %8zu %9zu %9zu  ", p->n_prompts, row->n, kept, row->from - kept,
               row->n - row->from);
    explain(p, row, out);
    buf_putc(out, '\n');
}

static void print_json_row(const struct planner *p, const struct row *row, struct buf *out)
{
    size_t kept = row->from < row->same ? row->from : row->same;
    struct tree_usage u = tree_usage(p->tree);
    json_t *o = json_pack("{sI sI sI sI sI sb}", "tokens", (json_int_t)row->n, "kept",
                          (json_int_t)kept, "restored", (json_int_t)(row->from - kept),
                          "computed", (json_int_t)(row->n - row->from), "reply",
                          (json_int_t)row->n_reply, "copied", row->copies);
    if (row->diverges) {
        struct buf old = {0}, new = {0};
        detokenize(p->tok, &row->old_id, 1, &old);
        detokenize(p->tok, &row->new_id, 1, &new);
        json_object_set_new(o, "diverged",
                            json_pack("{sI ss% ss%}", "at", (json_int_t)row->same, "old",
                                      buf_str(&old), old.len, "new", buf_str(&new), new.len));
        buf_free(&old);
        buf_free(&new);
    }
    json_object_set_new(o, "pages", json_integer((json_int_t)u.n_pages));
    json_object_set_new(o, "snapshots", json_integer((json_int_t)u.n_snapshots));
    json_object_set_new(o, "bytes", json_integer((json_int_t)u.bytes));
    json_object_set_new(o, "dropped", json_integer((json_int_t)u.n_dropped));
    char *text = json_dumps(o, JSON_COMPACT);
    buf_printf(out, "%s\n", text);
    free(text);
    json_decref(o);
}

static void print_summary(const struct planner *p, struct buf *out)
{
    struct tree_usage u = tree_usage(p->tree);
    char pages[READABLE_BYTES], snapshots[READABLE_BYTES], dropped[READABLE_BYTES];
    char all[READABLE_BYTES], off[READABLE_BYTES], most[READABLE_BYTES];
    buf_printf(out,
               "\n%s of %d tokens and %s, %s; %s of them off the last prompt, --cache-ram "
               "allows %s",
               readable_count(pages, u.n_pages, "page"), PAGE_LEN,
               readable_count(snapshots, u.n_snapshots, "snapshot"),
               readable_size(all, u.bytes), readable_size(off, u.bytes - u.path_bytes),
               readable_size(most, p->warm_bytes));
    if (u.n_dropped)
        buf_printf(out, "; %s dropped", readable_count(dropped, u.n_dropped, "page"));
    buf_putc(out, '\n');
}

/* The ids of a line, which ends at its first NUL for who parses it. */
static bool parse_ids(const struct planner *p, const char *line, size_t len, struct ids *ids,
                      struct err *err)
{
    if (memchr(line, '\0', len)) return err_set(err, ERR_USER, "a NUL is no token id");
    return token_ids_parse(line, tokenizer_n_vocab(p->tok), ids, err);
}

static bool plan_line(struct planner *p, const char *line, size_t len, struct buf *out,
                      struct err *err)
{
    struct ids prompt = {0}, reply = {0};
    struct row row;
    bool ok = p->ids    ? parse_ids(p, line, len, &prompt, err)
              : p->json ? json_line_prompt(p->tok, line, len, &prompt, &reply, err)
                        : json_line_encode(p->tok, line, len, &prompt, err);
    if (ok && prompt.n == 0) ok = err_set(err, ERR_USER, "the prompt has no tokens");
    ok = ok && plan_prompt(p, &prompt, &reply, &row, err);
    if (ok && p->json) print_json_row(p, &row, out);
    if (ok && !p->json) print_row(p, &row, out);
    ids_free(&prompt);
    ids_free(&reply);
    return ok;
}

static bool plan_lines(struct planner *p, struct buf *in, struct buf *out, struct err *err)
{
    char *s = in->data;
    size_t left = in->len, n = 1;
    if (!p->json) buf_puts(out, "prompt   tokens     kept restored  computed  why\n");
    for (; left > 0; n++) {
        char *nl = memchr(s, '\n', left);
        size_t len = nl ? (size_t)(nl - s) : left;
        s[len] = '\0'; /* a buf has one byte more than its length */
        const bool is_empty = p->ids || p->json ? strspn(s, " \t\r") == len : len == 0;
        p->n_prompts += !is_empty;
        if (!is_empty && !plan_line(p, s, len, out, err))
            return err_prefix(err, "standard input, line %zu", n);
        len += nl != NULL;
        s += len, left -= len;
    }
    if (p->n_prompts == 0) return err_set(err, ERR_USER, "no prompt on standard input");
    if (!p->json) print_summary(p, out);
    return true;
}

static int run(const struct options *o, bool ids, bool jsonl)
{
    struct planner p = {.ids = ids, .json = jsonl};
    struct buf in = {0}, out = {0};
    struct err err;
    bool ok = open_planner(&p, o, &err) &&
              file_read_fd(STDIN_FILENO, "standard input", MAX_INPUT, &in, &err) &&
              plan_lines(&p, &in, &out, &err);
    close_planner(&p);
    buf_free(&in);
    if (ok) return print_text(&out);
    buf_free(&out);
    return err.code == ERR_USER ? usage_error("inspect plan", "%s", err.msg)
                                : runtime_error(&err);
}

int inspect_plan(const struct subcommand *self, int argc, char **argv)
{
    bool ids = false, jsonl = false;
    const struct option_extra extra[] = {
        {.name = "ids", .flag = &ids, .help = "each line is a prompt as token ids, \"1 2 3\""},
        {.name = "jsonl",
         .flag = &jsonl,
         .help = "each line is an object of prompt and reply, texts or lists of ids; prints "
                 "objects"},
    };
    struct command_line line;
    int status = command_line_read(&line, self, extra, 2, argc, argv);
    if (status == COMMAND_LINE_GO) {
        if (line.args.n_rest > 0)
            status = unexpected_argument(line.args.command, line.args.rest[0]);
        else if (ids && jsonl)
            status = usage_error(line.args.command, "--ids and --jsonl exclude each other");
        else
            status = model_needed(line.options, line.args.command);
    }
    if (status == COMMAND_LINE_GO) status = run(line.options, ids, jsonl);
    command_line_free(&line);
    return status;
}
