/* Where hearth's files are: the XDG folders, the bundled guide, the model it remembers.
 *
 * Paths come back as strings the caller frees, unless said otherwise; all but what was typed
 * may be NULL, when neither the XDG variable nor HOME says where. A relative XDG variable is
 * ignored, as the XDG specification demands. Main thread only (it reads the environment). */
#ifndef CONFIG_PATHS_H
#define CONFIG_PATHS_H

#include <stdbool.h>

#include "base/err.h"

enum paths_folder {
    PATHS_CONFIG, /* $XDG_CONFIG_HOME/hearth, ~/.config/hearth */
    PATHS_STATE,  /* $XDG_STATE_HOME/hearth, ~/.local/state/hearth */
    PATHS_CACHE,  /* $XDG_CACHE_HOME/hearth, ~/.cache/hearth */
};

/* A path as somebody typed it, with ~, $HOME or ${HOME} at its beginning expanded. */
char *paths_typed(const char *typed);
/* The same of a file that should be there. Where none is, but one of the name that a shell
 * makes of the quotes and backslashes in it, as a terminal writes a file that is dropped on it:
 * that. */
char *paths_found(const char *typed);
/* The same of a file that is to be made: the name that a shell makes of one that is quoted as a
 * whole, or has a backslash before a blank, unless a file has just the name that was typed. */
char *paths_to_make(const char *typed);

/* The folder, or with name (may be NULL) a path in it. Nothing is created. */
char *paths_in(enum paths_folder folder, const char *name);

/* Where files go that are gone again soon: $TMPDIR, or /tmp. The environment's or static. */
const char *paths_temporary(void);

/* Makes the folder of the file `path` and those above it that are missing, mode 0700. */
bool paths_make_parents(const char *path, struct err *err);

/* A file of the bundled guide: beside the program (../examples/guide), then in
 * PREFIX/share/hearth/guide. NULL if it is in neither. */
char *paths_guide(const char *file);

/* The draft that comes with the bundled guide, if model is the guide's file; else NULL. */
char *paths_guide_draft(const char *model);

/* The model that was remembered, or NULL: an absolute path, *is_there if it can be read; or,
 * without a / at its beginning, the name by which it is listed. */
char *paths_remembered_model(bool *is_there);
/* Remembers the absolute form of path in the state folder (0600), replacing what was there. The
 * name of the file stays, also where it is a link. */
bool paths_remember_model(const char *path, struct err *err);
/* The same of the name by which a model is listed. */
bool paths_remember_listed(const char *name, struct err *err);

#endif
