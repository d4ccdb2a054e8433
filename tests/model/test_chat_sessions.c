/* Sessions as the chat's commands save, load and let go of them, with the bundled guide: what
 * is in their files, what could not be written, and what is said of it. */
#include "../chat_driver.h"
#include "../scratch.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "chat/archive.h"
#include "chat/impl.h"
#include "chat/view.h"

/* A private chat neither writes nor opens a session. */
static void test_private(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, true, (const char *const[]){"--private", NULL});
    assert_false(line(&r, "/load x"));
    assert_true(said(&r, "/load: not with --private, which keeps no session"));
    assert_false(line(&r, "/save x"));
    assert_true(said(&r, "/save: not with --private, which keeps no session"));
    close_chat(&r);
}

/* An editor that changes what it gets. */
static bool on_edit(void *user, const char *s, size_t n, struct buf *out, struct err *err)
{
    (void)user, (void)s, (void)n, (void)err;
    buf_puts(out, "A page is a page.");
    return true;
}

static void make_state(char state[SCRATCH_PATH])
{
    scratch_folder(state, "state");
    setenv("XDG_STATE_HOME", state, 1);
}

static void remove_session(const char *state, const char *name)
{
    char path[SCRATCH_PATH + 40];
    snprintf(path, sizeof path, "%s/hearth/sessions/%s.session", state, name);
    assert_int_equal(unlink(path), 0);
}

static void remove_state(const char *state)
{
    char path[SCRATCH_PATH + 40];
    snprintf(path, sizeof path, "%s/hearth/sessions", state);
    assert_int_equal(rmdir(path), 0);
    scratch_remove(state);
    unsetenv("XDG_STATE_HOME");
}

static const char *const kept[] = {"-s", "kept", "--cache-disk", "0", NULL};
static const char *const no_pages[] = {"--cache-disk", "0", NULL};
static const char *const other[] = {"-s", "other", "--cache-disk", "0", NULL};

/* What is said while another hearth has the session open can be kept under another name. */
static void test_save_copy(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder first, second;
    open_chat(&first, true, kept);
    free(ask(&first, "What is a token?"));
    assert_true(line(&first, "/fork side"));
    free(ask(&first, "What is a page?"));
    open_chat(&second, true, kept);
    assert_int_equal(chat_n_messages(second.chat), 4);
    free(ask(&second, "Thanks"));
    assert_false(line(&second, "/save"));
    assert_true(said(&second, "was open in another hearth when it was read; /save NAME keeps"));
    assert_false(line(&second, "/save kept"));
    assert_true(said(&second, "there is a session of this name already"));
    assert_true(line(&second, "/save other"));
    assert_true(said(&second, "saved as other"));
    free(ask(&second, "And what is a draft?"));
    close_chat(&second);
    free(ask(&first, "Hello"));
    close_chat(&first);

    open_chat(&second, true, other);
    assert_int_equal(chat_n_messages(second.chat), 8);
    assert_true(line(&second, "/switch 1"));
    assert_int_equal(chat_n_messages(second.chat), 2);
    close_chat(&second);
    open_chat(&first, true, kept);
    assert_int_equal(chat_n_messages(first.chat), 6);
    close_chat(&first);
    remove_session(state, "kept");
    remove_session(state, "other");
    remove_state(state);
}

/* A chat that ends within a reply, as at SIGTERM, keeps what came of it; before its first token
 * the message. */
static void test_close_in_reply(void **unused)
{
    (void)unused;
    static const char *const endless[] = {
        "-s",        "kept",         "--cache-disk", "0", "--logit-bias",
        "2045=-inf", "--logit-bias", "2047=-inf",    NULL};
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder r;
    open_chat(&r, true, endless);
    assert_true(chat_say(r.chat, "What is a token?", 16));
    while (r.n_pieces < 3)
        chat_step(r.chat, -1);
    char *shown = strdup(buf_str(&r.text));
    close_chat(&r);
    open_chat(&r, true, endless);
    assert_int_equal(chat_n_messages(r.chat), 2);
    size_t n;
    const struct message *reply = chat_path_now(r.chat, &n)[1];
    assert_true(reply->answer_len >= strlen(shown));
    assert_memory_equal(reply->answer, shown, strlen(shown));
    assert_string_equal(reply->stop, "cancelled");
    free(shown);
    assert_true(chat_say(r.chat, "What is a page?", 15));
    close_chat(&r);
    open_chat(&r, true, endless);
    assert_true(chat_n_messages(r.chat) >= 3);
    assert_string_equal(chat_path_now(r.chat, &n)[2]->text, "What is a page?");
    close_chat(&r);
    remove_session(state, "kept");
    remove_state(state);
}

