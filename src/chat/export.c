#include "chat/export.h"

#include <inttypes.h>
#include <string.h>

#include "base/ascii.h"
#include "base/json.h"
#include "chat/conversation.h"

enum export_format export_format_of(const char *path)
{
    const char *end = strrchr(path, '.');
    if (end && ascii_same(end, ".json")) return EXPORT_JSON;
    if (end && (ascii_same(end, ".txt") || ascii_same(end, ".text"))) return EXPORT_PLAIN;
    return EXPORT_MARKDOWN;
}

const char *export_format_name(enum export_format format)
{
    static const char *const names[] = {
        [EXPORT_MARKDOWN] = "Markdown", [EXPORT_PLAIN] = "plain text", [EXPORT_JSON] = "JSON"};
    return names[format];
}

static void put_part(struct buf *out, enum export_format format, const char *title,
                     const char *text, size_t n)
{
    while (n > 0 && text[n - 1] == '\n')
        n--;
    if (out->len) buf_putc(out, '\n');
    buf_printf(out, format == EXPORT_MARKDOWN ? "## %s\n\n" : "%s:\n", title);
    buf_append(out, text, n);
    buf_putc(out, '\n');
}

static void put_text(struct conversation *c, enum export_format format, struct buf *out)
{
    const char *system = conversation_system(c);
    if (system) put_part(out, format, "System", system, strlen(system));
    const struct message *const *path = conversation_path(c);
    for (size_t i = 0; i < conversation_n(c); i++) {
        const struct message *m = path[i];
        if (m->role == ROLE_USER)
            put_part(out, format, "User", m->text, m->len);
        else
            put_part(out, format, "Assistant", m->answer, m->answer_len);
    }
}

static void put_message(const struct message *m, struct buf *out)
{
    bool user = m->role == ROLE_USER;
    buf_printf(out, "    {\"role\": \"%s\", \"content\": ", user ? "user" : "assistant");
    json_quote(out, user ? m->text : m->answer, user ? m->len : m->answer_len);
    if (!user && m->reasoning_len > 0) {
        buf_puts(out, ", \"reasoning\": ");
        json_quote(out, m->text + m->reasoning_at, m->reasoning_len);
    }
    if (!user) buf_printf(out, ", \"seed\": \"%" PRIu64 "\"", m->seed);
    if (!user && m->stop) buf_printf(out, ", \"stop\": \"%s\"", m->stop);
    buf_putc(out, '}');
}

static void put_json(struct conversation *c, struct buf *out)
{
    const char *system = conversation_system(c);
    buf_puts(out, "{\n  \"system\": ");
    if (system)
        json_quote(out, system, strlen(system));
    else
        buf_puts(out, "null");
    buf_puts(out, ",\n  \"messages\": [");
    const struct message *const *path = conversation_path(c);
    for (size_t i = 0; i < conversation_n(c); i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_message(path[i], out);
    }
    buf_puts(out, "\n  ]\n}\n");
}

void export_conversation(struct conversation *c, enum export_format format, struct buf *out)
{
    if (format == EXPORT_JSON)
        put_json(c, out);
    else
        put_text(c, format, out);
}
