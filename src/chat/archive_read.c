/* Frames -> conversation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/frames.h"
#include "base/mem.h"
#include "chat/archive.h"
#include "chat/conversation.h"
#include "chat/face.h"
#include "chat/record.h"

struct entry {
    uint64_t number;
    struct node *node;
};

struct reader {
    const struct archive_into *into; /* of its strings: model, draft, settings, kv_type */
    struct entry *nodes;             /* by number */
    size_t n_nodes, cap_nodes;
    uint64_t n_moved; /* nodes, to make room for others between them */
    uint64_t next;    /* the number that the next frame should have */
    uint64_t damage_at, damage_bytes;
    unsigned current;
};

enum { MAX_BRANCHES = 4096 };
/* Far from where counting on would overflow. */
#define MAX_NODE ((uint64_t)1 << 53)
/* Nodes are written nearly in the order of their numbers. Where many thousands come in another
 * order, the file was made to take hours. */
#define MAX_MOVED ((uint64_t)1 << 30)

/* ---- nodes by number ---- */

/* Index of the first node whose number is not below `number`. */
static size_t place_of(const struct reader *r, uint64_t number)
{
    size_t low = 0, high = r->n_nodes;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->nodes[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct node *node_of(struct reader *r, uint64_t number)
{
    if (number == 0) return conversation_root(r->into->c);
    size_t i = place_of(r, number);
    return i < r->n_nodes && r->nodes[i].number == number ? r->nodes[i].node : NULL;
}

static struct node *add_node(struct reader *r, struct node *parent, uint64_t number,
                             struct message *m)
{
    size_t i = place_of(r, number);
    MEM_GROW(r->nodes, r->n_nodes, r->cap_nodes);
    r->n_moved += r->n_nodes - i;
    memmove(&r->nodes[i + 1], &r->nodes[i], (r->n_nodes - i) * sizeof *r->nodes);
    struct node *n = conversation_restore(r->into->c, parent, number, m);
    r->nodes[i] = (struct entry){number, n};
    r->n_nodes++;
    node_set_kept(n);
    return n;
}

static const char lost_text[] =
    "[this message is lost: its part of the session file is damaged]";

/* Stands for a message whose frame is gone, so that what follows keeps its place and its turn.
 */
static struct node *add_lost(struct reader *r, uint64_t number, uint64_t parent, enum role role)
{
    struct node *below = node_of(r, parent);
    if (!below || parent >= number) {
        /* Two in a row: whatever came before. */
        size_t i = place_of(r, number);
        below = i > 0 ? r->nodes[i - 1].node : conversation_root(r->into->c);
    }
    struct message *m = message_new(role, lost_text, sizeof lost_text - 1);
    m->kept_as = number;
    if (role == ROLE_REPLY) {
        m->ids = mem_zalloc(1, sizeof *m->ids);
        m->id_at = mem_zalloc(1, sizeof *m->id_at);
        m->answer = mem_strdup(lost_text);
        m->answer_len = m->len;
        m->stop = face_stop_name(FACE_STOP_FAILED);
    }
    return add_node(r, below, number, m);
}

/* ---- messages ---- */

static const char *stop_of(const struct record_bytes *name)
{
    for (enum face_stop stop = FACE_STOP_END; stop <= FACE_STOP_FAILED; stop++) {
        const char *known = face_stop_name(stop);
        if (name->n == strlen(known) && memcmp(name->data, known, name->n) == 0) return known;
    }
    return face_stop_name(FACE_STOP_END);
}

static bool take_ids(const struct record *rec, struct message *m)
{
    size_t n = rec->ids.n / 4, last = 0;
    m->ids = mem_zalloc(n + 1, sizeof *m->ids);
    m->id_at = mem_zalloc(n + 1, sizeof *m->id_at);
    m->n_ids = n;
    if (n == 0 && rec->id_at.n == 0) return true;
    if (rec->id_at.n != 4 * (n + 1)) return false;
    for (size_t i = 0; i <= n; i++) {
        if (i < n) m->ids[i] = (int32_t)bytes_u32(rec->ids.data + 4 * i);
        m->id_at[i] = bytes_u32(rec->id_at.data + 4 * i);
        if (m->id_at[i] < last || m->id_at[i] > m->len || (i < n && m->ids[i] < -1))
            return false;
        last = m->id_at[i];
    }
    return true;
}

/* The message of a record, or NULL if its numbers do not fit its text. */
static struct message *message_of(const struct record *rec)
{
    if (rec->role > ROLE_REPLY || !rec->text.data) return NULL;
    const char *text = (const char *)rec->text.data;
    struct message *m = message_new((enum role)rec->role, text, rec->text.n);
    m->kept_as = rec->node;
    if (rec->role == ROLE_USER) return m;
    bool ok = take_ids(rec, m) && rec->content_at <= m->len && rec->reasoning_at <= m->len &&
              rec->reasoning_len <= m->len - rec->reasoning_at;
    if (!ok) {
        message_release(m);
        return NULL;
    }
    m->content_at = (size_t)rec->content_at;
    m->reasoning_at = (size_t)rec->reasoning_at;
    m->reasoning_len = (size_t)rec->reasoning_len;
    const struct record_bytes *answer = &rec->answer;
    m->answer = answer->data ? mem_strndup((const char *)answer->data, answer->n)
                             : mem_strndup(text + m->content_at, m->len - m->content_at);
    m->answer_len = answer->data ? answer->n : m->len - m->content_at;
    m->seed = rec->seed;
    m->attempt = (uint32_t)rec->attempt;
    m->vocabulary = rec->vocabulary;
    m->stop = stop_of(&rec->stop);
    return m;
}

static enum role other_role(enum role role)
{
    return role == ROLE_USER ? ROLE_REPLY : ROLE_USER;
}

static bool take_branch(struct reader *r, uint64_t number, const char *name, bool is_loose,
                        struct node *leaf)
{
    size_t n = conversation_n_branches(r->into->c);
    if (number == 0 || number >= UINT32_MAX || n >= MAX_BRANCHES) return false;
    conversation_set_branch(r->into->c, (unsigned)number, name, is_loose, leaf);
    return true;
}

static bool take_message(struct reader *r, const struct record *rec)
{
    if (rec->node > MAX_NODE || rec->parent >= rec->node) return false;
    if (node_of(r, rec->node)) return false;
    struct message *m = NULL;
    if (rec->same_as == 0) {
        m = message_of(rec);
    } else if (node_of(r, rec->same_as)) {
        m = message_retain(node_message(node_of(r, rec->same_as)));
    } else {
        m = message_new(ROLE_USER, lost_text, sizeof lost_text - 1);
        m->kept_as = rec->node;
    }
    if (!m) return false;
    struct node *parent = node_of(r, rec->parent);
    if (!parent) {
        parent = add_lost(r, rec->parent, rec->grandparent, other_role(m->role));
        if (m->role == ROLE_REPLY) node_set_attempts(parent, m->attempt + 1);
        node_set_kept(parent);
    }
    struct node *n = add_node(r, parent, rec->node, m);
    node_set_attempts(n, (uint32_t)rec->attempts);
    node_set_kept(n);
    r->current = (unsigned)rec->branch;
    return take_branch(r, rec->branch, NULL, false, n);
}

/* ---- the other records ---- */

static void take_string(struct buf *out, const struct record_bytes *bytes, const char **string)
{
    buf_clear(out);
    buf_append(out, bytes->data, bytes->n);
    *string = bytes->data ? buf_str(out) : NULL;
}

static bool take_state(struct reader *r, const struct record *rec)
{
    take_string(&r->into->strings[ARCHIVE_MODEL], &rec->model, &r->into->state->model);
    take_string(&r->into->strings[ARCHIVE_DRAFT], &rec->draft, &r->into->state->draft);
    take_string(&r->into->strings[ARCHIVE_SETTINGS], &rec->settings, &r->into->state->settings);
    take_string(&r->into->strings[ARCHIVE_KV_TYPE], &rec->kv_type, &r->into->state->kv_type);
    char *system =
        rec->system.data ? mem_strndup((const char *)rec->system.data, rec->system.n) : NULL;
    conversation_set_system(r->into->c, system);
    free(system);
    r->into->state->seed = rec->seed;
    r->into->state->numerics = rec->numerics;
    r->into->state->clock_ms = rec->time_ms;
    return true;
}

static bool take_attempts(struct reader *r, const struct record *rec)
{
    struct node *n = rec->node ? node_of(r, rec->node) : NULL;
    if (n) {
        node_set_attempts(n, (uint32_t)rec->attempts);
        node_set_kept(n);
    }
    return true; /* of a lost one it says nothing */
}

static bool take_branch_record(struct reader *r, const struct record *rec)
{
    if (rec->branch == 0 || rec->branch >= UINT32_MAX || rec->node > MAX_NODE) return false;
    if (rec->is_gone) {
        if (rec->branch != r->current)
            conversation_remove_branch(r->into->c, (unsigned)rec->branch);
        return true;
    }
    struct node *leaf = node_of(r, rec->node);
    if (!leaf)
        leaf = add_lost(r, rec->node, rec->parent,
                        rec->role == ROLE_USER ? ROLE_USER : ROLE_REPLY);
    if (rec->is_current) r->current = (unsigned)rec->branch;
    char *name = rec->name.data ? mem_strndup((const char *)rec->name.data, rec->name.n) : NULL;
    bool ok = take_branch(r, rec->branch, name, rec->is_loose, leaf);
    free(name);
    return ok;
}

static bool take(struct reader *r, const struct record *rec)
{
    if (r->n_moved > MAX_MOVED) return false;
    switch (rec->type) {
    case RECORD_SESSION: return true;
    case RECORD_STATE: return take_state(r, rec);
    case RECORD_MESSAGE: return take_message(r, rec);
    case RECORD_ATTEMPTS: return take_attempts(r, rec);
    case RECORD_BRANCH: return take_branch_record(r, rec);
    }
    return true; /* a record of a kind that came later */
}

static void note_damage(struct reader *r, uint64_t next)
{
    if (r->damage_bytes == 0) return;
    buf_printf(r->into->notes, "bytes %llu to %llu are damaged",
               (unsigned long long)r->damage_at,
               (unsigned long long)(r->damage_at + r->damage_bytes - 1));
    if (next > r->next + 1)
        buf_printf(r->into->notes, " (frames %llu to %llu)", (unsigned long long)r->next,
                   (unsigned long long)(next - 1));
    else if (next > r->next)
        buf_printf(r->into->notes, " (frame %llu)", (unsigned long long)r->next);
    buf_puts(r->into->notes, "; the rest is loaded\n");
    r->damage_bytes = 0;
}

static void on_damage(void *user, uint64_t at, uint64_t n_bytes)
{
    struct reader *r = user;
    r->damage_at = at;
    r->damage_bytes = n_bytes;
}

static void on_frame(void *user, const struct frame *frame)
{
    struct reader *r = user;
    struct record rec;
    note_damage(r, frame->number);
    r->next = frame->number + 1;
    if (!record_read(frame->type, frame->payload, frame->n_bytes, &rec) || !take(r, &rec))
        buf_printf(r->into->notes, "frame %llu at byte %llu makes no sense; it is left out\n",
                   (unsigned long long)frame->number, (unsigned long long)frame->at);
}

/* The current branch, and no node that no branch needs. */
static void finish(struct reader *r)
{
    for (size_t i = 0; i < conversation_n_branches(r->into->c); i++) {
        const struct branch *b = conversation_branch(r->into->c, i);
        if (b->number != r->current) continue;
        conversation_switch(r->into->c, b);
        break;
    }
    for (size_t i = 0; i < r->n_nodes; i++)
        conversation_drop(r->nodes[i].node);
    free(r->nodes);
}

static bool begins_like_one(const uint8_t *data, size_t n)
{
    static const char magic[] = "HEARTHLG";
    return memcmp(data, magic, n < 8 ? n : 8) == 0;
}

bool archive_read(const uint8_t *data, size_t n, const char *name,
                  const struct archive_into *into, struct err *err)
{
    struct reader r = {.into = into};
    struct frames_end *const end = into->end;
    const struct frames_sink sink = {on_frame, on_damage, &r};
    *into->state = (struct archive_state){0};
    *end = frames_scan(data, n, RECORD_VERSION, &sink);
    finish(&r);
    if (end->newest > RECORD_VERSION)
        return err_set(err, ERR_FORMAT,
                       "%s: written by a newer hearth (version %u, known is %d)", name,
                       end->newest, RECORD_VERSION);
    if (end->newest == 0 && !begins_like_one(data, n))
        return err_set(err, ERR_FORMAT, "%s: is no session of hearth", name);
    if (end->is_torn)
        buf_printf(into->notes,
                   "the last %llu bytes are a frame that was cut off; it is left out\n",
                   (unsigned long long)(n - end->sound));
    else
        note_damage(&r, r.next + 1);
    return true;
}
