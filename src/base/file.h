/* Whole files and clocks. Any thread may call; nothing here knows what a file holds. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* What tells a file from others, and from itself after a change. No padding. */
struct file_stamp {
    uint64_t device, inode, n_bytes;
    int64_t modified_s, modified_ns, changed_s, changed_ns;
};

/* A read-only mapping of a regular file. Each of the first 64 that are open at a time keeps its
 * descriptor. */
struct file_map {
    const uint8_t *data; /* NULL only if never opened */
    size_t n_bytes;
    struct file_stamp stamp; /* as it was opened; zeros of bytes that are no file */
};

/* The stamp of the file at path now; false if there is none. */
bool file_stamp(const char *path, struct file_stamp *out);
/* The stamp of an open descriptor; false if it has none. */
bool file_stamp_fd(int fd, struct file_stamp *out);
/* Whether both stamps are of one file, which may have changed between them. */
bool file_is_same(const struct file_stamp *a, const struct file_stamp *b);

/* Whether an errno says that there is nothing at a path: it is not there, or what it would lie
 * in is no folder, as below a HOME that is /dev/null. */
bool file_is_missing(int error);

/* Maps the file at path; directories, devices and empty files are refused by name. */
bool file_map_open(struct file_map *map, const char *path, struct err *err);
/* {0} is fine. */
void file_map_close(struct file_map *map);
/* Gives back the memory of the whole pages within n_bytes of the mapping from data on: they are
 * read again when they are touched again. Bytes that are no file stay. */
void file_map_release(const struct file_map *map, const void *data, size_t n_bytes);

/* The n_bytes at data, to be read once: where they lie in one of those 64 mappings they are
 * read from its file to room, which is returned, and the pages are not touched; else data
 * itself, as it is where the file cannot be read. room of n_bytes. */
const void *file_map_bytes(const void *data, size_t n_bytes, void *room);

/* The name of the file whose mapping holds the address of a fault, fit for a terminal, or NULL;
 * of the first 64 mappings that are open at a time. Async-signal-safe; borrowed while it is
 * open. */
const char *file_map_at(const void *address);

/* Appends the whole file (or what a pipe gives) to out; more than max_bytes is an error. */
bool file_read(const char *path, size_t max_bytes, struct buf *out, struct err *err);
/* The same of a regular file; others are refused by name, so that nothing is waited for. */
bool file_read_regular(const char *path, size_t max_bytes, struct buf *out, struct err *err);
/* The same from an open descriptor, which is waited for where it does not wait itself; name is
 * what errors call it. */
bool file_read_fd(int fd, const char *name, size_t max_bytes, struct buf *out, struct err *err);

/* Writes all of it, through interruptions, short writes and a descriptor that does not wait;
 * false leaves errno. */
bool file_write_fd(int fd, const void *data, size_t n_bytes);
/* Gives a file another name in its file system, which nothing has; false leaves errno, EEXIST
 * where it is taken. */
bool file_rename_new(const char *from, const char *to);
/* A new file beside path to write to, 0600, its name to free(); -1 with errno: there is none.
 * path names a folder, too. */
int file_temporary(const char *path, char **name);
/* Writes a new file whole, 0600: a temporary one beside it, then rename, without waiting for
 * the disk. path names a folder, too. On failure nothing is left behind. */
bool file_replace(const char *path, const void *data, size_t n_bytes, struct err *err);
/* Replaces out by the file. A missing one, one that is not regular, one of more than max_bytes
 * and one that there is no memory for are false, without a word; out holds rubbish then. */
bool file_read_plain(const char *path, size_t max_bytes, struct buf *out);

/* A steady clock in milliseconds. */
double clock_ms(void);

#endif
