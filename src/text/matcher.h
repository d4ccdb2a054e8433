/* How far a text has come in a grammar, and which bytes may follow.
 *
 * All that can be known of a text so far is a state: a small number that stands for the places
 * where it may be, each with the rules to come back to. States are found as they are needed and
 * kept, so a byte that was seen in a state before costs a look into a table. Where rules call
 * each other deeper than MATCHER_MAX_DEPTH, a text cannot go on; a call that ends its rule is
 * no deeper.
 *
 * One thread at a time. It holds its grammar. */
#ifndef TEXT_MATCHER_H
#define TEXT_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar;
struct matcher;

enum { MATCHER_MAX_DEPTH = 128 };
/* Memory is bounded by how many states there are, by the places of a state, and by those of all
 * of them, of which there are as many lists to come back to. A state that would have more
 * places has some of its texts only, all of which the grammar has. */
enum { MATCHER_MAX_STATES = 1 << 18, MATCHER_MAX_SET = 1 << 16, MATCHER_MAX_SPOTS = 1 << 24 };

typedef int32_t matcher_state;
enum { MATCHER_DEAD = -1, MATCHER_START = 0 };

/* g is finished. */
struct matcher *matcher_new(const struct grammar *g);
void matcher_free(struct matcher *m); /* NULL is fine */
const struct grammar *matcher_grammar(const struct matcher *m);

/* The state behind one byte more; MATCHER_DEAD: no text begins so, or there are too many
 * states or places. A dead state stays dead. */
matcher_state matcher_step(struct matcher *m, matcher_state s, uint8_t byte);
/* The same for bytes[0..n). */
matcher_state matcher_steps(struct matcher *m, matcher_state s, const char *bytes, size_t n);
/* Whether the text may end here. */
bool matcher_may_end(const struct matcher *m, matcher_state s);
/* Whether some byte may follow. */
bool matcher_may_go_on(const struct matcher *m, matcher_state s);
/* Whether a state was left out because there are too many already: none is found any more, and
 * what is not known yet is dead. Whoever wants to go on brings what is needed to a new one. */
bool matcher_is_full(const struct matcher *m);
/* The same state in another matcher of the same grammar; MATCHER_DEAD: that one is full. */
matcher_state matcher_bring(struct matcher *to, const struct matcher *from, matcher_state s);
size_t matcher_n_states(const struct matcher *m);

#endif
