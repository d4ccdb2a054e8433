/* Snapshots: what is kept of exact token counts, in the order of their use. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cache/thin.h"
#include "cache/tree_impl.h"

/* Snapshots of the newest turns, two each, that never thin out. */
enum { N_NEWEST = 8 };

size_t snapshot_bytes(const struct tree *t)
{
    return sizeof(struct snapshot) + t->n_logits * sizeof(float) + t->state_bytes;
}

void *snapshot_states(const struct tree *t, struct snapshot *s)
{
    return s->logits + t->n_logits;
}

void snapshot_free(struct tree *t, struct snapshot *s)
{
    struct snapshot **at = &s->node->snapshots;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    size_t i = 0;
    while (t->snapshots[i] != s)
        i++;
    memmove(t->snapshots + i, t->snapshots + i + 1,
            (--t->n_snapshots - i) * sizeof *t->snapshots);
    t->snapshot_bytes -= snapshot_bytes(t);
    if (s->node->on_path) t->path_bytes -= snapshot_bytes(t);
    struct node *node = s->node;
    free(s);
    windows_released(t, node);
}

bool snapshot_give_up(struct tree *t)
{
    if ((t->limits.window == 0 && t->state_bytes == 0) || t->n_snapshots <= 2) return false;
    size_t i = 0;
    while (i + 1 < t->n_snapshots && !t->snapshots[i]->is_passing)
        i++;
    snapshot_free(t, t->snapshots[i + 1 < t->n_snapshots ? i : 0]);
    return true;
}

void snapshots_drop(struct tree *t, struct node *node, size_t n)
{
    for (struct snapshot *s = node->snapshots, *next; s; s = next) {
        next = s->next;
        if (s->n > n) snapshot_free(t, s);
    }
}

void snapshot_used(struct tree *t, struct snapshot *s)
{
    size_t i = 0;
    while (t->snapshots[i] != s)
        i++;
    memmove(t->snapshots + i, t->snapshots + i + 1,
            (t->n_snapshots - 1 - i) * sizeof *t->snapshots);
    t->snapshots[t->n_snapshots - 1] = s;
    s->stamp = ++t->clock;
}

struct snapshot *snapshot_at(const struct node *node, size_t n)
{
    struct snapshot *s = node->snapshots;
    while (s && s->n != n)
        s = s->next;
    return s;
}

/* Of those that were only passed, without the newest of all: a long reply or prompt may have to
 * go on from there. NULL: there are none. */
static struct snapshot *passing_victim(struct tree *t)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < t->n_snapshots; i++)
        if (t->snapshots[i]->is_passing) t->stamps[n++] = t->snapshots[i]->stamp;
    if (n == 0) return NULL;
    const uint64_t stamp = t->stamps[n > 2 ? thin_victim(t->stamps, n, 1) : 0];
    size_t i = 0;
    while (t->snapshots[i]->stamp != stamp)
        i++;
    return t->snapshots[i];
}

static struct snapshot *victim(struct tree *t)
{
    for (size_t i = 0; i < t->n_snapshots; i++)
        t->stamps[i] = t->snapshots[i]->stamp;
    const size_t newest = least(N_NEWEST, t->n_snapshots - 2);
    return t->snapshots[thin_victim(t->stamps, t->n_snapshots, newest)];
}

void snapshots_thin(struct tree *t)
{
    while (t->n_snapshots > t->limits.n_snapshots) {
        struct snapshot *passing = passing_victim(t);
        snapshot_free(t, passing ? passing : victim(t));
    }
}

void snapshot_take(struct tree *t, struct node *node, size_t n, bool is_passing,
                   const float *logits, const void *states)
{
    struct snapshot *s = malloc(snapshot_bytes(t));
    if (!s) return; /* coming back will cost a row */
    *s = (struct snapshot){
        .node = node, .next = node->snapshots, .n = (uint32_t)n, .is_passing = is_passing};
    s->stamp = ++t->clock;
    memcpy(s->logits, logits, t->n_logits * sizeof *s->logits);
    if (t->state_bytes) memcpy(snapshot_states(t, s), states, t->state_bytes);
    node->snapshots = s;
    MEM_GROW(t->snapshots, t->n_snapshots, t->cap_snapshots);
    t->snapshots[t->n_snapshots++] = s;
    t->snapshot_bytes += snapshot_bytes(t);
    t->path_bytes += snapshot_bytes(t);
    snapshots_thin(t);
}
