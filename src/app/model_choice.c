#include "app/model_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/paths.h"
#include "gguf/gguf.h"

static const char guide_file[] = "guide-q8_0.gguf";

static bool take(struct options *o, char *path, struct err *err)
{
    bool ok = options_give(o, OPT_MODEL, FROM_BUILTIN, 0, path, err);
    free(path);
    return ok;
}

static bool choose(struct options *o, struct err *err)
{
    if (o->model) return true;
    char *path = o->private_mode ? NULL : paths_remembered_model();
    if (path) return take(o, path, err);
    path = paths_guide(guide_file);
    if (!path)
        return err_set(err, ERR_USER,
                       "no model: name one with -m FILE (the bundled guide is neither beside "
                       "the program nor in %s/share/hearth/guide)",
                       HEARTH_PREFIX);
    if (!o->quiet)
        fputs("hearth: this is the bundled guide, a tiny model that knows only hearth; "
              "load a real one with hearth -m MODEL.gguf\n",
              stderr);
    return take(o, path, err);
}

bool model_choose(struct options *o, struct err *err)
{
    if (!choose(o, err)) return false;
    struct err ignored;
    struct gguf *g = gguf_open(o->model, &ignored);
    if (!g) return true;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *key = option_row((enum option_id)i)->model_key;
        double value;
        if (key && gguf_f64(g, key, &value)) options_apply_model(o, key, value, NULL);
    }
    gguf_close(g);
    return true;
}
