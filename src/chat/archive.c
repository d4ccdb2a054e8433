#include "chat/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/frames.h"
#include "base/mem.h"
#include "chat/conversation.h"
#include "chat/record.h"
#include "config/paths.h"

#define MAX_SESSION_BYTES ((size_t)1 << 30)

/* A branch as it was last written. */
struct kept_branch {
    unsigned number;
    bool is_loose;
    char *name;
    uint64_t leaf;
};

struct archive {
    char *path;
    int fd; /* -1: there is no file yet */
    bool is_read_only, is_taken, is_broken;
    bool name_waits;  /* the folder may not yet say on the disk that the file has this name */
    int old;          /* the file that makes room once this one is whole; -1: none */
    char *temporary;  /* where this one is until then; NULL: in its place */
    uint64_t n_bytes; /* of the file */
    uint64_t next, identity;

    struct archive_state state; /* as last written; its strings are these */
    struct buf strings[ARCHIVE_STRINGS];
    char *system;
    bool has_state;
    struct kept_branch *branches; /* by number, as the conversation's are */
    size_t n_branches, cap_branches;
    unsigned current;

    struct buf frames, payload; /* scratch of one archive_sync */
};

/* What is wrong with a path where a link is, which no session is: O_NOFOLLOW says ELOOP, which
 * a folder on the way may say, too. Else NULL. */
static const char *link_at(const char *path)
{
    struct stat st;
    const bool is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    return is_link ? "is a symbolic link, expected a file of its own" : NULL;
}

bool archive_refuse(struct err *err, const char *path)
{
    const int failed = errno;
    const char *link = failed == ELOOP ? link_at(path) : NULL;
    return err_set(err, ERR_IO, "%s: %s", path, link ? link : strerror(failed));
}

struct archive *archive_new(const char *path)
{
    struct archive *a = mem_zalloc(1, sizeof *a);
    a->path = mem_strdup(path);
    a->fd = a->old = -1;
    return a;
}

void archive_close(struct archive *a)
{
    if (!a) return;
    if (a->fd >= 0) close(a->fd);
    if (a->old >= 0) close(a->old);
    free(a->temporary);
    for (size_t i = 0; i < a->n_branches; i++)
        free(a->branches[i].name);
    for (size_t i = 0; i < ARCHIVE_STRINGS; i++)
        buf_free(&a->strings[i]);
    buf_free(&a->frames);
    buf_free(&a->payload);
    free(a->branches);
    free(a->system);
    free(a->path);
    free(a);
}

const char *archive_path(const struct archive *a)
{
    return a->path;
}

bool archive_is_read_only(const struct archive *a)
{
    return a->is_read_only;
}

bool archive_is_taken(const struct archive *a)
{
    return a->is_taken;
}

bool archive_has_file(const struct archive *a)
{
    return a->fd >= 0;
}

static bool is_at(int fd, const char *path)
{
    struct file_stamp ours, there;
    return file_stamp_fd(fd, &ours) && file_stamp(path, &there) && file_is_same(&ours, &there);
}

bool archive_is_lost(const struct archive *a)
{
    return a->fd >= 0 && !is_at(a->fd, a->path);
}

/* The file that is written to, or would be. */
static int own_file(const struct archive *a)
{
    return a->fd >= 0 ? a->fd : a->old;
}

bool archive_owns(const struct archive *a, const char *path)
{
    const int fd = own_file(a);
    return fd >= 0 && !a->is_read_only && strcmp(path, a->path) == 0 && is_at(fd, path);
}

struct archive *archive_anew(struct archive *a)
{
    struct archive *anew = archive_new(a->path);
    anew->old = own_file(a);
    a->fd = a->old = -1;
    archive_close(a);
    return anew;
}

const struct archive_state *archive_state(const struct archive *a)
{
    return &a->state;
}

/* ---- what is in the file ---- */

