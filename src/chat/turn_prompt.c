/* The prompt of a turn: the conversation through the template, and what of it goes where the
 * context is full. */
#include "base/printable.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "chat/render.h"
#include "config/options.h"
#include "engine/engine.h"
#include "text/spans.h"

/* ---- the template ---- */

static bool has_text(const struct spans *prompt)
{
    for (size_t i = 0; i < prompt->n; i++)
        if (prompt->list[i].kind == SPAN_TEXT) return true;
    return false;
}

static void explain_prompt(struct chat *c, const struct spans *prompt, bool folded)
{
    if (!has_text(prompt) && !c->said.no_text) {
        chat_tell(c, FACE_WARNING,
                  "the template leaves out what you say: the model sees only its own words%s",
                  c->face->has_prompt ? " (/show prompt)" : "");
        c->said.no_text = true;
    }
    if (folded && !c->said.folded) {
        chat_tell(c, FACE_WARNING,
                  "the template takes no system message; it stands before your first message");
        c->said.folded = true;
    }
    if (render_think_of(c->options->think) != RENDER_THINK_DEFAULT &&
        !render_knows_think(c->renderer) && !c->said.no_think) {
        chat_tell(c, FACE_WARNING,
                  "the template cannot turn thinking on or off; the model does as it does");
        c->said.no_think = true;
    }
}

static bool render(struct chat *c, struct conversation *of, struct spans *prompt,
                   struct err *err)
{
    bool folded = false;
    enum render_think think = render_think_of(c->options->think);
    bool ok = c->turn.base ? render_continued(c->renderer, of, think, prompt, &folded, err)
                           : render_prompt(c->renderer, of, think, prompt, &folded, err);
    if (ok) explain_prompt(c, prompt, folded);
    return ok;
}

bool turn_whole(struct chat *c, struct spans *out, struct err *err)
{
    size_t n = conversation_n(c->conversation);
    bool folded, has_reply = conversation_at(c->conversation, n - 1)->role == ROLE_REPLY;
    enum render_think think = render_think_of(c->options->think);
    return has_reply ? render_continued(c->renderer, c->conversation, think, out, &folded, err)
                     : render_prompt(c->renderer, c->conversation, think, out, &folded, err);
}

/* ---- a full context ---- */

/* Messages of the n oldest turns. */
static size_t n_messages_of(struct chat *c, size_t n)
{
    const struct message *const *path = conversation_path(c->conversation);
    size_t i = 0;
    for (; n > 0; n--)
        do
            i++;
        while (path[i]->role != ROLE_USER);
    return i;
}

/* What the engine makes of it: a mark that the template wrote is one token. */
static size_t count_tokens(struct chat *c, const struct spans *prompt)
{
    struct ids ids = {0};
    struct err ignored;
    const size_t n = engine_prompt_ids(c->engine, prompt, &ids, &ignored) ? ids.n : 0;
    ids_free(&ids);
    return n;
}

size_t turn_count(struct chat *c)
{
    struct spans prompt = {0};
    struct err ignored;
    const size_t n = turn_whole(c, &prompt, &ignored) ? count_tokens(c, &prompt) : 0;
    spans_free(&prompt);
    return n;
}

/* The tokens of the prompt without its n oldest turns. */
static size_t count_without(struct chat *c, size_t n)
{
    struct conversation *rest = conversation_new();
    struct spans prompt = {0};
    struct err ignored;
    const size_t first = n_messages_of(c, n);
    const struct message *const *path = conversation_path(c->conversation);
    conversation_set_system(rest, conversation_system(c->conversation));
    for (size_t i = first; i < conversation_n(c->conversation); i++)
        conversation_add(rest, message_retain(path[i]));
    const size_t n_tokens = render(c, rest, &prompt, &ignored) ? count_tokens(c, &prompt) : 0;
    spans_free(&prompt);
    conversation_free(rest);
    return n_tokens;
}

/* The fewest of the oldest turns without which the prompt has that many tokens at most: all but
 * the last, if it takes so many or more. */
static size_t n_turns_over(struct chat *c, size_t n_tokens)
{
    size_t low = 1, high = conversation_n_turns(c->conversation) - 1;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (count_without(c, middle) <= n_tokens)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void drop_oldest_turns(struct chat *c, size_t n)
{
    const struct message *last = conversation_at(c->conversation, n_messages_of(c, n - 1));
    printable(c->turn.dropped, CHAT_QUOTE_BYTES, last->text, last->len);
    c->turn.n_dropped = n;
    conversation_drop_oldest(c->conversation, n_messages_of(c, n));
}

/* --overflow trim: a quarter of the context, or --max-tokens if that is less, is to be left for
 * the reply. If it is not, turns are dropped until another quarter is free: what is left is
 * computed and saved again, which is not to happen at every turn. A last message that is too
 * large for that only drops what it must. */
static bool make_room(struct chat *c, struct spans *prompt, struct err *err)
{
    const size_t n_ctx = engine_info(c->engine)->n_ctx;
    size_t room = n_ctx / 4;
    if (c->options->max_tokens >= 0 && (size_t)c->options->max_tokens < room)
        room = (size_t)c->options->max_tokens;
    const size_t n_turns = conversation_n_turns(c->conversation);
    if (count_tokens(c, prompt) + room <= n_ctx || n_turns < 2) return true;
    const size_t wished = n_ctx - room - n_ctx / 4;
    size_t n = n_turns_over(c, wished);
    if (count_without(c, n) > wished) n = n_turns_over(c, n_ctx - room);
    drop_oldest_turns(c, n);
    spans_clear(prompt);
    return render(c, c->conversation, prompt, err);
}

bool turn_prompt(struct chat *c, struct spans *out, struct err *err)
{
    return render(c, c->conversation, out, err) &&
           (c->options->overflow != OVERFLOW_TRIM || make_room(c, out, err));
}

void turn_tell_dropped(struct chat *c)
{
    const size_t n = c->turn.n_dropped;
    if (n == 1)
        chat_tell(c, FACE_WARNING, "the context is full: dropped the oldest turn, \"%s\"",
                  c->turn.dropped);
    else if (n > 1)
        chat_tell(c, FACE_WARNING,
                  "the context is full: dropped the %zu oldest turns, up to \"%s\"", n,
                  c->turn.dropped);
    c->turn.n_dropped = 0;
}

const char *turn_room_hint(const struct chat *c, size_t n_turns)
{
    if (n_turns < 2 || c->options->overflow == OVERFLOW_TRIM) return "";
    return c->face->has_prompt ? "; /trim drops the oldest turns"
                               : "; --overflow trim drops the oldest turns";
}
