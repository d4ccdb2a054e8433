/* A conversation that the context has no room for: what is refused, advised and trimmed. */
#include "../chat_driver.h"

#include "base/buf.h"
#include "chat/impl.h"

static void test_too_long(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--ctx", "128", NULL};
    open_chat(&r, true, args);
    struct buf text = {0};
    for (int i = 0; i < 200; i++)
        buf_puts(&text, "words ");
    assert_true(line(&r, text.data));
    assert_int_equal(r.report.stop, FACE_STOP_FAILED);
    assert_true(r.report.too_long);
    assert_true(said(&r, "error: "));
    assert_true(said(&r, "128"));
    assert_int_equal(chat_n_messages(r.chat), 0);
    assert_string_equal(buf_str(&r.offered), text.data);
    free(ask(&r, "Hello"));
    buf_free(&text);
    /* The context fills up: the reply stops there and says so. */
    bool full = false;
    for (int i = 0; i < 12 && !full; i++) {
        bool ok = line(&r, "Count from 1 to 20");
        assert_true(ok);
        full = r.report.stop == FACE_STOP_CONTEXT;
    }
    assert_true(full || r.report.too_long);
    if (full) assert_true(said(&r, "warning: the context of 128 tokens is full"));
    assert_true(line(&r, "/trim 2"));
    assert_true(said(&r, "dropped the oldest 2 turns; what was there is branch"));
    /* Whoever meets it can have that done from now on. */
    assert_true(line(&r, "/set overflow trim"));
    for (int i = 0; i < 4; i++) {
        free(ask(&r, "Count from 1 to 20"));
        assert_int_not_equal(r.report.stop, FACE_STOP_FAILED);
    }
    close_chat(&r);
}

/* What is advised helps: a single turn leaves nothing to trim, and --overflow trim needs none.
 */
static void test_full(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--ctx", "24", NULL};
    open_chat(&r, true, args);
    free(ask(&r, "hi"));
    assert_int_equal(r.report.stop, FACE_STOP_CONTEXT);
    assert_true(said(&r, "is full: the reply is cut off; /clear begins a new conversation"));
    assert_true(line(&r, "/set overflow trim"));
    free(ask(&r, "hi"));
    assert_int_equal(r.report.stop, FACE_STOP_CONTEXT);
    assert_true(said(&r, "is full: the reply is cut off\n"));
    assert_true(line(&r, "/trim"));
    assert_true(said(&r, "dropped the oldest turn; what was there is branch"));
    assert_true(line(&r, "/clear"));
    assert_true(line(&r, "/set overflow stop"));
    assert_true(line(&r, "/set max-tokens 1"));
    free(ask(&r, "hi"));
    assert_true(line(&r, "/stats"));
    assert_true(said(&r, " ms, stop length")); /* one token has no speed */
    assert_true(line(&r, "/clear"));
    assert_true(line(&r, "/set max-tokens 3"));
    free(ask(&r, "hi"));
    assert_true(line(&r, "/set max-tokens 100"));
    free(ask(&r, "a"));
    assert_int_equal(r.report.stop, FACE_STOP_CONTEXT);
    assert_true(said(&r, "; /trim drops the oldest turns; /clear begins"));
    close_chat(&r);
}

