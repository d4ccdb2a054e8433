/* The records of a session file: what the payload of a frame says (hearth-session(5)).
 *
 * A payload is a list of fields, each a tag, a length and bytes. One table holds the tags;
 * fields of unknown tags are skipped, so that a later hearth may add some. Pure; payloads are
 * hostile until checked. Knows no file and no conversation. */
#ifndef CHAT_RECORD_H
#define CHAT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { RECORD_VERSION = 1 };

enum record_type {
    RECORD_SESSION = 1, /* time, program: the first frame of a file */
    RECORD_STATE = 2,   /* model, kv_type, system, settings, seed, …: replaces the last */
    RECORD_MESSAGE = 3, /* node, parent, …: a message at the end of a branch, the current one */
    RECORD_ATTEMPTS = 4, /* node, attempts: replies that were asked for after it */
    RECORD_BRANCH = 5,   /* branch, name, node, is_loose, is_gone, is_current */
};

/* Bytes borrowed from the payload; data is NULL if the field is absent. */
struct record_bytes {
    const uint8_t *data;
    size_t n;
};

/* The fields. Numbers that are absent are 0. */
struct record {
    enum record_type type;
    uint64_t time_ms;                   /* since 1970 */
    uint64_t seed;                      /* of the session, of the reply */
    uint64_t vocabulary;                /* that the ids belong to */
    uint64_t node, parent, grandparent; /* 0: the root */
    uint64_t same_as;                   /* the node whose message this one has too; 0: none */
    uint64_t branch, role, attempt, attempts;
    uint64_t content_at, reasoning_at, reasoning_len;
    uint64_t is_loose, is_gone, is_current;
    uint64_t numerics;
    /* UTF-8 without NUL. */
    struct record_bytes program, model, draft, system, settings, stop, name, kv_type;
    struct record_bytes text, answer; /* UTF-8; a pipe or a model may say a NUL */
    struct record_bytes ids;          /* i32 each, any alignment */
    struct record_bytes id_at;        /* u32 each, one more than ids */
};

/* Appends the payload; absent fields are left out. */
void record_write(const struct record *r, struct buf *out);
/* False if the payload is no list of fields, or a field is not of its kind. */
bool record_read(uint16_t type, const uint8_t *payload, size_t n, struct record *r);

#endif
