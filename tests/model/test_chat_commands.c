/* Commands of the chat, with the bundled guide: /export in every format, /edit in an editor,
 * /show prompt, /set with what a value can be and with the names of other programs. */
#include "../chat_driver.h"
#include "../scratch.h"

#include <jansson.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
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
        {"/set logit-bias 7=1,2048=1",
         "/set: logit-bias names token 2048, but the vocabulary has 2048 tokens", false},
        {"/set logit-bias", "logit-bias         5=-1,6=2   /set", true},
        {"/set logit-bias 2047=1", "logit-bias         2047=1 ", true},
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
        {"/set parameter", "/set parameter: which one? /set lists them", false},
        {"/set num_predict 5", "max-tokens         5", true},
        {"/set top_k 3", "top-k              3", true},
        {"/set system Be brief.", "the system message is set", true},
        {"/show system", "Be brief.", true},
        {"/set nothink", "think              off", true},
        {"/show parameters", "top-k              3", true},
        {"/show info", "vocabulary", true},
        {"/? undo", "/undo [n]", true},
        {"/help undo 2", "/undo [n]", true},
        {"/help set", "/set [key value]", true},
        {"/help set temp", "/set temp: ", true},
        {"/help /set top_k", "it can be a whole number ", true},
        {"/help temp", "it can be a number from 0 to ", true},
        {"/help set nothing", "/set: no setting 'nothing'; /set lists them\n", false},
        {"/help set tempp", "/set: no setting 'tempp'; did you mean temp?\n", false},
        {"/help set temp 0.7", "/set temp: ", true},
        {"/help set temp=0.7", "/set temp: ", true},
        {"/help temp 0.7", "/set temp: ", true},
        {"/help set parameter temp", "/set temp: ", true},
        {"/help set system", "/system [text]", true},
        {"/help set nothink", "/think ", true},
        {"/help set parameter", "/set [key value]", true},
        {"/help set undo", "/set: no setting 'undo'", false},
        {"/help temp=0.7", "/set temp: ", true},
        {"/help set model", "/model [file]", true},
        {"/help //", "A message that begins with a slash is sent with two", true},
        {"/help udno", "no command /udno; did you mean /undo?\n", false},
        {"/help udno 2", "no command /udno; did you mean /undo?\n", false},
        {"/help nonsense", "no command /nonsense; /help lists them\n", false},
        {"/bye now", "/bye takes nothing after it, found 'now'", false},
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

/* Carries out a command with a path in it. */
static bool with_path(struct recorder *r, const char *before, const char *folder,
                      const char *behind)
{
    char command[256];
    snprintf(command, sizeof command, "%s%s%s", before, folder, behind);
    return line(r, command);
}

static void make_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A file that is dropped on a terminal comes as a shell would need it. */
static void test_dropped_files(void **unused)
{
    (void)unused;
    struct recorder r;
    struct err err;
    struct buf text = {0};
    char folder[SCRATCH_PATH], path[256];
    scratch_folder(folder, "dropped");
    make_file(folder, "my system.txt", "Be brief.\n");
    make_file(folder, "my schema.json", "{\"type\": \"boolean\"}");
    char *draft = realpath(GUIDE_DRAFT, NULL);
    snprintf(path, sizeof path, "%s/my draft.gguf", folder);
    assert_int_equal(symlink(draft, path), 0);
    free(draft);
    open_chat(&r, false, NULL);
    assert_true(with_path(&r, "/system @'", folder, "/my system.txt'"));
    assert_true(line(&r, "/system"));
    assert_true(said(&r, "Be brief."));
    assert_true(with_path(&r, "/set schema ", folder, "/my\\ schema.json"));
    char *answer = ask(&r, "Is a token a word?");
    assert_true(strcmp(answer, "true") == 0 || strcmp(answer, "false") == 0);
    free(answer);
    assert_true(with_path(&r, "/draft '", folder, "/my draft.gguf',lookup"));
    assert_true(said(&r, "guessed by my draft.gguf and lookup"));
    assert_true(with_path(&r, "/export '", folder, "/my chat.json'"));
    snprintf(path, sizeof path, "%s/my chat.json", folder);
    assert_true(file_read(path, 1 << 20, &text, &err));
    assert_int_equal(*buf_str(&text), '{');
    buf_free(&text);
    close_chat(&r);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_json), cmocka_unit_test(test_export_plain),
        cmocka_unit_test(test_edit),        cmocka_unit_test(test_edit_unnamed),
        cmocka_unit_test(test_edit_reply),  cmocka_unit_test(test_show_prompt),
        cmocka_unit_test(test_set),         cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_help),        cmocka_unit_test(test_dropped_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
