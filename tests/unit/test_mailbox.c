#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "engine/mailbox.h"

enum { N_EVENTS = 2000 }; /* several times the ring: the writer has to wait */

static void *writer(void *arg)
{
    struct mailbox *box = arg;
    for (unsigned i = 0; i < N_EVENTS; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "event %u", i);
        mailbox_post(box,
                     &(struct engine_event){
                         .kind = EVENT_TEXT, .done = i, .text = text, .text_len = (size_t)n});
    }
    return NULL;
}

static void test_order(void **state)
{
    (void)state;
    struct err err;
    struct mailbox *box = mailbox_new(&err);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, writer, box), 0);
    for (unsigned i = 0; i < N_EVENTS; i++) {
        struct engine_event event;
        char want[32];
        snprintf(want, sizeof want, "event %u", i);
        assert_true(mailbox_next(box, -1, &event));
        assert_int_equal(event.done, i);
        assert_string_equal(event.text, want);
        assert_int_equal(event.text_len, strlen(want));
    }
    pthread_join(t, NULL);
    struct engine_event event;
    assert_false(mailbox_next(box, 0, &event));
    mailbox_free(box);
}

static void *hang_up(void *arg)
{
    poll(NULL, 0, 20);
    mailbox_hang_up(arg);
    return NULL;
}

static void test_nobody_reads(void **state)
{
    (void)state;
    struct err err;
    struct mailbox *box = mailbox_new(&err);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, hang_up, box), 0);
    writer(box); /* would wait for ever on the full ring */
    pthread_join(t, NULL);
    mailbox_free(box);
}

static void test_long_text(void **state)
{
    (void)state;
    struct err err;
    struct mailbox *box = mailbox_new(&err);
    char text[10001], got[10001];
    for (size_t i = 0; i + 3 <= 9999; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    mailbox_post(box,
                 &(struct engine_event){.kind = EVENT_TEXT, .text = text, .text_len = 9999});
    size_t len = 0;
    struct engine_event event;
    while (mailbox_next(box, 0, &event)) {
        assert_true(utf8_valid(event.text, event.text_len));
        memcpy(got + len, event.text, event.text_len);
        len += event.text_len;
    }
    assert_int_equal(len, 9999);
    assert_memory_equal(got, text, 9999);
    mailbox_free(box);
}

static void test_descriptor(void **state)
{
    (void)state;
    struct err err;
    struct mailbox *box = mailbox_new(&err);
    struct pollfd p = {.fd = mailbox_fd(box), .events = POLLIN};
    struct engine_event event;
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_false(mailbox_next(box, 1, &event));
    mailbox_post(box, &(struct engine_event){.kind = EVENT_READY});
    mailbox_post(box, &(struct engine_event){.kind = EVENT_END});
    assert_int_equal(poll(&p, 1, 0), 1);
    assert_true(mailbox_next(box, 0, &event));
    assert_int_equal(event.kind, EVENT_READY);
    assert_string_equal(event.text, "");
    assert_int_equal(poll(&p, 1, 0), 1);
    assert_true(mailbox_next(box, 0, &event));
    assert_int_equal(poll(&p, 1, 0), 0);
    mailbox_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_nobody_reads),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
