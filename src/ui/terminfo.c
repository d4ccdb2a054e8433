#include "ui/terminfo.h"

#include <curses.h>
#include <term.h>

static bool ask(int fd)
{
    TERMINAL *const theirs = cur_term;
    int found = 0; /* 1: also with an error, for a terminal of paper is known and no use */
    setupterm(NULL, fd, &found);
    const bool is_colourless = found == 1 && tigetnum("colors") < 1;
    TERMINAL *const ours = set_curterm(theirs);
    if (ours && ours != theirs) del_curterm(ours);
    return is_colourless;
}

bool terminfo_is_colourless(int fd)
{
    static enum { NOT_ASKED, NO, YES } answer;
    if (answer == NOT_ASKED) answer = ask(fd) ? YES : NO;
    return answer == YES;
}
