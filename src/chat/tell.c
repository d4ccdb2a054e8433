/* What the chat says besides replies: filtered, and given to the face. */
#include <string.h>

#include "chat/conversation.h"
#include "chat/impl.h"

static const char *filtered(struct chat *c, const char *s, size_t n)
{
    buf_clear(&c->filtered);
    sanitise_all(s, n, &c->filtered);
    return buf_str(&c->filtered);
}

static void tell(struct chat *c, enum face_level level, const char *fmt, va_list ap)
{
    struct buf text = {0};
    buf_vprintf(&text, fmt, ap);
    while (text.len > 0 && text.data[text.len - 1] == '\n')
        text.len--;
    c->face->say(c->face->user, level, filtered(c, buf_str(&text), text.len));
    buf_free(&text);
}

void chat_tell(struct chat *c, enum face_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tell(c, level, fmt, ap);
    va_end(ap);
}

void chat_tell_lines(struct chat *c, const struct buf *lines)
{
    const char *line = buf_str(lines);
    while (*line) {
        const size_t n = strcspn(line, "\n");
        chat_tell(c, FACE_WARNING, "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

void chat_hint(struct chat *c, const char *fmt, ...)
{
    if (c->options->quiet) return;
    va_list ap;
    va_start(ap, fmt);
    tell(c, FACE_INFO, fmt, ap);
    va_end(ap);
}

void chat_offer(struct chat *c, const char *text, size_t n)
{
    if (c->face->is_terminal) {
        text = filtered(c, text, n);
        n = c->filtered.len;
    }
    c->face->offer(c->face->user, text, n);
}

void chat_tell_thinned(struct chat *c)
{
    /* Nobody goes back in a pipe that saves nothing. */
    if (!c->face->has_prompt && !c->session.archive) return;
    if (c->said.thinned || conversation_n_thinned(c->conversation) == 0) return;
    c->said.thinned = true;
    chat_tell(
        c, FACE_WARNING,
        "%d branches were left behind, and no more are kept: the oldest goes for each new "
        "one",
        CONVERSATION_MAX_LOOSE);
}
