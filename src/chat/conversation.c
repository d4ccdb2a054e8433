#include "chat/conversation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A message in the tree. It lives as long as a branch, a mark or a child needs it. */
struct node {
    struct node *parent; /* NULL: the root, which has no message */
    struct message *message;
    uint64_t number; /* 0: the root */
    bool is_kept;
    uint32_t kept_attempts;
    unsigned refs; /* children, branches and marks */
    uint32_t n_attempts;
    size_t depth; /* messages on the path up to here */
};

struct conversation {
    char *system;
    struct branch *branches;
    size_t n_branches, cap_branches, current;
    unsigned next_number;
    size_t n_thinned;
    unsigned held_number; /* next_number, when conversation_hold was called last */
    uint64_t last_node;
    const struct message **path; /* what conversation_path handed out */
};

/* ---- messages ---- */

struct message *message_new(enum role role, const char *text, size_t n)
{
    struct message *m = mem_zalloc(1, sizeof *m);
    m->refs = 1;
    m->role = role;
    m->text = mem_strndup(text, n);
    m->len = n;
    return m;
}

struct message *message_retain(const struct message *m)
{
    struct message *mine = (struct message *)m; /* immutable but for its count */
    mine->refs++;
    return mine;
}

void message_release(struct message *m)
{
    if (!m || --m->refs > 0) return;
    free(m->text);
    free(m->ids);
    free(m->id_at);
    free(m->answer);
    free(m);
}

/* ---- nodes ---- */

static struct node *node_new(struct node *parent, uint64_t number, struct message *m)
{
    struct node *n = mem_zalloc(1, sizeof *n);
    n->parent = parent;
    n->message = m;
    n->number = number;
    n->depth = parent ? parent->depth + 1 : 0;
    if (parent) parent->refs++;
    return n;
}

static void node_release(struct node *n)
{
    while (n && --n->refs == 0) {
        struct node *parent = n->parent;
        message_release(n->message);
        free(n);
        n = parent;
    }
}

static bool is_on_path(const struct node *n, const struct node *leaf)
{
    while (leaf && leaf->depth > n->depth)
        leaf = leaf->parent;
    return leaf == n;
}

static struct node *ancestor(struct node *leaf, size_t depth)
{
    while (leaf->depth > depth)
        leaf = leaf->parent;
    return leaf;
}

/* ---- the conversation ---- */

static struct branch *current(const struct conversation *c)
{
    return &c->branches[c->current];
}

/* Lets a branch end at another node. */
static void move_leaf(struct branch *b, struct node *to)
{
    struct node *from = b->leaf;
    to->refs++;
    b->leaf = to;
    node_release(from);
}

static struct branch *push_branch(struct conversation *c, struct node *leaf, const char *name,
                                  bool is_loose)
{
    MEM_GROW(c->branches, c->n_branches, c->cap_branches);
    struct branch *b = &c->branches[c->n_branches++];
    *b = (struct branch){++c->next_number, name ? mem_strdup(name) : NULL, is_loose, leaf};
    leaf->refs++;
    return b;
}

static void remove_branch(struct conversation *c, size_t i)
{
    assert(i != c->current);
    struct node *leaf = c->branches[i].leaf;
    free(c->branches[i].name);
    memmove(&c->branches[i], &c->branches[i + 1],
            (c->n_branches - i - 1) * sizeof *c->branches);
    c->n_branches--;
    if (c->current > i) c->current--;
    node_release(leaf);
}

static void thin_out(struct conversation *c)
{
    size_t n = 0, oldest = 0;
    for (size_t i = c->n_branches; i-- > 0;) {
        if (!c->branches[i].is_loose || i == c->current) continue;
        oldest = i;
        n++;
    }
    if (n <= CONVERSATION_MAX_LOOSE) return;
    remove_branch(c, oldest);
    c->n_thinned++;
}

struct conversation *conversation_new(void)
{
    struct conversation *c = mem_zalloc(1, sizeof *c);
    push_branch(c, node_new(NULL, 0, NULL), "main", false);
    return c;
}

void conversation_free(struct conversation *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->n_branches; i++) {
        node_release(c->branches[i].leaf);
        free(c->branches[i].name);
    }
    free(c->branches);
    free((void *)c->path);
    free(c->system);
    free(c);
}

const char *conversation_system(const struct conversation *c)
{
    return c->system;
}

void conversation_set_system(struct conversation *c, const char *text)
{
    char *copy = text && *text ? mem_strdup(text) : NULL;
    free(c->system);
    c->system = copy;
}

