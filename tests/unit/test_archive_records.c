/* Sessions made record by record: those that make no sense, that are lost, or that would take
 * too long. */
#include <stdlib.h>

#include "../archive_sample.h"
#include "base/frames.h"
#include "chat/face.h"
#include "chat/record.h"

static void add_record(struct buf *log, uint64_t number, const struct record *rec)
{
    struct buf payload = {0};
    record_write(rec, &payload);
    frame_append(log, &(struct frame){.version = RECORD_VERSION,
                                      .type = (uint16_t)rec->type,
                                      .identity = 5,
                                      .number = number,
                                      .at = log->len,
                                      .payload = (const uint8_t *)payload.data,
                                      .n_bytes = payload.len});
    buf_free(&payload);
}

static struct conversation *read_log(const struct buf *log, struct buf *notes)
{
    struct conversation *c = conversation_new();
    struct archive_state state;
    struct frames_end end;
    struct buf strings[ARCHIVE_STRINGS] = {0};
    struct err err;
    const struct archive_into into = {c, &state, strings, notes, &end};
    buf_clear(notes);
    if (!archive_read((const uint8_t *)log->data, log->len, "log", &into, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < ARCHIVE_STRINGS; i++)
        buf_free(&strings[i]);
    return c;
}

static struct conversation *read_records(const struct record *recs, size_t n, struct buf *log,
                                         struct buf *notes)
{
    buf_clear(log);
    for (size_t i = 0; i < n; i++)
        add_record(log, i, &recs[i]);
    return read_log(log, notes);
}

#define BYTES(x)                        \
    {                                   \
        (const uint8_t *)(x), sizeof(x) \
    }
#define SAID(x)                             \
    {                                       \
        (const uint8_t *)(x), sizeof(x) - 1 \
    }
static const int32_t two_ids[] = {5, -1}, wrong_ids[] = {5, -2};
static const uint32_t three_places[] = {0, 3, 20}, two_places[] = {0, 20},
                      back_places[] = {4, 3, 20}, far_places[] = {0, 3, 21};
static const struct record asked = {
    .type = RECORD_MESSAGE, .node = 1, .branch = 1, .text = SAID("hi")};
static const struct record answered = {.type = RECORD_MESSAGE,
                                       .node = 2,
                                       .parent = 1,
                                       .branch = 1,
                                       .role = ROLE_REPLY,
                                       .text = SAID("<think>hm</think>Yes"),
                                       .stop = SAID("a later one"),
                                       .ids = BYTES(two_ids),
                                       .id_at = BYTES(three_places),
                                       .content_at = 17,
                                       .reasoning_at = 7,
                                       .reasoning_len = 2};

/* A record whose numbers cannot be is left out, and said to be. */
static void test_no_sense(void **state)
{
    (void)state;
    enum { N = 18 };
    struct buf log = {0}, notes = {0};
    struct record recs[2] = {asked, answered}, bad[N];
    struct conversation *c = read_records(recs, 2, &log, &notes);
    assert_int_equal(notes.len, 0);
    assert_int_equal(conversation_n(c), 2);
    const struct message *m = conversation_at(c, 1);
    assert_true(m->n_ids == 2 && m->ids[1] == -1 && m->id_at[2] == 20);
    assert_int_equal(m->answer_len, 3);
    assert_string_equal(m->stop, "end");
    conversation_free(c);
    static const uint64_t ends[][3] = {{17, 7, 13}, {20, 20, 0}}; /* of the text */
    for (size_t i = 0; i < 2; i++) {
        recs[1].content_at = ends[i][0];
        recs[1].reasoning_at = ends[i][1], recs[1].reasoning_len = ends[i][2];
        conversation_free(read_records(recs, 2, &log, &notes));
        assert_int_equal(notes.len, 0);
    }
    recs[1].node = (uint64_t)1 << 53;
    conversation_free(read_records(recs, 2, &log, &notes));
    assert_int_equal(notes.len, 0);

    for (size_t i = 0; i < N; i++)
        bad[i] = answered;
    bad[0].node = bad[0].parent = 0;
    bad[1].node = ((uint64_t)1 << 53) + 1;
    bad[2].parent = 2;
    bad[3].node = 1, bad[3].parent = 0;
    bad[4].role = ROLE_REPLY + 1;
    bad[5].text = (struct record_bytes){0};
    bad[6].id_at = (struct record_bytes){0};
    bad[7].id_at = (struct record_bytes)BYTES(two_places);
    bad[8].id_at = (struct record_bytes)BYTES(back_places);
    bad[9].id_at = (struct record_bytes)BYTES(far_places);
    bad[10].ids = (struct record_bytes)BYTES(wrong_ids);
    bad[11].content_at = 21;
    bad[12].reasoning_at = 21, bad[12].reasoning_len = 0;
    bad[13].reasoning_len = 14;
    bad[14].branch = 0;
    bad[15].branch = UINT32_MAX;
    bad[16] = (struct record){.type = RECORD_BRANCH, .node = 1};
    bad[17] = (struct record){
        .type = RECORD_BRANCH, .branch = 2, .node = ((uint64_t)1 << 53) + 1, .is_current = 1};
    for (size_t i = 0; i < N; i++) {
        recs[1] = bad[i];
        c = read_records(recs, 2, &log, &notes);
        if (!strstr(buf_str(&notes), "frame 1 at byte ")) fail_msg("record %zu is taken", i);
        assert_non_null(strstr(buf_str(&notes), " makes no sense; it is left out\n"));
        assert_int_equal(conversation_n(c), 1);
        conversation_free(c);
    }
    buf_free(&log);
    buf_free(&notes);
}

/* Messages that are lost keep the place of those around them, also where two are lost, and
 * where they are missed only later. */
static void test_lost(void **state)
{
    (void)state;
    struct buf log = {0}, notes = {0};
    struct record recs[4] = {asked, answered, answered, asked};
    recs[1].node = 12;
    recs[2].node = 13, recs[2].parent = 9, recs[2].grandparent = 8, recs[2].branch = 2;
    recs[3].node = 14, recs[3].parent = 12;
    struct conversation *c = read_records(recs, 4, &log, &notes);
    assert_int_equal(conversation_n(c), 3);
    assert_int_equal(node_number(node_parent(conversation_current(c)->leaf)), 12);
    conversation_switch(c, conversation_find(c, "2"));
    assert_int_equal(conversation_n(c), 3);
    assert_non_null(strstr(conversation_at(c, 1)->text, "this message is lost"));
    assert_int_equal(conversation_at(c, 1)->role, ROLE_USER); /* a reply follows */
    assert_int_equal(node_number(node_parent(conversation_current(c)->leaf)), 9);
    conversation_free(c);

    recs[2].grandparent = 12; /* which is no message before it */
    c = read_records(recs, 3, &log, &notes);
    assert_int_equal(branch_n(conversation_find(c, "2")), 3);
    conversation_free(c);

    recs[1] = (struct record){
        .type = RECORD_BRANCH, .branch = 3, .node = 2, .parent = 1, .role = ROLE_REPLY};
    c = read_records(recs, 2, &log, &notes);
    uint32_t n_attempts;
    const struct node *leaf = conversation_find(c, "3")->leaf;
    const struct message *lost = node_message(leaf);
    assert_int_equal(lost->role, ROLE_REPLY);
    assert_int_equal(lost->n_ids, 0);
    assert_string_equal(lost->answer, lost->text);
    assert_string_equal(lost->stop, face_stop_name(FACE_STOP_FAILED));
    assert_true(node_kept(leaf, &n_attempts)); /* a save does not write it down */
    conversation_free(c);

    recs[1] = answered;
    recs[2] = (struct record){
        .type = RECORD_MESSAGE, .node = 3, .parent = 2, .branch = 1, .same_as = 77};
    c = read_records(recs, 3, &log, &notes);
    lost = conversation_at(c, 2);
    assert_int_equal(lost->len, strlen(lost->text));
    assert_non_null(strstr(lost->text, "this message is lost"));
    conversation_free(c);

    /* What a later hearth writes, and what is said of one that is lost. */
    recs[1] = (struct record){.type = (enum record_type)6, .node = 1};
    recs[2] = (struct record){.type = RECORD_ATTEMPTS, .node = 77, .attempts = 3};
    recs[3] = (struct record){.type = RECORD_ATTEMPTS, .node = 1, .attempts = 3};
    c = read_records(recs, 4, &log, &notes);
    assert_int_equal(notes.len, 0);
    assert_int_equal(conversation_n(c), 1);
    assert_int_equal(node_attempts(conversation_current(c)->leaf), 3);
    conversation_free(c);

    /* Two frames side by side. */
    buf_clear(&log);
    size_t at[5] = {0};
    for (size_t i = 0; i < 4; i++) {
        recs[i] = i % 2 ? answered : asked;
        recs[i].node = i + 1, recs[i].parent = i;
        add_record(&log, i, &recs[i]);
        at[i + 1] = log.len;
    }
    log.data[at[1] + 20] ^= 1;
    log.data[at[2] + 20] ^= 1;
    c = read_log(&log, &notes);
    char want[100];
    snprintf(want, sizeof want,
             "bytes %zu to %zu are damaged (frames 1 to 2); the rest is loaded\n", at[1],
             at[3] - 1);
    assert_string_equal(buf_str(&notes), want);
    conversation_free(c);

    /* Bytes where no frame is missing. */
    buf_clear(&log);
    add_record(&log, 0, &asked);
    snprintf(want, sizeof want, "bytes %zu to %zu are damaged; the rest is loaded\n", log.len,
             log.len + 3);
    buf_puts(&log, "junk");
    add_record(&log, 1, &answered);
    c = read_log(&log, &notes);
    assert_string_equal(buf_str(&notes), want);
    assert_int_equal(conversation_n(c), 2);
    conversation_free(c);
    buf_free(&log);
    buf_free(&notes);
}

/* Messages from the last to the first: each goes before all others. A file of so many is none
 * that hearth wrote, and would take minutes; what was read until then is there. */
static void test_backwards(void **state)
{
    (void)state;
    enum { MANY = 60000 };
    struct buf log = {0}, notes = {0};
    struct record one = asked;
    for (uint64_t i = 0; i < MANY; i++) {
        one.node = MANY - i;
        add_record(&log, i, &one);
    }
    struct conversation *c = read_log(&log, &notes);
    assert_int_equal(conversation_n(c), 1);
    assert_null(strstr(buf_str(&notes), "frame 40000 "));
    assert_non_null(strstr(buf_str(&notes), "frame 50000 "));
    conversation_free(c);
    buf_free(&log);
    buf_free(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_sense),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_backwards),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
