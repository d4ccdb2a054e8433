#include "chat/export.h"

#include <string.h>

#include "chat/conversation.h"

static void put_part(struct buf *out, const char *title, const char *text, size_t n)
{
    while (n > 0 && text[n - 1] == '\n')
        n--;
    buf_printf(out, "%s## %s\n\n", out->len ? "\n" : "", title);
    buf_append(out, text, n);
    buf_putc(out, '\n');
}

void export_markdown(struct conversation *c, struct buf *out)
{
    const char *system = conversation_system(c);
    const struct message *const *path = conversation_path(c);
    if (system) put_part(out, "System", system, strlen(system));
    for (size_t i = 0; i < conversation_n(c); i++) {
        if (path[i]->role == ROLE_USER)
            put_part(out, "User", path[i]->text, path[i]->len);
        else
            put_part(out, "Assistant", path[i]->answer, path[i]->answer_len);
    }
}
