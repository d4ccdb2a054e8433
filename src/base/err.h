/* Errors of the world: files, models, configurations, devices.
 *
 * A fallible function returns bool or a pointer and takes a `struct err *` last, never NULL.
 * On failure it returns false or NULL and leaves one code and one message that names the thing,
 * what was expected and what was found. Only app and ui print it. Bugs of our own are assert's.
 * A struct err belongs to the caller and holds no memory; any thread may fill its own. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>

enum err_code {
    ERR_NONE,
    ERR_USER,      /* arguments, configuration, a request that cannot be met */
    ERR_USAGE,     /* of these what the command line itself has wrong; a subcommand's */
    ERR_IO,        /* the system refused: open, read, write */
    ERR_FORMAT,    /* bytes from outside that are not what they claim to be */
    ERR_MEMORY,    /* weights, KV or scratch do not fit */
    ERR_DEVICE,    /* a driver or device failed */
    ERR_SESSION,   /* a session that cannot be used: damaged, newer, open elsewhere */
    ERR_CANCELLED, /* the user stopped it; everything finished before stays valid */
};

struct err {
    enum err_code code;
    char msg[1024]; /* one line made printable, no newline; cut at the end if longer */
};

/* Sets code and message; always false, so that `return err_set(...)` reads well. (A macro, so
 * that compilers and analysers see the false at every call.) */
#define err_set(...) (err_write(__VA_ARGS__), err_false())

/* Puts "prefix: " before the message already there; always false. */
#define err_prefix(...) (err_write_prefix(__VA_ARGS__), err_false())

/* What the macros call. */
void err_write(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void err_write_prefix(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static inline bool err_false(void)
{
    return false;
}

#endif
