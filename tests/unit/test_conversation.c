#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/philox.h"
#include "chat/conversation.h"

static void say(struct conversation *c, const char *text)
{
    conversation_add(c, message_new(ROLE_USER, text, strlen(text)));
}

static void reply(struct conversation *c, const char *text)
{
    conversation_add(c, message_new(ROLE_REPLY, text, strlen(text)));
}

/* The current path as "a A b B". */
static const char *path(struct conversation *c)
{
    static char out[4096];
    struct buf b = {0};
    const struct message *const *list = conversation_path(c);
    for (size_t i = 0; i < conversation_n(c); i++) {
        assert_ptr_equal(list[i], conversation_at(c, i));
        buf_printf(&b, "%s%s", i ? " " : "", list[i]->text);
    }
    snprintf(out, sizeof out, "%s", buf_str(&b));
    buf_free(&b);
    return out;
}

static void test_path(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    assert_int_equal(conversation_n(c), 0);
    assert_int_equal(conversation_rewind(c, 0), 0);
    assert_int_equal(conversation_n_branches(c), 1);
    assert_null(branch_last_user(conversation_current(c)));
    assert_int_equal(conversation_drop_oldest(c, 0), 0);
    assert_int_equal(conversation_drop_oldest(c, 2), 0);
    assert_int_equal(conversation_n_branches(c), 1);
    say(c, "a"), reply(c, "A"), say(c, "b"), reply(c, "B");
    assert_string_equal(path(c), "a A b B");
    assert_int_equal(conversation_n_turns(c), 2);
    unsigned number = conversation_rewind(c, 2);
    assert_int_equal(number, 2);
    assert_string_equal(path(c), "a A");
    say(c, "c");
    assert_string_equal(path(c), "a A c");
    assert_int_equal(conversation_n_turns(c), 2);
    conversation_take_back(c);
    assert_string_equal(path(c), "a A");
    /* What is left already lies on another branch: nothing new to keep. */
    assert_int_equal(conversation_rewind(c, 1), 0);
    assert_int_equal(conversation_rewind(c, 1), 0); /* nor where nothing is left behind */
    assert_int_equal(conversation_n_branches(c), 2);
    conversation_switch(c, conversation_find(c, "2"));
    assert_string_equal(path(c), "a A b B");
    conversation_switch(c, conversation_find(c, "main"));
    assert_string_equal(path(c), "a");
    conversation_free(c);
}

static void test_system(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    assert_null(conversation_system(c));
    conversation_set_system(c, "be brief");
    assert_string_equal(conversation_system(c), "be brief");
    conversation_set_system(c, conversation_system(c));
    assert_string_equal(conversation_system(c), "be brief");
    conversation_set_system(c, "");
    assert_null(conversation_system(c));
    conversation_free(c);
}

static void test_fork(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    say(c, "a"), reply(c, "A");
    const struct branch *b = conversation_fork(c, "other");
    assert_ptr_equal(b, conversation_current(c));
    say(c, "b"), reply(c, "B");
    assert_string_equal(path(c), "a A b B");
    conversation_switch(c, conversation_find(c, "main"));
    assert_string_equal(path(c), "a A");
    say(c, "c");
    assert_string_equal(path(c), "a A c");
    assert_int_equal(branch_n(conversation_find(c, "other")), 4);
    assert_string_equal(branch_last_user(conversation_find(c, "other"))->text, "b");
    assert_null(conversation_find(c, "none"));
    assert_null(conversation_find(c, "7"));
    conversation_remove_branch(c, 7);
    conversation_remove_branch(c, conversation_current(c)->number);
    assert_int_equal(conversation_n_branches(c), 2);
    conversation_remove_branch(c, conversation_find(c, "other")->number);
    assert_null(conversation_find(c, "other"));
    assert_string_equal(path(c), "a A c");
    conversation_free(c);
}

/* Of what was left behind the oldest goes, and the current branch stays the current one. */
static void test_left_behind(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    for (int i = 0; i < CONVERSATION_MAX_LOOSE; i++)
        say(c, "a"), conversation_rewind(c, 0);
    conversation_switch(c, conversation_find(c, "500"));
    say(c, "b"); /* it is no longer left behind */
    assert_false(conversation_current(c)->is_loose);
    for (int i = 0; i < 3; i++)
        say(c, "c"), conversation_rewind(c, 0);
    assert_int_equal(conversation_current(c)->number, 500);
    assert_string_equal(path(c), "");
    assert_int_equal(conversation_n_branches(c), 2 + CONVERSATION_MAX_LOOSE);
    assert_non_null(conversation_find(c, "main"));
    assert_null(conversation_find(c, "3"));
    assert_non_null(conversation_find(c, "4"));
    assert_int_equal(conversation_find(c, "901")->number, 901);
    say(c, "d");
    assert_string_equal(path(c), "d");
    conversation_free(c);
}

/* A failed turn leaves everything as it was, the list of branches too. */
static void test_marks(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    say(c, "a"), reply(c, "A");
    struct node *mark = conversation_hold(c);
    conversation_rewind(c, 1);
    assert_int_equal(conversation_n_branches(c), 2);
    conversation_return(c, mark);
    assert_string_equal(path(c), "a A");
    assert_int_equal(conversation_n_branches(c), 1);
    mark = conversation_hold(c);
    say(c, "b");
    conversation_return(c, mark);
    assert_string_equal(path(c), "a A");
    mark = conversation_hold(c);
    conversation_drop(mark);
    /* What was left before stays; what a trim leaves, which ends before the mark, does not. */
    conversation_rewind(c, 1);
    reply(c, "B"), say(c, "b");
    mark = conversation_hold(c);
    assert_int_equal(conversation_drop_oldest(c, 2), 4);
    assert_int_equal(conversation_n_branches(c), 3);
    conversation_return(c, mark);
    assert_string_equal(path(c), "a B b");
    assert_int_equal(conversation_n_branches(c), 2);
    conversation_free(c);
}

