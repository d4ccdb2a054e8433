/* A reply of the engine as a message: its text, and the ids that were sampled with their places
 * in it. Pure. */
#include "base/mem.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "engine/engine.h"

/* Appends ids with their places, moved by `shift`, to those of m. */
static void append_ids(struct message *m, const int32_t *ids, const size_t *id_at, size_t n,
                       size_t shift)
{
    m->ids = mem_resize(m->ids, m->n_ids + n + 1, sizeof *m->ids);
    m->id_at = mem_resize(m->id_at, m->n_ids + n + 1, sizeof *m->id_at);
    for (size_t i = 0; i < n; i++) {
        m->ids[m->n_ids + i] = ids[i];
        m->id_at[m->n_ids + i] = id_at[i] + shift;
    }
    m->n_ids += n;
    m->id_at[m->n_ids] = id_at[n] + shift;
}

static const struct message empty_reply = {
    .text = (char *)"", .ids = (int32_t[1]){0}, .id_at = (size_t[1]){0}};

struct message *reply_join(const struct message *base, const struct engine_reply *r)
{
    if (!base) base = &empty_reply;
    struct buf text = {0};
    buf_append(&text, base->text, base->len);
    buf_append(&text, r->text, r->text_len);
    struct message *m = message_new(ROLE_REPLY, buf_str(&text), text.len);
    buf_free(&text);
    append_ids(m, base->ids, base->id_at, base->n_ids, 0);
    if (m->id_at[m->n_ids] < base->len) {
        const int32_t none = -1;
        const size_t at[2] = {m->id_at[m->n_ids], base->len};
        append_ids(m, &none, at, 1, 0);
    }
    append_ids(m, r->ids, r->id_at, r->n_ids, base->len);
    bool had_content = base->content_at < base->len;
    m->content_at = had_content ? base->content_at : base->len + r->content_at;
    m->reasoning_at = base->reasoning_len ? base->reasoning_at : base->len + r->reasoning_at;
    size_t end = r->reasoning_len && !had_content
                     ? base->len + r->reasoning_at + r->reasoning_len
                     : base->reasoning_at + base->reasoning_len;
    m->reasoning_len = end > m->reasoning_at ? end - m->reasoning_at : 0;
    return m;
}

struct message *reply_without_ids(const char *text, size_t n)
{
    struct message *m = message_new(ROLE_REPLY, text, n);
    append_ids(m, NULL, &(size_t){0}, 0, 0);
    return m;
}