/* What a session brings back stands below what is given for this run, and says where it is
 * from. */
static void test_session_settings(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    static const char *const more[] = {"-s", "kept", "--cache-disk", "0", "--top-k", "9", NULL};
    struct recorder r;
    open_chat(&r, true, kept);
    assert_true(line(&r, "/set top-k 7"));
    assert_true(line(&r, "/set min-p 0.2"));
    assert_true(line(&r, "/set stop \\nUser:"));
    free(ask(&r, "Hello"));
    close_chat(&r);
    open_chat(&r, true, kept);
    assert_int_equal(chat_options(r.chat)->stop.n, 1);
    assert_string_equal(chat_options(r.chat)->stop.items[0], "\nUser:");
    assert_true(line(&r, "/set top-k"));
    assert_true(said(&r, "7          the session"));
    /* A list that is emptied is brought back as that. */
    assert_true(line(&r, "/set stop="));
    close_chat(&r);
    open_chat(&r, true, kept);
    assert_int_equal(chat_options(r.chat)->stop.n, 0);
    assert_true(line(&r, "/set stop"));
    assert_true(said(&r, "-          the session"));
    /* Nor does it stand above what the next session brings back. */
    assert_true(line(&r, "/save other"));
    close_chat(&r);
    open_chat(&r, true, kept + 2);
    assert_true(line(&r, "/set top-k 5"));
    free(ask(&r, "Hello"));
    assert_true(line(&r, "/save kept"));
    close_chat(&r);
    open_chat(&r, true, kept);
    assert_int_equal(chat_options(r.chat)->top_k, 5);
    assert_true(line(&r, "/read examples/guide/samples.txt"));
    assert_true(line(&r, "/load other"));
    assert_true(said(&r, "what was read or pasted is dropped"));
    assert_int_equal(chat_options(r.chat)->top_k, 7);
    close_chat(&r);
    open_chat(&r, true, more);
    assert_true(line(&r, "/set top-k"));
    assert_true(said(&r, "9          flag --top-k"));
    assert_true(line(&r, "/set min-p"));
    close_chat(&r);
    remove_session(state, "kept");
    remove_session(state, "other");
    remove_state(state);
}

/* A session that is loaded has its own settings, and none of the one before: lists that are
 * empty in it, and what it does not know. */
static void test_load_settings(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder r;
    open_chat(&r, true, other);
    free(ask(&r, "Hello"));
    close_chat(&r);
    open_chat(&r, true, kept);
    assert_true(line(&r, "/set stop small"));
    assert_true(line(&r, "/set logit-bias 5=-3"));
    assert_true(line(&r, "/set min-p 0.3"));
    free(ask(&r, "Hello"));
    close_chat(&r);
    open_chat(&r, true, kept);
    assert_int_equal(chat_options(r.chat)->stop.n, 1);
    assert_int_equal(chat_options(r.chat)->logit_bias.n, 1);
    assert_true(line(&r, "/load other"));
    assert_int_equal(chat_options(r.chat)->stop.n, 0);
    assert_int_equal(chat_options(r.chat)->logit_bias.n, 0);
    free(ask(&r, "Hello"));
    assert_true(line(&r, "/load kept"));
    assert_int_equal(chat_options(r.chat)->stop.n, 1);
    assert_true(chat_options(r.chat)->min_p == 0.3f);
    /* But what was set by hand. */
    assert_true(line(&r, "/set min-p 0.4"));
    assert_true(line(&r, "/load other"));
    assert_true(chat_options(r.chat)->min_p == 0.4f);
    close_chat(&r);
    static const char *const stops[] = {"-s", "kept", "--cache-disk", "0", "--stop", "x", NULL};
    open_chat(&r, true, stops); /* what is given for this run counts in every session */
    assert_true(line(&r, "/load other"));
    assert_string_equal(chat_options(r.chat)->stop.items[0], "x");
    close_chat(&r);
    remove_session(state, "kept");
    remove_session(state, "other");
    remove_state(state);
}

