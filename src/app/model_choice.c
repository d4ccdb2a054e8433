#include "app/model_choice.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/models.h"
#include "base/printable.h"
#include "chat/discover.h"
#include "chat/modelfile.h"
#include "config/paths.h"
#include "gguf/gguf.h"
#include "ui/term.h"

static const char guide_file[] = "guide-q8_0.gguf";

__attribute__((format(printf, 2, 3))) static void tell(struct options *o, const char *fmt, ...)
{
    struct term err = term_of(STDERR_FILENO, o);
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    err.colour = false;
    term_message(&err, STYLE_WARNING, buf_str(&text));
    options_note(o, buf_str(&text));
    buf_free(&text);
}

static void tell_lines(struct options *o, struct buf *notes)
{
    char *lines = buf_take(notes), *rest = lines;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line) tell(o, "%s", line);
    free(lines);
}

/* Frees m. Its own adapter, if it has one, counts where no other is given. A model that was
 * chosen is remembered when it opens, as after /model. */
static bool take(struct options *o, enum option_from from, struct found_model *m,
                 struct err *err)
{
    const char *adapter = m->parts[FOUND_ADAPTER];
    struct buf notes = {0};
    modelfile_read(m, &o->listed, &notes);
    tell_lines(o, &notes);
    bool ok = options_give(o, OPT_MODEL, from, 0, m->parts[FOUND_WEIGHTS], err);
    if (ok && adapter && !option_given(o, OPT_LORA))
        ok = options_give(o, OPT_LORA, from, 0, adapter, err);
    found_model_free(m);
    return ok;
}

static bool take_guide(struct options *o, char *guide, struct err *err)
{
    if (!guide)
        return err_set(err, ERR_USER,
                       "no model: name one with -m FILE (the bundled guide is neither beside "
                       "the program nor in %s/share/hearth/guide)",
                       HEARTH_PREFIX);
    if (!o->quiet)
        tell(o, "this is the bundled guide, a tiny model that knows only hearth; load a real "
                "one with hearth -m MODEL.gguf (hearth models lists those found here)");
    struct found_model m = {.parts = {[FOUND_WEIGHTS] = guide}};
    return take(o, FROM_BUILTIN, &m, err);
}

static bool is_guide(const struct found_model *m, const char *guide)
{
    char *real = guide ? realpath(guide, NULL) : NULL;
    char *other = realpath(m->parts[FOUND_WEIGHTS], NULL);
    const bool same = real && other && strcmp(real, other) == 0;
    free(real);
    free(other);
    return same && !m->parts[FOUND_ADAPTER] && !m->parts[FOUND_SYSTEM];
}

/* What was given, without the folder of the INI file that makes a path of it. */
static const char *given_name(const struct options *o)
{
    const enum option_from from = o->source[OPT_MODEL].from;
    const char *slash = o->ini_path ? strrchr(o->ini_path, '/') : NULL;
    const size_t n = slash ? (size_t)(slash + 1 - o->ini_path) : 0;
    bool in_file = from == FROM_HEARTH || from == FROM_PROFILE;
    return in_file && strncmp(o->model, o->ini_path, n) == 0 ? o->model + n : o->model;
}

/* A file goes before a name. What looks like the path of a file is left for the error of that,
 * unless there is a place that names it. */
static bool take_named(struct options *o, struct err *err)
{
    if (access(o->model, F_OK) == 0) return true;
    const int why = errno;
    const enum option_from from = o->source[OPT_MODEL].from;
    const char *name = given_name(o);
    const size_t n = strlen(name);
    struct found_model m;
    char shown[512];
    if (discover_named(name, &m, err)) return take(o, from, &m, err);
    if (strchr(name, '/') || (n > 5 && strcmp(name + n - 5, ".gguf") == 0)) {
        if (from == FROM_FLAG) return true;
        err_set(err, ERR_IO, "%s: %s",
                printable(shown, sizeof shown, o->model, strlen(o->model)), strerror(why));
    }
    return options_blame(o, OPT_MODEL, err);
}

int model_needed(struct options *o, const char *command)
{
    struct err err;
    if (!o->model || !*o->model) return usage_error(command, "-m FILE is missing");
    return take_named(o, &err) ? COMMAND_LINE_GO : runtime_error(&err);
}

/* The model of last time into m: the file at a path, or what is listed by a name. One that is
 * gone, say with its disk, is missed in words. */
static bool remembered(struct options *o, struct found_model *m)
{
    bool is_there;
    struct err gone;
    char *model = paths_remembered_model(&is_there), shown[512];
    *m = (struct found_model){0};
    if (!model) return false;
    if (*model != '/') {
        is_there = discover_named(model, m, &gone);
        if (!is_there) tell(o, "the model of last time is missing: %s", gone.msg);
        free(model);
    } else if (is_there) {
        m->parts[FOUND_WEIGHTS] = model;
    } else {
        if (access(model, R_OK) != 0)
            tell(o, "the model of last time cannot be read: %s: %s",
                 printable(shown, sizeof shown, model, strlen(model)), strerror(errno));
        free(model);
    }
    return is_there;
}

static bool choose(struct options *o, bool *leaves, bool *of_last_time, struct err *err)
{
    *of_last_time = false;
    if (o->model) return take_named(o, err);
    struct found_model m;
    char *guide = paths_guide(guide_file);
    bool is_there = *of_last_time = remembered(o, &m);
    enum option_from from = FROM_BUILTIN;
    if (!is_there && leaves) {
        struct err ignored;
        const enum models_answer answer = models_offer(&m);
        is_there = answer == MODELS_CHOSEN;
        *leaves = answer == MODELS_LEFT;
        from = FROM_SET;
        /* The next start does not ask again. */
        if (answer == MODELS_DECLINED && guide && !o->private_mode)
            paths_remember_model(guide, &ignored);
    }
    if (leaves && *leaves) {
        free(guide);
        return false;
    }
    if (!is_there || is_guide(&m, guide)) {
        found_model_free(&m);
        return take_guide(o, guide, err);
    }
    free(guide);
    return take(o, from, &m, err);
}

bool model_choose(struct options *o, bool *leaves, struct err *err)
{
    bool of_last_time;
    if (leaves) *leaves = false;
    if (!choose(o, leaves, &of_last_time, err)) return false;
    struct err wrong;
    struct gguf *g = gguf_open(o->model, &wrong);
    if (!g) {
        if (of_last_time) tell(o, "the model of last time does not open; -m names another");
        return true;
    }
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *key = option_row((enum option_id)i)->model_key;
        double value;
        if (key && gguf_f64(g, key, &value) && !options_apply_model(o, key, value, &wrong))
            tell(o, "%s", wrong.msg);
    }
    gguf_close(g);
    struct buf notes = {0};
    options_apply_listed(o, &notes);
    tell_lines(o, &notes);
    return true;
}
