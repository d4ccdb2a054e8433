/* What a cancel leaves: the reply so far, or before its first token the conversation as it was,
 * with the message and what was pasted at hand again. */
#include "../chat_driver.h"

#include "base/buf.h"
#include "chat/impl.h"

/* How often a cancel may come too late: the scheduler decides, not the program. */
enum { TRIES = 1000 };

static void test_cancel(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    char *whole = ask(&r, "Count from 1 to 20");
    uint32_t prompt = r.report.n_cached + r.report.n_prefilled;
    /* The engine runs ahead of who reads: a cancel that comes too late is tried again. */
    char *part = NULL;
    r.report.stop = FACE_STOP_END;
    for (int i = 0; i < TRIES && r.report.stop != FACE_STOP_CANCELLED; i++) {
        free(part);
        assert_true(line(&r, "/clear"));
        r.cancel_after = 4;
        part = ask(&r, "Count from 1 to 20");
        r.cancel_after = 0;
    }
    assert_int_equal(r.report.stop, FACE_STOP_CANCELLED);
    assert_int_equal(chat_n_messages(r.chat), 2);
    assert_true(strlen(part) > 0 && strlen(part) < strlen(whole));
    assert_memory_equal(part, whole, strlen(part));
    /* Going on gives what an undisturbed reply would have been, computing nothing again. */
    char *rest = NULL;
    assert_true(line(&r, "/continue"));
    rest = strdup(buf_str(&r.text));
    assert_string_equal(buf_str(&r.answer), whole);
    assert_true(strlen(part) + strlen(rest) == strlen(whole));
    assert_true(r.report.n_prefilled <= 1);
    assert_int_equal(chat_n_messages(r.chat), 2);
    uint32_t used = r.report.n_ctx_used;
    /* One that the model has ended does not go on, which is said, also where hints are not. */
    assert_true(line(&r, "/set quiet on"));
    assert_true(line(&r, "/continue"));
    assert_true(said(&r, "the reply was complete"));
    assert_string_equal(buf_str(&r.answer), whole);
    /* And the next turn finds all of it. */
    assert_true(used > prompt);
    free(ask(&r, "Thanks"));
    assert_true(r.report.n_cached + 1 >= used);
    free(whole), free(part), free(rest);
    close_chat(&r);
}

/* Cancels the turn that was just begun: whether that came before its first token. */
static bool taken_back(struct recorder *r)
{
    chat_cancel(r->chat);
    assert_int_equal(finish(r), CHAT_IDLE);
    return r->report.stop == FACE_STOP_CANCELLED && r->report.n_generated == 0;
}

/* A cancel before the first token: the conversation is as before, the message is offered. */
static void test_cancel_prefill(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    free(ask(&r, "Hello"));
    struct buf text = {0};
    bool in_time = false;
    for (int i = 0; i < TRIES && !in_time; i++) {
        if (i > 0) assert_true(line(&r, "/undo"));
        buf_clear(&text);
        for (int k = 0; k < 300; k++)
            buf_printf(&text, k ? "many words " : "%d times ", i); /* no text is warm */
        assert_true(chat_say(r.chat, text.data, text.len));
        while (chat_state(r.chat) == CHAT_BUSY && r.chat->turn.n_done <= r.chat->turn.n_cached)
            chat_step(r.chat, -1);
        in_time = taken_back(&r);
    }
    assert_true(in_time);
    assert_int_equal(chat_n_messages(r.chat), 2);
    assert_string_equal(buf_str(&r.offered), text.data);
    assert_string_equal(buf_str(&r.answer), "");
    assert_true(r.report.n_prefilled > 0 && r.report.prefill_ms > 0);
    buf_free(&text);
    close_chat(&r);
}

/* Opens a chat in which all that `try` begins is taken back: it tells whether that was so. */
static void open_until(struct recorder *r, bool (*try)(struct recorder *))
{
    open_chat(r, false, NULL);
    for (int i = 1; !try(r); i++) {
        assert_true(i < TRIES);
        close_chat(r);
        open_chat(r, false, NULL);
    }
}

static bool retry_is_taken_back(struct recorder *r)
{
    free(ask(r, "Hello"));
    assert_true(chat_line(r->chat, "/retry", 6));
    return taken_back(r);
}

/* The same for /retry: the reply that was there is there. */
static void test_cancel_retry(void **unused)
{
    (void)unused;
    struct recorder r;
    open_until(&r, retry_is_taken_back);
    assert_int_equal(chat_n_messages(r.chat), 2);
    assert_true(r.report.n_ctx_used > 0); /* the conversation has not gone */
    assert_string_equal(buf_str(&r.offered), "");
    assert_true(line(&r, "/branches"));
    assert_null(strstr(buf_str(&r.said), "\n  2"));
    close_chat(&r);
}

/* What was pasted is there again after a cancel, and what is pasted meanwhile follows it. */
static bool paste_is_taken_back(struct recorder *r)
{
    assert_false(chat_say(r->chat, " ", 1));
    chat_attach(r->chat, "one\ntwo\n\n", 9);
    assert_true(chat_has_paste(r->chat));
    assert_true(chat_say(r->chat, "", 0));
    assert_false(chat_has_paste(r->chat));
    if (!taken_back(r)) return false;
    assert_int_equal(chat_n_messages(r->chat), 0);
    assert_true(chat_has_paste(r->chat));
    assert_true(chat_say(r->chat, "", 0));
    chat_attach(r->chat, "meanwhile\n\n", 11);
    return taken_back(r);
}

/* What was pasted stands before the next message until something is sent or dropped, also after
 * a cancel; and what is dropped is no paste that Return alone would send. */
static void test_paste(void **unused)
{
    (void)unused;
    struct recorder r;
    open_until(&r, paste_is_taken_back);
    assert_true(line(&r, "three"));
    assert_string_equal(conversation_at(r.chat->conversation, 0)->text,
                        "one\ntwo\n\nmeanwhile\n\nthree");
    assert_false(chat_has_paste(r.chat));

    chat_attach(r.chat, "four", 4);
    assert_true(line(&r, "/clear"));
    assert_false(chat_has_paste(r.chat));
    assert_true(line(&r, "/read examples/guide/samples.txt"));
    assert_false(chat_has_paste(r.chat));
    assert_false(chat_say(r.chat, "", 0));
    assert_true(said(&r, "the message is empty"));
    assert_true(chat_detach(r.chat));
    assert_false(chat_detach(r.chat));
    close_chat(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_prefill),
        cmocka_unit_test(test_cancel_retry),
        cmocka_unit_test(test_paste),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
