/* What keys do in the full-screen view besides editing the line: one list, from which come the
 * enum, the bindings, their names for the inputrc and the help.
 *
 * Static data; any thread. */
#ifndef UI_ACTIONS_H
#define UI_ACTIONS_H

/* name in the inputrc (before it: "hearth-"); keys beside the line; keys in the transcript and
 * in dialogs; what it does. Keys are named as ui/keys.h names them, "C-x h" is one after
 * another. */
#define ACTIONS(X)                                                                       \
    X(HELP, "help", "F1, C-x h", "F1, ?", "show the keys and the commands")              \
    X(TRANSCRIPT, "transcript", "F2, C-x t", "F2", "go to the transcript, and back")     \
    X(BRANCHES, "branches", "F3, C-x b", "F3", "choose a branch of the conversation")    \
    X(SESSIONS, "sessions", "F4, C-x s", "F4", "choose a saved conversation")            \
    X(REASONING, "reasoning", "F5, C-x r", "F5, r",                                      \
      "show the reasoning of replies, or fold it")                                       \
    X(SEARCH, "search", "F6, C-x /", "F6, /", "search the transcript, the newest first") \
    X(OLDER, "search-older", "", "n", "go to the match before")                          \
    X(NEWER, "search-newer", "", "N", "go to the match after")                           \
    X(PAGE_UP, "page-up", "PgUp", "PgUp, b, C-b", "scroll a page up")                    \
    X(PAGE_DOWN, "page-down", "PgDn", "PgDn, Space, C-f", "scroll a page down")          \
    X(LINE_UP, "line-up", "", "Up, k, C-p", "scroll a row up")                           \
    X(LINE_DOWN, "line-down", "", "Down, j, C-n", "scroll a row down")                   \
    X(TOP, "top", "Home", "Home, g", "go to the beginning")                              \
    X(BOTTOM, "bottom", "End", "End, G", "go to the end")                                \
    X(REDRAW, "redraw", "C-l", "C-l", "draw the screen again")                           \
    X(LEAVE, "leave", "", "q, Esc, Enter", "go back to where this was opened")

enum action {
    ACTION_NONE,
#define X(id, name, line, view, help) ACTION_##id,
    ACTIONS(X)
#undef X
        N_ACTIONS
};

struct action_row {
    const char *name, *line, *view, *help;
};
/* The row of an action but ACTION_NONE. */
const struct action_row *action_row(enum action action);
/* What a key does in the transcript and in dialogs. */
enum action action_of_key(const char *key);

#endif
