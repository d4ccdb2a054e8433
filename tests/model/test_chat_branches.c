/* Going back: messages edited, branches left and come back to, also hundreds of them. */
#include "../chat_driver.h"
#include "../soak.h"

#include <malloc.h>
#include <unistd.h>

#include "base/buf.h"
#include "chat/impl.h"

/* /edit goes back and offers the message; the common beginning stays warm. */
static void test_edit(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    free(ask(&r, "What is a token?"));
    uint32_t used = r.report.n_ctx_used;
    free(ask(&r, "What is a draft model good for?"));
    assert_true(line(&r, "/edit"));
    assert_string_equal(buf_str(&r.offered), "What is a draft model good for?");
    assert_int_equal(chat_n_messages(r.chat), 2);
    free(ask(&r, "What is a draft model good at?"));
    assert_true(r.report.n_cached >= used + 5);
    assert_true(r.report.n_prefilled < 16);
    assert_true(line(&r, "/stats"));
    assert_true(said(&r, "diverged"));
    assert_true(said(&r, ", stop end\n             seed "));
    assert_true(line(&r, "/edit 2"));
    assert_string_equal(buf_str(&r.offered), "What is a token?");
    assert_int_equal(chat_n_messages(r.chat), 0);
    assert_false(line(&r, "/edit"));
    close_chat(&r);
}

/* What /edit offers is not sent: nothing has changed, and nothing more is to be given up. Once
 * something else was done from there it stays. */
static void test_edit_given_up(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, true, NULL);
    free(ask(&r, "What is a token?"));
    free(ask(&r, "And a page?"));
    assert_false(chat_unedit(r.chat));
    assert_true(line(&r, "/edit"));
    assert_true(line(&r, "/edit"));
    assert_int_equal(chat_n_messages(r.chat), 0);
    assert_true(chat_unedit(r.chat)); /* of the second one */
    assert_true(said(&r, "as it was before /edit"));
    assert_int_equal(chat_n_messages(r.chat), 2);
    assert_false(chat_unedit(r.chat));
    assert_true(line(&r, "/branches"));
    assert_true(said(&r, "* 1 main"));
    assert_true(said(&r, "  2 -"));
    assert_false(said(&r, "  3 -"));
    assert_true(line(&r, "/switch 2"));
    assert_int_equal(chat_n_messages(r.chat), 4);

    /* A message without words sends nothing; one with words does. */
    assert_true(line(&r, "/edit 2"));
    assert_false(chat_say(r.chat, " ", 1));
    assert_true(chat_unedit(r.chat));
    assert_int_equal(chat_n_messages(r.chat), 4);
    free(ask(&r, "Thanks"));
    assert_true(r.report.n_prefilled < 16);
    assert_true(line(&r, "/edit"));
    free(ask(&r, "Thank you"));
    assert_false(chat_unedit(r.chat));
    assert_int_equal(chat_n_messages(r.chat), 6);
    assert_true(line(&r, "/edit"));
    assert_true(line(&r, "/branches"));
    assert_false(chat_unedit(r.chat));
    assert_true(line(&r, "/edit"));
    close_chat(&r);
}

/* Branches: switching back and going on there computes only what never was. */
static void test_branches(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    free(ask(&r, "What is a token?"));
    uint32_t used = r.report.n_ctx_used;
    assert_true(line(&r, "/fork idea"));
    assert_true(said(&r, "branch 2 idea"));
    assert_false(line(&r, "/fork idea"));
    assert_false(line(&r, "/fork 3x"));
    free(ask(&r, "And a page?"));
    assert_true(r.report.n_cached + 1 >= used);
    assert_true(line(&r, "/switch main"));
    assert_int_equal(chat_n_messages(r.chat), 2);
    free(ask(&r, "And a seed?"));
    assert_true(r.report.n_cached + 1 >= used);
    assert_true(line(&r, "/switch 2"));
    assert_int_equal(chat_n_messages(r.chat), 4);
    char *again = ask(&r, "/retry");
    assert_true(line(&r, "/branches"));
    assert_true(said(&r, "* 2 idea"));
    assert_true(said(&r, "  3 -"));
    assert_false(line(&r, "/switch nowhere"));
    assert_false(line(&r, "/switch"));
    struct buf words = {0};
    bool is_path;
    chat_complete(r.chat, "/switch ", &words, &is_path);
    assert_string_equal(buf_str(&words), "main\nidea\n3\n");
    buf_free(&words);
    free(again);
    assert_true(line(&r, "/verify"));
    assert_true(said(&r, "info: the same bits"));
    uint32_t ends = (uint32_t)r.n_ends;
    assert_true(line(&r, "/switch main"));
    assert_true(line(&r, "/verify"));
    assert_true(said(&r, "info: the same bits"));
    assert_int_equal(r.n_ends, ends); /* no turn */
    close_chat(&r);
}

static size_t resident_kb(void)
{
    unsigned long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_true(f && fscanf(f, "%lu %lu", &size, &resident) == 2);
    fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Hundreds of rounds of /undo and /retry, each of which leaves two branches: once there are as
 * many of those as are kept, neither what the chat holds nor what the engine computes grows. */
static void test_rounds(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--max-tokens", "2", NULL};
    const int n_full = CONVERSATION_MAX_LOOSE / 2 + 100, n = n_full + 400 * (int)soak();
    open_chat(&r, false, args);
    free(ask(&r, "What is a token?"));
    free(ask(&r, "And a page?"));
    size_t held = 0, resident = 0;
    for (int i = 0; i < n; i++) {
        free(ask(&r, "/retry"));
        assert_int_equal(r.report.n_prefilled, 0);
        assert_true(line(&r, "/undo"));
        free(ask(&r, "And a page?"));
        assert_int_equal(r.report.n_prefilled, 0);
        assert_int_equal(chat_n_messages(r.chat), 4);
        if (i == n_full) held = mallinfo2().uordblks, resident = resident_kb();
    }
    /* A few arrays grow by doubling and with the numbers of branches. Sanitizers, which keep
     * what was freed, say nothing of what is in use. */
    if (held) {
        assert_true(mallinfo2().uordblks < held + (64 << 10));
        assert_true(resident_kb() < resident + 1024);
    }
    close_chat(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edit),
        cmocka_unit_test(test_edit_given_up),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