/* What was pasted waits where turns that are dropped make room for it, and only there. */
static void test_paste_waits(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--ctx", "128", "--max-tokens", "20", NULL};
    open_chat(&r, true, args);
    for (int i = 0; i < 2; i++)
        free(ask(&r, "Count from 1 to 20"));
    struct buf text = {0};
    while (engine_count_tokens(r.chat->engine, buf_str(&text), text.len) < 90)
        buf_puts(&text, "words ");
    chat_attach(r.chat, text.data, text.len);
    assert_true(line(&r, "how many?"));
    assert_true(r.report.too_long);
    assert_true(said(&r, "; /trim drops the oldest turns; what was read or pasted waits"));
    assert_true(chat_has_paste(r.chat));
    assert_true(line(&r, "/trim 2"));
    free(ask(&r, "how many?"));
    assert_int_not_equal(r.report.stop, FACE_STOP_FAILED);
    assert_false(chat_has_paste(r.chat));
    const struct conversation *talk = r.chat->conversation;
    assert_non_null(
        strstr(conversation_at(talk, conversation_n(talk) - 2)->text, "words \n\nhow"));
    for (int i = 0; i < 3; i++)
        chat_attach(r.chat, text.data, text.len);
    assert_true(line(&r, "how many?"));
    assert_true(r.report.too_long);
    assert_true(said(&r, "; what was read or pasted before the message is dropped\n"));
    assert_false(chat_has_paste(r.chat));
    buf_free(&text);
    close_chat(&r);
}

/* --overflow trim goes on by itself and says what it dropped; the system message stays. */
static void test_overflow(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--ctx",    "160",          "--overflow",
                                       "trim",     "--max-tokens", "24",
                                       "--system", "Be kind.",     NULL};
    open_chat(&r, true, args);
    bool dropped = false;
    for (int i = 0; i < 16; i++) {
        free(ask(&r, i % 2 ? "And now tell me a story" : "Count from 1 to 20"));
        assert_true(r.report.stop == FACE_STOP_END || r.report.stop == FACE_STOP_LENGTH);
        dropped |= said(&r, "warning: the context is full: dropped the ");
        assert_true(r.report.n_ctx_used <= 160);
    }
    assert_true(dropped);
    assert_true(line(&r, "/system"));
    assert_true(said(&r, "Be kind."));
    close_chat(&r);
}

/* What a trim leaves is computed again, so it makes room for the turns that follow, too: a
 * quarter of the context, about 12 tokens each, whatever the system message takes. */
static void test_trims_are_rare(void **unused)
{
    (void)unused;
    struct recorder r;
    struct buf system = {0};
    for (int i = 0; i < 110; i++)
        buf_puts(&system, " the");
    const char *const args[] = {"--ctx", "512",      "--overflow",     "trim", "--max-tokens",
                                "2",     "--system", buf_str(&system), NULL};
    open_chat(&r, true, args);
    int n_trims = 0;
    for (int i = 0; i < 100; i++) {
        free(ask(&r, "A note"));
        n_trims += said(&r, "dropped");
    }
    assert_in_range(n_trims, 3, 10);
    buf_free(&system);
    close_chat(&r);
}

/* What a turn drops is one branch, up to the last reply; a turn that is refused drops nothing,
 * and says nothing of it. */
static void test_overflow_branches(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--ctx",        "256", "--overflow", "trim",
                                       "--max-tokens", "2",   NULL};
    open_chat(&r, true, args);
    for (int i = 0; i < 15; i++)
        free(ask(&r, "A note"));
    struct conversation *c = r.chat->conversation;
    assert_int_equal(conversation_n_branches(c), 1);
    struct buf text = {0};
    for (int i = 0; i < 400; i++)
        buf_puts(&text, "x ");
    assert_true(line(&r, text.data));
    assert_true(r.report.too_long);
    assert_false(said(&r, "dropped"));
    assert_int_equal(conversation_n_branches(c), 1);
    assert_int_equal(conversation_n(c), 30);
    assert_string_equal(buf_str(&r.offered), text.data);
    text.len = 400; /* without the end: it fits, alone */
    text.data[text.len] = '\0';
    free(ask(&r, text.data));
    assert_true(said(&r, " oldest turns, up to \"A note\""));
    assert_int_equal(conversation_n_branches(c), 2);
    assert_int_equal(branch_n(conversation_branch(c, 1)), 30);
    assert_true(conversation_n(c) < 30);
    buf_free(&text);
    close_chat(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_long),       cmocka_unit_test(test_full),
        cmocka_unit_test(test_overflow),       cmocka_unit_test(test_overflow_branches),
        cmocka_unit_test(test_trims_are_rare), cmocka_unit_test(test_paste_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
