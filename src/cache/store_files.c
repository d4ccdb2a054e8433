/* Files that appear by rename, and a walk that removes the oldest under a lock. */
#include "cache/store_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "config/paths.h"

static const char *const suffixes[N_BLOB_KINDS] = {
    [BLOB_PAGE] = ".page", [BLOB_WINDOW] = ".window", [BLOB_SNAPSHOT] = ".snap"};

enum { KEY_CHARS = 32, MODEL_CHARS = 64, STALE_SECONDS = 3600, AHEAD_SECONDS = 3600 };

static bool refuse(struct err *err, const char *path)
{
    return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}

/* Letters, digits and ._- of a name, others as _; never empty, hidden or "..". */
static void put_model(struct buf *out, const char *model)
{
    size_t n = strlen(model);
    for (size_t i = 0; i < n && i < MODEL_CHARS; i++) {
        char c = model[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || c == '-' || (c == '.' && i > 0);
        buf_putc(out, plain ? c : '_');
    }
    if (n == 0) buf_putc(out, '_');
}

char *store_files_path(const char *dir, const char *model, enum blob_kind kind,
                       const struct key *key)
{
    struct buf path = {0};
    buf_printf(&path, "%s/", dir);
    put_model(&path, model);
    buf_printf(&path, "/%016llx%016llx%s", (unsigned long long)key->hi,
               (unsigned long long)key->lo, suffixes[kind]);
    return buf_take(&path);
}

/* Writing and reading. */

bool store_files_prepare(const char *path, struct err *err)
{
    if (!paths_make_parents(path, err)) return false;
    char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    bool ok = access(folder, W_OK | X_OK) == 0 || refuse(err, folder);
    free(folder);
    return ok;
}

bool store_files_write(const char *path, const void *data, size_t n_bytes, struct err *err)
{
    /* No fsync: a page that a power cut left torn fails its checksum and is computed again. */
    return paths_make_parents(path, err) && file_replace(path, data, n_bytes, err);
}

void store_files_touch(const char *path, uint64_t n_tokens)
{
    struct timespec used[2] = {{.tv_nsec = UTIME_OMIT}, {0}};
    clock_gettime(CLOCK_REALTIME, &used[1]);
    used[1].tv_sec -= (time_t)(n_tokens / 64); /* a second for each page before it */
    utimensat(AT_FDCWD, path, used, AT_SYMLINK_NOFOLLOW);
}

/* Walking. */

/* Whether a file name is a key and a known suffix. */
static bool is_blob(const char *name, enum blob_kind *kind)
{
    if (strspn(name, "0123456789abcdef") != KEY_CHARS) return false;
    for (int i = 0; i < N_BLOB_KINDS; i++) {
        if (strcmp(name + KEY_CHARS, suffixes[i]) != 0) continue;
        *kind = (enum blob_kind)i;
        return true;
    }
    return false;
}

/* Whether a file is one of ours that a killed process left half written. */
static bool is_stale(const char *name, const struct stat *st)
{
    enum blob_kind kind;
    char blob[64];
    const char *dot = name[0] == '.' ? strchr(name + 1, '.') : NULL;
    dot = dot ? strchr(dot + 1, '.') : NULL;
    if (!dot || (size_t)(dot - name) >= sizeof blob) return false;
    snprintf(blob, sizeof blob, "%.*s", (int)(dot - name - 1), name + 1);
    return is_blob(blob, &kind) && st->st_mtim.tv_sec < time(NULL) - STALE_SECONDS;
}

/* Of a name that is_blob. */
static struct key key_of(const char *name)
{
    struct key key = {0};
    for (int i = 0; i < KEY_CHARS; i++) {
        const uint64_t digit = (uint64_t)(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
        uint64_t *half = i < KEY_CHARS / 2 ? &key.hi : &key.lo;
        *half = *half << 4 | digit;
    }
    return key;
}

struct key *store_files_keys(const char *dir, const char *model, enum blob_kind kind, size_t *n)
{
    struct key *keys = NULL;
    size_t cap = 0;
    struct buf folder = {0};
    buf_printf(&folder, "%s/", dir);
    put_model(&folder, model);
    DIR *d = opendir(buf_str(&folder));
    buf_free(&folder);
    *n = 0;
    for (struct dirent *entry; d && (entry = readdir(d));) {
        enum blob_kind is;
        if (!is_blob(entry->d_name, &is) || is != kind) continue;
        MEM_GROW(keys, *n, cap);
        keys[(*n)++] = key_of(entry->d_name);
    }
    if (d) closedir(d);
    if (keys) qsort(keys, *n, sizeof *keys, key_compare);
    return keys;
}

struct walk {
    store_file_fn *fn;
    void *user;
    bool remove_stale;
    const atomic_bool *stop; /* NULL: never */
};

static bool broken_off(struct err *err, const char *path)
{
    return err_set(err, ERR_CANCELLED, "%s: looking through it was cancelled", path);
}

static bool walk_model(const struct walk *w, const char *folder, const char *model,
                       struct err *err)
{
    DIR *d = opendir(folder);
    if (!d) return file_is_missing(errno) ? true : refuse(err, folder);
    struct buf path = {0};
    struct dirent *entry;
    bool ok = true;
    while (ok && (entry = readdir(d))) {
        struct store_file file = {.model = model};
        struct stat st;
        ok = !cancel_is_set(w->stop) || broken_off(err, folder);
        if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISREG(st.st_mode)) continue;
        if (w->remove_stale && is_stale(entry->d_name, &st))
            unlinkat(dirfd(d), entry->d_name, 0);
        if (!is_blob(entry->d_name, &file.kind)) continue;
        buf_clear(&path);
        buf_printf(&path, "%s/%s", folder, entry->d_name);
        file.path = buf_str(&path);
        file.n_bytes = (uint64_t)st.st_size;
        file.used = st.st_mtim;
        w->fn(w->user, &file);
    }
    closedir(d);
    buf_free(&path);
    return ok;
}

static bool walk_dir(const struct walk *w, const char *dir, struct err *err)
{
    DIR *d = opendir(dir);
    if (!d) return file_is_missing(errno) ? true : refuse(err, dir);
    struct buf folder = {0};
    struct dirent *entry;
    bool ok = true;
    while (ok && (entry = readdir(d))) {
        if (entry->d_name[0] == '.') continue;
        buf_clear(&folder);
        buf_printf(&folder, "%s/%s", dir, entry->d_name);
        ok = walk_model(w, buf_str(&folder), entry->d_name, err);
    }
    closedir(d);
    buf_free(&folder);
    return ok;
}

bool store_files_walk(const char *dir, store_file_fn *fn, void *user, struct err *err)
{
    return walk_dir(&(struct walk){fn, user, false, NULL}, dir, err);
}

/* Shrinking. */

struct candidate {
    char *path;
    uint64_t n_bytes;
    struct timespec used;
};

struct candidates {
    struct candidate *items;
    size_t n, cap;
    uint64_t n_bytes;
};

static void add_candidate(void *user, const struct store_file *file)
{
    struct candidates *all = user;
    struct timespec used = file->used;
    /* The clock was wrong: it would outlive all that comes until then. */
    if (used.tv_sec > time(NULL) + AHEAD_SECONDS) used = (struct timespec){0};
    MEM_GROW(all->items, all->n, all->cap);
    all->items[all->n++] = (struct candidate){mem_strdup(file->path), file->n_bytes, used};
    all->n_bytes += file->n_bytes;
}

static int oldest_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* The lock of removals: its descriptor, or -1. Another process may hold it for long: it waits
 * for a disk, was stopped, or has a thread of idle priority at work. */
static int lock(const char *dir, bool waits, struct err *err)
{
    struct buf path = {0};
    buf_printf(&path, "%s/.lock", dir);
    int fd = open(buf_str(&path), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (fd >= 0 && flock(fd, waits ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        close(fd);
        fd = -1;
    }
    if (fd < 0 && errno == EWOULDBLOCK)
        err_set(err, ERR_CANCELLED, "%s: another process removes pages", dir);
    else if (fd < 0)
        refuse(err, buf_str(&path));
    buf_free(&path);
    return fd;
}

/* Removes the first of them until keep_bytes are left. */
static bool remove_oldest(struct candidates *all, uint64_t keep_bytes, const atomic_bool *stop,
                          struct store_total *gone, struct err *err)
{
    bool ok = true;
    if (all->n > 0) qsort(all->items, all->n, sizeof *all->items, oldest_first);
    for (size_t i = 0; ok && i < all->n && all->n_bytes > keep_bytes; i++) {
        const struct candidate *c = &all->items[i];
        if (cancel_is_set(stop)) ok = broken_off(err, c->path);
        /* Gone already is as good: another process cleared the folder by hand. */
        else if (unlink(c->path) != 0 && errno != ENOENT)
            ok = refuse(err, c->path);
        else
            all->n_bytes -= c->n_bytes, gone->n_bytes += c->n_bytes, gone->n++;
    }
    return ok;
}

bool store_files_shrink(const char *dir, uint64_t keep_bytes,
                        const struct store_patience *patience, struct store_total *left,
                        struct store_total *removed, struct err *err)
{
    struct candidates all = {0};
    struct store_total gone = {0};
    const struct walk walk = {add_candidate, &all, true, patience->stop};
    const bool is_there = access(dir, F_OK) == 0;
    const int fd = is_there ? lock(dir, patience->waits, err) : -1;
    const bool ok = !is_there || (fd >= 0 && walk_dir(&walk, dir, err) &&
                                  remove_oldest(&all, keep_bytes, patience->stop, &gone, err));
    if (left) *left = (struct store_total){all.n - gone.n, all.n_bytes};
    if (removed) *removed = gone;
    for (size_t i = 0; i < all.n; i++)
        free(all.items[i].path);
    free(all.items);
    if (fd >= 0) close(fd);
    return ok;
}