/* ---- the current branch ---- */

size_t conversation_n(const struct conversation *c)
{
    return current(c)->leaf->depth;
}

const struct message *conversation_at(const struct conversation *c, size_t i)
{
    assert(i < conversation_n(c));
    return ancestor(current(c)->leaf, i + 1)->message;
}

const struct message *const *conversation_path(struct conversation *c)
{
    const struct node *at = current(c)->leaf;
    c->path = mem_resize((void *)c->path, at->depth + 1, sizeof *c->path);
    for (; at->message; at = at->parent)
        c->path[at->depth - 1] = at->message;
    return c->path;
}

size_t conversation_n_turns(const struct conversation *c)
{
    size_t n = 0;
    for (const struct node *at = current(c)->leaf; at->message; at = at->parent)
        n += at->message->role == ROLE_USER;
    return n;
}

void conversation_add(struct conversation *c, struct message *m)
{
    struct branch *b = current(c);
    b->is_loose = false;
    move_leaf(b, node_new(b->leaf, ++c->last_node, m));
}

uint32_t conversation_next_attempt(struct conversation *c)
{
    return current(c)->leaf->n_attempts++;
}

/* Keeps a path that the current branch is about to leave, unless another branch holds it. */
static unsigned keep(struct conversation *c, struct node *leaf)
{
    for (size_t i = 0; i < c->n_branches; i++)
        if (i != c->current && is_on_path(leaf, c->branches[i].leaf)) return 0;
    unsigned number = push_branch(c, leaf, NULL, true)->number;
    thin_out(c);
    return number;
}

unsigned conversation_rewind(struct conversation *c, size_t n)
{
    struct node *leaf = current(c)->leaf;
    if (leaf->depth <= n) return 0;
    unsigned number = keep(c, leaf);
    move_leaf(current(c), ancestor(current(c)->leaf, n));
    return number;
}

void conversation_take_back(struct conversation *c)
{
    struct branch *b = current(c);
    assert(b->leaf->parent);
    move_leaf(b, b->leaf->parent);
}

static struct node *root_of(struct node *n)
{
    while (n->parent)
        n = n->parent;
    return n;
}

/* A copy of the path up to `from` without its first n messages. A session may be long: no
 * recursion. */
static struct node *copy_path(struct conversation *c, struct node *from, size_t n)
{
    struct node *at = root_of(from);
    const size_t n_kept = from->depth > n ? from->depth - n : 0;
    const struct node **kept = mem_zalloc(n_kept, sizeof *kept);
    for (size_t i = n_kept; i > 0; from = from->parent)
        kept[--i] = from;
    for (size_t i = 0; i < n_kept; i++) {
        at = node_new(at, ++c->last_node, message_retain(kept[i]->message));
        at->n_attempts = kept[i]->n_attempts;
    }
    free(kept);
    return at;
}

unsigned conversation_drop_oldest(struct conversation *c, size_t n)
{
    struct node *leaf = current(c)->leaf;
    if (n == 0 || leaf->depth == 0) return 0;
    struct node *copy = copy_path(c, leaf, n);
    const bool goes_on = leaf->message->role == ROLE_USER && leaf->depth > n;
    unsigned number = keep(c, goes_on ? leaf->parent : leaf);
    move_leaf(current(c), copy);
    return number;
}

struct node *conversation_hold(struct conversation *c)
{
    struct node *leaf = current(c)->leaf;
    leaf->refs++;
    c->held_number = c->next_number;
    return leaf;
}

void conversation_return(struct conversation *c, struct node *mark)
{
    move_leaf(current(c), mark);
    for (size_t i = c->n_branches; i-- > 0;)
        if (i != c->current && c->branches[i].is_loose &&
            c->branches[i].number > c->held_number)
            remove_branch(c, i);
    node_release(mark);
}

void conversation_drop(struct node *mark)
{
    node_release(mark);
}

bool conversation_forget_ids(struct conversation *c, uint64_t vocabulary)
{
    bool lost = false, kept = false;
    for (size_t i = 0; i < c->n_branches; i++) {
        for (struct node *n = c->branches[i].leaf; n->parent; n = n->parent) {
            struct message *m = n->message;
            if (m->n_ids == 0) continue;
            if (m->vocabulary == vocabulary) {
                kept = true;
                continue;
            }
            m->n_ids = 0;
            m->id_at[0] = 0;
            lost = true;
        }
    }
    return lost && !kept;
}

