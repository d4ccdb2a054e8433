/* Stop strings in a text that grows: found wherever they lie across the pieces it comes in.
 *
 * The caller keeps the whole text; these functions only look at it. Pure, any thread. Empty
 * stop strings are ignored. */
#ifndef ENGINE_STOP_H
#define ENGINE_STOP_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a stop string ends in text[from..len) (it may begin before from). *at is where it
 * begins: of those that end first, the one that begins first. */
bool stop_find(const char *const *stop, size_t n_stop, const char *text, size_t len,
               size_t from, size_t *at);

/* How many bytes at the end of text[0..len) may be the beginning of a stop string and must not
 * be shown yet. */
size_t stop_held(const char *const *stop, size_t n_stop, const char *text, size_t len);

#endif
