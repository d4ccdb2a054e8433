/* The tables of names that end a turn, whatever the file's eos key says, and that begin one.
 *
 * Many files name only one end while the model was trained with several (an answer, a tool
 * call, the end of the text), and old ones call both ends and starts the user's own tokens,
 * which any text writes. Static data, any thread. */
#ifndef TEXT_ENDS_H
#define TEXT_ENDS_H

#include <stddef.h>

/* The i-th name ("<|im_end|>"); NULL past the end: for listing. */
const char *ends_name_at(size_t i);
/* The same of the names that begin a turn ("<|im_start|>"). */
const char *ends_start_at(size_t i);

#endif
