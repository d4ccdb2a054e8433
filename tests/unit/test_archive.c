/* Sessions on disk: random histories read back as they were; cuts and flips cost the frame they
 * hit; what a save costs; files that are no sessions. */
#include <fcntl.h>
#include <stdlib.h>

#include "../archive_sample.h"
#include "../soak.h"
#include "base/file.h"
#include "base/frames.h"
#include "chat/face.h"
#include "chat/record.h"

/* ---- conversations ---- */

/* A reply with ids, some of which have no bytes or share a character, and a thought. */
static void reply(struct conversation *c)
{
    struct buf text = {0};
    struct buf answer = {0};
    uint32_t n = below(30);
    buf_puts(&text, "<think>hm</think>");
    size_t content_at = text.len;
    int32_t *ids = mem_zalloc(n + 1, sizeof *ids);
    size_t *id_at = mem_zalloc(n + 1, sizeof *id_at);
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = below(5) == 0 ? -1 : (int32_t)below(150000);
        id_at[i] = text.len;
        if (below(4)) buf_puts(&text, "w\xc3\xb6rd ");
        if (below(16) == 0) buf_putc(&text, '\0');
    }
    id_at[n] = text.len;
    struct message *m = message_new(ROLE_REPLY, buf_str(&text), text.len);
    m->ids = ids;
    m->id_at = id_at;
    m->n_ids = n;
    m->content_at = content_at;
    m->reasoning_at = 7;
    m->reasoning_len = 2;
    buf_append(&answer, m->text + content_at, m->len - content_at);
    if (below(4) == 0) buf_puts(&answer, "!");
    m->answer_len = answer.len;
    m->answer = buf_take(&answer);
    m->vocabulary = below(3);
    m->seed = (uint64_t)below(1u << 30) << 20;
    m->attempt = conversation_next_attempt(c);
    m->stop = face_stop_name((enum face_stop)below(5));
    conversation_add(c, m);
    buf_free(&text);
}

/* One thing that a user might do. */
static void step(struct conversation *c)
{
    size_t n = conversation_n(c);
    char name[32];
    switch (below(n == 0 ? 4 : 12)) {
    case 4: conversation_rewind(c, below((uint32_t)n + 1)); break;
    case 5:
        snprintf(name, sizeof name, "b%u", below(1000000));
        conversation_fork(c, below(2) ? name : NULL);
        break;
    case 6:
    case 7:
        conversation_switch(
            c, conversation_branch(c, below((uint32_t)conversation_n_branches(c))));
        break;
    case 8: conversation_drop_oldest(c, 2 * below((uint32_t)n / 2 + 1)); break;
    case 9: conversation_set_system(c, below(2) ? "Be brief." : NULL); break;
    case 10: /* another reply to the same message */
        if (n % 2 == 0) {
            conversation_rewind(c, n - 1);
            reply(c);
        }
        break;
    default:
        if (n % 2 == 0) say(c, 1 + below(100));
        reply(c);
    }
}

