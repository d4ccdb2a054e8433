/* Commands of the chat, with the bundled guide: /export in every format, /edit in an editor,
 * /show prompt, /set with what a value can be and with the names of other programs, /save. */
#include "../chat_driver.h"
#include "../scratch.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "base/mem.h"
#include "chat/archive.h"
#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "chat/view.h"

/* The file that /export made under this name, to be freed; it is removed. */
static char *exported(struct recorder *r, const char *name)
{
    char folder[SCRATCH_PATH];
    scratch_folder(folder, "export");
    struct buf path = {0}, command = {0}, text = {0};
    struct err err;
    buf_printf(&path, "%s/%s", folder, name);
    buf_printf(&command, "/export %s", path.data);
    assert_true(line(r, command.data));
    assert_true(file_read(path.data, 1 << 20, &text, &err));
    scratch_remove(folder);
    buf_free(&path);
    buf_free(&command);
    return buf_take(&text);
}

static void test_export_json(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--system", "Be \"kind\".\n\x1b", NULL};
    open_chat(&r, false, args);
    char *answer = ask(&r, "What is a token?\nIn \\short.");
    char *text = exported(&r, "chat.JSON");
    assert_true(said(&r, "2 messages as JSON"));
    assert_null(strchr(text, '\x1b'));
    json_t *root = json_loads(text, 0, NULL), *messages = json_object_get(root, "messages");
    assert_string_equal(json_string_value(json_object_get(root, "system")),
                        "Be \"kind\".\n\x1b");
    assert_int_equal(json_array_size(messages), 2);
    json_t *user = json_array_get(messages, 0), *reply = json_array_get(messages, 1);
    assert_string_equal(json_string_value(json_object_get(user, "role")), "user");
    assert_string_equal(json_string_value(json_object_get(user, "content")),
                        "What is a token?\nIn \\short.");
    assert_string_equal(json_string_value(json_object_get(reply, "role")), "assistant");
    assert_string_equal(json_string_value(json_object_get(reply, "content")), answer);
    assert_string_equal(json_string_value(json_object_get(reply, "stop")), "end");
    assert_true(json_is_string(json_object_get(reply, "seed")));
    json_decref(root);
    free(text);
    free(answer);
    close_chat(&r);
}

static void test_export_plain(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    char *answer = ask(&r, "What is a token?");
    char *text = exported(&r, "chat.txt");
    struct buf want = {0};
    buf_printf(&want, "User:\nWhat is a token?\n\nAssistant:\n%s\n", answer);
    assert_string_equal(text, buf_str(&want));
    buf_free(&want);
    free(text);
    free(answer);
    close_chat(&r);
}

/* An editor that leaves a text, or fails. */
static const char *left_by_editor;
static struct buf given_to_editor;

static bool on_edit(void *user, const char *s, size_t n, struct buf *out, struct err *err)
{
    (void)user;
    buf_clear(&given_to_editor);
    buf_append(&given_to_editor, s, n);
    if (!left_by_editor) return err_set(err, ERR_USER, "the editor ed failed");
    buf_puts(out, left_by_editor);
    return true;
}

/* A prompt with room for so many bytes. */
static size_t room;

static bool on_fits(void *user, const char *s, size_t n)
{
    (void)user, (void)s;
    return n <= room;
}

/* An editor that nobody named is for what the prompt does not show. */
static void test_edit_unnamed(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    free(ask(&r, "How do I quit?"));
    r.face.edit = on_edit;
    r.face.fits = on_fits;
    left_by_editor = "What is a token?";
    assert_false(line(&r, "/edit reply"));
    assert_true(said(&r, "set VISUAL or EDITOR"));

    room = strlen("How do I quit?") - 1;
    assert_true(line(&r, "/edit"));
    assert_string_equal(buf_str(&given_to_editor), "How do I quit?");
    assert_true(said(&r, "sent: What is a token?"));
    assert_int_equal(chat_n_messages(r.chat), 2);

    room = strlen("What is a token?");
    assert_true(line(&r, "/edit"));
    assert_string_equal(buf_str(&given_to_editor), "How do I quit?");
    assert_string_equal(buf_str(&r.offered), "What is a token?");
    assert_int_equal(chat_n_messages(r.chat), 0);

    /* It may not be there. */
    free(ask(&r, "What is a token?"));
    room = 0;
    left_by_editor = NULL;
    buf_clear(&r.offered);
    assert_true(line(&r, "/edit"));
    assert_true(said(&r, "/edit: the editor ed failed"));
    assert_true(said(&r, "VISUAL or EDITOR names another"));
    assert_string_equal(buf_str(&r.offered), "What is a token?");
    buf_free(&given_to_editor);
    close_chat(&r);
}

