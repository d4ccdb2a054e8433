/* The face without a prompt: one turn of standard input, files and --prompt, or a turn per line
 * or JSON object of standard input or --prompts (ui/source.h). Standard output, or the file of
 * --output, gets the replies, or the lines of --json and --jsonl, and nothing else; reasoning,
 * warnings and statistics go to standard error.
 * Changes no terminal settings. Main thread. */
#ifndef UI_PIPE_H
#define UI_PIPE_H

struct engine_config;
struct err;
struct options;

/* Returns the exit status (ui/exit_status.h). */
int pipe_run(const struct options *o, const struct engine_config *engine);
/* Instead of pipe_run where no model was found: says why, with --json and --jsonl in an end
 * object too, and returns status. */
int pipe_refuse(const struct options *o, const struct err *why, int status);

#endif