/* A session whose seed and settings are lost has none of the one before, either. */
static void test_load_without_state(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    static const char *const seeded[] = {"-s", "kept", "--cache-disk", "0", "--seed",
                                         "7",  NULL};
    struct recorder r;
    struct buf path = {0}, bytes = {0};
    struct err err;
    open_chat(&r, true, other);
    free(ask(&r, "Hello"));
    close_chat(&r);
    buf_printf(&path, "%s/hearth/sessions/other.session", state);
    assert_true(file_read(path.data, 1 << 20, &bytes, &err));
    for (char *at = bytes.data, *end = at + bytes.len;
         (at = memmem(at, (size_t)(end - at), "top-k", 5));)
        *at++ = 'T';
    assert_true(file_replace(path.data, bytes.data, bytes.len, &err));
    open_chat(&r, true, seeded);
    free(ask(&r, "Hello"));
    close_chat(&r);
    open_chat(&r, true, kept);
    assert_int_equal(r.chat->session.seed, 7);
    assert_true(line(&r, "/load other"));
    assert_true(said(&r, "its system message and settings cannot be read"));
    assert_true(r.chat->session.seed != 7);
    close_chat(&r);
    buf_free(&path);
    buf_free(&bytes);
    remove_session(state, "kept");
    remove_session(state, "other");
    remove_state(state);
}

/* A session of four messages that can no longer be written: /save says so, and under another
 * name keeps all of it. */
static void check_rescued(struct recorder *r)
{
    assert_true(said(r, "the session is no longer saved"));
    assert_false(line(r, "/save"));
    assert_true(said(r, "error: /save: this session cannot be written"));
    assert_true(line(r, "/save other"));
    close_chat(r);
    open_chat(r, false, other);
    assert_int_equal(chat_n_messages(r->chat), 4);
    close_chat(r);
}

/* No file takes another byte, or each does again. */
static void fill_disk(bool is_full)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = is_full ? 1 : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* After a write that failed nothing is saved any more, and /save says so: under another name it
 * is, and all of it. */
static void test_save(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder r;
    open_chat(&r, false, kept);
    free(ask(&r, "What is a token?"));
    assert_true(line(&r, "/save"));
    assert_true(said(&r, "saved as kept"));

    fill_disk(true);
    free(ask(&r, "What is a page?"));
    fill_disk(false);
    check_rescued(&r);
    remove_session(state, "kept");
    remove_session(state, "other");
    remove_state(state);
}

/* What the chat says as it ends. */
static bool ends_with(struct recorder *r, const char *words)
{
    buf_clear(&r->said);
    chat_close(r->chat);
    r->chat = NULL;
    bool there = said(r, words);
    close_chat(r);
    return there;
}

/* A name under which nothing could be written is free again once there is room; a chat that
 * ends before that says what is not saved. */
static void test_save_full(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder r;
    open_chat(&r, true, kept);
    free(ask(&r, "What is a token?"));
    fill_disk(true);
    free(ask(&r, "What is a page?"));
    assert_false(line(&r, "/save other"));
    assert_true(said(&r, "the session is not saved: "));
    assert_true(said(&r, "/save: it is not saved as other; nothing of it is lost while"));
    fill_disk(false);
    assert_true(line(&r, "/save other"));
    assert_true(said(&r, "saved as other"));
    assert_false(ends_with(&r, "not saved"));
    open_chat(&r, true, other);
    assert_int_equal(chat_n_messages(r.chat), 4);

    fill_disk(true);
    free(ask(&r, "Thanks"));
    assert_true(ends_with(&r, "warning: the conversation is not saved to its end"));
    open_chat(&r, true, (const char *const[]){"-s", "third", "--cache-disk", "0", NULL});
    free(ask(&r, "Hello"));
    assert_true(said(&r, "warning: the session is not saved: "));
    assert_true(ends_with(&r, "warning: the conversation is not saved: "));
    fill_disk(false);
    remove_session(state, "kept");
    remove_session(state, "other");
    remove_state(state); /* nothing of the third */
}