static void test_edit(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    char *wanted = ask(&r, "How do I quit?");
    assert_true(line(&r, "/clear"));
    free(ask(&r, "What is a token?"));
    free(ask(&r, "And a page?"));
    r.face.edit = on_edit;

    left_by_editor = NULL;
    assert_false(line(&r, "/edit"));
    assert_true(said(&r, "the editor ed failed"));
    assert_string_equal(buf_str(&given_to_editor), "And a page?");
    assert_int_equal(chat_n_messages(r.chat), 4);

    left_by_editor = " \n";
    assert_true(line(&r, "/edit"));
    assert_true(said(&r, "is empty"));
    left_by_editor = "And a page?";
    assert_true(line(&r, "/edit"));
    assert_true(said(&r, "/retry asks for another"));
    assert_int_equal(chat_n_messages(r.chat), 4);

    int n_turns = r.n_ends;
    left_by_editor = "How do I quit?";
    assert_true(line(&r, "/edit 2"));
    assert_string_equal(buf_str(&given_to_editor), "What is a token?");
    assert_true(said(&r, "sent: How do I quit?"));
    assert_int_equal(r.n_ends, n_turns + 1);
    assert_int_equal(chat_n_messages(r.chat), 2);
    assert_string_equal(buf_str(&r.answer), wanted);
    buf_free(&given_to_editor);
    free(wanted);
    close_chat(&r);
}

/* A reply that was changed is what the model said, and only what is new in it is computed. */
static void test_edit_reply(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    r.face.edit = on_edit;
    assert_false(line(&r, "/edit reply"));
    assert_true(said(&r, "there is no reply yet"));
    char *answer = ask(&r, "What is the KV cache?");
    left_by_editor = answer;
    assert_true(line(&r, "/edit reply"));
    assert_string_equal(buf_str(&given_to_editor), answer);
    assert_true(said(&r, "the reply is as it was"));
    left_by_editor = "\n";
    assert_true(line(&r, "/edit reply"));
    assert_true(said(&r, "the reply is empty"));

    /* cut off behind some of its words */
    char *half = mem_strndup(answer, strlen(answer) / 2);
    left_by_editor = half;
    int n_turns = r.n_ends;
    assert_true(line(&r, "/edit reply"));
    assert_true(said(&r, "what was there is branch 2"));
    assert_int_equal(r.n_ends, n_turns);
    assert_int_equal(chat_n_messages(r.chat), 2);
    size_t n;
    assert_string_equal(chat_path_now(r.chat, &n)[1]->answer, half);
    assert_true(line(&r, "/continue"));
    assert_true(r.report.n_prefilled < 8);
    assert_int_equal(strncmp(chat_path_now(r.chat, &n)[1]->answer, half, strlen(half)), 0);
    assert_int_equal(n, 2);

    /* with other words, which may spell no control token */
    left_by_editor = "No.<|im_end|> Yes.";
    assert_true(line(&r, "/edit reply"));
    assert_true(line(&r, "/show prompt"));
    assert_true(said(&r, "No.<|im_end|> Yes."));
    free(ask(&r, "And a page?"));
    assert_int_equal(chat_n_messages(r.chat), 4);
    assert_true(line(&r, "/verify"));
    assert_true(said(&r, "the same bits"));

    /* the reply as it was is where it was */
    assert_true(line(&r, "/switch 2"));
    assert_string_equal(chat_path_now(r.chat, &n)[1]->answer, answer);
    assert_true(line(&r, "/verify"));
    assert_true(said(&r, "the same bits"));
    r.face.edit = NULL;
    assert_false(line(&r, "/edit reply"));
    assert_true(said(&r, "set VISUAL or EDITOR"));
    free(half);
    free(answer);
    buf_free(&given_to_editor);
    close_chat(&r);
}

static void test_show_prompt(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    assert_false(line(&r, "/show prompt"));
    assert_true(said(&r, "nothing has been said"));
    char *answer = ask(&r, "What is\n<|im_end|>?");
    assert_true(line(&r, "/show prompt"));
    struct buf want = {0};
    buf_printf(&want,
               "literal: markup  <|im_start|>user\\n\n"
               "text    What is\\n\n"
               "        <|im_end|>?\n"
               "markup  <|im_end|>\\n\n"
               "        <|im_start|>assistant\\n\n"
               "reply   %s\n"
               "info: %u tokens. ",
               answer, (unsigned)r.report.n_ctx_used);
    assert_non_null(strstr(buf_str(&r.said), "reply   "));
    if (strncmp(buf_str(&r.said), buf_str(&want), want.len) != 0)
        assert_string_equal(buf_str(&r.said), buf_str(&want));
    buf_free(&want);
    free(answer);
    close_chat(&r);
}

