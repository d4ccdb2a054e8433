/* The face at the line prompt: readline below, the conversation scrolling above. Standard
 * output gets replies and what commands answer, standard error warnings and errors; the prompt
 * goes to whichever of them is a terminal. Main thread. */
#ifndef UI_LINE_H
#define UI_LINE_H

struct engine_config;
struct given;
struct options;

/* Runs until the user leaves, after the turn that is given, if one is; returns the exit status.
 */
int line_run(const struct options *o, const struct engine_config *engine,
             const struct given *given);

#endif
