/* What a model says of the options: the keys of its file. */
#include <stdio.h>
#include <string.h>

#include "config/options.h"

bool options_apply_model(struct options *o, const char *key, double value, struct err *err)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (!row->model_key || strcmp(row->model_key, key) != 0) continue;
        char text[40];
        snprintf(text, sizeof text, "%.9g", value);
        return options_give(o, (enum option_id)i, FROM_MODEL, 0, text, err) ||
               o->source[i].from > FROM_MODEL ||
               err_prefix(err, "the model's %s is not taken", key);
    }
    return true;
}

void options_forget_model(struct options *o)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (o->source[i].from == FROM_MODEL) options_forget(o, (enum option_id)i);
}
