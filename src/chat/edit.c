/* What /edit has put into the prompt: until it is sent, or something else is done from there,
 * it can be given up, and the conversation is as it was. */
#include "chat/conversation.h"
#include "chat/impl.h"

void edit_begin(struct chat *c)
{
    c->before_edit = conversation_hold(c->conversation);
}

void edit_settle(struct chat *c)
{
    if (c->before_edit) conversation_drop(c->before_edit);
    c->before_edit = NULL;
}

bool edit_give_up(struct chat *c)
{
    if (!c->before_edit) return false;
    conversation_return(c->conversation, c->before_edit);
    c->before_edit = NULL;
    return true;
}

bool chat_unedit(struct chat *c)
{
    if (!edit_give_up(c)) return false;
    session_save(c, false);
    idle_forget(c);
    chat_hint(c, "the conversation is as it was before /edit");
    return true;
}
