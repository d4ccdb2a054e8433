/* The template that counts: that of --template, the model's own, or one that is built in. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/nearest.h"
#include "chat/impl.h"
#include "chat/render.h"
#include "config/options.h"
#include "engine/engine.h"
#include "template/builtin_templates.h"

#define MAX_TEMPLATE_BYTES ((size_t)16 << 20)

static bool set_renderer(struct chat *c, const char *source, size_t len, const char *name,
                         struct err *err)
{
    const struct engine_info *info = c->engine ? engine_info(c->engine) : NULL;
    const struct render_config config = {
        .source = source,
        .len = len,
        .name = name,
        .bos_text = info && info->bos_text ? info->bos_text : "",
        .eos_text = info && info->eos_text ? info->eos_text : "",
        .now_s = c->session.clock_s,
    };
    struct renderer *r = renderer_new(&config, err);
    if (!r) return false;
    renderer_free(c->renderer);
    c->renderer = r;
    return true;
}

/* A file that is not there, of a name that is nearly one that is built in. */
static bool suggest(const char *path, struct err *err)
{
    struct nearest nearest;
    const struct builtin_template *t;
    if (access(path, F_OK) == 0) return false;
    nearest_begin(&nearest, path);
    for (size_t i = 0; (t = builtin_template_at(i)); i++)
        nearest_offer(&nearest, t->name);
    if (!nearest.best) return false;
    const struct err why = *err;
    return err_set(err, why.code, "%s; did you mean %s, which is built in?", why.msg,
                   nearest.best);
}

bool template_read(struct chat *c, struct err *err)
{
    const char *path = c->options->template_path;
    if (!path) return true;
    struct buf text = {0};
    bool ok = true;
    if (options_file(c->options, OPT_TEMPLATE))
        ok = file_read(path, MAX_TEMPLATE_BYTES, &text, err) || suggest(path, err) ||
             err_prefix(err, "the template");
    else
        buf_puts(&text, template_builtin(path));
    ok = ok && set_renderer(c, buf_str(&text), text.len, path, err);
    if (ok) c->template.text = buf_take(&text);
    buf_free(&text);
    return ok;
}

/* The built-in one for the tokens of a model that brings none. */
static bool stand_in(struct chat *c, const struct builtin_template *told, struct err *err)
{
    const struct builtin_template *t = builtin_template_stand_in(told);
    struct buf why = {0};
    builtin_template_why(told, &why);
    chat_tell(c, FACE_WARNING, "the model has no chat template%s", buf_str(&why));
    buf_free(&why);
    c->template.from =
        told ? "for its tokens, since the model has none" : "since the model has none";
    c->template.stand_in = t->name;
    return set_renderer(c, t->source, strlen(t->source), t->name, err);
}

bool template_choose(struct chat *c, struct err *err)
{
    const struct engine_info *info = engine_info(c->engine);
    c->template.stand_in = NULL;
    if (c->template.text) {
        c->template.from = "--template";
        return set_renderer(c, c->template.text, strlen(c->template.text),
                            c->options->template_path, err);
    }
    if (!info->chat_template) return stand_in(c, info->turn_template, err);
    c->template.from = "the model's own";
    if (set_renderer(c, info->chat_template, strlen(info->chat_template), "chat template", err))
        return true;
    err_write_prefix(err,
                     "the model's template cannot be used (--template FILE gives another)");
    return false;
}
