/* A reply as a message: gone on with, and edited. Whatever was done to it, its places lie
 * within its text, without which a session would not be read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "engine/engine.h"

/* What the engine made: text in one token, of which [at, at + len) is reasoning. */
static struct message *join(const struct message *base, const char *text, size_t content_at,
                            size_t at, size_t len)
{
    static const int32_t id = 7;
    const size_t id_at[] = {0, strlen(text)};
    struct message *m = reply_join(base, &(struct engine_reply){.ids = &id,
                                                                .n_ids = 1,
                                                                .text = text,
                                                                .text_len = strlen(text),
                                                                .id_at = id_at,
                                                                .content_at = content_at,
                                                                .reasoning_at = at,
                                                                .reasoning_len = len});
    m->answer = mem_strndup(m->text + m->content_at, m->len - m->content_at);
    m->answer_len = m->len - m->content_at;
    return m;
}

static void edited(struct message *old, const char *s, const char *text, const char *reasoning)
{
    struct message *m = reply_edited(old, s, strlen(s));
    assert_string_equal(m->text, text);
    assert_string_equal(m->answer, s);
    assert_in_range(m->content_at, 0, m->len);
    assert_in_range(m->reasoning_at + m->reasoning_len, 0, m->len);
    assert_int_equal(m->reasoning_len, strlen(reasoning));
    assert_memory_equal(m->text + m->reasoning_at, reasoning, m->reasoning_len);
    assert_in_range(m->id_at[m->n_ids], 0, m->len);
    message_release(m);
    message_release(old);
}

static void test_continued(void **unused)
{
    (void)unused;
    struct message *first = join(NULL, "Each layer has two pa", 0, 0, 0);
    struct message *m = join(first, "rts.", 0, 0, 0);
    assert_string_equal(m->text, "Each layer has two parts.");
    assert_int_equal(m->reasoning_len, 0);
    message_release(first);
    edited(m, "Each", "Each", "");
}

static void test_reasoning(void **unused)
{
    (void)unused;
    edited(join(NULL, "<think>hm</think>Yes, it is.", 17, 7, 2), "No", "<think>hm</think>No",
           "hm");
    /* It broke off and went on. */
    struct message *first = join(NULL, "<think>h", 8, 7, 1);
    struct message *m = join(first, "m</think>Yes, it is.", 9, 0, 1);
    assert_int_equal(m->content_at, 17);
    message_release(first);
    edited(m, "No", "<think>hm</think>No", "hm");
    /* It began where a reply that was cut off went on. */
    first = join(NULL, "", 0, 0, 0);
    m = join(first, "<think>hm</think>Yes, it is.", 17, 7, 2);
    message_release(first);
    edited(m, "No", "<think>hm</think>No", "hm");
}

/* Behind words of the answer: what is put in its place has none. */
static void test_reasoning_within(void **unused)
{
    (void)unused;
    edited(join(NULL, "Yes, it is.<think>hm", 0, 18, 2), "No", "No", "");
    struct message *first = join(NULL, "Yes, it is.", 0, 0, 0);
    struct message *m = join(first, "<think>hm", 0, 7, 2);
    message_release(first);
    edited(m, "No", "No", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_continued),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_reasoning_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
