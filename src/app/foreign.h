/* The words of ollama's command line, as hearth takes them. Main thread. */
#ifndef APP_FOREIGN_H
#define APP_FOREIGN_H

/* "run NAME [PROMPT] [options]" becomes "-m NAME [-p PROMPT] [options]", "list" and "ls" become
 * "models", "help" and "version" the options, and "help WORD..." becomes "WORD... --help".
 * Anything else is left as it is. Returns argv, changed in place, or an array of its own, which
 * borrows from argv and lives to the end of the program. */
char **foreign_words(int *argc, char **argv);

/* How hearth is asked for what this word asks others; NULL if it is none of theirs. */
const char *foreign_advice(const char *word);

#endif
