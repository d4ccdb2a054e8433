/* /model with what is none: the model that is loaded stays, with all that is computed. */
#include "../chat_driver.h"
#include "../scratch.h"

#include <sys/stat.h>
#include <unistd.h>

#include "../gguf_builder.h"
#include "base/file.h"

#define OTHER_MODEL "tests/data/models/qwen2.gguf"

/* A folder for files that are no models, or not for long. */
static char folder[SCRATCH_PATH];

static char *in_folder(const char *name)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%s", folder, name);
    return buf_take(&path);
}

/* The first n_bytes (0: all) of a model under another name, with one text in it replaced by
 * another of its length. */
static char *copy_of(const char *model, const char *name, size_t n_bytes, const char *old,
                     const char *now)
{
    struct buf bytes = {0};
    struct err err;
    char *path = in_folder(name);
    if (!file_read(model, 64 << 20, &bytes, &err)) fail_msg("%s", err.msg);
    if (old) {
        char *at = memmem(bytes.data, bytes.len, old, strlen(old));
        assert_non_null(at);
        memcpy(at, now, strlen(now));
    }
    if (!file_replace(path, bytes.data, n_bytes ? n_bytes : bytes.len, &err))
        fail_msg("%s", err.msg);
    buf_free(&bytes);
    return path;
}

/* Refused with these words at once; what was computed is there. */
static void refused(struct recorder *r, char *path, const char *why)
{
    struct buf command = {0}, want = {0};
    buf_printf(&command, "/model %s", path);
    buf_printf(&want, "error: /model: %s: %s", path, why);
    if (line(r, command.data)) fail_msg("%s was taken", path);
    assert_int_equal(chat_state(r->chat), CHAT_IDLE);
    if (!said(r, want.data)) fail_msg("%s: %s", path, buf_str(&r->said));
    assert_false(said(r, "going on with"));
    assert_string_equal(chat_options(r->chat)->model, GUIDE);
    assert_true(line(r, "/retry 5"));
    assert_int_equal(r->report.n_prefilled, 0);
    buf_free(&command);
    buf_free(&want);
    free(path);
}