static void test_trim(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    say(c, "a"), reply(c, "A"), say(c, "b"), reply(c, "B");
    assert_int_equal(conversation_next_attempt(c), 0);
    unsigned number = conversation_drop_oldest(c, 2);
    assert_int_equal(number, 2);
    assert_string_equal(path(c), "b B");
    assert_int_equal(conversation_next_attempt(c), 1);
    assert_int_equal(conversation_drop_oldest(c, 9), 3);
    assert_string_equal(path(c), "");
    conversation_switch(c, conversation_find(c, "2"));
    assert_string_equal(path(c), "a A b B");
    /* A message without a reply gets it on the copy. */
    say(c, "c");
    assert_int_equal(conversation_drop_oldest(c, 4), 4);
    assert_string_equal(path(c), "c");
    conversation_switch(c, conversation_find(c, "4"));
    assert_string_equal(path(c), "a A b B");
    conversation_free(c);
}

/* However long it is: a session is read from a file that anybody may have made. */
static void test_drop_from_long(void **unused)
{
    (void)unused;
    enum { LONG = 300000 };
    struct conversation *c = conversation_new();
    for (int i = 0; i < LONG; i++)
        say(c, "a");
    conversation_drop_oldest(c, 1);
    assert_int_equal(conversation_n(c), LONG - 1);
    conversation_free(c);
}

/* Loose branches are kept up to a bound, named and current ones always. */
static void test_bounded(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    say(c, "q");
    reply(c, "first");
    conversation_fork(c, "kept");
    conversation_switch(c, conversation_find(c, "main"));
    for (int i = 0; i < 2500; i++) {
        char text[16];
        snprintf(text, sizeof text, "r%d", i);
        conversation_rewind(c, 1);
        assert_true(conversation_next_attempt(c) == (uint32_t)i);
        reply(c, text);
    }
    assert_int_equal(conversation_n_branches(c), 2 + CONVERSATION_MAX_LOOSE);
    assert_int_equal(conversation_n_thinned(c), 2499 - CONVERSATION_MAX_LOOSE);
    assert_string_equal(path(c), "q r2499");
    assert_non_null(conversation_find(c, "kept"));
    for (size_t i = 1; i < conversation_n_branches(c); i++)
        assert_true(conversation_branch(c, i - 1)->number < conversation_branch(c, i)->number);
    conversation_free(c);
}

/* Random histories against plain strings: every named branch keeps its text. */
static void test_random(void **unused)
{
    (void)unused;
    enum { BRANCHES = 6 };
    struct conversation *c = conversation_new();
    char text[BRANCHES][2000] = {""};
    size_t at = 0, n = 1;
    char names[BRANCHES][8] = {"main", "b1", "b2", "b3", "b4", "b5"};
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t x = philox(5, i, 0, 0, PHILOX_BENCH).word[0], kind = x % 5;
        size_t len = conversation_n(c);
        x /= 5;
        char *now = text[at];
        if (kind <= 1 && len < 200) {
            char word[2] = {(char)('a' + x % 26), '\0'};
            if (len % 2 == 0)
                say(c, word);
            else
                reply(c, word);
            snprintf(now + strlen(now), 2000 - strlen(now), "%s%s", len ? " " : "", word);
        } else if (kind == 2) {
            size_t keep = x % (len + 1);
            conversation_rewind(c, keep);
            now[keep ? 2 * keep - 1 : 0] = '\0';
        } else if (kind == 3 && n < BRANCHES) {
            conversation_fork(c, names[n]);
            strcpy(text[n], now);
            at = n++;
        } else if (kind == 3) {
            size_t drop = x % (len + 1);
            conversation_drop_oldest(c, drop);
            memmove(now, now + (drop == len ? strlen(now) : 2 * drop),
                    drop == len ? 1 : strlen(now + 2 * drop) + 1);
        } else {
            at = x % n;
            conversation_switch(c, conversation_find(c, names[at]));
        }
        assert_string_equal(path(c), text[at]);
    }
    conversation_free(c);
}

/* A reply of one token of that vocabulary. */
static void reply_of(struct conversation *c, uint64_t vocabulary)
{
    struct message *m = message_new(ROLE_REPLY, "A", 1);
    m->ids = mem_zalloc(1, sizeof *m->ids);
    m->id_at = mem_zalloc(2, sizeof *m->id_at);
    m->id_at[1] = 1;
    m->n_ids = 1;
    m->vocabulary = vocabulary;
    conversation_add(c, m);
}

static void test_forget_ids(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    assert_false(conversation_forget_ids(c, 1));
    say(c, "a"), reply_of(c, 1), say(c, "b"), reply_of(c, 2);
    assert_false(conversation_forget_ids(c, 1)); /* one is of it */
    assert_int_equal(conversation_at(c, 1)->n_ids, 1);
    assert_int_equal(conversation_at(c, 3)->n_ids, 0);
    assert_true(conversation_forget_ids(c, 2));
    assert_int_equal(conversation_at(c, 1)->n_ids, 0);
    assert_false(conversation_forget_ids(c, 2)); /* there are none any more */
    conversation_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path),       cmocka_unit_test(test_system),
        cmocka_unit_test(test_fork),       cmocka_unit_test(test_marks),
        cmocka_unit_test(test_trim),       cmocka_unit_test(test_drop_from_long),
        cmocka_unit_test(test_bounded),    cmocka_unit_test(test_random),
        cmocka_unit_test(test_forget_ids), cmocka_unit_test(test_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
