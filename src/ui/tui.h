/* The full-screen face: the conversation above, a status bar, the line below. Standard input
 * and output must be one terminal. Main thread. */
#ifndef UI_TUI_H
#define UI_TUI_H

struct engine_config;
struct options;

/* Runs until the user leaves; returns the exit status. */
int tui_run(const struct options *o, const struct engine_config *engine);

#endif