static bool same_string(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether the branches are the same; of their messages n_other differ. */
static bool same_conversation(const struct conversation *a, const struct conversation *b,
                              size_t *n_other)
{
    *n_other = 0;
    if (!same_string(conversation_system(a), conversation_system(b))) return false;
    if (conversation_n_branches(a) != conversation_n_branches(b)) return false;
    if (conversation_current(a)->number != conversation_current(b)->number) return false;
    for (size_t i = 0; i < conversation_n_branches(a); i++) {
        const struct branch *x = conversation_branch(a, i), *y = conversation_branch(b, i);
        if (x->number != y->number || x->is_loose != y->is_loose) return false;
        if (!same_string(x->name, y->name)) return false;
        const struct node *p = x->leaf, *q = y->leaf;
        for (; node_parent(p) && node_parent(q); p = node_parent(p), q = node_parent(q)) {
            if (node_number(p) != node_number(q)) return false;
            if (node_attempts(p) != node_attempts(q)) return false;
            *n_other += !same_message(node_message(p), node_message(q));
        }
        if (node_parent(p) || node_parent(q)) return false;
    }
    return true;
}

/* ---- tests ---- */

static void test_histories(void **state)
{
    (void)state;
    uint32_t rounds = 40 * soak();
    for (uint32_t round = 0; round < rounds; round++) {
        struct conversation *c = conversation_new(), *d;
        struct archive *a = archive_new(path);
        struct buf notes = {0};
        struct err err;
        size_t other;
        chance_begin(round);
        unlink(path);
        for (uint32_t i = 0; i < 60; i++) {
            for (uint32_t k = below(3); k-- > 0;)
                step(c);
            assert_true(archive_sync(a, c, &some_state, false, &err));
            if (below(4) || !archive_has_file(a)) continue;
            archive_close(a);
            a = open_again(&d, &notes);
            if (!same_conversation(c, d, &other) || other) fail_msg("round %u", round);
            assert_int_equal(notes.len, 0);
            assert_string_equal(archive_state(a)->model, "a model");
            assert_null(archive_state(a)->draft);
            assert_string_equal(archive_state(a)->settings, "temp 0.5\n");
            assert_int_equal(archive_state(a)->seed, 42);
            assert_int_equal(archive_state(a)->numerics, 7);
            assert_string_equal(archive_state(a)->kv_type, "f16");
            /* It goes on with what was read. */
            conversation_free(c);
            c = d;
        }
        archive_close(a);
        conversation_free(c);
        buf_free(&notes);
    }
}

/* Of what was left behind the oldest goes, also from a file that has it. */
static void test_left_behind(void **state)
{
    (void)state;
    struct conversation *c = conversation_new(), *d;
    struct archive *a = archive_new(path);
    struct buf notes = {0};
    struct err err;
    size_t other;
    unlink(path);
    for (int i = 0; i < CONVERSATION_MAX_LOOSE + 2; i++) {
        say(c, 3);
        conversation_rewind(c, 0);
        if (i >= CONVERSATION_MAX_LOOSE - 1)
            assert_true(archive_sync(a, c, &some_state, false, &err));
    }
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    assert_true(archive_sync(a, c, &some_state, false, &err));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size); /* nothing is new */
    archive_close(a);
    a = open_again(&d, &notes);
    assert_int_equal(conversation_n_branches(d), 1 + CONVERSATION_MAX_LOOSE);
    assert_true(same_conversation(c, d, &other));
    assert_int_equal(other, 0);
    assert_int_equal(notes.len, 0);
    archive_close(a);
    conversation_free(c);
    conversation_free(d);
    buf_free(&notes);
}

