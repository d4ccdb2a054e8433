/* The full-screen face: the conversation above, a status bar, the line below. Standard input
 * and output must be one terminal. Main thread. */
#ifndef UI_TUI_H
#define UI_TUI_H

struct engine_config;
struct given;
struct options;

/* Runs until the user leaves, after the turn that is given, if one is; returns the exit status.
 */
int tui_run(const struct options *o, const struct engine_config *engine,
            const struct given *given);

#endif
