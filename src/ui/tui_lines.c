/* A line goes to the chat, and what it may have set comes to the face. */
#include <unistd.h>

#include "base/ascii.h"
#include "chat/chat.h"
#include "config/options.h"
#include "ui/screen.h"
#include "ui/term.h"
#include "ui/transcript.h"
#include "ui/tui_impl.h"

bool tui_shows_reasoning(const struct tui *t)
{
    return chat_options(t->chat)->think != THINK_HIDE;
}

void tui_take_options(struct tui *t, const struct options *o)
{
    t->quiet = o->quiet;
    t->verbose = o->verbose;
    t->no_stream = o->no_stream;
    screen_set_colour(term_of(STDOUT_FILENO, o).colour);
}

void tui_submit(struct tui *t, const struct buf *line, bool is_pasted)
{
    const char *text = buf_str(line);
    const bool is_command = !is_pasted && chat_wants_slash(text, line->len) && text[1] != '/';
    if (ascii_is_blank(text, line->len) && !chat_has_paste(t->chat)) return;
    t->reply.cancelled_ms = 0;
    transcript_begin(t->transcript, is_command ? text : NULL);
    if (is_pasted || ascii_is_blank(text, line->len))
        chat_say(t->chat, text, line->len);
    else
        chat_line(t->chat, text, line->len);
    tui_take_options(t, chat_options(t->chat));
    if (chat_state(t->chat) == CHAT_IDLE)
        transcript_sync(t->transcript, t->chat, tui_shows_reasoning(t));
    t->frame.is_due = true;
}
