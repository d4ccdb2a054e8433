#include "chat/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "chat/archive.h"
#include "chat/impl.h"
#include "chat/sessions.h"

const struct message *const *chat_path_now(const struct chat *c, size_t *n)
{
    *n = conversation_n(c->conversation);
    return conversation_path(c->conversation);
}

const struct conversation *chat_conversation(const struct chat *c)
{
    return c->conversation;
}

unsigned chat_n_read(const struct chat *c)
{
    return c->session.n_read;
}

static enum chat_saved saved(const struct chat *c)
{
    if (!c->session.archive) return CHAT_PRIVATE;
    if (archive_is_read_only(c->session.archive)) return CHAT_READ_ONLY;
    if (c->session.save_failed) return CHAT_UNSAVED;
    return archive_has_file(c->session.archive) ? CHAT_SAVED : CHAT_NEW;
}

static const struct message *last_message(const struct chat *c)
{
    size_t n = conversation_n(c->conversation);
    return n > 0 ? conversation_at(c->conversation, n - 1) : NULL;
}

void context_set(struct chat *c, uint32_t n_used, uint32_t n_warm)
{
    c->context = (struct context){.n_used = n_used,
                                  .n_warm = n_warm,
                                  .n_messages = conversation_n(c->conversation),
                                  .last = last_message(c)};
}

/* Whether nothing has changed the conversation since its tokens were counted. */
static bool is_known(const struct chat *c)
{
    return c->context.n_messages == conversation_n(c->conversation) &&
           c->context.last == last_message(c);
}

void context_forget(struct chat *c)
{
    c->context = (struct context){.n_messages = SIZE_MAX};
}

/* After a change that the engine has not been told of: what of it is warm nobody knows. */
static void guess_context(struct chat *c)
{
    const bool is_empty = conversation_n(c->conversation) == 0;
    context_set(c, is_empty ? 0 : (uint32_t)turn_count(c), 0);
    c->context.is_guess = !is_empty;
}

struct chat_status chat_status(struct chat *c)
{
    if (c->state == CHAT_IDLE && !is_known(c)) guess_context(c);
    struct chat_status out = {.saved = saved(c),
                              .n_used = c->context.n_used,
                              .n_warm = c->context.n_warm,
                              .is_exact = is_known(c) && !c->context.is_guess,
                              .n_drawn = c->context.n_drawn};
    if (c->session.archive) {
        char *name = sessions_name(archive_path(c->session.archive));
        printable(out.session, sizeof out.session, name, strlen(name));
        free(name);
    }
    if (c->state == CHAT_LOADING || c->state == CHAT_FAILED) return out;
    const struct engine_info *info = engine_info(c->engine);
    printable(out.model, sizeof out.model, info->name, strlen(info->name));
    printable(out.device, sizeof out.device, info->device, strlen(info->device));
    out.n_ctx = info->n_ctx;
    return out;
}

bool chat_wants_slash(const char *text, size_t n)
{
    return n > 0 && text[0] == '/' && !memchr(text, '\n', n);
}
