/* What /read or a paste puts before the next message. */
#include "base/ascii.h"
#include "base/readable.h"
#include "chat/impl.h"
#include "engine/engine.h"

void chat_put_before(struct chat *c, const char *text, size_t n)
{
    buf_append(&c->attached.text, text, n);
    buf_puts(&c->attached.text, "\n\n");
    c->attached.has_paste = true;
    idle_forget(c);
}

void chat_put_size(struct chat *c, size_t n_bytes, const char *text, size_t n, struct buf *out)
{
    const long n_tokens = c->engine ? engine_count_tokens(c->engine, text, n) : -1;
    char count[READABLE_BYTES];
    buf_puts(out, readable_count(count, n_bytes, "byte"));
    if (n_tokens >= 0)
        buf_printf(out, ", %s", readable_count(count, (uint64_t)n_tokens, "token"));
}

void chat_tell_paste(struct chat *c, const char *text, size_t n)
{
    struct buf size = {0};
    chat_put_size(c, n, text, n, &size);
    chat_tell(c, FACE_INFO,
              "pasted %s; they go before your next message, Return alone sends them, Ctrl-C "
              "drops them",
              size.data);
    buf_free(&size);
}

void chat_attach(struct chat *c, const char *text, size_t n)
{
    if (ascii_is_blank(text, n)) return;
    n = ascii_without_ends(text, n);
    chat_put_before(c, text, n);
    chat_tell_paste(c, text, n);
}

void chat_drop_attached(struct chat *c)
{
    buf_clear(&c->attached.text);
    c->attached.has_paste = false;
}

bool chat_detach(struct chat *c)
{
    if (c->attached.text.len == 0) return false;
    chat_drop_attached(c);
    idle_forget(c);
    chat_hint(c, "what was read or pasted is dropped");
    return true;
}

bool chat_has_paste(const struct chat *c)
{
    return c->attached.has_paste && c->attached.text.len > 0;
}
