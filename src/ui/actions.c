#include "ui/actions.h"

#include "ui/keys.h"

static const struct action_row table[N_ACTIONS] = {{"", "", "", ""},
#define X(id, name, line, view, help) {name, line, view, help},
                                                   ACTIONS(X)
#undef X
};

const struct action_row *action_row(enum action action)
{
    return &table[action];
}

enum action action_of_key(const char *key)
{
    for (int i = 1; i < N_ACTIONS; i++)
        if (key_is_in(key, table[i].view)) return (enum action)i;
    return ACTION_NONE;
}
