/* hearth inspect prompt: what a chat template makes of variables from a JSON file. */
#include "app/inspect.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "app/command_line.h"
#include "app/model_choice.h"
#include "base/ascii.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/printable.h"
#include "gguf/gguf.h"
#include "template/builtin_templates.h"
#include "template/template.h"
#include "text/tokenizer.h"
#include "text/turn_template.h"

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

/* What stands in for the template that the model of g lacks. A vocabulary that cannot be used
 * tells nothing. */
static void put_stand_in(const struct args *a, const struct gguf *g, struct buf *source)
{
    struct err ignored;
    struct tokenizer *tok = tokenizer_open(g, NULL, &ignored);
    const struct builtin_template *told = tok ? turn_template(tok) : NULL;
    struct buf why = {0};
    char shown[256];
    builtin_template_why(told, &why);
    fprintf(stderr, "hearth: %s has no chat template%s\n",
            printable(shown, sizeof shown, a->model, strlen(a->model)), buf_str(&why));
    buf_puts(source, builtin_template_stand_in(told)->source);
    buf_free(&why);
    tokenizer_close(tok);
}

/* The template's text from the model or the file, appended to source; *name is what it is
 * called.
 */
static bool read_source(const struct args *a, struct buf *source, const char **name,
                        struct err *err)
{
    if (a->template_file) {
        *name = a->template_file;
        const char *builtin = template_builtin(a->template_file);
        if (builtin) {
            buf_puts(source, builtin);
            return true;
        }
        return file_read(a->template_file, MAX_FILE_BYTES, source, err);
    }
    struct gguf *g = gguf_open(a->model, err);
    if (!g) return false;
    struct gguf_str text;
    *name = "chat template";
    if (gguf_string(g, "tokenizer.chat_template", &text) &&
        !ascii_is_blank(text.data, text.len)) {
        buf_append(source, text.data, text.len);
    } else {
        put_stand_in(a, g, source);
    }
    gguf_close(g);
    return true;
}

/* *is_wrong: the variables are no JSON object. */
static bool render(const struct args *a, struct value_pool *pool, struct rendering *out,
                   bool *is_wrong, struct err *err)
{
    struct buf source = {0}, json = {0};
    const char *name = NULL;
    struct template *t = NULL;
    struct value *globals = NULL;
    bool ok = read_source(a, &source, &name, err);
    if (ok) t = template_parse(buf_str(&source), source.len, name, err);
    ok = t && file_read(a->context, MAX_FILE_BYTES, &json, err);
    if (ok) globals = value_from_json_context(pool, buf_str(&json), json.len, a->context, err);
    *is_wrong = ok && !globals;
    struct template_options options = {.now = a->has_now ? &a->now : NULL};
    ok = globals && template_render(t, globals, &options, out, err);
    template_free(t);
    buf_free(&source);
    buf_free(&json);
    return ok;
}

static int print_prompt(const struct args *a, const char *command)
{
    struct err err = {0};
    struct value_pool *pool = value_pool_new();
    struct rendering out = {0};
    bool is_wrong, ok = render(a, pool, &out, &is_wrong, &err);
    int status = EXIT_DONE;
    if (ok) {
        struct buf text = {0};
        buf_append(&text, out.text, out.len);
        status = print_text(&text);
    }
    rendering_free(&out);
    value_pool_free(pool);
    if (is_wrong) return usage_error(command, "%s", err.msg);
    return ok ? status : runtime_error(&err);
}

int inspect_prompt(const struct subcommand *self, int argc, char **argv)
{
    struct args a = {0};
    const char *now = NULL;
    const struct option_extra extra[] = {
        {.name = "template",
         .arg = "FILE",
         .value = &a.template_file,
         .help = "a template instead of a model's"},
        {.name = "context",
         .arg = "FILE",
         .value = &a.context,
         .help = "the variables, one JSON object"},
        {.name = "now",
         .arg = "TIME",
         .value = &now,
         .help = "the time it shall be, 2025-07-04T12:34:56"},
    };
    struct command_line line;
    int status = command_line_read(&line, self, extra, 3, argc, argv);
    if (status == COMMAND_LINE_GO) {
        struct err err;
        bool model_named = line.options->source[OPT_MODEL].from == FROM_FLAG;
        if (a.template_file ? model_named : !line.options->model)
            status = usage_error(line.args.command, "give either -m FILE or --template FILE");
        else if (!a.context)
            status = usage_error(line.args.command, "--context FILE.json is missing");
        else if (now && !parse_now(now, &a.now, &err))
            status = usage_error(line.args.command, "%s", err.msg);
        else if (!a.template_file)
            status = model_needed(line.options, line.args.command);
    }
    a.model = line.options->model;
    a.has_now = now != NULL;
    if (status == COMMAND_LINE_GO) status = print_prompt(&a, line.args.command);
    command_line_free(&line);
    return status;
}
