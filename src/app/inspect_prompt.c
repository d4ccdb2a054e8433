#include "app/inspect.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "template/template.h"

#define MAX_FILE_BYTES ((size_t)256 << 20)

struct args {
    const char *model, *template_file, *context;
    bool has_now;
    struct tm now;
};

static bool parse_now(const char *s, struct tm *now, struct err *err)
{
    memset(now, 0, sizeof *now);
    const char *end = strptime(s, "%Y-%m-%dT%H:%M:%S", now);
    if (!end || *end)
        return err_set(err, ERR_USER,
                       "--now: expected a time like 2025-07-04T12:34:56, found '%s'", s);
    timegm(now); /* checks nothing, but completes the day of the week and of the year */
    return true;
}

static bool parse_args(int argc, char **argv, struct args *a, struct err *err)
{
    memset(a, 0, sizeof *a);
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool known = true;
        if (!strcmp(name, "-m") || !strcmp(name, "--model"))
            a->model = value;
        else if (!strcmp(name, "--template"))
            a->template_file = value;
        else if (!strcmp(name, "--context"))
            a->context = value;
        else if (strcmp(name, "--now"))
            known = false;
        if (!known)
            return err_set(err, ERR_USER, "inspect prompt: unknown argument '%s'", name);
        if (!value) return err_set(err, ERR_USER, "inspect prompt: %s needs a value", name);
        if (!strcmp(name, "--now")) {
            a->has_now = true;
            if (!parse_now(value, &a->now, err)) return false;
        }
    }
    if (!a->model == !a->template_file)
        return err_set(err, ERR_USER, "inspect prompt: give either -m FILE or --template FILE");
    if (!a->context)
        return err_set(err, ERR_USER, "inspect prompt: --context FILE.json is missing");
    return true;
}

/* The template's text from the model or the file, appended to source; *name is what it is
 * called.
 */
static bool read_source(const struct args *a, struct buf *source, const char **name,
                        struct err *err)
{
    if (a->template_file) {
        *name = a->template_file;
        return file_read(a->template_file, MAX_FILE_BYTES, source, err);
    }
    struct gguf *g = gguf_open(a->model, err);
    if (!g) return false;
    struct gguf_str text;
    *name = "chat template";
    if (gguf_string(g, "tokenizer.chat_template", &text)) {
        buf_append(source, text.data, text.len);
    } else {
        fprintf(stderr, "hearth: %s has no chat template; using ChatML\n", a->model);
        buf_puts(source, template_chatml);
    }
    gguf_close(g);
    return true;
}

static bool render(const struct args *a, struct value_pool *pool, struct rendering *out,
                   struct err *err)
{
    struct buf source = {0}, json = {0};
    const char *name = NULL;
    struct template *t = NULL;
    struct value *globals = NULL;
    bool ok = read_source(a, &source, &name, err);
    if (ok) t = template_parse(buf_str(&source), source.len, name, err);
    ok = t && file_read(a->context, MAX_FILE_BYTES, &json, err);
    if (ok) globals = value_from_json_context(pool, buf_str(&json), json.len, a->context, err);
    struct template_options options = {.now = a->has_now ? &a->now : NULL};
    ok = globals && template_render(t, globals, &options, out, err);
    template_free(t);
    buf_free(&source);
    buf_free(&json);
    return ok;
}

int inspect_prompt(int argc, char **argv)
{
    struct args a;
    struct err err = {0};
    if (!parse_args(argc, argv, &a, &err)) {
        fprintf(stderr, "hearth: %s\n", err.msg);
        return 2;
    }
    struct value_pool *pool = value_pool_new();
    struct rendering out = {0};
    bool ok = render(&a, pool, &out, &err);
    if (ok && (fwrite(out.text, 1, out.len, stdout) != out.len || fflush(stdout) != 0))
        ok = err_set(&err, ERR_IO, "standard output: writing failed");
    if (!ok) fprintf(stderr, "hearth: %s\n", err.msg);
    rendering_free(&out);
    value_pool_free(pool);
    return ok ? 0 : 1;
}
