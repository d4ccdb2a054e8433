/* The conversation: a tree of messages and the branches that lead through it.
 *
 * A branch is the path from the root to its leaf; one branch is the current one and grows. What
 * a command leaves behind (an undone turn, an answer that was asked for again) stays reachable
 * as a loose branch; of those the newest CONVERSATION_MAX_LOOSE are kept. Branches share
 * their common messages, and messages are counted, so that a trimmed copy of a path costs next
 * to nothing.
 *
 * The chat owns it and all that is in it; what is handed out is borrowed until the next change.
 * Owner's thread only. Knows no tokens but the ids that replies carry, no engine, no face. */
#ifndef CHAT_CONVERSATION_H
#define CHAT_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conversation;
struct node;

enum role { ROLE_USER, ROLE_REPLY };

/* One message. Immutable once it is in a conversation. */
struct message {
    unsigned refs;
    enum role role;
    char *text; /* of a reply all of it, reasoning and markers included */
    size_t len;

    /* A reply: the ids that were sampled, and where in text the bytes of each begin; id_at has
     * n_ids + 1 entries. An id of -1 stands for text that has none. */
    int32_t *ids;
    size_t *id_at;
    size_t n_ids;
    size_t content_at;                  /* the answer is text[content_at..len) */
    size_t reasoning_at, reasoning_len; /* inside text */
    char *answer;                       /* what was shown as the answer, markers left out */
    size_t answer_len;
    uint64_t vocabulary; /* that the ids belong to */
    uint64_t seed;
    uint32_t attempt;
    const char *stop; /* why it ended, static: "end", "cancelled", … */
    uint64_t kept_as; /* the node it was written down with (archive.c); 0: it was not */
};

/* A message of that role with a copy of the text, counted once. */
struct message *message_new(enum role role, const char *text, size_t n);
/* Counts one more reference. */
struct message *message_retain(const struct message *m);
void message_release(struct message *m); /* NULL is fine */

struct conversation *conversation_new(void);
void conversation_free(struct conversation *c); /* NULL is fine */

/* The system message, NULL if there is none; the same for all branches. */
const char *conversation_system(const struct conversation *c);
void conversation_set_system(struct conversation *c, const char *text); /* NULL or "": none */

/* ---- the current branch ---- */

size_t conversation_n(const struct conversation *c);
/* Message i of n, the oldest first; it takes n - i steps to find. */
const struct message *conversation_at(const struct conversation *c, size_t i);
/* All n of them in that order; lives until the next call. */
const struct message *const *conversation_path(struct conversation *c);
size_t conversation_n_turns(const struct conversation *c); /* messages of the user */
/* Takes the reference of m over and puts it at the end. */
void conversation_add(struct conversation *c, struct message *m);
/* How many replies the last message, one of the user, has been given so far; counts on. */
uint32_t conversation_next_attempt(struct conversation *c);
/* Goes back to the first n messages. What was there stays a loose branch unless another branch
 * holds it; returns its number, or 0. */
unsigned conversation_rewind(struct conversation *c, size_t n);
/* Removes the last message, which nothing else may hold: it was never said. */
void conversation_take_back(struct conversation *c);
/* Replaces the path by a copy without its oldest messages; what was there is kept as by
 * conversation_rewind, but for a message without a reply at its end, which is answered on the
 * copy. */
unsigned conversation_drop_oldest(struct conversation *c, size_t n);

/* A place to come back to when a turn fails, one at a time. Hold it, then drop it, or return to
 * it: loose branches that were made since are gone then, too, but not back those that had to go
 * for them. */
struct node *conversation_hold(struct conversation *c);
void conversation_return(struct conversation *c, struct node *mark);
void conversation_drop(struct node *mark);

/* Replies whose ids belong to another vocabulary are text from now on. Returns whether there
 * were such replies and no others. */
bool conversation_forget_ids(struct conversation *c, uint64_t vocabulary);

/* ---- branches ---- */

struct branch {
    unsigned number; /* from 1, never used again */
    char *name;      /* NULL if it has none */
    bool is_loose;   /* left behind by a command, not made by /fork */
    struct node *leaf;
};

/* Loose branches that are kept: so many are looked at with every save, and a reader of sessions
 * has a bound, too. */
enum { CONVERSATION_MAX_LOOSE = 1000 };

size_t conversation_n_branches(const struct conversation *c);
/* Whether no branch has a message. */
bool conversation_is_empty(const struct conversation *c);
/* Loose branches that had to go since it was made or read. */
size_t conversation_n_thinned(const struct conversation *c);
/* Branch i by number. */
const struct branch *conversation_branch(const struct conversation *c, size_t i);
const struct branch *conversation_current(const struct conversation *c);
/* A branch by number or name; NULL if there is none. */
const struct branch *conversation_find(const struct conversation *c, const char *word);
/* A new branch at the end of the current one, which becomes the current one; name may be NULL.
 */
const struct branch *conversation_fork(struct conversation *c, const char *name);
void conversation_switch(struct conversation *c, const struct branch *to);
/* Messages of a branch, and its last message of the user (NULL if there is none). */
size_t branch_n(const struct branch *b);
const struct message *branch_last_user(const struct branch *b);

/* ---- keeping it in a file (archive.c) ---- */

/* A node is a message in its place. Numbers count from 1 in the order of making and are never
 * used again; the root, which has no message, is 0. */
uint64_t node_number(const struct node *n);
struct node *node_parent(const struct node *n);     /* NULL: n is the root */
struct message *node_message(const struct node *n); /* NULL: n is the root */
uint32_t node_attempts(const struct node *n);       /* conversation_next_attempt's count */
/* What was last written down of it: false if nothing was, else *n_attempts as it was then. */
bool node_kept(const struct node *n, uint32_t *n_attempts);
void node_set_kept(struct node *n);
/* Nothing of it is written down: another file is begun. */
void conversation_forget_kept(struct conversation *c);

/* Building a conversation again, in one that is fresh. The node belongs to the caller, who
 * drops it with conversation_drop when the branches are there; m's reference is taken over. */
struct node *conversation_restore(struct conversation *c, struct node *parent, uint64_t number,
                                  struct message *m);
void node_set_attempts(struct node *n, uint32_t n_attempts);
struct node *conversation_root(struct conversation *c);
/* The branch of that number ends at leaf; name NULL: it keeps its name. Made if there is none.
 */
void conversation_set_branch(struct conversation *c, unsigned number, const char *name,
                             bool is_loose, struct node *leaf);
/* Removes the branch of that number, if there is one and it is not the current one. */
void conversation_remove_branch(struct conversation *c, unsigned number);

#endif
