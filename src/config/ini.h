/* The INI file: sections [hearth] and [profile NAME] of lines KEY = VALUE.
 *
 * libiniparser reads the values, but it gives no line numbers, cuts long lines and lets a later
 * key overwrite an earlier one; so every line is checked here first and handed to it in one
 * plain form. What a key means is for options.c. A struct ini is immutable and owns its
 * strings; one thread at a time may read files (libiniparser has global state). */
#ifndef CONFIG_INI_H
#define CONFIG_INI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct ini;

struct ini_entry {
    const char *profile; /* in lower case; NULL: section [hearth], or before any section */
    const char *key;     /* in lower case */
    const char *value;   /* without quotes and escapes; may hold \n and \t */
    int line;            /* where the key stands, from 1 */
};

/* Longest line, its continuations included. */
enum { INI_MAX_LINE_BYTES = 1000 };

/* Reads the file at path; name (printable) stands for it in errors "NAME:LINE: reason". With
 * `waits`, as for a file that was asked for, a FIFO is waited for and "-" is standard input,
 * which is read to its end. NULL and err otherwise; *missing tells a file that does
 * not exist from one that is wrong. */
struct ini *ini_read(const char *path, const char *name, bool waits, bool *missing,
                     struct err *err);
/* The same from n bytes in memory. */
struct ini *ini_parse(const char *text, size_t n, const char *name, struct err *err);
void ini_free(struct ini *ini); /* NULL is fine */

/* All entries in the order of the file. */
const struct ini_entry *ini_entries(const struct ini *ini, size_t *n);
size_t ini_n_profiles(const struct ini *ini);
const char *ini_profile(const struct ini *ini, size_t i);

/* Whether a profile may be called so: letters, digits, ".", "_" and "-". */
bool ini_is_name(const char *name, size_t n);

#endif