static void test_set(void **unused)
{
    (void)unused;
    static const struct {
        const char *line, *says;
        bool ok;
    } cases[] = {
        {"/set temp", "it can be a number from 0 to ", true},
        {"/set top-k", "it can be a whole number ", true},
        {"/set color", "it can be auto, always or never", true},
        {"/set quiet", "it can be on or off", true},
        {"/set schema", "it can be a path, {...}, off or json", true},
        {"/set stop", "or several between commas", true},
        {"/set temp=0.5", "temp               0.5 ", true},
        {"/set temp = 0.4", "temp               0.4 ", true},
        {"/set stop===", "stop               ==", true},
        {"/set stop =>", "stop               =>", true},
        {"/set stop =", "stop               =", true},
        {"/set stop=", "stop               - ", true},
        {"/set stop", "; /set stop= takes them back", true},
        {"/set logit-bias 5=-1,6=2", "logit-bias         5=-1,6=2 ", true},
        {"/set logit-bias= ", "logit-bias         - ", true},
        {"/set temp=", "it can be a number from 0 to ", true},
        {"/set temp hot", "/set: temp: expected a number from 0 to ", false},
        {"/set top-p 2", "top-p: expected a number from 0 to 1, found '2'", false},
        {"/set color red", "expected auto, always or never, found 'red'", false},
        {"/set colour", "did you mean color?", false},
        {"/set ctx 100", "ctx is settled at the start; give --ctx there", false},
        {"/set num_ctx 100", "num_ctx is settled at the start; give --ctx there", false},
        {"/set model x", "/set: model is changed by /model", false},
        {"/set model-draft x", "/set: model-draft is changed by /draft", false},
        {"/set parameter temperature 0.5", "temp               0.5", true},
        {"/set num_predict 5", "max-tokens         5", true},
        {"/set top_k 3", "top-k              3", true},
        {"/set system Be brief.", "the system message is set", true},
        {"/show system", "Be brief.", true},
        {"/set nothink", "think              off", true},
        {"/show parameters", "top-k              3", true},
        {"/show info", "vocabulary", true},
        {"/? undo", "/undo [n]", true},
        {"/show conversation", "nothing has been said yet", true},
        {"/think hard", "/think: expected on, off, hide or show, found 'hard'", false},
        {"/edit reply", "/edit reply: there is no reply yet", false},
        {"/retry", "/retry: there is no message to answer again", false},
        {"/continue", "/continue: there is no reply to go on with", false},
        {"/show all",
         "expected model, settings, template, system, conversation or prompt, found "
         "'all'",
         false},
    };
    struct recorder r;
    open_chat(&r, false, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(line(&r, cases[i].line), cases[i].ok);
        if (!said(&r, cases[i].says)) fail_msg("%s said: %s", cases[i].line, buf_str(&r.said));
    }
    close_chat(&r);
}

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
    left_by_editor = "A page is a page.";
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

/* What commands leave behind stays, up to a bound: beyond it, the oldest goes, which is said
 * once.
 */
static void test_left_behind(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, true, NULL);
    struct conversation *c = r.chat->conversation;
    for (int i = 0; i <= CONVERSATION_MAX_LOOSE; i++) {
        buf_clear(&r.said);
        conversation_add(c, message_new(ROLE_USER, "Hello", 5));
        assert_true(line(&r, "/clear"));
        assert_int_equal(said(&r, "were left behind"), i == CONVERSATION_MAX_LOOSE);
    }
    assert_int_equal(conversation_n_branches(c), 1 + CONVERSATION_MAX_LOOSE);
    conversation_add(c, message_new(ROLE_USER, "Hello", 5));
    assert_true(line(&r, "/clear"));
    assert_false(said(&r, "were left behind"));
    close_chat(&r);
}

/* Every command is explained, and what it does not take is said. */
static void test_help(void **unused)
{
    (void)unused;
    struct recorder r;
    const struct command *row;
    open_chat(&r, false, NULL);
    for (size_t i = 0; (row = command_at(i)); i++) {
        struct buf ask_for = {0}, with = {0};
        buf_printf(&ask_for, "/help %s", row->name);
        assert_true(line(&r, ask_for.data));
        assert_true(said(&r, row->help));
        assert_true(said(&r, row->more));
        buf_printf(&with, "/%s nothing like this", row->name);
        if (!*row->args) {
            assert_false(line(&r, with.data));
            assert_true(said(&r, "takes nothing after it"));
        }
        buf_free(&ask_for);
        buf_free(&with);
    }
    close_chat(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_json),
        cmocka_unit_test(test_export_plain),
        cmocka_unit_test(test_edit),
        cmocka_unit_test(test_edit_unnamed),
        cmocka_unit_test(test_edit_reply),
        cmocka_unit_test(test_show_prompt),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_private),
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_save_copy),
        cmocka_unit_test(test_save_full),
        cmocka_unit_test(test_save_nothing),
        cmocka_unit_test(test_end_unsaved),
        cmocka_unit_test(test_load_unsaved),
        cmocka_unit_test(test_save_lost),
        cmocka_unit_test(test_close_in_reply),
        cmocka_unit_test(test_session_settings),
        cmocka_unit_test(test_load_settings),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_save_half),
        cmocka_unit_test(test_save_same),
        cmocka_unit_test(test_load_without_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
