#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)                    ? "a directory"
           : S_ISFIFO(mode)                 ? "a FIFO"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "no regular file";
}

static struct file_stamp stamp_of(const struct stat *st)
{
    return (struct file_stamp){.device = st->st_dev,
                               .inode = st->st_ino,
                               .n_bytes = (uint64_t)st->st_size,
                               .modified_s = st->st_mtim.tv_sec,
                               .modified_ns = st->st_mtim.tv_nsec,
                               .changed_s = st->st_ctim.tv_sec,
                               .changed_ns = st->st_ctim.tv_nsec};
}

bool file_stamp(const char *path, struct file_stamp *out)
{
    struct stat st;
    if (stat(path, &st) != 0) return false;
    *out = stamp_of(&st);
    return true;
}

bool file_stamp_fd(int fd, struct file_stamp *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return false;
    *out = stamp_of(&st);
    return true;
}

bool file_is_same(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode;
}

bool file_is_missing(int error)
{
    return error == ENOENT || error == ENOTDIR;
}

/* Opens a regular file for reading; -1 and err for anything else, at once: nothing waits for
 * the writer of a FIFO. */
static int open_regular(const char *path, struct file_stamp *stamp, struct err *err)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        err_set(err, ERR_USER, "%s: is %s, expected a file", path, kind_of(st.st_mode));
    } else {
        *stamp = stamp_of(&st);
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

/* The open mappings, for whoever has an address: a handler of signals reads them. data is set
 * last and cleared first. */
static struct known {
    atomic_bool taken;
    _Atomic(const uint8_t *) data;
    atomic_size_t n_bytes;
    atomic_int fd; /* of the file */
    char name[512];
} known[64];
enum { N_KNOWN = sizeof known / sizeof *known };

/* Keeps fd, or closes it where there is no place left. */
static void remember(const struct file_map *map, const char *path, int fd)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        struct known *k = &known[i];
        if (atomic_exchange(&k->taken, true)) continue;
        atomic_store(&k->n_bytes, map->n_bytes);
        atomic_store(&k->fd, fd);
        printable(k->name, sizeof k->name, path, strlen(path));
        atomic_store(&k->data, map->data);
        return;
    }
    close(fd);
}

static void forget(const struct file_map *map)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        if (atomic_load(&known[i].data) != map->data) continue;
        atomic_store(&known[i].data, NULL);
        close(atomic_load(&known[i].fd));
        atomic_store(&known[i].taken, false);
        return;
    }
}

/* Where an address lies: so many bytes from the beginning of a file. */
struct place {
    const char *name;
    int fd;
    size_t at;
};

/* False: in no mapping. The address stays mapped meanwhile; others may be closed and opened, so
 * what is read of one counts only if it is still the same. */
static bool place_of(const void *address, struct place *out)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        const uint8_t *data = atomic_load(&known[i].data);
        const size_t at = (size_t)((uintptr_t)address - (uintptr_t)data);
        if (!data || at >= atomic_load(&known[i].n_bytes)) continue;
        *out = (struct place){known[i].name, atomic_load(&known[i].fd), at};
        if (atomic_load(&known[i].data) == data) return true;
    }
    return false;
}

const char *file_map_at(const void *address)
{
    struct place place;
    return place_of(address, &place) ? place.name : NULL;
}

/* A page that is touched costs a fault for each few, its place in the page table and, once it
 * is given back, a word to all cores. ms to copy 379 MB of the page cache, 2 threads, touched
 * and given back, and so: 191 and 54, of which 30 are the first touch of the copy (Zen 5, a
 * guest whose page tables its host keeps, 2026-11). */
const void *file_map_bytes(const void *data, size_t n_bytes, void *room)
{
    struct place place;
    if (!place_of(data, &place)) return data;
    for (size_t n = 0; n < n_bytes;) {
        const ssize_t more =
            pread(place.fd, (uint8_t *)room + n, n_bytes - n, (off_t)(place.at + n));
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return data;
        n += (size_t)more;
    }
    return room;
}

bool file_map_open(struct file_map *map, const char *path, struct err *err)
{
    *map = (struct file_map){0};
    struct file_stamp stamp;
    const int fd = open_regular(path, &stamp, err);
    if (fd < 0) return false;
    const size_t n_bytes = (size_t)stamp.n_bytes;
    bool ok = n_bytes > 0 || err_set(err, ERR_FORMAT, "%s: is empty", path);
    if (ok) {
        void *p = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            ok = err_set(err, ERR_IO, "%s: cannot map %zu bytes: %s", path, n_bytes,
                         strerror(errno));
        else
            *map = (struct file_map){p, n_bytes, stamp};
    }
    if (ok)
        remember(map, path, fd);
    else
        close(fd);
    return ok;
}

