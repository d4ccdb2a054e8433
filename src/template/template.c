#include "template/template.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "template/builtin_templates.h"
#include "template/eval.h"
#include "template/parse.h"

#define MAX_SOURCE_BYTES ((size_t)1 << 20)
#define MAX_PARSE_BYTES ((size_t)256 << 20)
#define MAX_PARSE_DEPTH 400

#define DEFAULT_FUEL 20000000u
#define DEFAULT_DEPTH 600
#define DEFAULT_OUTPUT_BYTES ((size_t)64 << 20)
#define DEFAULT_MEMORY_BYTES ((size_t)192 << 20)

/* The source, or what a name stands for, with \n for every line end, less one at its very end
 * and a byte order mark, which some editors write and which would begin every prompt. */
static char *normalise(struct work *w, const char *source, size_t *n)
{
    const struct builtin_template *named = builtin_template_find(source, *n);
    if (named) {
        source = named->source;
        *n = strlen(source);
    }
    char *out = work_bytes(w, *n + 1);
    size_t len = 0;
    for (size_t i = utf8_mark(source, *n); i < *n; i++) {
        if (source[i] == '\r' && i + 1 < *n && source[i + 1] == '\n') continue;
        out[len++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (len && out[len - 1] == '\n') len--;
    *n = len;
    return out;
}

struct template *template_parse(const char *source, size_t n, const char *name, struct err *err)
{
    if (n > MAX_SOURCE_BYTES) {
        err_set(err, ERR_FORMAT, "%s: a template of %zu bytes; at most %zu are read", name, n,
                MAX_SOURCE_BYTES);
        return NULL;
    }
    if (!utf8_valid(source, n)) {
        err_set(err, ERR_FORMAT, "%s: the template is not UTF-8", name);
        return NULL;
    }
    struct template *t = mem_zalloc(1, sizeof *t);
    work_init(&t->work);
    t->name = mem_strdup(name);
    t->work.name = t->name;
    t->work.max_bytes = MAX_PARSE_BYTES;
    t->work.max_depth = MAX_PARSE_DEPTH;
    t->work.err = err;
    if (setjmp(t->work.out)) {
        template_free(t);
        return NULL;
    }
    size_t len = n;
    const char *text = normalise(&t->work, source, &len);
    parse(t, text, len);
    t->work.err = NULL; /* the caller's; nothing here fails any more */
    return t;
}

void template_free(struct template *t)
{
    if (!t) return;
    work_free(&t->work);
    free(t->name);
    free(t);
}

static bool is_among(const struct dict *names, const char *name)
{
    struct work scratch; /* a look-up only counts steps */
    work_init(&scratch);
    return dict_get_text(&scratch, names, text_literal(name)) != NULL;
}

bool template_mentions(const struct template *t, const char *name)
{
    return is_among(t->names, name);
}

bool template_has_variable(const struct template *t, const char *name)
{
    return is_among(t->variables, name);
}

/* Hands the text and its runs to the caller, who frees them long after the values are gone. */
static void keep(struct rendering *out, struct text t)
{
    size_t n_runs = 0;
    struct origin_run run;
    while (text_run(&t, n_runs, &run))
        n_runs++;
    out->text = mem_strndup(t.data, t.len);
    out->len = t.len;
    out->runs = mem_zalloc(n_runs, sizeof *out->runs);
    out->n_runs = n_runs;
    for (size_t i = 0; i < n_runs; i++)
        text_run(&t, i, &out->runs[i]);
}

static void set_limits(struct work *w, const struct template_options *o)
{
    w->fuel = o->fuel ? o->fuel : DEFAULT_FUEL;
    w->max_depth = o->max_depth ? o->max_depth : DEFAULT_DEPTH;
    w->max_string_bytes = o->max_output_bytes ? o->max_output_bytes : DEFAULT_OUTPUT_BYTES;
    w->max_bytes = o->max_memory_bytes ? o->max_memory_bytes : DEFAULT_MEMORY_BYTES;
}

static void render(struct work *w, const struct template *t, const struct value *globals,
                   const struct tm *now, struct rendering *out)
{
    if (globals->type != VALUE_DICT)
        work_fail(w, "the variables are a %s, not a dict", value_type_name(globals));
    struct builder output;
    builder_init(&output, w);
    struct scope top = {.context = &top};
    struct eval e = {.w = w,
                     .t = t,
                     .globals = globals->dict,
                     .scope = &top,
                     .out = &output,
                     .body = &value_none_const,
                     .now = now};
    exec(&e, &t->body);
    keep(out, builder_take(&output));
}

/* The one place that work_fail jumps back to; false then. */
static bool guarded(struct work *w, const struct template *t, const struct value *globals,
                    const struct tm *now, struct rendering *out)
{
    if (setjmp(w->out)) return false;
    render(w, t, globals, now, out);
    return true;
}

bool template_render(const struct template *t, const struct value *globals,
                     const struct template_options *options, struct rendering *out,
                     struct err *err)
{
    static const struct template_options defaults;
    struct work w;
    work_init(&w);
    w.name = t->name;
    w.err = err;
    if (!options) options = &defaults;
    set_limits(&w, options);
    *out = (struct rendering){NULL, 0, NULL, 0};
    bool ok = guarded(&w, t, globals, options->now, out);
    work_free(&w);
    return ok;
}

void rendering_free(struct rendering *r)
{
    free(r->text);
    free(r->runs);
    *r = (struct rendering){NULL, 0, NULL, 0};
}
