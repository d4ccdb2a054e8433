/* The user's own editor: $VISUAL, $EDITOR, else vi. Main thread; the terminal must be as the
 * user's shell had it, and is so again afterwards, whatever the editor did. */
#ifndef UI_EDITOR_H
#define UI_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Whether $VISUAL or $EDITOR names one. */
bool editor_is_named(void);
/* Lets the user change s[0..n) in a file of mode 0600; *out (empty) gets the text without the
 * line break at its end, and U+FFFD for what is no UTF-8, which *warning then says (else NULL;
 * static). False and err if there is no editor, or it fails: the text is then as before. The
 * file is removed afterwards, unless it cannot be read back. A stop (Ctrl-Z) of the editor
 * stops this process too. SIGTERM and SIGHUP end both, the editor with ERR_CANCELLED: this
 * process may then be in the background, where it must not touch the terminal any more. */
bool editor_run(const char *s, size_t n, struct buf *out, const char **warning,
                struct err *err);

#endif
