/* What the command line gives a conversation to begin with: the files of -f, standard input and
 * --prompt, as the parts of one message.
 *
 * The owner embeds the structs. Names are borrowed from the options. Main thread; reading a
 * FIFO waits for who writes it, so no handler of signals is to be there yet: Ctrl-C then simply
 * ends the program. Prints nothing, but who is to type a message is told so. */
#ifndef UI_GIVEN_H
#define UI_GIVEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct options;

/* Who types standard input is told this: that it is waited for, and how it ends. */
extern const char given_hint[];

/* Appends a part to a message, without its byte order mark, repaired to valid UTF-8; s may be
 * NULL if n is 0. For a part that is no plain text flaws gets a line to be told, once for each
 * name and each kind: not UTF-8, or UTF-8 with NUL bytes, as UTF-16 has. ERR_USER: repaired, or
 * with what stands before it, it is longer than any context. */
bool given_join(struct buf *message, const char *name, const char *s, size_t n,
                struct buf *flaws, struct err *err);
/* The same of a message of n bytes that was joined otherwise. */
bool given_fits(size_t n, struct err *err);
/* The line of flaws at *at, which moves behind it; false: there is none. */
bool given_flaw(const struct buf *flaws, size_t *at, struct buf *line);

/* The files of -f. */
struct given_files {
    struct buf before, after; /* "-", which stands for standard input */
};
/* files is zeroed or filled before; flaws as given_join has it. ERR_IO names the file, or
 * ERR_USER, if it is longer than any context. */
bool given_files_read(struct given_files *files, const struct options *o, struct buf *flaws,
                      struct err *err);
void given_files_free(struct given_files *files);
/* Whether "-" is one of them. */
bool given_names_stdin(const struct options *o);

/* Whether --output is none of the files that are read: the model, its draft, the template, the
 * configuration, the system message, --prompts, those of -f, standard input; nor that of the
 * session, also before it is there. ERR_USER names both. */
bool given_spares_inputs(const struct options *o, struct err *err);

/* The first turn of a chat that goes on at a terminal. */
struct given {
    struct buf before; /* files and standard input; empty: none */
    struct buf names;  /* … what it is made of, to be shown */
    struct buf prompt; /* --prompt; empty: none */
    struct buf flaws;  /* as given_join has it */
    bool is_too_long;  /* why it could not be read: a part is longer than any context */
};
/* Reads it. Standard input that is no terminal is read to its end and is the terminal of the
 * process from then on. ERR_USER where there is none, ERR_IO for what cannot be read. */
bool given_read(struct given *given, const struct options *o, struct err *err);
void given_free(struct given *given);
/* Whether there is nothing to send. */
bool given_is_empty(const struct given *given);

#endif