static void test_file(void **state)
{
    (void)state;
    struct conversation *c = conversation_new();
    struct archive *a = archive_new(path);
    struct err err;
    struct stat st;
    char other[300];
    unlink(path);
    assert_true(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(access(path, F_OK), -1); /* nothing said: no file */
    say(c, 10);
    assert_true(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    snprintf(other, sizeof other, "%s/state/sessions", home);
    assert_int_equal(stat(other, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);

    /* A second one of the name. */
    struct archive *b = archive_new(path);
    assert_false(archive_sync(b, c, &some_state, true, &err));
    assert_int_equal(err.code, ERR_USER);
    archive_close(b);

    /* Another name; one that is taken. */
    snprintf(other, sizeof other, "%s/state/sessions/two.session", home);
    assert_true(archive_rename(a, other, &err));
    assert_int_equal(access(path, F_OK), -1);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    assert_false(archive_rename(a, path, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(archive_path(a), other);
    char nowhere[300];
    snprintf(nowhere, sizeof nowhere, "%s/none/one.session", home);
    assert_false(archive_rename(a, nowhere, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_string_equal(archive_path(a), other);
    b = archive_new(other); /* which has no file yet */
    assert_false(archive_rename(b, path, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(archive_path(b), other);
    archive_close(b);
    unlink(path);
    unlink(other);
    archive_close(a);
    conversation_free(c);
}

/* Whether another hearth could write the session. */
static bool is_free(void)
{
    struct conversation *c = conversation_new();
    struct buf notes = {0};
    struct err err;
    struct archive *a = archive_open(path, c, &notes, &err);
    assert_non_null(a);
    const bool free = !archive_is_taken(a);
    archive_close(a);
    conversation_free(c);
    buf_free(&notes);
    return free;
}

/* A file that is written anew is there and locked all the time, also before that and where it
 * never happens. */
static void test_anew(void **state)
{
    (void)state;
    struct conversation *c = conversation_new();
    struct archive *a = archive_new(path);
    struct err err;
    struct stat before, after;
    unlink(path);
    say(c, 10);
    assert_true(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(stat(path, &before), 0);
    assert_true(archive_owns(a, path));
    a = archive_anew(archive_anew(a));
    assert_true(archive_owns(a, path));
    assert_false(archive_has_file(a));
    assert_false(is_free());
    conversation_forget_kept(c);
    assert_true(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino != after.st_ino && before.st_size == after.st_size);
    assert_true(archive_owns(a, path) && archive_has_file(a));
    assert_false(is_free());
    archive_close(archive_anew(a));
    assert_true(is_free());
    assert_int_equal(stat(path, &before), 0);
    assert_true(before.st_ino == after.st_ino);

    /* Somebody put another in its place: that one stays. */
    conversation_forget_kept(c);
    a = archive_new(path);
    unlink(path);
    assert_true(archive_sync(a, c, &some_state, true, &err));
    a = archive_anew(a);
    unlink(path);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_false(archive_owns(a, path));
    conversation_forget_kept(c);
    assert_false(archive_sync(a, c, &some_state, true, &err));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, 0);
    archive_close(a);
    unlink(path);
    conversation_free(c);
}

/* What a turn adds to the file does not depend on what was said before. */
static void test_cost(void **state)
{
    (void)state;
    struct conversation *c = conversation_new();
    struct archive *a = archive_new(path);
    struct err err;
    struct stat st;
    off_t before = 0, first = 0;
    unlink(path);
    for (int i = 0; i < 400; i++) {
        chance_begin(1);
        say(c, 50);
        reply(c);
        assert_true(archive_sync(a, c, &some_state, false, &err));
        assert_int_equal(stat(path, &st), 0);
        if (i == 10) first = st.st_size - before;
        if (i >= 10) assert_int_equal(st.st_size - before, first);
        before = st.st_size;
    }
    archive_close(a);
    conversation_free(c);
}

static uint64_t identity_on_disk(void)
{
    uint64_t words[3] = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, words, sizeof words), sizeof words);
    close(fd);
    return words[2];
}

/* Each file has an identity of its own, which its frames keep. */
static void test_identity(void **state)
{
    (void)state;
    struct conversation *c;
    uint64_t seen[2];
    for (int i = 0; i < 2; i++) {
        struct err err;
        struct buf notes = {0};
        archive_close(said_once(&c));
        conversation_free(c);
        seen[i] = identity_on_disk();
        assert_true(seen[i] != 0);
        struct archive *a = open_again(&c, &notes);
        say(c, 10);
        assert_true(archive_sync(a, c, &some_state, false, &err));
        archive_close(a);
        conversation_free(c);
        archive_close(open_again(&c, &notes));
        assert_int_equal(conversation_n(c), 2);
        assert_int_equal(notes.len, 0);
        conversation_free(c);
    }
    assert_true(seen[0] != seen[1]);
}

static void has_state(const struct archive *a, const struct archive_state *want)
{
    const struct archive_state *got = archive_state(a);
    assert_true(same_string(got->model, want->model));
    assert_true(same_string(got->draft, want->draft));
    assert_true(same_string(got->settings, want->settings));
    assert_true(same_string(got->kv_type, want->kv_type));
    assert_true(got->seed == want->seed && got->numerics == want->numerics);
    assert_true(got->clock_ms == want->clock_ms);
}

/* All of the state is kept, and what is gone is gone. */
static void test_state(void **state)
{
    (void)state;
    static const struct archive_state states[] = {
        {"a model", "a draft", "temp 1\n", "q8_0", 42, 7, 99},
        {"another", NULL, "top-k 5\n", "f16", 43, 8, 100},
        {"a model", "a draft", NULL, "f32", 44, 9, 0}};
    struct conversation *c, *d;
    struct buf notes = {0};
    struct err err;
    struct archive *a = said_once(&c);
    for (size_t i = 0; i < 3; i++) {
        assert_true(archive_sync(a, c, &states[i], false, &err));
        has_state(a, &states[i]);
        archive_close(a);
        a = open_again(&d, &notes);
        has_state(a, &states[i]);
        conversation_free(c);
        c = d;
    }
    archive_close(a);
    conversation_free(c);
    buf_free(&notes);
}

/* An answer that is the end of its text is not written again. */
static void test_answer_cost(void **state)
{
    (void)state;
    enum { N = 2000 };
    struct conversation *c;
    struct archive *a = said_once(&c);
    struct err err;
    struct stat st;
    char text[N];
    off_t before;
    memset(text, 'a', N);
    for (int differs = 0; differs < 2; differs++) {
        struct message *m = message_new(ROLE_REPLY, text, N);
        m->ids = mem_zalloc(1, sizeof *m->ids);
        m->id_at = mem_zalloc(1, sizeof *m->id_at);
        m->content_at = 10;
        m->answer_len = N - 10;
        m->answer = mem_strndup(text, m->answer_len);
        if (differs) m->answer[5] = 'b';
        m->stop = face_stop_name(FACE_STOP_END);
        assert_int_equal(stat(path, &st), 0);
        before = st.st_size;
        conversation_add(c, m);
        assert_true(archive_sync(a, c, &some_state, false, &err));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal((st.st_size - before) / N, 1 + differs);
    }
    archive_close(a);
    conversation_free(c);
}

/* The linker (Makefile) lets calls of conversation_branch come by here. */
static size_t n_looks;

const struct branch *__real_conversation_branch(const struct conversation *c, size_t i);
const struct branch *__wrap_conversation_branch(const struct conversation *c, size_t i);

const struct branch *__wrap_conversation_branch(const struct conversation *c, size_t i)
{
    n_looks++;
    return __real_conversation_branch(c, i);
}

/* A save looks at each branch a few times, not at each for each. */
static void test_branches_cost(void **state)
{
    (void)state;
    enum { N = 500, FEW = 8 };
    struct conversation *c = conversation_new();
    struct archive *a = archive_new(path);
    struct err err;
    unlink(path);
    chance_begin(5);
    say(c, 10);
    for (int i = 0; i < N; i++) {
        reply(c);
        conversation_rewind(c, 1);
    }
    assert_int_equal(conversation_n_branches(c), N + 1);
    for (int i = 0; i < 2; i++) {
        reply(c);
        n_looks = 0;
        assert_true(archive_sync(a, c, &some_state, false, &err));
        assert_in_range(n_looks, N, FEW * N);
    }
    archive_close(a);
    conversation_free(c);
}

/* A session of n turns on one branch, as bytes. */
static void make_session(struct conversation *c, uint32_t n, struct buf *bytes)
{
    struct archive *a = archive_new(path);
    struct err err;
    unlink(path);
    chance_begin(3);
    for (uint32_t i = 0; i < n; i++) {
        say(c, 1 + below(60));
        reply(c);
        assert_true(archive_sync(a, c, &some_state, false, &err));
    }
    archive_close(a);
    assert_true(file_read(path, 1 << 24, bytes, &err));
}

static void write_bytes(const char *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
}

/* Where the frames begin, and the end. */
struct places {
    uint64_t at[200];
    uint16_t type[200];
    size_t n;
};

static void add_place(void *user, const struct frame *frame)
{
    struct places *p = user;
    p->type[p->n] = frame->type;
    p->at[p->n++] = frame->at;
}

static void find_places(const struct buf *bytes, struct places *p)
{
    const struct frames_sink sink = {add_place, NULL, p};
    p->n = 0;
    frames_scan((const uint8_t *)bytes->data, bytes->len, RECORD_VERSION, &sink);
    p->at[p->n] = bytes->len;
}

static void test_cuts(void **state)
{
    (void)state;
    struct conversation *c = conversation_new(), *d;
    struct buf bytes = {0}, notes = {0};
    struct places places;
    struct err err;
    make_session(c, 20, &bytes);
    find_places(&bytes, &places);
    for (uint32_t i = 0; i < 2000; i++) {
        chance_begin(4);
        chance.n_drawn = i;
        size_t n = below((uint32_t)bytes.len + 1), whole = 0, messages = 0;
        while (whole < places.n && places.at[whole + 1] <= n)
            messages += places.type[whole++] == RECORD_MESSAGE;
        write_bytes(bytes.data, n);
        buf_clear(&notes);
        struct archive *a = open_again(&d, &notes);
        assert_int_equal(conversation_n(d), messages);
        for (size_t k = 0; k < messages; k++)
            assert_true(same_message(conversation_at(c, k), conversation_at(d, k)));
        char want[100] = "";
        if (n > places.at[whole])
            snprintf(want, sizeof want,
                     "the last %zu bytes are a frame that was cut off; it is left out\n",
                     n - (size_t)places.at[whole]);
        assert_string_equal(buf_str(&notes), want);
        /* It goes on, and the cut is forgotten. */
        say(d, 5);
        assert_true(archive_sync(a, d, &some_state, false, &err));
        archive_close(a);
        conversation_free(d);
        buf_clear(&notes);
        a = open_again(&d, &notes);
        assert_int_equal(conversation_n(d), messages + 1);
        assert_int_equal(notes.len, 0);
        archive_close(a);
        conversation_free(d);
    }
    conversation_free(c);
    buf_free(&bytes);
    buf_free(&notes);
}

static void test_flips(void **state)
{
    (void)state;
    struct conversation *c = conversation_new(), *d;
    struct buf bytes = {0}, notes = {0};
    struct places places;
    make_session(c, 20, &bytes);
    find_places(&bytes, &places);
    for (uint32_t i = 0; i < 2000; i++) {
        chance_begin(5);
        chance.n_drawn = 2 * i;
        size_t at = below((uint32_t)bytes.len), hit = 0, other;
        char bit = (char)(1 << below(8));
        while (places.at[hit + 1] <= at)
            hit++;
        bytes.data[at] ^= bit;
        write_bytes(bytes.data, bytes.len);
        bytes.data[at] ^= bit;
        buf_clear(&notes);
        struct archive *a = open_again(&d, &notes);
        char want[100];
        snprintf(want, sizeof want,
                 "bytes %llu to %llu are damaged (frame %zu); the rest is loaded\n",
                 (unsigned long long)places.at[hit], (unsigned long long)places.at[hit + 1] - 1,
                 hit);
        assert_string_equal(buf_str(&notes), want);
        if (hit == places.n - 1) /* the last reply: nothing came after it */
            assert_int_equal(conversation_n(d), conversation_n(c) - 1);
        else {
            assert_true(same_conversation(c, d, &other));
            assert_int_equal(other, places.type[hit] == RECORD_MESSAGE);
            assert_int_equal(archive_state(a)->seed, places.type[hit] == RECORD_STATE ? 0 : 42);
        }
        archive_close(a);
        conversation_free(d);
    }
    conversation_free(c);
    buf_free(&bytes);
    buf_free(&notes);
}

static void test_refused(void **state)
{
    (void)state;
    struct conversation *c = conversation_new();
    struct buf notes = {0}, log = {0};
    struct err err;
    static const char text[] = "This is no session at all, but a text of some length. "
                               "It has nothing to say.";
    write_bytes(text, sizeof text);
    assert_null(archive_open(path, c, &notes, &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_non_null(strstr(err.msg, "is no session of hearth"));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, sizeof text); /* and untouched */

    frame_append(&log, &(struct frame){.version = RECORD_VERSION + 1, .identity = 5});
    write_bytes(log.data, log.len);
    assert_null(archive_open(path, c, &notes, &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_non_null(strstr(err.msg, "newer hearth"));

    unlink(path);
    assert_null(archive_open(path, c, &notes, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_null(archive_open(home, c, &notes, &err));
    conversation_free(c);
    buf_free(&log);
    buf_free(&notes);
}

/* A name that somebody else takes before the first message, and links. */
static void test_begun(void **state)
{
    (void)state;
    struct conversation *c;
    struct buf notes = {0};
    struct err err;
    archive_close(said_once(&c));
    struct archive *a = archive_new(path);
    assert_false(archive_sync(a, c, &some_state, true, &err));
    assert_non_null(strstr(err.msg, "another hearth has begun a session of this name since"));
    archive_close(a);

    static const char *const targets[] = {"/nowhere/at/all", "/dev/null"};
    for (size_t i = 0; i < 2; i++) {
        unlink(path);
        assert_int_equal(symlink(targets[i], path), 0);
        a = archive_new(path);
        assert_false(archive_sync(a, c, &some_state, true, &err));
        assert_non_null(strstr(err.msg, "is a symbolic link"));
        archive_close(a);
        assert_null(archive_open(path, c, &notes, &err));
        assert_non_null(strstr(err.msg, "is a symbolic link"));
    }
    unlink(path);
    conversation_free(c);
    buf_free(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories),     cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_file),          cmocka_unit_test(test_anew),
        cmocka_unit_test(test_identity),      cmocka_unit_test(test_state),
        cmocka_unit_test(test_answer_cost),   cmocka_unit_test(test_cost),
        cmocka_unit_test(test_branches_cost), cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_flips),         cmocka_unit_test(test_refused),

        cmocka_unit_test(test_begun),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