/* A chat that ends says what is not saved also where it stands on another branch, or where
 * another hearth has the session open; of what is in the file nothing. */
static void test_end_unsaved(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder first, r;
    fill_disk(true);
    open_chat(&r, true, kept);
    free(ask(&r, "What is a token?"));
    assert_true(line(&r, "/clear"));
    assert_int_equal(chat_n_messages(r.chat), 0);
    assert_true(ends_with(&r, "warning: the conversation is not saved: its session could"));
    fill_disk(false);

    open_chat(&first, true, kept);
    free(ask(&first, "What is a token?"));
    open_chat(&r, true, kept);
    assert_true(line(&r, "/fork side"));
    assert_true(line(&r, "/undo"));
    assert_false(ends_with(&r, "not saved"));
    open_chat(&r, true, kept);
    free(ask(&r, "What is a page?"));
    assert_true(line(&r, "/clear"));
    assert_true(ends_with(&r, "warning: the conversation is not saved to its end: another "
                              "hearth had its session open"));
    open_chat(&r, true, kept);
    free(ask(&r, "What is a page?"));
    assert_true(line(&r, "/save other"));
    assert_false(ends_with(&r, "not saved"));
    close_chat(&first);
    remove_session(state, "kept");
    remove_session(state, "other");
    remove_state(state);
}

/* The first n bytes of the session `from` are the session `name`, as if a write was cut off; 0:
 * all. */
static void leave_half(const char *state, const char *name, const char *from, size_t n)
{
    char path[SCRATCH_PATH + 40];
    struct buf data = {0};
    struct err err;
    snprintf(path, sizeof path, "%s/hearth/sessions/%s.session", state, from);
    assert_true(file_read(path, 1 << 20, &data, &err));
    assert_true(n <= data.len);
    snprintf(path, sizeof path, "%s/hearth/sessions/%s.session", state, name);
    assert_true(file_replace(path, data.data, n ? n : data.len, &err));
    buf_free(&data);
}

/* A session that is not saved, or not to its end, is not dropped by the first /load: that says
 * what would be lost. The next one loads, unless there is more to lose by then. */
static void check_kept(struct recorder *r, const char *how_far, size_t n)
{
    char words[160];
    snprintf(words, sizeof words,
             "error: /load: the conversation here is not saved%s: /save NAME or /export FILE "
             "keeps it, /load again lets it go",
             how_far);
    assert_false(line(r, "/load missing"));
    assert_false(said(r, "not saved"));
    assert_false(line(r, "/load other"));
    assert_true(said(r, words));
    assert_int_equal(chat_n_messages(r->chat), n);
    free(ask(r, "Thanks"));
    assert_false(line(r, "/load other"));
    assert_true(said(r, words));
    assert_int_equal(chat_n_messages(r->chat), n + 2);
}

static void check_let_go(struct recorder *r)
{
    assert_true(line(r, "/load other"));
    assert_int_equal(chat_n_messages(r->chat), 2);
    free(ask(r, "Hello"));
    assert_false(ends_with(r, "not saved"));
}

