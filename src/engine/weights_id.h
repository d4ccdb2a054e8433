/* What a model's files contain, as 128 bits: a page computed with other weights is another
 * page.
 *
 * The whole files are hashed, once: a small file in the cache folder remembers the sum by what
 * the system says of them (inode, size, times). Where it does not, a thread of idle priority
 * reads them, so that nothing waits for it on the way to the first token. The engine owns it
 * and is the only thread that calls.
 *
 * The sum is that of the files as they were opened: another file in the place of one is not
 * taken for it, and of one that is written while it is open nothing is known. */
#ifndef ENGINE_WEIGHTS_ID_H
#define ENGINE_WEIGHTS_ID_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cache/key.h"

struct gguf;
struct weights_id;

/* Begins. The model's files stay mapped until it is freed. dir: where sums are remembered. */
struct weights_id *weights_id_new(const struct gguf *g, const char *dir);
/* Stops the reading if it still goes on; NULL is fine. */
void weights_id_free(struct weights_id *w);

/* Whether it is known already; then *id is set. */
bool weights_id_known(struct weights_id *w, struct key *id);
/* Waits for it. False: *cancel (may be NULL) became true, and reading goes on; or a file has
 * changed while it was open, and the sum will never be known. */
bool weights_id_wait(struct weights_id *w, const atomic_bool *cancel, struct key *id);
/* The file that has, as far as is known; NULL: none. The model's own. */
const char *weights_id_changed(struct weights_id *w);

#endif
