/* The table of names of tokens that end a turn, whatever the file's eos key says, and of those
 * that begin one.
 *
 * Many files name only one end while the model was trained with several (an answer, a tool
 * call, the end of the text), and some call both ends and starts the user's own tokens, which
 * any text writes. Static data, any thread. */
#ifndef TEXT_TURN_NAMES_H
#define TEXT_TURN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct turn_name {
    const char *name; /* "<|im_end|>" */
    bool is_end;      /* else it begins a turn, or names whose it is */
};

/* The i-th; NULL past the end: for listing. */
const struct turn_name *turn_name_at(size_t i);

#endif