static void test_load_unsaved(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder first, r;
    open_chat(&r, true, other);
    free(ask(&r, "What is a token?"));
    assert_true(line(&r, "/save one"));
    leave_half(state, "other", "one", 0);
    close_chat(&r);

    fill_disk(true);
    open_chat(&r, true, no_pages);
    free(ask(&r, "What is a page?"));
    check_kept(&r, "", 2);
    r.face.edit = on_edit;
    assert_true(line(&r, "/edit reply"));
    check_kept(&r, "", 4);
    fill_disk(false);
    check_let_go(&r);

    /* Another hearth has it open. */
    leave_half(state, "other", "one", 0);
    open_chat(&first, true, kept);
    free(ask(&first, "What is a token?"));
    open_chat(&r, true, kept);
    free(ask(&r, "What is a page?"));
    check_kept(&r, " to its end", 4);
    check_let_go(&r);

    /* What is kept under a name is not lost, nor what was only read. */
    leave_half(state, "other", "one", 0);
    open_chat(&r, true, kept);
    free(ask(&r, "What is a page?"));
    check_kept(&r, " to its end", 4);
    assert_true(line(&r, "/save copy"));
    check_let_go(&r);
    leave_half(state, "other", "one", 0);
    open_chat(&r, true, kept);
    check_let_go(&r);

    /* The file is gone when /load saves the end of it. */
    leave_half(state, "other", "one", 0);
    open_chat(&r, true, (const char *const[]){"-s", "copy", "--cache-disk", "0", NULL});
    remove_session(state, "copy");
    assert_false(line(&r, "/load other"));
    assert_true(said(&r, "removed or replaced the file"));
    assert_int_equal(chat_n_messages(r.chat), 6);
    check_let_go(&r);
    close_chat(&first);
    remove_session(state, "kept");
    remove_session(state, "other");
    remove_session(state, "one");
    remove_state(state);
}

/* Nor does the first /quit or Ctrl-D let go of it, unless there is nothing to lose. */
static void test_quit_unsaved(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    static const char words[] =
        "the conversation here is not saved: /save NAME or /export FILE "
        "keeps it, ";
    make_state(state);
    struct recorder r;
    fill_disk(true);
    open_chat(&r, true, no_pages);
    assert_true(chat_may_leave(r.chat));
    free(ask(&r, "What is a page?"));
    assert_false(chat_may_leave(r.chat));
    assert_true(said(&r, words));
    assert_true(said(&r, "Ctrl-D again lets it go"));
    assert_true(chat_may_leave(r.chat));
    free(ask(&r, "Thanks"));
    assert_false(line(&r, "/quit"));
    assert_true(said(&r, words));
    assert_true(said(&r, "/quit again lets it go"));
    assert_int_equal(chat_state(r.chat), CHAT_IDLE);
    assert_true(line(&r, "/quit"));
    assert_int_equal(chat_state(r.chat), CHAT_CLOSED);
    close_chat(&r);

    /* Nobody can answer a script. */
    open_chat(&r, false, no_pages);
    free(ask(&r, "What is a page?"));
    assert_true(line(&r, "/quit"));
    close_chat(&r);
    fill_disk(false);
    remove_state(state);
}

/* A branch in which nothing is said is no conversation to go on with: it gets no file, and what
 * was made for a message that came to nothing goes with it. */
static void test_save_nothing(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder r;
    open_chat(&r, true, kept);
    free(ask(&r, "What is a token?"));
    close_chat(&r);

    open_chat(&r, true, no_pages);
    assert_true(line(&r, "/fork side"));
    assert_false(said(&r, "is saved"));
    assert_false(archive_has_file(r.chat->session.archive));
    close_chat(&r);

    open_chat(&r, true, (const char *const[]){"--cache-disk", "0", "--ctx", "64", NULL});
    assert_true(line(&r, "/fork side"));
    struct buf long_one = {0};
    for (int i = 0; i < 100; i++)
        buf_puts(&long_one, "too long ");
    line(&r, long_one.data);
    assert_int_equal(chat_n_messages(r.chat), 0);
    close_chat(&r);
    buf_free(&long_one);

    open_chat(&r, true, (const char *const[]){"--continue", "--cache-disk", "0", NULL});
    assert_int_equal(chat_n_messages(r.chat), 2);
    close_chat(&r);
    remove_session(state, "kept");
    remove_state(state); /* nothing of the others */
}

/* The file of a session that is removed under it: the next turn says so, and another name, or
 * the same, keeps all of it. */
