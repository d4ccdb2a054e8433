/* Sessions for tests: a file to keep one in, messages for it, and what came back of it.
 *
 * No include guard: one includer per program. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "chance.h"
#include "chat/archive.h"
#include "chat/conversation.h"
#include "scratch.h"

static char home[SCRATCH_PATH], path[SCRATCH_PATH + 40];

static inline int set_up(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    umask(0);
    scratch_folder(home, "archive");
    snprintf(path, sizeof path, "%s/state/sessions/one.session", home);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    scratch_remove(home);
    return 0;
}

static const struct archive_state some_state = {
    .model = "a model", .settings = "temp 0.5\n", .kv_type = "f16", .seed = 42, .numerics = 7};

static inline void say(struct conversation *c, size_t n_bytes)
{
    char text[4096];
    for (size_t i = 0; i < n_bytes; i++)
        text[i] = (char)('a' + below(26));
    conversation_add(c, message_new(ROLE_USER, text, n_bytes));
}

static inline bool same_bytes(const void *a, size_t n_a, const void *b, size_t n_b)
{
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a) == 0);
}

static inline bool same_message(const struct message *a, const struct message *b)
{
    if (a->role != b->role || !same_bytes(a->text, a->len, b->text, b->len)) return false;
    if (a->role == ROLE_USER) return true;
    return same_bytes(a->ids, a->n_ids * sizeof *a->ids, b->ids, b->n_ids * sizeof *b->ids) &&
           (a->n_ids == 0 || same_bytes(a->id_at, (a->n_ids + 1) * sizeof *a->id_at, b->id_at,
                                        (b->n_ids + 1) * sizeof *b->id_at)) &&
           same_bytes(a->answer, a->answer_len, b->answer, b->answer_len) &&
           a->content_at == b->content_at && a->reasoning_at == b->reasoning_at &&
           a->reasoning_len == b->reasoning_len && a->vocabulary == b->vocabulary &&
           a->seed == b->seed && a->attempt == b->attempt && a->stop == b->stop;
}

static inline struct archive *open_again(struct conversation **c, struct buf *notes)
{
    struct err err;
    *c = conversation_new();
    struct archive *a = archive_open(path, *c, notes, &err);
    if (!a) fail_msg("%s", err.msg);
    return a;
}

/* A new file with a conversation of one message, still open. */
static inline struct archive *said_once(struct conversation **c)
{
    struct archive *a = archive_new(path);
    struct err err;
    unlink(path);
    *c = conversation_new();
    say(*c, 10);
    assert_true(archive_sync(a, *c, &some_state, true, &err));
    return a;
}