/* ---- branches ---- */

size_t conversation_n_branches(const struct conversation *c)
{
    return c->n_branches;
}

bool conversation_is_empty(const struct conversation *c)
{
    for (size_t i = 0; i < c->n_branches; i++)
        if (branch_n(&c->branches[i]) > 0) return false;
    return true;
}

size_t conversation_n_thinned(const struct conversation *c)
{
    return c->n_thinned;
}

const struct branch *conversation_branch(const struct conversation *c, size_t i)
{
    assert(i < c->n_branches);
    return &c->branches[i];
}

const struct branch *conversation_current(const struct conversation *c)
{
    return current(c);
}

const struct branch *conversation_find(const struct conversation *c, const char *word)
{
    char *end = NULL;
    unsigned long number = strtoul(word, &end, 10);
    bool is_number = *word >= '0' && *word <= '9' && *end == '\0';
    for (size_t i = 0; i < c->n_branches; i++) {
        const struct branch *b = &c->branches[i];
        if (is_number ? b->number == number : b->name && strcmp(b->name, word) == 0) return b;
    }
    return NULL;
}

const struct branch *conversation_fork(struct conversation *c, const char *name)
{
    push_branch(c, current(c)->leaf, name, false);
    c->current = c->n_branches - 1;
    return current(c);
}

void conversation_switch(struct conversation *c, const struct branch *to)
{
    assert(to >= c->branches && to < c->branches + c->n_branches);
    c->current = (size_t)(to - c->branches);
}

size_t branch_n(const struct branch *b)
{
    return b->leaf->depth;
}

const struct message *branch_last_user(const struct branch *b)
{
    for (const struct node *n = b->leaf; n->message; n = n->parent)
        if (n->message->role == ROLE_USER) return n->message;
    return NULL;
}

/* ---- keeping it in a file ---- */

uint64_t node_number(const struct node *n)
{
    return n->number;
}

struct node *node_parent(const struct node *n)
{
    return n->parent;
}

struct message *node_message(const struct node *n)
{
    return n->message;
}

uint32_t node_attempts(const struct node *n)
{
    return n->n_attempts;
}

bool node_kept(const struct node *n, uint32_t *n_attempts)
{
    *n_attempts = n->kept_attempts;
    return n->is_kept;
}

void node_set_kept(struct node *n)
{
    n->is_kept = true;
    n->kept_attempts = n->n_attempts;
}

void conversation_forget_kept(struct conversation *c)
{
    for (size_t i = 0; i < conversation_n_branches(c); i++)
        for (struct node *n = conversation_branch(c, i)->leaf; n; n = node_parent(n)) {
            n->is_kept = false;
            if (n->message) n->message->kept_as = 0;
        }
}

struct node *conversation_restore(struct conversation *c, struct node *parent, uint64_t number,
                                  struct message *m)
{
    struct node *n = node_new(parent, number, m);
    n->refs++;
    if (number > c->last_node) c->last_node = number;
    return n;
}

void node_set_attempts(struct node *n, uint32_t n_attempts)
{
    n->n_attempts = n_attempts;
}

struct node *conversation_root(struct conversation *c)
{
    return root_of(current(c)->leaf);
}

/* The first branch whose number is not below `number`. */
static size_t place_of(const struct conversation *c, unsigned number)
{
    size_t low = 0, high = c->n_branches;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c->branches[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void conversation_set_branch(struct conversation *c, unsigned number, const char *name,
                             bool is_loose, struct node *leaf)
{
    const size_t i = place_of(c, number);
    if (i == c->n_branches || c->branches[i].number != number) {
        unsigned last = c->next_number;
        c->next_number = number - 1;
        push_branch(c, leaf, NULL, is_loose);
        if (c->next_number < last) c->next_number = last;
        /* Branches stand by number. */
        struct branch made = c->branches[c->n_branches - 1];
        memmove(&c->branches[i + 1], &c->branches[i],
                (c->n_branches - 1 - i) * sizeof *c->branches);
        c->branches[i] = made;
    }
    struct branch *b = &c->branches[i];
    if (name) {
        free(b->name);
        b->name = mem_strdup(name);
    }
    b->is_loose = is_loose;
    move_leaf(b, leaf);
}

void conversation_remove_branch(struct conversation *c, unsigned number)
{
    const size_t i = place_of(c, number);
    if (i < c->n_branches && c->branches[i].number == number && i != c->current)
        remove_branch(c, i);
}
