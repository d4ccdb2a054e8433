/* The chat as a face drives it, with the bundled guide: turns, commands, seeds, branches. */
#include "../chat_driver.h"

static void test_turns_are_warm(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    free(ask(&r, "What is a draft model?"));
    assert_int_equal(r.report.stop, FACE_STOP_END);
    assert_int_equal(r.report.n_cached, 0);
    assert_true(r.report.n_generated > 5);
    uint32_t used = r.report.n_ctx_used;
    free(ask(&r, "And what is the cache?"));
    /* The prompt and the reply before it are there; only the end of that turn and the new
     * message are computed. */
    assert_true(r.report.n_cached + 1 >= used);
    assert_true(r.report.n_prefilled < 24);
    used = r.report.n_ctx_used;
    free(ask(&r, "Thanks"));
    assert_true(r.report.n_cached + 1 >= used);
    assert_int_equal(chat_n_messages(r.chat), 6);
    assert_string_equal(buf_str(&r.said), "");
    close_chat(&r);
}

/* /undo, the same again; /retry with the seed that was shown; --reply-seed for the first. */
static void test_seeds(void **unused)
{
    (void)unused;
    static const char *const warm[] = {"--temp",  "1.5", "--top-k",      "0",  "--min-p", "0",
                                       "--top-p", "1",   "--max-tokens", "40", "--seed",  "7",
                                       NULL};
    struct recorder r;
    open_chat(&r, false, warm);
    char *first = ask(&r, "Tell me a story");
    uint64_t first_seed = r.report.reply_seed;
    assert_int_equal(first_seed, engine_reply_seed(7, 0, 0));
    char *second = ask(&r, "/retry");
    assert_string_not_equal(first, second);
    assert_int_equal(r.report.reply_seed, engine_reply_seed(7, 0, 1));
    assert_int_equal(r.report.n_prefilled, 1);
    char command[64];
    snprintf(command, sizeof command, "/retry %" PRIu64, first_seed);
    char *again = ask(&r, command);
    assert_string_equal(first, again);
    assert_int_equal(r.report.reply_seed, first_seed);
    assert_int_equal(chat_n_messages(r.chat), 2);
    assert_true(line(&r, "/undo"));
    assert_int_equal(chat_n_messages(r.chat), 0);
    char *anew = ask(&r, "Tell me a story");
    assert_string_equal(first, anew);
    close_chat(&r);

    char seed[32];
    snprintf(seed, sizeof seed, "%" PRIu64, first_seed);
    const char *const cold[] = {"--temp",  "1.5", "--top-k",      "0",  "--min-p",      "0",
                                "--top-p", "1",   "--max-tokens", "40", "--reply-seed", seed,
                                NULL};
    open_chat(&r, false, cold);
    char *given = ask(&r, "Tell me a story");
    assert_string_equal(first, given);
    free(ask(&r, "More"));
    assert_true(r.report.reply_seed != first_seed);
    close_chat(&r);
    free(first), free(second), free(again), free(anew), free(given);
}

static void test_commands(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    assert_true(line(&r, "/help"));
    assert_true(said(&r, "info: /help"));
    assert_true(said(&r, "/quit /exit /bye"));
    assert_false(line(&r, "/udno"));
    assert_true(said(&r, "error: no command /udno; did you mean /undo?"));
    assert_false(line(&r, "/undo"));
    assert_true(said(&r, "error: /undo: nothing has been said yet"));
    assert_true(line(&r, "/set temp 0.25"));
    assert_true(chat_options(r.chat)->temp == 0.25f);
    assert_false(line(&r, "/set tmep 1"));
    assert_true(said(&r, "did you mean temp?"));
    assert_false(line(&r, "/set ctx 5"));
    assert_true(said(&r, "settled at the start"));
    assert_true(line(&r, "/show"));
    assert_true(said(&r, "<|im_end|>"));
    assert_true(line(&r, "/think off"));
    assert_true(line(&r, "   "));
    assert_int_equal(r.n_begins, 0);
    assert_true(line(&r, "/quit"));
    assert_int_equal(chat_state(r.chat), CHAT_CLOSED);
    close_chat(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns_are_warm),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