static struct kept_branch *kept_branch(struct archive *a, unsigned number)
{
    size_t low = 0, high = a->n_branches;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (a->branches[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < a->n_branches && a->branches[low].number == number) return &a->branches[low];
    MEM_GROW(a->branches, a->n_branches, a->cap_branches);
    memmove(&a->branches[low + 1], &a->branches[low],
            (a->n_branches++ - low) * sizeof *a->branches);
    a->branches[low] = (struct kept_branch){.number = number};
    return &a->branches[low];
}

static bool same_name(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void keep_name(char **kept, const char *name)
{
    char *copy = name ? mem_strdup(name) : NULL;
    free(*kept);
    *kept = copy;
}

static void keep_branch(struct archive *a, const struct branch *b)
{
    struct kept_branch *kept = kept_branch(a, b->number);
    kept->is_loose = b->is_loose;
    kept->leaf = node_number(b->leaf);
    keep_name(&kept->name, b->name);
}

static void keep_string(struct buf *out, const char **kept, const char *string)
{
    struct buf copy = {0};
    if (string) buf_puts(&copy, string);
    buf_free(out);
    *out = copy;
    *kept = string ? buf_str(out) : NULL;
}

static void keep_state(struct archive *a, const struct archive_state *state, const char *system)
{
    keep_string(&a->strings[ARCHIVE_MODEL], &a->state.model, state->model);
    keep_string(&a->strings[ARCHIVE_DRAFT], &a->state.draft, state->draft);
    keep_string(&a->strings[ARCHIVE_SETTINGS], &a->state.settings, state->settings);
    keep_string(&a->strings[ARCHIVE_KV_TYPE], &a->state.kv_type, state->kv_type);
    keep_name(&a->system, system);
    a->state.seed = state->seed;
    a->state.numerics = state->numerics;
    a->state.clock_ms = state->clock_ms;
    a->has_state = true;
}

/* ---- opening ---- */

static bool read_whole(struct archive *a, struct conversation *c, struct buf *notes,
                       struct err *err)
{
    struct buf data = {0};
    struct frames_end end = {0};
    const struct archive_into into = {c, &a->state, a->strings, notes, &end};
    bool ok = file_read_fd(a->fd, a->path, MAX_SESSION_BYTES, &data, err) &&
              archive_read((const uint8_t *)buf_str(&data), data.len, a->path, &into, err);
    a->n_bytes = data.len;
    a->next = end.next;
    a->identity = end.identity;
    if (ok && end.is_torn && !a->is_read_only) {
        /* Half a frame from a write that was cut off: the next one takes its place. */
        ok = ftruncate(a->fd, (off_t)end.sound) == 0 || archive_refuse(err, a->path);
        a->n_bytes = end.sound;
    }
    buf_free(&data);
    if (!ok) return false;
    a->has_state = end.next > 0;
    keep_name(&a->system, conversation_system(c));
    for (size_t i = 0; i < conversation_n_branches(c); i++)
        keep_branch(a, conversation_branch(c, i));
    a->current = conversation_current(c)->number;
    return true;
}

/* Locks the file, or finds that another hearth has. One that may only be read goes without:
 * over NFS it cannot be locked. */
static bool lock(struct archive *a, struct err *err)
{
    if (flock(a->fd, LOCK_EX | LOCK_NB) == 0) return true;
    a->is_taken = errno == EWOULDBLOCK;
    a->is_read_only |= a->is_taken;
    return a->is_read_only ||
           err_set(err, ERR_IO, "%s: cannot be locked: %s", a->path, strerror(errno));
}

static struct archive *open_file(const char *path, bool look, struct conversation *c,
                                 struct buf *notes, struct err *err)
{
    struct archive *a = archive_new(path);
    struct stat st;
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_APPEND;
    a->is_read_only = look;
    a->fd = open(path, (look ? O_RDONLY : O_RDWR) | flags);
    if (a->fd < 0 && (errno == EACCES || errno == EROFS)) {
        a->fd = open(path, O_RDONLY | flags);
        a->is_read_only = true;
    }
    bool ok = (a->fd >= 0 && fstat(a->fd, &st) == 0) || archive_refuse(err, path);
    if (ok && !S_ISREG(st.st_mode))
        ok = err_set(err, ERR_FORMAT, "%s: is no regular file", path);
    if (ok && !look) ok = lock(a, err);
    if (ok && read_whole(a, c, notes, err)) return a;
    archive_close(a);
    return NULL;
}

struct archive *archive_open(const char *path, struct conversation *c, struct buf *notes,
                             struct err *err)
{
    return open_file(path, false, c, notes, err);
}

struct archive *archive_look(const char *path, struct conversation *c, struct buf *notes,
                             struct err *err)
{
    return open_file(path, true, c, notes, err);
}

/* ---- writing: records into the scratch ---- */

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static struct record_bytes bytes_of(const char *s)
{
    return s ? (struct record_bytes){(const uint8_t *)s, strlen(s)} : (struct record_bytes){0};
}

static void put(struct archive *a, const struct record *rec)
{
    buf_clear(&a->payload);
    record_write(rec, &a->payload);
    frame_append(&a->frames, &(struct frame){.version = RECORD_VERSION,
                                             .type = (uint16_t)rec->type,
                                             .identity = a->identity,
                                             .number = a->next++,
                                             .at = a->n_bytes + a->frames.len,
                                             .payload = (const uint8_t *)buf_str(&a->payload),
                                             .n_bytes = a->payload.len});
}

static void put_state(struct archive *a, const struct archive_state *s, const char *system)
{
    bool same = a->has_state && same_name(s->model, a->state.model) &&
                same_name(s->draft, a->state.draft) &&
                same_name(s->settings, a->state.settings) && same_name(system, a->system) &&
                same_name(s->kv_type, a->state.kv_type) && s->seed == a->state.seed &&
                s->numerics == a->state.numerics && s->clock_ms == a->state.clock_ms;
    if (same) return;
    put(a, &(struct record){.type = RECORD_STATE,
                            .seed = s->seed,
                            .numerics = s->numerics,
                            .time_ms = s->clock_ms,
                            .kv_type = bytes_of(s->kv_type),
                            .model = bytes_of(s->model),
                            .draft = bytes_of(s->draft),
                            .system = bytes_of(system),
                            .settings = bytes_of(s->settings)});
    keep_state(a, s, system);
}

/* A reply's own fields. at holds its places for as long as the record is used. */
static void fill_reply(struct record *rec, const struct message *m, uint32_t *at)
{
    size_t n_answer = m->len - m->content_at;
    bool plain = m->answer_len == n_answer &&
                 (n_answer == 0 || memcmp(m->answer, m->text + m->content_at, n_answer) == 0);
    if (!plain) rec->answer = (struct record_bytes){(const uint8_t *)m->answer, m->answer_len};
    for (size_t i = 0; i <= m->n_ids; i++)
        at[i] = (uint32_t)m->id_at[i];
    if (m->n_ids > 0) {
        rec->ids = (struct record_bytes){(const uint8_t *)m->ids, 4 * m->n_ids};
        rec->id_at = (struct record_bytes){(const uint8_t *)at, 4 * (m->n_ids + 1)};
    }
    rec->content_at = m->content_at;
    rec->reasoning_at = m->reasoning_at;
    rec->reasoning_len = m->reasoning_len;
    rec->seed = m->seed;
    rec->attempt = m->attempt;
    rec->vocabulary = m->vocabulary;
    rec->stop = bytes_of(m->stop);
}

static uint64_t number_above(const struct node *n, int steps)
{
    while (n && steps-- > 0)
        n = node_parent(n);
    return n ? node_number(n) : 0;
}

static void put_message(struct archive *a, struct node *n, const struct branch *b)
{
    struct message *m = node_message(n);
    struct record rec = {.type = RECORD_MESSAGE,
                         .node = node_number(n),
                         .parent = number_above(n, 1),
                         .grandparent = number_above(n, 2),
                         .attempts = node_attempts(n),
                         .branch = b->number,
                         .time_ms = now_ms(),
                         .role = m->role};
    uint32_t *at = NULL;
    if (m->kept_as) {
        rec.same_as = m->kept_as;
    } else {
        rec.text = (struct record_bytes){(const uint8_t *)m->text, m->len};
        at = mem_zalloc(m->n_ids + 1, sizeof *at);
        if (m->role == ROLE_REPLY) fill_reply(&rec, m, at);
        m->kept_as = rec.node;
    }
    put(a, &rec);
    free(at);
    node_set_kept(n);
    struct kept_branch *kept = kept_branch(a, b->number);
    kept->leaf = rec.node;
    kept->is_loose = false;
    a->current = b->number;
}

/* The new nodes of a branch from the oldest on, and a count of attempts that has changed at the
 * node they grow from. */
static void put_nodes(struct archive *a, const struct branch *b)
{
    struct node **news = NULL, *n = b->leaf;
    size_t n_news = 0, cap = 0;
    uint32_t attempts;
    for (; node_parent(n) && !node_kept(n, &attempts); n = node_parent(n)) {
        MEM_GROW(news, n_news, cap);
        news[n_news++] = n;
    }
    if (node_parent(n) && attempts != node_attempts(n)) {
        put(a, &(struct record){.type = RECORD_ATTEMPTS,
                                .node = node_number(n),
                                .attempts = node_attempts(n)});
        node_set_kept(n);
    }
    while (n_news > 0)
        put_message(a, news[--n_news], b);
    free(news);
}

static void put_branch(struct archive *a, const struct branch *b, bool is_current)
{
    const struct kept_branch *kept = kept_branch(a, b->number);
    uint64_t leaf = node_number(b->leaf);
    bool same = kept->leaf == leaf && kept->is_loose == b->is_loose &&
                same_name(kept->name, b->name) && (a->current == b->number) == is_current;
    if (same) return;
    const struct message *m = node_message(b->leaf);
    put(a, &(struct record){.type = RECORD_BRANCH,
                            .branch = b->number,
                            .name = bytes_of(b->name),
                            .node = leaf,
                            .parent = number_above(b->leaf, 1),
                            .role = m ? m->role : 0,
                            .is_loose = b->is_loose,
                            .is_current = is_current});
    keep_branch(a, b);
    if (is_current) a->current = b->number;
}

/* All that the conversation has are kept by now. */
static void put_gone(struct archive *a, const struct conversation *c)
{
    const size_t n = conversation_n_branches(c);
    size_t n_left = 0;
    for (size_t i = 0; i < a->n_branches; i++) {
        const struct kept_branch kept = a->branches[i];
        if (n_left < n && conversation_branch(c, n_left)->number == kept.number) {
            a->branches[n_left++] = kept;
            continue;
        }
        put(a, &(struct record){.type = RECORD_BRANCH, .branch = kept.number, .is_gone = true});
        free(kept.name);
    }
    a->n_branches = n_left;
}

/* All branches, the current one last: an ordinary turn is then nothing but its messages. */
static void put_conversation(struct archive *a, struct conversation *c)
{
    const struct branch *current = conversation_current(c);
    size_t n = conversation_n_branches(c);
    for (size_t i = 0; i < n; i++)
        if (conversation_branch(c, i) != current) put_nodes(a, conversation_branch(c, i));
    put_nodes(a, current);
    put_branch(a, current, true);
    for (size_t i = 0; i < n; i++)
        if (conversation_branch(c, i) != current)
            put_branch(a, conversation_branch(c, i), false);
    put_gone(a, c);
}

/* ---- writing: the scratch into the file ---- */

static bool taken(struct err *err, const char *path)
{
    return err_set(
        err, ERR_USER,
        "%s: there is a session of this name already; hearth sessions rm removes one", path);
}

/* A file that was not there when its conversation began; a link that leads nowhere was. */
static bool begun(struct err *err, const char *path)
{
    const char *link = link_at(path);
    return err_set(err, ERR_USER, "%s: %s", path,
                   link ? link : "another hearth has begun a session of this name since");
}

/* The file that was written to is not at its path, or nobody can see whether it is. */
static bool lost(struct err *err, const char *path)
{
    struct file_stamp there;
    if (!file_stamp(path, &there) && !file_is_missing(errno)) return archive_refuse(err, path);
    return err_set(err, ERR_IO, "%s: somebody has removed or replaced the file", path);
}

/* Whether the file ends where the last frame does: a frame behind a hole or behind bytes of
 * somebody else would be damage to every reader. */
static bool is_as_left(const struct archive *a, struct err *err)
{
    struct stat st;
    if (fstat(a->fd, &st) != 0) return archive_refuse(err, a->path);
    return (uint64_t)st.st_size == a->n_bytes ||
           err_set(err, ERR_IO,
                   "%s: somebody has changed the file: it has %llu bytes, not %llu", a->path,
                   (unsigned long long)st.st_size, (unsigned long long)a->n_bytes);
}

static bool make_file(struct archive *a, struct err *err)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    const bool anew = a->old >= 0;
    if (!paths_make_parents(a->path, err)) return false;
    a->fd = anew ? file_temporary(a->path, &a->temporary) : open(a->path, flags, 0600);
    if (a->fd < 0 && errno == EEXIST && !anew) return begun(err, a->path);
    if (a->fd < 0) return archive_refuse(err, a->path);
    a->name_waits = true;
    if (anew && fcntl(a->fd, F_SETFL, O_APPEND) != 0) return archive_refuse(err, a->path);
    if (flock(a->fd, LOCK_EX | LOCK_NB) != 0) return archive_refuse(err, a->path);
    return true;
}

/* The disk holds the name of a file only once it holds the folder. Where that cannot be asked
 * for, of a folder that may not be read or in a file system that knows no such thing, it is
 * left to the system. */
static bool settle_name(struct archive *a, struct err *err)
{
    if (!a->name_waits) return true;
    char *folder = mem_strndup(a->path, (size_t)(strrchr(a->path, '/') - a->path));
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool ok = fd < 0 || fsync(fd) == 0 || errno == EINVAL || errno == EROFS ||
                    archive_refuse(err, folder);
    if (fd >= 0) close(fd);
    free(folder);
    a->name_waits = !ok;
    return ok;
}

static uint64_t new_identity(void)
{
    uint64_t identity = 0;
    if (getrandom(&identity, sizeof identity, 0) != sizeof identity) identity = now_ms();
    return identity;
}

static bool write_frames(struct archive *a, bool durable, struct err *err)
{
    if (!file_write_fd(a->fd, a->frames.data, a->frames.len)) {
        archive_refuse(err, a->path);
        /* If this fails too, the next reader finds a frame that was cut off. */
        if (ftruncate(a->fd, (off_t)a->n_bytes) != 0) errno = 0;
        return false;
    }
    a->n_bytes += a->frames.len;
    return !durable || fdatasync(a->fd) == 0 || archive_refuse(err, a->path);
}

/* A file that was made beside the old one is whole: it takes its place, whose lock is ours. */
static bool take_place(struct archive *a, struct err *err)
{
    if (!a->temporary) return true;
    if (!is_at(a->old, a->path)) return lost(err, a->path);
    if (rename(a->temporary, a->path) != 0) return archive_refuse(err, a->path);
    free(a->temporary);
    a->temporary = NULL;
    close(a->old);
    a->old = -1;
    return true;
}

/* Nothing went into the file that was made for it: its name is free again, or the file before
 * stays. */
static void unmake_file(struct archive *a)
{
    if (a->temporary)
        unlink(a->temporary);
    else if (!archive_is_lost(a))
        unlink(a->path);
    free(a->temporary);
    a->temporary = NULL;
    close(a->fd);
    a->fd = -1;
}

bool archive_sync(struct archive *a, struct conversation *c, const struct archive_state *state,
                  bool durable, struct err *err)
{
    if (a->is_read_only || a->is_broken) return true;
    if (a->fd < 0 && conversation_is_empty(c)) return true;
    buf_clear(&a->frames);
    const bool is_new = a->fd < 0;
    bool ok = !is_new || make_file(a, err);
    if (ok && !is_new && archive_is_lost(a)) ok = lost(err, a->path);
    if (ok && !is_new) ok = is_as_left(a, err);
    if (ok) {
        if (a->identity == 0) a->identity = new_identity();
        if (a->next == 0)
            put(a, &(struct record){.type = RECORD_SESSION,
                                    .time_ms = now_ms(),
                                    .program = bytes_of("hearth " HEARTH_VERSION)});
        put_state(a, state, conversation_system(c));
        put_conversation(a, c);
        ok = write_frames(a, durable || a->temporary, err) && take_place(a, err) &&
             (!durable || settle_name(a, err));
    }
    if (!ok && is_new && a->fd >= 0 && (a->n_bytes == 0 || a->temporary)) unmake_file(a);
    a->is_broken = !ok;
    return ok;
}

bool archive_rename(struct archive *a, const char *path, struct err *err)
{
    /* The file that is not made yet must find its name free, too. */
    if (a->fd < 0 && access(path, F_OK) == 0) return taken(err, path);
    const bool ok = a->fd < 0 || file_rename_new(a->path, path);
    if (!ok && errno == EEXIST) return taken(err, path);
    if (!ok) return archive_refuse(err, path);
    a->name_waits = a->fd >= 0;
    keep_name(&a->path, path);
    return true;
}