static void test_refused(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--max-tokens", "12", "--draft", GUIDE_DRAFT, NULL};
    open_chat(&r, false, args);
    free(ask(&r, "What is a token?"));
    refused(&r, strdup("README.md"), "not a GGUF file");
    refused(&r, strdup("tests"), "is a directory");
    refused(&r, copy_of(OTHER_MODEL, "half", 1 << 20, NULL, NULL), "tensor ");
    refused(&r, copy_of(OTHER_MODEL, "begun", 1000, NULL, NULL), "");
    refused(&r, copy_of(OTHER_MODEL, "family", 0, "qwen2", "qwenX"), "");
    refused(&r, copy_of(OTHER_MODEL, "tensor", 0, "blk.0.attn_q.weight", "blk.0.attn_X.weight"),
            "tensor blk.0.attn_q.weight");
    refused(&r, copy_of(GUIDE, "template", 0, "{% endfor %}", "{% endfox %}"), "chat template");
    char *fifo = in_folder("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    refused(&r, fifo, "is a FIFO, expected a file");
    /* Nor does it cost the draft. */
    assert_true(line(&r, "/draft"));
    assert_true(said(&r, "guessed by guide-draft-q8_0.gguf"));
    close_chat(&r);
}

/* The file goes away once it was found to be in order. */
static char *vanishing;

static void say_and_unlink(void *user, enum face_level level, const char *text)
{
    if (strstr(text, "was for the model before")) unlink(vanishing);
    on_say(user, level, text);
}

/* /model of what only loading finds to be gone: back to the one before. */
static void go_to_vanishing(struct recorder *r)
{
    struct buf command = {0};
    r->face.say = say_and_unlink;
    vanishing = copy_of(OTHER_MODEL, "vanishing", 0, NULL, NULL);
    buf_printf(&command, "/model %s", vanishing);
    buf_clear(&r->said);
    chat_line(r->chat, command.data, command.len);
    assert_int_equal(finish(r), CHAT_IDLE);
    assert_true(said(r, "going on with " GUIDE));
    assert_string_equal(chat_options(r->chat)->model, GUIDE);
    free(vanishing);
    buf_free(&command);
}

/* With its draft. */
static void test_goes_back(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--max-tokens", "12", "--draft", GUIDE_DRAFT, NULL};
    open_chat(&r, false, args);
    char *first = ask(&r, "What is a token?");
    go_to_vanishing(&r);
    assert_true(line(&r, "/draft"));
    assert_true(said(&r, "guessed by guide-draft-q8_0.gguf"));
    char *again = ask(&r, "/retry 5");
    assert_int_equal(chat_n_messages(r.chat), 2);
    free(first), free(again);
    close_chat(&r);
}

static void go_on_with(struct recorder *r, const char *command)
{
    buf_clear(&r->said);
    assert_true(chat_line(r->chat, command, strlen(command)));
    assert_int_equal(finish(r), CHAT_IDLE);
}

/* The guide without its template: which one it has, and why, is said and shown. */
static void test_no_template(void **unused)
{
    (void)unused;
    struct recorder r;
    struct buf command = {0};
    static const char *const args[] = {"--max-tokens", "1", NULL};
    open_chat(&r, false, args);
    assert_true(line(&r, "/show model"));
    assert_true(said(&r, "the model's own; thinking"));
    char *path =
        copy_of(GUIDE, "untaught", 0, "tokenizer.chat_template", "tokenizer.chat_templatX");
    buf_printf(&command, "/model %s", path);
    go_on_with(&r, buf_str(&command));
    assert_true(said(&r, "warning: the model has no chat template; its tokens are ChatML's, so "
                         "--template chatml is used"));
    assert_true(line(&r, "/show model"));
    assert_true(said(&r, "chatml, for its tokens, since the model has none; thinking"));
    assert_true(line(&r, "/show template"));
    assert_true(said(&r, "<|im_start|>"));
    go_on_with(&r, "/model " GUIDE);
    assert_false(said(&r, "no chat template"));
    assert_true(line(&r, "/show model"));
    assert_true(said(&r, "the model's own; thinking"));
    buf_free(&command);
    free(path);
    close_chat(&r);
}

/* An adapter of the guide's first matrices of queries and keys. */
static char *adapter_of_guide(void)
{
    struct buf b = {0};
    struct err err;
    struct gguf *g = gguf_open(GUIDE, &err);
    if (!g) fail_msg("%s", err.msg);
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight"};
    char *path = in_folder("lora.gguf"), name[64];
    enum { RANK = 8 };
    gb_header(&b, 3, 4, 3);
    gb_kv_str(&b, "general.architecture", "qwen3");
    gb_kv_str(&b, "general.type", "adapter");
    gb_kv_str(&b, "adapter.type", "lora");
    size_t at = 0;
    for (size_t i = 0; i < 4; i++) {
        const struct gguf_tensor *t = gguf_tensor_find(g, names[i / 2]);
        assert_non_null(t);
        snprintf(name, sizeof name, "%s.lora_%c", names[i / 2], "ab"[i % 2]);
        gb_tensor(&b, name, i % 2 ? RANK : t->ne[0], i % 2 ? t->ne[1] : RANK, QTYPE_F32, at);
        at += (i % 2 ? t->ne[1] : t->ne[0]) * RANK * sizeof(float);
    }
    gb_pad(&b, 32);
    for (size_t i = 0; i < at / sizeof(float); i++) {
        const float v = (float)(i * 29 % 101) / 1000 - 0.05f;
        buf_append(&b, &v, sizeof v);
    }
    if (!file_replace(path, b.data, b.len, &err)) fail_msg("%s", err.msg);
    buf_free(&b);
    gguf_close(g);
    return path;
}

/* It belongs to its model: another has none, and a model that cannot be had gives it back. */
static void test_adapter(void **unused)
{
    (void)unused;
    struct recorder r;
    char *adapter = adapter_of_guide();
    const char *args[] = {"--max-tokens", "12", "--lora", adapter, "--draft", "lookup", NULL};
    open_chat(&r, false, args);
    free(ask(&r, "What is a token?"));
    line(&r, "/model");
    assert_true(said(&r, "hearth guide with lora.gguf (qwen3)"));
    /* The same again keeps it. */
    assert_true(line(&r, "/model " GUIDE));
    assert_false(said(&r, "is left out"));
    line(&r, "/model");
    assert_true(said(&r, "with lora.gguf"));
    go_to_vanishing(&r);
    assert_true(said(&r, "lora.gguf was for the model before, and is left out"));
    line(&r, "/model");
    assert_true(said(&r, "with lora.gguf"));
    go_on_with(&r, "/model " OTHER_MODEL);
    assert_true(said(&r, "is left out"));
    line(&r, "/model");
    assert_false(said(&r, "with lora.gguf"));
    free(adapter);
    close_chat(&r);
}

/* A bias stays, as all settings do, but its numbers are other tokens' there. */
static void test_bias(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char words[] = "logit-bias names tokens by their numbers, and with this model";
    static const char *const args[] = {"--max-tokens", "2", "--private", NULL};
    open_chat(&r, true, args);
    go_on_with(&r, "/model " OTHER_MODEL);
    assert_false(said(&r, words));
    assert_true(line(&r, "/set logit-bias 5=1"));
    go_on_with(&r, "/model " OTHER_MODEL);
    assert_false(said(&r, words));
    go_on_with(&r, "/model " GUIDE);
    assert_true(said(&r, words));
    assert_true(said(&r, "; /set logit-bias= takes them back"));
    assert_false(said(&r, "no message is answered"));
    assert_true(line(&r, "/set logit-bias 2047=1"));
    go_on_with(&r, "/model " OTHER_MODEL);
    assert_true(said(&r, "; /set logit-bias= takes them back"));
    assert_true(said(&r, "the vocabulary has 512 tokens: no message is answered until"));
    close_chat(&r);
}

static int make_folder(void **unused)
{
    (void)unused;
    scratch_folder(folder, "model");
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    scratch_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_goes_back),
        cmocka_unit_test(test_no_template), cmocka_unit_test(test_adapter),
        cmocka_unit_test(test_bias),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
