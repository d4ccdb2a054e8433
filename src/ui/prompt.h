/* The prompt: readline, driven key by key, so that the loop of the face can wait for other
 * things as well.
 *
 * Readline is one per process, and so is this. The user's inputrc wins over the bindings made
 * here. While the prompt is shown the terminal is readline's; hidden, it is as ui/tty.h left
 * it. Knows nothing of chats. Main thread. */
#ifndef UI_PROMPT_H
#define UI_PROMPT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"

/* Prepares readline; out is where the prompt and what is typed are shown. What is pasted and
 * too large for the line goes to pasted: n bytes without control characters. */
void prompt_open(FILE *out, void (*pasted)(void *user, const char *s, size_t n), void *user);
void prompt_close(void);

/* Shows the prompt with an empty line, or with what prompt_fill left for it. marker may hold
 * \001 and \002 around what has no width. */
void prompt_show(const char *marker);
/* Puts a message into the line, now or when the prompt is shown next. */
void prompt_fill(const char *text, size_t n);
/* Whether the terminal has room for all of it there: of more rows only the first are drawn. */
bool prompt_fits(const char *s, size_t n);
bool prompt_is_shown(void);
bool prompt_is_empty(void);
/* Another marker for the prompt that is shown. */
void prompt_mark(const char *marker);
/* Takes the prompt off the screen, so that something can be printed where it was, and draws it
 * again below that, with what was typed. Nothing unless it is shown. */
void prompt_lift(void);
void prompt_drop(void);
/* Appends the line as far as it is typed. */
void prompt_text(struct buf *out);

enum prompt_got {
    PROMPT_MORE, /* nothing yet */
    PROMPT_LINE, /* Return */
    PROMPT_EOF,  /* Ctrl-D on an empty line, or the terminal is gone */
};

struct prompt_line {
    struct buf text; /* the owner's, replaced */
    bool is_pasted;  /* its beginning was pasted: no command, whatever it looks like */
};

/* Handles the keys that can be read now. After LINE and EOF the prompt is hidden. */
enum prompt_got prompt_keys(struct prompt_line *line);

/* Ctrl-C: gives the line up and shows an empty one. */
void prompt_interrupt(void);
/* The window has another size. */
void prompt_resize(void);
/* Gives the terminal back before the process stops or an editor runs; takes it again after. */
void prompt_pause(void);
void prompt_resume(void);

#endif
