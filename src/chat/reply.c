/* A reply of the engine as a message: its text, and the ids that were sampled with their places
 * in it. Pure. */
#include "base/buf.h"
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

/* Reasoning begins or goes on before the answer; where there is none it is nowhere. */
static void join_reasoning(struct message *m, const struct message *base,
                           const struct engine_reply *r, bool goes_on)
{
    const size_t at = base->len + r->reasoning_at, end = at + r->reasoning_len;
    m->reasoning_at = base->reasoning_len > 0 ? base->reasoning_at : 0;
    m->reasoning_len = base->reasoning_len;
    if (!goes_on || r->reasoning_len == 0) return;
    if (base->reasoning_len == 0) m->reasoning_at = at;
    m->reasoning_len = end - m->reasoning_at;
}

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
    join_reasoning(m, base, r, !had_content);
    return m;
}

/* How many bytes of old's text stand at the beginning of its edited text, too. */
static size_t same_bytes(const struct message *old, const char *s, size_t n)
{
    const char *was = old->text + old->content_at;
    size_t n_was = old->len - old->content_at, same = 0;
    while (same < n && same < n_was && s[same] == was[same])
        same++;
    return old->content_at + same;
}

struct message *reply_edited(const struct message *old, const char *s, size_t n)
{
    struct buf text = {0};
    buf_append(&text, old->text, old->content_at);
    buf_append(&text, s, n);
    struct message *m = message_new(ROLE_REPLY, buf_str(&text), text.len);
    buf_free(&text);
    size_t same = same_bytes(old, s, n), kept = old->n_ids;
    while (kept > 0 && old->id_at[kept] > same)
        kept--;
    /* The last one kept must not be a token without text of its own: that one began a character
     * whose bytes come after, or ended the reply. */
    while (kept > 0 && old->id_at[kept - 1] == old->id_at[kept])
        kept--;
    const size_t none = 0;
    append_ids(m, old->ids, kept > 0 ? old->id_at : &none, kept, 0);
    m->content_at = old->content_at;
    /* Reasoning in the midst of the answer went with it. */
    if (old->reasoning_at + old->reasoning_len <= old->content_at) {
        m->reasoning_at = old->reasoning_at;
        m->reasoning_len = old->reasoning_len;
    }
    m->answer = mem_strndup(s, n);
    m->answer_len = n;
    m->vocabulary = old->vocabulary;
    m->seed = old->seed;
    m->attempt = old->attempt;
    m->stop = old->stop;
    return m;
}

struct message *reply_without_ids(const char *text, size_t n)
{
    struct message *m = message_new(ROLE_REPLY, text, n);
    append_ids(m, NULL, &(size_t){0}, 0, 0);
    return m;
}
