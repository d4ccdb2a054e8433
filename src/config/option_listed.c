/* What goes with a model that is listed, as a value: options copy it, whoever switches models
 * keeps one. */
#include <stdlib.h>

#include "base/mem.h"
#include "config/options.h"

void option_listed_free(struct option_listed *listed)
{
    free(listed->name);
    free(listed->adapter);
    free(listed->settings);
    free(listed->system);
    *listed = (struct option_listed){0};
}

static char *copy_of(const char *s)
{
    return s ? mem_strdup(s) : NULL;
}

void option_listed_copy(struct option_listed *to, const struct option_listed *from)
{
    option_listed_free(to);
    *to = (struct option_listed){.name = copy_of(from->name),
                                 .adapter = copy_of(from->adapter),
                                 .settings = copy_of(from->settings),
                                 .system = copy_of(from->system)};
}
