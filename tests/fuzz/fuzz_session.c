/* Session files over any bytes: the checksums are made right first, so that what lies behind
 * them is reached. What was read must be walkable. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/frames.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "chat/archive.h"
#include "chat/conversation.h"
#include "chat/export.h"
#include "target.h"

static volatile size_t sink;

static void repair(uint8_t *data, size_t n)
{
    for (size_t at = 0; n >= FRAME_HEAD_BYTES && at <= n - FRAME_HEAD_BYTES; at++) {
        uint8_t *p = data + at;
        if (memcmp(p, "HEARTHLG", 8) != 0) continue;
        size_t most = n - at - FRAME_HEAD_BYTES, n_payload = bytes_u32(p + 12);
        if (n_payload > most) n_payload = most;
        uint64_t sum = XXH3_64bits_withSeed(p + FRAME_HEAD_BYTES, n_payload, bytes_u64(p + 16));
        memcpy(p + 32, &sum, sizeof sum);
        sum = XXH3_64bits_withSeed(p, 40, at);
        memcpy(p + 40, &sum, sizeof sum);
    }
}

static size_t walk_message(const struct message *m)
{
    size_t sum = strlen(m->text) + m->len;
    if (m->role == ROLE_USER) return sum;
    for (size_t i = 0; i < m->n_ids; i++)
        sum += (size_t)m->ids[i] + (uint8_t)m->text[m->id_at[i]];
    sum += m->id_at[m->n_ids] + strlen(m->answer) + m->answer_len + strlen(m->stop);
    return sum + (uint8_t)m->text[m->content_at] +
           (uint8_t)m->text[m->reasoning_at + m->reasoning_len];
}

/* As others get it: text that is UTF-8, and one JSON object with all messages. */
static void export(struct conversation *c)
{
    for (int f = EXPORT_MARKDOWN; f <= EXPORT_JSON; f++) {
        struct buf out = {0};
        json_error_t why;
        export_conversation(c, (enum export_format)f, &out);
        if (!utf8_valid(buf_str(&out), out.len)) abort();
        if (f == EXPORT_JSON) {
            json_t *root = json_loadb(buf_str(&out), out.len, JSON_ALLOW_NUL, &why);
            if (json_array_size(json_object_get(root, "messages")) != conversation_n(c))
                abort();
            json_decref(root);
        }
        buf_free(&out);
    }
}

static void walk(struct conversation *c)
{
    size_t sum = conversation_n_turns(c);
    for (size_t i = 0; i < conversation_n_branches(c); i++) {
        const struct branch *b = conversation_branch(c, i);
        size_t n = branch_n(b);
        for (const struct node *p = b->leaf; node_parent(p); p = node_parent(p), n--)
            sum += walk_message(node_message(p));
        if (n != 0) abort();
    }
    export(c);
    conversation_drop_oldest(c, conversation_n(c) / 2);
    sink = sink + sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    uint8_t *copy = mem_alloc(n_bytes);
    if (n_bytes) memcpy(copy, data, n_bytes);
    repair(copy, n_bytes);
    struct conversation *c = conversation_new();
    struct archive_state state;
    struct buf strings[ARCHIVE_STRINGS] = {0}, notes = {0};
    struct frames_end end;
    struct err err;
    const struct archive_into into = {c, &state, strings, &notes, &end};
    if (!archive_read(copy, n_bytes, "fuzz", &into, &err)) must_be_refusal(&err);
    walk(c);
    conversation_free(c);
    for (size_t i = 0; i < ARCHIVE_STRINGS; i++)
        buf_free(&strings[i]);
    buf_free(&notes);
    free(copy);
    return 0;
}