static void test_save_lost(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder r;
    open_chat(&r, false, kept);
    free(ask(&r, "What is a token?"));
    remove_session(state, "kept");
    assert_true(line(&r, "/save other")); /* before a turn has noticed */
    remove_session(state, "other");
    free(ask(&r, "What is a page?"));
    assert_true(said(&r, "other.session: somebody has removed or replaced the file"));
    check_rescued(&r);
    remove_session(state, "other");
    remove_state(state);
}

/* How many bytes a session has, without its last ones. */
static size_t size_but(const char *state, const char *name, size_t n)
{
    char path[SCRATCH_PATH + 40];
    struct stat st;
    snprintf(path, sizeof path, "%s/hearth/sessions/%s.session", state, name);
    assert_int_equal(stat(path, &st), 0);
    assert_true((size_t)st.st_size > n);
    return (size_t)st.st_size - n;
}

/* What an earlier /save could not finish does not take the name: a part of this conversation
 * makes room for the whole, and is still there. What holds anything else stays. */
static void test_save_half(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder r;
    open_chat(&r, true, kept);
    free(ask(&r, "What is a token?"));
    free(ask(&r, "What is a page?"));
    const size_t half = size_but(state, "kept", 7);
    leave_half(state, "other", "kept", half);
    leave_half(state, "copy", "kept", 0);
    assert_false(line(&r, "/save copy"));
    assert_true(said(&r, "of this name already; hearth sessions rm removes one"));
    assert_true(line(&r, "/save other"));
    assert_true(said(&r, "what was left half written there is other~ now"));
    assert_int_equal(size_but(state, "other~", 0), half);
    close_chat(&r);
    open_chat(&r, true, other);
    assert_int_equal(chat_n_messages(r.chat), 4);
    close_chat(&r);

    /* Another conversation, before its first message, and with one. */
    open_chat(&r, true, kept);
    leave_half(state, "half", "other", size_but(state, "other", 7));
    leave_half(state, "begun", "other", 20);
    assert_false(line(&r, "/save half"));
    assert_true(line(&r, "/save begun"));
    free(ask(&r, "Hello"));
    assert_false(line(&r, "/save half"));
    leave_half(state, "kept", "other", 20);
    leave_half(state, "kept~", "other", 0);
    assert_true(line(&r, "/save kept"));
    assert_true(said(&r, "is kept~2 now"));
    close_chat(&r);
    const char *const all[] = {"kept",   "kept~", "kept~2", "other",
                               "other~", "copy",  "half",   "begun~"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        remove_session(state, all[i]);
    remove_state(state);
}

/* A session that could not be written for a while is saved under its own name again, whole; the
 * disk keeps what it has until then. */
static void test_save_same(void **unused)
{
    (void)unused;
    char state[SCRATCH_PATH];
    make_state(state);
    struct recorder r;
    open_chat(&r, true, kept);
    free(ask(&r, "What is a token?"));
    const size_t before = size_but(state, "kept", 0);
    fill_disk(true);
    free(ask(&r, "What is a page?"));
    assert_false(line(&r, "/save kept"));
    assert_false(line(&r, "/save kept"));
    assert_int_equal(size_but(state, "kept", 0), before);
    fill_disk(false);
    assert_true(line(&r, "/save kept"));
    assert_true(said(&r, "saved as kept"));
    assert_false(said(&r, "half written"));
    free(ask(&r, "Thanks"));
    close_chat(&r);
    open_chat(&r, true, kept);
    assert_int_equal(chat_n_messages(r.chat), 6);
    close_chat(&r);
    remove_session(state, "kept");
    remove_state(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private),
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_save_copy),
        cmocka_unit_test(test_save_full),
        cmocka_unit_test(test_save_nothing),
        cmocka_unit_test(test_end_unsaved),
        cmocka_unit_test(test_load_unsaved),
        cmocka_unit_test(test_quit_unsaved),
        cmocka_unit_test(test_save_lost),
        cmocka_unit_test(test_close_in_reply),
        cmocka_unit_test(test_session_settings),
        cmocka_unit_test(test_load_settings),
        cmocka_unit_test(test_save_half),
        cmocka_unit_test(test_save_same),
        cmocka_unit_test(test_load_without_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
