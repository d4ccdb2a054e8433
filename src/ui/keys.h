/* Keys and their names, where readline does not read them.
 *
 * A key is named as help names it: "q", "Space", "C-u", "PgUp", "F1", "Enter", "Esc". Main
 * thread. */
#ifndef UI_KEYS_H
#define UI_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum { KEY_NAME_MAX = 16 };

/* Reads one key where readline would (ui/key_bytes.h) and names it; "" for one without a name,
 * and if there is none; "Paste" for the beginning of pasted text. False: the terminal is gone.
 */
bool keys_read(char name[KEY_NAME_MAX]);

/* Whether the key stands in a list such as "PgUp, b". Pure. */
bool key_is_in(const char *key, const char *list);

/* Sequence i that a terminal may send for the key of that name[0..n), NULL past the end.
 * Static.
 */
const char *key_sequence(const char *name, size_t n, size_t i);

#endif
