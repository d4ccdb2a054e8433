/* /verify: the conversation computed again from nothing, and every bit compared. */
#include <inttypes.h>

#include "base/readable.h"
#include "chat/impl.h"
#include "engine/engine.h"
#include "text/spans.h"

/* The engine holds what was computed last, which may be another branch: first it is brought to
 * this one, without a reply. */
bool verify_begin(struct chat *c)
{
    struct spans prompt = {0};
    struct err err;
    bool ok = turn_whole(c, &prompt, &err);
    if (ok) {
        atomic_store(&c->cancelled, false);
        c->state = CHAT_BUSY;
        c->work = WORK_VERIFY_SYNC;
        const struct engine_sampling none = chat_no_reply();
        idle_stop(c);
        engine_turn(c->engine, &prompt, &none);
        chat_cancel_late(c);
    } else {
        chat_tell(c, FACE_ERROR, "/verify: %s", err.msg);
    }
    spans_free(&prompt);
    return ok;
}

void verify_event(struct chat *c, const struct engine_event *event)
{
    const struct engine_verified *v = event->verified;
    if (event->kind == EVENT_PREFILL)
        c->face->progress(c->face->user, FACE_PREFILL, event->done, event->total,
                          event->cached);
    if (event->kind == EVENT_WARNING) chat_tell(c, FACE_WARNING, "%s", event->text);
    if (event->kind == EVENT_END && !atomic_load(&c->cancelled)) {
        c->work = WORK_VERIFY;
        engine_verify(c->engine);
        chat_cancel_late(c);
        return;
    }
    if (event->kind != EVENT_VERIFIED && event->kind != EVENT_FAILED &&
        event->kind != EVENT_END)
        return;
    char tokens[READABLE_BYTES], snapshots[READABLE_BYTES];
    c->state = CHAT_IDLE;
    if (event->kind == EVENT_END) return;
    if (!v)
        chat_tell(c, FACE_ERROR, "/verify: %s", event->err.msg);
    else if (v->difference)
        chat_tell(c, FACE_ERROR, "not the same bits: %s", v->difference);
    else
        chat_tell(c, FACE_INFO,
                  "the same bits: %s computed again in %.0f ms, %" PRIu64
                  " bytes of keys, values and logits compared, %s",
                  readable_count(tokens, v->n_tokens, "token"), v->ms, v->n_bytes,
                  readable_count(snapshots, v->n_snapshots, "snapshot"));
}
