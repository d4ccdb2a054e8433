#include "ui/terminfo.h"

#include <curses.h>
#include <term.h>

static bool ask(int fd)
{
    TERMINAL *const theirs = cur_term;
    int problem;
    if (setupterm(NULL, fd, &problem) != OK) return false;
    TERMINAL *const ours = cur_term;
    const bool is_colourless = tigetnum("colors") < 1;
    set_curterm(theirs);
    del_curterm(ours);
    return is_colourless;
}

bool terminfo_is_colourless(int fd)
{
    static enum { NOT_ASKED, NO, YES } answer;
    if (answer == NOT_ASKED) answer = ask(fd) ? YES : NO;
    return answer == YES;
}
