#include "ui/edit_place.h"

#include <stdio.h>
#include <string.h>

#include <readline/history.h>
#include <readline/readline.h>

/* Readline's own: the line to go back to at the end of the history, put aside while one is
 * within it or searches; else NULL. */
extern HIST_ENTRY *_rl_saved_line_for_history;

/* The last of a list of what undoes a line; two that share any share it. */
static const UNDO_LIST *last_of(const UNDO_LIST *list)
{
    while (list && list->next)
        list = list->next;
    return list;
}

/* What undoes the line stays with the line, where it is the entry's, too. */
static void take_undo(HIST_ENTRY *entry)
{
    const UNDO_LIST *list = (const UNDO_LIST *)entry->data;
    if (list && last_of(list) == last_of(rl_undo_list)) entry->data = NULL;
}

/* An entry to which one came back has its list from before; what is done now is put before
 * that. Readline 8.2 frees the whole, and knows the entry's only by its beginning. */
void edit_place_take_undo(void)
{
    HIST_ENTRY *entry = current_history();
    if (entry && (const UNDO_LIST *)entry->data != rl_undo_list) take_undo(entry);
}

/* After a search for a string that shows nothing until it ends (not C-r), readline 8.2 may be
 * within the history without a line put aside (_rl_nsearch_abort, make_history_line_current,
 * rl_history_search_reinit). What is typed then would be taken for a change of the entry there,
 * and entry and line would come to share what undoes them, which is used when it is freed. So
 * the line is at the end of the history; where it is the entry there, that is gone to anew. */
void edit_place_settle(void)
{
    const int place = where_history();
    HIST_ENTRY *entry = current_history();
    if (!entry || _rl_saved_line_for_history) return;
    take_undo(entry);
    history_set_pos(history_length);
    if (strcmp(entry->line, rl_line_buffer) == 0)
        rl_get_previous_history(history_length - place, 0);
    rl_redisplay_function();
}

/* The line comes back where such a search was for nothing. The list of undo is of the string.
 */
void edit_place_end_search(void)
{
    if (!_rl_saved_line_for_history) return;
    rl_free_undo_list();
    rl_maybe_unsave_line();
    rl_redisplay_function();
}
