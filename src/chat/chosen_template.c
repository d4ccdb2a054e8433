/* The template that counts: that of --template, the model's own, or ChatML. */
#include <string.h>

#include "base/file.h"
#include "chat/impl.h"
#include "chat/render.h"
#include "config/options.h"
#include "engine/engine.h"
#include "template/template.h"

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

bool template_read(struct chat *c, struct err *err)
{
    const char *path = c->options->template_path;
    if (!path) return true;
    struct buf text = {0};
    bool ok = true;
    if (options_file(c->options, OPT_TEMPLATE))
        ok = file_read(path, MAX_TEMPLATE_BYTES, &text, err) || err_prefix(err, "the template");
    else
        buf_puts(&text, template_builtin(path));
    ok = ok && set_renderer(c, buf_str(&text), text.len, path, err);
    if (ok) c->template.text = buf_take(&text);
    buf_free(&text);
    return ok;
}

bool template_choose(struct chat *c, struct err *err)
{
    const struct engine_info *info = engine_info(c->engine);
    if (c->template.text) {
        c->template.from = "--template";
        return set_renderer(c, c->template.text, strlen(c->template.text),
                            c->options->template_path, err);
    }
    if (!info->chat_template) {
        c->template.from = "ChatML, since the model has none";
        chat_tell(
            c, FACE_WARNING,
            "the model has no chat template; using ChatML (--template raw gives it the text "
            "as it stands, --template FILE another)");
        return set_renderer(c, template_chatml, strlen(template_chatml), "ChatML", err);
    }
    c->template.from = "the model's own";
    if (set_renderer(c, info->chat_template, strlen(info->chat_template), "chat template", err))
        return true;
    err_write_prefix(err,
                     "the model's template cannot be used (--template FILE gives another)");
    return false;
}
