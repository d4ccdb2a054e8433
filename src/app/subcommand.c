#include "app/subcommand.h"

#include <string.h>

bool subcommand_is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

void subcommand_put_name(const struct subcommand *s, struct buf *out)
{
    buf_printf(out, "%s%s%s", s->name, s->what ? " " : "", s->what ? s->what : "");
}

void subcommand_put_usage(const struct subcommand *s, struct buf *out)
{
    buf_puts(out, "usage: hearth ");
    subcommand_put_name(s, out);
    buf_printf(out, "%s%s\n", *s->args ? " " : "", s->args);
}