void file_map_close(struct file_map *map)
{
    if (map->data) {
        forget(map);
        munmap((void *)(uintptr_t)map->data, map->n_bytes);
    }
    *map = (struct file_map){0};
}

void file_map_release(const struct file_map *map, const void *data, size_t n_bytes)
{
    const size_t page = mem_page_bytes();
    if (map->stamp.n_bytes != map->n_bytes) return;
    size_t from = (size_t)((const uint8_t *)data - map->data), to = from + n_bytes;
    assert(to <= map->n_bytes);
    from = mem_round_up(from, page);
    to = to / page * page;
    if (from < to) madvise((void *)(uintptr_t)(map->data + from), to - from, MADV_DONTNEED);
}

/* Whether a call that failed is to be made again: after a signal, or once the descriptor is
 * ready that does not wait by itself, as one is that a parent made so for its own use. */
static bool goes_on(int fd, short events)
{
    struct pollfd ready = {.fd = fd, .events = events};
    if (errno == EAGAIN) poll(&ready, 1, -1);
    return errno == EINTR || errno == EAGAIN;
}

bool file_read_fd(int fd, const char *name, size_t max_bytes, struct buf *out, struct err *err)
{
    char chunk[1 << 16], most[READABLE_BYTES];
    size_t total = 0;
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && goes_on(fd, POLLIN)) continue;
        if (n < 0) return err_set(err, ERR_IO, "%s: %s", name, strerror(errno));
        if (n == 0) return true;
        total += (size_t)n;
        if (total > max_bytes)
            return err_set(err, ERR_USER, "%s: more than %s", name,
                           readable_size(most, max_bytes));
        buf_append(out, chunk, (size_t)n);
    }
}

bool file_read(const char *path, size_t max_bytes, struct buf *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    bool ok = file_read_fd(fd, path, max_bytes, out, err);
    close(fd);
    return ok;
}

bool file_read_regular(const char *path, size_t max_bytes, struct buf *out, struct err *err)
{
    struct file_stamp stamp;
    const int fd = open_regular(path, &stamp, err);
    if (fd < 0) return false;
    const bool ok = file_read_fd(fd, path, max_bytes, out, err);
    close(fd);
    return ok;
}

static bool cannot(struct err *err, const char *path)
{
    return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}

bool file_write_fd(int fd, const void *data, size_t n_bytes)
{
    const char *at = data;
    while (n_bytes > 0) {
        ssize_t n = write(fd, at, n_bytes);
        if (n < 0 && goes_on(fd, POLLOUT)) continue;
        if (n < 0) return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static char *temporary_name(const char *path)
{
    static atomic_uint count;
    const char *slash = strrchr(path, '/');
    struct buf name = {0};
    buf_append(&name, path, (size_t)(slash - path));
    buf_printf(&name, "/.%s.%ld.%u", slash + 1, (long)getpid(), atomic_fetch_add(&count, 1));
    return buf_take(&name);
}

bool file_rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
    /* A file system that cannot look and rename in one step. */
    if (errno != EINVAL) return false;
    if (access(to, F_OK) != 0) return rename(from, to) == 0;
    errno = EEXIST;
    return false;
}

/* One of that name may be left of a process that was killed: in a container the next often has
 * its number. */
int file_temporary(const char *path, char **name)
{
    enum { MOST_LEFT = 1000 };
    *name = temporary_name(path);
    for (int i = 0;; i++) {
        const int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST || i == MOST_LEFT) return fd;
        free(*name);
        *name = temporary_name(path);
    }
}

bool file_replace(const char *path, const void *data, size_t n_bytes, struct err *err)
{
    char *temporary;
    int fd = file_temporary(path, &temporary);
    bool ok = fd >= 0 && file_write_fd(fd, data, n_bytes);
    if (!ok) cannot(err, temporary);
    if (fd >= 0 && close(fd) != 0 && ok) ok = cannot(err, temporary);
    if (ok && rename(temporary, path) != 0) ok = cannot(err, path);
    if (!ok && fd >= 0) unlink(temporary);
    free(temporary);
    return ok;
}

bool file_read_plain(const char *path, size_t max_bytes, struct buf *out)
{
    struct stat st;
    buf_clear(out);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0 &&
              (uint64_t)st.st_size <= max_bytes;
    size_t n_bytes = ok ? (size_t)st.st_size : 0;
    ok = ok && buf_try_resize(out, n_bytes);
    for (size_t at = 0; ok && at < n_bytes;) {
        ssize_t n = read(fd, out->data + at, n_bytes - at);
        if (n < 0 && errno == EINTR) continue;
        ok = n > 0;
        if (ok) at += (size_t)n;
    }
    close(fd);
    return ok;
}

double clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
