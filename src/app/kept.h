/* `hearth sessions` and `hearth cache`: what is kept on disk. Main thread; each returns the
 * exit status. argv[0] is the last word of the name. */
#ifndef APP_KEPT_H
#define APP_KEPT_H

/* list: a line for each session, the newest first. */
int sessions_run_list(int argc, char **argv);
/* show NAME: the conversation, made printable. export [--json | --plain] NAME: every byte as it
 * was said, as Markdown unless told otherwise. 4 for a file that is no session. */
int sessions_run_show(int argc, char **argv);
int sessions_run_export(int argc, char **argv);
/* rm NAME... */
int sessions_run_rm(int argc, char **argv);
/* check [NAME...]: what is damaged; 4 if anything is. */
int sessions_run_check(int argc, char **argv);

/* list: a line for each model. */
int cache_run_list(int argc, char **argv);
/* clear: removes all of it. */
int cache_run_clear(int argc, char **argv);
/* check: reads every page and removes the damaged ones. */
int cache_run_check(int argc, char **argv);

#endif
