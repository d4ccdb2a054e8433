/* What a model says of the options: the keys of its file, and what it is listed with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/options.h"

/* True also where somebody of more say has said otherwise. */
static bool give(struct options *o, enum option_id id, const char *value, struct err *err)
{
    return options_give(o, id, FROM_MODEL, 0, value, err) || o->source[id].from > FROM_MODEL;
}

bool options_apply_model(struct options *o, const char *key, double value, struct err *err)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (!row->model_key || strcmp(row->model_key, key) != 0) continue;
        char text[40];
        snprintf(text, sizeof text, "%.9g", value);
        return give(o, (enum option_id)i, text, err) ||
               err_prefix(err, "the model's %s is not taken", key);
    }
    return true;
}

/* "temp 0.6" */
static void give_line(struct options *o, const char *line, size_t n, struct buf *notes)
{
    const char *space = memchr(line, ' ', n);
    struct err err;
    if (!space) return;
    char *key = mem_strndup(line, (size_t)(space - line));
    char *value = mem_strndup(space + 1, n - (size_t)(space + 1 - line));
    const struct option_row *row = option_find(key);
    if (row && !give(o, option_id(row), value, &err))
        buf_printf(notes, "the model's %s is not taken: %s\n", key, err.msg);
    free(key);
    free(value);
}

/* Kept as a flag would say it, where a text that begins with @ is not the name of a file. */
static void give_system(struct options *o, struct buf *notes)
{
    struct buf text = {0};
    struct err err;
    if (o->source[OPT_SYSTEM].from > FROM_MODEL) return;
    options_forget(o, OPT_SYSTEM);
    buf_printf(&text, "%s%s", *o->listed.system == '@' ? "@" : "", o->listed.system);
    if (give(o, OPT_SYSTEM, buf_str(&text), &err))
        o->system = o->system_text = mem_strdup(o->listed.system);
    else
        buf_printf(notes, "the model's system message is not taken: %s\n", err.msg);
    buf_free(&text);
}

void options_apply_listed(struct options *o, struct buf *notes)
{
    const char *line = o->listed.settings ? o->listed.settings : "";
    while (*line) {
        const size_t n = strcspn(line, "\n");
        give_line(o, line, n, notes);
        line += n + (line[n] == '\n');
    }
    if (o->listed.system) give_system(o, notes);
}

void options_forget_model(struct options *o)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (o->source[i].from == FROM_MODEL) options_forget(o, (enum option_id)i);
}
