/* The commands: one table, from which the parser, /help, the completion and the check of the
 * man page are made.
 *
 * Static data, any thread. What a command does is in its function, which works on the chat. */
#ifndef CHAT_COMMANDS_H
#define CHAT_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct chat;

/* What the words after a command can be completed to. */
enum command_words {
    WORDS_NONE,
    WORDS_COMMAND, /* names of commands */
    WORDS_SETTING, /* a key that /set takes, then its values */
    WORDS_LIST,    /* those in `words` */
    WORDS_FILE,
    WORDS_MODEL, /* a file, or the name of one that other programs keep */
    WORDS_LIST_OR_FILE,
    WORDS_TEXT_OR_AT, /* text, or @ and a file */
    WORDS_BRANCH,
    WORDS_SESSION,
};

struct command {
    const char *name;       /* without the slash */
    const char *aliases[2]; /* NULL where there is none */
    const char *args;       /* "[n]", "" */
    const char *help;       /* one line, no full stop */
    const char *more;       /* what /help NAME adds: sentences; "" if nothing */
    enum command_words kind;
    const char *words; /* WORDS_LIST, WORDS_LIST_OR_FILE: "on|off" */
    /* Runs with what stands after the name, without white space around it; as chat_line. */
    bool (*run)(struct chat *c, const char *args);
};

/* Row i of the table; NULL past the end. */
const struct command *command_at(size_t i);
/* By name or alias, exactly, n bytes; NULL if there is none. */
const struct command *command_find(const char *name, size_t n);

/* The functions of the table, by file. */

/* commands_talk.c: what goes back, forth and sideways in the conversation. */
bool command_clear(struct chat *c, const char *args);
bool command_undo(struct chat *c, const char *args);
bool command_retry(struct chat *c, const char *args);
bool command_edit(struct chat *c, const char *args);
bool command_continue(struct chat *c, const char *args);
bool command_fork(struct chat *c, const char *args);
bool command_branches(struct chat *c, const char *args);
bool command_switch(struct chat *c, const char *args);
bool command_trim(struct chat *c, const char *args);
bool command_system(struct chat *c, const char *args);
bool command_read(struct chat *c, const char *args);

/* commands_out.c: what leaves the conversation. */
bool command_copy(struct chat *c, const char *args);
bool command_export(struct chat *c, const char *args);

/* commands_session.c: saved conversations. */
bool command_save(struct chat *c, const char *args);
bool command_load(struct chat *c, const char *args);
bool command_sessions(struct chat *c, const char *args);

/* model.c: another model. */
bool command_model(struct chat *c, const char *args);

/* draft.c: what guesses tokens. */
bool command_draft(struct chat *c, const char *args);

/* commands_show.c: settings and figures. */
bool command_set(struct chat *c, const char *args);
/* Where the name of a setting begins in what stands after /set, and its n bytes. */
const char *setting_name(const char *args, size_t *n);
/* Whether there is a setting of that name. */
bool setting_is(const char *name);
/* What a setting is and can be, for /help; false: there is none of that name, which is said. */
bool setting_explain(struct chat *c, const char *name, struct buf *out);
bool command_show(struct chat *c, const char *args);
bool command_think(struct chat *c, const char *args);
bool command_stats(struct chat *c, const char *args);
bool command_verify(struct chat *c, const char *args);

/* show_prompt.c: /show prompt. */
bool command_show_prompt(struct chat *c);

#endif
