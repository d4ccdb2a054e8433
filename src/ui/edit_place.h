/* The place of the line in readline's history, where readline 8.2 loses it or what undoes the
 * line: mended around the keys that it handles (edit_keys.c).
 *
 * Readline owns the line, the history and the lists of undo; nothing is kept here. Main thread.
 */
#ifndef UI_EDIT_PLACE_H
#define UI_EDIT_PLACE_H

/* Before a key: what undoes the line belongs to the line alone. */
void edit_place_take_undo(void);
/* After a key that ended a search for a string, which was for nothing: the line comes back. */
void edit_place_end_search(void);
/* After a key, once no search runs: the line is at the end of the history, or at an entry with
 * a line put aside. */
void edit_place_settle(void);

#endif
